// Richardson and Chebyshev iteration: no dot products, one reduction an iteration to know when to stop.
#pragma once

#include <tacit/exec/sweep.hpp>
#include <tacit/krylov/cg.hpp>
#include <tacit/krylov/monitor.hpp>
#include <tacit/krylov/workspace.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace tacit::krylov {

namespace formula {
template <class T>
struct RichardsonPointwise {
  T omega;
  TACIT_HD exec::Sums<1, T> operator()(T f, T v, T scaling, T& d) const {
    const T r = f - v;
    d = d + omega * (scaling * r);
    return {{T(abs2(r))}};
  }
};
template <class T>
struct RichardsonResidual {
  TACIT_HD exec::Sums<1, T> operator()(T f, T v, T& s) const {
    s = f - v;
    return {{T(abs2(s))}};
  }
};
template <class T>
struct ChebyshevStep {
  T a, b;
  TACIT_HD void operator()(T z, T& p, T& d) const {
    p = a * p + b * z;
    d = d + p;
  }
};
template <class T>
struct ChebyshevPointwise {
  T a, b;
  TACIT_HD void operator()(T r, T scaling, T& p, T& d) const {
    p = a * p + b * (scaling * r);
    d = d + p;
  }
};
}  // namespace formula

/// d_{k+1} = d_k + omega P (f - A d_k), f = r on entry. With P = Jacobi: the iteration of Stoyanov and Pfreundt (2014).
/// An iteration: 1 product, 1 apply of P, 1 reduction; 5 vectors of traffic beside the product's when P is diagonal.
/// ||f - A d_k|| is known when d_{k+1} is made: a claim is one iteration late, and the step after it is kept. Where A
/// does steps in passes through memory (Operator::sweeps) and P is diagonal, a pass takes up to `sweeps` of them: 4
/// vectors of traffic a pass, the product's with it, and 1 reduction; a claim may be as much later.
template <Scalar T, Memory M>
void richardson(const Run<T, M>& run, Monitor& monitor, double relaxation, int sweeps = 1) {
  using namespace exec;
  auto& A = run.A;
  auto& P = run.P;
  auto& f = run.r;
  auto& d = run.d;
  auto& w = run.w;
  const auto& space = f.space();
  auto& v = w[0];
  const T omega = T(real_t<T>(relaxation));
  const auto* scaling = P ? P->pointwise() : nullptr;
  monitor.solution_by([&](void* x) { solution(d, T(0), d, x); });
  layout::fill(v, T(0));  // A d for d = 0
  double norm = monitor.norm();
  if (const int most = std::min(sweeps, A.sweeps_at_once()); A.sweeps_at_once() > 1 && (!P || scaling)) {
    std::vector<T> s;
    if (scaling) s = scaling->to_host();
    // Whether P is a multiple of the identity, and which.
    double known[2] = {-std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()};
    for (const T value : s)
      known[0] = std::max(known[0], double(real(value))), known[1] = std::max(known[1], -double(real(value)));
    if (!scaling) known[0] = 1, known[1] = -1;
    space.start_sum(known, 2, comm::Operation::max).wait(known);
    const auto* const varying = known[0] == -known[1] ? nullptr : scaling;
    std::vector<double> squares;
    std::size_t next = 0;
    bool again = false;
    while (monitor.go_on(norm)) {
      if (next == squares.size()) {
        squares.resize(std::size_t(std::min(most, monitor.max_iterations() - monitor.iterations())));
        next = 0;
        A.sweeps(f, omega, T(real_t<T>(known[0])), varying, d, v, squares, std::exchange(again, true));
        for (std::size_t c = 0; c < squares.size() && P; ++c) P->count_apply();
        space.sum(squares.data(), squares.size());
      }
      norm = std::sqrt(squares[next++]);
    }
    return;
  }
  bool fresh = true;
  while (monitor.go_on(norm)) {
    if (!fresh) A.apply(d, v);
    fresh = false;
    if (scaling) {
      P->count_apply();
      const auto [rr] =
          space.sum(sweep(reads(f, v, *scaling), updates(d), writes(), formula::RichardsonPointwise<T>{omega})).wait();
      norm = std::sqrt(double(real(rr)));
    } else {
      auto& s = w[1];
      auto& z = P ? w[2] : s;
      auto pending = space.sum(sweep(reads(f, v), updates(), writes(s), formula::RichardsonResidual<T>{}));
      if (P) P->apply(s, z);
      layout::axpy(omega, z, d);
      norm = std::sqrt(double(real(pending.wait()[0])));
    }
  }
}

/// Chebyshev iteration for A and P Hermitian positive definite, spectrum of P A in [lambda_min, lambda_max]. Saad
/// (2003), Algorithm 12.1. An iteration: 1 product, 1 apply of P, 1 reduction, 8 vectors of traffic beside the
/// product's.
template <Scalar T, Memory M>
void chebyshev(const Run<T, M>& run, Monitor& monitor, double lambda_min, double lambda_max) {
  using namespace exec;
  auto& A = run.A;
  auto& P = run.P;
  auto& r = run.r;
  auto& d = run.d;
  auto& w = run.w;
  const auto& space = r.space();
  auto &p = w[0], &v = w[1];
  const auto* scaling = P ? P->pointwise() : nullptr;
  monitor.solution_by([&](void* x) { solution(d, T(0), d, x); });
  const double theta = (lambda_max + lambda_min) / 2, delta = (lambda_max - lambda_min) / 2, sigma = theta / delta;
  double rho = 1 / sigma, norm = monitor.norm();
  layout::fill(p, T(0));
  bool first = true;
  while (monitor.go_on(norm)) {
    double a = 0, b = 1 / theta;
    if (!first) {
      const double next = 1 / (2 * sigma - rho);
      a = next * rho;
      b = 2 * next / delta;
      rho = next;
    }
    first = false;
    const T ta = T(real_t<T>(a)), tb = T(real_t<T>(b));
    if (scaling) {
      P->count_apply();
      sweep(reads(r, *scaling), updates(p, d), writes(), formula::ChebyshevPointwise<T>{ta, tb});
    } else {
      auto& z = P ? w[2] : r;
      if (P) P->apply(r, z);
      sweep(reads(z), updates(p, d), writes(), formula::ChebyshevStep<T>{ta, tb});
    }
    A.apply(p, v);
    const auto [rr] = space.sum(sweep(reads(v), updates(r), writes(), formula::CgResidual<T>{T(1)})).wait();
    norm = std::sqrt(double(real(rr)));
  }
}

}  // namespace tacit::krylov
