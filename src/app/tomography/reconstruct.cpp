#include <tacit/app/tomography/reconstruct.hpp>

#include <tacit/base/trace.hpp>
#include <tacit/exec/tasks.hpp>
#include <tacit/krylov/outer.hpp>

#include <algorithm>
#include <cmath>

namespace tacit::app::tomography {
namespace {

using layout::Vector;
using Numbers = std::vector<double>;

constexpr std::size_t chunk = 2048;  // rows whose sums are formed together

// Calls f(piece, first, last) for pieces of the rows.
template <class F>
void rows_of(std::size_t rows, int k, F&& f) {
  const std::size_t pieces = (rows + chunk - 1) / chunk;
  exec::each(pieces, rows * std::size_t(k) > 16384,
             [&](std::size_t p) { f(p, p * chunk, std::min(rows, (p + 1) * chunk)); });
}

// This rank's sums of f(element, c) for each column c, with f called once for each element; it may change vectors.
template <class T, class F>
Numbers column_sums(const Vector<T>& like, F&& f) {
  const int k = like.columns();
  const std::size_t rows = std::size_t(like.space().local_size());
  Numbers partial((rows + chunk - 1) / chunk * std::size_t(k), 0.0), sums(std::size_t(k), 0.0);
  rows_of(rows, k, [&](std::size_t p, std::size_t first, std::size_t last) {
    double* const sum = partial.data() + p * std::size_t(k);
    if (k == 1) {
      double s = 0;
#pragma omp simd reduction(+ : s)
      for (std::size_t i = first; i < last; ++i) s += f(i, 0);
      sum[0] = s;
    } else {
      for (std::size_t i = first; i < last; ++i)
#pragma omp simd
        for (int c = 0; c < k; ++c) sum[c] += f(i * std::size_t(k) + std::size_t(c), c);
    }
  });
  for (std::size_t i = 0; i < partial.size(); ++i) sums[i % std::size_t(k)] += partial[i];
  return sums;
}

// Calls f(element, column) for each element of a vector of this shape.
template <class T, class F>
void each_element(Vector<T>& like, F&& f) {
  const int k = like.columns();
  rows_of(std::size_t(like.space().local_size()), k, [&](std::size_t, std::size_t first, std::size_t last) {
    if (k == 1) {
#pragma omp simd
      for (std::size_t i = first; i < last; ++i) f(i, 0);
    } else {
      for (std::size_t i = first; i < last; ++i)
#pragma omp simd
        for (int c = 0; c < k; ++c) f(i * std::size_t(k) + std::size_t(c), c);
    }
  });
}

// Adds sums over ranks. One reduction.
void add_up(const layout::Space& space, Numbers& sums) {
  space.start_sum(sums.data(), sums.size()).wait(sums.data());
}

template <class T>
Numbers squares(const Vector<T>& v) {
  const T* const p = v.data();
  auto sums = column_sums(v, [p](std::size_t i, int) { return double(p[i]) * double(p[i]); });
  add_up(v.space(), sums);
  return sums;
}

// Which slices are still iterated, and the results.
struct Slices {
  std::size_t k;
  std::vector<char> on;
  ReconstructResult result;
  explicit Slices(int columns) : k(std::size_t(columns)), on(k, 1) {
    result.iterations.assign(k, 0);
    result.end.assign(k, End::iterations);
  }
  void stop(std::size_t c, End why) {
    on[c] = 0;
    result.end[c] = why;
  }
  bool any() const { return std::find(on.begin(), on.end(), 1) != on.end(); }
};

// The corner of the L-curve (log residual, log size): the point of largest curvature, accepted three iterations later.
class Corner {
 public:
  /// Adds a point; true when the curvature (at the last point but one) is the largest so far.
  bool look(double residual, double size) {
    points_.push_back({std::log(std::max(residual, 1e-300)), std::log(std::max(size, 1e-300))});
    const std::size_t n = points_.size();
    if (n < 3) return n == 1;
    const auto &a = points_[n - 3], &b = points_[n - 2], &c = points_[n - 1];
    const double ux = b.first - a.first, uy = b.second - a.second, vx = c.first - b.first, vy = c.second - b.second;
    const double lengths = std::hypot(ux, uy) * std::hypot(vx, vy) * std::hypot(ux + vx, uy + vy);
    const double curvature = lengths > 0 ? 2 * (uy * vx - ux * vy) / lengths : 0;  // of the last point but one
    since_ = curvature > most_ ? 0 : since_ + 1;
    most_ = std::max(most_, curvature);
    return since_ == 0;
  }
  bool passed() const { return points_.size() > 5 && since_ >= 3; }

