// Transfers of mult-additive cycles.
#pragma once

#include <tacit/op/csr.hpp>

#include <vector>

namespace tacit::precond {

/// P := (I - M A) P and R := R (I - A M), M = diag(scaling) of this level's rows: prolongation and restriction with the
/// smoothing next to them, so that a cycle's levels need not wait for each other's. R is P^H of the new P where A is
/// Hermitian and M real. Collective: one sparse product and one adjoint; two products where A is not Hermitian.
/// Vassilevski, Yang (2014), doi 10.1002/nla.1928.
template <Scalar T>
void smooth_transfers(op::Rows<T>& P, op::Rows<T>& R, const op::Rows<T>& A, const std::vector<T>& scaling,
                      const layout::Space& space, const layout::Space& coarse, bool hermitian);

}  // namespace tacit::precond
