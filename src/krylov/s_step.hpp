// What the s-step methods share: coordinates in a basis of pairs, the Gram matrix that gives them lengths and angles,
// the step that the arithmetic allows, and Ritz values from the coefficients of the iterations done so far.
#pragma once

#include <tacit/exec/pairs.hpp>
#include <tacit/krylov/change_of_basis.hpp>
#include <tacit/krylov/monitor.hpp>
#include <tacit/krylov/options.hpp>
#include <tacit/krylov/workspace.hpp>

#include <algorithm>
#include <cmath>
#include <complex>
#include <deque>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tacit::krylov {

/// The basis Y = [p, r, B p, B r, B^2 p, ..] of one block as numbers: op Y x = Y (T x) for x without the last pair, and
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

/// How many iterations the next block does. It telescopes: 1, 2, 4 .. up to the most; so easy solves pay little. With
/// `adapts` it is halved where a block lost its digits, and doubled where they allow it.
class Step {
 public:
  /// `unit` is the rounding of the scalar, `clear` the relative rounding of an inner product that is small enough.
  Step(int most, bool adapts, double unit, double clear)
      : most_(most), limit_(most), adapts_(adapts), unit_(unit), clear_(clear) {}

  int most() const { return most_; }
  int limit() const { return limit_; }
  void begin() { now_ = 1; }
  int next(int left) const { return std::min(now_, left); }
  /// A block of `step` iterations, `done` of which could be done; `noise`: the largest relative rounding of a scalar in
  /// it. Returns true when the limit has come down to where it has not been before.
  bool after(int step, int done, double noise) {
    if (!adapts_) {
      now_ = std::min(2 * now_, most_);
      return false;
    }
    if (done < step) {
      limit_ = std::max(1, step / 2);
      while (limit_ > std::max(done, 1)) limit_ /= 2;
      now_ = limit_;
      good_ = 0;
      patience_ = std::min(2 * patience_, 16);
      return std::exchange(least_, std::min(least_, limit_)) > limit_;
    }
    if (limit_ < most_ && ++good_ >= patience_) limit_ = std::min(2 * limit_, most_), good_ = 0;
    // The condition of a basis grows exponentially: twice the step squares it.
    if (noise * (noise / unit_) < 10 * clear_) now_ = std::min(2 * now_, limit_);
    now_ = std::min(now_, limit_);
    return false;
  }
  /// What made blocks short is gone.
  void forgive() { patience_ = 1; }
  /// One rung down for good.
  bool halve() {
    if (limit_ == 1) return false;
    most_ = limit_ = limit_ / 2;
    return true;
  }

 private:
  int most_, limit_, now_ = 1, good_ = 0, patience_ = 1, least_ = std::numeric_limits<int>::max();
  bool adapts_;
  double unit_, clear_;
};

/// Ritz values from the coefficients alpha, beta of a two-term recurrence (CG, BiCG, and so BiCGStab): the eigenvalues
/// of the tridiagonal matrix that it makes. They are renewed whenever there are twice as many.
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
  /// True when there are new values. A broadcast when it is time for them. Values far beyond `norm`, which is about
  /// that of the operator, come from a recurrence that has nearly broken down.
  bool renew(const layout::Space& space, double norm) {
    const int n = int(diagonal_.size());
    if (n == 0 || n < 2 * from_ + 1 || from_ >= wanted_) return false;
    from_ = n;
    std::vector<T> h(std::size_t(n) * n);
    for (int j = 0; j < n; ++j) {
      h[std::size_t(j) * n + j] = T(diagonal_[j]);
      if (j + 1 == n) break;
      const double below = std::sqrt(std::abs(product_[j]));
      h[std::size_t(j) * n + j + 1] = T(real_t<T>(below));
      h[std::size_t(j + 1) * n + j] = below > 0 ? T(product_[j] / below) : T(0);
    }
    auto found = ritz_values<T>(space, h, n, n);
    std::erase_if(found, [&](auto z) { return !(std::abs(z) <= 1.5 * norm); });
    if (found.empty()) return false;
    values_ = std::move(found);
    largest_ = 0;
    for (const auto z : values_) largest_ = std::max(largest_, std::abs(z));
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
  void renew(const layout::Space& space, Shifts<T>& shifts, double norm, double scale) {
    if (!shifts.renew(space, norm) && !short_.empty()) return;
    const auto& values = shifts.values();
    scale = std::exp2(std::ilogb(scale));
    short_ = make_recurrence<T>(Basis::monomial, values, std::min(most_, 4), scale);
    // One or two values tell how large the operator is and not yet where its spectrum lies.
    long_ = make_recurrence<T>(values.size() > 2 ? basis_ : Basis::monomial, values, most_, scale);
  }
  /// The first `count` steps for a block of s iterations. Powers as they are lose nothing in a short block; a shift
  /// would make p and (op - theta) p of a smooth p nearly parallel.
  std::span<const op::RecurrenceStep<T>> steps(int s, int count) const {
    return std::span(s <= 2 ? short_ : long_).first(std::size_t(count));
  }

 private:
  Basis basis_;
  int most_;
  op::Recurrence<T> short_, long_;
};

/// How far the residual of a run may have drifted from f - op u, by a bound of the rounding of what forms both; and so
/// when it is time to compute it anew. Carson, Demmel (2014), doi 10.1137/120902677; van der Vorst, Ye (2000), doi
/// 10.1137/S1064827599353865.
class Drift {
 public:
  /// period: every so many iterations; 0: never; none: by the bound.
  Drift(std::optional<int> period, double unit) : period_(period), unit_(unit) {}

  bool on() const { return !period_ || *period_ > 0; }
  void begin(double r_norm) { *this = Drift(period_, unit_), r_norm_ = r_norm; }
  /// A vector of the block that rounding is relative to.
  void residual(double size) { drift_ += unit_ * size; }
  /// Iterations and the step of a block: `size` of its coordinates, `length` of the vector.
  void step(int iterations, double size, double length, double A_norm) {
    A_norm_ = std::max(A_norm_, A_norm);
    group_ += length;
    drift_ += unit_ * A_norm_ * (size + group_);
    since_ += iterations;
  }
  /// Is it time, with a residual of this norm?
  bool due(double r_norm) {
    if (period_) return *period_ > 0 && since_ >= *period_;
    const double much = std::sqrt(unit_);
    const bool now = drift_ > much * r_norm && before_ <= much * r_norm_ && drift_ > 1.1 * least_;
    before_ = drift_, r_norm_ = r_norm;
    return now;
  }
  void replaced() {
    whole_ += group_, group_ = 0, since_ = 0;
    least_ = before_ = drift_ = unit_ * A_norm_ * whole_;
  }

 private:
  std::optional<int> period_;
  double unit_, drift_ = 0, before_ = 0, least_ = 0, r_norm_ = 0, A_norm_ = 0, whole_ = 0, group_ = 0;
  int since_ = 0;
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

}  // namespace tacit::krylov
