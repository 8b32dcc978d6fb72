// What the s-step methods share: coordinates in a basis of pairs, the Gram matrix that gives them lengths and angles,
// Ritz values from the coefficients of the iterations done so far, and the loop over blocks.
#pragma once

#include "powers.hpp"
#include "safeguards/block_step.hpp"

#include <tacit/base/trace.hpp>
#include <tacit/exec/pairs.hpp>
#include "krylov/change_of_basis.hpp"
#include "krylov/hessenberg.hpp"
#include "krylov/iteration.hpp"
#include "krylov/kept.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <deque>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace tacit::krylov {

/// The basis Y = [p, r, op p, op r, ..] of one block in coordinates: op Y x = Y (T x) for x without the last pair, and
/// (Y x, Y y) = x^H G y. All arithmetic in double precision.
template <Scalar T>
class Coordinates {
 public:
  using W = exec::wide_t<T>;
  using Values = std::vector<W>;

  void reserve(int columns) {
    gram_.reserve(std::size_t(columns) * columns), lengths_.reserve(columns), product_.reserve(columns);
  }
  /// G from its triangle, column after column. False when a number in it is not finite.
  bool set(std::span<const op::RecurrenceStep<T>> steps, int columns, const W* triangle) {
    steps_ = steps, n_ = columns;
    gram_.resize(std::size_t(n_) * n_), lengths_.resize(n_), product_.resize(n_);
    bool finite = true;
    for (int b = 0; b < n_; ++b)
      for (int a = 0; a <= b; ++a) {
        const W value = triangle[std::size_t(b) * (b + 1) / 2 + a];
        finite = finite && is_finite(value);
        gram_[std::size_t(b) * n_ + a] = a == b ? W(real(value)) : value;
        gram_[std::size_t(a) * n_ + b] = conj(value);
      }
    for (int a = 0; a < n_; ++a) lengths_[a] = std::sqrt(std::max(real(at(a, a)), 0.0));
    return finite;
  }
  int columns() const { return n_; }
  W at(int a, int b) const { return gram_[std::size_t(b) * n_ + a]; }
  double column_length(int a) const { return lengths_[a]; }
  void use(int columns) { used_ = std::min(columns, n_); }  ///< coordinates behind these are zero

  /// x^H G y
  W form(const Values& x, const Values& y) {
    for (int a = 0; a < used_; ++a) product_[a] = W(0);
    for (int b = 0; b < used_; ++b) {
      const W* const column = gram_.data() + std::size_t(b) * n_;
      for (int a = 0; a < used_; ++a) product_[a] += column[a] * y[b];
    }
    W sum(0);
    for (int a = 0; a < used_; ++a) sum += conj(x[a]) * product_[a];
    return sum;
  }
  double square(const Values& x) { return real(form(x, x)); }
  /// sum_a ||Y_a|| |x_a|: what the rounding of Y x is relative to.
  double size(const Values& x) const {
    double sum = 0;
    for (int a = 0; a < used_; ++a) sum += lengths_[a] * std::abs(x[a]);
    return sum;
  }
  /// The largest ||op Y_a|| / ||Y_a||: at most the norm of op, and near it after a few powers.
  double stretch() const {
    double most = 0;
    for (int k = 0; k + 1 < (n_ + 1) / 2; ++k)
      for (int c = 0; c < 2 && 2 * k + 2 + c < n_; ++c) {
        const int at = 2 * k + c;
        const W x[3] = {k > 0 ? W(steps_[k].beta) : W(0), W(steps_[k].alpha), W(double(steps_[k].gamma))};
        W sum(0);
        for (int i = k > 0 ? -1 : 0; i <= 1; ++i)
          for (int j = k > 0 ? -1 : 0; j <= 1; ++j) sum += conj(x[i + 1]) * this->at(at + 2 * i, at + 2 * j) * x[j + 1];
        if (lengths_[at] > 0) most = std::max(most, std::sqrt(std::max(real(sum), 0.0)) / lengths_[at]);
      }
    return most;
  }
  /// y = T x
  void multiply(const Values& x, Values& y) const {
    const auto& steps = steps_;
    for (int i = 0; i < used_; ++i) {  // pair k is made by step k - 1, and stands in steps k and k + 1
      const int k = i / 2;
      W sum(0);
      if (k > 0) sum += double(steps[k - 1].gamma) * x[i - 2];
      if (k < int(steps.size())) sum += W(steps[k].alpha) * x[i];
      if (k + 1 < int(steps.size()) && i + 2 < used_) sum += W(steps[k + 1].beta) * x[i + 2];
      y[i] = sum;
    }
  }

