// s-step BiCGStab over both memory spaces. Carson, Knight, Demmel (2013), doi 10.1137/120881191; as a bottom solver
// Williams et al. (2014), doi 10.1109/IPDPS.2014.119, Algorithm 2 (with p = r + beta (p - omega v)). The letters are
// theirs: a, c, d, e are the coordinates of p, r, r - alpha A p and the step of x; T their T'.
#pragma once

#ifndef __CUDACC__  // runs in device memory are not swept
#include "../bicgstab_sweeps.hpp"
#endif
#include "../s_step.hpp"
#include "../safeguards/best.hpp"
#include "../safeguards/breakdowns.hpp"

#include <tacit/op/csr.hpp>

namespace tacit::krylov {

#ifdef __CUDACC__
/// Stands for BicgstabSweeps where vectors are in device memory: never made.
template <Scalar T>
struct NoBicgstabSweeps {
  using W = exec::wide_t<T>;
  struct Step {
    W alpha, omega{}, beta{};
    bool turns = false, half = false;
  };
  void set_residual(const T*) {}
  void copy_residual(T*) const {}
  void turn(W) {}
  void measure(const T*, std::span<W, 2>) {}
  void iterate(std::span<const Step>, T*) {}
  void advance(std::span<const Step>, T*, std::span<const op::RecurrenceStep<T>>, const T*, std::span<W>) {}
};
template <Scalar T>
using BicgstabSweepsOf = NoBicgstabSweeps<T>;
#else
template <Scalar T>
using BicgstabSweepsOf = BicgstabSweeps<T>;
#endif

/// Any square A; P from the right. A block of s iterations: 2 s products of two columns, 2 s applies of P to two (and
/// one to one), 1 reduction. Vectors: 4 s + 2, d, the best d, the step since the last replacement (and 4 with P). A
/// residual whose norm is below the rounding of the Gram matrix, or with norm max seems to be at the goal, costs one
/// reduction more, a replacement one product.
///
/// Swept: with a Csr matrix in host memory, a diagonal P without zeros or none, and no `powers` given, no basis is
/// stored. Two wavefronts (bicgstab_sweeps.hpp) read A twice for s iterations: its powers give G and g block of rows
/// after block of rows, and s iterations of BiCGStab then take the coefficients that follow from them. 2 s products of
/// two columns and 2 s of one, 1 exchange of 2 s levels of ghosts, 1 reduction; vectors: p, r, d, the best d, the step
/// since the last replacement (with P also P and its inverse).
template <Scalar T, Memory M>
class CaBicgstab final : public SStepIteration<T, M> {
  using Base = SStepIteration<T, M>;
  using Base::a_, Base::c_, Base::e_, Base::Ta_, Base::y_, Base::pairs_, Base::images_, Base::sums_, Base::norm_;
  using Base::adapts_, Base::step_, Base::shifts_, Base::drift_;
  using typename Base::Ending, typename Base::Vector, typename Base::W;
  // The largest relative rounding error of an inner product that is used, where all digits are asked for. (With 5e-3 in
  // double precision steps still reduce the residual, but up to four times as many iterations are needed to 1e-10.)
  static constexpr double clear = std::same_as<real_t<T>, double> ? 2e-5 : 5e-3;
  // The same limit in the first iteration of a block, which is an iteration of bicgstab.
  static constexpr double bold = 5e-3;
  // Where a block has lost its digits and |(r0, r)| is below this times ||r0|| ||r||, r becomes the new shadow
  // residual.
  static constexpr double steep = std::same_as<real_t<T>, double> ? 1e-10 : 2e-5;

  // Swept blocks have 2 iterations unless the user says otherwise: longer ones make more sums of products than they
  // save bytes. On one rank they have 1 where the 12 vectors of two, from level to level, and P at all levels, would
  // take more of the second-level cache. On several ranks with few rows each, the messages saved are worth the sums.
  static constexpr double in_cache = 512 * 1024;
  static constexpr Global few_rows = 4096;

