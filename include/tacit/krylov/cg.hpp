// Conjugate gradients, preconditioned. Hestenes and Stiefel (1952), doi 10.6028/jres.049.044; as in Saad, Iterative
// Methods for Sparse Linear Systems (2003), Algorithm 9.1.
#pragma once

#include <tacit/exec/sweep.hpp>
#include <tacit/krylov/monitor.hpp>
#include <tacit/krylov/workspace.hpp>

#include <optional>
#include <utility>

namespace tacit::krylov {

namespace formula {
// The step along the old direction waits until the direction is renewed: p passes through memory once.
template <class T>
struct CgDirection {
  T alpha, beta;
  TACIT_HD void operator()(T z, T& d, T& p) const {
    d = d + alpha * p;
    p = z + beta * p;
  }
};
template <class T>
struct CgResidual {
  T alpha;
  TACIT_HD exec::Sums<1, T> operator()(T v, T& r) const {
    r = r - alpha * v;
    return {{T(abs2(r))}};
  }
};
}  // namespace formula

/// Hermitian positive definite A and P. An iteration: 1 product, 1 apply of P, 2 reductions, 10 vectors of traffic
/// (13 with P) beside the product's. Vectors: r, d, p, v (and z).
/// Breakdowns: (p, A p) and (r, P r), not positive.
///
/// goes_on: the monitor has been asked about this r already, and the search goes on from the direction in w[0], which
/// was made when (r, P r) was this; d stays.
template <Scalar T, Memory M>
void cg(const Run<T, M>& run, Monitor& monitor, std::optional<double> goes_on = {}) {
  using namespace exec;
  auto& A = run.A;
  auto& P = run.P;
  auto& r = run.r;
  auto& d = run.d;
  auto& w = run.w;
  const auto& space = r.space();
  auto &p = w[0], &v = w[1];
  auto& z = P ? w[2] : r;
  if (!goes_on) layout::fill(p, T(0));
  T alpha{}, beta{};
  // ||x - x_k||_A^2 has fallen by the sum of the alpha (r, P r) so far: Hestenes and Stiefel, theorem 6:1.
  double energy = 0, seen = 0;
  monitor.solution_by([&](void* x) { solution(d, alpha, p, x); });
  monitor.confirm_by([&] { return layout::max_norm(r); });

  if (P) P->apply(r, z);
  auto [rz, rr] = space.sum(sweep(reads(r, z), updates(), writes(), layout::formula::Dots<T>{})).wait();
  if (goes_on) beta = T(real(rz) / real_t<T>(*goes_on));
  while (std::exchange(goes_on, {}) || monitor.go_on(std::sqrt(double(real(rr))))) {
    if (!(real(rz) > 0)) {
      monitor.breakdown("(r, P r)", real(rz), "the preconditioner is not positive definite");
      break;
    }
    sweep(reads(z), updates(d, p), writes(), formula::CgDirection<T>{alpha, beta});
    alpha = T(0);
    A.apply(p, v);
    const auto [pv] = space.sum(sweep(reads(p, v), updates(), writes(), layout::formula::Dot<T>{})).wait();
    if (!(real(pv) > 0)) {
      monitor.breakdown("(p, A p)", real(pv), "the matrix is not positive definite");
      break;
    }
    alpha = T(real(rz) / real(pv));
    energy += double(real(alpha)) * double(real(rz));
    if (energy > 1.01 * seen) seen = energy, monitor.progress();
    const T old = rz;
    const auto step = sweep(reads(v), updates(r), writes(), formula::CgResidual<T>{alpha});
    if (P) {
      P->apply(r, z);
      const auto dots = space.sum(sweep(reads(r, z), updates(), writes(), layout::formula::Dots<T>{})).wait();
      rz = dots[0], rr = dots[1];
    } else {
      rz = rr = space.sum(step).wait()[0];
    }
    beta = T(real(rz) / real(old));
  }
  layout::axpy(alpha, p, d);
}

}  // namespace tacit::krylov
