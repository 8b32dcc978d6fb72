// s-step BiCGStab over both memory spaces. Carson, Knight, Demmel (2013), doi 10.1137/120881191; as a bottom solver
// Williams et al. (2014), doi 10.1109/IPDPS.2014.119, Algorithm 2 (with p = r + beta (p - omega v)). The letters are
// theirs: a, c, d, e are the coordinates of p, r, r - alpha A p and the step of x; T their T'.
#pragma once

#include "../powers.hpp"
#include "../s_step.hpp"

#include <tacit/base/trace.hpp>
#include <tacit/exec/sweep.hpp>
#include <tacit/krylov/iteration.hpp>

namespace tacit::krylov {

using layout::Vector;

/// Any square A; P from the right. A block of s iterations: 2 s products of two columns, 2 s applies of P to two (and
/// one to one), 1 reduction (2 with norm max). Vectors: 4 s + 2, d, the best d, the step since the last replacement
/// (and 4 with P). A residual whose norm is below the rounding of the Gram matrix costs one reduction more, a
/// replacement one product.
template <Scalar T, Memory M>
class CaBicgstab final : public Iteration<T, M> {
  using W = exec::wide_t<T>;
  static constexpr double unit = std::numeric_limits<real_t<T>>::epsilon();
  // Products of two vectors at this size are rounding: see bicgstab.hpp.
  static constexpr double tiny = 4 * unit;
  // Relative rounding of an inner product that a step may rest on. (5e-3 in double precision: steps still reduce the
  // residual, but the search loses what it has found, and takes up to four times as many iterations.)
  static constexpr double clear = std::same_as<real_t<T>, double> ? 2e-5 : 5e-3;
  // What the first iteration of a block, which is that of bicgstab, may rest on.
  static constexpr double bold = 5e-3;
  // Where a block is lost and r has come this close to orthogonal to r0, r is the better shadow.
  static constexpr double steep = std::same_as<real_t<T>, double> ? 1e-10 : 2e-5;

 public:
  explicit CaBicgstab(const Options& options)
      : powers_(options.powers.value_or(op::Powers::products)),
        adapts_(options.fallbacks),
        max_norm_(options.norm == Norm::max),
        step_(options.step.value_or(4), options.fallbacks, unit, clear),
        shifts_(2 * step_.most()),
        bases_(options.basis.value_or(Basis::automatic), 2 * step_.most()),
        drift_(options.replacement, unit) {
    const int columns = 4 * step_.most() + 1;
    y_.reserve(columns);
    sums_.resize(exec::pair_gram_size(columns, true));
    for (auto* v : {&a_, &c_, &d_, &e_, &w_, &Ta_, &Td_}) v->resize(columns);
    for (auto& v : out_) v.resize(columns);
  }

  void run(const Run<T, M>& run, Monitor& monitor) override {
    begin(run, monitor);
    bool more = monitor.go_on(monitor.norm());
    while (more) more = block(run, monitor);
    monitor.solution_by(nullptr);
    end(run, monitor);
  }

  std::string step_down() override {
    if (!std::exchange(lost_, false) || too_short_ || !step_.halve()) return {};
    return message("from there its blocks are of ", step_.most(), step_.most() == 1 ? " iteration" : " iterations");
  }

 private:
  enum class Ending {
    whole,    // r, p, and what is known of them
    half,     // r - alpha A p is the residual, and small enough
    blurred,  // r, but its norm or its angle to r0 is below rounding: both are to be computed from r itself
    lost,     // nowhere: this basis says no more
    broken    // a scalar vanished
  };

