#include "forecast.hpp"

#include <algorithm>
#include <cmath>

namespace tacit::krylov {

bool Forecast::ends(int iteration, double residual) {
  if (trial_.first == 0) return false;
  low_.resize(std::size_t(iteration) + 1, low_.empty() ? residual : low_.back());
  low_.back() = std::min(low_.back(), residual);
  if (iteration < next_) return false;
  next_ = 2 * iteration;
  const auto rate_from = [&](int from) { return std::log(low_[std::size_t(from)] / low_.back()) / (iteration - from); };
  double rate = rate_from(iteration / 2);
  if (trial_.rests) rate = std::sqrt(rate * rate_from(0));  // the geometric mean with the rate of the whole run
  left_ = rate > 0 ? std::log(low_.back() / goal_) / rate : std::numeric_limits<double>::infinity();
  gave_up_ = left_ > std::max(trial_.patience, double(iteration));
  return gave_up_;
}

}  // namespace tacit::krylov
