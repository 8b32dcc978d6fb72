// Letting go of the interpreter, and asking for it again, on threads that may outlive it.
//
// Before 3.14 Python ends a daemon thread that asks for the GIL while the interpreter ends by pthread_exit, which
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

/// Does not return where the interpreter has ended, or is ending on another thread: what this thread works on is of no
/// use any more. Called now and then by what takes long.
void stay_if_python_ends() noexcept;

/// Once, when the module is imported: the end of the interpreter waits (two seconds at most) until threads in code of
/// Tacit's have come to a stop. They would go on while the process destroys what they use.
void watch_the_end_of_python();

}  // namespace tacit::python