 private:
  std::vector<std::pair<double, double>> points_;
  double most_ = -1e300;
  int since_ = 0;
};

template <class T>
class Run {
 public:
  /// `units`: the factors by which the norms of each slice were scaled down.
  Run(const op::Operator<T, Host>& a, const Vector<T>& b, Vector<T>& x, const ReconstructOptions& options,
      Numbers units)
      : A(a),
        b_(b),
        x_(x),
        o(options),
        units_(std::move(units)),
        slices(b.columns()),
        r(b.space(), b.columns()),
        q(b.space(), b.columns()),
        s(x.space(), x.columns()),
        begin_(wall_time()) {}

  ReconstructResult run() {
    // r = b - A x
    const bool zero = layout::max_norm(x_) == 0;
    if (!zero) A.apply(x_, r);
    {
      T* const rp = r.data();
      const T* const bp = b_.data();
      each_element(r, [=](std::size_t i, int) { rp[i] = zero ? bp[i] : bp[i] - rp[i]; });
    }
    if (o.l_curve) corner_.resize(slices.k), best_ = std::make_unique<Vector<T>>(x_.space(), x_.columns());
    Numbers last;
    for (int done = 0;;) {
      done = o.method == Method::cgls ? cgls(done) : sirt(done);
      last = recompute();
      if (!resume(last)) break;
    }
    slices.result.final_residual = std::move(last);
    slices.result.seconds = wall_time() - begin_;
    return std::move(slices.result);
  }

 private:
  /// |b - A x| of each slice for the x that is returned; r := b - A x.
  Numbers recompute() {
    if (o.l_curve) {
      T* const xp = x_.data();
      const T* const bp = best_->data();
      const auto& ends = slices.result.end;
      each_element(x_,
                   [=, &ends](std::size_t i, int c) { xp[i] = ends[std::size_t(c)] == End::corner ? bp[i] : xp[i]; });
    }
    A.apply(x_, q);
    const T *const qp = q.data(), *const bp = b_.data();
    T* const rp = r.data();
    auto last = column_sums(q, [=](std::size_t i, int) {
      const double d = double(bp[i]) - double(qp[i]);
      rp[i] = T(d);
      return d * d;
    });
    add_up(q.space(), last);
    for (std::size_t c = 0; c < slices.k; ++c) last[c] = std::sqrt(last[c]) * units_[c];
    return last;
  }
  /// Continues slices that ended by the discrepancy of the recurrence residual where the recomputed one is larger.
  /// False where there are none.
  bool resume(const Numbers& residual) {
    bool again = false;
    for (std::size_t c = 0; c < slices.k; ++c) {
      if (slices.result.end[c] != End::discrepancy || krylov::reached(residual[c], o.discrepancy)) continue;
      slices.result.end[c] = End::iterations;
      if (slices.result.iterations[c] < o.iterations) slices.on[c] = again = true;
    }
    return again;
  }
  void record(const Numbers& residual2, const Numbers& gradient2) {
    Numbers residual(slices.k), gradient(slices.k);
    for (std::size_t c = 0; c < slices.k; ++c)
      residual[c] = std::sqrt(residual2[c]) * units_[c], gradient[c] = std::sqrt(gradient2[c]) * units_[c];
    slices.result.residual.push_back(std::move(residual));
    slices.result.gradient.push_back(std::move(gradient));
  }
  /// Applies the stopping criteria to each slice after iteration `now`. False when all slices have ended.
  bool judge(int now) {
    const Numbers &residual = slices.result.residual.back(), &gradient = slices.result.gradient.back();
    const Numbers& first = slices.result.gradient.front();
    Numbers size;
    if (o.l_curve && now > 0) size = squares(x_);
    std::vector<char> keep(slices.k, 0);
    for (std::size_t c = 0; c < slices.k; ++c) {
      if (!slices.on[c]) continue;
      if (now > 0) slices.result.iterations[c] = now;
      if (!std::isfinite(residual[c]) || !std::isfinite(gradient[c])) slices.stop(c, End::non_finite);
      else if (o.discrepancy > 0 && krylov::reached(residual[c], o.discrepancy)) slices.stop(c, End::discrepancy);
      else if (gradient[c] <= o.tolerance * first[c] || gradient[c] == 0) slices.stop(c, End::gradient);
      else if (o.l_curve && now > 0) {
        keep[c] = corner_[c].look(residual[c], std::sqrt(size[c]));
        if (corner_[c].passed()) slices.stop(c, End::corner);
      }
    }
    if (o.l_curve && now > 0) {
      T* const to = best_->data();
      const T* const from = x_.data();
      const char* const kept = keep.data();
      each_element(*best_, [=](std::size_t i, int c) { to[i] = kept[c] ? from[i] : to[i]; });
    }
    if (o.callback && slices.any()) {
      State state{now, &residual, wall_time() - begin_};
      const bool wish = o.callback(state);
      // All ranks end where one callback asks for it.
      Global stop = wish;
      b_.space().comm().start_sum(&stop, 1, comm::Operation::max).wait(&stop);
      if (stop)
        for (std::size_t c = 0; c < slices.k; ++c)
          if (slices.on[c]) slices.stop(c, End::callback);
    }
    return slices.any();
  }

