// Pipelined BiCGStab: Cools and Vanroose (2017), doi 10.1016/j.parco.2017.04.005, Algorithm 3, in its letters:
//
//   s = A p,  z = A s,  v = A z,     w = A r,  t = A w,     q = r - alpha s,  y = A q
//
// A stands for A P, preconditioned from the right: steps are summed before P and P is applied once at the end.
#pragma once

#include "../gaps.hpp"

#include <tacit/krylov/bicgstab.hpp>
#include <tacit/krylov/iteration.hpp>

#include <limits>
#include <optional>
#include <string>

namespace tacit::krylov {

namespace formula {
// q and y are made where they are needed: (y, q), and norms for the estimate of the gaps.
template <class T>
TACIT_HD exec::Sums<6, T> pipelined_bicgstab_half(T alpha, T r, T w, T p, T s, T z) {
  const T q = r - alpha * s, y = w - alpha * z;
  return {{conj(y) * q, T(abs2(y)), T(abs2(q)), T(abs2(p)), T(abs2(s)), T(abs2(z))}};
}
template <class T>
TACIT_HD exec::Sums<7, T> pipelined_bicgstab_whole(T r0, T r, T w, T s, T z, T e) {
  const T shadow = conj(r0);
  return {{shadow * r, shadow * w, shadow * s, shadow * z, T(abs2(r)), T(abs2(w)), T(abs2(e))}};
}

// The half step is z, whose product may begin then, and what does not stand in that product's way; likewise the step
// with w.
template <class T>
struct PipelinedBicgstabZ {
  T beta, omega;
  TACIT_HD void operator()(T t, T v, T z, T& z_new) const { z_new = t + beta * (z - omega * v); }
};
template <class T>
struct PipelinedBicgstabBehindZ {
  T alpha, beta, omega;
  TACIT_HD exec::Sums<6, T> operator()(T r, T w, T z, T z_new, T& p, T& s) const {
    p = r + beta * (p - omega * s);
    s = w + beta * (s - omega * z);
    return pipelined_bicgstab_half(alpha, r, w, p, s, z_new);
  }
};
template <class T>
struct PipelinedBicgstabForward {
  T alpha, beta, omega;
  TACIT_HD exec::Sums<6, T> operator()(T r, T w, T t, T v, T& p, T& s, T& z) const {
    const T before = z;
    PipelinedBicgstabZ<T>{beta, omega}(t, v, before, z);
    return PipelinedBicgstabBehindZ<T>{alpha, beta, omega}(r, w, before, z, p, s);
  }
};
template <class T>
struct PipelinedBicgstabHalf {
  T alpha;
  TACIT_HD exec::Sums<6, T> operator()(T r, T w, T p, T s, T z) const {
    return pipelined_bicgstab_half(alpha, r, w, p, s, z);
  }
};
template <class T>
struct PipelinedBicgstabW {
  T alpha, omega;
  TACIT_HD void operator()(T z, T t, T v, T w, T& w_new) const { w_new = (w - alpha * z) - omega * (t - alpha * v); }
};
template <class T>
struct PipelinedBicgstabBehindW {
  T alpha, omega;
  TACIT_HD exec::Sums<7, T> operator()(T r0, T p, T s, T z, T w, T w_new, T& e, T& r) const {
    const T q = r - alpha * s, y = w - alpha * z;
    e = e + (alpha * p + omega * q);
    r = q - omega * y;
    return pipelined_bicgstab_whole(r0, r, w_new, s, z, e);
  }
};
template <class T>
struct PipelinedBicgstabStabilise {
  T alpha, omega;
  TACIT_HD exec::Sums<7, T> operator()(T r0, T p, T s, T z, T t, T v, T& e, T& r, T& w) const {
    const T before = w;
    PipelinedBicgstabW<T>{alpha, omega}(z, t, v, before, w);
    return PipelinedBicgstabBehindW<T>{alpha, omega}(r0, p, s, z, before, w, e, r);
  }
};
template <class T>
struct PipelinedBicgstabWhole {
  TACIT_HD exec::Sums<7, T> operator()(T r0, T r, T w, T s, T z, T e) const {
    return pipelined_bicgstab_whole(r0, r, w, s, z, e);
  }
};
template <class T>
struct Total {
  TACIT_HD void operator()(T a, T b, T& c) const { c = a + b; }
};
}  // namespace formula

/// An iteration: 2 products, 2 applies of P, 2 reductions, each under way during a product and an apply; 22 vectors of
/// traffic beside theirs. Vectors: f, d, r0, r, e, w, t, p, s, z, v, the best d so far (and P x). On a group of devices
/// that hides updates 27 vectors of traffic, of which 9 before the products, and two more vectors. A replacement: 4
/// products, 4 applies of P. s and z are made anew where v = A z is still to come, r and w where t = A w is: with any
/// one of them left from before, errors grow faster than without.
template <Scalar T, Memory M>
class PipelinedBicgstab final : public Iteration<T, M> {
  using Vector = layout::Vector<T, M>;