 public:
  explicit CaBicgstab(const Options& options)
      : Base("ca-bicgstab", options, 4, 2, clear_for(options), 2),
        clear_(clear_for(options)),
        steep_(steep * std::sqrt(clear_ / clear)),
        step_is_given_(options.step.has_value()),
        powers_are_given_(options.powers.has_value()) {
    const int columns = this->columns(step_.most());
    sums_.resize(exec::pair_gram_size(columns, true) + 1);
    for (auto* v : {&d_, &w_, &Td_}) v->resize(columns);
  }

  std::string step_down() override {
    if (probation_.is_over()) this->lost_ = false;
    return Base::step_down();
  }

 private:
  void begin(const Run<T, M>& run, Monitor& monitor) override {
    begin_sweeps(run);
    Base::begin(run, monitor);
    probation_ = Probation(run.r.space().size(), norm_, monitor.iterations());
    guard_.reset(), best_.reset();
    new_shadow_ = anew_ = false;
    p_is_r_ = true;
  }
  void end(const Run<T, M>& run, const Monitor& monitor) override {
    if (best_ && best_->stays(norm_, monitor)) layout::copy(run.w[1], run.d);
  }

  /// Whether this run is swept, which does not depend on the number of threads, as results must not. Collective.
  void begin_sweeps(const Run<T, M>& run) {
    sweeps_.reset();
    steps_taken_.clear();
    put_off_ = false;
    if constexpr (std::same_as<M, Host>) {
      const auto* const A = dynamic_cast<const op::Csr<T, Host>*>(&run.A.itself());
      const auto* const P = run.P ? run.P->pointwise() : nullptr;
      if (!A || powers_are_given_ || bool(P) != bool(run.P)) return;
      const auto& space = run.r.space();
      const bool on_ranks = space.comm().size() > 1;
      // On several ranks columns that are solved together share the exchanges of single products.
      if (on_ranks && space.is_merging()) return;
      if (P && !space.comm().all(has_inverse(*P))) return;
      const int most = on_ranks ? most_on_ranks(space) : most_alone(*A->whole(), run);
      const auto* const rows = most > 0 ? A->rows_around(2 * most) : nullptr;
      if (!rows) return;
      if (most < step_.most()) step_ = Step(most, adapts_, Base::unit, clear_);
      sweeps_.emplace(*rows, P, most, exec::threads_now());
    }
  }
  /// The most iterations of a swept block on one rank, 0 where it pays to store the basis.
  int most_alone(const op::LocalMatrix<T>& A, const Run<T, M>& run) const {
    const double apart = BicgstabSweepsOf<T>::rows_apart(A), kept = (run.P ? 16 : 12) * apart * sizeof(T);
    const int most = step_is_given_ ? step_.most() : std::min(step_.most(), kept <= in_cache ? 2 : 1);
    // Levels that are most of the rows apart do not share what is in cache.
    return 2 * (2 * most * apart) > double(run.r.size()) ? 0 : most;
  }
  /// The same on several ranks, which store the basis only where they would need too many rows of others.
  int most_on_ranks(const layout::Space& space) const {
    const bool few = space.size() <= few_rows * space.comm().size();
    return step_is_given_ || few ? step_.most() : std::min(step_.most(), 2);
  }
  static bool has_inverse(const Vector& P) {
    return std::all_of(P.data(), P.data() + P.size(), [](T d) { return d != T(0) && is_finite(T(1) / d); });
  }

  void start(const Run<T, M>& run) override {
    if (!sweeps_) return Base::start(run);
    sweeps_->set_residual(run.r.data());
    sweeps_->turn(W(0));
  }
  void put_residual(const Vector& r) override {
    if (!sweeps_) return Base::put_residual(r);
    sweeps_->set_residual(r.data());
  }
  double norm_of_residual(const Run<T, M>& run) override {
    settle(run);
    return Base::norm_of_residual(run);
  }
  double largest_here(const Run<T, M>& run) override {
    if (!sweeps_) return Base::largest_here(run);
    sweeps_->copy_residual(run.w[2].data());  // run.r stays what replacements begin with
    return exec::largest_magnitude<T, M>(run.w[2].data(), run.r.size());
  }

  Vector& shadow(const Run<T, M>& run) { return new_shadow_ ? run.w[4] : run.r; }  // r0

