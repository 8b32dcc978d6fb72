// What the driver tries where a method makes no more progress; part of solve_impl.hpp.
#pragma once

namespace tacit::krylov {
namespace {

/// Takes the next fallback; false where none is left. Collective.
template <Scalar T, Memory M>
bool Solve<T, M>::fall_back(Monitor& monitor) {
  if (!options_.fallbacks) return false;
  const std::string why =
      !monitor.detail().empty()
          ? monitor.detail()
          : message(monitor.outcome() == Outcome::slow       ? "slow up to iteration "
                    : monitor.outcome() == Outcome::too_bold ? "its basis had lost too many digits by iteration "
                                                             : "no progress in iteration ",
                    monitor.iterations());
  // Diagonal scaling comes first: a badly scaled A would stop the classical method too.
  if (scale_by_diagonal()) {
    report_.warnings.push_back(message(to_string(method_), " got no further (", why,
                                       "); it went on with the inverse diagonal as preconditioner"));
    iteration_.reset();  // its Ritz values and steps are those of another operator
    return true;
  }
  const Method classical = classical_of(method_);
  const bool variant = classical != method_;
  // A variant goes down its own ladder, then to the classical method from the best iterate.
  if (!variant || monitor.outcome() != Outcome::slow) {
    if (const auto taken = iteration_->step_down(); !taken.empty()) {
      if (!variant && failure_.detail.empty()) failure_ = {monitor.outcome(), monitor.detail()};
      report_.warnings.push_back(message(to_string(method_), " got no further (", why, "); ", taken));
      return true;
    }
  }
  if (!variant) return false;
  report_.warnings.push_back(
      message(to_string(method_), " got no further (", why, "); ", to_string(classical), " went on from there"));
  set_method(classical);
  return true;
}

template <Scalar T, Memory M>
int Solve<T, M>::longest_cycle() const {
  if (options_.restart || !options_.fallbacks) return options_.restart.value_or(default_restart);
  return int(std::clamp<Global>(space_.size(), default_restart, 4 * default_restart));
}
/// Doubles the cycles where the present ones would not reach the goal within the iterations that are left.
template <Scalar T, Memory M>
void Solve<T, M>::lengthen_cycle(double gain, double norm, const Monitor& monitor) {
  if (restart_ >= longest_cycle()) return;
  const double wanted =
      gain < 1 ? std::log(goal_ / norm) / std::log(gain) * restart_ : std::numeric_limits<double>::infinity();
  if (goal_ > 0 && wanted < monitor.max_iterations() - monitor.iterations()) return;
  const int longer = std::min(2 * restart_, longest_cycle());
  if (!iteration_->lengthen(longer)) return;
  restart_ = longer;
  report_.warnings.push_back(message(to_string(method_), " was slow; from iteration ", monitor.iterations(),
                                     " its cycles are of ", restart_, " vectors"));
}

/// There is no P; D is positive (for gmres and bicgstab: not zero; for minres its magnitudes are taken) and varies by a
/// factor above 4. Computed once. Collective.
template <Scalar T, Memory M>
bool Solve<T, M>::diagonal_varies() {
  if (P_ || diagonal_looked_at_ || method_ == Method::richardson || !given_A_->has_diagonal())
    return !P_ && !inverse_.empty();
  diagonal_looked_at_ = true;
  const bool positive = classical_of(method_) == Method::cg || method_ == Method::chebyshev;
  auto d = given_A_->diagonal();
  double low = std::numeric_limits<double>::infinity(), high = 0;
  bool fits = true;
  for (T& a : d) {
    if (negated_) a = -a;
    for (int e = -a_exponent_; e != 0;) {
      const int now = std::clamp(e, -1000, 1000);
      a *= T(real_t<T>(std::ldexp(1.0, now)));
      e -= now;
    }
    const double size = std::abs(a);
    low = std::min(low, size);
    high = std::max(high, size);
    fits = fits && (!positive || real(a) > 0);
    if (method_ == Method::minres) a = T(real_t<T>(size));
    a = T(1) / a;
    fits = fits && size > 0 && is_finite(a);
  }
  const auto& comm = space_.comm();
  high = comm.all_max(high);
  low = -comm.all_max(-low);
  if (!comm.all(fits) || !(high > 4 * low)) return false;
  inverse_ = std::move(d);
  inverse_.resize(std::max<std::size_t>(inverse_.size(), 1));  // not empty on a rank without rows
  return true;
}

/// P := D^-1 where diagonal_varies().
template <Scalar T, Memory M>
bool Solve<T, M>::scale_by_diagonal() {
  if (!diagonal_varies()) return false;
  Vector<T, M> inverse(space_);
  inverse.assign(std::span<const T>(inverse_).first(std::size_t(space_.local_size())));
  diagonal_ = std::make_unique<op::Diagonal<T, M>>(std::move(inverse), "jacobi");
  inverse_ = {};
  P_ = diagonal_.get();
  report_.precond = "jacobi";
  return true;
}

template <Scalar T, Memory M>
bool Solve<T, M>::change_method(Monitor& monitor) {
  if (!may_change_ || is_gmres(method_)) return false;
  report_.warnings.push_back(
      message(to_string(method_), " broke down (", monitor.detail(), "); gmres went on from there"));
  set_method(Method::gmres);
  return true;
}

}  // namespace
}  // namespace tacit::krylov
