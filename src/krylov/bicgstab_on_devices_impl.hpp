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
}  // namespace formula

namespace {

/// The iteration; squares of b stay in the range.
template <Scalar T, Memory M>
Report iterate_on_devices(const op::HMatrixOnDevices<T, M>& A, std::span<const T> b, std::span<T> x,
                          const DeviceSolveOptions& options) {
  using namespace exec;
  const double begin = wall_time();
  const std::size_t n = std::size_t(A.size());
  const auto& comm = A.matrix().range().comm();
  auto& devices = A.devices();
  const int count = devices.size();
  const bool shared = options.work == VectorWork::shared;
  auto r = A.vector(), r0 = A.vector(), p = A.vector(), v = A.vector(), t = A.vector(), d = A.vector();
  const auto part = [&](int device) {
    const std::size_t from = n * std::size_t(device) / std::size_t(count),
                      to = n * (std::size_t(device) + 1) / std::size_t(count);
    return shared ? std::pair(from, to - from) : std::pair(std::size_t(0), n);
  };
  const auto everywhere = [&](auto&& f) {
    for (int k = 0; k < count; ++k) devices.on(k, [&] { f(std::size_t(k)); });
  };
  // (a, c) and (a, a) over all elements, added in the order of the devices.
  const auto dots = [&](auto& a, auto& c) {
    Sums<2, T> sums;
    for (int k = 0; k < (shared ? count : 1); ++k) {
      const std::size_t from = part(k).first, length = part(k).second;
      const auto of_device = devices.on(k, [&] {
        return sweep(reads(std::as_const(a[std::size_t(k)]).part(from, length),
                           std::as_const(c[std::size_t(k)]).part(from, length)),
                     updates(), writes(), layout::formula::Dots<T>{});
      });
      devices.count_scalars(2);
      add_to(sums, of_device);
    }
    return sums;
  };
  const auto whole = [n](auto& a, std::size_t k) { return a[k].part(0, n); };
  const auto constant = [n](const auto& a, std::size_t k) { return a[k].part(0, n); };

  Report report;
  report.method = "bicgstab";
  A.assign(b, r);
  everywhere([&](std::size_t k) {
    sweep(reads(constant(r, k)), updates(), writes(whole(r0, k)), layout::formula::Copy<T>{});
  });
  const auto finish = [&](Reason reason, double believed) {
    // x from its device, or from the parts.
    for (int k = 0; k < (shared ? count : 1); ++k) {
      const auto [from, length] = part(k);
      devices.to_host(d[std::size_t(k)], from, length, x.data() + from);
      devices.wait(k);
    }
    report.recurrence_residual_norm = believed;
    auto whole_x = A.vector();
    A.assign(x, whole_x);
    A.multiply(whole_x, t);
    A.assign(b, r);
    everywhere([&](std::size_t k) {
      sweep(reads(constant(t, k)), updates(whole(r, k)), writes(), layout::formula::Axpy<T>{T(-1)});
    });
    const double size = std::sqrt(double(dots(r, r)[1]));
    report.residual_norm = report.b_norm > 0 ? size / report.b_norm : size;
    // A recurrence that claims what its x does not keep.
    if (reason == Reason::converged && !(report.residual_norm <= 10 * options.rtol)) reason = Reason::stagnated;
    report.reason = std::isfinite(report.residual_norm) ? reason : Reason::non_finite;
    report.counts.operator_applies = 2 * report.iterations + 1;
    report.seconds = wall_time() - begin;
    return report;
  };

  auto [rho, rr] = dots(r, r0);
  report.b_norm = std::sqrt(double(rr));
  if (!std::isfinite(report.b_norm)) {
    report.detail = "the right-hand side is not finite";
    report.reason = Reason::non_finite;
    return report;
  }
  if (report.b_norm == 0) return finish(Reason::converged, 0);
  const double tiny = 4 * double(std::numeric_limits<T>::epsilon());
  T alpha{1}, omega{1}, beta{0};
  for (;;) {
    const double norm = std::sqrt(double(rr)) / report.b_norm;
    report.history.push_back(norm);
    if (!std::isfinite(norm)) return finish(Reason::non_finite, norm);
    if (norm <= options.rtol) return finish(Reason::converged, norm);
    if (report.iterations == options.max_iterations) return finish(Reason::max_iterations, norm);
    comm.check_interrupt();
    if (std::abs(rho) <= tiny * tiny * report.b_norm * report.b_norm * norm) {
      report.detail = "(r0, r) vanished";
      return finish(Reason::breakdown, norm);
    }
    everywhere([&](std::size_t k) {
      sweep(reads(constant(r, k), constant(v, k)), updates(whole(p, k)), writes(),
            formula::BicgstabDirection<T>{beta, omega});
    });
    A.multiply(p, v);
    const T r0v = dots(r0, v)[0];
    if (!(std::abs(r0v) > 0)) {
      report.detail = "(r0, A p) vanished";
      return finish(Reason::breakdown, norm);
    }
    alpha = rho / r0v;
    everywhere([&](std::size_t k) {
      sweep(reads(constant(v, k)), updates(whole(r, k)), writes(), layout::formula::Axpy<T>{-alpha});
    });
    A.multiply(r, t);
    const auto [ts, tt] = dots(t, r);
    omega = tt > 0 ? ts / tt : T(0);
    everywhere([&](std::size_t k) {
      const auto [from, length] = part(int(k));
      sweep(reads(std::as_const(p[k]).part(from, length), std::as_const(r[k]).part(from, length)),
            updates(d[k].part(from, length)), writes(), formula::TwoSteps<T>{alpha, omega});
      sweep(reads(constant(t, k)), updates(whole(r, k)), writes(), layout::formula::Axpy<T>{-omega});
    });
    ++report.iterations;
    const T old = rho;
    const auto both = dots(r, r0);
    rho = both[0], rr = both[1];
    if (omega == T(0) && !(std::sqrt(double(rr)) <= options.rtol * report.b_norm)) {
      report.detail = "omega vanished";
      return finish(Reason::breakdown, std::sqrt(double(rr)) / report.b_norm);
    }
    if (omega != T(0)) beta = (rho / old) * (alpha / omega);
  }
}

}  // namespace