  void take_step(const Run<T, M>& run, Vector& x) override {
    if (sweeps_) {
      auto copy = *sweeps_;
      return copy.iterate(steps_taken_, x.data());
    }
    auto& to = run.P ? run.w[2] : x;
    if (run.P) layout::fill(to, T(0));
    exec::pair_combine<T, M>(pairs_.data(), y_.columns(), nullptr, nullptr, this->narrow(e_, 2), to.data(), to.size());
    if (!run.P) return;
    run.P->apply(to, run.w[3]);
    layout::axpy(T(1), run.w[3], x);
  }

  void make_basis(const Run<T, M>& run, int s) override {
    if (sweeps_) return this->renew_recurrence(run);  // the vectors are made where gram() needs them
    steps_taken_.clear();
    const auto v = this->renew_basis(run, s);
    const Span span("basis", "krylov");
    make_powers<T, M>(run, false, this->powers_, v, this->steps(s), images_.first(run.r.space(), run.P ? 1 : 0));
  }

  /// G = Y^H Y and g = Y^H r0.
  bool gram(const Run<T, M>& run, int s) override {
    const int columns = this->columns(s);
    const std::size_t count = exec::pair_gram_size(columns, true);
    if (sweeps_) {
      const Span span("waves", "krylov");
      sweeps_->advance(steps_taken_, this->group(run).data(), this->steps(s), shadow(run).data(),
                       std::span(sums_).first(count));
      count_products(run, 2 * s);
    } else {
      exec::pair_gram<T, M>(pairs_.data(), pairs_.data(), columns, shadow(run).data(), true, run.r.size(),
                            sums_.data());
    }
    this->reduce(run, sums_.data(), count);
    g_ = sums_.data() + exec::pair_gram_size(columns, false);
    return y_.set(this->steps(s), columns, sums_.data());
  }

  void enter(const Run<T, M>& run, Monitor& monitor) override {
    norm_ = y_.column_length(1);
    rho_ = g_[1];
    shadow_blurred_ = false;
    if (this->first_) guard_.emplace(monitor, norm_), best_.emplace(run.w[1], norm_);
  }

  W with_shadow(const std::vector<W>& x, int n) const {  // (r0, Y x)
    W sum(0);
    for (int i = 0; i < n; ++i) sum += g_[i] * x[i];
    return sum;
  }

