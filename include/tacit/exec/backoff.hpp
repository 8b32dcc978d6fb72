// How a thread waits for what another one is about to do.
#pragma once

#include <chrono>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace tacit::exec {

/// Says to the processor that this thread spins.
inline void relax_processor() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  _mm_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("yield");
#endif
}

/// pause() between two looks at what is waited for: spins first; then lets other threads run; and sleeps, a little at a
/// time, once it has waited for long or where others have taken the processor for long: who sleeps is sooner given a
/// processor again, and does not take it from the one it waits for.
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
