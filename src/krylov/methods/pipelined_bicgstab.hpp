// Pipelined BiCGStab: Cools and Vanroose (2017), doi 10.1016/j.parco.2017.04.005, Algorithm 3, in its letters:
//
//   s = A p,  z = A s,  v = A z,     w = A r,  t = A w,     q = r - alpha s,  y = A q
//
// A stands for A P, preconditioned from the right: steps are summed before P and P is applied once at the end.
#pragma once

#include "../safeguards/replacement.hpp"
#include "bicgstab.hpp"

#include <string>

namespace tacit::krylov {

namespace formula {
// q and y are made where they are needed: (y, q), and norms for the estimate of the gaps.
template <class T>
struct PipelinedBicgstabHalf {
  T alpha;
  TACIT_HD exec::Sums<6, T> operator()(T r, T w, T p, T s, T z) const {
    const T q = r - alpha * s, y = w - alpha * z;
    return {{conj(y) * q, T(abs2(y)), T(abs2(q)), T(abs2(p)), T(abs2(s)), T(abs2(z))}};
  }
};
// The half step: z, whose product can then begin, and the rest.
template <class T>
struct PipelinedBicgstabZ {
  T beta, omega;
  TACIT_HD void operator()(T t, T v, T z, T& z_new) const { z_new = t + beta * (z - omega * v); }
};
template <class T>
struct PipelinedBicgstabBesideZ {
  T alpha, beta, omega;
  TACIT_HD exec::Sums<6, T> operator()(T r, T w, T z, T z_new, T& p, T& s) const {
    p = r + beta * (p - omega * s);
    s = w + beta * (s - omega * z);
    return PipelinedBicgstabHalf<T>{alpha}(r, w, p, s, z_new);
  }
};
template <class T>
struct PipelinedBicgstabForward {
  T alpha, beta, omega;
  TACIT_HD exec::Sums<6, T> operator()(T r, T w, T t, T v, T& p, T& s, T& z) const {
    const T before = z;
    PipelinedBicgstabZ<T>{beta, omega}(t, v, before, z);
    return PipelinedBicgstabBesideZ<T>{alpha, beta, omega}(r, w, before, z, p, s);
  }
};
template <class T>
struct PipelinedBicgstabWhole {
  TACIT_HD exec::Sums<7, T> operator()(T r0, T r, T w, T s, T z, T e) const {
    const T shadow = conj(r0);
    return {{shadow * r, shadow * w, shadow * s, shadow * z, T(abs2(r)), T(abs2(w)), T(abs2(e))}};
  }
};
// The whole step likewise: w, and the rest.
template <class T>
struct PipelinedBicgstabW {
  T alpha, omega;
  TACIT_HD void operator()(T z, T t, T v, T w, T& w_new) const { w_new = (w - alpha * z) - omega * (t - alpha * v); }
};
template <class T>
struct PipelinedBicgstabBesideW {
  T alpha, omega;
  TACIT_HD exec::Sums<7, T> operator()(T r0, T p, T s, T z, T w, T w_new, T& e, T& r) const {
    const T q = r - alpha * s, y = w - alpha * z;
    e = e + (alpha * p + omega * q);
    r = q - omega * y;
    return PipelinedBicgstabWhole<T>{}(r0, r, w_new, s, z, e);
  }
};
template <class T>
struct PipelinedBicgstabStabilise {
  T alpha, omega;
  TACIT_HD exec::Sums<7, T> operator()(T r0, T p, T s, T z, T t, T v, T& e, T& r, T& w) const {
    const T before = w;
    PipelinedBicgstabW<T>{alpha, omega}(z, t, v, before, w);
    return PipelinedBicgstabBesideW<T>{alpha, omega}(r0, p, s, z, before, w, e, r);
  }
};
template <class T>
struct Total {
  TACIT_HD void operator()(T a, T b, T& c) const { c = a + b; }
};
}  // namespace formula

/// An iteration: 2 products, 2 applies of P, 2 reductions, each in flight during a product and an apply; 22 vectors of
/// traffic beside theirs. Vectors: f, d, r0, r, e, w, t, p, s, z, v, the best d so far (and P x). On a group of devices
/// 9 vectors of traffic before the products and 18 while their results are copied and gathered, and two more vectors. A
/// replacement: 4 products, 4 applies of P. It recomputes s and z before v = A z, and r and w before t = A w: where one
/// of them is kept, errors grow faster than without a replacement.
template <Scalar T, Memory M>
class PipelinedBicgstab final : public Iteration<T, M> {
  using Vector = layout::Vector<T, M>;

