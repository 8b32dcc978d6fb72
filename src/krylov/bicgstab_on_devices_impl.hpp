#pragma once

#include <tacit/krylov/bicgstab.hpp>
#include <tacit/krylov/bicgstab_on_devices.hpp>

#include <tacit/base/error.hpp>
#include <tacit/base/trace.hpp>
#include <tacit/krylov/monitor.hpp>
#include <tacit/krylov/outer.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace tacit::krylov {
namespace formula {
template <class T>
struct TwoSteps {
  T alpha, omega;
  TACIT_HD void operator()(T p, T s, T& x) const { x = x + (alpha * p + omega * s); }
};
// z_new = t + beta (z - omega v), and f = y - omega (t - alpha v) with other letters.
template <class T>
struct Together {
  T a, b;
  TACIT_HD void operator()(T t, T z, T v, T& out) const { out = t + a * (z - b * v); }
};
template <class T>
struct PipelinedHalf {
  T alpha, beta, omega;
  TACIT_HD void operator()(T r, T f, T z, T z_new, T& p, T& g, T& q, T& y) const {
    p = r + beta * (p - omega * g);
    g = f + beta * (g - omega * z);
    q = r - alpha * g;
    y = f - alpha * z_new;
  }
};
template <class T>
struct Less {
  T a;
  TACIT_HD void operator()(T q, T y, T& r) const { r = q - a * y; }
};
template <class T>
struct PipelinedSums {  // (r0, r), (r, r), (r0, f), (r0, g), (r0, z)
  TACIT_HD exec::Sums<5, T> operator()(T r0, T r, T f, T g, T z) const {
    return {{r0 * r, r * r, r0 * f, r0 * g, r0 * z}};
  }
};
}  // namespace formula

namespace {

/// What both methods do with vectors of all devices. Squares of b stay in the range; norms are those of b's.
template <Scalar T, Memory M>
class DeviceIteration final : public OuterIteration {
 public:
  using Vectors = typename op::HMatrixOnDevices<T, M>::Vectors;

  DeviceIteration(const op::HMatrixOnDevices<T, M>& matrix, std::span<const T> rhs, std::span<T> solution,
                  const DeviceSolveOptions& given, const char* name)
      : A(matrix),
        devices(matrix.devices()),
        options(given),
        count(matrix.devices().size()),
        n(std::size_t(matrix.size())),
        r(matrix.vector()),
        r0(matrix.vector()),
        p(matrix.vector()),
        d_(matrix.vector()),
        best_(matrix.vector()),
        b_(rhs),
        x_(solution),
        trial_(rhs.size()) {
    report.method = name;
    std::fill(x_.begin(), x_.end(), T(0));
    A.assign(b_, r);
  }

  /// Runs of the method, each from the recomputed residual of the last, as the judge says.
  template <class F>
  Report solve(const F& method) {
    method_ = method;
    first_ = begin_run();
    Verdict verdict = judge(*this, report.b_norm > 0 || !std::isfinite(report.b_norm) ? 1 : 0, options.rtol);
    report.reason = verdict.reason;
    report.detail = std::move(verdict.detail), report.advice = std::move(verdict.advice);
    report.residual_norm = std::isfinite(report.b_norm) ? verdict.norm : report.b_norm;
    if (report.history.empty()) report.history.push_back(verdict.norm);
    report.seconds = wall_time() - begin_;
    return std::move(report);
  }

  bool shared() const { return options.work == VectorWork::shared; }
  std::pair<std::size_t, std::size_t> part(std::size_t device) const {
    const std::size_t all = std::size_t(count), from = n * device / all, to = n * (device + 1) / all;
    return shared() ? std::pair(from, to - from) : std::pair(std::size_t(0), n);
  }
  template <class F>
  void everywhere(F&& f) {
    for (int k = 0; k < count; ++k) devices.on(k, [&] { f(std::size_t(k)); });
  }
  auto whole(Vectors& a, std::size_t k) const { return a[k].part(0, n); }
  auto constant(const Vectors& a, std::size_t k) const { return a[k].part(0, n); }
  void clear(Vectors& a) {
    everywhere([&](std::size_t k) {
      exec::sweep(exec::reads(), exec::updates(whole(a, k)), exec::writes(), layout::formula::Fill<T>{T(0)});
    });
  }

