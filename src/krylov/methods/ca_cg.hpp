// s-step conjugate gradients over both memory spaces, in two-term form (CA-CG). Toledo (1995), thesis, MIT; Hoemmen
// (2010), thesis, Berkeley; Carson, Knight, Demmel (2013), doi 10.1137/120881191. a, c, e are the coordinates of p, r
// and the step of x; T moves them: op Y x = Y (T x).
#pragma once

#include "../powers.hpp"
#include "../s_step.hpp"

#include <tacit/base/trace.hpp>
#include <tacit/exec/sweep.hpp>
#include <tacit/krylov/iteration.hpp>

namespace tacit::krylov {

using layout::Vector;

/// Hermitian positive definite A and P. A block of s iterations: s products of two columns, s applies of P to two, 1
/// reduction (2 with norm max). With P the basis Y is one of A P, and Z = P Y stands beside it: A P is Hermitian in the
/// inner product of P, whose Gram matrix is Y^H Z, and the step of x is Z e. Vectors: 2 (s + 1), with P 4 (s + 1), d,
/// the step since the last replacement. A norm below the rounding of the Gram matrix costs one reduction more, a
/// replacement one product (and an apply of P).
template <Scalar T, Memory M>
class CaCg final : public Iteration<T, M> {
  using W = exec::wide_t<T>;
  static constexpr double unit = std::numeric_limits<real_t<T>>::epsilon();
  // A block does not rest on inner products with more relative rounding than this. Where CG is slow, more of it costs
  // iterations (5 sqrt(unit): up to twice as many), which a method that adapts its step need not pay.
  static constexpr double enough = std::same_as<real_t<T>, double> ? 7.5e-8 : 1.7e-3;
  static constexpr double fine = std::min(enough, 5e4 * unit);

 public:
  explicit CaCg(const Options& options)
      : powers_(options.powers.value_or(op::Powers::products)),
        adapts_(options.fallbacks),
        max_norm_(options.norm == Norm::max),
        step_(options.step.value_or(8), options.fallbacks, unit, options.fallbacks ? fine : enough),
        clear_(options.fallbacks ? fine : enough),
        shifts_(step_.most()),
        bases_(options.basis.value_or(Basis::automatic), step_.most()),
        drift_(options.replacement, unit) {
    const int columns = 2 * step_.most() + 1;
    y_.reserve(columns);
    residual_.reserve(columns);
    sums_.resize(2 * exec::pair_gram_size(columns, false));
    for (auto* v : {&a_, &c_, &e_, &Ta_}) v->resize(columns);
    for (auto& v : out_) v.resize(columns);
  }

  void run(const Run<T, M>& run, Monitor& monitor) override {
    begin(run, monitor);
    bool more = monitor.go_on(monitor.norm());
    while (more) more = block(run, monitor);
    monitor.solution_by(nullptr);
    if (drift_.on()) layout::axpy(T(1), group(run), run.d);
  }

  std::string step_down() override {
    if (!std::exchange(lost_, false) || !step_.halve()) return {};
    return message("from there its blocks are of ", step_.most(), step_.most() == 1 ? " iteration" : " iterations");
  }

 private:
  enum class Ending { whole, blurred, lost, broken };  // as in ca_bicgstab_impl.hpp

  void begin(const Run<T, M>& run, Monitor& monitor) {
    auto& P = run.P;
    auto& r = run.r;
    auto& d = run.d;
    step_.begin();
    shifts_.begin();
    start_ = norm_ = monitor.norm();
    drift_.begin(norm_);
    ratio_ = 1;
    energy_ = seen_ = 0;
    first_ = e_is_zero_ = true;
    auto& v = *pairs_.first(r.space(), 1)[0];
    for (const int c : {0, 1}) exec::pair_put<T, M>(r.data(), c, v.data(), r.size());
    z_is_there_ = false;
    if (drift_.on()) layout::fill(group(run), T(0));
    monitor.solution_by([&](void* x) {
      auto whole = d;
      if (drift_.on()) layout::axpy(T(1), group(run), whole);
      if (!e_is_zero_)
        exec::pair_combine<T, M>((P ? images_ : pairs_).data(), y_.columns(), nullptr, nullptr, narrow(e_, 2),
                                 whole.data(), whole.size());
      solution(whole, T(0), whole, x);
    });
  }

