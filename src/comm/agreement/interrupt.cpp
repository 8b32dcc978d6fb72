#include "interrupt.hpp"

#include <tacit/comm/agreement/failure.hpp>
#include "base/forks.hpp"

#include <chrono>
#include <mutex>

namespace tacit::comm {
namespace {
std::mutex interrupt_mutex;
[[maybe_unused]] const int held_over_forks = hold_over_forks<+[]() -> std::mutex& { return interrupt_mutex; }>();
std::function<bool()> interrupt_check;
}  // namespace

void set_interrupt_check(std::function<bool()> check) {
  std::lock_guard lock(interrupt_mutex);
  interrupt_check = std::move(check);
}

namespace detail {

bool time_to_ask() {
  using clock = std::chrono::steady_clock;
  static thread_local clock::time_point last{};
  const auto now = clock::now();
  if (now - last < std::chrono::milliseconds(50)) return false;
  last = now;
  return true;
}

void ask_user() {
  std::function<bool()> ask;
  {
    std::lock_guard lock(interrupt_mutex);
    ask = interrupt_check;
  }
  if (ask && ask()) throw Error(ErrorKind::interrupted, "interrupted by the user");
}

}  // namespace detail
}  // namespace tacit::comm
