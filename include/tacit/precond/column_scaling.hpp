// Column scaling: the preconditioner of least-squares solves that gives all columns of A one length.
#pragma once

#include <tacit/op/csr.hpp>
#include <tacit/op/diagonal.hpp>

#include <memory>

namespace tacit::precond {

/// x -> D^-1/2 x, D the diagonal of A^H A + damp^2 I: the columns of (A; damp I) D^-1/2 have length 1 ("jacobi" of the
/// normal equations, taken from the right). A column of zeros counts as one of the size of A's largest entry.
/// Collective; one adjoint product, with a copy of the matrix. Host memory.
template <Scalar T>
std::shared_ptr<op::Diagonal<T, Host>> column_scaling(const op::Csr<T, Host>& A, double damp = 0);

}  // namespace tacit::precond
