// Adaptive cross approximation of a block given by its entries, on the host.
#pragma once

#include <tacit/base/error.hpp>
#include <tacit/op/hmatrix/block_maker.hpp>
#include <tacit/op/hmatrix/cross_search.hpp>

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
  if constexpr (is_complex<T>) {
    const auto* const parts = reinterpret_cast<const real_t<T>*>(v);
    double square(0);
#pragma omp simd reduction(max : square)
    for (Local i = 0; i < n; ++i) {
      const double re = double(parts[2 * i]), im = double(parts[2 * i + 1]);
      square = std::max(square, re * re + im * im);
    }
    if (square > 1e-290) return real_t<T>(std::sqrt(square));  // the magnitude() of that number, to the bit
  }
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

// y -= sum over l of c[l] x_l, with the columns of x contiguous. c is overwritten.
template <Scalar T>
void subtract(const T* x, Local n, Local columns, T* c, T* y) {
  using R = real_t<T>;
  if (columns == 0) return;
  const Run run{0, std::uint32_t(columns), 1};
  if constexpr (is_complex<T>) {
    // Real sums over the real and imaginary parts of x as they lie: of Re c, and of Im c.
    thread_local std::vector<R> room;
    const std::size_t parts = 2 * std::size_t(n), all = std::size_t(columns);
    room.assign(2 * parts + 2 * all, R(0));
    R *const of_real = room.data(), *const of_imaginary = of_real + parts, *const by = of_imaginary + parts;
    for (std::size_t l = 0; l < all; ++l) by[l] = c[l].real(), by[all + l] = c[l].imag();
    multiply_add<R, R, 2, false>(reinterpret_cast<const R*>(x), int(parts), std::ptrdiff_t(parts), &run, &run + 1, by,
                                 std::ptrdiff_t(all), of_real, std::ptrdiff_t(parts));
    auto* const to = reinterpret_cast<R*>(y);
    for (std::size_t i = 0; i < parts; i += 2) {
      to[i] -= of_real[i] - of_imaginary[i + 1];
      to[i + 1] -= of_real[i + 1] + of_imaginary[i];
    }
  } else {
    for (Local l = 0; l < columns; ++l) c[l] = -c[l];
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

  /// A row (side 0) or column.
  void line(int side, Local index, T* out) {
    if (side == 0) get(rows_.subspan(std::size_t(index), 1), columns_, out);
    else get(rows_, columns_.subspan(std::size_t(index), 1), out);
  }

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

/// A row (side 0) or column of a block.
struct LineName {
  int side;
  Local index;
  bool operator==(const LineName&) const = default;
};

// Crosses of a block. Arrays of two: columns u, which have an entry for each row, and columns v.
//
// By run() a search evaluates lines as it needs them. By advance() it stops at lines that it does not have, and returns
// to the start of its step, from which it is repeated once they are given. The lines of the residual are kept, so that
// a repeated step makes the same choices at the cost of copies.
template <Scalar T>
class Crosses : CrossSearch<Crosses<T>> {
  using Search = CrossSearch<Crosses<T>>;
  friend Search;
  using Search::s_, Search::t_;

 public:
  using R = real_t<T>;
  Crosses(Entries<T>& block, Tolerance tolerance, const CompressOptions& options)
      : Search({{0, 0},
                {block.rows(), block.columns()},
                most_crosses(block.rows(), block.columns(), options),
                enough_crosses(block.rows(), block.columns(), options),
                tolerance.relative,
                tolerance.absolute,
                0,
                0},
               {}, options.samples, options.method == Compression::aca_plus, options.verify && options.cut_rank == 0),
        block_(block),
        tolerance_(tolerance),
        tracks_norm_(tracks_norm(tolerance, options)) {
    constexpr Local usual = 16;  // initial capacity in crosses
    for (int side = 0; side < 2; ++side) {
      const auto n = std::size_t(t_.count[side]);
      used_[side].resize(n), next_[side].resize(n);
      if (options.method == Compression::aca_plus) reference_[side].resize(n);
      cross_[side].reserve(std::size_t(std::min<Local>(t_.limit, usual)) * n);
    }
  }

  // False when the rank exceeds the limit.
  bool run() { return this->search() == CrossStatus::done; }
  /// Searches with the lines that were given. True at the end of the search; false where wanted() are to be given.
  bool advance() {
    if (!by_steps_) by_steps_ = true, save();
    wanted_.clear();
    fits_ = this->search() == CrossStatus::done;
    if (wanted_.empty()) return true;
    restore();
    return false;
  }
  /// After advance(): the lines that are missing; whether the rank is within the limit.
  const std::vector<LineName>& wanted() const { return wanted_; }
  bool fits() const { return fits_; }
  /// Space for the entries of wanted line k, to be filled before the next advance().
  T* give(std::size_t k) {
    const LineName name = wanted_[k];
    known_.push_back({name, raw, 0, std::vector<T>(std::size_t(t_.count[1 - name.side]))});
    return known_.back().line.data();
  }
  Local rank() const { return s_.rank; }
  /// The norm of the sum of the crosses, or the root of their sum of squares where that suffices.
  double norm() const { return std::sqrt(std::max(s_.norm2, 0.0)); }
  double error() const { return s_.error; }
  std::vector<T> take_u() { return std::move(cross_[0]); }
  std::vector<T> take_v() { return std::move(cross_[1]); }

 private:
  static constexpr double rounding = 8 * double(std::numeric_limits<R>::epsilon());
  // A line of R with as many entries as columns (along 1) or rows.
  struct Look {
    const std::vector<T>* line;
    int along;
  };
  double allowed() const { return cross_share * tolerance_.of(norm()); }
  bool has_room() {
    if (by_steps_) s_.status = CrossStatus::waiting, save();
    return true;
  }
  bool odd() const { return !wanted_.empty(); }  // entries that are not finite are errors
  static void meet() {}
  const T* cross(int side, Local l) const { return cross_[side].data() + std::size_t(l) * t_.count[side]; }
  bool used(int side, Local index) const { return used_[side][std::size_t(index)]; }
  void mark(int side, Local index) { used_[side][std::size_t(index)] = 1; }
  static double size_at(const Look& look, Local at) { return double(magnitude((*look.line)[std::size_t(at)])); }
  static double largest(const Look& look) { return double(largest_of(look.line->data(), Local(look.line->size()))); }
  static double square(const Look& look) { return norm2(look.line->data(), Local(look.line->size())); }
  Local largest_row() const { return first_largest({&next_[0], 0}); }
  double left(int side) const { return square(reference(side)) * t_.count[side]; }

  // Computes a row or column of R; returns its level of rounding errors. Where the rank of a block is exhausted (such
  // as with repeated points), R has only rounding errors, and pivots from it are meaningless.
  double residual(int side, Local index, std::vector<T>& out) {
    if (by_steps_) return known_residual({side, index}, out);
    block_.line(side, index, out.data());
    return subtract_crosses(side, index, out);
  }
  double subtract_crosses(int side, Local index, std::vector<T>& out) {
    const int along = 1 - side;
    double met = double(largest_of(out.data(), t_.count[along]));
    coefficient_.resize(std::size_t(s_.rank));
    for (Local l = 0; l < s_.rank; ++l) {
      const T c = cross(side, l)[index];
      coefficient_[std::size_t(l)] = c;
      met += double(magnitude(c)) * most_[along][std::size_t(l)];
    }
    subtract(cross(along, 0), t_.count[along], s_.rank, coefficient_.data(), out.data());
    return rounding * met;
  }
  // Where the line is missing, ones: they are not mistaken for a zero line, in place of which others would be sampled.
  double known_residual(LineName name, std::vector<T>& out) {
    for (Known& k : known_) {
      if (k.name != name || (k.rank != raw && k.rank != s_.rank)) continue;
      if (k.rank == raw) k.noise = subtract_crosses(name.side, name.index, k.line), k.rank = s_.rank;
      out = k.line;
      return k.noise;
    }
    if ((sampling_ || wanted_.empty()) && std::find(wanted_.begin(), wanted_.end(), name) == wanted_.end())
      wanted_.push_back(name);
    std::fill(out.begin(), out.end(), T(1));
    return 0;
  }
  void save() {
    saved_ = s_;
    for (int side = 0; side < 2; ++side) saved_used_[side] = used_[side], saved_reference_[side] = reference_[side];
    std::erase_if(known_, [&](const Known& k) { return k.rank != raw && k.rank < s_.rank; });
  }
  void restore() {
    s_ = saved_;
    for (int side = 0; side < 2; ++side) {
      used_[side] = saved_used_[side], reference_[side] = saved_reference_[side];
      cross_[side].resize(std::size_t(s_.rank) * std::size_t(t_.count[side]));
      most_[side].resize(std::size_t(s_.rank));
    }
  }
  Look next_line(int side, Local index, double& noise) {
    noise = residual(side, index, next_[1 - side]);
    return {&next_[1 - side], 1 - side};
  }
  // Samples do not depend on one another, so all that are missing are wanted at once.
  Look sampled_line(int side, Local index, double& noise) {
    sampling_ = true;
    const Look look = next_line(side, index, noise);
    sampling_ = false;
    return look;
  }
  double make_reference(int side, Local index) { return residual(side, index, reference_[1 - side]); }
  Look reference(int side) const { return {&reference_[1 - side], 1 - side}; }
  Look take_reference(int side) {
    next_[1 - side] = reference_[1 - side];
    return {&next_[1 - side], 1 - side};
  }
  // Subtracts the last cross from the reference line.
  void take_off(int side) {
    const Local last = s_.rank - 1;
    const T c = cross(side, last)[s_.reference[side]];
    const T alpha = -c, *const v = cross(1 - side, last);
    T* const line = reference_[1 - side].data();
#pragma omp simd
    for (Local i = 0; i < t_.count[1 - side]; ++i) line[i] += alpha * v[i];
    s_.noise[side] += rounding * double(magnitude(c)) * most_[1 - side][std::size_t(last)];
  }
  Local smallest_row() const {
    Local at = -1;
    R least(0);
    for (Local i = 0; i < t_.count[0]; ++i)
      if (const R size = magnitude(reference_[0][std::size_t(i)]); !used(0, i) && (at < 0 || size < least))
        at = i, least = size;
    return at;
  }
  // Whether R(i, j) in its row and in its column differ by at most half: otherwise it is mostly rounding error.
  bool agree(Local i, Local j) const {
    const T a = next_[1][std::size_t(j)], b = next_[0][std::size_t(i)];
    return a != T(0) && magnitude(T(a - b)) <= magnitude(a) / 2;
  }
  // The position of the largest unused value, the first of equal ones; -1 where all are used.
  Local first_largest(const Look& look) const {
    const T* const v = look.line->data();
    const auto& taken = used_[look.along];
    const Local n = Local(taken.size());
    // Used entries are nearly 0, so the largest of all is mostly unused.
    const R most_of_all = largest_of(v, n);
    constexpr Local some = 64;
    for (Local from = 0; from < n && most_of_all > 0; from += some) {
      const Local to = std::min(n, from + some);
      int here = 0;
#pragma omp simd reduction(| : here)
      for (Local i = from; i < to; ++i) here |= magnitude(v[i]) == most_of_all;
      for (Local i = from; i < to && here != 0; ++i)
        if (magnitude(v[i]) == most_of_all && !taken[std::size_t(i)]) return i;
    }
    Local at = -1;
    R most(0);
    for (Local i = 0; i < n; ++i)
      if (!taken[std::size_t(i)] && (at < 0 || magnitude(v[i]) > most)) at = i, most = magnitude(v[i]);
    return at;
  }
  Local unused(int side) {
    Hash hash{s_.hash};
    const Local n = t_.count[side], from = hash.below(n);
    s_.hash = hash.state;
    for (Local k = 0; k < n; ++k)
      if (!used(side, (from + k) % n)) return (from + k) % n;
    return -1;
  }

  // Adds the cross of the next row, R(i, :), and column, R(:, j).
  void add(Local i, Local j, const Look&) {
    s_.error = add(i, j);
  }
  double add(Local i, Local j) {
    auto &u = next_[0], &v = next_[1];
    const T pivot = u[std::size_t(i)], inverse = T(1) / pivot;
    T* const column = u.data();
    if (is_finite(inverse)) {
#pragma omp simd
      for (Local k = 0; k < t_.count[0]; ++k) column[k] *= inverse;
    } else {
      for (T& c : u) c /= pivot;
    }
    const double size = std::sqrt(norm2(u.data(), t_.count[0]) * norm2(v.data(), t_.count[1]));
    // norm(S + u v^T)^2 = norm(S)^2 + 2 Re sum_l (u_l^H u)(v_l^H v) + norm(u)^2 norm(v)^2
    double mixed = 0;
    for (Local l = 0; l < s_.rank && tracks_norm_; ++l)
      mixed += double(real(dot(cross(0, l), u.data(), t_.count[0]) * dot(cross(1, l), v.data(), t_.count[1])));
    s_.norm2 += 2 * mixed + size * size;
    most_[0].push_back(double(largest_of(u.data(), t_.count[0])));
    most_[1].push_back(double(largest_of(v.data(), t_.count[1])));
    cross_[0].insert(cross_[0].end(), u.begin(), u.end());
    cross_[1].insert(cross_[1].end(), v.begin(), v.end());
    used_[0][std::size_t(i)] = used_[1][std::size_t(j)] = 1;
    ++s_.rank;
    return size;
  }

  Entries<T>& block_;
  Tolerance tolerance_;
  bool tracks_norm_;
  std::vector<T> cross_[2], next_[2], reference_[2], coefficient_;
  std::vector<double> most_[2];  // largest entries of the columns
  std::vector<char> used_[2];

  // Of a search by steps. A line's rank: the number of crosses that were subtracted, or `raw`.
  static constexpr Local raw = -1;
  struct Known {
    LineName name;
    Local rank;
    double noise;
    std::vector<T> line;
  };
  bool by_steps_ = false, sampling_ = false, fits_ = false;
  std::vector<LineName> wanted_;
  std::vector<Known> known_;
  CrossState saved_{};  // at the start of the step
  std::vector<char> saved_used_[2];
  std::vector<T> saved_reference_[2];
};

}  // namespace tacit::op::detail