  /// Sums of a formula over all elements, under way on all devices that form them; sum() adds them in their order.
  template <class F, class... V>
  auto start(const F& f, const V&... a) {
    const auto of = [&](int k) {
      const auto [from, length] = part(std::size_t(k));
      return devices.start_sums(k, exec::reads(a[std::size_t(k)].part(from, length)...), f);
    };
    std::vector<decltype(of(0))> started;
    for (int k = 0; k < (shared() ? count : 1); ++k) started.push_back(of(k));
    return started;
  }
  template <class S>
  auto sum(const std::vector<S>& started) {
    auto all = devices.sums(0, started[0]);
    for (std::size_t k = 1; k < started.size(); ++k) add_to(all, devices.sums(int(k), started[k]));
    return all;
  }
  /// (a, c) and (a, a).
  auto dots(const Vectors& a, const Vectors& c) { return sum(start(layout::formula::Dots<T>{}, a, c)); }
  void multiply(const Vectors& x, Vectors& y) {
    A.multiply(x, y);
    ++report.counts.operator_applies;
  }

  /// A run from r: r0 = r, p = d = 0. (r0, r) and (r, r).
  std::array<T, 2> begin_run() {
    if (first_) return *std::exchange(first_, std::nullopt);
    everywhere([&](std::size_t k) {
      exec::sweep(exec::reads(constant(r, k)), exec::updates(), exec::writes(whole(r0, k)), layout::formula::Copy<T>{});
    });
    clear(p), clear(d_), clear(best_);
    const auto sums = dots(r, r0);
    const double norm = std::sqrt(double(sums[1]));
    if (report.iterations == 0 && report.restarts == 0) report.b_norm = norm;
    start_ = best_norm_ = report.b_norm > 0 ? norm / report.b_norm : 0;
    return {sums[0], sums[1]};
  }

  /// d += alpha p + omega s where a device has its part of x.
  void step(T alpha, const Vectors& s, T omega) {
    everywhere([&](std::size_t k) {
      const auto [from, length] = part(k);
      exec::sweep(exec::reads(std::as_const(p)[k].part(from, length), s[k].part(from, length)),
                  exec::updates(d_[k].part(from, length)), exec::writes(), formula::TwoSteps<T>{alpha, omega});
    });
  }

  /// Does the run end before the next iteration?
  bool over(T rho, T rr) {
    const double norm = report.b_norm != 0 ? std::sqrt(double(rr)) / report.b_norm : 0;
    if (int(report.history.size()) == report.iterations) report.history.push_back(norm);
    const double tiny = 4 * double(std::numeric_limits<T>::epsilon());
    if (!std::isfinite(norm)) {
      const char* const what = std::isfinite(report.b_norm) ? "the residual became NaN or Inf during the iteration"
                                                            : "the right-hand side is not finite";
      return end(Outcome::non_finite, norm, what), true;
    }
    if (reached(norm, options.rtol)) return end(Outcome::claims, norm), true;
    if (report.iterations == options.max_iterations) return end(Outcome::max_iterations, norm), true;
    A.matrix().range().comm().check_interrupt();
    if (!(std::abs(rho) > tiny * tiny * report.b_norm * report.b_norm * start_ * norm))
      return end(Outcome::breakdown, norm, "(r0, r) vanished"), true;
    // Residuals of BiCGStab jump; what is left of a run that failed is the best d, kept once a decade.
    if (norm < 0.1 * best_norm_) {
      best_norm_ = norm;
      everywhere([&](std::size_t k) {
        const auto [from, length] = part(k);
        exec::sweep(exec::reads(std::as_const(d_)[k].part(from, length)), exec::updates(),
                    exec::writes(best_[k].part(from, length)), layout::formula::Copy<T>{});
      });
    }
    return false;
  }
  /// Ends the run with what it believes.
  void end(Outcome outcome, double believed, const char* detail = "") {
    outcome_ = outcome, believed_ = believed, detail_ = detail;
  }

