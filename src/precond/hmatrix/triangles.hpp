// Products of blocks with dense columns, and solves with triangular ones.
#pragma once

#include "block.hpp"

#include <utility>

namespace tacit::precond::detail {

/// Y += alpha A X, and with A^T; X and Y of k columns, by columns. These and the solves below divide their work into
/// branches (exec::branching); the order of sums does not depend on the threads.
template <Scalar F>
void apply(const HBlock<F>& a, F alpha, const F* x, Local ldx, F* y, Local ldy, Local k);
template <Scalar F>
void apply_transposed(const HBlock<F>& a, F alpha, const F* x, Local ldx, F* y, Local ldy, Local k);

/// X := L^-1 X, L^-T X, U^-1 X, U^-T X for the factors of a block on the diagonal (HArithmetic::factorise).
template <Scalar F>
void lower(const HBlock<F>& l, F* x, Local ldx, Local k);
template <Scalar F>
void lower_transposed(const HBlock<F>& l, F* x, Local ldx, Local k);
template <Scalar F>
void upper(const HBlock<F>& u, F* x, Local ldx, Local k);
template <Scalar F>
void upper_transposed(const HBlock<F>& u, F* x, Local ldx, Local k);

/// log |det| and the sign (of modulus 1) of L U, or L L^H.
template <Scalar F>
std::pair<double, F> log_determinant(const HBlock<F>& a, bool hermitian);

/// Whether there is enough work for several threads in a solve with a block, or a product.
template <Scalar F>
bool solve_divides(const HBlock<F>& a) {
  return a.rows + a.columns >= 4096;
}

}  // namespace tacit::precond::detail