  Ending iterate(const Run<T, M>&, Monitor& monitor, int j) override {
    // The coordinates of a new block are exact, so its first iteration is tested as in bicgstab.
    const bool fresh = j == 0;
    const auto blurs = [&](double size, double value, double limit) {
      return Base::blurs(size, value, fresh ? limit : clear_);
    };
    const int n = std::min(2 * (2 * j + 3), y_.columns());
    const double r0_norm = guard_->r0_norm();
    y_.use(n);
    this->work_ += 12.0 * n * n;  // six forms with the Gram matrix

    if (!guard_->allows_direction(std::abs(rho_), norm_)) return Ending::broken;
    y_.multiply(a_, Ta_);  // v = A p
    const W r0v = with_shadow(Ta_, n);
    shadow_blurred_ = !fresh && blurs(r0_norm * y_.size(Ta_), std::abs(r0v), clear_);
    if (shadow_blurred_) return Ending::lost;
    if (!guard_->allows_half_step(std::abs(r0v), std::sqrt(std::max(y_.square(Ta_), 0.0)))) return Ending::broken;
    const W alpha = rho_ / r0v;
    for (int i = 0; i < n; ++i) d_[i] = c_[i] - alpha * Ta_[i];  // s = r - alpha v
    const double ss = y_.square(d_), d_size = y_.size(d_), s_norm = std::sqrt(std::max(ss, 0.0));
    const bool s_blurred = blurs(d_size * d_size, ss, bold);
    if (s_blurred && !fresh) return Ending::lost;
    // p is long and mostly cancels in s: alpha and what follows would be rounding error, so the search starts anew from
    // r.
    anew_ = s_blurred && adapts_ && !p_is_r_ && d_size > 100 * norm_;
    if (anew_) return Ending::lost;
    if (s_blurred) w_ = a_, between_ = W(0);
    if (s_blurred || s_norm <= monitor.goal())  // and so is its largest magnitude
      return take_half(alpha, n, s_norm, d_size, s_blurred ? Ending::blurred : Ending::half);
    y_.multiply(d_, Td_);  // t = A s
    const double tt = y_.square(Td_), t_size = y_.size(Td_);
    const W ts = y_.form(Td_, d_);
    const bool t_blurred = blurs(t_size * t_size, tt, bold) || blurs(t_size * d_size, std::abs(ts), bold);
    if (t_blurred && !fresh) return Ending::lost;
    anew_ = t_blurred && adapts_ && !p_is_r_;
    if (anew_) return Ending::lost;
    if (!guard_->allows_smoothing(std::abs(ts), tt, s_norm)) return take_half(alpha, n, s_norm, d_size, Ending::broken);
    const W omega = ts / tt;
    for (int i = 0; i < n; ++i) {
      e_[i] += alpha * a_[i] + omega * d_[i];  // x += alpha p + omega s
      c_[i] = d_[i] - omega * Td_[i];          // r = s - omega t
      w_[i] = a_[i] - omega * Ta_[i];          // p - omega v
    }
    steps_taken_.push_back({alpha, omega});
    this->e_is_zero_ = p_is_r_ = false;
    const double rr = y_.square(c_), size = y_.size(c_);
    const W rho = with_shadow(c_, n);
    drift_.residual(size);
    between_ = alpha / (omega * rho_);
    const bool norm_blurred = blurs(size * size, rr, clear_);  // inexact values are recomputed from the vectors
    shadow_blurred_ = blurs(r0_norm * size, std::abs(rho), clear_);
    if (norm_blurred || shadow_blurred_) return Ending::blurred;
    const W beta = rho * between_;  // beta = (rho / rho of before) (alpha / omega),  p = r + beta (p - omega v)
    shifts_.add(alpha, beta);
    steps_taken_.back() = {alpha, omega, beta, true};
    for (int i = 0; i < n; ++i) a_[i] = c_[i] + beta * w_[i];
    rho_ = rho;
    norm_ = std::sqrt(rr);
    return Ending::whole;
  }
  /// x += alpha p, r = s.
  Ending take_half(W alpha, int n, double norm, double size, Ending ending) {
    for (int i = 0; i < n; ++i) e_[i] += alpha * a_[i], c_[i] = d_[i];
    steps_taken_.push_back({.alpha = alpha, .half = true});
    norm_ = norm;
    drift_.residual(size);
    this->e_is_zero_ = false;
    return ending;
  }

