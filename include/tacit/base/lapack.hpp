// The few LAPACK routines that Tacit calls, on small matrices in host memory, column after column.
#pragma once

#include <tacit/base/types.hpp>

#include <complex>
#include <span>
#include <vector>

namespace tacit::lapack {

/// Eigenvalues of the n x n upper Hessenberg matrix h (leading dimension n; overwritten). Local. Empty when the QR
/// iteration does not converge, or a number is not finite. LAPACK zhseqr.
std::vector<std::complex<double>> hessenberg_eigenvalues(std::span<std::complex<double>> h, int n);

/// a = Q R by Householder reflections: a (rows x columns, rows >= columns, leading dimension rows) becomes Q, R (columns x
/// columns) the upper triangle. Local. LAPACK xgeqrf, xorgqr / xungqr.
template <Scalar T>
void householder_qr(std::span<T> a, int rows, int columns, std::vector<T>& R);

/// A = U diag(s) V^H of an m x n matrix, k = min(m, n), s descending: u is m x k, vh is k x n. a is overwritten. Local.
/// False when a number is not finite or the iteration does not converge. LAPACK gesdd.
template <Scalar T>
bool svd(T* a, int m, int n, T* u, real_t<T>* s, T* vh);

}  // namespace tacit::lapack