 private:
  std::span<const op::RecurrenceStep<T>> steps_;
  Values gram_, product_;
  std::vector<double> lengths_;
  int n_ = 0, used_ = 0;
};

/// Ritz values from the coefficients alpha, beta of a two-term recurrence (CG, BiCG, and so BiCGStab): the eigenvalues
/// of its tridiagonal matrix. They are recomputed whenever the number of coefficients has doubled.
template <Scalar T>
class Shifts {
 public:
  using W = exec::wide_t<T>;
  explicit Shifts(int wanted) : wanted_(wanted) {}

  /// The recurrence starts anew; the values stay.
  void begin() { diagonal_.clear(), product_.clear(), before_ = W(0); }
  void add(W alpha, W beta) {
    if (int(diagonal_.size()) >= 2 * wanted_ + 1) return;
    diagonal_.push_back(W(1) / alpha + before_);
    before_ = beta / alpha;
    product_.push_back(before_ / alpha);
  }
  const std::vector<std::complex<double>>& values() const { return values_; }
  double largest() const { return largest_; }
  /// True when there are new values. Values far above `norm` (about the norm of the operator) are dropped: they come
  /// from a recurrence that has nearly broken down. All ranks have the same bits, without a message.
  bool renew(double norm) {
    const int n = int(diagonal_.size());
    if (n == 0 || n < 2 * from_ + 1 || from_ >= wanted_) return false;
    from_ = n;
    std::vector<T> h(std::size_t(n) * n);
    for (int j = 0; j < n; ++j) {
      h[std::size_t(j) * n + j] = T(diagonal_[j]);
      if (j + 1 == n) break;
      const double below = std::sqrt(magnitude(product_[j]));
      h[std::size_t(j) * n + j + 1] = T(real_t<T>(below));
      h[std::size_t(j + 1) * n + j] = below > 0 ? T(product_[j] / below) : T(0);
    }
    auto found = ritz_values<T>(h, n, n);
    std::erase_if(found, [&](auto z) { return !(magnitude(z) <= 1.5 * norm); });
    if (found.empty()) return false;
    values_ = std::move(found);
    largest_ = 0;
    for (const auto z : values_) largest_ = std::max(largest_, magnitude(z));
    return true;
  }

 private:
  int wanted_, from_ = 0;
  std::vector<W> diagonal_, product_;
  W before_{0};
  std::vector<std::complex<double>> values_;
  double largest_ = 0;
};

/// The recurrences of long and of short blocks.
template <Scalar T>
class Bases {
 public:
  Bases(Basis basis, int most) : basis_(basis == Basis::automatic ? Basis::chebyshev : basis), most_(most) {}

  /// Takes new Ritz values where there are any; `scale` is about the norm of the operator while there are none (its
  /// power of two is taken, so that a scaled problem has the same digits).
  void renew(Shifts<T>& shifts, double norm, double scale) {
    if (!shifts.renew(norm) && !short_.empty()) return;
    const auto& values = shifts.values();
    scale = std::exp2(std::ilogb(scale));
    // Of a monomial basis powers of two keep lengths as well, and digits do not depend on those of the Ritz values.
    const auto made = [&](Basis basis, int most) {
      auto steps = make_recurrence<T>(basis, values, most, scale);
      if (basis == Basis::monomial)
        for (auto& step : steps) step.gamma = std::exp2(std::ilogb(step.gamma));
      return steps;
    };
    short_ = made(Basis::monomial, std::min(most_, 4));
    // One or two values give the size of the spectrum, but not where it lies.
    long_ = made(values.size() > 2 ? basis_ : Basis::monomial, most_);
  }
  /// The first `count` steps for a block of s iterations. Short blocks (s <= 2) take the monomial basis: it keeps its
  /// digits there, whereas a shift would make p and (op - theta) p of a smooth p nearly parallel.
  std::span<const op::RecurrenceStep<T>> steps(int s, int count) const {
    return std::span(s <= 2 ? short_ : long_).first(std::size_t(count));
  }

