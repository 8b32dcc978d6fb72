// Prefetching of memory that a pass over data reads soon.
#pragma once

#include <cstddef>

namespace tacit::exec {

/// Ranges of memory that are prefetched a few cache lines at a time while the processor computes on other data: ranges
/// that are too short for the hardware prefetcher, or that it would detect too late.
class Ahead {
 public:
  void clear() { count_ = now_ = 0, left_ = 0; }
  /// At most 8 ranges.
  void add(const void* from, std::ptrdiff_t bytes) {
    if (bytes <= 0) return;
    begin_[count_] = static_cast<const char*>(from);
    end_[count_] = begin_[count_] + bytes;
    ++count_;
    left_ += bytes / line + 1;
  }
  /// Spreads the prefetches evenly over n calls of fetch().
  void share(std::ptrdiff_t n) { quota_ = n > 0 ? (left_ + n - 1) / n : left_; }
  void fetch() {
    for (std::ptrdiff_t n = quota_; now_ < count_; ++now_) {
      const char*& p = begin_[now_];
      for (; p < end_[now_] && n > 0; p += line, --n) __builtin_prefetch(p, 0, 2);
      if (p < end_[now_]) return;
    }
  }

 private:
  static constexpr std::ptrdiff_t line = 64;
  const char *begin_[8], *end_[8];
  int count_ = 0, now_ = 0;
  std::ptrdiff_t left_ = 0, quota_ = 0;
};

}  // namespace tacit::exec