  const op::HMatrixOnDevices<T, M>& A;
  exec::Devices<M>& devices;
  const DeviceSolveOptions& options;
  const int count;
  const std::size_t n;
  Vectors r, r0, p;
  Report report;

 private:
  std::optional<Verdict> run(double) override {
    method_();
    report.recurrence_residual_norm = believed_;
    if (!std::isfinite(report.b_norm)) return Verdict{Reason::non_finite, detail_, ""};
    return {};
  }
  /// The trial is x + d, put together from the devices that have it; its residual is left in r.
  double recompute() override {
    if (outcome_ != Outcome::claims && !(believed_ <= best_norm_)) std::swap(d_, best_);
    for (int k = 0; k < (shared() ? count : 1); ++k) {
      const auto [from, length] = part(std::size_t(k));
      devices.to_host(d_[std::size_t(k)], from, length, trial_.data() + from);
      devices.wait(k);
    }
    for (std::size_t i = 0; i < n; ++i) trial_[i] += x_[i];
    A.assign(trial_, r0);
    multiply(r0, p);
    A.assign(b_, r);
    everywhere([&](std::size_t k) {
      exec::sweep(exec::reads(constant(p, k)), exec::updates(whole(r, k)), exec::writes(),
                  layout::formula::Axpy<T>{T(-1)});
    });
    return std::sqrt(double(dots(r, r)[1])) / report.b_norm;
  }
  void accept() override { std::copy(trial_.begin(), trial_.end(), x_.begin()); }
  void reject() override { over_ = true; }  // r is no longer that of x
  std::optional<Verdict> next(double before, double norm) override {
    if (outcome_ == Outcome::max_iterations) return Verdict{Reason::max_iterations, "", ""};
    const bool claimed = outcome_ == Outcome::claims;
    if (claimed) idle_ = norm <= 0.5 * before ? 0 : idle_ + 1;
    if (!over_ && (claimed ? idle_ < 2 : norm <= 0.9 * before)) return ++report.restarts, std::nullopt;
    if (claimed)
      return Verdict{Reason::stagnated, message("the recomputed residual stays at ", norm, " of ||b||"),
                     "A tolerance above this level or a higher precision would do."};
    return Verdict{outcome_ == Outcome::breakdown ? Reason::breakdown : Reason::non_finite, detail_, ""};
  }

