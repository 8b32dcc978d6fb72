// Adaptive cross approximation of a block given by its entries: pivoting, verification and stopping criteria.
#pragma once

#include <tacit/base/error.hpp>
#include <tacit/op/hmatrix/block_maker.hpp>
#include <tacit/op/hmatrix/hash.hpp>

#include "kernels.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace tacit::op::detail {

// The squared norm, in double, since squares of floats can leave the range of float.
template <Scalar T>
double norm2(const T* v, Local n) {
  double sum(0);
  const auto* const parts = reinterpret_cast<const real_t<T>*>(v);
#pragma omp simd reduction(+ : sum)
  for (Local i = 0; i < n * Local(sizeof(T) / sizeof(real_t<T>)); ++i) sum += double(parts[i]) * double(parts[i]);
  return sum;
}
template <Scalar T>
auto dot(const T* a, const T* b, Local n) {
  if constexpr (is_complex<T>) {
    double re(0), im(0);
#pragma omp simd reduction(+ : re, im)
    for (Local i = 0; i < n; ++i) {
      const double a_re = a[i].real(), a_im = a[i].imag(), b_re = b[i].real(), b_im = b[i].imag();
      re += a_re * b_re + a_im * b_im;
      im += a_re * b_im - a_im * b_re;
    }
    return std::complex<double>(re, im);
  } else {
    double sum(0);
#pragma omp simd reduction(+ : sum)
    for (Local i = 0; i < n; ++i) sum += double(a[i]) * double(b[i]);
    return sum;
  }
}
// The modulus; where its square overflows or underflows, |re| + |im|, which orders pivots as well.
template <Scalar T>
real_t<T> magnitude(const T& v) {
  if constexpr (is_complex<T>) {
    const double re = std::abs(double(v.real())), im = std::abs(double(v.imag())), square = re * re + im * im;
    return real_t<T>(square > 1e-290 ? std::sqrt(square) : re + im);
  } else {
    return std::abs(v);
  }
}
template <Scalar T>
real_t<T> largest_of(const T* v, Local n) {
  real_t<T> most(0);
#pragma omp simd reduction(max : most)
  for (Local i = 0; i < n; ++i) most = std::max(most, magnitude(v[i]));
  return most;
}
template <Scalar T>
void axpy(T alpha, const T* x, T* y, Local n) {
#pragma omp simd
  for (Local i = 0; i < n; ++i) y[i] += alpha * x[i];
}

// y -= sum over l of c[l] x_l, with the columns of x contiguous.
template <Scalar T>
void subtract(const T* x, Local n, Local columns, T* c, T* y) {
  if constexpr (is_complex<T>) {
    for (Local l = 0; l < columns; ++l) axpy(-c[l], x + std::size_t(l) * n, y, n);
  } else if (columns > 0) {
    for (Local l = 0; l < columns; ++l) c[l] = -c[l];
    const Run run{0, std::uint32_t(columns), 1};
    multiply_add<T, T, 1, false>(x, n, n, &run, &run + 1, c, columns, y, n);
  }
}

// Error(input) naming the first entry that is not finite.
template <Scalar T>
void check_finite(std::span<const T> block, std::span<const Global> rows, std::span<const Global> columns) {
  // 0 * v is 0 for finite v and NaN otherwise, so one vectorised sum checks all entries.
  const auto* const parts = reinterpret_cast<const real_t<T>*>(block.data());
  real_t<T> zero(0);
#pragma omp simd reduction(+ : zero)
  for (std::size_t k = 0; k < block.size() * (sizeof(T) / sizeof(real_t<T>)); ++k) zero += parts[k] * real_t<T>(0);
  for (std::size_t k = 0; k < block.size() && zero != 0; ++k)
    if (!is_finite(block[k])) [[unlikely]]
      throw Error(ErrorKind::input, message("the entry at row ", rows[k % rows.size()], ", column ",
                                            columns[k / rows.size()], " is ", block[k]));
}

template <Scalar T>
class Entries {
 public:
  Entries(const EntryFunction<T>& entry, std::span<const Global> rows, std::span<const Global> columns)
      : entry_(entry), rows_(rows), columns_(columns) {}
  Local rows() const { return Local(rows_.size()); }
  Local columns() const { return Local(columns_.size()); }
  Global evaluated() const { return evaluated_; }

  void row(Local i, T* out) { get(rows_.subspan(std::size_t(i), 1), columns_, out); }
  void column(Local j, T* out) { get(rows_, columns_.subspan(std::size_t(j), 1), out); }

 private:
  void get(std::span<const Global> rows, std::span<const Global> columns, T* out) {
    entry_(rows, columns, out);
    evaluated_ += Global(rows.size() * columns.size());
    check_finite<T>({out, rows.size() * columns.size()}, rows, columns);
  }
  const EntryFunction<T>& entry_;
  std::span<const Global> rows_, columns_;
  Global evaluated_ = 0;
};

