#include "levels.hpp"

#include "scalar.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>

namespace tacit::precond {

using layout::Vector;

template <Scalar S>
void Levels<S>::cycle(Cycle kind, bool from_zero, bool norm) {
  if (count() == 1) return solve_last(from_zero, norm);
  if (kind == Cycle::mult_additive) return additive();
  if (kind != Cycle::f) return go(0, from_zero, norm, kind);
  for (std::size_t i = 0; i + 1 < count(); ++i) restrict_f(i);
  solve_last(true, false);
  for (std::size_t i = count() - 1; i-- > 0;) {
    interpolate_u(i);
    go(i, false, norm && i == 0, Cycle::v);
  }
}

/// From u_0 = 0. Products of all levels are in flight while the last is solved.
template <Scalar S>
void Levels<S>::additive() {
  for (std::size_t i = 0; i + 1 < count(); ++i) restrict_f(i);
  for (std::size_t i = 0; i + 1 < count(); ++i) start_alone(i);
  solve_last(true, false);
  for (std::size_t i = count() - 1; i-- > 0;) {
    finish_alone(i);
    correct(i);
  }
}

template <Scalar S>
void Levels<S>::go(std::size_t i, bool from_zero, bool norm, Cycle kind) {
  down(i, from_zero);
  if (i + 2 == count()) {
    solve_last(true, false);
  } else if (kind == Cycle::k) {
    accelerate(i + 1);
  } else {
    go(i + 1, true, false, kind);
    if (kind == Cycle::w) go(i + 1, false, false, kind);
  }
  up(i, norm);
}

namespace {

/// The inner products, over all ranks, of the pairs of vectors, for each column: pair p of column k is [k][p].
template <class S, std::size_t N>
std::vector<std::array<S, N>> products(const std::array<std::pair<const Vector<S>*, const Vector<S>*>, N>& pairs) {
  const auto& some = *pairs[0].first;
  const auto columns = std::size_t(some.columns());
  std::vector<std::array<S, N>> sums(columns);
  if (columns == 1) {
    for (std::size_t p = 0; p < N; ++p)
      sums[0][p] = exec::sweep(exec::reads(*pairs[p].first, *pairs[p].second), exec::updates(), exec::writes(),
                               layout::formula::Dot<S>{})
                       .v[0];
  } else {
    for (std::size_t p = 0; p < N; ++p)
      for (std::size_t j = 0; j < some.size(); ++j)
        sums[j % columns][p] += conj(pairs[p].first->data()[j]) * pairs[p].second->data()[j];
  }
  some.space().sum(sums[0].data(), columns * N);
  return sums;
}

/// y := y + a_k x for each column k.
template <class S>
void add(const std::vector<S>& a, const Vector<S>& x, Vector<S>& y) {
  if (a.size() == 1) return layout::axpy(a[0], x, y);
  for (std::size_t j = 0; j < x.size(); ++j) y.data()[j] += a[j % a.size()] * x.data()[j];
}

}  // namespace

/// Approximates A_i^-1 f_i by y c + z d, c and d cycles for f_i and for the residual after c: of least error in the
/// norm of A_i, or of least residual. Two reductions. Notay, Vassilevski (2008), algorithm 3.1.
template <Scalar S>
void Levels<S>::accelerate(std::size_t i) {
  using R = real_t<S>;
  constexpr R enough = R(0.25);
  const auto& A = matrix(i);
  searches_.resize(count());
  auto& search = searches_[i];
  if (!search || search->r.columns() != columns()) search = std::make_unique<Search>(A.range(), columns());
  auto& [r, c, v, d, w] = *search;
  const bool hermitian = is_hermitian();

  store_f(i, r);
  go(i, true, false, Cycle::k);
  store_u(i, c);
  A.apply(c, v);
  const auto* const own = hermitian ? &c : &v;
  const auto first = products<S, 5>({{{own, &v}, {own, &r}, {&v, &v}, {&v, &r}, {&r, &r}}});
  const std::size_t n = first.size();
  std::vector<S> y(n, S(1)), z(n, S(0));
  std::vector<char> done(n, 0);
  for (std::size_t k = 0; k < n; ++k) {
    const auto [cv, cr, vv, vr, rr] = first[k];
    // Where there is no step that can be computed, c is taken as it is.
    if (!std::isnormal(R(std::real(cv))) || !std::isfinite(std::abs(cr))) {
      done[k] = 1;
      continue;
    }
    y[k] = cr / R(std::real(cv));
    const R left = R(std::real(rr)) - 2 * R(std::real(conj(y[k]) * vr)) + R(std::norm(y[k])) * R(std::real(vv));
    done[k] = left <= enough * enough * R(std::real(rr));
  }
  if (std::find(done.begin(), done.end(), 0) != done.end()) {
    std::vector<S> minus(n);
    std::transform(y.begin(), y.end(), minus.begin(), [](S a) { return -a; });
    add(minus, v, r);
    load_f(i, r);
    go(i, true, false, Cycle::k);
    store_u(i, d);
    A.apply(d, w);
    const auto* const test = hermitian ? &d : &w;
    const auto second = products<S, 3>({{{&v, test}, {test, &w}, {test, &r}}});
    for (std::size_t k = 0; k < n; ++k) {
      if (done[k]) continue;
      const R cv = R(std::real(first[k][0]));
      const auto [vd, dw, dr] = second[k];
      const R left = R(std::real(dw)) - R(std::norm(vd)) / cv;
      if (!std::isnormal(left) || (left < 0) != (cv < 0) || !std::isfinite(std::abs(dr))) continue;
      z[k] = dr / left;
      y[k] -= z[k] * vd / cv;
    }
  }
  layout::fill(w, S(0));
  add(y, c, w);
  add(z, d, w);
  load_u(i, w);
}

template class Levels<float>;
template class Levels<double>;
template class Levels<std::complex<float>>;
template class Levels<std::complex<double>>;

}  // namespace tacit::precond
