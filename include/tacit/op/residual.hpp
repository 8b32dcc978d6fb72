// residual: b - A x in more precision than that of the scalar, for claims below the rounding error of a plain product.
#pragma once

#include <tacit/op/operator.hpp>

namespace tacit::op {

/// r = b - factor A x, with a factor that is a power of two, or minus one, so that factor a_ij is exact (entries that
/// it makes subnormal lose digits); each element summed in twice the precision of double (in double for float) and
/// rounded once: |error of r_i| is about epsilon |r_i| + n_i epsilon^2 sum_j |a_ij x_j| with n_i entries in row i.
/// For stored matrices (Csr) in any scalar, and in single precision for all operators that exist in double precision
/// (Operator::in_double: Stencil, FiniteVolume, TiledSpmm with stored entries, and sums, products, adjoints and shifts
/// of these and of Csr): there n_i counts all operations of a row. False, with r unchanged, for others (functions,
/// H-matrices, computed projectors; all but Csr in double precision), several columns, and device memory. The same on
/// all ranks. r may be b. Error(usage): another factor, vectors that do not fit, r is x. Cost: of a Csr about ten plain
/// products, and memory for a copy of this rank's rows; of others making the operator in double precision, a product
/// with it, and its memory. Collective. Compensated dot products: Ogita, Rump, Oishi (2005), doi 10.1137/030601818.
template <Scalar T, Memory M>
bool precise_residual(const Operator<T, M>& A, double factor, const Vector<T, M>& b, const Vector<T, M>& x,
                      Vector<T, M>& r);

}  // namespace tacit::op