 public:
  explicit PipelinedBicgstab(const Options& options) : period_(options.replacement.value_or(-1)) {}

  void run(const Run<T, M>& run, Monitor& monitor) override {
    Vectors x(run, period_ != 0);
    auto &r = x.r, &e = x.e, &p = x.p, &best = x.best;
    monitor.solution_by([&](void* to) {
      Vector sum(x.space);
      x.total(sum);
      if (!run.P) return solution(sum, T(0), sum, to);
      Vector preconditioned(x.space);
      run.P->apply(sum, preconditioned);
      solution(preconditioned, T(0), preconditioned, to);
    });
    // Products of two vectors of this size are rounding; see bicgstab().
    const double tiny = 8 * unit;
    double least = tiny;

    layout::copy(r, x.r0);
    layout::copy(x.d, best);
    x.apply(r, x.w);
    Whole now(x.during(x.w, x.t, [&] { return x.whole(); }));
    const double start = now.r;
    double best_norm = start;
    Step step;
    T old{1};
    norm_A_ = std::max(norm_A_, ratio(now.w, now.r));
    gaps_.reset({unit * now.r, 0, unit * norm_A_ * now.r, 0});
    int since = 0, replaced = 0;
    for (bool first = true; monitor.go_on(now.r); first = false) {
      // Residuals of BiCGStab jump; what is returned after a failure is the best d, kept once a decade.
      if (now.r < 0.1 * best_norm) x.total(best), best_norm = now.r;
      if (!(std::abs(now.rho) > least * start * now.r)) {
        monitor.breakdown("(r0, r)", std::abs(now.rho), "the residual is orthogonal to the shadow residual");
        break;
      }
      auto& [alpha, beta, omega] = step;
      beta = first ? T(0) : (alpha / omega) * (now.rho / old);
      const T r0Ap = now.r0w + beta * (now.r0s - omega * now.r0z);
      if (!(std::abs(r0Ap) > least * start * (now.w + std::abs(beta) * (last_.s + std::abs(omega) * last_.z)))) {
        monitor.breakdown("(r0, A p)", std::abs(r0Ap), "the step along p cannot be determined");
        break;
      }
      least = 2e-4 * tiny;
      alpha = now.rho / r0Ap;
      ++since;
      const bool fresh = period_ > 0 ? since >= period_ : period_ < 0 && since >= least_group_ && drifted(now);
      const Half half = x.half_step(step, fresh);
      // q = 0 to rounding would make y = 0: the half step is then the whole one.
      if (half.q <= monitor.goal()) {
        layout::axpy(alpha, p, e);
        now.r = half.q;
        since = 0;
        continue;
      }
      if (!(std::abs(half.yq) > tiny * half.y * half.q)) {
        layout::axpy(alpha, p, e);
        if (std::isfinite(half.q) && half.q < best_norm) x.total(best), best_norm = half.q;
        now.r = half.q;
        if (half.y == 0) monitor.breakdown("(t, t)", 0, "the matrix maps the half-step residual to zero");
        else monitor.breakdown("omega", std::abs(half.yq), "(t, s) vanishes: the residual cannot be reduced along t");
        break;
      }
      const T before = omega;
      omega = half.yq / T(real_t<T>(half.y * half.y));
      old = now.rho;
      now = x.whole_step(step, fresh);
      if (fresh) ++replaced, since = 0;
      norm_A_ =
          std::max({norm_A_, ratio(half.s, half.p), ratio(half.z, half.s), ratio(half.y, half.q), ratio(now.w, now.r)});
      if (fresh) gaps_.reset({unit * now.r, unit * norm_A_ * half.p, unit * norm_A_ * now.r, unit * norm_A_ * half.s});
      else follow_gaps(now, half, alpha, beta, before, omega);
      last_ = half;
    }
    const bool failed = monitor.outcome() != Outcome::claims && !(now.r <= best_norm);
    if (!failed) x.total(best);
    if (run.P) run.P->apply(best, x.d);
    else layout::copy(best, x.d);
    if (replaced > 0)
      monitor.tell("pipelined-bicgstab replaced its residual " + std::to_string(replaced) +
                   (replaced > 1 ? " times" : " time"));
  }

