// Kept: what solves with the same operators and options keep for each other (krylov/repeated.hpp).
#pragma once

#include "krylov/iteration.hpp"
#include "krylov/workspace.hpp"

#include <memory>
#include <optional>

namespace tacit::krylov {

/// A method whose iterations may be used for another system with the same operators: it knows something of these that
/// is worth keeping, and nothing that belongs to one right-hand side.
class ServesAgain {
 public:
  virtual ~ServesAgain() = default;
  /// The next run is that of another system. The same on all ranks. Local.
  virtual void serve_again() = 0;
};

template <Scalar T, Memory M>
struct Kept {
  std::unique_ptr<Iteration<T, M>> iteration;  ///< of the last solve, where it serves again
  std::unique_ptr<Workspace<T, M>> workspace;  ///< made by the first
  std::unique_ptr<layout::Vector<T, M>> residual;
  std::optional<int> sign_of_diagonal;
  int a_exponent = 0;  ///< of the operator that the iteration knows
  bool negated = false;
};

}  // namespace tacit::krylov
