// The judge of every solve: methods report convergence; only here is a recomputed b - A x compared with the goal.
//
//   class MySolve : public krylov::OuterIteration { ... };
//   const Verdict verdict = krylov::judge(my_solve, norm of b - A x0, goal);
#pragma once

#include <tacit/comm/communicator.hpp>
#include <tacit/krylov/report.hpp>

#include <cmath>
#include <optional>
#include <string>

namespace tacit::krylov {

/// How a solve ended, and ||b - A x||, recomputed, of the x that it keeps.
struct Verdict {
  Reason reason = Reason::max_iterations;
  std::string detail, advice;  ///< as in Report
  double norm = 0;
};

/// A solve as the judge drives it: Krylov runs or multigrid cycles. It has two vectors: x, the accepted solution, which
/// changes by accept() only, and the trial, which is x plus the correction of the last run. All functions are
/// collective and return the same on all ranks.
class OuterIteration {
 public:
  virtual ~OuterIteration() = default;
  /// Runs the method from x, whose residual has this norm, and leaves a trial. Returns a verdict (its norm is ignored)
  /// where there is no trial, because the solve cannot go on.
  virtual std::optional<Verdict> run(double norm) = 0;
  /// ||b - A x|| of the trial, recomputed in the arithmetic that "converged" needs. Infinity or NaN: the trial is
  /// worthless, or there is damage().
  virtual double recompute() = 0;
  /// A verdict where the data of the problem are no longer what the solve was given, so that recomputed residuals mean
  /// nothing (Reason::damaged). The judge looks before it returns another verdict than "converged", and where a
  /// residual is not finite; a recompute() at the goal has looked by itself.
  virtual std::optional<Verdict> damage() { return {}; }
  /// Is a trial with this residual, which misses the goal, nearer to the solution than x with `norm`?
  virtual bool is_better(double trial, double norm) { return trial < norm; }
  /// The trial becomes x.
  virtual void accept() = 0;
  /// The trial is dropped; x is what it was, to the last bit.
  virtual void reject() = 0;
  /// Called while the goal is not reached: x now has a residual of `norm`, and had one of `before`. Returns a verdict
  /// (its norm is ignored) where nothing is left to try.
  virtual std::optional<Verdict> next(double before, double norm) = 0;
};

/// Is this residual at the goal? False where the residual is NaN or Inf, or the goal is NaN (b may contain values that
/// are not finite).
inline bool reached(double residual, double goal) {
  return std::isfinite(residual) && residual <= goal;
}

/// Runs until a recomputed residual is at most `goal`, there is damage, or the solve returns a verdict. `norm`: ||b - A
/// x|| of the initial x, recomputed. For `converged` the residual has been recomputed after the last change of x. A
/// trial that is neither at the goal nor better (is_better) never replaces x. Costs one recompute() for each run.
/// Collective; throws what the solve throws.
Verdict judge(OuterIteration& solve, double norm, double goal);

/// A verdict `damaged` where the data of any rank are not intact (op::Operator::intact()), as OuterIteration::damage()
/// gives it. Collective; one reduction.
std::optional<Verdict> damage_on(const comm::Communicator& comm, bool intact);

}  // namespace tacit::krylov
