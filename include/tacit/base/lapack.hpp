// The LAPACK routines that Tacit calls, on small matrices in host memory, stored by columns.
#pragma once

#include <tacit/base/types.hpp>

#include <complex>
#include <span>
#include <string>
#include <vector>

namespace tacit::lapack {

/// The kernels that OpenBLAS uses ("SkylakeX", "Haswell", "Zen" ..); "" for another BLAS. An OpenBLAS that does not
/// know the processor selects kernels of 2004 ("Prescott"), several times slower: the kernels for AVX2 or AVX-512 are
/// then selected at program start, unless OPENBLAS_CORETYPE is set.
std::string kernels();

/// Whether the library factorises a 2 x 2 matrix correctly. It does not when it was built against another library than
/// it is loaded with, or has wider integers.
bool works();

/// a = Q R by Householder reflections: a (rows x columns, rows >= columns, leading dimension rows) becomes Q, R
/// (columns x columns) the upper triangle. Local. LAPACK xgeqrf, xorgqr / xungqr.
template <Scalar T>
void householder_qr(std::span<T> a, int rows, int columns, std::vector<T>& R);

/// A = U diag(s) V^H of an m x n matrix, k = min(m, n), s descending: u is m x k, vh is k x n. a is overwritten. Local.
/// False when a number is not finite or the iteration does not converge. LAPACK gesdd.
template <Scalar T>
bool svd(T* a, int m, int n, T* u, real_t<T>* s, T* vh);

/// C := alpha op(A) op(B) + beta C, C m x n, op(A) m x k; op is 'N', 'T' or 'C'. Local. BLAS gemm.
template <Scalar T>
void gemm(char op_a, char op_b, int m, int n, int k, T alpha, const T* a, int lda, const T* b, int ldb, T beta, T* c,
          int ldc);

/// B := op(A)^-1 B (side 'L') or B op(A)^-1 ('R'), A triangular ('L' or 'U'), its diagonal 'U'nit or 'N'ot; B m x n.
/// Local. BLAS trsm.
template <Scalar T>
void trsm(char side, char triangle, char op, char diagonal, int m, int n, const T* a, int lda, T* b, int ldb);

/// P A = L U of an n x n matrix in place, rows exchanged; row i was exchanged with row pivots[i] (from 0). Local. False
/// where a pivot is exactly 0: the factorisation is complete, with a 0 in U. LAPACK getrf.
template <Scalar T>
bool lu(T* a, int n, int lda, int* pivots);

/// A = L L^H of an n x n Hermitian matrix, of which the lower triangle is read and becomes L. Local. False where a
/// pivot is not positive: A is not positive definite. LAPACK potrf.
template <Scalar T>
bool cholesky(T* a, int n, int lda);

/// While such an object exists, OpenBLAS uses the calling thread only: for calls from Tacit's own threads.
class OneThread {
 public:
  OneThread();
  ~OneThread();
  OneThread(const OneThread&) = delete;
};

}  // namespace tacit::lapack
