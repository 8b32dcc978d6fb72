// Entries divided by a power of two, so that the squares of all of them stay in range.
#pragma once

#include <tacit/comm/communicator.hpp>

#include "sampled_rows.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>

namespace tacit::op::detail {

template <Scalar T>
class ScaledEntries {
 public:
  explicit ScaledEntries(const EntryFunction<T>& entry) : entry_(entry) {}
  void set(const SampledScale& scale) { scaled_ = scale.scaled, exponent_ = scale.exponent, norm_ = scale.norm; }

  /// Whether entries are divided by 2^exponent().
  bool scaled() const { return scaled_; }
  int exponent() const { return exponent_; }
  /// The norm of the matrix in these units: estimated, until it is set.
  double norm() const { return norm_; }
  void set_norm(double norm) { norm_ = norm; }

  EntryFunction<T> function() {
    if (!scaled_) return entry_;
    return [this](std::span<const Global> rows, std::span<const Global> columns, T* out) { get(rows, columns, out); };
  }

  /// Whether entries are so much larger than the sampled rows showed that what was made of them has to be made again;
  /// then changes the scale. norm2: the squared norm of what was made, over all ranks. Collective.
  bool leave_the_range(const comm::Communicator& comm, double norm2) {
    if (!scaled_) {
      if (std::isfinite(norm2)) return false;
      scaled_ = true;
      return true;
    }
    const auto top = int(comm.all_max(Global(top_.load())));
    if (top == none || top <= exponent_ + safe) return false;
    norm_ = std::ldexp(norm_, exponent_ - top);
    exponent_ = top;
    return true;
  }

 private:
  using R = real_t<T>;
  static constexpr int safe = safe_exponent<R>;

  void get(std::span<const Global> rows, std::span<const Global> columns, T* out) {
    entry_(rows, columns, out);
    const std::size_t count = rows.size() * columns.size();
    auto* const parts = reinterpret_cast<R*>(out);
    int top = none;
    for (std::size_t k = 0; k < count * (sizeof(T) / sizeof(R)); ++k) {
      if (!std::isfinite(parts[k]) || parts[k] == R(0)) continue;
      const int e = std::ilogb(parts[k]);
      top = std::max(top, e);
      // Entries that are still too large are detected by leave_the_range(), and what was made of them is made again.
      parts[k] = std::ldexp(parts[k], std::min(-exponent_, safe - e));
    }
    for (int before = top_.load(); before < top && !top_.compare_exchange_weak(before, top);) {
    }
  }

  const EntryFunction<T>& entry_;
  bool scaled_ = false;
  int exponent_ = 0;
  double norm_ = 0;
  std::atomic<int> top_ = none;  // the largest exponent of an evaluated entry, if scaled
};

}  // namespace tacit::op::detail
