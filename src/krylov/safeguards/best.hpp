// The best iterate of methods whose residuals jump: what a run leaves that fails.
#pragma once

#include <tacit/krylov/monitor.hpp>
#include <tacit/layout/vector.hpp>

namespace tacit::krylov {

/// Keeps d in a vector of its own, once a decade of the residual. `write(to)` writes d.
template <Scalar T, Memory M>
class Best {
 public:
  using Vector = layout::Vector<T, M>;
  /// d = 0 with this residual.
  Best(Vector& kept, double norm) : kept_(kept), norm_(norm) { layout::fill(kept, T(0)); }

  template <class F>
  void look(double norm, const F& write, double decade = 0.1) {
    if (norm < decade * norm_) write(kept_), norm_ = norm;
  }
  /// Is the last d, with this residual, worse than the one that was kept, and no claim?
  bool stays(double norm, const Monitor& monitor) const {
    return monitor.outcome() != Outcome::claims && !(norm <= norm_);
  }

 private:
  Vector& kept_;
  double norm_;
};

}  // namespace tacit::krylov