  void leave(const Run<T, M>& run, Monitor& monitor, int done, Ending ending, bool more) override {
    const bool blurred = ending == Ending::blurred, half = ending == Ending::half;
    y_.use(y_.columns());
    to_vectors(run, blurred, half, more);
    this->replace_residual(run, y_, done, more && !half);
    if (blurred) measure(run);
    const bool orthogonal = shadow_blurred_ && std::abs(rho_) < steep_ * guard_->r0_norm() * norm_;
    if (more && adapts_ && (anew_ || orthogonal)) take_new_shadow(run, monitor);
  }
  /// p, r and x at the end of a block; p is p - omega v where its beta is not known.
  void to_vectors(const Run<T, M>& run, bool blurred, bool half, bool more) {
    auto& x = this->group(run);
    if (sweeps_) {  // with the powers of the next block, which reads A once for both
      put_off_ = true;
      return blurred || half || !more ? settle(run) : void();
    }
    if (run.P && !this->e_is_zero_) take_step(run, x);
    const T *const p = this->narrow(blurred ? w_ : half ? c_ : a_, 0), *const r = this->narrow(c_, 1);
    exec::pair_combine<T, M>(pairs_.data(), y_.columns(), p, r, this->narrow(e_, 2), run.P ? nullptr : x.data(),
                             run.r.size());
  }
  void settle(const Run<T, M>& run) override {
    if (!put_off_) return;
    const Span span("waves", "krylov");
    sweeps_->iterate(steps_taken_, this->group(run).data());
    count_products(run, 0);
  }
  /// Those of the steps taken, which are done then, and so many more.
  void count_products(const Run<T, M>& run, int more) {
    for (const auto& step : steps_taken_) more += step.half ? 1 : 2;
    for (int k = 0; k < more; ++k) {
      run.A.count_apply();
      if (run.P) run.P->count_apply();
    }
    steps_taken_.clear();
    put_off_ = false;
  }
  /// Norm and (r0, r) from the vectors, and p = r + beta (p - omega v).
  void measure(const Run<T, M>& run) {
    const std::size_t n = run.r.size();
    W exact[6]{};  // (w, w), (w, r), (r, r), (r0, w), (r0, r)
    if (sweeps_) sweeps_->measure(shadow(run).data(), std::span<W, 2>(exact + 3, 2)), exact[2] = exact[3];
    else exec::pair_gram<T, M>(pairs_.data(), pairs_.data(), 2, shadow(run).data(), true, n, exact);
    this->reduce(run, exact, 5);
    norm_ = std::sqrt(std::max(real(exact[2]), 0.0));
    if (this->max_norm_) this->set_ratio(this->largest_);
    rho_ = exact[4];
    if (sweeps_) return sweeps_->turn(rho_ * between_);
    const T a[2] = {T(exact[4] * between_), T(1)}, c[2] = {T(0), T(1)};
    exec::pair_combine<T, M>(pairs_.data(), 2, a, c, nullptr, nullptr, n);
  }
  /// p := r0 := r
  void take_new_shadow(const Run<T, M>& run, Monitor& monitor) {
    anew_ = false;
    p_is_r_ = new_shadow_ = true;
    if (sweeps_) {
      settle(run);
      sweeps_->turn(W(0));
      sweeps_->copy_residual(shadow(run).data());
    } else {
      const std::size_t n = run.r.size();
      const T a[2] = {T(0), T(1)};
      exec::pair_combine<T, M>(pairs_.data(), 2, a, a, nullptr, nullptr, n);
      layout::fill(shadow(run), T(0));
      exec::pair_combine<T, M>(pairs_.data(), 2, nullptr, nullptr, a, shadow(run).data(), n);
    }
    guard_.emplace(monitor, norm_);
    shifts_.begin();
    step_.forgive();
  }

  void look(const Run<T, M>& run) override {
    best_->look(norm_, [&](Vector& to) {
      settle(run);
      layout::copy(run.d, to);
      if (drift_.on()) layout::axpy(T(1), this->group(run), to);
    });
  }
  bool pays(Monitor& monitor, int done, bool lost) override {
    probation_.block(done, lost, step_.most(), norm_);
    if (!adapts_ || !probation_.is_over()) return true;
    return monitor.end(probation_.is_wasted(monitor.iterations()) ? Outcome::discarded : Outcome::too_costly);
  }

  bool put_off_ = false;  // the steps of a block that is finished have not been taken
  /// Few digits are asked for: few are needed. 2e-5 for a tolerance of 1e-8 and below, 5e-3 from about 6e-4 on.
  static double clear_for(const Options& options) {
    constexpr double tight = 1e-8;
    return std::clamp(clear * std::sqrt(options.rtol.value_or(tight) / tight), clear, bold);
  }

  double clear_, steep_;
  bool step_is_given_, powers_are_given_;
  std::optional<BicgstabSweepsOf<T>> sweeps_;
  std::vector<typename BicgstabSweepsOf<T>::Step> steps_taken_;
  bool new_shadow_ = false, shadow_blurred_ = false, anew_ = false, p_is_r_ = true;
  Probation probation_;
  std::vector<W> d_, w_, Td_;
  const W* g_ = nullptr;  // (r0, Y_i)
  W rho_{}, between_{};   // (r0, r); beta / (r0, r) of the next r
  std::optional<BicgstabGuard<T>> guard_;
  std::optional<Best<T, M>> best_;
};

template <Scalar T, Memory M>
std::unique_ptr<Iteration<T, M>> make_ca_bicgstab(const Options& options) {
  return std::make_unique<CaBicgstab<T, M>>(options);
}

}  // namespace tacit::krylov