  void begin(const Run<T, M>& run, Monitor& monitor) {
    auto& r = run.r;
    auto& d = run.d;
    step_.begin();
    shifts_.begin();
    start_ = norm_ = monitor.norm();
    drift_.begin(norm_);
    ratio_ = 1;
    best_norm_ = std::numeric_limits<double>::infinity();
    // Residuals may wait for about as many iterations as a plane grid is wide.
    trial_ = std::max(16, int(std::sqrt(std::min(double(r.space().size()), 1e12))));
    trial_norm_ = norm_;
    short_ = 0;
    began_at_ = monitor.iterations();
    telescopes_ = true;
    first_ = true;
    new_shadow_ = anew_ = false;
    p_is_r_ = true;
    auto& v = *pairs_.first(r.space(), 1)[0];
    for (const int c : {0, 1}) exec::pair_put<T, M>(r.data(), c, v.data(), r.size());
    if (drift_.on()) layout::fill(group(run), T(0));
    monitor.solution_by([&](void* x) {
      auto whole = d;
      if (drift_.on()) layout::axpy(T(1), group(run), whole);
      take_step(run, whole);
      solution(whole, T(0), whole, x);
    });
  }

  /// What has been added to d since the residual was last computed anew.
  Vector<T, M>& group(const Run<T, M>& run) { return drift_.on() ? run.w[1] : run.d; }

  /// r0
  Vector<T, M>& shadow(const Run<T, M>& run) { return new_shadow_ ? run.w[4] : run.r; }

  /// x += P Y e
  void take_step(const Run<T, M>& run, Vector<T, M>& x) {
    if (e_is_zero_) return;
    auto& to = run.P ? run.w[2] : x;
    if (run.P) layout::fill(to, T(0));
    exec::pair_combine<T, M>(pairs_.data(), y_.columns(), nullptr, nullptr, narrow(e_, 2), to.data(), to.size());
    if (!run.P) return;
    run.P->apply(to, run.w[3]);
    layout::axpy(T(1), run.w[3], x);
  }
  const T* narrow(const std::vector<W>& x, int which) {
    std::transform(x.begin(), x.begin() + y_.columns(), out_[which].begin(), [](W v) { return T(v); });
    return out_[which].data();
  }

  void make_basis(const Run<T, M>& run, int s) {
    auto& A = run.A;
    auto& P = run.P;
    auto& r = run.r;
    bases_.renew(r.space(), shifts_, A_norm_, !P && A.largest() > 0 ? A.largest() : 1);
    const Span span("basis", "krylov");
    const auto v = pairs_.first(r.space(), 2 * s + 1);
    const auto steps = bases_.steps(s, 2 * s);
    make_powers<T, M>(A, P, false, powers_, v, steps, images_.first(r.space(), P ? 1 : 0));
  }

  bool gram(const Run<T, M>& run, int s) {
    const auto& space = run.r.space();
    const int columns = 4 * s + 1;
    const std::size_t count = exec::pair_gram_size(columns, true);
    exec::pair_gram<T, M>(pairs_.data(), pairs_.data(), columns, shadow(run).data(), true, run.r.size(), sums_.data());
    space.start_sum(sums_.data(), count).wait(sums_.data());
    g_ = sums_.data() + exec::pair_gram_size(columns, false);
    return y_.set(bases_.steps(s, 2 * s), columns, sums_.data());
  }

