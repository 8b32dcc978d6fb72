// Pipelined conjugate gradients: Ghysels and Vanroose (2014), doi 10.1016/j.parco.2013.06.001, Algorithm 4, in its
// letters:
//
//   u = P r,  w = A u,  m = P w,  n = A m        s = A p,  q = P s,  z = A q
//
// with three changes that keep it as fast and as accurate as conjugate gradients. (p, A p) is formed from the vectors
// that go into p, not from the orthogonality that rounding takes away; the residual is replaced when an estimate of the
// gap is too large (Cools, Yetkin, Agullo, Giraud, Vanroose 2018, doi 10.1137/17M1117872, replace by bounds); and where
// residuals have lost their orthogonality, cg goes on along the same directions.
#pragma once

#include "../deep_pipelined_cg.hpp"
#include "cg.hpp"

#include <tacit/op/spectrum.hpp>
#include "krylov/change_of_basis.hpp"

#include <string>

namespace tacit::krylov {

namespace formula {
// The scalars of an iteration (0-4), the norms for the estimate of its gaps (5-11), and the inner product of the
// residuals at the ends of a group (12), which is 0 unless the residual was just replaced.
template <class T>
TACIT_HD exec::Sums<13, T> pipelined_cg_sums(T r, T u, T w, T p, T s, T q, T z, T y) {
  return {{conj(r) * u, conj(u) * w, conj(u) * s + conj(p) * w, conj(p) * s, T(abs2(r)), T(abs2(u)), T(abs2(w)),
           T(abs2(p)), T(abs2(s)), T(abs2(q)), T(abs2(z)), T(abs2(y)), T(0)}};
}

template <class T>
struct PipelinedCgStep {
  T alpha, beta;
  TACIT_HD exec::Sums<13, T> operator()(T m, T n, T& z, T& q, T& s, T& p, T& y, T& r, T& u, T& w) const {
    z = n + beta * z;
    q = m + beta * q;
    s = w + beta * s;
    p = u + beta * p;
    y = y + alpha * p;
    r = r - alpha * s;
    u = u - alpha * q;
    w = w - alpha * z;
    return pipelined_cg_sums(r, u, w, p, s, q, z, y);
  }
};
template <class T>
struct PipelinedCgStepPlain {  // no P: u = r, q = s, m = w
  T alpha, beta;
  TACIT_HD exec::Sums<13, T> operator()(T n, T& z, T& s, T& p, T& y, T& r, T& w) const {
    z = n + beta * z;
    s = w + beta * s;
    p = r + beta * p;
    y = y + alpha * p;
    r = r - alpha * s;
    w = w - alpha * z;
    return pipelined_cg_sums(r, r, w, p, s, s, z, y);
  }
};
template <class T>
struct PipelinedCgStepPointwise {  // P diagonal: u = P r and q = P s are made where they are needed
  T alpha, beta;
  TACIT_HD exec::Sums<13, T> operator()(T n, T P, T& z, T& s, T& p, T& y, T& r, T& w, T& m) const {
    z = n + beta * z;
    s = w + beta * s;
    p = P * r + beta * p;
    y = y + alpha * p;
    r = r - alpha * s;
    w = w - alpha * z;
    m = P * w;
    return pipelined_cg_sums(r, P * r, w, p, s, P * s, z, y);
  }
};
template <class T>
struct PipelinedCgSums {
  TACIT_HD exec::Sums<13, T> operator()(T r, T u, T w, T p, T s, T q, T z, T y) const {
    return pipelined_cg_sums(r, u, w, p, s, q, z, y);
  }
};
template <class T>
struct PipelinedCgSumsPointwise {
  TACIT_HD exec::Sums<13, T> operator()(T r, T P, T w, T p, T s, T z, T y, T& m) const {
    m = P * w;
    return pipelined_cg_sums(r, P * r, w, p, s, P * s, z, y);
  }
};
}  // namespace formula

/// Depth 1. An iteration: 1 product, 1 apply of P and 1 reduction, which is in flight during both. Traffic beside
/// theirs: 13 vectors, 15 with a diagonal P, 18 with another. Vectors: f, d, y, r, w, p, s, z, n (and m; u, q). A
/// replacement: 4 products, 2 applies of P, some 20 vectors of traffic; it keeps the direction p.
template <Scalar T, Memory M>
class PipelinedCg final : public Iteration<T, M> {
  using Vector = layout::Vector<T, M>;

