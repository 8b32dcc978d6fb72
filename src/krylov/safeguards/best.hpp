// The best iterate of methods whose residuals vary irregularly: the result of a run that fails.
#pragma once

#include <tacit/layout/vector.hpp>
#include "krylov/monitor.hpp"

namespace tacit::krylov {

/// Copies d to a vector of its own whenever the residual has fallen tenfold. `write(to)` writes d.
template <Scalar T, Memory M>
class Best {
 public:
  using Vector = layout::Vector<T, M>;
  /// Begins with d = 0, which has this residual.
  Best(Vector& kept, double norm) : kept_(kept), norm_(norm) { layout::fill(kept, T(0)); }

  template <class F>
  void look(double norm, const F& write, double decade = 0.1) {
    if (norm < decade * norm_) write(kept_), norm_ = norm;
  }
  /// Whether the kept d is better than the last one, which has this residual. False where that one is at the goal.
  bool stays(double norm, const Monitor& monitor) const {
    return monitor.outcome() != Outcome::at_goal && !(norm <= norm_);
  }

 private:
  Vector& kept_;
  double norm_;
};

}  // namespace tacit::krylov