  bool block(const Run<T, M>& run, Monitor& monitor) {
    auto& w = run.w;
    const int s = step_.next(monitor.max_iterations() - monitor.iterations()), columns = 4 * s + 1;
    make_basis(run, s);
    if (!gram(run, s)) {
      if (!adapts_ || s == 1)
        return monitor.breakdown("(r, r)", std::numeric_limits<double>::quiet_NaN(), "the Krylov basis is not finite");
      tell(monitor, s, step_.after(s, 0, 1));
      return true;
    }
    for (auto* v : {&a_, &c_, &e_}) std::fill_n(v->begin(), columns, W(0));
    a_[0] = c_[1] = W(1);
    A_norm_ = std::max(A_norm_, y_.stretch());
    norm_ = y_.column_length(1);
    rho_ = g_[1];
    if (std::exchange(first_, false)) {
      r0_norm_ = norm_;
      least_ = tiny;
      best_norm_ = norm_;
      layout::fill(w[0], T(0));
      if (max_norm_ && norm_ > 0) ratio_ = start_ / norm_;
    }
    noise_ = 0;
    shadow_blurred_ = false;
    bool more = true, late = false;  // late: the monitor is asked when the vectors are there
    Ending ending = Ending::whole;
    int done = 0;
    for (; done < s && more && !late; ++done) {
      if (max_norm_) monitor.scale_norms(ratio_);
      ending = iterate(monitor, done);
      if (ending == Ending::lost) break;
      if (ending == Ending::broken) more = false;
      else if (ending == Ending::blurred || (max_norm_ && (done + 1 == s || norm_ * ratio_ <= monitor.goal())))
        late = true;
      else more = monitor.go_on(norm_);
    }
    const bool lost = done < s && (ending == Ending::lost || ending == Ending::blurred);
    lost_ = lost && s > 1;
    more = leave_block(run, monitor, done, ending, more, late);
    if (more) {
      tell(monitor, s, step_.after(s, lost ? done : s, noise_));
      telescopes_ = telescopes_ && !lost;
      // What little has been done is not worth another path to the solution than that of bicgstab.
      if (costs_more(done))
        more = monitor.end(monitor.iterations() - began_at_ <= 4 * trial_ ? Outcome::in_vain : Outcome::too_bold);
    }
    return more;
  }

  /// After a block of so many iterations: have many of them been in blocks cut short, and to no avail? bicgstab needs
  /// half the products.
  bool costs_more(int done) {
    if (norm_ <= 0.1 * trial_norm_) trial_norm_ = norm_, short_ = 0;
    if (!telescopes_ && done < std::min(3.0, 0.75 * step_.most())) short_ += std::max(done, 1);
    return too_short_ = adapts_ && short_ >= trial_;
  }