  /// What has been added to d since the residual was last computed anew.
  Vector<T, M>& group(const Run<T, M>& run) { return drift_.on() ? run.w[0] : run.d; }

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
    const auto v = pairs_.first(r.space(), s + 1);
    const auto steps = bases_.steps(s, s);
    const auto z = images_.first(r.space(), P ? s + 1 : 0);
    make_powers<T, M>(A, P, false, powers_, v, steps, z, z_is_there_);
    if (P) P->apply(*v.back(), *z.back());
  }

  /// G = Y^H Z, and with P the Y^H Y that gives the norm of r.
  bool gram(const Run<T, M>& run, int s) {
    const std::size_t n = run.r.size();
    const int columns = 2 * s + 1;
    const std::size_t count = exec::pair_gram_size(columns, false);
    const auto* const v = pairs_.data();
    exec::pair_gram<T, M>(v, run.P ? images_.data() : v, columns, nullptr, false, n, sums_.data());
    if (run.P) exec::pair_gram<T, M>(v, v, columns, nullptr, false, n, sums_.data() + count);
    run.r.space().start_sum(sums_.data(), run.P ? 2 * count : count).wait(sums_.data());
    const auto steps = bases_.steps(s, s);
    return y_.set(steps, columns, sums_.data()) && (!run.P || residual_.set(steps, columns, sums_.data() + count));
  }

  bool block(const Run<T, M>& run, Monitor& monitor) {
    const int s = step_.next(monitor.max_iterations() - monitor.iterations()), columns = 2 * s + 1;
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
    rz_ = real(y_.at(1, 1));
    norm_ = run.P ? residual_.column_length(1) : y_.column_length(1);
    if (std::exchange(first_, false) && max_norm_ && norm_ > 0) ratio_ = start_ / norm_;
    noise_ = 0;
    bool more = true, late = false;  // late: the monitor is asked when the vectors are there
    Ending ending = Ending::whole;
    int done = 0;
    for (; done < s && more && !late; ++done) {
      if (max_norm_) monitor.scale_norms(ratio_);
      ending = iterate(run, monitor, done);
      if (ending == Ending::lost) break;
      if (ending == Ending::broken) more = false;
      else if (ending == Ending::blurred || (max_norm_ && (done + 1 == s || norm_ * ratio_ <= monitor.goal())))
        late = true;
      else more = monitor.go_on(norm_);
    }
    if (ending == Ending::broken) --done;
    const bool lost = done < s && (ending == Ending::lost || ending == Ending::blurred);
    lost_ = lost && s > 1;
    more = leave_block(run, monitor, done, ending, more, late);
    if (more) tell(monitor, s, step_.after(s, lost ? done : s, noise_));
    return more;
  }

