// Spectrum: estimates the extreme eigenvalues of a positive definite operator by a few Lanczos steps.
#pragma once

#include <tacit/op/operator.hpp>

#include <functional>

namespace tacit::op {

struct Spectrum {
  double lambda_min = 0, lambda_max = 0;
};

/// Extreme Ritz values of P A (P null: of A) after at most `steps` steps of the Lanczos process that conjugate
/// gradients run on a fixed pseudo-random vector (the same for any number of ranks). A and P Hermitian positive
/// definite. lambda_max is a lower bound that is close after some ten steps (multiply by 1.05 to be safe); lambda_min
/// is an upper bound that may be far off. Both are 0 when A is not positive definite on the Krylov space. Collective.
/// `project`, for a singular A: takes its null space out of the pseudo-random vector, with this projection Pi; the
/// values are then those of Pi P Pi A without its eigenvalue 0.
/// Cost: `steps` products, steps + 1 applies of P, 2 steps + 1 reductions; fewer where the Krylov space is exhausted.
/// Vectors: 4 (3 without P, or where P is a diagonal, whose products take no sweeps of their own). Source: Saad,
/// Iterative Methods for Sparse Linear Systems (2003), section 6.7.3.
template <Scalar T, Memory M>
Spectrum estimate_spectrum(const Operator<T, M>& A, const Operator<T, M>* P, int steps,
                           const std::function<void(Vector<T, M>&)>& project = {});

}  // namespace tacit::op
