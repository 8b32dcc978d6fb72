#include "band_factors.hpp"

#include <tacit/base/trace.hpp>
#include <tacit/layout/ordering.hpp>

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>

namespace tacit::precond {

using layout::Vector;

namespace {

// Operations a second of LAPACK's products of blocks, of columns of a band, and of sums in order.
constexpr double by_blocks = 1.5e10, by_columns = 3e9, in_order = 1e9;

template <Scalar T>
layout::LocalGraph graph_of(const SmallMatrix<T>& A) {
  layout::LocalGraph graph;
  graph.start.assign(A.n + 1, 0);
  for (const Global i : A.row) ++graph.start[std::size_t(i) + 1];
  for (std::size_t i = 0; i < A.n; ++i) graph.start[i + 1] += graph.start[i];
  graph.column.resize(A.row.size());
  std::vector<Global> next(graph.start.begin(), graph.start.end() - 1);
  for (std::size_t k = 0; k < A.row.size(); ++k)
    graph.column[std::size_t(next[std::size_t(A.row[k])]++)] = Local(A.column[k]);
  return graph;
}

/// A bound from above of ||A||: the root of the product of the largest sums of rows and of columns.
template <Scalar T>
double norm_of(const SmallMatrix<T>& A) {
  std::vector<double> row(A.n), column(A.n);
  for (std::size_t k = 0; k < A.row.size(); ++k) {
    const double size = double(std::abs(A.value[k]));
    row[std::size_t(A.row[k])] += size, column[std::size_t(A.column[k])] += size;
  }
  return std::sqrt(*std::max_element(row.begin(), row.end())) *
         std::sqrt(*std::max_element(column.begin(), column.end()));
}

}  // namespace

double seconds_of_band(double n, double lower, double upper) {
  return 2 * n * lower * (lower + upper + 1) / by_columns + priced_solves * n * (2 * lower + upper + 8) / in_order;
}
double seconds_of_inverse(double n, int ranks) {
  return 8.0 / 3 * n * n * n / by_blocks + priced_solves * n * n / double(ranks) / in_order;
}
double seconds_of_products(double entries) {
  return priced_solves * entries / in_order;
}

template <Scalar T>
BandFactors<T>::BandFactors(const SmallMatrix<T>& A)
    : n_(A.n), begin_(A.begin), own_rows_(A.own_rows), one_rank_(A.one_rank) {
  old_of_new_ = layout::reverse_cuthill_mckee(layout::symmetrised(graph_of(A)));
  std::vector<std::size_t> place(n_);
  for (std::size_t i = 0; i < n_; ++i) place[std::size_t(old_of_new_[i])] = i;
  for (std::size_t k = 0; k < A.row.size(); ++k) {
    const auto i = place[std::size_t(A.row[k])], j = place[std::size_t(A.column[k])];
    if (i > j) lower_ = std::max(lower_, i - j);
    else upper_ = std::max(upper_, j - i);
  }
  above_ = lower_ + upper_, height_ = above_ + lower_ + 1;
}

template <Scalar T>
void BandFactors<T>::fill(const SmallMatrix<T>& A) {
  std::vector<std::size_t> place(n_);
  for (std::size_t i = 0; i < n_; ++i) place[std::size_t(old_of_new_[i])] = i;
  band_.assign(n_ * height_, W(0));
  for (std::size_t k = 0; k < A.row.size(); ++k)
    at(place[std::size_t(A.row[k])], place[std::size_t(A.column[k])]) += W(A.value[k]);
}

/// False where a pivot is zero.
template <Scalar T>
bool BandFactors<T>::factorise() {
  pivot_.resize(n_);
  std::size_t last = 0;  // the last column that rows so far reach
  for (std::size_t j = 0; j < n_; ++j) {
    const std::size_t below = std::min(lower_, n_ - 1 - j);
    W* const column = &at(j, j);
    std::size_t p = 0;
    for (std::size_t i = 1; i <= below; ++i)
      if (std::abs(column[i]) > std::abs(column[p])) p = i;
    pivot_[j] = j + p;
    if (column[p] == W(0)) return false;
    last = std::max(last, std::min(j + p + upper_, n_ - 1));
    if (p > 0)
      for (std::size_t c = j; c <= last; ++c) std::swap(at(j, c), at(j + p, c));
    const W inverse = W(1) / column[0];
    for (std::size_t i = 1; i <= below; ++i) column[i] *= inverse;
    for (std::size_t c = j + 1; c <= last; ++c) {
      W* const other = &at(j, c);
      const W t = other[0];
      if (t == W(0)) continue;
      for (std::size_t i = 1; i <= below; ++i) other[i] -= column[i] * t;
    }
  }
  return true;
}

template <Scalar T>
void BandFactors<T>::solve(W* x) const {
  for (std::size_t j = 0; j < n_; ++j) {
    if (pivot_[j] != j) std::swap(x[j], x[pivot_[j]]);
    const std::size_t below = std::min(lower_, n_ - 1 - j);
    const W* const column = &at(j, j);
    const W t = x[j];
    for (std::size_t i = 1; i <= below; ++i) x[j + i] -= column[i] * t;
  }
  for (std::size_t j = n_; j-- > 0;) {
    const W t = x[j] /= at(j, j);
    const std::size_t first = j - std::min(j, above_);
    const W* const column = &at(first, j);
    for (std::size_t i = first; i < j; ++i) x[i] -= column[i - first] * t;
  }
}

template <Scalar T>
void BandFactors<T>::solve_adjoint(W* x) const {
  for (std::size_t j = 0; j < n_; ++j) {
    const std::size_t first = j - std::min(j, above_);
    const W* const column = &at(first, j);
    W sum = x[j];
    for (std::size_t i = first; i < j; ++i) sum -= conj(column[i - first]) * x[i];
    x[j] = sum / conj(at(j, j));
  }
  for (std::size_t j = n_; j-- > 0;) {
    const std::size_t below = std::min(lower_, n_ - 1 - j);
    const W* const column = &at(j, j);
    for (std::size_t i = 1; i <= below; ++i) x[j] -= conj(column[i]) * x[j + i];
    if (pivot_[j] != j) std::swap(x[j], x[pivot_[j]]);
  }
}

/// An estimate of ||A^-1|| from below, by three steps of inverse iteration with A^H A.
template <Scalar T>
double BandFactors<T>::inverse_norm() const {
  std::vector<W> x(n_);
  for (std::size_t i = 0; i < n_; ++i) x[i] = W(1 + 0.5 * double((i * 7919 + 3) % 17) / 17) * (i % 3 == 1 ? -1.0 : 1.0);
  const auto norm = [&] {
    double squares = 0;
    for (const W& v : x) squares += std::norm(v);
    return std::sqrt(squares);
  };
  double found = 0, size = norm();
  for (int k = 0; k < 3; ++k) {
    for (W& v : x) v /= size;
    solve(x.data());
    solve_adjoint(x.data());
    size = norm();
    found = std::sqrt(size);
    if (!std::isfinite(found)) break;
  }
  return found;
}

template <Scalar T>
std::unique_ptr<BandFactors<T>> BandFactors<T>::make(const SmallMatrix<T>& A) {
  if (A.n == 0 || A.own_rows == 0 || A.row.empty()) return nullptr;
  // No order makes the band narrower than the rows: of full rows, which need not be ordered.
  const double n = double(A.n), half = std::max(0.0, (double(A.row.size()) / n - 1) / 2);
  if (!(seconds_of_band(n, half, half) < seconds_of_inverse(n, A.ranks))) return nullptr;
  std::unique_ptr<BandFactors> made(new BandFactors(A));
  if (!(seconds_of_band(n, double(made->lower_), double(made->upper_)) < seconds_of_inverse(n, A.ranks)))
    return nullptr;
  made->fill(A);
  if (!made->factorise()) return nullptr;
  // A tenth of what the dense inverse takes for singular, which sees all singular values.
  const double close = norm_of(A) * made->inverse_norm() * singular_to_rounding<T>;
  return close < 0.1 ? std::move(made) : nullptr;
}

template <Scalar T>
void BandFactors<T>::solve(const Vector<T>& f, Vector<T>& u) const {
  const auto columns = std::size_t(f.columns());
  std::vector<T> all;
  const T* const from = whole_of(f, n_, begin_, one_rank_, all);
  const Span span("band factors", "exec", std::int64_t(band_.size() * sizeof(W)),
                  2.0 * double(n_ * height_) * double(columns));
  std::vector<W> x(n_);
  std::vector<T> solved(n_);
  for (std::size_t c = 0; c < columns; ++c) {
    for (std::size_t i = 0; i < n_; ++i) x[i] = W(from[std::size_t(old_of_new_[i]) * columns + c]);
    solve(x.data());
    for (std::size_t i = 0; i < n_; ++i) solved[std::size_t(old_of_new_[i])] = T(x[i]);
    for (std::size_t i = 0; i < own_rows_; ++i) u.data()[i * columns + c] = solved[begin_ + i];
  }
}

template <Scalar T>
op::Rows<T> BandFactors<T>::rows() const {
  std::vector<std::size_t> place(n_);
  for (std::size_t i = 0; i < n_; ++i) place[std::size_t(old_of_new_[i])] = i;
  std::vector<T> own(own_rows_ * n_);
  std::vector<W> x(n_);
  for (std::size_t j = 0; j < n_; ++j) {
    std::fill(x.begin(), x.end(), W(0));
    x[place[j]] = W(1);
    solve(x.data());
    for (std::size_t i = 0; i < own_rows_; ++i) own[i * n_ + j] = T(x[place[begin_ + i]]);
  }
  return dense_rows(own, n_);
}

#define TACIT_INSTANTIATE(T) template class BandFactors<T>;
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::precond
