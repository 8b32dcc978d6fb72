// Iteration: a method as the driver sees it. It keeps what one run has found out for the next ones (shifts of its
// basis, a step that was too long).
#pragma once

#include <tacit/krylov/options.hpp>
#include "krylov/monitor.hpp"
#include "krylov/workspace.hpp"

#include <memory>
#include <string>

namespace tacit::krylov {

template <Scalar T, Memory M>
class Iteration {
 public:
  virtual ~Iteration() = default;
  /// Solves A d = r from d = 0 until the monitor ends it; leaves the best d known. Collective.
  virtual void run(const Run<T, M>& run, Monitor& monitor) = 0;
  /// Takes the next weaker form of the method (a shorter step, a stronger orthogonalisation, a shallower pipeline) and
  /// describes it; "" where none is left. The same on all ranks. Local.
  virtual std::string step_down() { return {}; }
  /// Uses cycles of this many vectors from the next run on; false where the method has no cycles. The same on all
  /// ranks. Local.
  virtual bool lengthen(int /*restart*/) { return false; }
};

// make_cg<T, M>(options) and so on, for each method, defined in src/krylov/methods/<method>.hpp.
#define TACIT_METHOD(enumerator, ...) \
  template <Scalar T, Memory M>       \
  std::unique_ptr<Iteration<T, M>> make_##enumerator(const Options& options);
#include <tacit/krylov/methods.def>

}  // namespace tacit::krylov
