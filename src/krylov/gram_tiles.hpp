// V^H V of columns whose rows come block after block, in tiles of sums in registers.
//
//   tiles.begin(columns);  tiles.add(v, n) for each block;  tiles.add_to(sums);
#pragma once

#include <tacit/exec/pairs.hpp>
#include "base/lanes.hpp"
#include "base/registers.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

namespace tacit::krylov {

/// Sums of products of columns. Real numbers are summed lane by lane; of complex columns the real and the imaginary
/// parts are columns of their own. Sums depend on the blocks, not on where they are in memory.
template <Scalar T>
class GramTiles {
 public:
  using W = exec::wide_t<T>;

  /// Starts sums of so many columns.
  void begin(int columns);
  /// Adds n rows of them; column c begins at v[c]. weight: multiplies the rows of the first `weighted` columns;
  /// null: 1.
  void add(const T* const* v, std::ptrdiff_t n, const T* weight = nullptr, int weighted = 0);
  /// to[b (b + 1) / 2 + a] += (v_a, v_b), a <= b
  void add_to(W* to) const;

 private:
  using R = real_t<T>;
  static constexpr int parts = is_complex<T> ? 2 : 1;
  static constexpr int lanes = register_bytes / int(sizeof(R));
  static constexpr int tile = 4;                                // columns
  static constexpr int at_once = register_bytes == 64 ? 4 : 2;  // rows of a tile, limited by the registers
  static constexpr std::ptrdiff_t rows = 128;                   // of all columns, which stay in the first-level cache
  typedef R V __attribute__((vector_size(register_bytes)));

  template <int I, int J, bool triangle>
  [[gnu::noinline]] static void multiply(const R* const* a, const R* const* b, std::ptrdiff_t n, double* sums);
  void add_rows(const R* const* v, std::ptrdiff_t n);
  /// Rows of column c, one of the real columns of this one, into an array; with weights times these.
  static void lay_out(const T* v, int c, std::ptrdiff_t n, const T* weight, R* to);
  double* sums_of(int a, int b) { return sums_.data() + std::ptrdiff_t(b * (b + 1) / 2 + a) * tile * tile * lanes; }
  int tiles() const { return (reals_ + tile - 1) / tile; }
  /// The sum of products of two columns of real numbers, a <= b.
  double sum(int a, int b) const;

