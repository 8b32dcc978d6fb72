// Eigenvalues of small Hessenberg matrices, by arithmetic that rounds alike on every processor. All ranks compute the
// same Ritz values from the same coefficients, so no message makes them agree. (LAPACK's kernels differ by processor,
// and so do some functions of the mathematical library.)
#pragma once

#include <complex>
#include <vector>

namespace tacit::krylov {

/// Of the n x n upper Hessenberg matrix h, stored by columns with leading dimension n. Empty where the iteration does
/// not converge, or a number is not finite. Local; about 50 n^3 operations. The shifted QR iteration of Francis (1961),
/// doi 10.1093/comjnl/4.3.265, on complex matrices with one shift, that of Wilkinson (1968), doi
/// 10.1016/0024-3795(68)90017-7.
std::vector<std::complex<double>> hessenberg_eigenvalues(std::vector<std::complex<double>> h, int n);

/// |z| from correctly rounded operations. (std::abs is a function of the mathematical library.)
double magnitude(std::complex<double> z);

}  // namespace tacit::krylov
