// GMRES, one cycle; the driver restarts it from the recomputed residual. Saad and Schultz (1986), doi 10.1137/0907058;
// flexible: Saad (1993), doi 10.1137/0914028; one reduction per vector: Swirydowicz et al. (2021), doi 10.1002/nla.2343
// (the Pythagorean norm of classical Gram-Schmidt, with a second round where it cancels).
#pragma once

#include <tacit/exec/basis.hpp>
#include <tacit/exec/sweep.hpp>
#include <tacit/krylov/monitor.hpp>
#include <tacit/krylov/projected.hpp>
#include <tacit/krylov/workspace.hpp>

#include <limits>
#include <vector>

namespace tacit::krylov {

/// Makes v orthogonal to q_0 .. q_{j-1} and of norm 1; h[0..j) are the coefficients, h[j] the norm it had left.
/// h[j] = 0 when nothing but rounding was left (v is then not to be used). With `careful`, one_reduction does two
/// rounds where one would do. Collective. Allocates only where h must grow.
template <Scalar T, Memory M>
void orthogonalise(Orthogonalisation how, const std::vector<const T*>& q, int j, layout::Vector<T, M>& v,
                   std::vector<T>& h, bool careful = false) {
  using exec::basis_dots, exec::basis_subtract;
  const auto& space = v.space();
  const double epsilon = std::numeric_limits<real_t<T>>::epsilon();
  const std::size_t n = v.size();
  h.assign(2 * std::size_t(j + 1), T(0));
  T* const c = h.data() + j + 1;  // this round's part of h
  const auto finish = [&](double before, double left) {
    // A vector of the span leaves rounding of its former length only.
    if (left <= 10 * epsilon * before) return h[j] = T(0), T(0);
    h[j] = T(real_t<T>(left));
    return T(real_t<T>(1 / left));
  };
  const auto add = [&] {
    for (int i = 0; i < j; ++i) h[i] += c[i];
  };
  if (how == Orthogonalisation::one_reduction) {
    double before = 0;
    for (int round = 0;; ++round) {
      basis_dots<T, M>(q.data(), j, v.data(), n, c, true);
      space.sum(c, j + 1);
      add();
      const double whole = real(c[j]);
      double inside = 0;
      for (int i = 0; i < j; ++i) inside += abs2(c[i]);
      const double left = whole - inside;
      if (round == 0) before = std::sqrt(whole);
      // Relative error of the norm: epsilon whole / left; here at most sqrt(epsilon) / 100.
      const bool enough = left > 100 * std::sqrt(epsilon) * whole && (round > 0 || !careful);
      if (enough || round == 2 || !(whole > 0) || !std::isfinite(whole)) {
        const T scale = std::isfinite(whole) ? finish(before, std::sqrt(std::max(left, 0.0))) : (h[j] = c[j]);
        basis_subtract<T, M>(q.data(), j, c, scale, v.data(), n, false);
        h.resize(j + 1);
        return;
      }
      basis_subtract<T, M>(q.data(), j, c, T(1), v.data(), n, false);
    }
  }
  T before{}, left{};
  const int rounds = how == Orthogonalisation::cgs2 ? 2 : 1;
  for (int round = 0; round < rounds; ++round) {
    if (how == Orthogonalisation::mgs) {
      for (int i = 0; i < j; ++i) {
        basis_dots<T, M>(q.data() + i, 1, v.data(), n, c, i == 0);
        space.sum(c, i == 0 ? 2 : 1);
        if (i == 0) before = c[1];
        h[i] = c[0];
        left = basis_subtract<T, M>(q.data() + i, 1, c, T(1), v.data(), n, i == j - 1);
      }
    } else {
      const bool first = round == 0;
      basis_dots<T, M>(q.data(), j, v.data(), n, c, first);
      space.sum(c, j + int(first));
      if (first) before = c[j];
      add();
      left = basis_subtract<T, M>(q.data(), j, c, T(1), v.data(), n, round == rounds - 1);
    }
  }
  space.sum(&left, 1);
  layout::scale(finish(std::sqrt(double(real(before))), std::sqrt(double(real(left)))), v);
  h.resize(j + 1);
}

/// What gmres takes: the choice for blocks of vectors, or none, means one_reduction (a classical method after an s-step
/// one).
inline Orthogonalisation one_at_a_time(Orthogonalisation how) {
  using enum Orthogonalisation;
  return how == cgs || how == cgs2 || how == mgs ? how : one_reduction;
}

/// d := the projected problem's minimiser, or the best of its candidates where that is not sound; combine(y, into) adds
/// what y stands for. One product and one reduction for each candidate. Collective.
template <Scalar T, Memory M, class F>
void take_best(const Run<T, M>& run, const Projected<T>& projected, const F& combine) {
  if (projected.columns() == 0) return;
  auto whole = projected.coefficients();
  if (projected.is_sound(whole)) return combine(std::move(whole), run.d);
  layout::Vector<T, M> trial(run.r.space()), left(run.r.space());
  double least = std::numeric_limits<double>::infinity();
  for (const auto& y : projected.candidates()) {
    layout::fill(trial, T(0));
    combine(y, trial);
    run.A.apply(trial, left);
    layout::subtract(run.r, left, left);
    const double norm = layout::norm(left);
    if (norm < least) least = norm, layout::copy(trial, run.d);
  }
}

/// One cycle of at most `restart` vectors on any square A. For vector j: 1 product, 1 apply of P; reductions and passes
/// as in Orthogonalisation (one_reduction: two rounds once the cycle has reduced the residual by epsilon^(1/4)), 2 j +
/// 4 vectors of traffic a pass pair. Vectors: restart + 1 (flexible: 2 restart + 1), r, d. Left preconditioning
/// measures ||P r||, scaled to ||r|| at the start of the cycle. Breakdown: R_jj of the projected problem, for singular
/// A.
template <Scalar T, Memory M>
void gmres(const Run<T, M>& run, Monitor& monitor, int restart, Side side, Orthogonalisation how) {
  using namespace exec;
  auto& A = run.A;
  auto& P = run.P;
  auto& r = run.r;
  auto& d = run.d;
  auto& w = run.w;
  const bool left = P && side == Side::left, flexible = P && side == Side::flexible;
  const auto basis = [&](int j) -> layout::Vector<T, M>& { return w[3 + std::size_t(flexible ? 2 * j : j)]; };
  const auto directions = [&](int j) -> layout::Vector<T, M>& { return w[4 + 2 * std::size_t(j)]; };
  auto& z = w[0];

  const double r_norm = layout::norm(r);
  if (left) P->apply(r, basis(0));
  else layout::copy(r, basis(0));
  const double beta = left ? layout::norm(basis(0)) : r_norm;
  if (left) {
    if (!(beta > 0) && r_norm > 0) {
      monitor.breakdown("||P r||", beta, "the preconditioner maps the residual to zero");
      return;
    }
    monitor.scale_norms(beta > 0 ? r_norm / beta : 1);
  }
  if (!(beta > 0) || !std::isfinite(beta)) {
    monitor.go_on(beta);
    return;
  }
  layout::scale(T(real_t<T>(1 / beta)), basis(0));

  std::vector<const T*> q;
  std::vector<T> h;
  Projected<T> projected(beta);
  const auto combine = [&](std::vector<T> y, layout::Vector<T, M>& into) {  // into += sum_j y_j (direction j)
    for (T& c : y) c = -c;
    std::vector<const T*> v;
    for (int i = 0; i < int(y.size()); ++i) v.push_back(flexible ? directions(i).data() : basis(i).data());
    if (P && !left && !flexible) {
      auto& u = w[1];
      auto& Pu = w[2];
      layout::fill(u, T(0));
      basis_subtract<T, M>(v.data(), int(y.size()), y.data(), T(1), u.data(), u.size(), false);
      P->apply(u, Pu);
      layout::axpy(T(1), Pu, into);
    } else {
      basis_subtract<T, M>(v.data(), int(y.size()), y.data(), T(1), into.data(), into.size(), false);
    }
  };
  monitor.solution_by([&](void* x) {
    auto whole = d;
    if (projected.columns() > 0) combine(projected.coefficients(), whole);
    solution(whole, T(0), whole, x);
  });

  double residual = beta;
  bool stop = false;
  while (!stop && monitor.go_on(residual)) {
    const int j = projected.columns();
    if (j == restart) {
      monitor.end(Outcome::cycle_end);
      break;
    }
    auto& v = basis(j + 1);
    q.push_back(basis(j).data());
    if (!P) {
      A.apply(basis(j), v);
    } else if (left) {
      A.apply(basis(j), z);
      P->apply(z, v);
    } else {
      auto& zj = flexible ? directions(j) : z;
      P->apply(basis(j), zj);
      A.apply(zj, v);
    }
    // Once through, the basis is orthogonal to epsilon (beta / residual)^2 only (Giraud, Langou, Rozloznik, van den
    // Eshof 2005, doi 10.1007/s00211-005-0615-4): from half of the digits on, twice.
    const bool careful = residual * residual < std::sqrt(std::numeric_limits<real_t<T>>::epsilon()) * beta * beta;
    orthogonalise(how, q, j + 1, v, h, careful);
    const double below = std::abs(h[j + 1]);
    if (!projected.append(h.data())) {
      residual = projected.pivot();
      if (!std::isfinite(residual)) continue;
      monitor.breakdown("R_jj", residual, "the Krylov space is exhausted without a solution: the matrix is singular");
      break;
    }
    residual = projected.residual();
    if (below == 0) {
      // The space is invariant and the solution in it, or the matrix is so badly scaled that what was left looks like
      // rounding: the recomputed residual tells, and a new cycle starts from it.
      if (monitor.go_on(residual) || monitor.outcome() == Outcome::claims) monitor.end(Outcome::cycle_end);
      stop = true;
    }
  }
  monitor.solution_by(nullptr);
  take_best(run, projected, combine);
}

}  // namespace tacit::krylov
