#include "exec/backoff.hpp"

#include <algorithm>
#include <thread>

namespace tacit::exec {
namespace {
using namespace std::chrono_literals;
// Until then this thread assumes that other threads want its processor.
thread_local std::chrono::steady_clock::time_point crowded_until{};
}  // namespace

void Backoff::pause() noexcept {
  // What is done between two pauses may take long (a call of MPI over TCP, microseconds): the spinning ends by time,
  // too.
  if (++turns_ == 1) begin_ = Clock::now();
  if (turns_ <= spins && (turns_ % 8 != 0 || Clock::now() - begin_ < 20us)) return relax_processor();
  turns_ = spins;
  const auto now = Clock::now();
  const auto waited = now - begin_;
  if (now < crowded_until) {
    std::this_thread::sleep_for(std::clamp<Clock::duration>(waited / 8, 20us, 1ms));
  } else if (waited > 5ms) {
    std::this_thread::sleep_for(std::clamp<Clock::duration>(waited / 64, 20us, 1ms));
  } else {
    std::this_thread::yield();
    if (const auto then = Clock::now(); then - now > 300us) crowded_until = then + 50ms;
  }
}

}  // namespace tacit::exec
