#include "triangular.hpp"

#include <tacit/exec/parallel.hpp>

#include <algorithm>
#include <numeric>

namespace tacit::precond {
namespace {
// The average number of rows in a level from which on a parallel loop for each level pays.
constexpr Local wide_level = 32768;
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
inline void Triangular<T>::tile(Local i, T* x, int columns) const {
  const Global begin = strict_.start[i], end = strict_.start[i + 1];
  const Local* const column = strict_.column.data();
  const T* const value = strict_.value.data();
  T* const own = x + std::size_t(i) * std::size_t(columns);
  T sum[K];
  for (int c = 0; c < K; ++c) sum[c] = own[c];
  for (Global e = begin; e < end; ++e) {
    const T a = value[e];
    const T* const other = x + std::size_t(column[e]) * std::size_t(columns);
    for (int c = 0; c < K; ++c) sum[c] -= a * other[c];
  }
  if (!inverse_.empty()) {
    const T a = inverse_[std::size_t(i)];
    for (int c = 0; c < K; ++c) sum[c] = sum[c] * a;
  }
  for (int c = 0; c < K; ++c) own[c] = sum[c];
}

template <Scalar T>
template <int K>
inline void Triangular<T>::row(Local i, T* x, int columns) const {
  if constexpr (K == 1) return tile<1>(i, x, 1);
  int c = 0;  // tiles whose sums stay in registers
  for (; c + 8 <= columns; c += 8) tile<8>(i, x + c, columns);
  if (c + 4 <= columns) tile<4>(i, x + c, columns), c += 4;
  if (c + 2 <= columns) tile<2>(i, x + c, columns), c += 2;
  if (c < columns) tile<1>(i, x + c, columns);
}

template <Scalar T>
template <int K>
void Triangular<T>::rows(T* x, int columns) const {
  const Local n = strict_.count();
  if (!level_start_.empty() && exec::threads_now() > 1) {
    const std::size_t levels = level_start_.size() - 1;
    for (std::size_t l = 0; l < levels; ++l) {
      const Local* const rows = by_level_.data() + level_start_[l];
      exec::parallel_for(std::size_t(level_start_[l + 1] - level_start_[l]), true,
                         [&](std::size_t s) { row<K>(rows[s], x, columns); });
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
