// Conjugate gradients, preconditioned. Hestenes and Stiefel (1952), doi 10.6028/jres.049.044; as in Saad, Iterative
// Methods for Sparse Linear Systems (2003), Algorithm 9.1.
#pragma once

#include "../safeguards/breakdowns.hpp"

#include <tacit/exec/sweep.hpp>
#include <tacit/op/noted.hpp>
#include "krylov/iteration.hpp"

#include <optional>
#include <utility>

namespace tacit::krylov {

namespace formula {
// d += alpha p is delayed until p is updated, so that p is read once an iteration.
template <class T>
struct CgDirection {
  T alpha, beta;
  TACIT_HD void operator()(T z, T& d, T& p) const {
    d = d + alpha * p;
    p = z + beta * p;
  }
};
template <class T>
struct CgDirectionPointwise {  // P diagonal: z = P r is made where it is needed
  T alpha, beta;
  TACIT_HD void operator()(T r, T scaling, T& d, T& p) const { CgDirection<T>{alpha, beta}(scaling * r, d, p); }
};
template <class T>
struct DotsPointwise {  // (r, z), (r, r)
  TACIT_HD exec::Sums<2, T> operator()(T r, T scaling) const { return {{conj(r) * (scaling * r), T(abs2(r))}}; }
};
template <class T>
struct FlexibleDots {  // (r, z), (r, r), (v, z)
  TACIT_HD exec::Sums<3, T> operator()(T r, T z, T v) const { return {{conj(r) * z, T(abs2(r)), conj(v) * z}}; }
};
template <class T>
struct CgResidual {
  T alpha;
  TACIT_HD exec::Sums<1, T> operator()(T v, T& r) const {
    r = r - alpha * v;
    return {{T(abs2(r))}};
  }
};
template <class T>
struct CgResidualPointwise {
  T alpha;
  TACIT_HD exec::Sums<2, T> operator()(T v, T scaling, T& r) const {
    r = r - alpha * v;
    return DotsPointwise<T>{}(r, scaling);
  }
};
}  // namespace formula

/// Whether the next residual of a run may be its last: at the limit of iterations, at the goal if it falls by the
/// square of its last step, and in the first iteration, of which nothing is known.
class ResidualAhead {
 public:
  /// To be called once an iteration. The same on all ranks. Local.
  bool may_be_last(const Monitor& monitor) {
    const double now = monitor.norm(), step = before_ > 0 ? now / before_ : 0;
    before_ = now;
    return monitor.iterations() + 1 >= monitor.max_iterations() || now * step * step <= monitor.goal();
  }

 private:
  double before_ = 0;
};

/// Hermitian positive definite A and P. An iteration: 1 product, 1 apply of P, 2 reductions, 10 vectors of traffic
/// (12 with P; with a diagonal P those of the apply are among them) beside the product's. Vectors: r, d, p, v (and z,
/// where P is not diagonal).
/// Breakdowns: (p, A p) and (r, P r), not positive.
///
/// Where the next residual may be the last (ResidualAhead) and P is no diagonal, ||r|| is summed before P is applied:
/// one reduction more, which saves the last apply of P. A P that solves in a few iterations may take nearly all of the
/// time.
///
/// With a P that varies from call to call the next direction is made orthogonal to A p by (A p, P r) itself, not by
/// what that is for a linear P: flexible cg, for the traffic of one vector more. Notay (2000), doi
/// 10.1137/S1064827599362314, with one direction.
///
/// continued: continues an earlier search. w[0] holds its direction p, which was made when (r, P r) had this value; d
/// is kept, and the monitor has been asked about this r already.
template <Scalar T, Memory M>
void cg(const Run<T, M>& run, Monitor& monitor, std::optional<double> continued = {}) {
  using namespace exec;
  auto& A = run.A;
  auto& P = run.P;
  const bool flexible = op::varies(P);
  const auto* const D = P && !flexible ? P->pointwise() : nullptr;
  auto &r = run.r, &d = run.d, &p = run.w[0], &v = run.w[1], &z = P && !D ? run.w[2] : r;
  const auto& space = r.space();
  T alpha{}, beta{}, rz{}, rr{};
  const auto sum = [&](const auto& part) {
    const auto both = space.sum(part).wait();
    rz = both[0], rr = both[1];
  };
  const auto dots = [&] {  // z = P r; (r, z), (r, r)
    if (D) P->count_apply();
    else if (P) P->apply(r, z);
    if (D) sum(sweep(reads(r, *D), updates(), writes(), formula::DotsPointwise<T>{}));
    else sum(sweep(reads(r, z), updates(), writes(), layout::formula::Dots<T>{}));
  };
  if (!continued) layout::fill(p, T(0));
  CgGuard guard(monitor);
  monitor.solution_by([&](void* x) { solution(d, alpha, p, x); });
  monitor.confirm_by([&] { return layout::max_norm(r); });
  dots();
  if (continued) beta = T(real(rz) / real_t<T>(*continued));
  ResidualAhead ahead;
  bool asked = continued.has_value();  // the monitor, about this r
  while (std::exchange(asked, false) || monitor.go_on(std::sqrt(double(real(rr))))) {
    if (!guard.allows_direction(real(rz))) break;
    // d += alpha p;  p = z + beta p
    if (D) sweep(reads(r, *D), updates(d, p), writes(), formula::CgDirectionPointwise<T>{alpha, beta});
    else sweep(reads(z), updates(d, p), writes(), formula::CgDirection<T>{alpha, beta});
    alpha = T(0);
    A.apply(p, v);  // v = A p
    const auto [pv] = space.sum(sweep(reads(p, v), updates(), writes(), layout::formula::Dot<T>{})).wait();
    if (!guard.allows_step(real(rz), real(pv))) break;
    alpha = T(real(rz) / real(pv));  // alpha = (r, z) / (p, A p)
    const T old = rz;
    if (D) {  // r -= alpha A p
      P->count_apply();
      sum(sweep(reads(v, *D), updates(r), writes(), formula::CgResidualPointwise<T>{alpha}));
    } else {
      const auto step = sweep(reads(v), updates(r), writes(), formula::CgResidual<T>{alpha});
      if (P && ahead.may_be_last(monitor)) {
        rr = space.sum(step).wait()[0];
        if (asked = monitor.go_on(std::sqrt(double(real(rr)))); !asked) break;
      }
      if (flexible) {
        P->apply(r, z);  // z = P r
        const auto [a, b, c] = space.sum(sweep(reads(r, z, v), updates(), writes(), formula::FlexibleDots<T>{})).wait();
        rz = a, rr = b, beta = -c * T(real(alpha) / real(old));  // beta = -(A p, z) / (p, A p)
        continue;
      }
      if (P) dots();
      else rz = rr = space.sum(step).wait()[0];
    }
    beta = T(real(rz) / real(old));  // beta = (r, z) / (r, z of before)
  }
  layout::axpy(alpha, p, d);
}

template <Scalar T, Memory M>
class Cg final : public Iteration<T, M> {
 public:
  void run(const Run<T, M>& run, Monitor& monitor) override { cg<T, M>(run, monitor); }
};

template <Scalar T, Memory M>
std::unique_ptr<Iteration<T, M>> make_cg(const Options&) {
  return std::make_unique<Cg<T, M>>();
}

}  // namespace tacit::krylov
