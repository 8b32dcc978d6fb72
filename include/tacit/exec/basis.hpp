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

/// G(i, c) = q_i^H v_c for i < j, c < s, column after column with leading dimension j; n elements, this rank's part. The
/// v's may be among the q's: [Q V]^H V. Local; one pass over the q's and the v's. Same bits for any number of threads.
template <Scalar T, Memory M>
void block_dots(const T* const* q, int j, const T* const* v, int s, std::size_t n, T* G);

/// V := (V - Q C) W with C (j x s, leading dimension j) and W upper triangular (s x s, leading dimension s; null: identity);
/// columns of V are replaced in place. Local; one pass.
template <Scalar T, Memory M>
void block_update(const T* const* q, int j, const T* C, T* const* v, int s, const T* W, std::size_t n);

/// x_c := x_c + sum_i y_i C(i, c) for i < j, c < s, C with leading dimension j: several combinations of one basis. Local; one
/// pass over the y's.
template <Scalar T, Memory M>
void block_combine(const T* const* y, int j, const T* C, T* const* x, int s, std::size_t n);

}  // namespace tacit::exec
