// A Lanczos process that ends where its largest value is large enough for the caller.
#pragma once

#include <tacit/op/spectrum.hpp>

#include <functional>

namespace tacit::op {

/// estimate_spectrum(), ended at the first step whose lambda_max is at least `enough`: later steps only increase it.
/// Collective.
template <Scalar T, Memory M>
Spectrum spectrum_until(double enough, const Operator<T, M>& A, const Operator<T, M>* P, int steps,
                        const std::function<void(Vector<T, M>&)>& project = {});

}  // namespace tacit::op
