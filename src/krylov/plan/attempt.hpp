// Attempt: what a solve tries next, as a value; and who carries it out.
#pragma once

#include <tacit/krylov/choose.hpp>
#include <tacit/krylov/options.hpp>

#include <optional>
#include <string>

namespace tacit::krylov {

/// What an attempt changes of the one before it.
enum class Change {
  none,            ///< nothing: it goes on from the recomputed residual
  scaled_precond,  ///< P times a power of two
  negated,         ///< -A x = -b
  diagonal,        ///< the inverse diagonal as P
  weaker,          ///< the next weaker form of the method (Iteration::step_down)
  classical,       ///< the method that the present one is a variant of
  gmres,           ///< in place of a method that needs more of A
  longer_cycles    ///< Attempt::restart
};

/// How long an attempt may take while others stand behind it (Forecast).
struct Trial {
  int first = 0;        ///< iterations before the first forecast; 0: the attempt is never given up
  double patience = 0;  ///< iterations still to come that are worth while, however few are done
  bool rests = false;   ///< the residual rests at times: the whole run counts, too
};

struct Attempt {
  Method method = Method::automatic;
  int restart = default_restart;  ///< vectors of a cycle
  Change change = Change::none;
  Trial trial = {};
};

/// Carries out what a plan decides, and measures for it what costs products. Solve<T, M> is one, so that plans are not
/// templates. All functions are collective and return the same on all ranks.
class Executor {
 public:
  virtual ~Executor() = default;
  /// Makes the change, so that the next run is this attempt. Empty where it cannot be made here, or would change
  /// nothing; else what there is to add to the warning.
  virtual std::optional<std::string> take(const Attempt& attempt) = 0;
  /// System::sign_of_diagonal(), diagonal_varies(), is_far_from_hermitian().
  virtual int sign_of_diagonal() = 0;
  virtual bool diagonal_varies() = 0;
  virtual bool is_far_from_hermitian() = 0;
  /// Of a product and an apply of P, measured, and of vectors and sums, on this machine; for cg also of its iterations
  /// and those of ca-cg, where these may be faster.
  virtual Prices prices() = 0;
};

}  // namespace tacit::krylov