  std::string step_down() override {
    if (period_ == 0 || (period_ > 0 && period_ <= 10)) return {};
    period_ = 10;
    return "its residual was replaced every 10 iterations from there";
  }

 private:
  struct Half {  // after the first sum of an iteration; an inner product and norms
    Half() = default;
    explicit Half(const exec::Sums<6, T>& sums)
        : yq(sums[0]), y(root(sums[1])), q(root(sums[2])), p(root(sums[3])), s(root(sums[4])), z(root(sums[5])) {}
    T yq{};
    double y = 0, q = 0, p = 0, s = 0, z = 0;
  };
  struct Whole {  // after the second
    Whole() = default;
    explicit Whole(const exec::Sums<7, T>& sums)
        : rho(sums[0]),
          r0w(sums[1]),
          r0s(sums[2]),
          r0z(sums[3]),
          r(root(sums[4])),
          w(root(sums[5])),
          e(root(sums[6])) {}
    T rho{}, r0w{}, r0s{}, r0z{};
    double r = 0, w = 0, e = 0;
  };
  struct Step {
    T alpha{1}, beta{0}, omega{0};
  };

  /// The vectors of a run and the passes over them. r = f - A e, and d + e (times P) is the solution: steps are summed
  /// in groups between replacements.
  struct Vectors {
    Vectors(const Run<T, M>& run, bool replaces)
        : A(run.A),
          P(run.P),
          space(run.r.space()),
          replaces(replaces),
          f(run.r),
          d(run.d),
          r(replaces ? run.w[0] : f),
          e(replaces ? run.w[1] : d),
          r0(run.w[2]),
          w(run.w[3]),
          t(run.w[4]),
          p(run.w[5]),
          s(run.w[6]),
          z(run.w[7]),
          v(run.w[8]),
          best(run.w[9]),
          hat(P ? run.w[10] : v),
          behind(hides_updates(f)),
          z_new(behind ? run.w[P ? 11 : 10] : z),
          w_new(behind ? run.w[P ? 12 : 11] : w) {
      if (replaces) layout::copy(f, r), layout::fill(e, T(0));
      for (auto* x : {&p, &s, &z, &v}) layout::fill(*x, T(0));
    }
    static bool hides_updates([[maybe_unused]] const Vector& f) {
      if constexpr (is_group<M>) return f.own().group().hides_updates();
      return false;
    }

    void apply(const Vector& x, Vector& y) {
      if (P) P->apply(x, hat);
      A.apply(P ? hat : x, y);
    }
    /// y = A x while the sums travel. Kernels of a device run in the order of their calls: what is to run while the
    /// product travels is called behind start(). So a group of devices may update z and w before their products, and
    /// all else behind.
    template <class F>
    auto during(const Vector& x, Vector& y, const F& sums) {
      if constexpr (is_group<M>) {
        std::optional<decltype(space.sum(sums()))> pending;
        if (!behind) pending = space.sum(sums());
        if (P) P->apply(x, hat);
        auto product = A.start(P ? hat : x, y);
        if (behind) pending = space.sum(sums());
        const auto total = pending->wait();
        product.wait();
        return total;
      } else {
        auto pending = space.sum(sums());
        apply(x, y);
        return pending.wait();
      }
    }
    void total(Vector& sum) {
      using namespace exec;
      if (replaces) sweep(reads(d, e), updates(), writes(sum), formula::Total<T>{});
      else layout::copy(d, sum);
    }
    auto whole() {
      using namespace exec;
      return sweep(reads(r0, r, w, s, z, e), updates(), writes(), formula::PipelinedBicgstabWhole<T>{});
    }