  /// One iteration in coordinates.
  Ending iterate(Monitor& monitor, int j) {
    // The coordinates of a fresh block are exact, and so is what follows from them: it is tested as in bicgstab.
    const bool fresh = j == 0;
    double limit = fresh ? bold : clear;
    const auto blurs = [&](double size, double value) {
      const double noise = value > 0 ? unit * size / value : std::numeric_limits<double>::infinity();
      if (noise <= limit) noise_ = std::max(noise_, noise);
      return !(noise <= limit);
    };
    y_.use(2 * (2 * j + 3));
    const auto with_shadow = [&](const std::vector<W>& x) {
      W sum(0);
      for (int i = 0; i < std::min(2 * (2 * j + 3), y_.columns()); ++i) sum += g_[i] * x[i];
      return sum;
    };
    const int n = std::min(2 * (2 * j + 3), y_.columns());
    Trace::work("coordinates", 0, 12.0 * n * n);  // six forms with the Gram matrix

    if (!(std::abs(rho_) > least_ * r0_norm_ * norm_)) {
      monitor.breakdown("(r0, r)", std::abs(rho_), "the residual is orthogonal to the shadow residual");
      return Ending::broken;
    }
    y_.multiply(a_, Ta_);
    const W r0v = with_shadow(Ta_);
    if (!fresh && blurs(r0_norm_ * y_.size(Ta_), std::abs(r0v))) return shadow_blurred_ = true, Ending::lost;
    if (!(std::abs(r0v) > least_ * r0_norm_ * std::sqrt(std::max(y_.square(Ta_), 0.0)))) {
      monitor.breakdown("(r0, A p)", std::abs(r0v), "the step along p cannot be determined");
      return Ending::broken;
    }
    least_ = 2e-4 * tiny;
    const W alpha = rho_ / r0v;
    for (int i = 0; i < n; ++i) d_[i] = c_[i] - alpha * Ta_[i];
    const double ss = y_.square(d_), d_size = y_.size(d_), s_norm = std::sqrt(std::max(ss, 0.0));
    const bool blurred = blurs(d_size * d_size, ss);
    if (blurred && !fresh) return Ending::lost;
    // A long p, most of which cancels: neither a step along it nor what follows can be told from rounding.
    anew_ = fresh && adapts_ && !p_is_r_ && blurred && d_size > 100 * norm_;
    if (anew_) return Ending::lost;
    const auto take_half = [&] {
      for (int i = 0; i < n; ++i) e_[i] += alpha * a_[i], c_[i] = d_[i];
      norm_ = s_norm;
      drift_.residual(d_size);
      e_is_zero_ = false;
    };
    if (blurred) {
      take_half();
      w_ = a_, between_ = W(0);
      return Ending::blurred;
    }
    if (s_norm <= monitor.goal()) {  // and so is its largest magnitude
      take_half();
      return Ending::half;
    }
    y_.multiply(d_, Td_);
    const double tt = y_.square(Td_), t_size = y_.size(Td_);
    const W ts = y_.form(Td_, d_);
    const bool t_blurred = blurs(t_size * t_size, tt) || blurs(t_size * d_size, std::abs(ts));
    if (t_blurred && !fresh) return Ending::lost;
    anew_ = t_blurred && adapts_ && !p_is_r_;
    if (anew_) return Ending::lost;
    if (!(tt > 0) || !(std::abs(ts) > tiny * std::sqrt(tt) * s_norm)) {
      take_half();
      if (!(tt > 0)) monitor.breakdown("(t, t)", tt, "the matrix maps the half-step residual to zero");
      else monitor.breakdown("omega", std::abs(ts), "(t, s) vanishes: the residual cannot be reduced along t");
      return Ending::broken;
    }
    const W omega = ts / tt;
    for (int i = 0; i < n; ++i) {
      e_[i] += alpha * a_[i] + omega * d_[i];
      c_[i] = d_[i] - omega * Td_[i];
      w_[i] = a_[i] - omega * Ta_[i];
    }
    e_is_zero_ = p_is_r_ = false;
    const double rr = y_.square(c_), size = y_.size(c_);
    const W rho = with_shadow(c_);
    drift_.residual(size);
    between_ = alpha / (omega * rho_);  // beta = (r0, r) between_
    limit = clear;                      // what is blurred now is summed from the vectors
    const bool norm_blurred = blurs(size * size, rr);
    shadow_blurred_ = blurs(r0_norm_ * size, std::abs(rho));
    if (norm_blurred || shadow_blurred_) return Ending::blurred;
    const W beta = rho * between_;
    shifts_.add(alpha, beta);
    for (int i = 0; i < n; ++i) a_[i] = c_[i] + beta * w_[i];
    rho_ = rho;
    norm_ = std::sqrt(rr);
    return Ending::whole;
  }

