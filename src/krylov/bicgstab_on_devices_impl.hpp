#pragma once

#include <tacit/krylov/bicgstab.hpp>
#include <tacit/krylov/bicgstab_on_devices.hpp>

#include <tacit/base/error.hpp>
#include <tacit/base/trace.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
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

/// What both iterations do with vectors of all devices. Squares of b stay in the range.
template <Scalar T, Memory M>
class DeviceIteration {
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
        d(matrix.vector()),
        b_(rhs),
        x_(solution) {
    report.method = name;
    A.assign(b_, r);
    everywhere([&](std::size_t k) {
      exec::sweep(exec::reads(constant(r, k)), exec::updates(), exec::writes(whole(r0, k)), layout::formula::Copy<T>{});
    });
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

  /// d += alpha p + omega s where a device has its part of x, and r = s - omega t everywhere.
  void step(T alpha, const Vectors& s, T omega) {
    everywhere([&](std::size_t k) {
      const auto [from, length] = part(k);
      exec::sweep(exec::reads(std::as_const(p)[k].part(from, length), s[k].part(from, length)),
                  exec::updates(d[k].part(from, length)), exec::writes(), formula::TwoSteps<T>{alpha, omega});
    });
  }

  /// What a right-hand side says at once; true: the solve is over.
  bool over_at_start(T square) {
    report.b_norm = std::sqrt(double(square));
    if (std::isfinite(report.b_norm)) return false;
    report.detail = "the right-hand side is not finite";
    report.reason = Reason::non_finite;
    return true;
  }
  /// The reason to stop before an iteration, if there is one.
  bool over(T rho, T rr, Reason& reason, double& norm) {
    norm = std::sqrt(double(rr)) / report.b_norm;
    report.history.push_back(norm);
    const double tiny = 4 * double(std::numeric_limits<T>::epsilon());
    if (!std::isfinite(norm)) {
      reason = Reason::non_finite;
    } else if (norm <= options.rtol) {
      reason = Reason::converged;
    } else if (report.iterations == options.max_iterations) {
      reason = Reason::max_iterations;
    } else {
      A.matrix().range().comm().check_interrupt();
      if (std::abs(rho) > tiny * tiny * report.b_norm * report.b_norm * norm) return false;
      report.detail = "(r0, r) vanished";
      reason = Reason::breakdown;
    }
    return true;
  }
  Report breakdown(const char* what, double norm) {
    report.detail = what;
    return finish(Reason::breakdown, norm);
  }
  /// x from its device, or from the parts, and its residual.
  Report finish(Reason reason, double believed) {
    for (int k = 0; k < (shared() ? count : 1); ++k) {
      const auto [from, length] = part(std::size_t(k));
      devices.to_host(d[std::size_t(k)], from, length, x_.data() + from);
      devices.wait(k);
    }
    report.recurrence_residual_norm = believed;
    auto whole_x = A.vector();
    A.assign(x_, whole_x);
    A.multiply(whole_x, p);
    A.assign(b_, r);
    everywhere([&](std::size_t k) {
      exec::sweep(exec::reads(constant(p, k)), exec::updates(whole(r, k)), exec::writes(),
                  layout::formula::Axpy<T>{T(-1)});
    });
    const double size = std::sqrt(double(dots(r, r)[1]));
    report.residual_norm = report.b_norm > 0 ? size / report.b_norm : size;
    // A recurrence that claims what its x does not keep.
    if (reason == Reason::converged && !(report.residual_norm <= 10 * options.rtol)) reason = Reason::stagnated;
    report.reason = std::isfinite(report.residual_norm) ? reason : Reason::non_finite;
    report.counts.operator_applies = 2 * report.iterations + 1;
    report.seconds = wall_time() - begin_;
    return report;
  }

  const op::HMatrixOnDevices<T, M>& A;
  exec::Devices<M>& devices;
  const DeviceSolveOptions& options;
  const int count;
  const std::size_t n;
  Vectors r, r0, p, d;
  Report report;

 private:
  std::span<const T> b_;
  std::span<T> x_;
  double begin_ = wall_time();
};

template <Scalar T, Memory M>
Report bicgstab_of(const op::HMatrixOnDevices<T, M>& A, std::span<const T> b, std::span<T> x,
                   const DeviceSolveOptions& options) {
  using namespace exec;
  DeviceIteration<T, M> it(A, b, x, options, "bicgstab");
  auto &r = it.r, &r0 = it.r0, &p = it.p;
  auto v = A.vector(), t = A.vector();
  auto [rho, rr] = it.dots(r, r0);
  if (it.over_at_start(rr)) return it.report;
  if (it.report.b_norm == 0) return it.finish(Reason::converged, 0);
  T alpha{1}, omega{1}, beta{0};
  for (;;) {
    Reason reason{};
    double norm = 0;
    if (it.over(rho, rr, reason, norm)) return it.finish(reason, norm);
    it.everywhere([&](std::size_t k) {
      sweep(reads(it.constant(r, k), it.constant(v, k)), updates(it.whole(p, k)), writes(),
            formula::BicgstabDirection<T>{beta, omega});
    });
    A.multiply(p, v);
    const T r0v = it.dots(r0, v)[0];
    if (!(std::abs(r0v) > 0)) return it.breakdown("(r0, A p) vanished", norm);
    alpha = rho / r0v;
    it.everywhere([&](std::size_t k) {
      sweep(reads(it.constant(v, k)), updates(it.whole(r, k)), writes(), layout::formula::Axpy<T>{-alpha});
    });
    A.multiply(r, t);
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
    if (omega == T(0) && !(now <= options.rtol)) return it.breakdown("omega vanished", now);
    if (omega != T(0)) beta = (rho / old) * (alpha / omega);
  }
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
    return sums;
  };
  const auto whole_sums = [&] { return it.start(formula::PipelinedSums<T>{}, r0, r, f, g, z); };

  const T square = it.dots(r, r0)[1];
  if (it.over_at_start(square)) return it.report;
  if (it.report.b_norm == 0) return it.finish(Reason::converged, 0);
  A.multiply(r, f);
  auto now = product_behind(
      f, t, [] {}, whole_sums);
  T alpha{0}, omega{0}, beta{0}, old{1};
  for (bool first = true;; first = false) {
    const auto [rho, rr, r0f, r0g, r0z] = now;
    Reason reason{};
    double norm = 0;
    if (it.over(rho, rr, reason, norm)) return it.finish(reason, norm);
    beta = first ? T(0) : (rho / old) * (alpha / omega);
    const T r0v = r0f + beta * (r0g - omega * r0z);  // (r0, A p)
    if (!(std::abs(r0v) > 0)) return it.breakdown("(r0, A p) vanished", norm);
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
    if (omega == T(0) && !(size <= options.rtol)) return it.breakdown("omega vanished", size);
  }
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