    /// p, s and z of this iteration; v = A z and the sums of q and y. fresh: s and z are made anew.
    Half half_step(const Step& step, bool fresh) {
      using namespace exec;
      const auto [alpha, beta, omega] = step;
      if (fresh) {
        sweep(reads(r, s), updates(p), writes(), formula::BicgstabDirection<T>{beta, omega});
        apply(p, s);
        apply(s, z);
        return Half(during(z, v, [&, a = alpha] {
          return sweep(reads(r, w, p, s, z), updates(), writes(), formula::PipelinedBicgstabHalf<T>{a});
        }));
      }
      if constexpr (is_group<M>) {
        if (behind) {
          sweep(reads(t, v, z), updates(), writes(z_new), formula::PipelinedBicgstabZ<T>{beta, omega});
          std::swap(z, z_new);
          const formula::PipelinedBicgstabBehindZ<T> rest{alpha, beta, omega};
          return Half(during(z, v, [&] { return sweep(reads(r, w, z_new, z), updates(p, s), writes(), rest); }));
        }
      }
      const formula::PipelinedBicgstabForward<T> forward{alpha, beta, omega};
      return Half(during(z, v, [&] { return sweep(reads(r, w, t, v), updates(p, s, z), writes(), forward); }));
    }
    /// e, r and w after both steps; t = A w and the sums of the next iteration. fresh: the residual is replaced.
    Whole whole_step(const Step& step, bool fresh) {
      using namespace exec;
      const formula::PipelinedBicgstabStabilise<T> both{step.alpha, step.omega};
      const auto stabilise = [&] { return sweep(reads(r0, p, s, z, t, v), updates(parts(e), r, w), writes(), both); };
      if (fresh) {
        (void)stabilise();
        apply(e, t);
        sweep(reads(t), updates(f, d, e), writes(r), formula::GroupEnd<T>{});
        apply(r, w);
        return Whole(during(w, t, [&] { return whole(); }));
      }
      if constexpr (is_group<M>) {
        if (behind) {
          sweep(reads(z, t, v, w), updates(), writes(w_new), formula::PipelinedBicgstabW<T>{step.alpha, step.omega});
          std::swap(w, w_new);
          const formula::PipelinedBicgstabBehindW<T> rest{step.alpha, step.omega};
          return Whole(
              during(w, t, [&] { return sweep(reads(r0, p, s, z, w_new, w), updates(parts(e), r), writes(), rest); }));
        }
      }
      return Whole(during(w, t, stabilise));
    }

    const op::Operator<T, M>& A;
    const op::Operator<T, M>* P;
    layout::Space space;
    bool replaces;
    Vector &f, &d, &r, &e, &r0, &w, &t, &p, &s, &z, &v, &best, &hat;
    bool behind;
    Vector &z_new, &w_new;
  };

  static double root(T square) { return std::sqrt(double(real(square))); }
  static double ratio(double a, double b) { return b > 0 && std::isfinite(a / b) ? a / b : 0; }

  // Gaps of r, s, w, z: f - A e - r, A p - s, A r - w, A s - z.
  static constexpr double unit = double(std::numeric_limits<real_t<T>>::epsilon()) / 2;
  void follow_gaps(const Whole& now, const Half& half, T alpha, T beta, T before, T omega) {
    using C = std::complex<double>;
    const C a(alpha), b(beta), o(before), O(omega);
    const double step = std::abs(a), stable = std::abs(O);
    // z' = b z;  s' = w + b (s - o z);  y' = w - a z';  w' = y';  r' = r - a s' - O y'.
    gaps_.step(
        {{{C(1), -a * b, -a - O, a * b * (o + O)},
          {C(0), b, C(1), -b * o},
          {C(0), C(0), C(1), -a * b},
          {C(0), C(0), C(0), b}}},
        {unit * (norm_A_ * (now.e + step * half.p + stable * half.q) + now.r + half.q),
         unit * (norm_A_ * half.p + half.s), unit * (norm_A_ * (now.r + half.q + stable * half.y) + now.w + half.y),
         unit * (norm_A_ * half.s + half.z)});
  }
  bool drifted(const Whole& now) const {
    return !(gaps_[0] <= tolerance_ * now.r && gaps_[1] <= tolerance_ * last_.s && gaps_[2] <= tolerance_ * now.w);
  }

  static constexpr double tolerance_ = std::same_as<real_t<T>, double> ? 1e-8 : 4e-4;
  static constexpr int least_group_ = 10;
  int period_;         // < 0: by the estimate; 0: never
  double norm_A_ = 0;  // of A P, from below: the largest ||A P x|| / ||x|| seen
  Half last_;
  Gaps<4> gaps_;
};

template <Scalar T, Memory M>
std::unique_ptr<Iteration<T, M>> make_pipelined_bicgstab(const Options& options) {
  return std::make_unique<PipelinedBicgstab<T, M>>(options);
}

}  // namespace tacit::krylov
