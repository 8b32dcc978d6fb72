// Monitor: the one place that decides whether an iteration goes on, and that tells the user about it.
#pragma once

#include <tacit/comm/communicator.hpp>
#include <tacit/krylov/options.hpp>
#include <tacit/krylov/outer.hpp>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace tacit::krylov {

/// How a run of a method ended. `claims` is a belief; the driver (solve.hpp) recomputes b - A x before it says
/// converged.
enum class Outcome {
  claims,
  cycle_end,
  max_iterations,
  breakdown,
  no_progress,
  slow,      ///< a fair trial is over, and there is something better to try
  too_bold,  ///< the variant costs more than it saves: its next rung, please
  diverged,
  non_finite,
  stopped,
  in_vain  ///< too_bold, and what it has done is dropped unless it has made half of the way, in digits
};

class Monitor {
 public:
  /// Norms handed to go_on() are multiplied by `scale` to be compared with `goal`, both on the scale of b.
  Monitor(comm::Communicator comm, const Options& options, double b_norm, double goal, int max_iterations, int window)
      : comm_(std::move(comm)),
        options_(options),
        b_norm_(b_norm),
        goal_(goal),
        max_iterations_(max_iterations),
        window_(window) {}

  /// Starts a run (anew) from a residual of this norm.
  void begin(double norm) {
    if (!std::exchange(begun_, true)) record(norm);
    norm_ = norm;
    start_ = norm;
    best_ = norm;
    best_at_ = iterations_;
    factor_ = 1;
    scaled_ = false;
    confirm_ = nullptr;
    detail_.clear();
  }
  /// The method has seen progress that does not show in the norm of the residual (the error of cg falls all the time,
  /// its residual rises for long). Counts where `patient`: the driver wants to wait.
  void progress() {
    if (patient_) best_at_ = iterations_;
  }
  /// Asks once, at this iteration, whether there is something better to try; the run ends as `slow` if so.
  void ask_at(int iteration, std::function<bool()> better) { ask_at_ = iteration, better_ = std::move(better); }
  void be_patient(bool patient) { patient_ = patient; }
  /// Norms in this run are those of another quantity (the preconditioned residual), `factor` times too small.
  void scale_norms(double factor) { factor_ = factor, scaled_ = true; }
  bool asks_for_max_norm() const { return options_.norm == Norm::max; }
  /// With Norm::max: the largest magnitude of the residual, collective; asked when its 2-norm, times the ratio of the
  /// two last seen (that at the start, first), reaches the goal. Without it the driver alone looks. For the run that
  /// has begun.
  void confirm_by(std::function<double()> largest) {
    if (options_.norm == Norm::max) confirm_ = std::move(largest);
  }

  /// After the work of an iteration (or before the first), with the norm of the residual: may the method go on?
  /// Every argument is the same on all ranks. Local; collective where there is a callback, whose answer ranks agree
  /// upon.
  bool go_on(double norm) {
    if (options_.norm == Norm::max && !std::exchange(scaled_, true) && norm > 0) factor_ = start_ / norm;
    norm_ = norm * factor_;
    if (confirm_ && norm_ <= goal_ && norm > 0) {
      norm_ = confirm_();
      factor_ = norm_ / norm;
    }
    if (pending_) {
      pending_ = false;
      ++iterations_;
      if (std::isfinite(norm_)) record(norm_);
      comm_.check_interrupt();
      // A clock or a file may tell ranks different things: one that wants to stop stops all.
      if (options_.callback) {
        const bool stop = options_.callback(State{iterations_, norm_ / divisor(), solution_});
        if (options_.callback_stops && !comm_.all(!stop)) return end(Outcome::stopped);
      }
    }
    if (!std::isfinite(norm_)) return end(Outcome::non_finite);
    if (norm_ <= goal_) return end(Outcome::claims);
    if (norm_ > options_.divergence * std::max(b_norm_, start_)) return end(Outcome::diverged);
    if (norm_ < 0.999 * best_) best_ = norm_, best_at_ = iterations_;
    if (iterations_ - best_at_ >= window_) return end(Outcome::no_progress);
    if (iterations_ >= max_iterations_) return end(Outcome::max_iterations);
    if (better_ && iterations_ >= ask_at_ && std::exchange(better_, nullptr)()) return end(Outcome::slow);
    pending_ = true;
    return true;
  }
  /// Ends the run with a scalar that vanished (or is not finite): "breakdown: (p, A p) = 0".
  bool breakdown(const char* scalar, double value, const char* meaning) {
    detail_ = std::string(scalar) + " = " + number(value) + " in iteration " + std::to_string(iterations_ + 1) + ": " +
              meaning;
    return end(std::isfinite(value) ? Outcome::breakdown : Outcome::non_finite);
  }
  /// The method cannot begin; the solve ends with this. False, to return.
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

  /// What the user is to know of what the method did (a shorter step, another shadow); becomes a warning of the report.
  void tell(std::string text) { told_.push_back(std::move(text)); }
  std::vector<std::string> take_told() { return std::exchange(told_, {}); }

  /// How x_k of the run is formed for whoever asks in a callback.
  void solution_by(std::function<void(void*)> form) { solution_ = std::move(form); }

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
  comm::Communicator comm_;
  const Options& options_;
  double b_norm_, goal_;
  int max_iterations_, window_;
  int iterations_ = 0, best_at_ = 0, ask_at_ = 0;
  double norm_ = 0, start_ = 0, best_ = 0, factor_ = 1;
  bool begun_ = false, pending_ = false, patient_ = false, scaled_ = false;
  Outcome outcome_ = Outcome::cycle_end;
  std::string detail_;
  std::optional<Verdict> refusal_;
  std::vector<std::string> told_;
  std::vector<double> history_;
  std::function<void(void*)> solution_;
  std::function<bool()> better_;
  std::function<double()> confirm_;
};

}  // namespace tacit::krylov