  /// One iteration in coordinates.
  Ending iterate(const Run<T, M>& run, Monitor& monitor, int j) {
    const bool fresh = j == 0;  // exact coordinates: what they give is tested as in cg
    const auto blurs = [&](double size, double value) {
      const double noise = value > 0 ? unit * size / value : std::numeric_limits<double>::infinity();
      if (noise <= clear_) noise_ = std::max(noise_, noise);
      return !(noise <= clear_);
    };
    const int n = std::min(2 * (j + 2), y_.columns());
    y_.use(n);
    if (run.P) residual_.use(n);
    Trace::work("coordinates", 0, (run.P ? 12.0 : 8.0) * n * n);  // forms with the Gram matrix

    if (!(rz_ > 0)) {
      monitor.breakdown("(r, P r)", rz_, "the preconditioner is not positive definite");
      return Ending::broken;
    }
    y_.multiply(a_, Ta_);
    const double pv = real(y_.form(a_, Ta_));
    if (blurs(y_.size(a_) * y_.size(Ta_), pv) && !fresh) return Ending::lost;
    if (!(pv > 0)) {
      monitor.breakdown("(p, A p)", pv, "the matrix is not positive definite");
      return Ending::broken;
    }
    const double alpha = rz_ / pv;
    energy_ += alpha * rz_;
    if (energy_ > 1.01 * seen_) seen_ = energy_, monitor.progress();
    for (int i = 0; i < n; ++i) {
      e_[i] += alpha * a_[i];
      c_[i] -= alpha * Ta_[i];
    }
    e_is_zero_ = false;
    const double rz = y_.square(c_), size = y_.size(c_);
    const double rr = run.P ? residual_.square(c_) : rz, rr_size = run.P ? residual_.size(c_) : size;
    drift_.residual(rr_size);
    before_ = rz_;
    const bool norm_blurred = blurs(rr_size * rr_size, rr);
    if (norm_blurred || (run.P && blurs(size * size, rz))) return Ending::blurred;
    const double beta = rz / rz_;
    shifts_.add(W(alpha), W(beta));
    for (int i = 0; i < n; ++i) a_[i] = c_[i] + beta * a_[i];
    rz_ = rz;
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
    auto& in = P ? residual_ : y_;
    in.use(in.columns());
    auto& x = group(run);
    const double size = in.size(e_), length = std::sqrt(std::max(in.square(e_), 0.0));
    const T *const a = narrow(a_, 0), *const c = narrow(c_, 1), *const e = narrow(e_, 2);
    exec::pair_combine<T, M>(pairs_.data(), y_.columns(), a, c, e, P ? nullptr : x.data(), n);
    if (P) exec::pair_combine<T, M>(images_.data(), y_.columns(), a, c, e, x.data(), n);
    z_is_there_ = true;
    e_is_zero_ = true;
    T* const v = pairs_[0].data();
    drift_.step(done, size, length, std::max(A_norm_, shifts_.largest()));
    if (more && drift_.due(norm_)) {
      layout::axpy(T(1), x, d);
      layout::fill(x, T(0));
      auto& Ax = w[1];
      A.apply(d, Ax);
      layout::subtract(r, Ax, Ax);
      exec::pair_put<T, M>(Ax.data(), 1, v, n);
      z_is_there_ = false;
      if (P && ending == Ending::blurred) P->apply(pairs_[0], images_[0]), z_is_there_ = true;
      drift_.replaced();
    }
    if (ending == Ending::blurred) {
      W exact[6];  // of p and r: (p, z), (p, z_r), (r, z_r), and (r, r) last
      exec::pair_gram<T, M>(pairs_.data(), P ? images_.data() : pairs_.data(), 2, nullptr, false, n, exact);
      if (P) exec::pair_gram<T, M>(pairs_.data(), pairs_.data(), 2, nullptr, false, n, exact + 3);
      space.start_sum(exact, P ? 6 : 3).wait(exact);
      norm_ = std::sqrt(std::max(real(exact[P ? 5 : 2]), 0.0));
      rz_ = real(exact[2]);
      const T beta = T(real_t<T>(rz_ / before_)), both[2] = {beta, T(1)}, only[2] = {T(0), T(1)};
      exec::pair_combine<T, M>(pairs_.data(), 2, both, only, nullptr, nullptr, n);
      if (P) exec::pair_combine<T, M>(images_.data(), 2, both, only, nullptr, nullptr, n);
    }
    double norm = norm_;
    if (late && max_norm_) {
      norm = exec::largest_magnitude<T, M>(v + 1, n, 2);
      space.start_sum(&norm, 1, comm::Operation::max).wait(&norm);
      monitor.scale_norms(1);
      if (norm_ > 0) ratio_ = norm / norm_;
    }
    return late ? monitor.go_on(norm) : more;
  }

  void tell(Monitor& monitor, int s, bool shorter) {
    if (shorter)
      monitor.tell(message("a basis for ", s, " iterations lost its digits; from iteration ", monitor.iterations(),
                           " ca-cg's blocks are shorter, ", step_.limit(), " at first"));
  }

  op::Powers powers_;
  bool adapts_, max_norm_, first_ = true, lost_ = false, e_is_zero_ = true, z_is_there_ = false;
  Step step_;
  double clear_;
  Shifts<T> shifts_;
  Bases<T> bases_;
  Drift drift_;
  Pairs<T, M> pairs_, images_;   // Y and, with P, Z = P Y
  Coordinates<T> y_, residual_;  // in the inner product of P, and in the plain one
  std::vector<W> sums_, a_, c_, e_, Ta_;
  std::vector<T> out_[3];
  double norm_ = 0, start_ = 0, rz_ = 0, before_ = 0, energy_ = 0, seen_ = 0, noise_ = 0, A_norm_ = 0, ratio_ = 1;
};

template <Scalar T, Memory M>
std::unique_ptr<Iteration<T, M>> make_ca_cg(const Options& options) {
  return std::make_unique<CaCg<T, M>>(options);
}

}  // namespace tacit::krylov
