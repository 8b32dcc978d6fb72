// How a thread waits for another one.
#pragma once

#include <chrono>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace tacit::exec {

/// The processor's hint for a spinning thread.
inline void relax_processor() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  _mm_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("yield");
#endif
}

/// pause() is called between two checks of the awaited condition. It spins first, then yields, and sleeps in short
/// steps once it has waited for long or where other threads have used the processor for long: a sleeping thread is
/// scheduled sooner, and does not take the processor from the thread it waits for.
class Backoff {
 public:
  void pause() noexcept;

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr int spins = 128;
  int turns_ = 0;
  Clock::time_point begin_{};
};

}  // namespace tacit::exec
