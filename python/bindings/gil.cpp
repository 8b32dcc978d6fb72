#include "gil.hpp"

#include <atomic>
#include <chrono>
#include <thread>

#include <pthread.h>

namespace tacit::python {
namespace {

namespace nb = nanobind;

std::atomic<int> at_work{0};          // threads of Python that are within WithoutGil
thread_local bool counted = false;    // whether this thread is one of them
std::atomic<bool> ended{false};       // the interpreter has ended
std::atomic<unsigned long> ender{0};  // the thread that ends the interpreter; 0 while none is known

void count(bool now) noexcept {
  if (now != counted) at_work += now ? 1 : -1;
  counted = now;
}

[[noreturn]] void stay() noexcept {
  count(false);
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

bool python_ends() noexcept {
  if (ended) return true;
  const auto by = ender.load();
  return !Py_IsInitialized() && by != 0 && by != PyThread_get_thread_ident();
}

}  // namespace

bool holds_gil() noexcept {
  return !counted && Py_IsInitialized() && PyGILState_GetThisThreadState() != nullptr;
}

void stay_if_python_ends() noexcept {
  if (python_ends()) stay();
}

WithoutGil::WithoutGil() noexcept : state_(PyEval_SaveThread()) {
  count(true);
}
WithoutGil::~WithoutGil() {
  count(false);
  stay_if_python_ends();
  try {
    PyEval_RestoreThread(state_);
  } catch (...) {  // the unwinding of pthread_exit, which must not leave this function
    stay();
  }
}

WithGil::WithGil() noexcept : counted_(counted) {
  count(false);
  stay_if_python_ends();
  try {
    state_ = PyGILState_Ensure();
  } catch (...) {
    stay();
  }
}
WithGil::~WithGil() {
  PyGILState_Release(state_);
  count(counted_);
}

void watch_the_end_of_python() {
  // Python calls these functions on the thread that ends the interpreter.
  nb::module_::import_("atexit").attr("register")(nb::cpp_function([] { ender = PyThread_get_thread_ident(); }));
  // Runs last, because a program's own functions at exit may wait for its threads.
  Py_AtExit([] {
    using clock = std::chrono::steady_clock;
    ended = true;
    for (const auto limit = clock::now() + std::chrono::seconds(2); at_work > 0 && clock::now() < limit;)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  pthread_atfork(nullptr, nullptr, [] { at_work = counted; });
}

}  // namespace tacit::python
