// Common to computed projections and backprojections: positions, the choice of fast kernels, work space.
#pragma once

#include "computed.hpp"

#include <tacit/base/trace.hpp>

#include "deal.hpp"
#include "lanes.hpp"

#include <array>
#include <cmath>
#include <mutex>
#include <type_traits>
#include <utility>

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

// An angle with a fast kernel for A. Ray j meets row l of the box (column, where it is not steep) at the position at +
// l by_row + j by_ray; at position p it is in the pixels floor(p) - 1 and floor(p).
template <class T>
struct Line {
  Local angle;
  bool steep;
  Fixed at, by_row, by_ray;
  double start, step, spacing;  // the same in double
  T most;                       // the fraction of a position from which a ray is in the last of its two pixels only
  double whole, part;           // factors from sums to lengths
  double reach;  // half the width of the image's shadow: rays beyond are set to 0, without rounding errors
};
template <class T>
Line<T> line_of(const Part& p, Local angle) {
  const auto& g = p.geometry;
  const Beam& b = p.beams[std::size_t(angle)];
  const bool steep = b.steep();
  const long double main = steep ? b.cos : b.sin, other = steep ? b.sin : b.cos, bins = g.pixel;
  const long double first = (0.5L - g.centre) / bins, reach = b.half / std::abs(main);
  const long double at = steep ? reach - p.left() - p.box.left + (first - (p.top() - p.box.top) * other) / main
                               : reach + p.top() - p.box.top - (first - (p.left() + p.box.left) * other) / main;
  const long double by_row = other / main, by_ray = (steep ? 1 : -1) / (bins * main);
  const double slant = std::abs(double(by_row)), length = g.pixel / std::abs(double(main));
  const T most = T(slant * one<T>);
  return {angle,
          steep,
          fixed(at),
          fixed(by_row),
          fixed(by_ray),
          double(at),
          double(by_row),
          double(by_ray),
          most,
          std::ldexp(length, half_bits<T>),
          std::ldexp(length / double(most), half_bits<T>),
          0.5 * (g.width * std::abs(b.cos) + g.height * std::abs(b.sin)) - shortest / b.slope};
}

// An angle with a fast kernel for A^T. The shadow of pixel (x, y) of the box ends at the position at + x by_x + y by_y
// on the detector: just beyond ray floor(p) or at it.
template <class T>
struct Shadow {
  Local angle;
  Fixed at, by_x, by_y;
  T most, rest;  // the largest length in units of the slope; the width of the shadow less one bin
  double scale;
};
template <class T>
Shadow<T> shadow_of(const Part& p, Local angle) {
  const auto& g = p.geometry;
  const Beam& b = p.beams[std::size_t(angle)];
  const double width = 2 * b.half * g.pixel, top = b.most * g.pixel;
  const long double c = (long double)b.cos * g.pixel, s = (long double)b.sin * g.pixel;
  const long double at = (p.left() + p.box.left) * c + (p.top() - p.box.top) * s + g.centre - 0.5L + width / 2;
  const T most = T(top * one<T>), rest = T((width - 1) * one<T>);
  // The scale corrects for the rounding of `most` and `rest`: errors that all pixels of an angle have in common harm
  // conjugate gradients much more than others of their size.
  const double rounded = double(most) * (one<T> + double(rest) - double(most)) / (one<T> * one<T>);
  return {angle,
          fixed(at),
          fixed(c),
          fixed(-s),
          most,
          rest,
          std::ldexp(b.slope * top * (width - top) / rounded, -half_bits<T>)};
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

/// The widest pass: four registers of columns. Passes of fewer than `least_wide` columns do not pay for the lengths.
template <class T>
inline constexpr int most_wide = 4 * Lanes<T>::count;
template <class T>
inline constexpr int least_wide = 2 * Lanes<T>::count;

// Calls f(columns, first) for as many columns at a time as there are: most_wide, least_wide, then 4, 2, 1.
template <class T, class F>
void by_columns(int k, F&& f) {
  for (int c = 0; c < k;) {
    const auto pass = [&]<int m>(std::integral_constant<int, m> columns) {
      if (k - c < m) return false;
      f(columns, c), c += m;
      return true;
    };
    const auto first_that_fits = [&]<int... m>(std::integer_sequence<int, m...>) {
      (void)(pass(std::integral_constant<int, m>{}) || ...);
    };
    first_that_fits(std::integer_sequence<int, most_wide<T>, least_wide<T>, 4, 2, 1>{});
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