 public:
  explicit PipelinedCg(const Options& options)
      : fallbacks_(options.fallbacks),
        basis_(options.basis.value_or(Basis::automatic)),
        depth_(options.depth.value_or(1)),
        replacement_(options.replacement) {}

  void run(const Run<T, M>& run, Monitor& monitor) override {
    if (classical_) cg(run, monitor);
    else if (depth_ > 1) deep(run, monitor);
    else shallow(run, monitor);
  }

  std::string step_down() override {
    if (classical_) return {};
    if (depth_ > 1) {
      depth_ /= 2;
      return message("its depth was ", depth_, " from there");
    }
    return replacement_.step_down();
  }

 private:
  void deep(const Run<T, M>& run, Monitor& monitor) {
    if (!spectrum_known_ || spectrum_of_ != run.P) {
      spectrum_ = op::estimate_spectrum(run.A, run.P, 10, run.project);
      spectrum_known_ = true, spectrum_of_ = run.P;
    }
    const bool broken =
        DeepPipelinedCg<T, M>(run, shifts(), spectrum_.lambda_max, replacement_, fallbacks_).run(monitor);
    if (!broken || !fallbacks_) return;
    const bool shallower = ++breakdowns_ % 2 == 0;
    if (shallower) depth_ /= 2;
    monitor.note(message("pipelined-cg broke down (", monitor.detail(),
                         shallower ? message("); its depth was ", depth_, " from there") : ") and began anew"));
  }

  /// Continues by cg from f, d and the direction p, made when (r, P r) was `before`; later runs are cg's too.
  void hand_over(const Run<T, M>& run, Monitor& monitor, const Vector& p, double before) {
    layout::copy(p, run.w[0]);
    monitor.note(message("pipelined-cg had lost the orthogonality of its residuals by iteration ", monitor.iterations(),
                         "; cg went on along the same directions"));
    classical_ = true;
    cg(run, monitor, before);
  }

  /// The zeros of the Chebyshev polynomial on (0, lambda_max). They lie inside the spectrum: the gap of U_k grows like
  /// the Lanczos polynomials at sigma_k, which grow without bound outside. They have just enough digits to be distinct,
  /// so that the first steps hardly round where the right-hand side has few digits: a rounding error at the start
  /// delays conjugate gradients most. For the same reason the outermost come last.
  std::vector<double> shifts() const {
    const double half = spectrum_.lambda_max / 2;
    if (basis_ == Basis::monomial || !(half > 0)) return std::vector<double>(std::size_t(depth_), 0.0);
    std::vector<std::complex<double>> zeros;
    for (double digit = std::ldexp(1.0, std::ilogb(half)); int(zeros.size()) < depth_; digit /= 2) {
      zeros.clear();
      for (int k = 0; k < depth_; ++k) {
        const double zero = half + half * std::cos((2 * k + 1) * std::acos(-1.0) / (2 * depth_));
        const double inside = (zero > half ? std::floor(zero / digit) : std::ceil(zero / digit)) * digit;
        if (zeros.empty() || inside < zeros.back().real()) zeros.emplace_back(inside);
      }
    }
    std::vector<double> sigma;
    for (const auto& zero : leja(std::move(zeros), false)) sigma.insert(sigma.begin(), zero.real());
    return sigma;
  }

  struct Scalars {  // inner products, then norms
    double ru, uw, mixed, ps, r, u, w, p, s, q, z, y, overlap;
  };
  static Scalars take(const exec::Sums<13, T>& sums) {
    const auto root = [&](int i) { return std::sqrt(double(real(sums[i]))); };
    const auto value = [&](int i) { return double(real(sums[i])); };
    return {value(0), value(1), value(2), value(3), root(4),  root(5),           root(6),
            root(7),  root(8),  root(9),  root(10), root(11), std::abs(sums[12])};
  }

