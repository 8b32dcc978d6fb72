#include "krylov/monitor.hpp"

#include <tacit/base/virtual_clock.hpp>

#include <algorithm>

namespace tacit::krylov {

bool Monitor::go_on(double norm) {
  if (options_.norm == Norm::max && !std::exchange(scaled_, true) && norm > 0) factor_ = start_ / norm;
  norm_ = norm * factor_;
  if (confirm_ && norm_ <= goal_ && norm > 0) {
    norm_ = confirm_();
    factor_ = norm_ / norm;
  }
  if (pending_) {
    pending_ = false;
    ++iterations_;
    note_iteration();
    record(norm_);
    if (std::isfinite(norm_)) watch();
    comm_.check_interrupt();
    // Callbacks may answer differently on different ranks (a clock, a file): one that stops stops all.
    if (options_.callback) {
      const bool stop = options_.callback(State{iterations_, norm_ / divisor(), solution_});
      if (options_.callback_stops && !comm_.all(!stop)) return end(Outcome::stopped);
    }
    if (forecast_ && norm_ > goal_ && forecast_->ends(iterations_, norm_ / divisor())) return end(Outcome::stopped);
  }
  if (!std::isfinite(norm_)) return end(Outcome::non_finite);
  if (norm_ <= goal_) return end(Outcome::at_goal);
  if (norm_ > options_.divergence * std::max(b_norm_, start_)) return end(Outcome::diverged);
  if (norm_ < 0.999 * best_) best_ = norm_, best_at_ = iterations_;
  if (iterations_ - best_at_ >= window_) return end(Outcome::no_progress);
  if (halving_ > 0 && iterations_ - start_at_ >= halving_ && best_ > 0.5 * start_) return end(Outcome::no_progress);
  if (iterations_ >= max_iterations_) return end(Outcome::max_iterations);
  if (better_ && iterations_ >= check_at_ && std::exchange(better_, nullptr)()) return end(Outcome::slow);
  pending_ = true;
  return true;
}

bool Monitor::breakdown(const char* scalar, double value, const char* meaning) {
  detail_ =
      std::string(scalar) + " = " + number(value) + " in iteration " + std::to_string(iterations_ + 1) + ": " + meaning;
  return end(std::isfinite(value) ? Outcome::breakdown : Outcome::non_finite);
}

int Monitor::prediction() const {
  if (iterations_ < 20 || !(half_ > 0) || !(lowest_ > 0) || !(goal_ > 0)) return 0;
  const double rate = std::log(half_ / lowest_) / (iterations_ - half_at_);
  const double whole = iterations_ + std::log(lowest_ / goal_) / rate;
  return whole > 0 && whole < std::min(100.0 * iterations_, 1e9) ? int(whole) : -1;
}

}  // namespace tacit::krylov
