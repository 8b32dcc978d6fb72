// Forecast: how many iterations an attempt still needs, and whether that is too many.
#pragma once

#include "attempt.hpp"

#include <limits>
#include <vector>

namespace tacit::krylov {

/// Looks after `trial.first` iterations, and again whenever their number has doubled: predicts the iterations still to
/// come from the last half of those done, and gives the attempt up where they are more than `trial.patience` and more
/// than those done. Depends on residuals only, so that ranks agree. Memory: a number for each iteration.
class Forecast {
 public:
  /// `goal`: the residual to be reached, relative to ||b||.
  Forecast(const Trial& trial, double goal) : trial_(trial), next_(trial.first), goal_(goal) {}

  /// To be called after each iteration; true where the attempt is given up. Local.
  bool ends(int iteration, double residual);
  bool gave_up() const { return gave_up_; }
  /// The iterations still to come at the last look; infinite where the residual does not fall.
  double left() const { return left_; }

 private:
  Trial trial_;
  int next_;
  double goal_, left_ = std::numeric_limits<double>::infinity();
  std::vector<double> low_;  // the smallest residual up to each iteration
  bool gave_up_ = false;
};

}  // namespace tacit::krylov
