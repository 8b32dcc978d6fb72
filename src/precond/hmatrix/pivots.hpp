// P A = L U of a dense block, where pivots that are only rounding error are replaced.
#pragma once

#include <tacit/base/lapack.hpp>
#include <tacit/base/types.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace tacit::precond::detail {

struct Pivots {
  Global replaced = 0;
  bool finite = true;
};

/// Factorises the n x n block a in place; pivots as of lapack::lu. A pivot is replaced where it is at most eps n times
/// the smaller one of the largest elements of its row and of its column in A, the rounding error of a dependent row
/// (Higham 2002, theorem 9.3), or at most eps times the largest element of A. It becomes sqrt(eps) times the latter (1
/// for A = 0).
template <class F>
Pivots factorise_replacing(F* a, int n, int* pivots) {
  using R = real_t<F>;
  const auto size = std::size_t(n);
  std::vector<R> row(size, R(0)), column(size, R(0));
  R most(0);
  for (std::size_t j = 0; j < size; ++j)
    for (std::size_t i = 0; i < size; ++i) {
      const R v = R(std::abs(a[j * size + i]));
      row[i] = std::max(row[i], v), column[j] = std::max(column[j], v), most = std::max(most, v);
    }
  lapack::lu(a, n, n, pivots);
  const R eps = std::numeric_limits<R>::epsilon();
  Pivots found;
  for (std::size_t i = 0; i < size; ++i) {
    std::swap(row[i], row[std::size_t(pivots[i])]);
    F& pivot = a[i * size + i];
    if (!is_finite(pivot)) {
      found.finite = false;
    } else if (std::abs(pivot) <= eps * std::max(most, R(n) * std::min(row[i], column[i]))) {
      pivot = most > 0 ? F(std::sqrt(eps) * most) : F(1);
      ++found.replaced;
    }
  }
  return found;
}

}  // namespace tacit::precond::detail
