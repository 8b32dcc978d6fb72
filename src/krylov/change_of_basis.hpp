// The bases of s-step and pipelined methods, and the small matrices that lead from them to the orthonormal basis.
//
//   V generated vectors, Q orthonormal, V = Q R;   A V_{1:k} = V_{1:k+1} B   (B: change of basis)
//   H = R B R^-1,                                   A Q_{1:k} = Q_{1:k+1} H   (Hessenberg)
//
// Newton bases: Bai, Hu, Reichel (1994), doi 10.1093/imanum/14.4.563. Chebyshev: Joubert, Carey (1992),
// doi 10.1080/00207169208804107. Columns of R and H as they arrive: Ghysels, Ashby, Meerbergen, Vanroose (2013), doi
// 10.1137/12086563X.
#pragma once

#include <tacit/krylov/options.hpp>
#include <tacit/op/recurrence.hpp>

#include <cmath>
#include <complex>
#include <span>
#include <vector>

namespace tacit::krylov {

/// The Ritz values: eigenvalues of the leading n x n block of the Hessenberg matrix h (stored by columns, leading
/// dimension ld). Empty where they cannot be computed. The same bits on all ranks that have the same h. Local.
template <Scalar T>
std::vector<std::complex<double>> ritz_values(std::span<const T> h, int ld, int n);

/// Leja order: each value has the largest product of distances from those before it; the first is the largest. `pairs`
/// (real arithmetic): each complex value is followed by its conjugate, positive imaginary part first.
std::vector<std::complex<double>> leja(std::vector<std::complex<double>> values, bool pairs);

/// The recurrence of a basis of `steps` vectors for an operator with these Ritz values. Newton: shifts in Leja order,
/// repeated from the start; in real arithmetic two real steps for a conjugate pair. Chebyshev: polynomials of an
/// ellipse around the values. gamma keeps the lengths of the vectors about constant: it is about the capacity of the
/// set of values. Monomial, or no values: gamma is the largest magnitude, or `scale` where there are no values.
template <Scalar T>
op::Recurrence<T> make_recurrence(Basis basis, std::span<const std::complex<double>> ritz, int steps, double scale = 1);

/// Column k (from 0) of R, rows 0..k, from g = [Q_{0:p}, V_{p:k+1}]^H v_k. R is upper triangular, leading dimension ld;
/// columns before k are complete. Returns r_kk^2 / (v_k, v_k): not positive, or not finite, means that v_k depends on
/// the vectors before it (breakdown); column k of R is then not to be used.
template <Scalar T>
double finish_column(std::vector<T>& R, int ld, int k, const T* g, int p) {
  T* const r = R.data() + std::size_t(k) * ld;
  const auto at = [&](int i, int j) { return R[std::size_t(j) * ld + i]; };
  for (int i = 0; i < p && i < k; ++i) r[i] = g[i];
  for (int i = p; i < k; ++i) {
    T sum = g[i];
    for (int l = 0; l < i; ++l) sum -= conj(at(l, i)) * r[l];
    r[i] = sum / real(at(i, i));
  }
  const double whole = real(g[k]);
  double left = whole;
  for (int i = 0; i < k; ++i) left -= abs2(r[i]);
  r[k] = left > 0 ? T(real_t<T>(std::sqrt(left))) : T(0);
  return left / whole;
}

/// Column c (from 0) of H = R B R^-1, rows 0..c+1, from columns 0..c of B (leading dimension ld, as H and R), R up to
/// column c+1, and the columns of H before c.
template <Scalar T>
void hessenberg_column(std::vector<T>& H, const std::vector<T>& R, const std::vector<T>& B, int ld, int c) {
  T* const h = H.data() + std::size_t(c) * ld;
  for (int i = 0; i <= c + 1; ++i) {
    T sum(0);
    for (int l = i; l <= c + 1; ++l) sum += R[std::size_t(l) * ld + i] * B[std::size_t(c) * ld + l];
    for (int l = std::max(i - 1, 0); l < c; ++l) sum -= H[std::size_t(l) * ld + i] * R[std::size_t(c) * ld + l];
    h[i] = sum / real(R[std::size_t(c) * ld + c]);
  }
}

}  // namespace tacit::krylov
