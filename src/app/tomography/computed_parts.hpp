// Common to computed projections and backprojections: positions, the choice of fast kernels, work space.
#pragma once

#include "computed.hpp"

#include <tacit/base/trace.hpp>
#include <tacit/exec/tasks.hpp>

#include "lanes.hpp"

#include <array>
#include <cmath>
#include <mutex>
#include <type_traits>

namespace tacit::app::tomography {

__extension__ typedef __int128 Fixed;  // a fixed-point number: 64 bits of integer, 64 of fraction

inline Fixed fixed(long double v) {
  constexpr long double far = 1e12L;  // values are clamped to this, beyond any image
  v = std::clamp(v, -far, far);
  const long double whole = std::floor(v);
  return Fixed(std::int64_t(whole)) * (Fixed(1) << 64) + Fixed(std::uint64_t(std::ldexp(v - whole, 64)));
}
inline std::int64_t whole(Fixed f) {
  return std::int64_t(f >> 64);
}
template <class T>
inline typename Lanes<T>::Bits fraction_bits(Fixed f) {
  return typename Lanes<T>::Bits(std::uint64_t(f) >> (64 - 8 * sizeof(T) + Lanes<T>::digits));
}
// The position (Lanes) of a Fixed: the low bits of its integer, and the high bits of its fraction.
template <class T>
inline typename Lanes<T>::Bits position(Fixed f) {
  return typename Lanes<T>::Bits(f >> (64 - 8 * sizeof(T) + Lanes<T>::digits));
}

inline constexpr Local pad = 64;  // zeros on both sides of a row, more than a window
template <class T>
inline constexpr int half_bits =
    4 * int(sizeof(T));  // fractions are up to 2^(2 half_bits): vectors are scaled by 2^-half_bits for that
template <class T>
inline constexpr double one = sizeof(T) == 4 ? 0x1p32 : 0x1p64;
inline constexpr double steepest = 1.0 / 256;  // least slope: errors of positions are multiplied by up to 256

// The length of a row with margins: an odd number of cache lines, so that rows do not fall in the same cache sets.
template <class T>
std::size_t row_length(Local n) {
  constexpr std::size_t line = std::size_t(Lanes<T>::count);
  return ((std::size_t(n) + 2 * pad + line - 1) / line | 1) * line;
}

// Whether the candidates of all lanes, whose positions are `spacing` apart, lie in one window.
template <class T>
bool fits(double spacing, int candidates) {
  return (Lanes<T>::count - 1) * std::abs(spacing) + candidates < Lanes<T>::window - 1;
}
template <class T>
bool slanted(const Beam& b) {
  return !b.along && b.most >= steepest * std::max(std::abs(b.cos), std::abs(b.sin));
}
template <class T>
bool fast_forward(const Beam& b, double pixel) {
  return slanted<T>(b) && fits<T>(1 / (pixel * std::max(std::abs(b.cos), std::abs(b.sin))), 1);
}
template <class T>
bool fast_backward(const Beam& b, double pixel) {
  return slanted<T>(b) && 2 * b.half * pixel <= 3 && fits<T>(b.cos * pixel, 2);
}

template <class F>
void deal(std::size_t count, bool parallel, const comm::Communicator* comm, F&& f) {
  const auto polled = [&](std::size_t i) {
    f(i);
    if (comm && exec::may_poll()) comm->poll();
  };
  exec::each(count, parallel, polled, 1);
}

// Work space of products in flight, by the number of columns; kept for later products.
template <class T>
class Pool {
 public:
  using Planes = std::vector<T>;
  std::unique_ptr<Planes> take(int columns, std::size_t size) {
    {
      const std::lock_guard lock(mutex_);
      auto& kept = kept_[std::size_t(columns / 2)];
      if (!kept.empty()) {
        auto planes = std::move(kept.back());
        kept.pop_back();
        return planes;
      }
    }
    return std::make_unique<Planes>(size, T(0));
  }
  void give(int columns, std::unique_ptr<Planes> planes) {
    const std::lock_guard lock(mutex_);
    kept_[std::size_t(columns / 2)].push_back(std::move(planes));
  }

 private:
  std::mutex mutex_;
  std::array<std::vector<std::unique_ptr<Planes>>, 3> kept_;  // of 1, 2 and 4 columns
};

template <class T>
T clamped(T v, const op::Clamp<T>* clamp) {
  if (!clamp) return v;
  v += clamp->bias;
  v = clamp->low > v ? clamp->low : v;
  return clamp->high < v ? clamp->high : v;
}

// Calls f(columns, first) for 4, then 2, then 1 columns at a time.
template <class F>
void by_columns(int k, F&& f) {
  for (int c = 0; c < k;) {
    const int left = k - c;
    if (left >= 4) f(std::integral_constant<int, 4>{}, c), c += 4;
    else if (left >= 2) f(std::integral_constant<int, 2>{}, c), c += 2;
    else f(std::integral_constant<int, 1>{}, c), c += 1;
  }
}

template <class T>
class Computed : public op::LocalProduct<T> {
 public:
  explicit Computed(std::shared_ptr<const Part> part) : part_(std::move(part)) {}
  Global entries() const override { return part_->entries; }
  double largest() const override {
    double most = 0;
    if (part_->entries > 0)
      for (const Beam& b : part_->beams) most = std::max(most, b.largest() * part_->geometry.pixel);
    return most;
  }
  std::string storage() const override { return message("computed, ", scalar_name<T>()); }

 protected:
  double bytes_of_places() const {
    return double(sizeof(Local)) * (double(part_->ray_at.size()) + double(part_->pixel_at.size()));
  }
  template <class Run>
  void traced(int k, Run&& run) const {
    const bool watched = Trace::on();
    const Span span("computed product", "op", watched ? std::int64_t(this->bytes()) : 0);
    if (watched)
      Trace::work("computed product",
                  this->bytes() + double(sizeof(T)) * k * (double(this->columns()) + double(this->rows())),
                  this->flops() * k);
    run();
  }
  std::shared_ptr<const Part> part_;
};

}  // namespace tacit::app::tomography
