// BiCGStab for a system that is small enough for a single launch: all teams stay and synchronise three times an
// iteration. A kernel for each operation would need eleven launches and four waits. An s-step block of this size would
// synchronise 2 s + 2 times for s iterations (2 s products, one Gram block, one update) with twice as many products: no
// gain.
//
// van der Vorst (1992), doi 10.1137/0913035. Each thread recomputes the directions and half residuals of its
// neighbours, so that only products and sums need synchronisation.
#pragma once

#include <tacit/base/types.hpp>
#include <tacit/exec/gang.hpp>

#include <cstddef>
#include <cstdint>

namespace tacit::precond::mg {

/// Totals over resident solves, in the device's memory; each solve adds to them.
struct ResidentCounts {
  std::int64_t solves = 0, iterations = 0, failures = 0, meetings = 0;
};

/// A largest magnitude and two sums. The largest magnitude is NaN where any value is.
struct ResidentSums {
  double largest = 0, a = 0, b = 0;
  TACIT_HD void take(double v) {
    const double size = v < 0 ? -v : v;
    if (largest == largest && !(size <= largest)) largest = size;
  }
  TACIT_HD ResidentSums& operator+=(const ResidentSums& o) {
    take(o.largest), a += o.a, b += o.b;
    return *this;
  }
};

/// Solves A x = f from x = 0, or from x = u, until the largest magnitude of f - A x, recomputed, is at most 1.1
/// reduction times the initial one. After a convergence that the recomputed residual does not confirm, or a breakdown,
/// BiCGStab starts again from the present x (four runs at most); then `sweeps` Jacobi iterations with weight 6/7
/// follow. singular: the means of f and x are subtracted. Then u[place[i]] = x[i]. Rows have a diagonal and `width`
/// other entries: entry e of row i stands at e n + i; where there is none, value 0 in column i.
template <class T, int Threads>
struct ResidentBicgstab {
  static constexpr int threads = Threads;
  struct Shared {};
  std::int32_t n, width;
  const std::int32_t* column;
  const T *value, *diagonal;
  const std::int64_t* place;  // of cell i in f and u
  const T* f;
  T* u;
  T *x, *r, *r0, *t;  // n each
  T* p[2];
  T* v[2];
  ResidentSums* partial;  // 2 for each team
  ResidentCounts* counts;
  double reduction;
  std::int32_t max_iterations, sweeps;
  bool singular, from_zero;

  template <exec::Gang G>
  TACIT_HD void operator()(const G& gang, Shared&) const {
    exec::GangSum<ResidentSums> add(partial);
    const auto each = [&](auto&& of_cell) {
      exec::for_items<Threads>(gang, [&](int thread) {
        for (std::int64_t i = gang.block() * Threads + thread; i < n; i += gang.teams() * Threads) of_cell(i);
      });
    };
    // D z(i) + sum of entries times z at their columns.
    const auto product = [&](std::int64_t i, auto&& z) {
      T sum = diagonal[i] * z(i);
      for (std::int32_t e = 0; e < width; ++e) {
        const std::int64_t at = std::int64_t(e) * n + i;
        sum += value[at] * z(column[at]);
      }
      return sum;
    };

    int extra = 0;
    const T mean = mean_of(gang, add, each, [&](std::int64_t i) { return f[place[i]]; });
    // r0 := r := f - A x, p := v := 0; their sums.
    const auto begin = [&] {
      ResidentSums part;
      each([&](std::int64_t i) {
        const T rest = (f[place[i]] - mean) - product(i, [&](std::int64_t j) { return x[j]; });
        r[i] = r0[i] = rest;
        p[0][i] = v[0][i] = T(0);
        part.take(double(rest)), part.a += double(rest) * double(rest);
      });
      return add(gang, part);
    };
    const auto set_out = [&] {
      each([&](std::int64_t i) { x[i] = from_zero ? T(0) : u[place[i]]; });
      gang.meet(), ++extra;
    };
    set_out();
    ResidentSums now = begin();
    const double goal = reduction * now.largest, start = now.largest;
    bool solved = now.largest <= goal;
    int iterations = 0;
    for (int attempt = 0; attempt < 4 && !solved && iterations < max_iterations; ++attempt) {
      iterations += run(gang, add, each, product, now.a, goal, max_iterations - iterations);
      gang.meet(), ++extra;
      now = begin();
      solved = now.largest <= 1.1 * goal;
      if (!(now.largest <= 1e3 * start)) break;
    }
    const T* from = x;
    if (!solved) {
      // An x that has become worse is discarded.
      if (!(now.largest <= start)) set_out();
      from = relax(gang, each, product, mean);
      extra += sweeps;
    }
    const T centre = mean_of(gang, add, each, [&](std::int64_t i) { return from[i]; });
    each([&](std::int64_t i) { u[place[i]] = from[i] - centre; });
    if (gang.block() == 0 && gang.rank() == 0) {
      counts->solves += 1, counts->iterations += iterations, counts->failures += solved ? 0 : 1;
      counts->meetings += add.meetings() + extra;
    }
  }

