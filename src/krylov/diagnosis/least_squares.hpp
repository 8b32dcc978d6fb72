// A least-squares solve that finds null vectors of A^H: its residual tends to the part of b outside the range of A.
#pragma once

#include "../cycle.hpp"
#include "../safeguards/scales.hpp"

#include "krylov/workspace.hpp"

namespace tacit::krylov {

/// min ||f - A P u|| over the Krylov space of P^H A^H A P, with residual y: orthonormal bases V of the gradients
/// P^H A^H y and W of A P V, both made orthogonal twice, so that rounding does not delay it: at most n steps. Paige and
/// Saunders (1982), doi 10.1145/355984.355989, with full orthogonalisation.
template <Scalar T, Memory M>
struct LeastSquares {
  Vector<T, M> y, Ay, s, t;  // Ay = A^H y, s = P^H A^H y
  const op::Operator<T, M>* P = nullptr;
  bool adjoint_of_P = false;  // P has an adjoint product; else it is Hermitian
  double first = 0;           // the first gradient's norm
  int steps = 0, kept = 0;    // vectors of V, and of W
  Workspace<T, M> V, W;

  explicit LeastSquares(const layout::Space& space) : y(space), Ay(y), s(y), t(y), V(space), W(space) {}

  /// The next y, of the gradient s; false where there are no further directions. Two products, and two with P.
  /// Collective.
  bool step(const op::Operator<T, M>& A);

 private:
  static bool make_orthonormal(Workspace<T, M>& basis, int k);
};

/// Makes vector k of the basis orthonormal to those before it; false where it is in their span, to rounding.
/// Collective.
template <Scalar T, Memory M>
bool LeastSquares<T, M>::make_orthonormal(Workspace<T, M>& basis, int k) {
  auto& v = basis[std::size_t(k)];
  const double before = layout::norm(v);
  if (!(before > 0) || !std::isfinite(before)) return false;
  layout::scale(T(real_t<T>(1 / before)), v);
  if constexpr (is_group<M>) {  // for which there are no sweeps over several vectors
    for (int i = 0; i < 2 * k; ++i) {
      const auto& q = basis[std::size_t(i % k)];
      layout::axpy(-layout::dot(q, v), q, v);
    }
    const double left = layout::norm(v);
    if (!(left > 10 * double(std::numeric_limits<real_t<T>>::epsilon()))) return false;
    layout::scale(T(real_t<T>(1 / left)), v);
    return true;
  } else {
    std::vector<const T*> q;
    for (int i = 0; i < k; ++i) q.push_back(basis[std::size_t(i)].data());
    std::vector<T> h;
    orthogonalise(Orthogonalisation::cgs2, q, k, v, h);
    return h[std::size_t(k)] != T(0);
  }
}

template <Scalar T, Memory M>
bool LeastSquares<T, M>::step(const op::Operator<T, M>& A) {
  y.space().comm().check_interrupt();
  auto &v = V[std::size_t(steps)], &w = W[std::size_t(kept)];
  layout::copy(s, v);
  if (steps == 0) first = layout::norm(s);
  if (!make_orthonormal(V, steps)) return false;
  ++steps;
  if (P) P->apply(v, t);
  A.apply(P ? t : v, w);
  if (!make_orthonormal(W, kept)) return true;
  ++kept;
  layout::axpy(-layout::dot(w, y), w, y);
  return true;
}

}  // namespace tacit::krylov
