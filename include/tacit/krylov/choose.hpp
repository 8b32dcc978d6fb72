// choose: what Method::automatic takes, by counting what an iteration moves and waits for.
#pragma once

#include <tacit/krylov/options.hpp>

#include <span>
#include <string>

namespace tacit::krylov {

/// What the parts of an iteration cost, in seconds; the same on all ranks.
struct Prices {
  double product = 0, precondition = 0;  ///< one apply of A, of P
  double vector = 0;                     ///< one pass over a vector
  double sum = 0;                        ///< an all-reduce from its start to its end
  int restart = default_restart;
};

/// Predicted seconds of one iteration (one product of cg or gmres): products, vector traffic as in
/// docs/theory/methods.md, and those parts of sums that no product hides. Local.
double seconds_an_iteration(Method method, const Prices& prices);

/// The cheapest of `candidates`, the first of which is the classical method; another one is only taken when it is
/// predicted to need at most `margin` of the classical method's time. `why` says how the choice came about. Local.
Method cheapest(std::span<const Method> candidates, const Prices& prices, double margin, std::string& why);

}  // namespace tacit::krylov
