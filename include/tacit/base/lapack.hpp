// The few LAPACK routines that Tacit calls, on small matrices in host memory, column after column.
#pragma once

#include <complex>
#include <span>
#include <vector>

namespace tacit::lapack {

/// Eigenvalues of the n x n upper Hessenberg matrix h (leading dimension n; overwritten). Local. Empty when the QR
/// iteration does not converge, or a number is not finite. LAPACK zhseqr.
std::vector<std::complex<double>> hessenberg_eigenvalues(std::span<std::complex<double>> h, int n);

}  // namespace tacit::lapack