 private:
  /// The mean of z; 0 where the matrix is not singular.
  template <class G, class Each, class Z>
  TACIT_HD T mean_of(const G& gang, exec::GangSum<ResidentSums>& add, const Each& each, const Z& z) const {
    if (!singular) return T(0);
    ResidentSums part;
    each([&](std::int64_t i) { part.a += double(z(i)); });
    return T(add(gang, part).a / n);
  }

  /// Jacobi iterations from x, in x and t; where the last one is.
  template <class G, class Each, class Times>
  TACIT_HD const T* relax(const G& gang, const Each& each, const Times& product, T mean) const {
    T *old = x, *next = t;
    for (int s = 0; s < sweeps; ++s) {
      gang.meet();
      each([&](std::int64_t i) {
        const T rest = (f[place[i]] - mean) - product(i, [&](std::int64_t j) { return old[j]; });
        next[i] = old[i] + (diagonal[i] != T(0) ? T(6.0 / 7) * rest / diagonal[i] : T(0));
      });
      T* const done = next;
      next = old, old = done;
    }
    return old;
  }

  /// Iterations from r = r0, (r, r) = rho, until the recurrence is at the goal, a breakdown or `most` of them; returns
  /// their number.
  template <class G, class Each, class Times>
  TACIT_HD int run(const G& gang, exec::GangSum<ResidentSums>& add, const Each& each, const Times& product, double rho,
                   double goal, int most) const {
    int done = 0;
    T beta = 0, omega = 0;
    for (int turn = 0; done < most; turn = 1 - turn) {
      const T *const p_old = p[turn], *const v_old = v[turn];
      T *const p_new = p[1 - turn], *const v_new = v[1 - turn];
      // p := r + beta (p - omega v), v := A p
      ResidentSums part;
      each([&](std::int64_t i) {
        const auto direction = [&](std::int64_t j) { return r[j] + beta * (p_old[j] - omega * v_old[j]); };
        p_new[i] = direction(i);
        const T w = product(i, direction);
        v_new[i] = w;
        part.a += double(r0[i]) * double(w);
      });
      const double r0v = add(gang, part).a;
      if (!(r0v != 0) || !(r0v - r0v == 0)) break;
      const T alpha = T(rho / r0v);
      // s := r - alpha v, t := A s
      part = {};
      each([&](std::int64_t i) {
        const auto half = [&](std::int64_t j) { return r[j] - alpha * v_new[j]; };
        const T s = half(i), w = product(i, half);
        t[i] = w;
        part.take(double(s)), part.a += double(w) * double(s), part.b += double(w) * double(w);
      });
      const ResidentSums middle = add(gang, part);
      const bool half_is_enough = middle.largest <= goal;
      if (!half_is_enough && !(middle.b > 0)) break;
      omega = half_is_enough ? T(0) : T(middle.a / middle.b);
      // x += alpha p + omega s, r := s - omega t
      part = {};
      each([&](std::int64_t i) {
        const T s = r[i] - alpha * v_new[i], rest = half_is_enough ? s : s - omega * t[i];
        x[i] += alpha * p_new[i] + omega * s;
        r[i] = rest;
        part.take(double(rest)), part.a += double(r0[i]) * double(rest);
      });
      const ResidentSums last = add(gang, part);
      ++done;
      if (!(last.largest > goal) || !(omega != T(0)) || !(last.a != 0) || !(last.a - last.a == 0)) break;
      beta = T((last.a / rho) * (double(alpha) / double(omega)));
      rho = last.a;
    }
    return done;
  }
};

}  // namespace tacit::precond::mg