 private:
  Basis basis_;
  int most_;
  op::Recurrence<T> short_, long_;
};

/// Pairs of vectors, made when first asked for and kept.
template <Scalar T, Memory M>
class Pairs {
 public:
  /// The first n pairs of a space.
  std::span<layout::Vector<T, M>* const> first(const layout::Space& space, int n) {
    while (int(pairs_.size()) < n) {
      pairs_.emplace_back(space, 2);
      pointers_.push_back(&pairs_.back());
      data_.push_back(pairs_.back().data());
    }
    return std::span(pointers_).first(std::size_t(n));
  }
  layout::Vector<T, M>& operator[](int k) { return pairs_[std::size_t(k)]; }
  T* const* data() const { return data_.data(); }

 private:
  std::deque<layout::Vector<T, M>> pairs_;
  std::vector<layout::Vector<T, M>*> pointers_;
  std::vector<T*> data_;
};

/// The loop over blocks of s iterations, each in the coordinates of its basis Y = [p, r, op p, op r, ..]:
///
///   p = Y a,  r = Y c,  step of x = Y e (with P: P Y e),  (Y x, Y y) = x^H G y,  G = Y^H Y
///
/// A block is `reach` s products of two columns, and 1 reduction; with norm max the largest magnitude of the block's
/// first residual travels in it. A residual whose norm is below the rounding of the Gram matrix, or with norm max seems
/// to be at the goal, costs one reduction more, a replacement of the residual one product.
template <Scalar T, Memory M>
class SStepIteration : public Iteration<T, M>, public ServesAgain {
 public:
  void run(const Run<T, M>& run, Monitor& monitor) final {
    begin(run, monitor);
    bool more = monitor.go_on(monitor.norm());
    while (more) more = block(run, monitor);
    monitor.solution_by(nullptr);
    settle(run);
    if (estimates_) monitor.scale_norms(1);
    if (drift_.on()) layout::axpy(T(1), group(run), run.d);
    end(run, monitor);
  }

  void serve_again() override { step_.recall(first_ ? 0 : iterations_); }

  std::string step_down() override {
    if (!std::exchange(lost_, false) || !step_.halve()) return {};
    return message("from there its blocks are of ", step_.most(), step_.most() == 1 ? " iteration" : " iterations");
  }

 protected:
  using W = exec::wide_t<T>;
  using Vector = layout::Vector<T, M>;
  enum class Ending {
    whole,    // r, p and their scalars are known
    half,     // r - alpha A p is the residual, and at the goal
    blurred,  // r is known, but its norm or (r0, r) is below rounding error: both are computed from r itself
    lost,     // the basis has lost its digits: no more iterations in this block
    broken    // a scalar vanished
  };
  static constexpr double unit = std::numeric_limits<real_t<T>>::epsilon();

  /// reach: products of an iteration. clear: the largest relative rounding error of an inner product that is used.
  /// spare: the index of a scratch vector of the workspace, for replacements; vector 0 is the group's.
  SStepIteration(const char* name, const Options& options, int step, int reach, double clear, std::size_t spare)
      : name_(name),
        reach_(reach),
        spare_(spare),
        powers_(options.powers.value_or(op::Powers::products)),
        adapts_(options.fallbacks),
        max_norm_(options.norm == Norm::max),
        estimates_(max_norm_),
        step_(options.step.value_or(step), options.fallbacks, unit, clear),
        shifts_(reach * step_.most()),
        bases_(options.basis.value_or(Basis::automatic), reach * step_.most()),
        drift_(options.replacement, unit) {
    const int most = columns(step_.most());
    y_.reserve(most);
    for (auto* v : {&a_, &c_, &e_, &Ta_}) v->resize(most);
    for (auto& v : out_) v.resize(most);
  }