 public:
  explicit PipelinedBicgstab(const Options& options) : replacement_(options.replacement) {}

  void run(const Run<T, M>& run, Monitor& monitor) override {
    Vectors x(run, replacement_.on());
    show(run, monitor, x);
    const auto write = [&](Vector& to) { x.total(to); };
    layout::copy(x.r, x.r0);
    x.apply(x.r, x.w);                                         // w = A r
    Whole now(x.during(x.w, x.t, [&] { return x.whole(); }));  // t = A w
    Best<T, M> best(x.best, now.r);
    BicgstabGuard<T> guard(monitor, now.r);
    Step step;
    T old{1};
    begin_gaps(now);
    for (bool first = true; monitor.go_on(now.r); first = false) {
      best.look(now.r, write);
      if (!guard.allows_direction(std::abs(now.rho), now.r)) break;
      auto& [alpha, beta, omega] = step;
      beta = first ? T(0) : (alpha / omega) * (now.rho / old);
      const T r0s = now.r0w + beta * (now.r0s - omega * now.r0z);  // (r0, s) of the new s
      if (!guard.allows_half_step(std::abs(r0s), now.w + std::abs(beta) * (last_.s + std::abs(omega) * last_.z))) break;
      alpha = now.rho / r0s;
      const bool fresh = replacement_.due([&] { return drifted(now); });
      // p = r + beta (p - omega s),  s = w + beta (s - omega z),  z = t + beta (z - omega v),  v = A z;
      // the sums of q = r - alpha s and y = w - alpha z
      const Half half = x.half_step(step, fresh);
      // Where q is at the goal the half step is enough; y may then be 0.
      const bool enough = half.q <= monitor.goal();
      if (enough || !guard.allows_smoothing(std::abs(half.yq), half.y * half.y, half.q)) {
        layout::axpy(alpha, x.p, x.e);
        now.r = half.q;
        replacement_.restart();
        if (enough) continue;
        best.look(half.q, write, 1);
        break;
      }
      const T before = omega;
      omega = half.yq / T(real_t<T>(half.y * half.y));  // omega = (y, q) / (y, y)
      old = now.rho;
      // e += alpha p + omega q,  r = q - omega y,  w = y - omega (t - alpha v),  t = A w
      now = x.whole_step(step, fresh);
      follow_gaps(now, half, step, before, fresh);
      last_ = half;
    }
    if (!best.stays(now.r, monitor)) x.total(x.best);
    if (run.P) run.P->apply(x.best, x.d);
    else layout::copy(x.best, x.d);
    replacement_.note(monitor, "pipelined-bicgstab");
  }

  std::string step_down() override { return replacement_.step_down(); }

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
          z_new(is_group<M> ? run.w[P ? 11 : 10] : z),
          w_new(is_group<M> ? run.w[P ? 12 : 11] : w) {
      if (replaces) layout::copy(f, r), layout::fill(e, T(0));
      for (auto* x : {&p, &s, &z, &v}) layout::fill(*x, T(0));
    }

