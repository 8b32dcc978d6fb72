// Gaps: estimates, from norms alone, of how far the vectors of recurrences have drifted from what they stand for (r
// from b - A x); and the replacement of the residual where they have drifted too far.
#pragma once

#include <tacit/base/types.hpp>
#include <tacit/exec/sums.hpp>
#include "krylov/monitor.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tacit::krylov {

namespace formula {
/// The end of a group of steps: f := f - A y, which is the residual, d := d + y, y := 0.
template <class T>
struct GroupEnd {
  TACIT_HD void operator()(T Ay, T& f, T& d, T& y, T& r) const {
    f = f - Ay;
    d = d + y;
    y = T(0);
    r = f;
  }
};
template <class T>
struct GroupEndOverlap {  // and the inner product of the residuals at its ends
  TACIT_HD exec::Sums<1, T> operator()(T Ay, T& f, T& d, T& y, T& r) const {
    const T before = f;
    GroupEnd<T>{}(Ay, f, d, y, r);
    return {{conj(before) * f}};
  }
};
}  // namespace formula

/// Residuals of conjugate gradients are orthogonal until rounding makes them find eigenvalues a second time; from then
/// on every digit of the recurrences counts (Greenbaum 1989, doi 10.1016/0024-3795(89)90285-1). While the residuals at
/// both ends of a group of iterations are orthogonal (to 1e-9, as a rule) a pipelined method needs as many iterations
/// as conjugate gradients; where their cosine exceeds this value, up to twice as many.
template <Scalar T>
constexpr double residuals_return = std::same_as<real_t<T>, double> ? 1e-5 : 0.1;

/// Root mean squares of n gaps e_1 .. e_n (b - A x - r, A p - s, ..) that obey e' = L e + rounding, with L known. The
/// roundings of different vectors and iterations are taken as independent, so the gaps' n x n covariance C obeys
/// C' = L C L^H + diag(sigma^2): a handful of scalars, the same on all ranks. Unlike bounds by the triangle inequality
/// (van der Vorst and Ye 2000, doi 10.1137/S1064827599353865; Cools et al. 2018, doi 10.1137/17M1117872) this stays
/// within a small factor of the gaps over thousands of iterations, because signs are kept. Local.
template <class S>
class Gaps {
 public:
  explicit Gaps(int n) : n_(n), C_(std::size_t(n * n)), half_(C_) {}

  double operator[](int i) const { return std::sqrt(std::max(0.0, std::real(C_[at(i, i)]))); }
  /// Sets gap i to this size, with no correlation.
  void reset(std::span<const double> sigma) {
    C_.assign(C_.size(), S(0));
    add(sigma);
  }
  void reset(std::initializer_list<double> sigma) { reset(std::span(sigma.begin(), sigma.size())); }
  void step(std::initializer_list<S> L, std::initializer_list<double> sigma) {
    step(std::span(L.begin(), L.size()), std::span(sigma.begin(), sigma.size()));
  }
  /// L: n x n, row after row, with few entries.
  void step(std::span<const S> L, std::span<const double> sigma) {
    half_.assign(half_.size(), S(0));  // L C
    for (int i = 0; i < n_; ++i)
      for (int k = 0; k < n_; ++k)
        if (const S a = L[at(i, k)]; a != S(0))
          for (int j = 0; j < n_; ++j) half_[at(i, j)] += a * C_[at(k, j)];
    C_.assign(C_.size(), S(0));
    for (int j = 0; j < n_; ++j)
      for (int k = 0; k < n_; ++k)
        if (const S a = S(tacit::conj(L[at(j, k)])); a != S(0))
          for (int i = 0; i < n_; ++i) C_[at(i, j)] += half_[at(i, k)] * a;
    add(sigma);
  }

 private:
  std::size_t at(int i, int j) const { return std::size_t(i * n_ + j); }
  void add(std::span<const double> sigma) {
    for (int i = 0; i < n_; ++i) C_[at(i, i)] += sigma[std::size_t(i)] * sigma[std::size_t(i)];
  }
  int n_;
  std::vector<S> C_, half_;
};

/// ||A||, from below: the largest ||A x|| / ||x|| seen.
class NormFromBelow {
 public:
  explicit NormFromBelow(double known = 0) : norm_(known) {}
  void see(double Ax, double x) {
    if (x > 0 && std::isfinite(Ax / x)) norm_ = std::max(norm_, Ax / x);
  }
  operator double() const { return norm_; }

 private:
  double norm_;
};

/// When the residual of a pipelined method is replaced: every so many iterations, or where its gaps ask for it.
class Replacement {
 public:
  /// period: iterations between replacements; 0: never; none: by the gaps, at least 10 iterations after the last one.
  explicit Replacement(std::optional<int> period) : period_(period) {}

  bool on() const { return period_ != 0; }
  bool by_gaps() const { return !period_; }
  /// Replacements in this run, and iterations since the last one (or since the start).
  int count() const { return count_; }
  int since() const { return since_; }
  void begin() { since_ = count_ = 0; }
  /// After an iteration. `drifted()`: are the gaps too large?
  template <class F>
  bool due(const F& drifted) {
    ++since_;
    return period_ ? on() && since_ >= *period_ : since_ >= 10 && drifted();
  }
  void done() { ++count_, since_ = 0; }
  void restart() { since_ = 0; }
  void note(Monitor& monitor, const std::string& method) const {
    if (count_ == 0) return;
    monitor.note(method + " replaced its residual " + std::to_string(count_) + (count_ > 1 ? " times" : " time"));
  }
  /// A weaker form: replacement every 10 iterations, where it was less frequent.
  std::string step_down() {
    if (!on() || (period_ && *period_ <= 10)) return {};
    period_ = 10;
    return "its residual was replaced every 10 iterations from there";
  }

 private:
  std::optional<int> period_;
  int since_ = 0, count_ = 0;
};

}  // namespace tacit::krylov