  /// The vectors of a run and the passes over them. r = f - A y, d + y the solution: steps are summed in groups between
  /// replacements, so that rounding errors are relative to the group's y (van der Vorst and Ye 2000).
  struct Vectors {
    Vectors(const Run<T, M>& run, bool replaces)
        : A(run.A),
          P(run.P),
          D(P ? P->pointwise() : nullptr),
          f(run.r),
          d(run.d),
          r(replaces ? run.w[0] : f),
          y(replaces ? run.w[1] : d),
          w(run.w[2]),
          p(run.w[3]),
          s(run.w[4]),
          z(run.w[5]),
          n(run.w[6]),
          m(P ? run.w[7] : w),
          u(P && !D ? run.w[8] : r),
          q(P && !D ? run.w[9] : s) {
      if (replaces) layout::copy(f, r), layout::fill(y, T(0));
      for (auto* v : {&p, &s, &z}) layout::fill(*v, T(0));
      if (P && !D) layout::fill(q, T(0));
    }

    /// a := P x, b := A a; where u and q are not kept, a is m.
    void products(const Vector& x, Vector& a, Vector& b) {
      auto& hat = D ? m : a;
      if (P) P->apply(x, hat);
      A.apply(P ? hat : x, b);
    }
    auto dots() {
      using namespace exec;
      if (D) return sweep(reads(r, *D, w, p, s, z, y), updates(), writes(m), formula::PipelinedCgSumsPointwise<T>{});
      return sweep(reads(r, u, w, p, s, q, z, y), updates(), writes(), formula::PipelinedCgSums<T>{});
    }
    auto step(T alpha, T beta) {
      using namespace exec;
      if (D)
        return sweep(reads(n, *D), updates(z, s, p, y, r, w), writes(m),
                     formula::PipelinedCgStepPointwise<T>{alpha, beta});
      if (P)
        return sweep(reads(m, n), updates(z, q, s, p, y, r, u, w), writes(), formula::PipelinedCgStep<T>{alpha, beta});
      return sweep(reads(n), updates(z, s, p, y, r, w), writes(), formula::PipelinedCgStepPlain<T>{alpha, beta});
    }
    /// m = P w and n = A m while the reduction travels.
    template <class Own>
    Scalars look(const Own& own) {
      auto pending = f.space().sum(own);
      if (D) P->count_apply();
      else if (P) P->apply(w, m);
      A.apply(m, n);
      return take(pending.wait());
    }
    /// Recomputes all vectors but p from f and y: the search continues in the direction p.
    exec::Sums<13, T> replace() {
      using namespace exec;
      A.apply(y, n);
      const auto overlap = sweep(reads(n), updates(f, d, y), writes(r), formula::GroupEndOverlap<T>{});
      products(r, u, w);
      A.apply(p, s);
      products(s, q, z);
      auto own = numbers(dots());
      own[12] = numbers(overlap)[0];
      return own;
    }

    const op::Operator<T, M>& A;
    const op::Operator<T, M>* P;
    const Vector* D;
    Vector &f, &d, &r, &y, &w, &p, &s, &z, &n, &m, &u, &q;
  };