    void apply(const Vector& x, Vector& y) {
      if (P) P->apply(x, hat);
      A.apply(P ? hat : x, y);
    }
    /// y = A x while the reduction is in flight. Kernels of a device work in the order of their calls: on a group the
    /// sweep with the sums is called after start(), and works while the product's result is copied and gathered.
    template <class F>
    auto during(const Vector& x, Vector& y, const F& sums) {
      if constexpr (is_group<M>) {
        if (P) P->apply(x, hat);
        auto product = A.start(P ? hat : x, y);
        const auto total = space.sum(sums()).wait();
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
        sweep(reads(t, v, z), updates(), writes(z_new), formula::PipelinedBicgstabZ<T>{beta, omega});
        std::swap(z, z_new);
        const formula::PipelinedBicgstabBesideZ<T> rest{alpha, beta, omega};
        return Half(during(z, v, [&] { return sweep(reads(r, w, z_new, z), updates(p, s), writes(), rest); }));
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
        sweep(reads(z, t, v, w), updates(), writes(w_new), formula::PipelinedBicgstabW<T>{step.alpha, step.omega});
        std::swap(w, w_new);
        const formula::PipelinedBicgstabBesideW<T> rest{step.alpha, step.omega};
        return Whole(
            during(w, t, [&] { return sweep(reads(r0, p, s, z, w_new, w), updates(parts(e), r), writes(), rest); }));
      }
      return Whole(during(w, t, stabilise));
    }

    const op::Operator<T, M>& A;
    const op::Operator<T, M>* P;
    layout::Space space;
    bool replaces;
    Vector &f, &d, &r, &e, &r0, &w, &t, &p, &s, &z, &v, &best, &hat;
    Vector &z_new, &w_new;  // on a group; elsewhere z and w
  };

  static double root(T square) { return std::sqrt(double(real(square))); }

  void show(const Run<T, M>& run, Monitor& monitor, Vectors& x) const {
    monitor.solution_by([&](void* to) {
      Vector sum(x.space);
      x.total(sum);
      if (!run.P) return solution(sum, T(0), sum, to);
      Vector preconditioned(x.space);
      run.P->apply(sum, preconditioned);
      solution(preconditioned, T(0), preconditioned, to);
    });
  }

  // Gaps of r, s, w, z: f - A e - r, A p - s, A r - w, A s - z.
  static constexpr double unit = double(std::numeric_limits<real_t<T>>::epsilon()) / 2;
  void begin_gaps(const Whole& now) {
    replacement_.begin();
    norm_A_.see(now.w, now.r);
    gaps_.reset({unit * now.r, 0, unit * norm_A_ * now.r, 0});
  }
  /// After an iteration, with the omega of the one before it, in which s, z, r and w may have been made anew.
  void follow_gaps(const Whole& now, const Half& half, const Step& step, T omega_before, bool fresh) {
    norm_A_.see(half.s, half.p), norm_A_.see(half.z, half.s), norm_A_.see(half.y, half.q), norm_A_.see(now.w, now.r);
    if (fresh) {
      replacement_.done();
      return gaps_.reset({unit * now.r, unit * norm_A_ * half.p, unit * norm_A_ * now.r, unit * norm_A_ * half.s});
    }
    using C = std::complex<double>;
    const C a(step.alpha), b(step.beta), o(omega_before), O(step.omega), i(1);
    const double along = std::abs(a), stable = std::abs(O);
    // z' = b z;  s' = w + b (s - o z);  y' = w - a z';  w' = y';  r' = r - a s' - O y'.
    gaps_.step(
        {i, -a * b, -a - O, a * b * (o + O),  //
         0, b, i, -b * o,                     //
         0, 0, i, -a * b,                     //
         0, 0, 0, b},
        {unit * (norm_A_ * (now.e + along * half.p + stable * half.q) + now.r + half.q),
         unit * (norm_A_ * half.p + half.s), unit * (norm_A_ * (now.r + half.q + stable * half.y) + now.w + half.y),
         unit * (norm_A_ * half.s + half.z)});
  }
  bool drifted(const Whole& now) const {
    constexpr double tolerance = std::same_as<real_t<T>, double> ? 1e-8 : 4e-4;
    return !(gaps_[0] <= tolerance * now.r && gaps_[1] <= tolerance * last_.s && gaps_[2] <= tolerance * now.w);
  }

  Replacement replacement_;
  NormFromBelow norm_A_;  // of A P
  Half last_;
  Gaps<std::complex<double>> gaps_{4};
};

template <Scalar T, Memory M>
std::unique_ptr<Iteration<T, M>> make_pipelined_bicgstab(const Options& options) {
  return std::make_unique<PipelinedBicgstab<T, M>>(options);
}

}  // namespace tacit::krylov
