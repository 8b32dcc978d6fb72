// s-step conjugate gradients over both memory spaces, in two-term form (CA-CG). Toledo (1995), thesis, MIT; Hoemmen
// (2010), thesis, Berkeley; Carson, Knight, Demmel (2013), doi 10.1137/120881191. a, c, e are the coordinates of p, r
// and the step of x; T moves them: op Y x = Y (T x).
#pragma once

#ifndef __CUDACC__  // runs in device memory are not swept
#include "../cg_sweeps.hpp"
#endif
#include "../s_step.hpp"
#include "../safeguards/breakdowns.hpp"

#include <tacit/op/csr.hpp>

namespace tacit::krylov {

#ifdef __CUDACC__
/// Stands for CgSweeps where vectors are in device memory: never made.
template <Scalar T>
struct NoSweeps {
  using W = exec::wide_t<T>;
  struct Step {
    double alpha, beta;
    bool turns = true;
  };
  static constexpr int sums = 6;
  static constexpr int sums_of(int) { return 0; }
  void set_residual(const T*) {}
  void copy_residual(T*) const {}
  std::array<W, 2> squares() const { return {}; }
  void turn(double) {}
  void powers(std::span<const op::RecurrenceStep<T>>, std::span<W>) {}
  void iterate(std::span<const Step>, T*) {}
};
template <Scalar T>
using SweepsOf = NoSweeps<T>;
#else
template <Scalar T>
using SweepsOf = CgSweeps<T>;
#endif

/// Hermitian positive definite A and P. A block of s iterations: s products of two columns, s applies of P to two, 1
/// reduction. With P the basis Y is one of A P, and Z = P Y stands beside it: A P is Hermitian in the
/// inner product of P, whose Gram matrix is Y^H Z, and the step of x is Z e. Vectors: 2 (s + 1), with P 4 (s + 1), d,
/// the step since the last replacement. A norm below the rounding of the Gram matrix, or one that with norm max
/// seems to be at the goal, costs one reduction more, a replacement one product (and an apply of P).
///
/// Swept: with a Csr matrix in host memory, a diagonal P or none, and a Chebyshev basis, no basis is stored. Two
/// wavefronts (cg_sweeps.hpp) read A twice for s iterations: its powers give the moments and (p, A p), from which G
/// follows, and s steps of CG then take the coefficients that follow from G. s products of two columns and s of one, 1
/// exchange of s levels of ghosts, 1 reduction; vectors: 7 (with P 9), d, the step since the last replacement. With P,
/// Y is the basis of P A for p and z = P r in the inner product of P^-1; the norm of r is known at the start of a
/// block, estimated within it, and summed where the estimate is at the goal (one reduction).
template <Scalar T, Memory M>
class CaCg final : public SStepIteration<T, M> {
  using Base = SStepIteration<T, M>;
  using Base::a_, Base::c_, Base::e_, Base::Ta_, Base::y_, Base::pairs_, Base::images_, Base::sums_, Base::norm_,
      Base::unit;
  using typename Base::Ending, typename Base::Vector, typename Base::W;
  // The largest relative rounding error of an inner product that a block uses. Larger limits cost iterations where CG
  // is slow (5 sqrt(unit): up to twice as many); a method that adapts its step takes the smaller `fine`.
  static constexpr double enough = std::same_as<real_t<T>, double> ? 7.5e-8 : 1.7e-3;
  static constexpr double fine = std::min(enough, 5e6 * unit);

 public:
  explicit CaCg(const Options& options)
      : Base("ca-cg", options, 8, 1, options.fallbacks ? fine : enough, 1),
        clear_(options.fallbacks ? fine : enough),
        by_moments_(!options.basis || *options.basis == Basis::automatic || *options.basis == Basis::chebyshev),
        one_exchange_(options.powers.value_or(op::Powers::kernel) == op::Powers::kernel) {
    const int columns = this->columns(this->step_.most());
    residual_.reserve(columns);
    sums_.resize(2 * exec::pair_gram_size(columns, false) + 1);
  }

 private:
  void begin(const Run<T, M>& run, Monitor& monitor) override {
    begin_sweeps(run);
    Base::begin(run, monitor);
    guard_.emplace(monitor);
    z_is_there_ = false;
  }