// Crosses of a block: B = sum_l u_l v_l^T + R. A row i and a column j of R with pivot R_ij give u = R(:, j) / R_ij and
// v = R(i, :), which makes row i and column j of the new R zero.
template <Scalar T>
class Crosses {
 public:
  using R = real_t<T>;
  Crosses(Entries<T>& block, Tolerance tolerance, const CompressOptions& options)
      : block_(block),
        m_(block.rows()),
        n_(block.columns()),
        tolerance_(tolerance),
        options_(options),
        row_used_(std::size_t(m_)),
        column_used_(std::size_t(n_)),
        row_(std::size_t(n_)),
        column_(std::size_t(m_)),
        hash_(Hash::of(m_, n_)) {
    tracks_norm_ = tracks_norm(tolerance, options);
    limit_ = most_crosses(m_, n_, options);
    u_.reserve(std::size_t(std::min<Local>(limit_, usual)) * std::size_t(m_));
    v_.reserve(std::size_t(std::min<Local>(limit_, usual)) * std::size_t(n_));
    enough_ = enough_crosses(m_, n_, options);
  }

  // False when the rank exceeds the limit.
  bool run() {
    Local next = first_row();
    for (;;) {
      const bool done = options_.method == Compression::aca_plus ? with_references() : with_partial_pivots(next);
      if (!done) return false;
      if (!options_.verify || options_.cut_rank > 0) return true;
      next = worst_of_sample();
      if (next < 0) return true;
      // The stopping criterion held too early: add the cross through the worst sampled row and continue. Where that row
      // contains only rounding errors that are still too large, all entries are needed.
      if (rank() >= limit_ || !cross_through_row(next)) return false;
    }
  }

  Local rank() const { return rank_; }
  /// The norm of the sum of the crosses, or the root of their sum of squares where that suffices.
  double norm() const { return std::sqrt(std::max(norm2_, 0.0)); }
  double error() const { return error_; }
  std::vector<T> take_u() { return std::move(u_); }
  std::vector<T> take_v() { return std::move(v_); }

 private:
  double allowed() const { return cross_share * tolerance_.of(norm()); }
  const T* u(Local l) const { return u_.data() + std::size_t(l) * m_; }
  const T* v(Local l) const { return v_.data() + std::size_t(l) * n_; }

  // Computes a row or column of R; returns its level of rounding errors. Where the rank of a block is exhausted (such
  // as with repeated points), R has only rounding errors, and pivots from it are meaningless.
  double residual_row(Local i, T* out) {
    block_.row(i, out);
    return residual(out, u_.data() + i, m_, v_, v_most_, n_);
  }
  double residual_column(Local j, T* out) {
    block_.column(j, out);
    return residual(out, v_.data() + j, n_, u_, u_most_, m_);
  }
  double residual(T* out, const T* crosses, Local stride, const std::vector<T>& columns,
                  const std::vector<double>& most, Local n) {
    double met = double(largest_of(out, n));
    coefficient_.resize(std::size_t(rank_));
    for (Local l = 0; l < rank_; ++l) {
      const T c = crosses[std::size_t(l) * stride];
      coefficient_[std::size_t(l)] = c;
      met += double(magnitude(c)) * most[std::size_t(l)];
    }
    subtract(columns.data(), n, rank_, coefficient_.data(), out);
    return rounding * met;
  }
  // The number of zero rows that are skipped: with repeated rows about one of `rank` is new.
  int spare() const { return 6 + 4 * int(rank_); }
  // Whether R(i, j) in row_ and in column_ differ by at most half: otherwise it is mostly rounding error.
  bool agree(Local i, Local j) const {
    const T a = row_[std::size_t(j)], b = column_[std::size_t(i)];
    return a != T(0) && magnitude(T(a - b)) <= magnitude(a) / 2;
  }
  // The position of the largest unused value, the first of equal ones; -1 where all are used.
  static Local largest(const std::vector<T>& values, const std::vector<char>& used) {
    const T* const v = values.data();
    const Local n = Local(values.size());
    // Used entries are nearly 0, so the largest of all is mostly unused.
    const R most_of_all = largest_of(v, n);
    constexpr Local some = 64;
    for (Local from = 0; from < n && most_of_all > 0; from += some) {
      const Local to = std::min(n, from + some);
      int here = 0;
#pragma omp simd reduction(| : here)
      for (Local i = from; i < to; ++i) here |= magnitude(v[i]) == most_of_all;
      for (Local i = from; i < to && here != 0; ++i)
        if (magnitude(v[i]) == most_of_all && !used[std::size_t(i)]) return i;
    }
    Local at = -1;
    R most(0);
    for (Local i = 0; i < n; ++i)
      if (!used[std::size_t(i)] && (at < 0 || magnitude(v[i]) > most)) at = i, most = magnitude(v[i]);
    return at;
  }
  static Local unused(const std::vector<char>& used, Hash& hash) {
    const Local n = Local(used.size()), from = hash.below(n);
    for (Local k = 0; k < n; ++k)
      if (!used[std::size_t((from + k) % n)]) return (from + k) % n;
    return -1;
  }
  Local first_row() {
    return m_ / 2;
  }

