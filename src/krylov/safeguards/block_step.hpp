// The step of s-step methods, adapted to the rounding errors of the basis, and when their residual is recomputed.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

namespace tacit::krylov {

/// How many iterations the next block does: 1, 2, 4 .. up to the most (telescoping), so that easy solves cost little.
/// With `adapts` it is halved where a block lost its digits, and doubled where they allow it.
class Step {
 public:
  /// `unit` is the rounding of the scalar, `clear` the relative rounding of an inner product that is small enough.
  Step(int most, bool adapts, double unit, double clear)
      : most_(most), limit_(most), adapts_(adapts), unit_(unit), clear_(clear) {}

  int most() const { return most_; }
  int limit() const { return limit_; }
  void begin() { now_ = std::exchange(again_, 1); }
  /// The next run solves another system with the same operator, whose last one took so many iterations: it begins with
  /// the longest block that does not exceed them.
  void recall(int iterations) {
    again_ = 1;
    while (2 * again_ <= std::min(iterations, limit_)) again_ *= 2;
    if (limit_ <= iterations) again_ = limit_;
  }
  int next(int left) const { return std::min(now_, left); }
  /// A block of `step` iterations, `done` of which could be done; `noise`: the largest relative rounding error of a
  /// scalar in it. Returns true when the limit has fallen to a new minimum.
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
  /// Forgets earlier failures: the limit may grow again after one good block.
  void forgive() { patience_ = 1; }
  /// Halves the longest step for the rest of the solve; false where it is 1.
  bool halve() {
    if (limit_ == 1) return false;
    most_ = limit_ = limit_ / 2;
    return true;
  }

 private:
  int most_, limit_, now_ = 1, again_ = 1, good_ = 0, patience_ = 1, least_ = std::numeric_limits<int>::max();
  bool adapts_;
  double unit_, clear_;
};

/// Ends a variant whose blocks keep ending early, which costs up to twice the products of the classical method.
class Probation {
 public:
  Probation() = default;
  /// The patience is about the width of a plane grid with n points, at least 16 iterations.
  Probation(std::int64_t n, double norm, int iteration)
      : length_(std::max(16, int(std::sqrt(std::min(double(n), 1e12))))), began_(iteration), norm_(norm) {}

  /// A block of `done` iterations out of `most`, which lost its digits or not.
  void block(int done, bool lost, int most, double norm) {
    whole_ = whole_ && !lost;
    if (norm <= 0.1 * norm_) norm_ = norm, short_ = 0;
    if (!whole_ && done < std::min(3.0, 0.75 * most)) short_ += std::max(done, 1);
  }
  /// Too many iterations in short blocks without the residual falling tenfold.
  bool is_over() const { return short_ >= length_; }
  /// Has so little been done that the classical method should start where the variant did, not from its result?
  bool is_wasted(int iteration) const { return iteration - began_ <= 4 * length_; }

 private:
  bool whole_ = true;  // no block has been cut short
  int length_ = 16, began_ = 0, short_ = 0;
  double norm_ = 0;
};

/// A bound of the difference of a run's recurrence residual and f - op u, by the rounding errors of both, which decides
/// when the residual is recomputed. Carson, Demmel (2014), doi 10.1137/120902677; van der Vorst, Ye (2000), doi
/// 10.1137/S1064827599353865.
class Drift {
 public:
  /// period: of the replacements, in iterations; 0: never; none: by the bound.
  Drift(std::optional<int> period, double unit) : period_(period), unit_(unit) {}

  bool on() const { return !period_ || *period_ > 0; }
  void begin(double r_norm) { *this = Drift(period_, unit_), r_norm_ = r_norm; }
  /// Adds the rounding error of a residual made from numbers of this size.
  void residual(double size) { drift_ += unit_ * size; }
  /// After a block: its iterations, and its step, which has this `size` in coordinates and this length.
  void step(int iterations, double size, double length, double A_norm) {
    A_norm_ = std::max(A_norm_, A_norm);
    group_ += length;
    drift_ += unit_ * A_norm_ * (size + group_);
    since_ += iterations;
  }
  /// Is a residual of this norm to be recomputed?
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

}  // namespace tacit::krylov