  /// Whether this run is swept, which does not depend on the number of threads, as results must not. Collective.
  void begin_sweeps(const Run<T, M>& run) {
    sweeps_.reset();
    if constexpr (std::same_as<M, Host>) {
      const auto* const A = dynamic_cast<const op::Csr<T, Host>*>(&run.A.itself());
      const auto* const P = run.P ? run.P->pointwise() : nullptr;
      if (!A || !by_moments_ || bool(P) != bool(run.P)) return;
      // On several ranks columns that are solved together share the exchanges of single products.
      if ((!one_exchange_ || run.r.space().is_merging()) && run.r.space().comm().size() > 1) return;
      const int most = this->step_.most();
      if (const auto* const rows = A->rows_around(most)) sweeps_.emplace(*rows, P, most, exec::threads_now());
    }
  }

  bool swept_with_P(const Run<T, M>& run) const { return sweeps_ && run.P; }
  void start(const Run<T, M>& run) override {
    this->estimates_ = this->max_norm_ || swept_with_P(run);
    if (!sweeps_) return Base::start(run);
    sweeps_->set_residual(run.r.data());
    sweeps_->turn(0);
  }
  void put_residual(const Vector& r) override {
    if (!sweeps_) return Base::put_residual(r);
    sweeps_->set_residual(r.data());
  }
  double norm_of_residual(const Run<T, M>& run) override {
    if (!sweeps_ || this->max_norm_) return Base::norm_of_residual(run);
    return std::sqrt(real(sum_of_squares(run)[1]));
  }
  double largest_here(const Run<T, M>& run) override {
    if (!sweeps_) return Base::largest_here(run);
    sweeps_->copy_residual(run.w[1].data());  // run.r stays what replacements begin with
    return exec::largest_magnitude<T, M>(run.w[1].data(), run.r.size());
  }
  /// (r, z) and (r, r)
  std::array<W, 2> sum_of_squares(const Run<T, M>& run) {
    const auto own = sweeps_->squares();
    W sums[3] = {own[0], own[1]};
    this->reduce(run, sums, 2);
    return {sums[0], sums[1]};
  }

  void make_basis(const Run<T, M>& run, int s) override {
    steps_taken_.clear();
    if (sweeps_) {
      chebyshev(run, s);
      const Span span("moments", "krylov");
      count_ = std::size_t(SweepsOf<T>::sums_of(s));
      moments_.resize(count_ + 1);
      sweeps_->powers(recurrence_, std::span(moments_).first(count_));
      return count_products(run, s);
    }
    const auto v = this->renew_basis(run, s);
    const Span span("basis", "krylov");
    const auto z = images_.first(run.r.space(), run.P ? s + 1 : 0);
    make_powers<T, M>(run, false, this->powers_, v, this->steps(s), z, z_is_there_);
    if (run.P) run.P->apply(*v.back(), *z.back());
  }

  /// G = Y^H Z, and with P the Y^H Y that gives the norm of r.
  bool gram(const Run<T, M>& run, int s) override {
    if (sweeps_) return gram_of_moments(run, s);
    const std::size_t n = run.r.size();
    const int columns = this->columns(s);
    const std::size_t count = exec::pair_gram_size(columns, false);
    const auto* const v = pairs_.data();
    exec::pair_gram<T, M>(v, run.P ? images_.data() : v, columns, nullptr, false, n, sums_.data());
    if (run.P) exec::pair_gram<T, M>(v, v, columns, nullptr, false, n, sums_.data() + count);
    this->reduce(run, sums_.data(), run.P ? 2 * count : count);
    const auto steps = this->steps(s);
    return y_.set(steps, columns, sums_.data()) && (!run.P || residual_.set(steps, columns, sums_.data() + count));
  }

  void enter(const Run<T, M>& run, Monitor&) override {
    rz_ = real(y_.at(1, 1));
    norm_ = (residual_is_apart(run) ? residual_ : y_).column_length(1);
    if (swept_with_P(run) && !this->max_norm_) this->set_ratio(std::sqrt(real(moments_[count_ - 1])));
  }

  /// Whether the plain lengths of coordinates come from residual_.
  bool residual_is_apart(const Run<T, M>& run) const { return run.P && !sweeps_; }
  void count_products(const Run<T, M>& run, int count) {
    for (int k = 0; k < count; ++k) {
      run.A.count_apply();
      if (run.P) run.P->count_apply();
    }
  }