  int reals_ = 0;
  std::vector<double> sums_;  // of each tile of the upper triangle, tile x tile x lanes
  std::vector<R> laid_out_;
  std::vector<const R*> column_;
};

template <Scalar T>
void GramTiles<T>::begin(int columns) {
  reals_ = columns * parts;
  sums_.assign(std::size_t(tiles() * (tiles() + 1) / 2) * tile * tile * lanes, 0.0);
  laid_out_.resize(std::size_t(reals_) * rows);
  column_.resize(std::size_t(tiles() * tile));
}

/// sums[i tile + j] += a_i b_j lane by lane; with `triangle` only those for i <= j.
template <Scalar T>
template <int I, int J, bool triangle>
void GramTiles<T>::multiply(const R* const* a, const R* const* b, std::ptrdiff_t n, double* sums) {
  constexpr int step = std::min(I, at_once);
  static_assert(I % step == 0);
  const auto load = [](const R* from) {
    V v;
    std::memcpy(&v, from, sizeof v);
    return v;
  };
#pragma GCC unroll 4
  for (int first = 0; first < I; first += step) {
    V acc[step][J] = {};
    for (std::ptrdiff_t row = 0; row < n; row += lanes) {
      V left[step];
#pragma GCC unroll 4
      for (int i = 0; i < step; ++i) left[i] = load(a[first + i] + row);
#pragma GCC unroll 4
      for (int j = 0; j < J; ++j) {
        const V right = load(b[j] + row);
#pragma GCC unroll 4
        for (int i = 0; i < step; ++i)
          if (!triangle || first + i <= j) acc[i][j] = mul_add(left[i], right, acc[i][j]);
      }
    }
#pragma GCC unroll 4
    for (int i = 0; i < step; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < J; ++j) {
        if (triangle && first + i > j) continue;
        double* const to = sums + ((first + i) * tile + j) * lanes;
        if constexpr (std::same_as<R, double>) {
          const V sum = load(to) + acc[i][j];
          std::memcpy(to, &sum, sizeof sum);
        } else {
          R apart[lanes];
          std::memcpy(apart, &acc[i][j], sizeof apart);
          for (int l = 0; l < lanes; ++l) to[l] += double(apart[l]);
        }
      }
  }
}

template <Scalar T>
void GramTiles<T>::add_rows(const R* const* v, std::ptrdiff_t n) {
  for (int b = 0; b < tiles(); ++b) {
    const bool whole = reals_ - b * tile > tile / 2;
    for (int a = 0; a <= b; ++a) {
      const R *const *left = v + a * tile, *const *right = v + b * tile;
      double* const sums = sums_of(a, b);
      if (a == b) whole ? multiply<tile, tile, true>(left, right, n, sums) : multiply<2, 2, true>(left, right, n, sums);
      else if (whole) multiply<tile, tile, false>(left, right, n, sums);
      else multiply<tile, 2, false>(left, right, n, sums);
    }
  }
}

template <Scalar T>
void GramTiles<T>::lay_out(const T* v, int c, std::ptrdiff_t n, const T* weight, R* to) {
  const R *const x = reinterpret_cast<const R*>(v), *const w = reinterpret_cast<const R*>(weight);
  const int part = c % parts;
  if (!weight)
    for (std::ptrdiff_t i = 0; i < n; ++i) to[i] = x[i * parts + part];
  else if constexpr (!is_complex<T>)
    for (std::ptrdiff_t i = 0; i < n; ++i) to[i] = w[i] * x[i];
  else if (part == 0)
    for (std::ptrdiff_t i = 0; i < n; ++i) to[i] = w[2 * i] * x[2 * i] - w[2 * i + 1] * x[2 * i + 1];
  else
    for (std::ptrdiff_t i = 0; i < n; ++i) to[i] = w[2 * i] * x[2 * i + 1] + w[2 * i + 1] * x[2 * i];
}

template <Scalar T>
void GramTiles<T>::add(const T* const* v, std::ptrdiff_t n, const T* weight, int weighted) {
  for (std::ptrdiff_t from = 0; from < n; from += rows) {
    const std::ptrdiff_t here = std::min(rows, n - from), padded = (here + lanes - 1) / lanes * lanes;
    for (int c = 0; c < reals_; ++c) {
      const T* const column = v[c / parts] + from;
      const bool with_weight = weight && c / parts < weighted;
      if (parts == 1 && padded == here && !with_weight) {
        column_[std::size_t(c)] = reinterpret_cast<const R*>(column);
        continue;
      }
      R* const to = laid_out_.data() + std::ptrdiff_t(c) * rows;
      lay_out(column, c, here, with_weight ? weight + from : nullptr, to);
      std::fill(to + here, to + padded, R(0));
      column_[std::size_t(c)] = to;
    }
    // Tiles beyond the last column repeat it; their sums are not used.
    std::fill(column_.begin() + reals_, column_.end(), column_[std::size_t(reals_ - 1)]);
    add_rows(column_.data(), padded);
  }
}

template <Scalar T>
double GramTiles<T>::sum(int a, int b) const {
  const double* const of =
      const_cast<GramTiles*>(this)->sums_of(a / tile, b / tile) + (a % tile * tile + b % tile) * lanes;
  double sum = 0;
  for (int l = 0; l < lanes; ++l) sum += of[l];
  return sum;
}

template <Scalar T>
void GramTiles<T>::add_to(W* to) const {
  for (int b = 0; b < reals_ / parts; ++b)
    for (int a = 0; a <= b; ++a, ++to) {
      if constexpr (!is_complex<T>) {
        *to += sum(a, b);
      } else {
        const double crossed = a == b ? 0 : sum(2 * a + 1, 2 * b);
        *to += W(sum(2 * a, 2 * b) + sum(2 * a + 1, 2 * b + 1), a == b ? 0 : sum(2 * a, 2 * b + 1) - crossed);
      }
    }
}

}  // namespace tacit::krylov
