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

template <Scalar T>
using double_t = std::conditional_t<is_complex<T>, std::complex<double>, double>;

/// A^-1 by columns, or its pseudo-inverse where A is singular to the rounding `unit` of its entries.
template <Scalar W>
std::vector<W> inverse_of(const std::vector<W>& a, int order, double unit) {
  const lapack::OneThread one;  // the same bits for any number of threads
  const auto n = std::size_t(order);
  std::vector<W> lu = a, inverse(n * n, W(0));
  std::vector<int> pivots(n);
  // What the products of the levels leave of a singular value that is zero: measured, 12 roundings of the largest one.
  const double noise = 64 * unit;
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
DenseInverse<T>::DenseInverse(const op::Rows<T>& rows, const Space& space, bool constants)
    : n_(std::size_t(space.size())), begin_(std::size_t(space.begin())) {
  const auto& comm = space.comm();
  const auto own_rows = std::size_t(space.local_size());
  const auto& partition = space.partition();
  one_rank_ =
      space.is_replicated() || comm.size() == 1 || (n_ > 0 && partition.end(partition.owner(0)) == partition.size());
  std::vector<Global> row, column(rows.column.begin(), rows.column.end());
  std::vector<T> value(rows.value.begin(), rows.value.end());
  for (Local i = 0; i < rows.count(); ++i) row.resize(std::size_t(rows.start[std::size_t(i) + 1]), space.begin() + i);
  if (!one_rank_) {
    row = comm.all_gather(std::span<const Global>(row));
    column = comm.all_gather(std::span<const Global>(column));
    value = comm.all_gather(std::span<const T>(value));
  }
  if (own_rows == 0) return;
  using W = double_t<T>;
  std::vector<W> a(n_ * n_, W(0));  // by columns
  double largest = 0;
  for (std::size_t k = 0; k < value.size(); ++k) {
    a[std::size_t(column[k]) * n_ + std::size_t(row[k])] = W(value[k]);
    largest = std::max(largest, double(std::abs(value[k])));
  }
  if (constants)
    for (W& v : a) v += largest / double(n_);
  const auto inverse = inverse_of(a, int(n_), double(std::numeric_limits<real_t<T>>::epsilon()));
  own_.resize(own_rows * n_);
  for (std::size_t i = 0; i < own_rows; ++i)
    for (std::size_t j = 0; j < n_; ++j) own_[i * n_ + j] = T(inverse[j * n_ + begin_ + i]);
}

template <Scalar T>
void DenseInverse<T>::solve(const Vector<T>& f, Vector<T>& u) const {
  const auto columns = std::size_t(f.columns());
  std::vector<T> all;
  const T* from = f.data();
  if (!one_rank_) {
    all.assign(n_ * columns, T(0));
    std::copy_n(f.data(), f.size(), all.begin() + std::ptrdiff_t(begin_ * columns));
    f.space().sum(all.data(), all.size());
    from = all.data();
  }
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
  op::Rows<T> all;
  all.value.assign(own_.begin(), own_.end());
  all.column.resize(own_.size());
  for (std::size_t k = 0; k < own_.size(); ++k) all.column[k] = Global(k % n_);
  for (std::size_t end = n_; n_ > 0 && end <= own_.size(); end += n_) all.start.push_back(Global(end));
  return all;
}

template class DenseInverse<float>;
template class DenseInverse<double>;
template class DenseInverse<std::complex<float>>;
template class DenseInverse<std::complex<double>>;

}  // namespace tacit::precond
