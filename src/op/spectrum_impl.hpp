// estimate_spectrum over both memory spaces; instantiated by spectrum.cpp (host) and, in builds with CUDA, for the
// device.
#pragma once

#include "spectrum_until.hpp"

#include <tacit/base/trace.hpp>
#include <tacit/exec/parallel.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

namespace tacit::op {

namespace {

/// A pseudo-random number in [-1, 1) from an index: the mixing steps of SplitMix64 (Steele, Lea, Flood 2014, doi
/// 10.1145/2660193.2660195).
inline double scatter(std::uint64_t index) {
  std::uint64_t z = (index + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  z ^= z >> 31;
  return double(z >> 11) * 0x1p-52 - 1;
}

/// The number of eigenvalues below x of the symmetric tridiagonal matrix with diagonal a and squared off-diagonal b2.
inline int count_below(const std::vector<double>& a, const std::vector<double>& b2, double x) {
  int below = 0;
  double pivot = 1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    pivot = a[i] - x - (i > 0 ? b2[i - 1] / pivot : 0);
    if (pivot == 0) pivot = -std::numeric_limits<double>::min();
    below += pivot < 0;
  }
  return below;
}

/// The eigenvalue with `index` others below it, by bisection to rounding.
inline double tridiagonal_eigenvalue(const std::vector<double>& a, const std::vector<double>& b2, int index) {
  double low = a[0], high = a[0];
  for (std::size_t i = 0; i < a.size(); ++i) {  // Gershgorin's discs
    const double reach = (i > 0 ? std::sqrt(b2[i - 1]) : 0) + (i < b2.size() ? std::sqrt(b2[i]) : 0);
    low = std::min(low, a[i] - reach);
    high = std::max(high, a[i] + reach);
  }
  for (int step = 0; step < 2000; ++step) {
    const double middle = low + (high - low) / 2;
    if (!(middle > low) || !(middle < high)) break;
    (count_below(a, b2, middle) > index ? high : low) = middle;
  }
  return high;
}

}  // namespace

namespace formula {
// With a diagonal P = diag(d): z = d r is not stored.
template <class T>
struct ScaledDirection {
  T beta;
  TACIT_HD void operator()(T d, T r, T& p) const { p = d * r + beta * p; }
};
template <class T>
struct ScaledSquare {
  TACIT_HD exec::Sums<1, T> operator()(T d, T r) const { return {{conj(r) * (d * r)}}; }
};
template <class T>
struct ScaledResidual {
  T alpha;
  TACIT_HD exec::Sums<1, T> operator()(T v, T d, T& r) const {
    r = r - alpha * v;
    return {{conj(r) * (d * r)}};
  }
};
}  // namespace formula

namespace {

/// The vectors of conjugate gradients: the residual r, z = P r and the direction p.
template <Scalar T, Memory M>
class LanczosVectors {
 public:
  LanczosVectors(const Operator<T, M>& A, const Operator<T, M>* P, const std::function<void(Vector<T, M>&)>& project)
      : space_(A.range()), P_(P), d_(P ? P->pointwise() : nullptr), r_(space_), p(space_), v(space_) {
    if (d_ && d_->columns() != 1) d_ = nullptr;
    if (P && !d_) z_ = std::make_unique<Vector<T, M>>(space_);
    const auto element = [first = space_.begin()](std::size_t i) -> T {
      const auto g = 2 * std::uint64_t(first + Global(i));
      if constexpr (is_complex<T>) return {real_t<T>(scatter(g)), real_t<T>(scatter(g + 1))};
      else return real_t<T>(scatter(g));
    };
    if constexpr (std::same_as<M, Host>) {
      exec::parallel_for(r_.size(), r_.size() > 20000, [&](std::size_t i) { r_.data()[i] = element(i); });
    } else {
      std::vector<T> start(r_.size());
      for (std::size_t i = 0; i < start.size(); ++i) start[i] = element(i);
      r_.assign(start);
    }
    if (project) project(r_);
  }
  /// (r, z).
  double residual() {
    if (d_) return value(sweep(exec::reads(*d_, r_), exec::updates(), exec::writes(), formula::ScaledSquare<T>{}));
    if (P_) P_->apply(r_, *z_);
    return value(sweep(exec::reads(r_, z()), exec::updates(), exec::writes(), layout::formula::Dot<T>{}));
  }
  /// r := r - alpha v; (r, z).
  double residual(real_t<T> alpha) {
    if (d_)
      return value(sweep(exec::reads(v, *d_), exec::updates(r_), exec::writes(), formula::ScaledResidual<T>{alpha}));
    layout::axpy(T(-alpha), v, r_);
    return residual();
  }
  /// p := z + beta p, of p = 0 at first.
  void direction(real_t<T> beta) {
    if (d_) sweep(exec::reads(*d_, r_), exec::updates(p), exec::writes(), formula::ScaledDirection<T>{beta});
    else sweep(exec::reads(z()), exec::updates(p), exec::writes(), layout::formula::Xpay<T>{beta});
  }
  /// (p, v).
  double curvature() {
    return value(sweep(exec::reads(p, v), exec::updates(), exec::writes(), layout::formula::Dot<T>{}));
  }