  // s = A^T r, p = s, g = (s, s); a = g / (q, q) with q = A p; x += a p, r -= a q; s = A^T r; p = s + (g' / g) p
  // Starts from r = b - A x after iteration `done`; returns the number of the last iteration.
  int cgls(int done) {
    A.apply_adjoint(r, s);
    Vector<T> p(x_.space(), x_.columns());
    layout::copy(s, p);
    Numbers g = squares(s);
    if (done == 0) {
      record(squares(r), g);
      if (!judge(0)) return 0;
    }
    // The first gradients, their squares, and for each slice whether later gradients are still made orthogonal to each.
    const auto k = slices.k;
    std::vector<std::unique_ptr<Vector<T>>> kept;
    std::vector<const T*> of_kept;
    Numbers squares_of_kept;
    std::vector<char> held;
    const auto keep = [&] {
      if (kept.size() == std::size_t(o.reorthogonalise)) return;
      kept.push_back(std::make_unique<Vector<T>>(s)), of_kept.push_back(kept.back()->data());
      squares_of_kept.insert(squares_of_kept.end(), g.begin(), g.end());
      for (std::size_t c = 0; c < k; ++c) held.push_back(g[c] > 0 && std::isfinite(g[c]));
    };
    keep();
    T *const xp = x_.data(), *const rp = r.data(), *const qp = q.data(), *const pp = p.data(), *const sp = s.data();
    std::vector<T> alpha(k), beta(k), share;
    for (int now = done + 1; now <= o.iterations; ++now) {
      A.apply(p, q);
      const Numbers qq = squares(q);
      for (std::size_t c = 0; c < slices.k; ++c)
        alpha[c] = slices.on[c] && qq[c] > 0 && std::isfinite(g[c] / qq[c]) ? T(g[c] / qq[c]) : T(0);
      const T* const a = alpha.data();
      // The x of a slice that has ended does not change, also where its direction is NaN.
      each_element(x_, [=](std::size_t i, int c) { xp[i] = a[c] != T(0) ? xp[i] + a[c] * pp[i] : xp[i]; });
      auto rr = column_sums(r, [=](std::size_t i, int c) {
        const T v = rp[i] - a[c] * qp[i];
        rp[i] = v;
        return double(v) * double(v);
      });
      auto residual = r.space().start_sum(rr.data(), rr.size());  // hidden behind the product
      A.apply_adjoint(r, s);
      residual.wait(rr.data());
      Numbers next = column_sums(s, [sp](std::size_t i, int) { return double(sp[i]) * double(sp[i]); });
      const std::size_t count = kept.size();
      for (const T* const v : of_kept) {
        const auto along = column_sums(s, [sp, v](std::size_t i, int) { return double(sp[i]) * double(v[i]); });
        next.insert(next.end(), along.begin(), along.end());
      }
      add_up(s.space(), next);
      const Numbers along(next.begin() + std::ptrdiff_t(k), next.end());
      next.resize(k);
      record(rr, next);
      if (!judge(now)) return now;
      share.assign(count * k, T(0));
      for (std::size_t f = 0; f < count * k; ++f) {
        const double part = along[f] * along[f] / squares_of_kept[f];  // of the square
        held[f] = held[f] && part < 0.25 * next[f % k];
        if (held[f]) share[f] = T(along[f] / squares_of_kept[f]);
      }
      for (std::size_t c = 0; c < k; ++c) {
        double parts = 0;
        for (std::size_t f = c; f < count * k; f += k)
          if (held[f]) parts += along[f] * along[f] / squares_of_kept[f];
        if (parts < 0.5 * next[c]) {
          next[c] -= parts;
          continue;
        }
        // The components along the first gradients dominate: only rounding errors are left, orthogonalisation ends.
        for (std::size_t f = c; f < count * k; f += k) held[f] = 0, share[f] = T(0);
      }
      if (count > 0) {
        const T* const* const vs = of_kept.data();
        const T* const shares = share.data();
        each_element(s, [=](std::size_t i, int c) {
          T v = sp[i];
          for (std::size_t f = 0; f < count; ++f) v -= shares[f * k + std::size_t(c)] * vs[f][i];
          sp[i] = v;
        });
      }
      for (std::size_t c = 0; c < k; ++c) beta[c] = slices.on[c] && g[c] > 0 ? T(next[c] / g[c]) : T(0);
      g = next;
      keep();
      const T* const bt = beta.data();
      each_element(p, [=](std::size_t i, int c) { pp[i] = sp[i] + bt[c] * pp[i]; });
    }
    return o.iterations;
  }