  /// From coordinates to vectors.
  bool leave_block(const Run<T, M>& run, Monitor& monitor, int done, Ending ending, bool more, bool late) {
    auto& A = run.A;
    auto& P = run.P;
    auto& r = run.r;
    auto& d = run.d;
    auto& w = run.w;
    const auto& space = r.space();
    const std::size_t n = r.size();
    y_.use(y_.columns());
    auto& x = group(run);
    const double step_size = y_.size(e_), step_length = std::sqrt(std::max(y_.square(e_), 0.0));
    if (P) take_step(run, x);
    const bool direction = ending != Ending::half;
    exec::pair_combine<T, M>(pairs_.data(), y_.columns(),
                             narrow(ending == Ending::blurred ? w_
                                    : direction               ? a_
                                                              : c_,
                                    0),
                             narrow(c_, 1), narrow(e_, 2), P ? nullptr : x.data(), n);
    e_is_zero_ = true;
    T* const v = pairs_[0].data();
    drift_.step(done, step_size, step_length, std::max(A_norm_, shifts_.largest()));
    if (more && ending != Ending::half && drift_.due(norm_)) {
      layout::axpy(T(1), x, d);
      layout::fill(x, T(0));
      auto& Ax = w[2];
      A.apply(d, Ax);
      layout::subtract(r, Ax, Ax);
      exec::pair_put<T, M>(Ax.data(), 1, v, n);
      drift_.replaced();
    }
    if (ending == Ending::blurred) {
      W exact[5];  // (w, w), (w, r), (r, r), (r0, w), (r0, r)
      exec::pair_gram<T, M>(pairs_.data(), pairs_.data(), 2, shadow(run).data(), true, n, exact);
      space.start_sum(exact, 5).wait(exact);
      norm_ = std::sqrt(std::max(real(exact[2]), 0.0));
      rho_ = exact[4];
      const T a[2] = {T(exact[4] * between_), T(1)}, c[2] = {T(0), T(1)};
      exec::pair_combine<T, M>(pairs_.data(), 2, a, c, nullptr, nullptr, n);
    }
    if (more && adapts_ && (anew_ || (shadow_blurred_ && std::abs(rho_) < steep * r0_norm_ * norm_))) {
      // p := r0 := r
      anew_ = false;
      p_is_r_ = true;
      new_shadow_ = true;
      const T a[2] = {T(0), T(1)};
      exec::pair_combine<T, M>(pairs_.data(), 2, a, a, nullptr, nullptr, n);
      layout::fill(shadow(run), T(0));
      exec::pair_combine<T, M>(pairs_.data(), 2, nullptr, nullptr, a, shadow(run).data(), n);
      r0_norm_ = norm_;
      least_ = tiny;
      shifts_.begin();
      step_.forgive();
    }
    double norm = norm_;
    if (late && max_norm_) {
      norm = exec::largest_magnitude<T, M>(v + 1, n, 2);
      space.start_sum(&norm, 1, comm::Operation::max).wait(&norm);
      monitor.scale_norms(1);
      if (norm_ > 0) ratio_ = norm / norm_;
    }
    if (late) more = monitor.go_on(norm);
    if (more && ending == Ending::half)
      more = monitor.breakdown("(s, s)", norm_ * norm_, "the half step leaves nothing to go on with");
    if (norm_ < 0.1 * best_norm_) {
      layout::copy(d, w[0]);
      if (drift_.on()) layout::axpy(T(1), x, w[0]);
      best_norm_ = norm_;
    }
    return more;
  }

  void end(const Run<T, M>& run, const Monitor& monitor) {
    if (first_) return;
    if (drift_.on()) layout::axpy(T(1), group(run), run.d);
    if (monitor.outcome() != Outcome::claims && !(norm_ <= best_norm_)) layout::copy(run.w[0], run.d);
  }

  void tell(Monitor& monitor, int s, bool shorter) {
    if (shorter)
      monitor.tell(message("a basis for ", s, " iterations lost its digits; from iteration ", monitor.iterations(),
                           " ca-bicgstab's blocks are shorter, ", step_.limit(), " at first"));
  }

  op::Powers powers_;
  bool adapts_, max_norm_, first_ = true, lost_ = false, e_is_zero_ = true;
  bool new_shadow_ = false, shadow_blurred_ = false, anew_ = false, p_is_r_ = true, too_short_ = false;
  bool telescopes_ = true;  // no block has been cut short
  int trial_ = 0, short_ = 0, began_at_ = 0;
  Step step_;
  Shifts<T> shifts_;
  Bases<T> bases_;
  Drift drift_;
  Pairs<T, M> pairs_, images_;
  Coordinates<T> y_;
  std::vector<W> sums_, a_, c_, d_, e_, w_, Ta_, Td_;
  std::vector<T> out_[3];
  const W* g_ = nullptr;  // (r0, Y_i)
  W rho_{}, between_{};
  double norm_ = 0, start_ = 0, best_norm_ = 0, r0_norm_ = 0, least_ = tiny, noise_ = 0, A_norm_ = 0, ratio_ = 1;
  double trial_norm_ = 0;
};

template <Scalar T, Memory M>
std::unique_ptr<Iteration<T, M>> make_ca_bicgstab(const Options& options) {
  return std::make_unique<CaBicgstab<T, M>>(options);
}

}  // namespace tacit::krylov