  Ending iterate(const Run<T, M>& run, Monitor&, int j) override {
    const bool fresh = j == 0;  // exact coordinates: tested as in cg
    const auto blurs = [&](double size, double value) { return Base::blurs(size, value, clear_); };
    const int n = std::min(2 * (j + 2), y_.columns());
    y_.use(n);
    const bool apart = residual_is_apart(run);
    if (apart) residual_.use(n);
    this->work_ += (apart ? 12.0 : 8.0) * n * n;  // forms with the Gram matrix

    if (!guard_->allows_direction(rz_)) return Ending::broken;
    y_.multiply(a_, Ta_);  // A p = Y (T a)
    // (p, A p). A shift of the basis would cost the digits of a smooth p in the first iteration, which is not tested.
    const double pv = fresh && sweeps_ ? real(moments_[count_ - 2]) : real(y_.form(a_, Ta_));
    if (blurs(y_.size(a_) * y_.size(Ta_), pv) && !fresh) return Ending::lost;
    if (!guard_->allows_step(rz_, pv)) return Ending::broken;
    const double alpha = rz_ / pv;
    for (int i = 0; i < n; ++i) {  // x += alpha p,  r -= alpha A p
      e_[i] += alpha * a_[i];
      c_[i] -= alpha * Ta_[i];
    }
    this->e_is_zero_ = false;
    const double rz = y_.square(c_), size = y_.size(c_);
    const double rr = apart ? residual_.square(c_) : rz, rr_size = apart ? residual_.size(c_) : size;
    this->drift_.residual(rr_size);
    before_ = rz_;
    steps_taken_.push_back({alpha, 0, false});
    const bool norm_blurred = blurs(rr_size * rr_size, rr);
    if (norm_blurred || (apart && blurs(size * size, rz))) return Ending::blurred;
    const double beta = rz / rz_;  // beta = (r, z) / (r, z of before),  p = r + beta p
    this->shifts_.add(W(alpha), W(beta));
    steps_taken_.back() = {alpha, beta};
    for (int i = 0; i < n; ++i) a_[i] = c_[i] + beta * a_[i];
    rz_ = rz;
    norm_ = std::sqrt(rr);
    return Ending::whole;
  }

  void take_step(const Run<T, M>& run, Vector& x) override {
    if (sweeps_) {
      auto copy = *sweeps_;
      return copy.iterate(steps_taken_, x.data());
    }
    exec::pair_combine<T, M>((run.P ? images_ : pairs_).data(), y_.columns(), nullptr, nullptr, this->narrow(e_, 2),
                             x.data(), x.size());
  }

  void leave(const Run<T, M>& run, Monitor&, int done, Ending ending, bool more) override {
    if (sweeps_) return leave_swept(run, done, ending, more);
    auto& P = run.P;
    const std::size_t n = run.r.size();
    auto& plain = P ? residual_ : y_;
    plain.use(plain.columns());
    auto& x = this->group(run);
    const T *const a = this->narrow(a_, 0), *const c = this->narrow(c_, 1), *const e = this->narrow(e_, 2);
    exec::pair_combine<T, M>(pairs_.data(), y_.columns(), a, c, e, P ? nullptr : x.data(), n);
    if (P) exec::pair_combine<T, M>(images_.data(), y_.columns(), a, c, e, x.data(), n);
    z_is_there_ = true;
    if (this->replace_residual(run, plain, done, more)) {
      z_is_there_ = P && ending == Ending::blurred;
      if (z_is_there_) P->apply(pairs_[0], images_[0]);
    }
    if (ending != Ending::blurred) return;
    W exact[7];  // of p and r: (p, z), (p, z_r), (r, z_r), and (r, r) last
    exec::pair_gram<T, M>(pairs_.data(), P ? images_.data() : pairs_.data(), 2, nullptr, false, n, exact);
    if (P) exec::pair_gram<T, M>(pairs_.data(), pairs_.data(), 2, nullptr, false, n, exact + 3);
    this->reduce(run, exact, P ? 6 : 3);
    norm_ = std::sqrt(std::max(real(exact[P ? 5 : 2]), 0.0));
    if (this->max_norm_) this->set_ratio(this->largest_);
    rz_ = real(exact[2]);
    const T beta = T(real_t<T>(rz_ / before_)), both[2] = {beta, T(1)}, only[2] = {T(0), T(1)};
    exec::pair_combine<T, M>(pairs_.data(), 2, both, only, nullptr, nullptr, n);
    if (P) exec::pair_combine<T, M>(images_.data(), 2, both, only, nullptr, nullptr, n);
  }