  // Adds the cross of row_ = R(i, :) and column_ = R(:, j); returns norm(u) norm(v).
  double add(Local i, Local j) {
    const T pivot = column_[std::size_t(i)], inverse = T(1) / pivot;
    T* const column = column_.data();
    if (is_finite(inverse)) {
#pragma omp simd
      for (Local k = 0; k < m_; ++k) column[k] *= inverse;
    } else {
      for (T& c : column_) c /= pivot;
    }
    const double size = std::sqrt(norm2(column_.data(), m_) * norm2(row_.data(), n_));
    // norm(S + u v^T)^2 = norm(S)^2 + 2 Re sum_l (u_l^H u)(v_l^H v) + norm(u)^2 norm(v)^2
    double mixed = 0;
    for (Local l = 0; l < rank_ && tracks_norm_; ++l)
      mixed += double(real(dot(u(l), column_.data(), m_) * dot(v(l), row_.data(), n_)));
    norm2_ += 2 * mixed + size * size;
    u_most_.push_back(double(largest_of(column_.data(), m_)));
    v_most_.push_back(double(largest_of(row_.data(), n_)));
    u_.insert(u_.end(), column_.begin(), column_.end());
    v_.insert(v_.end(), row_.begin(), row_.end());
    row_used_[std::size_t(i)] = column_used_[std::size_t(j)] = 1;
    ++rank_;
    return size;
  }

  // Adds the cross through row i and its largest entry. False when the row is zero up to rounding.
  bool cross_through_row(Local i) {
    const double noise = residual_row(i, row_.data());
    const Local j = largest(row_, column_used_);
    row_used_[std::size_t(i)] = 1;
    if (j < 0 || double(magnitude(row_[std::size_t(j)])) <= noise) return false;
    residual_column(j, column_.data());
    if (!agree(i, j)) return false;
    error_ = add(i, j);
    return true;
  }

  // Partial pivoting (Bebendorf): the next row is where the last column was largest; stop when a cross is small
  // relative to the sum.
  bool with_partial_pivots(Local row) {
    for (int empty = 0; empty < spare();) {
      if (rank_ >= enough_) return true;
      if (rank_ >= limit_) return false;
      if (row < 0 || row_used_[std::size_t(row)]) row = unused(row_used_, hash_);
      if (row < 0) return true;
      if (!cross_through_row(row)) {  // a zero row gives no information about the others
        ++empty;
        row = -1;
        continue;
      }
      empty = 0;
      if (error_ <= allowed()) return true;
      row = largest(column_, row_used_);
    }
    return true;
  }