template <Scalar T, Memory M>
Report bicgstab_on_devices(const op::HMatrixOnDevices<T, M>& A, std::span<const T> b, std::span<T> x,
                           const DeviceSolveOptions& options) {
  return comm::collective(A.matrix().range().comm(), [&] {
    const std::size_t n = std::size_t(A.size());
    require(b.size() == n && x.size() == n, "a system of ", n, " unknowns with ", b.size(), " right-hand sides and ",
            x.size(), " elements of x");
    require(options.rtol > 0 && options.max_iterations >= 0, "a solve to ", options.rtol, " in ",
            options.max_iterations, " iterations");
    // Squares of numbers far from 1 leave the range: a power of two brings them back.
    constexpr int far = std::numeric_limits<T>::max_exponent * 3 / 8;
    T most = 0;
    for (const T v : b) most = std::max(most, std::abs(v));  // passes over what is no number
    const int exponent = most > 0 && std::isfinite(most) ? std::ilogb(most) : 0;
    if (std::abs(exponent) <= far) return iterate_on_devices<T, M>(A, b, x, options);
    std::vector<T> near(b.begin(), b.end());
    for (T& v : near) v = std::ldexp(v, -exponent);
    Report report = iterate_on_devices<T, M>(A, near, x, options);
    if (std::isfinite(report.b_norm)) {
      for (T& v : x) v = std::ldexp(v, exponent);
      report.b_norm = std::ldexp(report.b_norm, exponent);
    }
    return report;
  });
}

}  // namespace tacit::krylov
