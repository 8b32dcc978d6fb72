// The tolerance for Hermitian matrices, used by Method::automatic and by preconditioners.
#pragma once

#include <tacit/base/complex.hpp>
#include <tacit/base/types.hpp>

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>

namespace tacit::op {

/// Whether a = a_ij and b = conj(a_ji) differ by rounding only: by at most 32 epsilon of the larger one or of
/// sqrt(|a_ii| |a_jj|), which no entry of a positive definite matrix exceeds. Entries summed from many terms (finite
/// elements, P^T A P) have errors of that size even where the terms cancel. The criterion is invariant under diagonal
/// scaling D A D^H, so it also holds for the small rows of a badly scaled matrix. Local.
template <Scalar T>
bool mirror_each_other(T a, T b, double diagonal_i, double diagonal_j) {
  if (a == b) return true;
  const double allowed = 32 * double(std::numeric_limits<real_t<T>>::epsilon());
  const double size =
      std::max({double(std::abs(a)), double(std::abs(b)), std::sqrt(diagonal_i) * std::sqrt(diagonal_j)});
  return double(std::abs(a - b)) <= allowed * size;
}

}  // namespace tacit::op
