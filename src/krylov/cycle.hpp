// What the cycles of gmres and its variants share: the start, the orthogonalisation of a vector, and the solution. One
// reduction per vector: Swirydowicz et al. (2021), doi 10.1002/nla.2343 (the Pythagorean norm of classical
// Gram-Schmidt, with a second round where it cancels).
#pragma once

#include "safeguards/breakdowns.hpp"

#include <tacit/exec/basis.hpp>
#include <tacit/exec/sweep.hpp>
#include "krylov/monitor.hpp"
#include "krylov/projected.hpp"
#include "krylov/workspace.hpp"

#include <limits>
#include <vector>

namespace tacit::krylov {

namespace formula {
template <class T>
struct Multiple {
  T alpha;
  TACIT_HD void operator()(T x, T& y) const { y = alpha * x; }
};
/// v -= h q, and (next, v)
template <class T>
struct SubtractAndDot {
  T h;
  TACIT_HD exec::Sums<1, T> operator()(T q, T next, T& v) const {
    v = v - h * q;
    return {{conj(next) * v}};
  }
};
}  // namespace formula

/// q_0 = r / ||r||, with `left` P r / ||P r||; in the 2-norm also with Norm::max, because the basis is orthonormal.
/// Returns the norm, or 0 where the cycle cannot begin. One reduction where the norm is not known yet. Collective.
template <Scalar T, Memory M>
double begin_cycle(const Run<T, M>& run, Monitor& monitor, bool left, layout::Vector<T, M>& q0) {
  const double asked = monitor.norm();
  double beta = asked;
  if (left) {
    run.P->apply(run.r, q0);
    beta = layout::norm(q0);
    if (!(beta > 0) && asked > 0)
      return monitor.breakdown("||P r||", beta, "the preconditioner maps the residual to zero");
  } else if (monitor.uses_max_norm()) {
    beta = layout::norm(run.r);
  }
  monitor.scale_norms(beta > 0 ? asked / beta : 1);
  if (!(beta > 0) || !std::isfinite(beta)) return monitor.go_on(beta), 0;
  const T scale = T(real_t<T>(1 / beta));
  if (left) layout::scale(scale, q0);
  else exec::sweep(exec::reads(run.r), exec::updates(), exec::writes(q0), formula::Multiple<T>{scale});
  return beta;
}

/// After one round of Gram-Schmidt a basis is only orthogonal to epsilon (beta / residual)^2 (Giraud, Langou,
/// Rozloznik, van den Eshof 2005, doi 10.1007/s00211-005-0615-4): from epsilon^(1/4) on, two rounds are needed.
template <Scalar T>
bool past_half_the_digits(double residual, double beta) {
  return residual * residual < std::sqrt(std::numeric_limits<real_t<T>>::epsilon()) * beta * beta;
}

/// h := `left`, the norm that v has after it was made orthogonal (`before`: the norm before that); returns 1 / left.
/// Both are 0 where `left` is rounding error, as for a vector in the span of the basis.
template <Scalar T>
T inverse_of_rest(double before, double left, T& h) {
  const bool rounding = left <= 10 * double(std::numeric_limits<real_t<T>>::epsilon()) * before;
  h = rounding ? T(0) : T(real_t<T>(left));
  return rounding ? T(0) : T(real_t<T>(1 / left));
}

/// orthogonalise() by one reduction: Swirydowicz et al. (2021), doi 10.1002/nla.2343 (the Pythagorean norm of classical
/// Gram-Schmidt, with a second round where it cancels, or where `careful`).
template <Scalar T, Memory M>
void orthogonalise_by_pythagoras(const T* const* q, int j, layout::Vector<T, M>& v, std::vector<T>& h, bool careful) {
  const double epsilon = std::numeric_limits<real_t<T>>::epsilon();
  T* const c = h.data() + j + 1;  // this round's part of h
  double before = 0;
  for (int round = 0;; ++round) {
    exec::basis_dots<T, M>(q, j, v.data(), v.size(), c, true);
    v.space().sum(c, j + 1);
    for (int i = 0; i < j; ++i) h[i] += c[i];
    const double whole = real(c[j]);
    double inside = 0;
    for (int i = 0; i < j; ++i) inside += abs2(c[i]);
    const double left = whole - inside;
    if (round == 0) before = std::sqrt(whole);
    // Relative error of the norm: epsilon whole / left; here at most sqrt(epsilon) / 100.
    const bool enough = left > 100 * std::sqrt(epsilon) * whole && (round > 0 || !careful);
    const bool last = enough || round == 2 || !(whole > 0) || !std::isfinite(whole);
    T scale(1);
    if (last)
      scale = std::isfinite(whole) ? inverse_of_rest(before, std::sqrt(std::max(left, 0.0)), h[j]) : (h[j] = c[j]);
    exec::basis_subtract<T, M>(q, j, c, scale, v.data(), v.size(), false);
    if (last) return h.resize(j + 1);
  }
}

/// Makes v orthogonal to q_0 .. q_{j-1} and of norm 1; h[0..j) are the coefficients, h[j] the norm that was left.
/// h[j] = 0 when only rounding error was left (v is then not to be used). With `careful`, one_reduction does two rounds
/// where one would do. Collective. Allocates only where h must grow.
template <Scalar T, Memory M>
void orthogonalise(Orthogonalisation how, const std::vector<const T*>& q, int j, layout::Vector<T, M>& v,
                   std::vector<T>& h, bool careful = false) {
  using exec::basis_dots, exec::basis_subtract;
  const auto& space = v.space();
  const std::size_t n = v.size();
  h.assign(2 * std::size_t(j + 1), T(0));
  if (how == Orthogonalisation::one_reduction) return orthogonalise_by_pythagoras(q.data(), j, v, h, careful);
  T* const c = h.data() + j + 1;
  T before{}, left{};
  const int rounds = how == Orthogonalisation::cgs2 ? 2 : 1;
  for (int round = 0; round < rounds; ++round) {
    if (how == Orthogonalisation::mgs) {
      basis_dots<T, M>(q.data(), 1, v.data(), n, c, true);
      space.sum(c, 2);
      before = c[1], h[0] = c[0];
      for (int i = 1; i < j; ++i) {
        const exec::View<const T, M> last(q[i - 1], n), next(q[i], n);
        const auto dot = exec::sweep(exec::reads(last, next), exec::updates(v), exec::writes(),
                                     formula::SubtractAndDot<T>{h[i - 1]});
        h[i] = space.sum(dot).wait()[0];
      }
      left = basis_subtract<T, M>(q.data() + j - 1, 1, h.data() + j - 1, T(1), v.data(), n, true);
    } else {
      const bool first = round == 0;
      basis_dots<T, M>(q.data(), j, v.data(), n, c, first);
      space.sum(c, j + int(first));
      if (first) before = c[j];
      for (int i = 0; i < j; ++i) h[i] += c[i];
      left = basis_subtract<T, M>(q.data(), j, c, T(1), v.data(), n, round == rounds - 1);
    }
  }
  space.sum(&left, 1);
  layout::scale(inverse_of_rest(std::sqrt(double(real(before))), std::sqrt(double(real(left))), h[j]), v);
  h.resize(j + 1);
}

/// The orthogonalisation that gmres uses: one_reduction where the option is for blocks of vectors (gmres follows an
/// s-step method) or absent.
inline Orthogonalisation one_at_a_time(Orthogonalisation how) {
  using enum Orthogonalisation;
  return how == cgs || how == cgs2 || how == mgs ? how : one_reduction;
}

/// into += v, or P v where P is not null; combine(to) adds v to a vector. w[u] and w[Pu] are scratch vectors for P.
template <Scalar T, Memory M, class F>
void add_through(const op::Operator<T, M>* P, Workspace<T, M>& w, std::size_t u, std::size_t Pu,
                 layout::Vector<T, M>& into, const F& combine) {
  if (!P) return combine(into);
  layout::fill(w[u], T(0));
  combine(w[u]);
  P->apply(w[u], w[Pu]);
  layout::axpy(T(1), w[Pu], into);
}

/// Lets callbacks see d with the present solution y of the projected problem; combine(y, into) adds sum y_j q_j.
template <Scalar T, Memory M, class F>
void show_cycle(const Run<T, M>& run, Monitor& monitor, const Projected<T>& projected, const F& combine) {
  monitor.solution_by([&](void* x) {
    auto whole = run.d;
    if (projected.columns() > 0) combine(projected.coefficients(), whole);
    solution(whole, T(0), whole, x);
  });
}

/// d := sum y_j q_j for the projected problem's minimiser y or, where that is not sound, for the candidate with the
/// least recomputed residual. One product and one reduction for each candidate. Collective.
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

}  // namespace tacit::krylov
