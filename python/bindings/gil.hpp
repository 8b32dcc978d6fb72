// Releases and acquires the GIL on threads that may outlive the interpreter.
//
// Before 3.14 Python ends a daemon thread that requests the GIL while the interpreter ends by pthread_exit, which
// unwinds the C++ frames of this thread and so ends in std::terminate: the process aborts. Here such a thread stays
// where it is, without the GIL, until the process is gone; from 3.14 on Python does the same. nanobind's guards do not.
#pragma once

#include <nanobind/nanobind.h>

namespace tacit::python {

/// Code without the GIL in a function that Python has called: as nb::gil_scoped_release.
class WithoutGil {
 public:
  WithoutGil() noexcept;
  ~WithoutGil();
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

/// Python code on any thread: as nb::gil_scoped_acquire.
class WithGil {
 public:
  WithGil() noexcept;
  ~WithGil();
  WithGil(const WithGil&) = delete;
  WithGil& operator=(const WithGil&) = delete;

 private:
  bool counted_;
  PyGILState_STATE state_;
};

/// Whether this thread has the GIL. PyGILState_Check is not in the stable ABI; a thread of Python's has the GIL
/// wherever it is not within WithoutGil.
bool holds_gil() noexcept;

/// Does not return if the interpreter has ended, or is ending on another thread, since nobody needs the result of this
/// thread then. Called at intervals by long computations.
void stay_if_python_ends() noexcept;

/// To be called once, when the module is imported. Makes the end of the interpreter wait, for two seconds at most,
/// until threads in Tacit's code have stopped; they would otherwise use objects that the process is destroying.
void watch_the_end_of_python();

}  // namespace tacit::python