  Vectors d_, best_;  // of this run
  std::span<const T> b_;
  std::span<T> x_;
  std::vector<T> trial_;
  double start_ = 1, best_norm_ = 1, believed_ = 0;
  int idle_ = 0;  // claims in a row that have hardly lowered the recomputed residual
  bool over_ = false;
  std::optional<std::array<T, 2>> first_;  // sums of the first run, until it begins
  std::function<void()> method_;
  Outcome outcome_ = Outcome::max_iterations;
  const char* detail_ = "";
  double begin_ = wall_time();
};

template <Scalar T, Memory M>
Report bicgstab_of(const op::HMatrixOnDevices<T, M>& A, std::span<const T> b, std::span<T> x,
                   const DeviceSolveOptions& options) {
  using namespace exec;
  DeviceIteration<T, M> it(A, b, x, options, "bicgstab");
  auto &r = it.r, &r0 = it.r0, &p = it.p;
  auto v = A.vector(), t = A.vector();
  return it.solve([&] {
    it.clear(v);
    auto [rho, rr] = it.begin_run();
    T alpha{1}, omega{1}, beta{0};
    while (!it.over(rho, rr)) {
      it.everywhere([&](std::size_t k) {
        sweep(reads(it.constant(r, k), it.constant(v, k)), updates(it.whole(p, k)), writes(),
              formula::BicgstabDirection<T>{beta, omega});
      });
      it.multiply(p, v);
      const T r0v = it.dots(r0, v)[0];
      if (!(std::abs(r0v) > 0))
        return it.end(Outcome::breakdown, std::sqrt(double(rr)) / it.report.b_norm, "(r0, A p) vanished");
      alpha = rho / r0v;
      it.everywhere([&](std::size_t k) {
        sweep(reads(it.constant(v, k)), updates(it.whole(r, k)), writes(), layout::formula::Axpy<T>{-alpha});
      });
      it.multiply(r, t);
      const auto [ts, tt] = it.dots(t, r);
      omega = tt > 0 ? ts / tt : T(0);
      it.step(alpha, r, omega);
      it.everywhere([&](std::size_t k) {
        sweep(reads(it.constant(t, k)), updates(it.whole(r, k)), writes(), layout::formula::Axpy<T>{-omega});
      });
      ++it.report.iterations;
      const T old = rho;
      const auto both = it.dots(r, r0);
      rho = both[0], rr = both[1];
      const double now = std::sqrt(double(rr)) / it.report.b_norm;
      if (omega == T(0) && !reached(now, options.rtol)) return it.end(Outcome::breakdown, now, "omega vanished");
      if (omega != T(0)) beta = (rho / old) * (alpha / omega);
    }
  });
}

template <Scalar T, Memory M>
Report pipelined_bicgstab_of(const op::HMatrixOnDevices<T, M>& A, std::span<const T> b, std::span<T> x,
                             const DeviceSolveOptions& options, DeviceOverlap overlap) {
  using namespace exec;
  DeviceIteration<T, M> it(A, b, x, options, "pipelined-bicgstab");
  auto &r = it.r, &r0 = it.r0, &p = it.p;
  const bool early = overlap == DeviceOverlap::vectors;
  auto f = A.vector(), t = A.vector(), g = A.vector(), z = A.vector(), v = A.vector(), q = A.vector(), y = A.vector(),
       z_new = A.vector();
  // A product whose result is waited for behind the sums of `work`. Updates of vectors that it does not need are made
  // before it, or behind it.
  const auto product_behind = [&](const auto& from, auto& to, const auto& update, const auto& work) {
    if (!early) update();
    A.begin(from);
    if (early) update();
    const auto started = work();
    if (overlap != DeviceOverlap::copy) A.post();
    const auto sums = it.sum(started);
    if (overlap == DeviceOverlap::copy) A.post();
    A.finish(to);
    ++it.report.counts.operator_applies;
    return sums;
  };
  const auto whole_sums = [&] { return it.start(formula::PipelinedSums<T>{}, r0, r, f, g, z); };

  return it.solve([&] {
    for (auto* a : {&g, &z, &v}) it.clear(*a);
    const T square = it.begin_run()[1];
    if (!std::isfinite(square) || square == T(0)) return void(it.over(square, square));
    it.multiply(r, f);
    auto now = product_behind(
        f, t, [] {}, whole_sums);
    T alpha{0}, omega{0}, beta{0}, old{1};
    for (bool first = true;; first = false) {
      const auto [rho, rr, r0f, r0g, r0z] = now;
      if (it.over(rho, rr)) return;
      beta = first ? T(0) : (rho / old) * (alpha / omega);
      const T r0v = r0f + beta * (r0g - omega * r0z);  // (r0, A p)
      if (!(std::abs(r0v) > 0))
        return it.end(Outcome::breakdown, std::sqrt(double(rr)) / it.report.b_norm, "(r0, A p) vanished");
      alpha = rho / r0v;
      it.everywhere([&](std::size_t k) {
        sweep(reads(it.constant(t, k), it.constant(z, k), it.constant(v, k)), updates(), writes(it.whole(z_new, k)),
              formula::Together<T>{beta, omega});
      });
      const auto [yq, yy] = product_behind(
          z_new, v,
          [&] {
            it.everywhere([&](std::size_t k) {
              sweep(reads(it.constant(r, k), it.constant(f, k), it.constant(z, k), it.constant(z_new, k)),
                    updates(it.whole(p, k), it.whole(g, k)), writes(it.whole(q, k), it.whole(y, k)),
                    formula::PipelinedHalf<T>{alpha, beta, omega});
            });
          },
          [&] { return it.start(layout::formula::Dots<T>{}, y, q); });
      std::swap(z, z_new);
      omega = yy > 0 ? yq / yy : T(0);
      it.everywhere([&](std::size_t k) {
        sweep(reads(it.constant(y, k), it.constant(t, k), it.constant(v, k)), updates(), writes(it.whole(f, k)),
              formula::Together<T>{-omega, alpha});
      });
      old = rho;
      now = product_behind(
          f, t,
          [&] {
            it.step(alpha, q, omega);
            it.everywhere([&](std::size_t k) {
              sweep(reads(it.constant(q, k), it.constant(y, k)), updates(), writes(it.whole(r, k)),
                    formula::Less<T>{omega});
            });
          },
          whole_sums);
      ++it.report.iterations;
      const double size = std::sqrt(double(now[1])) / it.report.b_norm;
      if (omega == T(0) && !reached(size, options.rtol)) return it.end(Outcome::breakdown, size, "omega vanished");
    }
  });
}

/// Checks, and brings numbers whose squares leave the range near 1 by a power of two.
template <Scalar T, Memory M, class F>
Report in_range(const op::HMatrixOnDevices<T, M>& A, std::span<const T> b, std::span<T> x,
                const DeviceSolveOptions& options, const F& solve) {
  return comm::collective(A.matrix().range().comm(), [&] {
    const std::size_t n = std::size_t(A.size());
    require(b.size() == n && x.size() == n, "a system of ", n, " unknowns with ", b.size(), " right-hand sides and ",
            x.size(), " elements of x");
    require(options.rtol > 0 && options.max_iterations >= 0, "a solve to ", options.rtol, " in ",
            options.max_iterations, " iterations");
    constexpr int far = std::numeric_limits<T>::max_exponent * 3 / 8;
    T most = 0;
    for (const T v : b) most = std::max(most, std::abs(v));  // passes over what is no number
    const int exponent = most > 0 && std::isfinite(most) ? std::ilogb(most) : 0;
    if (std::abs(exponent) <= far) return solve(b);
    std::vector<T> near(b.begin(), b.end());
    for (T& v : near) v = std::ldexp(v, -exponent);
    Report report = solve(std::span<const T>(near));
    if (std::isfinite(report.b_norm)) {
      for (T& v : x) v = std::ldexp(v, exponent);
      report.b_norm = std::ldexp(report.b_norm, exponent);
    }
    return report;
  });
}

}  // namespace

template <Scalar T, Memory M>
Report bicgstab_on_devices(const op::HMatrixOnDevices<T, M>& A, std::span<const T> b, std::span<T> x,
                           const DeviceSolveOptions& options) {
  return in_range<T, M>(A, b, x, options,
                        [&](std::span<const T> near) { return bicgstab_of<T, M>(A, near, x, options); });
}

template <Scalar T, Memory M>
Report pipelined_bicgstab_on_devices(const op::HMatrixOnDevices<T, M>& A, std::span<const T> b, std::span<T> x,
                                     const DeviceSolveOptions& options, DeviceOverlap overlap) {
  return in_range<T, M>(A, b, x, options, [&](std::span<const T> near) {
    return pipelined_bicgstab_of<T, M>(A, near, x, options, overlap);
  });
}

}  // namespace tacit::krylov