  /// Starts a run, with p = r.
  virtual void begin(const Run<T, M>& run, Monitor& monitor) {
    step_.begin();
    shifts_.begin();
    norm_ = monitor.norm();
    drift_.begin(norm_);
    ratio_ = 1;
    first_ = e_is_zero_ = true;
    start(run);
    if (drift_.on()) layout::fill(group(run), T(0));
    monitor.solution_by([&](void* x) {
      settle(run);
      auto whole = run.d;
      if (drift_.on()) layout::axpy(T(1), group(run), whole);
      if (!e_is_zero_) take_step(run, whole);
      solution(whole, T(0), whole, x);
    });
  }
  virtual void end(const Run<T, M>&, const Monitor&) {}
  /// Takes steps of finished blocks that have been put off.
  virtual void settle(const Run<T, M>&) {}
  /// p := r := run.r
  virtual void start(const Run<T, M>& run) {
    auto& v = *pairs_.first(run.r.space(), 1)[0];
    for (const int c : {0, 1}) exec::pair_put<T, M>(run.r.data(), c, v.data(), run.r.size());
  }
  /// r := this one
  virtual void put_residual(const Vector& r) { exec::pair_put<T, M>(r.data(), 1, pairs_[0].data(), r.size()); }
  /// max |r_i| of this rank's rows, r being that of the block's beginning or end. Local.
  virtual double largest_here(const Run<T, M>& run) {
    return exec::largest_magnitude<T, M>(pairs_[0].data() + 1, run.r.size(), 2);
  }
  /// The norm that the monitor is given, from r itself: here max |r_i|.
  virtual double norm_of_residual(const Run<T, M>& run) {
    double norm = largest_here(run);
    run.r.space().start_sum(&norm, 1, comm::Operation::max).wait(&norm);
    return norm;
  }
  /// sums[0 .. count) become those of all ranks and, with norm max, largest_ is the largest magnitude of r; `sums` has
  /// room for one more. One reduction.
  void reduce(const Run<T, M>& run, W* sums, std::size_t count) {
    const auto& space = run.r.space();
    if (!max_norm_) return space.start_sum(sums, count).wait(sums);
    double* const numbers = reinterpret_cast<double*>(sums);
    const std::size_t end = count * (sizeof(W) / sizeof(double));
    numbers[end] = largest_here(run);
    space.sum_and_max({numbers, end + 1});
    largest_ = numbers[end];
  }
  /// Within a block the monitor's norm is norm_ times this: of the norms of r as they are now, both known.
  void set_ratio(double norm) {
    if (norm_ > 0) ratio_ = norm / norm_;
  }
  virtual void make_basis(const Run<T, M>& run, int s) = 0;
  /// The sums of a block. False where one of them is not finite.
  virtual bool gram(const Run<T, M>& run, int s) = 0;
  /// Sets the scalars that the first iteration of a block begins with.
  virtual void enter(const Run<T, M>& run, Monitor& monitor) = 0;
  /// Iteration j of a block, in coordinates.
  virtual Ending iterate(const Run<T, M>& run, Monitor& monitor, int j) = 0;
  /// x += Y e
  virtual void take_step(const Run<T, M>& run, Vector& x) = 0;
  /// From coordinates to vectors. more: the run goes on, as far as is known. Where the ending is blurred, norm_ (and
  /// the ratio) are computed from r.
  virtual void leave(const Run<T, M>& run, Monitor& monitor, int done, Ending ending, bool more) = 0;
  /// Called when r and p are formed as vectors; norm_ is the norm of r.
  virtual void look(const Run<T, M>&) {}
  /// After a block with `done` iterations, which lost its digits or not: is it worth going on?
  virtual bool pays(Monitor&, int /*done*/, bool /*lost*/) { return true; }

  int columns(int s) const { return 2 * reach_ * s + 1; }
  /// What has been added to d since the residual was last computed anew.
  Vector& group(const Run<T, M>& run) const { return drift_.on() ? run.w[0] : run.d; }
  const T* narrow(const std::vector<W>& x, int which) {
    std::transform(x.begin(), x.begin() + y_.columns(), out_[which].begin(), [](W v) { return T(v); });
    return out_[which].data();
  }
  /// The recurrence of the vectors of Y.
  void renew_recurrence(const Run<T, M>& run) {
    const double largest = run.P ? 0 : run.A.largest();
    bases_.renew(shifts_, A_norm_, largest > 0 ? largest : 1);
  }
  /// The pairs of Y for s iterations, and their recurrence.
  auto renew_basis(const Run<T, M>& run, int s) {
    renew_recurrence(run);
    return pairs_.first(run.r.space(), reach_ * s + 1);
  }
  auto steps(int s) const { return bases_.steps(s, reach_ * s); }

