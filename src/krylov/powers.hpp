// Products with the preconditioned operator, one at a time or as the vectors of an s-step basis.
#pragma once

#include <tacit/op/operator.hpp>
#include "krylov/workspace.hpp"

#include <span>

namespace tacit::krylov {

/// y := A P x with P x in z, with `left` P A x with A x in z; without P y := A x, and z is not used.
template <Scalar T, Memory M>
void multiply(const Run<T, M>& run, bool left, const layout::Vector<T, M>& x, layout::Vector<T, M>& z,
              layout::Vector<T, M>& y) {
  if (!run.P) return run.A.apply(x, y);
  left ? run.A.apply(x, z) : run.P->apply(x, z);
  left ? run.P->apply(z, y) : run.A.apply(z, y);
}

/// Whether the powers of A with this P are made by a matrix powers kernel: A has one, and P is a diagonal.
template <Scalar T, Memory M>
bool by_kernel(const op::Operator<T, M>& A, const op::Operator<T, M>* P, op::Powers how) {
  return how == op::Powers::kernel && A.has_powers_kernel() && (!P || P->pointwise());
}

/// v[1], v[2] .. from v[0] by the steps, op being A, A P, or with `left` P A. images[c] holds the vector between P and
/// A in step c (images[0], where there is only one); `first_is_there`: P v[0] is in images[0] already. steps.size()
/// applies of A and of P, one exchange each, or one for all of them.
template <Scalar T, Memory M>
void make_powers(const Run<T, M>& run, bool left, op::Powers how, std::span<layout::Vector<T, M>* const> v,
                 std::span<const op::RecurrenceStep<T>> steps, std::span<layout::Vector<T, M>* const> images,
                 bool first_is_there = false) {
  auto& A = run.A;
  auto& P = run.P;
  // A block of one step needs one exchange anyway.
  if (steps.size() > 1 && by_kernel(A, P, how)) {
    op::Diagonals<T, M> around;
    if (P) (left ? around.left : around.right) = P->pointwise();
    A.powers_kernel(v, steps, nullptr, around, left ? images.first(0) : images);
    for (std::size_t c = 0; P && c < steps.size(); ++c) P->count_apply();
    return;
  }
  if (!P) return A.powers(v, steps);
  for (std::size_t c = 0; c < steps.size(); ++c) {
    auto& z = *images[images.size() == 1 ? 0 : c];
    if (c == 0 && first_is_there) A.apply(z, *v[1]);
    else multiply(run, left, *v[c], z, *v[c + 1]);
    op::extend<T, M>(steps[c], c > 0 ? v[c - 1] : nullptr, *v[c], *v[c + 1]);
  }
}

}  // namespace tacit::krylov
