// The judge of every solve. Methods run and claim; here, and nowhere else, is b - A x compared with what was asked for.
//
//   class MySolve : public krylov::OuterIteration { ... };
//   const Verdict verdict = krylov::judge(my_solve, norm of b - A x0, goal);
#pragma once

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

/// A solve as the judge drives it: Krylov runs, multigrid cycles, solves on several devices. It has two vectors: x, the
/// accepted solution, which changes by accept() only, and the trial, which is x with what the last run has added. Every
/// answer is the same on all ranks; all functions are collective.
class OuterIteration {
 public:
  virtual ~OuterIteration() = default;
  /// Runs the method from x, whose residual has this norm, and leaves a trial. A verdict (its norm does not count)
  /// where there is no trial, because the solve cannot go on.
  virtual std::optional<Verdict> run(double norm) = 0;
  /// ||b - A x|| of the trial, recomputed in the arithmetic that a claim needs. Infinity or NaN: the trial is
  /// worthless.
  virtual double recompute() = 0;
  /// Is a trial with this residual, which misses the goal, nearer to the solution than x with `norm`?
  virtual bool is_better(double trial, double norm) { return trial < norm; }
  /// The trial becomes x.
  virtual void accept() = 0;
  /// The trial is dropped; x is what it was, to the last bit.
  virtual void reject() = 0;
  /// The goal is not reached: x now has a residual of `norm`, and had one of `before`. A verdict (its norm does not
  /// count) where nothing is left to try.
  virtual std::optional<Verdict> next(double before, double norm) = 0;
};

/// Is this residual what was asked for? What is not finite never is, nor where the goal is not (b has values that are
/// none).
inline bool reached(double residual, double goal) {
  return std::isfinite(residual) && residual <= goal;
}

/// Runs until a recomputed residual is at most `goal`, or the solve says that nothing is left to try. `norm` is that of
/// b - A x for the x it begins with, recomputed. What is returned as `converged` has been recomputed after the last
/// change of x, and x is never worse than it was at the start. Beside the runs it costs one recompute() for each.
/// Collective; throws what the solve throws.
Verdict judge(OuterIteration& solve, double norm, double goal);

}  // namespace tacit::krylov
