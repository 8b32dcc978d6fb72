// residual: b - A x in more precision than that of the scalar, for claims below the rounding error of a plain product.
#pragma once

#include <tacit/op/operator.hpp>

namespace tacit::op {

/// r = b - factor A x, with a factor that is a power of two, or minus one, so that factor a_ij is exact (entries that
/// it makes subnormal lose digits); each element summed in twice the precision of double (in double for float) and
/// rounded once: |error of r_i| is about epsilon |r_i| + n_i epsilon^2 sum_j |a_ij x_j| with n_i entries in row i.
/// False, with r unchanged, where this is not available: it is for stored matrices (Csr) and single columns in host
/// memory. The same on all ranks. r may be b. Error(usage): another factor, vectors that do not fit, r is x. Cost:
/// about ten plain products; memory for a copy of this rank's rows. Collective: one exchange. Compensated dot products:
/// Ogita, Rump, Oishi (2005), doi 10.1137/030601818.
template <Scalar T, Memory M>
bool precise_residual(const Operator<T, M>& A, double factor, const Vector<T, M>& b, const Vector<T, M>& x,
                      Vector<T, M>& r);

}  // namespace tacit::op