 private:
  template <class Sums>
  double value(Sums&& sums) {
    return double(real(space_.sum(std::forward<Sums>(sums)).wait()[0]));
  }
  const Vector<T, M>& z() const { return z_ ? *z_ : r_; }
  const Space& space_;
  const Operator<T, M>* P_;
  const Vector<T, M>* d_;
  Vector<T, M> r_;
  std::unique_ptr<Vector<T, M>> z_;

 public:
  Vector<T, M> p, v;
};

}  // namespace

template <Scalar T, Memory M>
Spectrum spectrum_until(double enough, const Operator<T, M>& A, const Operator<T, M>* P, int steps,
                        const std::function<void(Vector<T, M>&)>& project) {
  const auto estimate = [&]() -> Spectrum {
    require(A.range() == A.domain(), "a spectrum is that of a square operator with rows and columns spread alike");
    require(!P || (P->range() == A.domain() && P->domain() == A.range()), "the spectrum of P A: P and A do not fit");
    require(steps >= 1, "a spectrum from ", steps, " steps; at least 1 is needed");
    const Span span("estimate spectrum", "op");
    LanczosVectors<T, M> vectors(A, P, project);

    // Conjugate gradients from the residual r; their alpha and beta give the Lanczos matrix.
    std::vector<double> diagonal, beside2;
    double rz = vectors.residual();
    if (!(rz > 0) || !std::isfinite(rz)) return {};
    const double epsilon = std::numeric_limits<real_t<T>>::epsilon();
    const double exhausted = 100 * epsilon * (100 * epsilon) * rz;
    double alpha = 0, beta = 0;
    for (int j = 0; j < steps && j < A.range().size(); ++j) {
      vectors.direction(real_t<T>(beta));
      A.apply(vectors.p, vectors.v);
      const double pv = vectors.curvature();
      if (!(pv > 0) || !std::isfinite(pv)) return {};
      const double before = alpha;
      alpha = rz / pv;
      diagonal.push_back(1 / alpha + (j > 0 ? beta / before : 0));
      if (j > 0) beside2.push_back(beta / before / before);
      const double next = vectors.residual(real_t<T>(alpha));
      if (!std::isfinite(next) || next < -exhausted) return {};
      if (next <= exhausted) break;  // the Krylov space is invariant: the Ritz values are exact
      beta = next / rz;
      rz = next;
      const auto largest = [&] { return tridiagonal_eigenvalue(diagonal, beside2, j); };
      if (std::isfinite(enough) && std::isfinite(diagonal.back()) && largest() >= enough) break;
    }
    if (diagonal.empty() || !std::isfinite(diagonal.back())) return {};
    const int k = int(diagonal.size());
    const Spectrum found{tridiagonal_eigenvalue(diagonal, beside2, 0),
                         tridiagonal_eigenvalue(diagonal, beside2, k - 1)};
    return found.lambda_min > 0 ? found : Spectrum{};
  };
  // Collective calls are nested, which those of computations that take turns would not be.
  return A.range().is_merging() ? estimate() : comm::collective(A.range().comm(), estimate);
}

template <Scalar T, Memory M>
Spectrum estimate_spectrum(const Operator<T, M>& A, const Operator<T, M>* P, int steps,
                           const std::function<void(Vector<T, M>&)>& project) {
  return spectrum_until<T, M>(std::numeric_limits<double>::infinity(), A, P, steps, project);
}

}  // namespace tacit::op