  /// Is the relative rounding error of a value, computed from terms of this size, above the limit?
  bool blurs(double size, double value, double limit) {
    const double noise = value > 0 ? unit * size / value : std::numeric_limits<double>::infinity();
    if (noise <= limit) noise_ = std::max(noise_, noise);
    return !(noise <= limit);
  }
  /// Called after the step e of a block was added. Recomputes r := b - A d where that is due; true if so.
  bool replace_residual(const Run<T, M>& run, Coordinates<T>& plain, int done, bool may) {
    const double size = plain.size(e_), length = std::sqrt(std::max(plain.square(e_), 0.0));
    e_is_zero_ = true;
    drift_.step(done, size, length, std::max(A_norm_, shifts_.largest()));
    if (!may || !drift_.due(norm_)) return false;
    settle(run);
    layout::axpy(T(1), group(run), run.d);
    layout::fill(group(run), T(0));
    auto& Ax = run.w[spare_];
    run.A.apply(run.d, Ax);
    layout::subtract(run.r, Ax, Ax);
    put_residual(Ax);
    drift_.replaced();
    return true;
  }

  const char* name_;
  const int reach_;
  const std::size_t spare_;
  op::Powers powers_;
  bool adapts_, max_norm_;
  bool estimates_;  // within a block the monitor's norm is estimated, as norm_ times ratio_
  bool first_ = true, lost_ = false, e_is_zero_ = true;
  Step step_;
  Shifts<T> shifts_;
  Bases<T> bases_;
  Drift drift_;
  Pairs<T, M> pairs_, images_;
  Coordinates<T> y_;
  std::vector<W> sums_, a_, c_, e_, Ta_;
  std::vector<T> out_[3];
  double norm_ = 0, noise_ = 0, A_norm_ = 0, ratio_ = 1, largest_ = 0;
  double work_ = 0;  // operations of a block on coordinates

 private:
  int iterations_ = 0;  // of the solve, so far

  bool block(const Run<T, M>& run, Monitor& monitor) {
    const int s = step_.next(monitor.max_iterations() - monitor.iterations());
    make_basis(run, s);   // Y
    if (!gram(run, s)) {  // G
      if (!adapts_ || s == 1)
        return monitor.breakdown("(r, r)", std::numeric_limits<double>::quiet_NaN(), "the Krylov basis is not finite");
      change_step(monitor, s, 0, 1);
      return true;
    }
    for (auto* v : {&a_, &c_, &e_}) std::fill_n(v->begin(), columns(s), W(0));
    a_[0] = c_[1] = W(1);  // p = Y a, r = Y c
    A_norm_ = std::max(A_norm_, y_.stretch());
    enter(run, monitor);
    if (max_norm_) set_ratio(largest_);
    first_ = false;
    noise_ = work_ = 0;
    bool more = true, late = false;  // late: the monitor is asked when the vectors are there
    Ending ending = Ending::whole;
    int done = 0;
    for (; done < s && more && !late; ++done) {
      if (estimates_) monitor.scale_norms(ratio_);
      ending = iterate(run, monitor, done);
      if (ending == Ending::lost) break;
      if (ending == Ending::broken) more = false;
      else if (ending == Ending::blurred || (estimates_ && norm_ * ratio_ <= monitor.goal())) late = true;
      else more = monitor.go_on(norm_);
    }
    Trace::work("coordinates", 0, work_);
    const bool lost = done < s && (ending == Ending::lost || ending == Ending::blurred);
    lost_ = lost && s > 1;
    leave(run, monitor, done, ending, more);
    if (late) {
      const double norm = !estimates_ ? norm_ : ending == Ending::blurred ? norm_ * ratio_ : norm_of_residual(run);
      if (estimates_) monitor.scale_norms(1), set_ratio(norm);
      more = monitor.go_on(norm);
    }
    iterations_ = monitor.iterations();
    if (more && ending == Ending::half)
      more = monitor.breakdown("(s, s)", norm_ * norm_, "the half step leaves nothing to go on with");
    look(run);
    if (!more) return false;
    change_step(monitor, s, lost ? done : s, noise_);
    return pays(monitor, done, lost);
  }
  void change_step(Monitor& monitor, int s, int done, double noise) {
    if (!step_.after(s, done, noise)) return;
    monitor.note(message("a basis for ", s, " iterations lost its digits; from iteration ", monitor.iterations(), " ",
                         name_, "'s blocks are shorter, ", step_.limit(), " at first"));
  }
};

}  // namespace tacit::krylov
