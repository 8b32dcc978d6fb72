// Polynomial over both memory spaces; instantiated by polynomial.cpp (host) and, in builds with CUDA, for the device.
#pragma once

#include <tacit/exec/sweep.hpp>
#include <tacit/op/csr.hpp>
#include <tacit/op/scaled.hpp>
#include <tacit/op/spectrum.hpp>
#include <tacit/precond/polynomial.hpp>
#include "op/wavefront.hpp"

#include <algorithm>
#include <cmath>

namespace tacit::precond {

namespace formula {
template <class T>
struct PolynomialStart {
  T b;
  bool adjoint;
  TACIT_HD void operator()(T scaling, T x, T& r, T& p, T& y) const {
    r = x;
    p = b * ((adjoint ? conj(scaling) : scaling) * x);
    y = p;
  }
};
template <class T>
struct PolynomialStep {
  T a, b;
  bool adjoint;
  TACIT_HD void operator()(T scaling, T v, T& r, T& p, T& y) const {
    r = r - v;
    p = a * p + b * ((adjoint ? conj(scaling) : scaling) * r);
    y = y + p;
  }
};
}  // namespace formula

/// The storage of A, where one rank has all of it in host memory; else null.
template <Scalar T, Memory M>
const op::LocalMatrix<T>* whole_of(const op::Operator<T, M>& A) {
  if constexpr (std::same_as<M, Host>)
    if (const auto* const csr = dynamic_cast<const op::Csr<T>*>(&A)) return csr->whole();
  return nullptr;
}

/// All steps as one wavefront over A, with the bits of sweep after sweep; p and q have p of even and of odd steps.
template <Scalar T, class Steps>
void polynomial_in_waves(const op::LocalMatrix<T>& A, const Steps& steps, const T* scaling, const T* x, T* r, T* p,
                         T* q, T* y) {
  constexpr int few_blocks = 8;
  op::Needs needs;
  op::needs_of_product(A, needs);
  op::Wavefront wave(A.blocks());
  wave.add(needs, int(steps.size()) - 1);
  T* const v[] = {p, q};
  wave.run(A.blocks() > few_blocks, [&](int k, int b) {
    const Local first = A.first_row(b), end = A.first_row(b + 1);
    T *const to = v[k % 2], *const from = v[(k + 1) % 2];
    if (k == 0) {
      const formula::PolynomialStart<T> start{T(steps[0].b), false};
      for (Local i = first; i < end; ++i) start(scaling[i], x[i], r[i], to[i], y[i]);
      return;
    }
    const auto& now = steps[std::size_t(k)];
    const formula::PolynomialStep<T> step{T(now.a), T(now.b), false};
    A.multiply_block(b, from, to + first);
    for (Local i = first; i < end; ++i) {
      T last = from[i];
      step(scaling[i], to[i], r[i], last, y[i]);
      to[i] = last;
    }
  });
}

template <Scalar T, Memory M>
Polynomial<T, M>::Polynomial(const op::Operator<T, M>& A, const PolynomialOptions& options)
    : op::Operator<T, M>(A.domain(), A.range()), a_(A), options_(options) {
  comm::collective(A.range().comm(), [&] {
    require(options.degree >= 0, "the polynomial preconditioner's degree is ", options.degree,
            "; a number >= 0 is needed");
    require(A.has_diagonal(), "the polynomial preconditioner needs the diagonal, which the ", A.name(),
            " operator does not know");
    require(!options.lambda_min || (std::isfinite(*options.lambda_min) && *options.lambda_min > 0), "lambda_min is ",
            options.lambda_min.value_or(0), "; a number > 0 is needed");
    require(!options.lambda_max ||
                (std::isfinite(*options.lambda_max) && *options.lambda_max > options.lambda_min.value_or(0)),
            "lambda_max is ", options.lambda_max.value_or(0), "; a number above lambda_min is needed");
    require(std::isfinite(options.relaxation) && options.relaxation != 0, "relaxation is ", options.relaxation,
            "; a finite number other than 0 is needed");
    jacobi_ = std::make_unique<Jacobi<T, M>>(A);
    const bool chebyshev = options.kind == PolynomialKind::chebyshev;
    // A negative definite A has the polynomial of -A: D^-1 A is the same, and so is its spectrum.
    bool negative = false;
    if (chebyshev) {
      const auto d = jacobi_->diagonal();
      negative = A.range().size() > 0 &&
                 A.range().comm().all(std::all_of(d.begin(), d.end(), [](T a) { return real(a) < 0; }));
      for (std::size_t i = 0; i < d.size(); ++i)
        require((negative ? -real(d[i]) : real(d[i])) > 0 &&
                    std::abs(d[i] - T(real(d[i]))) <= std::abs(d[i]) * real_t<T>(1e-5),
                "the chebyshev polynomial needs a diagonal that is positive (or negative) everywhere; row ",
                A.range().begin() + Global(i), " (counted from 0) has another");
    }
    if (chebyshev) {
      lambda_min_ = options.lambda_min.value_or(0);
      lambda_max_ = options.lambda_max.value_or(0);
      if (!options.lambda_min || !options.lambda_max) {
        const op::Scaled<T, M> positive(A, negative ? -1 : 1);
        const op::Scaled<T, M> inverse(*jacobi_, negative ? -1 : 1);
        const op::Operator<T, M>* const P = &inverse;
        const auto found = op::estimate_spectrum<T, M>(positive, P, 20);
        if (!options.lambda_min) lambda_min_ = found.lambda_min;
        if (!options.lambda_max) lambda_max_ = 1.1 * found.lambda_max;
      }
      require(A.range().size() == 0 || lambda_max_ > 0,
              "the chebyshev polynomial needs a definite matrix; this one was found not to be");
      require(A.range().size() == 0 || lambda_min_ < lambda_max_, "lambda_min is ", lambda_min_,
              ", not below lambda_max, estimated as ", lambda_max_);
      const double theta = (lambda_max_ + lambda_min_) / 2, delta = (lambda_max_ - lambda_min_) / 2,
                   sigma = theta / delta;
      double rho = 1 / sigma;
      steps_.push_back({0, real_t<T>(1 / theta)});
      for (int i = 0; i < options.degree; ++i) {
        const double next = 1 / (2 * sigma - rho);
        steps_.push_back({real_t<T>(next * rho), real_t<T>(2 * next / delta)});
        rho = next;
      }
    } else {
      steps_.assign(std::size_t(options.degree) + 1, Step{0, real_t<T>(options.relaxation)});
    }
  });
}

template <Scalar T, Memory M>
typename Polynomial<T, M>::Work& Polynomial<T, M>::work(int columns) const {
  auto& w = work_[columns];
  if (!w) {
    const Vector<T, M> zero(this->domain(), columns);
    w = std::make_unique<Work>(Work{zero, zero, zero});
  }
  return *w;
}

template <Scalar T, Memory M>
void Polynomial<T, M>::finish(const Vector<T, M>& x, Vector<T, M>& y, bool adjoint, int) const {
  using namespace exec;
  auto& [r, p, v] = work(x.columns());
  const auto& scaling = jacobi_->values(x.columns());
  if constexpr (std::same_as<M, Host>)
    if (const auto* const A = whole_of(a_); A && !adjoint && x.columns() == 1) {
      const op::Cost c = Trace::on() ? cost() : op::Cost();
      const Span span("polynomial", "exec", std::int64_t(c.bytes), c.flops);
      for (std::size_t i = 1; i < steps_.size(); ++i) a_.count_apply();
      return polynomial_in_waves(*A, steps_, scaling.data(), x.data(), r.data(), p.data(), v.data(), y.data());
    }
  const Span span("polynomial", "precond");
  sweep(reads(scaling, x), updates(), writes(r, p, y), formula::PolynomialStart<T>{T(steps_[0].b), adjoint});
  for (std::size_t i = 1; i < steps_.size(); ++i) {
    if (adjoint) a_.apply_adjoint(p, v);
    else a_.apply(p, v);
    sweep(reads(scaling, v), updates(r, p, y), writes(),
          formula::PolynomialStep<T>{T(steps_[i].a), T(steps_[i].b), adjoint});
  }
}

template <Scalar T, Memory M>
std::string Polynomial<T, M>::name() const {
  return message("polynomial (", options_.kind == PolynomialKind::chebyshev ? "chebyshev" : "neumann", ", degree ",
                 options_.degree, ")");
}

template <Scalar T, Memory M>
op::Cost Polynomial<T, M>::cost() const {
  const double n = double(this->domain().local_size()), k = options_.degree;
  op::Cost c = a_.cost();
  c.flops = k * c.flops + (is_complex<T> ? 24 : 7) * (k + 1) * n;
  // A wavefront reads A, the scaling and x, and writes y, r, p and the last product, once.
  c.bytes = whole_of(a_) ? c.bytes + 6 * n * sizeof(T) : k * c.bytes + (5 + 8 * k) * n * sizeof(T);
  c.messages *= k;
  c.message_bytes *= k;
  return c;
}

}  // namespace tacit::precond
