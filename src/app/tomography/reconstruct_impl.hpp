// CGLS and SIRT over either memory: instantiated for the host by reconstruct.cpp, for CUDA's device by reconstruct.cu.
#pragma once

#include <tacit/app/tomography/reconstruct.hpp>

#include <tacit/base/trace.hpp>
#include <tacit/krylov/outer.hpp>
#include <tacit/op/adjustable.hpp>

#include "columns.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

namespace tacit::app::tomography {
namespace {

using layout::Vector;
using Norms = std::vector<double>;  // of columns

// Adds sums over ranks. One reduction.
inline void add_up(const layout::Space& space, Norms& sums) {
  space.start_sum(sums.data(), sums.size()).wait(sums.data());
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

// What passes do to element i, of column c.
template <class T>
struct Square {
  const T* v;
  TACIT_HD double operator()(std::size_t i, int) const { return double(v[i]) * double(v[i]); }
};
template <class T>
struct Magnitude {
  const T* v;
  TACIT_HD double operator()(std::size_t i, int) const { return double(v[i] < T(0) ? -v[i] : v[i]); }
};
template <class T>
struct Product {
  const T *v, *w;
  TACIT_HD double operator()(std::size_t i, int) const { return double(v[i]) * double(w[i]); }
};
template <class T>
struct TimesPower {  // v := v 2^exponent
  T* v;
  const int* exponent;
  TACIT_HD void operator()(std::size_t i, int c) const { v[i] = T(std::ldexp(double(v[i]), exponent[c])); }
};
template <class T>
struct Select {  // to := from where it is wanted
  const T* from;
  T* to;
  const char* wanted;
  TACIT_HD void operator()(std::size_t i, int c) const { to[i] = wanted[c] ? from[i] : to[i]; }
};
template <class T>
struct FirstResidual {  // r := b - r, or b
  const T* b;
  T* r;
  bool zero;
  TACIT_HD void operator()(std::size_t i, int) const { r[i] = zero ? b[i] : b[i] - r[i]; }
};
template <class T>
struct TrueResidual {  // r := b - q; |r|^2
  const T *b, *q;
  T* r;
  TACIT_HD double operator()(std::size_t i, int) const {
    const double d = double(b[i]) - double(q[i]);
    r[i] = T(d);
    return d * d;
  }
};
// The x of a slice that has ended does not change, also where its direction is NaN.
template <class T>
struct Step {  // x := x + alpha p
  const T* p;
  T* x;
  const T* alpha;
  TACIT_HD void operator()(std::size_t i, int c) const { x[i] = alpha[c] != T(0) ? x[i] + alpha[c] * p[i] : x[i]; }
};
template <class T>
struct Residual {  // r := r - alpha q; |r|^2
  const T* q;
  T* r;
  const T* alpha;
  TACIT_HD double operator()(std::size_t i, int c) const {
    const T v = r[i] - alpha[c] * q[i];
    r[i] = v;
    return double(v) * double(v);
  }
};
template <class T>
struct NextResidual {  // r := b - r; |r|^2
  const T* b;
  T* r;
  TACIT_HD double operator()(std::size_t i, int) const {
    const T v = b[i] - r[i];
    r[i] = v;
    return double(v) * double(v);
  }
};
template <class T>
struct Direction {  // p := s + beta p
  const T* s;
  T* p;
  const T* beta;
  TACIT_HD void operator()(std::size_t i, int c) const { p[i] = s[i] + beta[c] * p[i]; }
};
template <class T>
struct LeaveOut {  // s := s - sum of share_f v_f
  static constexpr std::size_t most = 8;
  const T* v[most];
  T* s;
  const T* share;
  std::size_t count, columns;
  TACIT_HD void operator()(std::size_t i, int c) const {
    T left = s[i];
    for (std::size_t f = 0; f < count; ++f) left -= share[f * columns + std::size_t(c)] * v[f][i];
    s[i] = left;
  }
};
template <class T>
struct Inverse {  // 0 where it is not positive
  T* v;
  TACIT_HD void operator()(std::size_t i, int) const { v[i] = v[i] > T(0) ? T(1) / v[i] : T(0); }
};
template <class T>
struct Weigh {  // q := R r
  const T *weight, *r;
  T* q;
  std::size_t columns;
  TACIT_HD void operator()(std::size_t i, int) const { q[i] = weight[i / columns] * r[i]; }
};
template <class T>
struct Relax {  // x := x + w C s, not negative if wanted
  const T *weight, *s;
  T* x;
  const T* step;
  std::size_t columns;
  bool positive;
  TACIT_HD void operator()(std::size_t i, int c) const {
    const T v = step[c] != T(0) ? x[i] + step[c] * weight[i / columns] * s[i] : x[i];
    x[i] = positive && step[c] != T(0) && v < T(0) ? T(0) : v;
  }
};

template <class T, Memory M>
class Run {
 public:
  /// `units`: the factors by which the norms of each slice were scaled down.
  Run(const op::Operator<T, M>& a, const Vector<T, M>& b, Vector<T, M>& x, const ReconstructOptions& options,
      Norms units)
      : A(a),
        adjustable_(dynamic_cast<const op::Adjustable<T, M>*>(&a)),
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
    if (!zero) accurate(0).apply(x_, r);
    passes_.each(r, FirstResidual<T>{b_.data(), r.data(), zero});
    if (o.l_curve) corner_.resize(slices.k), best_ = std::make_unique<Vector<T, M>>(x_.space(), x_.columns());
    Norms last;
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
  /// A with vectors and messages that are rounded to 16 bits by at most `relative`.
  const op::Operator<T, M>& accurate(double relative) const {
    return adjustable_ ? adjustable_->accurate_to(relative) : A;
  }
  /// A for the next product of cgls. Rounding errors of the first iterations bring directions that b has nothing of,
  /// which later ones enlarge: 16 bits are accurate enough once the gradient is so small that their errors are below
  /// 2^-18 of the first one (reference: bench/papers/003/acceptance.py, where 2^-17 is enough for float16).
  const op::Operator<T, M>& accurate() const { return accurate(0x1p-18 / decrease_); }
  /// |b - A x| of each slice for the x that is returned; r := b - A x.
  Norms recompute() {
    if (o.l_curve) {
      std::vector<char> ended(slices.k);
      for (std::size_t c = 0; c < slices.k; ++c) ended[c] = slices.result.end[c] == End::corner;
      passes_.each(x_, Select<T>{best_->data(), x_.data(), kept_.put(ended)});
    }
    accurate(0).apply(x_, q);
    auto last = passes_.sums(q, TrueResidual<T>{b_.data(), q.data(), r.data()});
    add_up(q.space(), last);
    for (std::size_t c = 0; c < slices.k; ++c) last[c] = std::sqrt(last[c]) * units_[c];
    return last;
  }
  /// Continues slices that ended by the discrepancy of the recurrence residual where the recomputed one is larger.
  /// False where there are none.
  bool resume(const Norms& residual) {
    bool again = false;
    for (std::size_t c = 0; c < slices.k; ++c) {
      if (slices.result.end[c] != End::discrepancy || krylov::reached(residual[c], o.discrepancy)) continue;
      slices.result.end[c] = End::iterations;
      if (slices.result.iterations[c] < o.iterations) slices.on[c] = again = true;
    }
    return again;
  }
  void record(const Norms& residual2, const Norms& gradient2) {
    Norms residual(slices.k), gradient(slices.k);
    for (std::size_t c = 0; c < slices.k; ++c)
      residual[c] = std::sqrt(residual2[c]) * units_[c], gradient[c] = std::sqrt(gradient2[c]) * units_[c];
    slices.result.residual.push_back(std::move(residual));
    slices.result.gradient.push_back(std::move(gradient));
    const auto &first = slices.result.gradient.front(), &now = slices.result.gradient.back();
    double most = 0;
    for (std::size_t c = 0; c < slices.k; ++c)
      if (slices.on[c] && first[c] > 0) most = std::max(most, now[c] / first[c]);
    decrease_ = std::min(decrease_, most);
  }
  /// Applies the stopping criteria to each slice after iteration `now`. False when all slices have ended.
  bool judge(int now) {
    const Norms &residual = slices.result.residual.back(), &gradient = slices.result.gradient.back();
    const Norms& first = slices.result.gradient.front();
    Norms size;
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
      passes_.each(*best_, Select<T>{x_.data(), best_->data(), kept_.put(keep)});
    }
    if (o.callback && slices.any()) {
      State state{now, &residual, wall_time() - begin_};
      const bool wanted = o.callback(state);
      // All ranks end where one callback wants it.
      Global stop = wanted;
      b_.space().comm().start_sum(&stop, 1, comm::Operation::max).wait(&stop);
      if (stop)
        for (std::size_t c = 0; c < slices.k; ++c)
          if (slices.on[c]) slices.stop(c, End::callback);
    }
    return slices.any();
  }

  // The first gradients, to which later ones are made orthogonal, slice by slice.
  struct FirstGradients {
    std::size_t most, k;
    std::vector<std::unique_ptr<Vector<T, M>>> kept{};
    std::vector<const T*> vectors{};
    Norms squares{};
    std::vector<char> held{};  // for each of them and slice, whether later gradients still are

    FirstGradients(int count, std::size_t columns) : most(std::size_t(count)), k(columns) {}
    void keep(const Vector<T, M>& s, const Norms& g) {
      if (kept.size() == most) return;
      kept.push_back(std::make_unique<Vector<T, M>>(s)), vectors.push_back(kept.back()->data());
      squares.insert(squares.end(), g.begin(), g.end());
      for (std::size_t c = 0; c < k; ++c) held.push_back(g[c] > 0 && std::isfinite(g[c]));
    }
    /// What a gradient has of each, from its products `along` them; takes these parts off its square.
    std::vector<T> share(const Norms& along, Norms& square) {
      std::vector<T> share(along.size(), T(0));
      for (std::size_t f = 0; f < along.size(); ++f) {
        const double part = along[f] * along[f] / squares[f];  // of the square
        held[f] = held[f] && part < 0.25 * square[f % k];
        if (held[f]) share[f] = T(along[f] / squares[f]);
      }
      for (std::size_t c = 0; c < k; ++c) {
        double parts = 0;
        for (std::size_t f = c; f < along.size(); f += k)
          if (held[f]) parts += along[f] * along[f] / squares[f];
        if (parts < 0.5 * square[c]) {
          square[c] -= parts;
          continue;
        }
        // The components along the first gradients dominate: only rounding errors are left, orthogonalisation ends.
        for (std::size_t f = c; f < along.size(); f += k) held[f] = 0, share[f] = T(0);
      }
      return share;
    }
  };

  // s = A^T r, p = s, g = (s, s); a = g / (q, q) with q = A p; x += a p, r -= a q; s = A^T r; p = s + (g' / g) p
  // Starts from r = b - A x after iteration `done`; returns the number of the last iteration.
  int cgls(int done) {
    accurate().apply_adjoint(r, s);
    Vector<T, M> p(x_.space(), x_.columns());
    layout::copy(s, p);
    Norms g = squares(s);
    if (done == 0) {
      record(squares(r), g);
      if (!judge(0)) return 0;
    }
    const auto k = slices.k;
    FirstGradients first(o.reorthogonalise.value_or(&accurate(0) != &A ? 5 : 1), k);
    first.keep(s, g);
    std::vector<T> alpha(k), beta(k);
    for (int now = done + 1; now <= o.iterations; ++now) {
      accurate().apply(p, q);
      const Norms qq = squares(q);
      for (std::size_t c = 0; c < slices.k; ++c)
        alpha[c] = slices.on[c] && qq[c] > 0 && std::isfinite(g[c] / qq[c]) ? T(g[c] / qq[c]) : T(0);
      const T* const a = numbers_.put(alpha);
      passes_.each(x_, Step<T>{p.data(), x_.data(), a});
      auto rr = passes_.sums(r, Residual<T>{q.data(), r.data(), a});
      auto residual = r.space().start_sum(rr.data(), rr.size());  // hidden behind the product
      accurate().apply_adjoint(r, s);
      residual.wait(rr.data());
      Norms next = passes_.sums(s, Square<T>{s.data()});
      for (const T* const v : first.vectors) {
        const auto along = passes_.sums(s, Product<T>{s.data(), v});
        next.insert(next.end(), along.begin(), along.end());
      }
      add_up(s.space(), next);
      const Norms along(next.begin() + std::ptrdiff_t(k), next.end());
      next.resize(k);
      record(rr, next);
      if (!judge(now)) return now;
      const auto share = first.share(along, next);
      const T* const shares = share.empty() ? nullptr : numbers_.put(share);
      for (std::size_t from = 0; from < first.vectors.size(); from += LeaveOut<T>::most) {
        const std::size_t count = std::min(LeaveOut<T>::most, first.vectors.size() - from);
        LeaveOut<T> leave{{}, s.data(), shares + from * k, count, k};
        std::copy_n(first.vectors.begin() + std::ptrdiff_t(from), count, leave.v);
        passes_.each(s, leave);
      }
      for (std::size_t c = 0; c < k; ++c) beta[c] = slices.on[c] && g[c] > 0 ? T(next[c] / g[c]) : T(0);
      g = next;
      first.keep(s, g);
      passes_.each(p, Direction<T>{s.data(), p.data(), numbers_.put(beta)});
    }
    return o.iterations;
  }

  int sirt(int done) {
    // R and C: inverse sums of rows and columns; 0 for those whose sum is not positive.
    Vector<T, M> rows(b_.space()), columns(x_.space()), ones_x(x_.space()), ones_b(b_.space());
    layout::fill(ones_x, T(1));
    layout::fill(ones_b, T(1));
    accurate(0).apply(ones_x, rows);
    accurate(0).apply_adjoint(ones_b, columns);
    for (auto* v : {&rows, &columns}) passes_.each(*v, Inverse<T>{v->data()});
    const std::size_t k = slices.k;
    const auto weigh = [&] { passes_.each(q, Weigh<T>{rows.data(), r.data(), q.data(), k}); };
    weigh();
    A.apply_adjoint(q, s);
    if (done == 0) {
      record(squares(r), squares(s));
      if (!judge(0)) return 0;
    }
    std::vector<T> step(k);
    for (int now = done + 1; now <= o.iterations; ++now) {
      for (std::size_t c = 0; c < k; ++c) step[c] = slices.on[c] ? T(o.relaxation) : T(0);
      passes_.each(x_, Relax<T>{columns.data(), s.data(), x_.data(), numbers_.put(step), k, o.nonnegative});
      A.apply(x_, r);
      auto rr = passes_.sums(r, NextResidual<T>{b_.data(), r.data()});
      auto residual = r.space().start_sum(rr.data(), rr.size());
      weigh();
      A.apply_adjoint(q, s);
      residual.wait(rr.data());
      record(rr, squares(s));
      if (!judge(now)) return now;
    }
    return o.iterations;
  }

  Norms squares(const Vector<T, M>& v) {
    auto sums = passes_.sums(v, Square<T>{v.data()});
    add_up(v.space(), sums);
    return sums;
  }

  const op::Operator<T, M>& A;
  const op::Adjustable<T, M>* adjustable_;  // A, if it is
  double decrease_ = 1;                     // the least of the largest gradient of all slices, each over its first
  const Vector<T, M>& b_;
  Vector<T, M>& x_;
  const ReconstructOptions& o;
  Norms units_;
  Slices slices;
  Vector<T, M> r, q, s;
  Columns<T, M> passes_;
  Numbers<T, M> numbers_;
  Numbers<char, M> kept_;
  std::unique_ptr<Vector<T, M>> best_;
  std::vector<Corner> corner_;
  double begin_;
};

// The largest magnitude of each slice; NaN where an element is NaN. One reduction.
template <class T, Memory M>
Norms largest(const Vector<T, M>& v) {
  Norms most = Columns<T, M>().largest(v, Magnitude<T>{v.data()});
  v.space().start_sum(most.data(), most.size(), comm::Operation::max).wait(most.data());
  return most;
}

template <class T, Memory M>
void times_powers(Vector<T, M>& v, const std::vector<int>& exponent) {
  Numbers<int, M> there;
  Columns<T, M>().each(v, TimesPower<T>{v.data(), there.put(exponent)});
}

}  // namespace

template <class T, Memory M>
ReconstructResult reconstruct(const op::Operator<T, M>& A, const Vector<T, M>& b, Vector<T, M>& x,
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
    Norms most = largest(b), units(most.size(), 1.0);
    const Norms starts = largest(x);
    std::vector<int> up(most.size(), 0), down(most.size(), 0);
    bool scaled = false;
    for (std::size_t c = 0; c < most.size(); ++c) {
      if (most[c] == 0) most[c] = starts[c];
      const int exponent = most[c] > 0 && std::isfinite(most[c]) ? std::ilogb(most[c]) : 0;
      if (std::abs(exponent) <= far) continue;
      scaled = true, up[c] = -exponent, down[c] = exponent, units[c] = std::ldexp(1.0, exponent);
    }
    if (!scaled) return Run<T, M>(A, b, x, options, std::move(units)).run();
    Vector<T, M> near_b(b), near_x(x);
    times_powers(near_b, up), times_powers(near_x, up);
    auto result = Run<T, M>(A, near_b, near_x, options, std::move(units)).run();
    times_powers(near_x, down);
    layout::copy(near_x, x);
    return result;
  });
}

}  // namespace tacit::app::tomography
