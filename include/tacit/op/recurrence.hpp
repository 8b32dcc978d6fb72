// Recurrence: the polynomials of a Krylov basis. Monomial, Newton (conjugate pairs of shifts in real arithmetic) and
// Chebyshev bases are all recurrences of at most three terms.
#pragma once

#include <tacit/base/types.hpp>

#include <vector>

namespace tacit::op {

/// v_{c+1} = (A v_c - alpha v_c - beta v_{c-1}) / gamma; beta of the first step is 0.
template <Scalar T>
struct RecurrenceStep {
  T alpha{0}, beta{0};
  real_t<T> gamma{1};
};

/// Step c of a basis is recurrence[c].
template <Scalar T>
using Recurrence = std::vector<RecurrenceStep<T>>;

/// How the vectors of a Krylov basis are made.
enum class Powers {
  products,  ///< one product after the other, each with its exchange
  kernel     ///< matrix powers kernel: one exchange for all products, with ghost rows computed redundantly
};

}  // namespace tacit::op
