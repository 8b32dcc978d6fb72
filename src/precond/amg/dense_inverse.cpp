#include "dense_inverse.hpp"

#include <tacit/base/lapack.hpp>

#include <algorithm>
#include <limits>
#include <numeric>

namespace tacit::precond {

using layout::Space;
using layout::Vector;

template <Scalar T>
DenseInverse<T>::DenseInverse(const op::Rows<T>& rows, const Space& space) : n_(int(space.size())) {
  const auto n = std::size_t(n_);
  std::vector<T> a(n * n, T(0));  // by columns
  for (Local i = 0; i < rows.count(); ++i)
    for (auto k = std::size_t(rows.start[std::size_t(i)]); k < std::size_t(rows.start[std::size_t(i) + 1]); ++k)
      a[std::size_t(rows.column[k]) * n + std::size_t(space.begin() + i)] = rows.value[k];
  space.sum(a.data(), a.size());
  const auto inverse = inverse_of(a);
  begin_ = std::size_t(space.begin());
  own_.resize(std::size_t(space.local_size()) * n);
  for (std::size_t i = 0; i < std::size_t(space.local_size()); ++i)
    for (std::size_t j = 0; j < n; ++j) own_[i * n + j] = inverse[j * n + begin_ + i];
}

template <Scalar T>
void DenseInverse<T>::solve(const Vector<T>& f, Vector<T>& u) const {
  const auto n = std::size_t(n_), columns = std::size_t(f.columns());
  std::vector<T> all(n * columns, T(0));
  std::copy_n(f.data(), f.size(), all.begin() + std::ptrdiff_t(begin_ * columns));
  f.space().sum(all.data(), all.size());
  for (std::size_t i = 0; i < std::size_t(u.space().local_size()); ++i)
    for (std::size_t c = 0; c < columns; ++c) {
      T sum{};
      for (std::size_t j = 0; j < n; ++j) sum += own_[i * n + j] * all[j * columns + c];
      u.data()[i * columns + c] = sum;
    }
}

template <Scalar T>
std::vector<T> DenseInverse<T>::inverse_of(const std::vector<T>& a) const {
  using R = real_t<T>;
  const lapack::OneThread one;  // the same bits for any number of threads
  const auto n = std::size_t(n_);
  std::vector<T> lu = a, inverse(n * n, T(0));
  std::vector<int> pivots(n);
  const bool regular = lapack::lu(lu.data(), n_, n_, pivots.data());
  R largest = 0, smallest = std::numeric_limits<R>::infinity();
  for (std::size_t i = 0; i < n; ++i) {
    largest = std::max(largest, R(std::abs(lu[i * n + i])));
    smallest = std::min(smallest, R(std::abs(lu[i * n + i])));
  }
  const R noise = std::numeric_limits<R>::epsilon() * R(n);
  if (regular && smallest > 10 * noise * largest) {
    std::vector<std::size_t> row(n);
    std::iota(row.begin(), row.end(), std::size_t(0));
    for (std::size_t i = 0; i < n; ++i) std::swap(row[i], row[std::size_t(pivots[i])]);
    for (std::size_t i = 0; i < n; ++i) inverse[row[i] * n + i] = T(1);
    lapack::trsm('L', 'L', 'N', 'U', n_, n_, lu.data(), n_, inverse.data(), n_);
    lapack::trsm('L', 'U', 'N', 'N', n_, n_, lu.data(), n_, inverse.data(), n_);
    return inverse;
  }
  std::vector<T> copy = a, u(n * n), vh(n * n);
  std::vector<R> s(n);
  if (!lapack::svd(copy.data(), n_, n_, u.data(), s.data(), vh.data())) return inverse;
  for (std::size_t k = 0; k < n; ++k)
    for (std::size_t i = 0; i < n; ++i) u[k * n + i] = s[k] > 100 * noise * s[0] ? u[k * n + i] / s[k] : T(0);
  lapack::gemm('C', 'C', n_, n_, n_, T(1), vh.data(), n_, u.data(), n_, T(0), inverse.data(), n_);
  return inverse;
}

template <Scalar T>
op::Rows<T> DenseInverse<T>::rows() const {
  const auto n = std::size_t(n_), count = n > 0 ? own_.size() / n : 0;
  op::Rows<T> all;
  all.value = own_;
  all.column.resize(own_.size());
  for (std::size_t k = 0; k < own_.size(); ++k) all.column[k] = Global(k % n);
  for (std::size_t i = 0; i < count; ++i) all.start.push_back(Global((i + 1) * n));
  return all;
}

template class DenseInverse<float>;
template class DenseInverse<double>;
template class DenseInverse<std::complex<float>>;
template class DenseInverse<std::complex<double>>;

}  // namespace tacit::precond