  int sirt(int done) {
    // R and C: inverse sums of rows and columns; 0 for those whose sum is not positive.
    Vector<T> rows(b_.space()), columns(x_.space()), ones_x(x_.space()), ones_b(b_.space());
    layout::fill(ones_x, T(1));
    layout::fill(ones_b, T(1));
    A.apply(ones_x, rows);
    A.apply_adjoint(ones_b, columns);
    for (auto* v : {&rows, &columns}) {
      T* const p = v->data();
      each_element(*v, [=](std::size_t i, int) { p[i] = p[i] > T(0) ? T(1) / p[i] : T(0); });
    }
    const std::size_t k = slices.k;
    T *const xp = x_.data(), *const rp = r.data(), *const qp = q.data(), *const sp = s.data();
    const T *const R = rows.data(), *const C = columns.data(), *const bp = b_.data();
    const auto weigh = [&] { each_element(q, [=](std::size_t i, int) { qp[i] = R[i / k] * rp[i]; }); };
    weigh();
    A.apply_adjoint(q, s);
    if (done == 0) {
      record(squares(r), squares(s));
      if (!judge(0)) return 0;
    }
    std::vector<T> step(k);
    for (int now = done + 1; now <= o.iterations; ++now) {
      for (std::size_t c = 0; c < k; ++c) step[c] = slices.on[c] ? T(o.relaxation) : T(0);
      const T* const w = step.data();
      const bool positive = o.nonnegative;
      each_element(x_, [=](std::size_t i, int c) {
        const T v = w[c] != T(0) ? xp[i] + w[c] * C[i / k] * sp[i] : xp[i];
        xp[i] = positive && w[c] != T(0) && v < T(0) ? T(0) : v;
      });
      A.apply(x_, r);
      auto rr = column_sums(r, [=](std::size_t i, int) {
        const T v = bp[i] - rp[i];
        rp[i] = v;
        return double(v) * double(v);
      });
      auto residual = r.space().start_sum(rr.data(), rr.size());
      weigh();
      A.apply_adjoint(q, s);
      residual.wait(rr.data());
      record(rr, squares(s));
      if (!judge(now)) return now;
    }
    return o.iterations;
  }

