// Truncation of matrices of low rank, and of dense ones to low rank.
#pragma once

#include "block.hpp"

namespace tacit::precond::detail {

/// Truncates b to `tolerance`, relative to its norm (Frobenius). False where a number is not finite, or its square.
template <Scalar F>
[[nodiscard]] bool truncate(LowRank<F>& b, double tolerance);

/// A dense matrix (rows x columns by columns, overwritten) as one of low rank; else as above.
template <Scalar F>
[[nodiscard]] bool compress(F* a, Local rows, Local columns, double tolerance, LowRank<F>& to);

}  // namespace tacit::precond::detail
