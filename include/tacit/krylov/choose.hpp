// choose: selects the method for Method::automatic from predicted times of an iteration (memory traffic and waits).
#pragma once

#include <tacit/krylov/options.hpp>

#include <span>
#include <string>
#include <vector>

namespace tacit::krylov {

/// The costs of the parts of an iteration, in seconds; the same on all ranks.
struct Prices {
  double product = 0, precondition = 0;  ///< one apply of A, of P
  double vector = 0;                     ///< one pass over a vector
  double sum = 0;                        ///< an all-reduce from its start to its end
  /// An iteration of cg and of ca-cg without a stored basis, but for their sums; 0 where they were not tried.
  double cg = 0, ca_cg = 0;
  int restart = default_restart;
};

/// Predicted seconds of one iteration (one product of cg or gmres): products, vector traffic, and those parts of
/// reductions that no product hides. Local. Error(usage): a method that `automatic` never takes.
double seconds_an_iteration(Method method, const Prices& prices);

/// A classical method that auto takes, and the variants of it that auto may take. Local.
std::vector<Method> priced_like(Method classical);

/// The cheapest of `candidates`, the first of which is the classical method; another one is only taken when it is
/// predicted to need at most `margin` of the classical method's time. `why`: the two predicted times, or "" for the
/// classical method. Local.
Method cheapest(std::span<const Method> candidates, const Prices& prices, double margin, std::string& why);

}  // namespace tacit::krylov
