// Cycles over levels in any memory; instantiated by levels.cpp (host) and, in builds with CUDA, for the device.
#pragma once

#include "levels.hpp"

#include "scalar.hpp"

#include <algorithm>
#include <cmath>
#include <concepts>
#include <vector>

namespace tacit::precond {

template <Scalar S, Memory M>
void Levels<S, M>::cycle(Cycle kind, bool from_zero, bool norm) {
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
template <Scalar S, Memory M>
void Levels<S, M>::additive() {
  for (std::size_t i = 0; i + 1 < count(); ++i) restrict_f(i);
  for (std::size_t i = 0; i + 1 < count(); ++i) start_alone(i);
  solve_last(true, false);
  for (std::size_t i = count() - 1; i-- > 0;) {
    finish_alone(i);
    correct(i);
  }
}

template <Scalar S, Memory M>
void Levels<S, M>::go(std::size_t i, bool from_zero, bool norm, Cycle kind) {
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

namespace formula {
/// (t, v), (t, r), (v, v), (v, r), (r, r)
template <class T>
struct FirstStep {
  TACIT_HD exec::Sums<5, T> operator()(T t, T v, T r) const {
    return {{conj(t) * v, conj(t) * r, T(abs2(v)), conj(v) * r, T(abs2(r))}};
  }
};
/// (v, t), (t, w), (t, r)
template <class T>
struct SecondStep {
  TACIT_HD exec::Sums<3, T> operator()(T v, T t, T w, T r) const { return {{conj(v) * t, conj(t) * w, conj(t) * r}}; }
};
}  // namespace formula

namespace detail {

/// The formula's sums over all ranks, for each column.
template <class F, class V, class... W>
auto sums_of_columns(const F& f, const V& first, const W&... others) {
  using Result = decltype(f(typename V::scalar{}, typename W::scalar{}...));
  std::vector<Result> sums(std::size_t(first.columns()));
  if (sums.size() == 1) {
    sums[0] = first.space().sum(exec::sweep(exec::reads(first, others...), exec::updates(), exec::writes(), f)).wait();
    return sums;
  }
  if constexpr (std::same_as<typename V::memory, Host>) {
    for (std::size_t i = 0; i < first.size(); ++i) {
      const auto own = f(first.data()[i], others.data()[i]...);
      for (int k = 0; k < Result::count; ++k) sums[i % sums.size()][k] += own[k];
    }
    first.space().sum(sums[0].v, sums.size() * std::size_t(Result::count));
  } else {
    throw Error(ErrorKind::usage, message("K-cycles on a device take one column; there are ", sums.size()));
  }
  return sums;
}

/// y := y + a_k x for each column k.
template <class S, class V>
void add_columns(const std::vector<S>& a, const V& x, V& y) {
  if (a.size() == 1) return layout::axpy(a[0], x, y);
  if constexpr (std::same_as<typename V::memory, Host>)
    for (std::size_t i = 0; i < x.size(); ++i) y.data()[i] += a[i % a.size()] * x.data()[i];
}

}  // namespace detail

/// Approximates A_i^-1 f_i by y c + z d, c and d cycles for f_i and for the residual after c: of least error in the
/// norm of A_i, or of least residual. Two reductions. Notay, Vassilevski (2008), algorithm 3.1.
template <Scalar S, Memory M>
void Levels<S, M>::accelerate(std::size_t i) {
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
  const auto first = detail::sums_of_columns(formula::FirstStep<S>{}, *own, v, r);
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
    detail::add_columns(minus, v, r);
    load_f(i, r);
    go(i, true, false, Cycle::k);
    store_u(i, d);
    A.apply(d, w);
    const auto* const test = hermitian ? &d : &w;
    const auto second = detail::sums_of_columns(formula::SecondStep<S>{}, v, *test, w, r);
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
  detail::add_columns(y, c, w);
  detail::add_columns(z, d, w);
  load_u(i, w);
}

}  // namespace tacit::precond
