// Work on a set of vectors at once: the projections and updates of Gram-Schmidt, one pass over the set each.
#pragma once

#include <tacit/base/types.hpp>

#include <cstddef>

namespace tacit::exec {

/// sums[i] = q_i^H v for i < j and, with `norm`, sums[j] = v^H v; n elements, this rank's part. Local; one pass over the
/// j vectors and v. Same bits for any number of threads.
template <Scalar T, Memory M>
void basis_dots(const T* const* q, int j, const T* v, std::size_t n, T* sums, bool norm);

/// v := scale (v - sum_i h_i q_i), i < j. With `norm`, returns v^H v of the new v (else 0). Local; one pass.
template <Scalar T, Memory M>
T basis_subtract(const T* const* q, int j, const T* h, T scale, T* v, std::size_t n, bool norm);

}  // namespace tacit::exec
