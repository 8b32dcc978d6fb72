// Monitor: decides after each iteration whether the method goes on, and calls the user's callback.
#pragma once

#include <tacit/comm/communicator.hpp>
#include <tacit/krylov/options.hpp>
#include <tacit/krylov/outer.hpp>
#include "krylov/plan/forecast.hpp"

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace tacit::krylov {

/// How a run of a method ended.
enum class Outcome {
  at_goal,  ///< the residual of the recurrence; the judge (outer.hpp) recomputes b - A x before it says converged
  cycle_end,
  max_iterations,
  breakdown,
  no_progress,
  slow,        ///< check_at() has found something better to try
  too_costly,  ///< the variant costs more than it saves: its next weaker form is taken (Iteration::step_down)
  diverged,
  non_finite,
  stopped,
  discarded  ///< as too_costly, and the correction is dropped unless it gains half of the digits that are missing
};

class Monitor {
 public:
  /// b_norm, goal: on the scale of the norms given to go_on() (times the factor of scale_norms()). window: a run ends
  /// as no_progress after so many iterations without any.
  Monitor(comm::Communicator comm, const Options& options, double b_norm, double goal, int max_iterations, int window)
      : comm_(std::move(comm)),
        options_(options),
        b_norm_(b_norm),
        goal_(goal),
        max_iterations_(max_iterations),
        window_(window) {}

  /// Starts a run, with a residual of this norm.
  void begin(double norm) {
    if (!std::exchange(begun_, true)) record(norm);
    norm_ = norm;
    start_ = norm;
    start_at_ = iterations_;
    best_ = norm;
    best_at_ = iterations_;
    factor_ = 1;
    scaled_ = false;
    confirm_ = nullptr;
    detail_.clear();
  }
  /// The method has made progress that the norm of the residual does not show (the error of cg always falls, its
  /// residual may rise for long). Counts only after be_patient(true).
  void progress() {
    if (patient_) best_at_ = iterations_;
  }
  /// Calls `better` once, at this iteration; the run ends as `slow` if it returns true.
  void check_at(int iteration, std::function<bool()> better) { check_at_ = iteration, better_ = std::move(better); }
  /// The run ends as `stopped` where this forecast (or null) gives the attempt up.
  void end_by(Forecast* forecast) { forecast_ = forecast; }
  void be_patient(bool patient) { patient_ = patient; }
  /// Runs end as no_progress, too, where after so many iterations (0: any number) their residual has never halved.
  void halve_within(int iterations) { halving_ = iterations; }
  /// The norms of this run are those of another quantity (the preconditioned residual): multiplies them by `factor`.
  void scale_norms(double factor) { factor_ = factor, scaled_ = true; }
  bool uses_max_norm() const { return options_.norm == Norm::max; }
  /// With Norm::max: `largest` returns the largest magnitude of the residual (collective). It is called when the 2-norm
  /// times the last known ratio of the two norms reaches the goal. Without it only the driver checks the largest
  /// magnitude. For the present run.
  void confirm_by(std::function<double()> largest) {
    if (options_.norm == Norm::max) confirm_ = std::move(largest);
  }

  /// To be called after each iteration, and before the first, with the norm of the residual: may the method go on? The
  /// arguments are the same on all ranks. Local; with a callback that may stop the solve, collective (one reduction).
  bool go_on(double norm);
  /// Ends the run: a scalar has vanished, or is not finite. detail(): "(p, A p) = 0 in iteration 3: MEANING". False.
  bool breakdown(const char* scalar, double value, const char* meaning);
  /// The method cannot begin: the solve ends with this verdict. Returns false.
  bool refuse(Verdict verdict) {
    refusal_ = std::move(verdict);
    return false;
  }
  std::optional<Verdict> take_refusal() { return std::exchange(refusal_, {}); }
  bool end(Outcome outcome) {
    outcome_ = outcome;
    pending_ = false;
    return false;
  }

  /// A note to the user on what the method did (a shorter step, another shadow); becomes a warning of the report.
  void note(std::string text) { notes_.push_back(std::move(text)); }
  std::vector<std::string> take_notes() { return std::exchange(notes_, {}); }

  /// `form` writes this rank's part of x_k of the run to host memory, for callbacks.
  void solution_by(std::function<void(void*)> form) { solution_ = std::move(form); }

  /// The number of iterations at which the lowest residual would reach the goal, at the rate since a quarter to a half
  /// of them: 0 where too little is known, -1 where it is beyond 100 times those done.
  int prediction() const;

  /// The lowest residual after an iteration, as the method believed.
  double lowest() const { return lowest_; }
  /// The iteration in which it last fell, by a thousandth at least.
  int lowest_at() const { return lowest_at_; }

  Outcome outcome() const { return outcome_; }
  int iterations() const { return iterations_; }
  int max_iterations() const { return max_iterations_; }
  double norm() const { return norm_; }
  double goal() const { return goal_; }
  const std::string& detail() const { return detail_; }
  std::vector<double> take_history() { return std::move(history_); }

 private:
  static std::string number(double value);
  double divisor() const { return b_norm_ > 0 ? b_norm_ : 1; }
  void record(double norm) {
    if (options_.history) history_.push_back(norm / divisor());
  }
  /// Keeps the lowest residual, and what it was at the last powers of two.
  void watch() {
    if (norm_ < 0.999 * lowest_) lowest_at_ = iterations_;
    lowest_ = std::min(lowest_, norm_);
    if (iterations_ < mark_at_) return;
    half_ = std::exchange(mark_, lowest_), half_at_ = mark_at_ / 2, mark_at_ *= 2;
  }
  comm::Communicator comm_;
  const Options& options_;
  double b_norm_, goal_;
  int max_iterations_, window_;
  int iterations_ = 0, start_at_ = 0, best_at_ = 0, check_at_ = 0, halving_ = 0;
  double norm_ = 0, start_ = 0, best_ = 0, factor_ = 1;
  double lowest_ = std::numeric_limits<double>::infinity(), half_ = 0, mark_ = 0;
  int lowest_at_ = 0, mark_at_ = 1, half_at_ = 0;
  bool begun_ = false, pending_ = false, patient_ = false, scaled_ = false;
  Outcome outcome_ = Outcome::cycle_end;
  std::string detail_;
  std::optional<Verdict> refusal_;
  std::vector<std::string> notes_;
  std::vector<double> history_;
  std::function<void(void*)> solution_;
  std::function<bool()> better_;
  std::function<double()> confirm_;
  Forecast* forecast_ = nullptr;
};

}  // namespace tacit::krylov

template <>
inline constexpr auto tacit::names_of<tacit::krylov::Outcome> =
    tacit::named<tacit::krylov::Outcome>("outcome", {{tacit::krylov::Outcome::at_goal, "at goal"},
                                                     {tacit::krylov::Outcome::cycle_end, "cycle end"},
                                                     {tacit::krylov::Outcome::max_iterations, "max iterations"},
                                                     {tacit::krylov::Outcome::breakdown, "breakdown"},
                                                     {tacit::krylov::Outcome::no_progress, "no progress"},
                                                     {tacit::krylov::Outcome::slow, "slow"},
                                                     {tacit::krylov::Outcome::too_costly, "too costly"},
                                                     {tacit::krylov::Outcome::diverged, "diverged"},
                                                     {tacit::krylov::Outcome::non_finite, "non-finite"},
                                                     {tacit::krylov::Outcome::stopped, "stopped"},
                                                     {tacit::krylov::Outcome::discarded, "discarded"}});
