#include "dense_inverse.hpp"

#include <tacit/base/lapack.hpp>
#include <tacit/base/trace.hpp>

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <numeric>
#include <type_traits>

namespace tacit::precond {

using layout::Space;
using layout::Vector;

namespace {

/// A^-1 by columns, or its pseudo-inverse where singular values vanish beside `noise` times the largest one.
template <Scalar W>
std::vector<W> inverse_of(const std::vector<W>& a, int order, double noise) {
  const lapack::OneThread one;  // the same bits for any number of threads
  const auto n = std::size_t(order);
  std::vector<W> lu = a, inverse(n * n, W(0));
  std::vector<int> pivots(n);
  if (lapack::lu(lu.data(), order, order, pivots.data())) {
    std::vector<std::size_t> row(n);
    std::iota(row.begin(), row.end(), std::size_t(0));
    for (std::size_t i = 0; i < n; ++i) std::swap(row[i], row[std::size_t(pivots[i])]);
    for (std::size_t i = 0; i < n; ++i) inverse[row[i] * n + i] = W(1);
    lapack::trsm('L', 'L', 'N', 'U', order, order, lu.data(), order, inverse.data(), order);
    lapack::trsm('L', 'U', 'N', 'N', order, order, lu.data(), order, inverse.data(), order);
    // A small pivot says little of the least singular value, which is at least 1 / |A^-1|_F; the largest one is at
    // most sqrt(|A|_1 |A|_inf).
    std::vector<double> row_sum(n), column_sum(n);
    double squares = 0;
    for (std::size_t j = 0; j < n; ++j)
      for (std::size_t i = 0; i < n; ++i) {
        const double size = double(std::abs(a[j * n + i]));
        row_sum[i] += size, column_sum[j] += size, squares += std::norm(inverse[j * n + i]);
      }
    const double largest = std::sqrt(*std::max_element(row_sum.begin(), row_sum.end())) *
                           std::sqrt(*std::max_element(column_sum.begin(), column_sum.end()));
    if (largest * std::sqrt(squares) * noise < 1) return inverse;
    std::fill(inverse.begin(), inverse.end(), W(0));
  }
  std::vector<W> copy = a, u(n * n), vh(n * n);
  std::vector<double> s(n);
  if (!lapack::svd(copy.data(), order, order, u.data(), s.data(), vh.data())) return inverse;
  for (std::size_t k = 0; k < n; ++k)
    for (std::size_t i = 0; i < n; ++i) u[k * n + i] = s[k] > noise * s[0] ? u[k * n + i] / s[k] : W(0);
  lapack::gemm('C', 'C', order, order, order, W(1), vh.data(), order, u.data(), order, W(0), inverse.data(), order);
  return inverse;
}

}  // namespace

template <Scalar T>
SmallMatrix<T>::SmallMatrix(const op::Rows<T>& rows, const Space& space)
    : n(std::size_t(space.size())), begin(std::size_t(space.begin())), own_rows(std::size_t(space.local_size())) {
  const auto& comm = space.comm();
  const auto& partition = space.partition();
  one_rank = space.is_replicated() || comm.size() == 1 || (n > 0 && partition.end(partition.owner(0)) == Global(n));
  ranks = one_rank ? 1 : 0;
  for (int r = 0; !one_rank && r < comm.size(); ++r) ranks += partition.end(r) > partition.begin(r);
  column.assign(rows.column.begin(), rows.column.end());
  value.assign(rows.value.begin(), rows.value.end());
  for (Local i = 0; i < rows.count(); ++i) row.resize(std::size_t(rows.start[std::size_t(i) + 1]), space.begin() + i);
  if (one_rank) return;
  row = comm.all_gather(std::span<const Global>(row));
  column = comm.all_gather(std::span<const Global>(column));
  value = comm.all_gather(std::span<const T>(value));
}

template <Scalar T>
DenseInverse<T>::DenseInverse(const SmallMatrix<T>& A, bool constants)
    : n_(A.n), begin_(A.begin), one_rank_(A.one_rank) {
  const auto own_rows = A.own_rows;
  if (own_rows == 0) return;
  using W = double_t<T>;
  std::vector<W> a(n_ * n_, W(0));  // by columns
  double largest = 0;
  for (std::size_t k = 0; k < A.value.size(); ++k) {
    a[std::size_t(A.column[k]) * n_ + std::size_t(A.row[k])] = W(A.value[k]);
    largest = std::max(largest, double(std::abs(A.value[k])));
  }
  if (constants)
    for (W& v : a) v += largest / double(n_);
  const auto inverse = inverse_of(a, int(n_), singular_to_rounding<T>);
  own_.resize(own_rows * n_);
  for (std::size_t i = 0; i < own_rows; ++i)
    for (std::size_t j = 0; j < n_; ++j) own_[i * n_ + j] = T(inverse[j * n_ + begin_ + i]);
}

template <Scalar T>
const T* whole_of(const Vector<T>& f, std::size_t n, std::size_t begin, bool one_rank, std::vector<T>& all) {
  if (one_rank) return f.data();
  const auto columns = std::size_t(f.columns());
  all.assign(n * columns, T(0));
  std::copy_n(f.data(), f.size(), all.begin() + std::ptrdiff_t(begin * columns));
  f.space().sum(all.data(), all.size());
  return all.data();
}

template <Scalar T>
op::Rows<T> dense_rows(const std::vector<T>& numbers, std::size_t n) {
  op::Rows<T> all;
  all.value.assign(numbers.begin(), numbers.end());
  all.column.resize(numbers.size());
  for (std::size_t k = 0; k < numbers.size(); ++k) all.column[k] = Global(k % n);
  for (std::size_t end = n; n > 0 && end <= numbers.size(); end += n) all.start.push_back(Global(end));
  return all;
}

template <Scalar T>
void DenseInverse<T>::solve(const Vector<T>& f, Vector<T>& u) const {
  const auto columns = std::size_t(f.columns());
  std::vector<T> all;
  const T* const from = whole_of(f, n_, begin_, one_rank_, all);
  const Span span("dense inverse", "exec", std::int64_t(own_.size() * sizeof(T)),
                  2.0 * double(own_.size()) * double(columns));
  for (std::size_t i = 0; i < std::size_t(u.space().local_size()); ++i)
    for (std::size_t c = 0; c < columns; ++c) {
      T sum{};
      for (std::size_t j = 0; j < n_; ++j) sum += own_[i * n_ + j] * from[j * columns + c];
      u.data()[i * columns + c] = sum;
    }
}

template <Scalar T>
op::Rows<T> DenseInverse<T>::rows() const {
  return dense_rows(own_, n_);
}

#define TACIT_INSTANTIATE(T)                                                                        \
  template struct SmallMatrix<T>;                                                                   \
  template const T* whole_of<T>(const Vector<T>&, std::size_t, std::size_t, bool, std::vector<T>&); \
  template op::Rows<T> dense_rows<T>(const std::vector<T>&, std::size_t);                           \
  template class DenseInverse<T>;
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::precond
