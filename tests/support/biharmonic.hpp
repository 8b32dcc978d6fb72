// A very ill-conditioned matrix.
#pragma once

#include "systems.hpp"

namespace tacit::test {

/// The square of the second-difference matrix (a clamped beam): condition number about n^4 / 31.
template <Scalar T>
Whole<T> biharmonic(Global n) {
  Whole<T> a;
  a.n = n;
  for (Global i = 0; i < n; ++i) {
    const double row[] = {1, -4, 6, -4, 1};
    for (Global k = 0; k < 5; ++k)
      if (i + k - 2 >= 0 && i + k - 2 < n) a.push(i + k - 2, T(real_t<T>(row[k])));
    a.end_row();
  }
  return a;
}

}  // namespace tacit::test