  const op::Operator<T, Host>& A;
  const Vector<T>& b_;
  Vector<T>& x_;
  const ReconstructOptions& o;
  Numbers units_;
  Slices slices;
  Vector<T> r, q, s;
  std::unique_ptr<Vector<T>> best_;
  std::vector<Corner> corner_;
  double begin_;
};

// The largest magnitude of each slice; NaN where an element is NaN. One reduction.
template <class T>
Numbers largest(const Vector<T>& v) {
  const auto k = std::size_t(v.columns());
  Numbers most(k, 0.0);
  for (std::size_t i = 0; i < v.size(); ++i) {
    const double a = std::abs(double(v.data()[i]));
    double& m = most[i % k];
    m = a <= m || m != m ? m : a;
  }
  v.space().start_sum(most.data(), k, comm::Operation::max).wait(most.data());
  return most;
}

template <class T>
void times_powers(Vector<T>& v, const std::vector<int>& exponent) {
  const std::size_t k = exponent.size();
  for (std::size_t i = 0; i < v.size(); ++i) v.data()[i] = T(std::ldexp(double(v.data()[i]), exponent[i % k]));
}

}  // namespace

std::span<const Described> methods() {
  static constexpr Described all[] = {
      {"cgls", "reorthogonalise", "min |b - A x| by conjugate gradients",
       "Hestenes, Stiefel (1952), doi 10.6028/jres.049.044"},
      {"sirt", "relaxation nonnegative", "x := x + w C A^T R (b - A x), R and C the inverse sums of rows and columns",
       "Gilbert (1972), doi 10.1016/0022-5193(72)90180-4"}};
  return all;
}

std::span<const Option<ReconstructOptions>> reconstruct_options() {
  using O = ReconstructOptions;
  static const std::vector<Option<O>> all{
      option<O>("iterations", &O::iterations, at_least(0, "iterations"), "at most"),
      option<O>("discrepancy", &O::discrepancy, not_negative(),
                "ends a slice at |b - A x| <= discrepancy: the norm of its noise; 0: not"),
      option<O>("tolerance", &O::tolerance, not_negative(),
                "ends a slice at |A^T (b - A x)| <= tolerance |A^T b|; 0: not"),
      option<O>("l_curve", &O::l_curve,
                "ends a slice when the corner of its L-curve has been passed, with the image at the corner"),
      option<O>("relaxation", &O::relaxation,
                Range{.least = 0, .most = 2, .open_below = true, .open_above = true, .needed = "a number in (0, 2)"},
                "w"),
      option<O>("nonnegative", &O::nonnegative, "no pixel below 0"),
      option<O>("reorthogonalise", &O::reorthogonalise, at_least(0, "gradients"),
                "every gradient is kept orthogonal to the first so many, each of which takes an image's memory; with "
                "none rounding costs an iteration or two in float32, more with 16-bit values or vectors"),
  };
  return all;
}

void check(const ReconstructOptions& o) {
  check_values(reconstruct_options(), o);
  check_taken(reconstruct_options(), o, methods(), to_string(o.method));
}

template <class T>
ReconstructResult reconstruct(const op::Operator<T, Host>& A, const Vector<T>& b, Vector<T>& x,
                              const ReconstructOptions& options) {
  const auto& comm = A.range().comm();
  return comm::collective(comm, [&] {
    require(b.space() == A.range() && x.space() == A.domain(), "a sinogram of ", b.space().size(),
            " rays and an image of ", x.space().size(), " pixels for a projector of ", A.range().size(), " x ",
            A.domain().size());
    require(b.columns() == x.columns(), b.columns(), " sinograms for ", x.columns(), " images");
    check(options);
    require(A.fault().empty(), A.fault());
    // Squares of numbers far from 1 would overflow or underflow: such slices are scaled by a power of two.
    constexpr int far = sizeof(T) == 4 ? 60 : 300;
    Numbers most = largest(b), units(most.size(), 1.0);
    const Numbers starts = largest(x);
    std::vector<int> up(most.size(), 0), down(most.size(), 0);
    bool scaled = false;
    for (std::size_t c = 0; c < most.size(); ++c) {
      if (most[c] == 0) most[c] = starts[c];
      const int exponent = most[c] > 0 && std::isfinite(most[c]) ? std::ilogb(most[c]) : 0;
      if (std::abs(exponent) <= far) continue;
      scaled = true, up[c] = -exponent, down[c] = exponent, units[c] = std::ldexp(1.0, exponent);
    }
    if (!scaled) return Run<T>(A, b, x, options, std::move(units)).run();
    Vector<T> near_b(b), near_x(x);
    times_powers(near_b, up), times_powers(near_x, up);
    auto result = Run<T>(A, near_b, near_x, options, std::move(units)).run();
    times_powers(near_x, down);
    layout::copy(near_x, x);
    return result;
  });
}

template ReconstructResult reconstruct(const op::Operator<float, Host>&, const Vector<float>&, Vector<float>&,
                                       const ReconstructOptions&);
template ReconstructResult reconstruct(const op::Operator<double, Host>&, const Vector<double>&, Vector<double>&,
                                       const ReconstructOptions&);

}  // namespace tacit::app::tomography