  void shallow(const Run<T, M>& run, Monitor& monitor) {
    Vectors x(run, replacement_.on());
    monitor.solution_by([&](void* to) { solution(x.d, replacement_.on() ? T(1) : T(0), x.y, to); });
    x.products(x.r, x.u, x.w);    // u = P r, w = A u
    auto now = x.look(x.dots());  // m = P w, n = A m
    double alpha = 0, beta = 0, old = 0;
    const auto curvature = [&] {  // (p, A p) of p = u + beta p
      beta = old > 0 ? now.ru / old : 0;
      return now.uw + beta * (now.mixed + beta * now.ps);
    };
    CgGuard guard(monitor);
    replacement_.begin();
    group_r_ = now.r;
    while (monitor.go_on(now.r)) {
      if (residuals_have_returned(now)) return hand_over(run, monitor, x.p, old);
      follow_gaps(now, alpha, beta);
      double pAp = curvature();
      if (!(now.ru > 0 && pAp > 0) && replacement_.on() && replacement_.since() > 0) {  // the gaps may be the cause
        now = x.look(x.replace());
        replacement_.done(), group_r_ = now.r;
        begin_gaps(now);
        pAp = curvature();
      }
      if (!guard.allows_direction(now.ru) || !guard.allows_step(now.ru, pAp)) break;
      alpha = now.ru / pAp;  // alpha = (r, u) / (p, A p)
      old = now.ru;
      // z = n + beta z,  q = m + beta q,  s = w + beta s,  p = u + beta p
      // y += alpha p,    r -= alpha s,    u -= alpha q,    w -= alpha z
      const auto own = x.step(T(real_t<T>(alpha)), T(real_t<T>(beta)));
      const bool due = replacement_.due([&] { return drifted(now); });
      now = due ? x.look(x.replace()) : x.look(own);  // m = P w, n = A m
      if (due) replacement_.done();
    }
    if (replacement_.on()) layout::axpy(T(1), x.y, x.d);
    replacement_.note(monitor, "pipelined-cg");
  }

  /// A replacement has just ended a group: do the residuals at its ends overlap?
  bool residuals_have_returned(const Scalars& now) {
    if (replacement_.since() > 0 || replacement_.count() == 0) return false;
    const double before = std::exchange(group_r_, now.r);
    return fallbacks_ && replacement_.by_gaps() && now.overlap > residuals_return<T> * before * now.r;
  }

  // Gaps of r, s, w, z: f - A y - r, A p - s, A u - w, A q - z.
  static constexpr double unit = double(std::numeric_limits<real_t<T>>::epsilon()) / 2;
  void begin_gaps(const Scalars& now) {
    gaps_.reset(
        {unit * (norm_A_ * now.y + now.r), unit * norm_A_ * now.p, unit * norm_A_ * now.u, unit * norm_A_ * now.q});
  }
  void follow_gaps(const Scalars& now, double alpha, double beta) {
    norm_A_.see(now.w, now.u), norm_A_.see(now.s, now.p), norm_A_.see(now.z, now.q);
    if (replacement_.since() == 0) return begin_gaps(now);
    gaps_.step({1, -alpha * beta, -alpha, 0,  //
                0, beta, 1, 0,                //
                0, 0, 1, -alpha * beta,       //
                0, 0, 0, beta},
               {unit * (norm_A_ * (now.y + alpha * now.p) + now.r), unit * (norm_A_ * now.p + now.s),
                unit * (norm_A_ * (now.u + alpha * now.q) + now.w + alpha * now.z), unit * (norm_A_ * now.q + now.z)});
  }
  bool drifted(const Scalars& now) const {
    return !(gaps_[0] <= tolerance_ * now.r && gaps_[1] <= tolerance_ * now.s && gaps_[2] <= tolerance_ * now.w);
  }

  // A replacement changes r by the gap, and where that is large the search repeats directions: with sqrt(epsilon),
  // which suffices for the attainable accuracy, 4000 iterations in double precision became 4700; with this limit they
  // stay 4000.
  static constexpr double tolerance_ = std::same_as<real_t<T>, double> ? 4e-10 : 4e-4;
  const bool fallbacks_;
  const Basis basis_;
  int depth_;
  int breakdowns_ = 0;
  bool classical_ = false;  // cg has taken over
  bool spectrum_known_ = false;
  const op::Operator<T, M>* spectrum_of_ = nullptr;
  op::Spectrum spectrum_;  // of P A
  Replacement replacement_;
  NormFromBelow norm_A_;
  Gaps<double> gaps_{4};
  double group_r_ = 0;  // ||r|| where the group began
};

template <Scalar T, Memory M>
std::unique_ptr<Iteration<T, M>> make_pipelined_cg(const Options& options) {
  return std::make_unique<PipelinedCg<T, M>>(options);
}

}  // namespace tacit::krylov
