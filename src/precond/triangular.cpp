#include "triangular.hpp"

#include <algorithm>
#include <numeric>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace tacit::precond {
namespace {
// Rows in a level on average from which the barrier after each level pays, also when other programs use the cores: a
// barrier then waits for a thread that is not running (measured with levels of 2700 rows: 20 times slower).
constexpr Local wide_level = 32768;

bool threads_here() {
#ifdef _OPENMP
  return omp_get_max_threads() > 1 && !omp_in_parallel();
#else
  return false;
#endif
}
}  // namespace

template <Scalar T>
Triangular<T>::Triangular(op::LocalRows<T> strict, std::vector<T> inverse, bool lower, bool may_use_threads)
    : strict_(std::move(strict)), inverse_(std::move(inverse)), lower_(lower) {
  const Local n = strict_.count();
  if (!may_use_threads || n < 2 * wide_level) return;
  std::vector<Local> level(n);
  Local levels = 0;
  for (Local s = 0; s < n; ++s) {
    const Local i = lower ? s : n - 1 - s;
    Local l = 0;
    for (Global k = strict_.start[i]; k < strict_.start[i + 1]; ++k) l = std::max(l, level[strict_.column[k]] + 1);
    level[i] = l;
    levels = std::max(levels, l + 1);
  }
  if (n / levels < wide_level) return;
  level_start_.assign(std::size_t(levels) + 1, 0);
  for (Local i = 0; i < n; ++i) ++level_start_[level[i] + 1];
  std::partial_sum(level_start_.begin(), level_start_.end(), level_start_.begin());
  by_level_.resize(n);
  std::vector<Local> next(level_start_.begin(), level_start_.end() - 1);
  for (Local i = 0; i < n; ++i) by_level_[next[level[i]]++] = i;
}

template <Scalar T>
template <int K>
inline void Triangular<T>::row(Local i, T* x, int columns) const {
  const Global begin = strict_.start[i], end = strict_.start[i + 1];
  const Local* const column = strict_.column.data();
  const T* const value = strict_.value.data();
  const int k = K > 0 ? K : columns;
  for (int c = 0; c < k; ++c) {
    T sum = x[std::size_t(i) * k + c];
    for (Global e = begin; e < end; ++e) sum -= value[e] * x[std::size_t(column[e]) * k + c];
    x[std::size_t(i) * k + c] = inverse_.empty() ? sum : sum * inverse_[i];
  }
}

template <Scalar T>
template <int K>
void Triangular<T>::rows(T* x, int columns) const {
  const Local n = strict_.count();
  if (!level_start_.empty() && threads_here()) {
    const std::size_t levels = level_start_.size() - 1;
#pragma omp parallel
    for (std::size_t l = 0; l < levels; ++l) {
#pragma omp for schedule(static)
      for (Local s = level_start_[l]; s < level_start_[l + 1]; ++s) row<K>(by_level_[s], x, columns);
    }
  } else if (lower_) {
    for (Local i = 0; i < n; ++i) row<K>(i, x, columns);
  } else {
    for (Local i = n; i-- > 0;) row<K>(i, x, columns);
  }
}

template <Scalar T>
void Triangular<T>::solve(T* x, int columns) const {
  if (columns == 1) rows<1>(x, columns);
  else rows<0>(x, columns);
}

template <Scalar T>
double Triangular<T>::bytes() const {
  return double(strict_.column.size()) * (sizeof(T) + sizeof(Local)) + double(strict_.start.size()) * sizeof(Global) +
         double(inverse_.size()) * sizeof(T);
}

template class Triangular<float>;
template class Triangular<double>;
template class Triangular<std::complex<float>>;
template class Triangular<std::complex<double>>;

}  // namespace tacit::precond
