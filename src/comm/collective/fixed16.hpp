// Messages of whole numbers in 16 bits: a block of up to 64 rows of values begins with a row of exponents, one for each
// column.
#pragma once

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace tacit::comm::detail {

class Fixed16 {
 public:
  static constexpr std::size_t block = 64;
  /// Rows of a message of n rows of values.
  static constexpr std::size_t rows(std::size_t n) { return n + (n + block - 1) / block; }

  explicit Fixed16(int columns)
      : k_(std::size_t(columns)), carry_(k_), step_(k_), inverse_(k_), bound_(k_), exact_(k_) {}

  /// Packs rows row(0) to row(n - 1) of k values into rows(n) rows of `out`.
  template <class Row>
  void pack(std::size_t n, const Row& row, std::int16_t* out) {
    std::fill(carry_.begin(), carry_.end(), 0.0f);
    for (std::size_t from = 0; from < n; from += block) {
      const std::size_t to = std::min(n, from + block);
      const bool all_finite = choose_steps(from, to, row, out);
      out += k_;
      for (std::size_t i = from; i < to; ++i, out += k_) {
        round_row(row(i), out);
        if (!all_finite) mark(row(i), out);
      }
    }
  }

  /// Calls take(i, values) for rows 0 to n - 1 of a packed message.
  template <class Take>
  void unpack(std::size_t n, const std::int16_t* in, const Take& take) {
    std::vector<float>& values = exact_;
    for (std::size_t from = 0; from < n; from += block) {
      bool all_finite = true;
      for (std::size_t c = 0; c < k_; ++c) {
        all_finite = all_finite && in[c] < marked / 2;
        step_[c] = std::ldexp(1.0f, in[c] < marked / 2 ? in[c] : in[c] - marked);
      }
      in += k_;
      for (std::size_t i = from; i < std::min(n, from + block); ++i, in += k_) {
        for (std::size_t c = 0; c < k_; ++c) values[c] = step_[c] * float(in[c]);
        if (!all_finite) unmark(in, values.data());
        take(i, values.data());
      }
    }
  }

 private:
  // Numbers of values that are not finite; the others are at most `largest` in size. Blocks with such values have
  // `marked` added to their exponent.
  static constexpr std::int16_t largest = 32766, infinite = 32767, none = -32768, marked = 4096;

  // Writes the exponents of a block; false where a value is not finite.
  template <class Row>
  bool choose_steps(std::size_t from, std::size_t to, const Row& row, std::int16_t* exponent) {
    std::fill(bound_.begin(), bound_.end(), 0.0f);
    std::fill(exact_.begin(), exact_.end(), 0.0f);
    for (std::size_t i = from; i < to; ++i) {
      const float* const v = row(i);
      for (std::size_t c = 0; c < k_; ++c) {
        const float size = std::abs(v[c]);
        bound_[c] = size > bound_[c] && size <= FLT_MAX ? size : bound_[c];
        exact_[c] += v[c] - v[c];  // NaN where v is not finite, else 0
      }
    }
    bool all_finite = true;
    for (std::size_t c = 0; c < k_; ++c) {
      // The largest value is from 2^14 to 2^15 units; powers of two within the range of normal floats.
      const int e = bound_[c] > 0 ? std::max(std::ilogb(bound_[c]) - 14, -126) : -126;
      const bool finite = exact_[c] == 0;
      exponent[c] = std::int16_t(finite ? e : e + marked);
      all_finite = all_finite && finite;
      step_[c] = std::ldexp(1.0f, e), inverse_[c] = std::ldexp(1.0f, -e);
    }
    return all_finite;
  }

  // A value takes at most a unit of the carry, and zeros take nothing, so that errors reach neighbours only.
  void round_row(const float* v, std::int16_t* out) {
    constexpr float most = largest, whole = 0x1.8p23f;  // adding and subtracting it rounds to a whole number
    for (std::size_t c = 0; c < k_; ++c) {
      const float value = std::abs(v[c]) <= FLT_MAX ? v[c] : 0.0f, room = value != 0 ? step_[c] : 0.0f;
      const float part = std::max(std::min(carry_[c], room), -room);
      const float scaled = std::max(std::min(value * inverse_[c] + part * inverse_[c], most), -most);
      const float number = (scaled + whole) - whole;
      // Exact sums: the differences are below two units.
      carry_[c] = (carry_[c] - part) + ((value - number * step_[c]) + part);
      out[c] = std::int16_t(number);
    }
  }
  void mark(const float* v, std::int16_t* out) const {
    for (std::size_t c = 0; c < k_; ++c)
      if (!(std::abs(v[c]) <= FLT_MAX)) out[c] = v[c] > 0 ? infinite : v[c] < 0 ? -infinite : none;
  }
  void unmark(const std::int16_t* in, float* values) const {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    for (std::size_t c = 0; c < k_; ++c)
      if (in[c] == none) values[c] = std::numeric_limits<float>::quiet_NaN();
      else if (in[c] == infinite || in[c] == -infinite) values[c] = in[c] > 0 ? infinity : -infinity;
  }

  std::size_t k_;
  std::vector<float> carry_, step_, inverse_, bound_, exact_;
};

}  // namespace tacit::comm::detail