  /// The basis of a swept block: T_k of A, whose eigenvalues lie about the Ritz values.
  void chebyshev(const Run<T, M>& run, int s) {
    const double largest = run.P ? 0 : run.A.largest();
    this->shifts_.renew(this->A_norm_);
    double least = std::numeric_limits<double>::infinity(), most = -least;
    for (const auto z : this->shifts_.values()) least = std::min(least, z.real()), most = std::max(most, z.real());
    if (!(most > 0)) most = std::exp2(std::ilogb(largest > 0 ? largest : 1)), least = -most;
    // One or two values give the size of the spectrum, but not where it lies, nor do values that are all alike.
    if (this->shifts_.values().size() < 3 || !(most - least > 1e-3 * most)) least = std::min(least, 0.0);
    if (s <= 2) least = -most;  // as in Bases
    const auto half = real_t<T>((most - least) / 2);
    const T middle = T(real_t<T>((most + least) / 2));
    recurrence_.clear();
    for (int k = 0; k < s; ++k) recurrence_.push_back({middle, T(k ? half / 2 : real_t<T>(0)), k ? half / 2 : half});
  }

  /// G from the moments of p and r.
  bool gram_of_moments(const Run<T, M>& run, int s) {
    this->reduce(run, moments_.data(), count_);
    const auto at = [&](int k, int i) { return moments_[std::size_t(k * SweepsOf<T>::sums + i)]; };
    for (int q = 0; q < 3; ++q) {  // of p with p, of r with r, of p with r
      auto& m = moment_[q];
      m.assign(std::size_t(2 * s + 1), W(0));
      m[0] = at(0, 2 * q), m[1] = at(1, 2 * q + 1);
      for (int k = 1; k <= s; ++k) {
        m[std::size_t(2 * k - 1)] = 2.0 * at(k, 2 * q + 1) - m[1];
        m[std::size_t(2 * k)] = 2.0 * at(k, 2 * q) - m[0];
      }
    }
    const int columns = this->columns(s);
    triangle_.clear();
    for (int b = 0; b < columns; ++b)
      for (int a = 0; a <= b; ++a) {
        const int i = a / 2, j = b / 2;
        const int q = a % 2 != b % 2 ? 2 : a % 2, apart = std::abs(i - j);
        const auto& m = moment_[q];
        // Neighbours are known as they are: a moment would cost the digits of short ones, such as A p of a smooth p.
        const W value =
            apart < 2 ? at(std::max(i, j), 2 * q + apart) : (m[std::size_t(i + j)] + m[std::size_t(apart)]) / 2.0;
        triangle_.push_back(a % 2 == 1 && b % 2 == 0 ? conj(value) : value);
      }
    return y_.set(recurrence_, columns, triangle_.data());
  }

  void leave_swept(const Run<T, M>& run, int done, Ending ending, bool more) {
    {
      const Span span("iterations", "krylov");
      sweeps_->iterate(steps_taken_, this->group(run).data());
      count_products(run, int(steps_taken_.size()));
    }
    y_.use(y_.columns());
    this->replace_residual(run, y_, done, more);
    if (ending != Ending::blurred) return;
    const auto exact = sum_of_squares(run);
    rz_ = real(exact[0]);
    norm_ = std::sqrt(std::max(rz_, 0.0));
    if (this->max_norm_) this->set_ratio(this->largest_);
    else if (run.P) this->set_ratio(std::sqrt(real(exact[1])));
    sweeps_->turn(rz_ / before_);
  }

  double clear_;
  bool by_moments_, one_exchange_;  // options allow it: the basis, the powers on several ranks
  std::optional<SweepsOf<T>> sweeps_;
  std::vector<typename SweepsOf<T>::Step> steps_taken_;
  op::Recurrence<T> recurrence_;
  std::vector<W> moments_, moment_[3], triangle_;
  std::size_t count_ = 0;    // of the moments, which have room for a number more
  bool z_is_there_ = false;  // images_[0] holds P times the first pair of Y
  Coordinates<T> residual_;  // in the plain inner product; y_ is in that of P
  std::optional<CgGuard> guard_;
  double rz_ = 0, before_ = 0;
};

template <Scalar T, Memory M>
std::unique_ptr<Iteration<T, M>> make_ca_cg(const Options& options) {
  return std::make_unique<CaCg<T, M>>(options);
}

}  // namespace tacit::krylov