  // ACA+: pivots are searched in an updated reference row and column, which show parts of R that partial pivoting alone
  // misses.
  bool with_references() {
    Local i_ref = -1, j_ref = -1;
    double row_noise = 0, column_noise = 0;
    std::vector<T> ref_row(static_cast<std::size_t>(n_)), ref_column(static_cast<std::size_t>(m_));
    for (int empty = 0; empty < spare();) {
      if (rank_ >= enough_) return true;
      if (rank_ >= limit_) return false;
      if (j_ref < 0) {
        j_ref = unused(column_used_, hash_);
        if (j_ref < 0) return true;
        column_noise = residual_column(j_ref, ref_column.data());
      }
      if (i_ref < 0) {
        // The row where the reference column is smallest, far from the part that it represents.
        R least(0);
        for (Local i = 0; i < m_; ++i)
          if (!row_used_[std::size_t(i)] && (i_ref < 0 || magnitude(ref_column[std::size_t(i)]) < least))
            i_ref = i, least = magnitude(ref_column[std::size_t(i)]);
        if (i_ref < 0) return true;
        row_noise = residual_row(i_ref, ref_row.data());
      }
      const Local i_most = largest(ref_column, row_used_), j_most = largest(ref_row, column_used_);
      const double in_column = i_most < 0 ? 0.0 : double(magnitude(ref_column[std::size_t(i_most)])),
                   in_row = j_most < 0 ? 0.0 : double(magnitude(ref_row[std::size_t(j_most)]));
      const bool column_left = in_column > column_noise, row_left = in_row > row_noise;
      if (!column_left && !row_left) return true;  // verification continues
      const bool by_column = column_left && (!row_left || in_column > in_row);
      Local i = i_most, j = j_most;
      const auto take_row = [&] {
        if (i == i_ref) row_ = ref_row;
        return i == i_ref ? row_noise : residual_row(i, row_.data());
      };
      const auto take_column = [&] {
        if (j == j_ref) column_ = ref_column;
        return j == j_ref ? column_noise : residual_column(j, column_.data());
      };
      bool good;
      if (by_column) {
        const double noise = take_row();
        j = largest(row_, column_used_);
        good = double(magnitude(row_[std::size_t(j)])) > noise;
        if (good) take_column();
      } else {
        const double noise = take_column();
        i = largest(column_, row_used_);
        good = double(magnitude(column_[std::size_t(i)])) > noise;
        if (good) take_row();
      }
      if (!good || !agree(i, j)) {  // that row or column is zero
        ++empty;
        (by_column ? row_used_[std::size_t(i)] : column_used_[std::size_t(j)]) = 1;
        if (by_column && i == i_ref) i_ref = -1;
        if (!by_column && j == j_ref) j_ref = -1;
        continue;
      }
      empty = 0;
      error_ = add(i, j);
      const std::size_t last = std::size_t(rank_) - 1;
      if (i == i_ref) {
        i_ref = -1;
      } else {
        const T c = u(rank_ - 1)[i_ref];
        axpy(-c, v(rank_ - 1), ref_row.data(), n_);
        row_noise += rounding * double(magnitude(c)) * v_most_[last];
      }
      if (j == j_ref) {
        j_ref = -1;
      } else {
        const T c = v(rank_ - 1)[j_ref];
        axpy(-c, u(rank_ - 1), ref_column.data(), m_);
        column_noise += rounding * double(magnitude(c)) * u_most_[last];
      }
      if (error_ > allowed()) continue;
      // The reference row and column represent all others of R.
      const double left = std::sqrt(std::max(i_ref < 0 ? 0.0 : norm2(ref_row.data(), n_) * m_,
                                             j_ref < 0 ? 0.0 : norm2(ref_column.data(), m_) * n_));
      if (left <= allowed()) {
        error_ = left;
        return true;
      }
    }
    return true;
  }

  // Estimates norm(R) from rows and columns not used yet; returns the row to continue with when it is above the
  // tolerance, else -1.
  Local worst_of_sample() {
    double rows2 = 0, columns2 = 0, worst = -1;
    Local at = -1;
    int rows = 0, columns = 0;
    // A zero row gives no information about the others (it may repeat a used one), so more rows are sampled then.
    for (int wanted = options_.samples, more = spare(); wanted > 0 && more >= 0; ++rows) {
      const Local i = unused(row_used_, hash_);
      if (i < 0) break;
      const double noise = residual_row(i, row_.data());
      const double size = norm2(row_.data(), n_);
      rows2 += size;
      if (size > worst) worst = size, at = i;
      if (double(largest_of(row_.data(), n_)) > noise) --wanted;
      else row_used_[std::size_t(i)] = 1, --more;
    }
    if (rows == 0) {  // every row was used, or is zero
      error_ = rounding * norm();
      return -1;
    }
    for (int wanted = options_.samples, more = spare(); wanted > 0 && more >= 0; ++columns) {
      const Local j = unused(column_used_, hash_);
      if (j < 0) break;
      const double noise = residual_column(j, column_.data());
      columns2 += norm2(column_.data(), m_);
      const double most = double(largest_of(column_.data(), m_));
      if (most > noise) --wanted;
      else column_used_[std::size_t(j)] = 1, --more;
      const Local i = largest(column_, row_used_);
      if (i < 0) continue;
      const double left = double(magnitude(column_[std::size_t(i)]));
      const double size = left * left * n_;  // as if all entries of the row had this size
      if (size > worst && left > noise) worst = size, at = i;
    }
    const double estimate = std::sqrt(std::max(rows2 / rows * m_, columns > 0 ? columns2 / columns * n_ : 0.0));
    if (estimate > allowed() && worst > 0) {
      error_ = estimate;
      return at;
    }
    error_ = estimate;
    return -1;
  }

  static constexpr Local usual = 16;  // initial capacity in crosses
  static constexpr double rounding = 8 * double(std::numeric_limits<R>::epsilon());
  Entries<T>& block_;
  Local m_, n_, limit_ = 0, enough_ = 0, rank_ = 0;
  Tolerance tolerance_;
  const CompressOptions& options_;
  std::vector<T> u_, v_;
  std::vector<double> u_most_, v_most_;  // largest entries of their columns
  std::vector<char> row_used_, column_used_;
  std::vector<T> row_, column_, coefficient_;
  bool tracks_norm_;
  double norm2_ = 0, error_ = 0;
  Hash hash_;
};

}  // namespace tacit::op::detail
