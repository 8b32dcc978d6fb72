// estimate_spectrum over both memory spaces; instantiated by spectrum.cpp (host) and, in builds with CUDA, for the
// device.
#pragma once

#include <tacit/base/trace.hpp>
#include <tacit/op/spectrum.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
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

template <Scalar T, Memory M>
Spectrum estimate_spectrum(const Operator<T, M>& A, const Operator<T, M>* P, int steps,
                           const std::function<void(Vector<T, M>&)>& project) {
  const auto estimate = [&]() -> Spectrum {
    require(A.range() == A.domain(), "a spectrum is that of a square operator with rows and columns spread alike");
    require(!P || (P->range() == A.domain() && P->domain() == A.range()), "the spectrum of P A: P and A do not fit");
    require(steps >= 1, "a spectrum from ", steps, " steps; at least 1 is needed");
    const Span span("estimate spectrum", "op");
    using namespace exec;
    const Space& space = A.range();
    Vector<T, M> r(space), p(space), v(space);
    std::unique_ptr<Vector<T, M>> z_store;
    if (P) z_store = std::make_unique<Vector<T, M>>(space);
    auto& z = P ? *z_store : r;
    std::vector<T> start(r.size());
    for (std::size_t i = 0; i < start.size(); ++i) {
      const auto g = 2 * std::uint64_t(space.begin() + Global(i));
      if constexpr (is_complex<T>) start[i] = {real_t<T>(scatter(g)), real_t<T>(scatter(g + 1))};
      else start[i] = real_t<T>(scatter(g));
    }
    r.assign(start);
    if (project) project(r);

    // Conjugate gradients from the residual r; their alpha and beta give the Lanczos matrix.
    std::vector<double> diagonal, beside2;
    const auto product_rz = [&] {
      if (P) P->apply(r, z);
      return double(real(space.sum(sweep(reads(r, z), updates(), writes(), layout::formula::Dot<T>{})).wait()[0]));
    };
    double rz = product_rz();
    if (!(rz > 0) || !std::isfinite(rz)) return {};
    const double epsilon = std::numeric_limits<real_t<T>>::epsilon();
    const double exhausted = 100 * epsilon * (100 * epsilon) * rz;
    double alpha = 0, beta = 0;
    for (int j = 0; j < steps && j < space.size(); ++j) {
      if (j == 0) layout::copy(z, p);
      else sweep(reads(z), updates(p), writes(), layout::formula::Xpay<T>{T(real_t<T>(beta))});
      A.apply(p, v);
      const double pv =
          double(real(space.sum(sweep(reads(p, v), updates(), writes(), layout::formula::Dot<T>{})).wait()[0]));
      if (!(pv > 0) || !std::isfinite(pv)) return {};
      const double before = alpha;
      alpha = rz / pv;
      diagonal.push_back(1 / alpha + (j > 0 ? beta / before : 0));
      if (j > 0) beside2.push_back(beta / before / before);
      layout::axpy(T(real_t<T>(-alpha)), v, r);
      const double next = product_rz();
      if (!std::isfinite(next) || next < -exhausted) return {};
      if (next <= exhausted) break;  // the Krylov space is invariant: the Ritz values are exact
      beta = next / rz;
      rz = next;
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

}  // namespace tacit::op
