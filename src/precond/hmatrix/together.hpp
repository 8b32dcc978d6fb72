// Two parts of the work on a block.
#pragma once

#include "exec/branches.hpp"

#include <utility>

namespace tacit::precond::detail {

/// Runs both functions, on several threads where the blocks are large; done when it returns.
template <class G, class H>
void together(bool large, G&& g, H&& h) {
  if (large) return exec::both(g, h);
  g();
  h();
}

}  // namespace tacit::precond::detail
