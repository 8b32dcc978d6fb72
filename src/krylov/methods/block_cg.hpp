// Block conjugate gradients, as one of the columns sees them; the formulas are in ../block_cg.cpp.
#pragma once

#ifndef __CUDACC__  // columns meet on the host only
#include "../block_search.hpp"
#endif
#include "cg.hpp"

#include "krylov/iteration.hpp"

#include <memory>

namespace tacit::krylov {

/// One column's part in the search; a column alone is a run of cg.
template <Scalar T, Memory M>
class BlockCg final : public Iteration<T, M> {
 public:
  void run(const Run<T, M>& run, Monitor& monitor) override {
    if constexpr (std::same_as<M, Host>) {
      if (run.together) return share(run, *run.together, monitor);
    }
    cg<T, M>(run, monitor);
  }

 private:
  static void share(const Run<T, Host>& run, BlockSearch<T>& search, Monitor& monitor) {
    typename BlockSearch<T>::Member own{run};
    search.enter(own);
    CgGuard guard(monitor);
    monitor.solution_by([&](void* x) { search.column(own, static_cast<T*>(x)); });
    monitor.confirm_by([&] { return search.largest_of(own); });
    while (monitor.go_on(own.norm)) {
      const auto& [scalar, value, meaning] = search.step(own);
      if (scalar && !monitor.breakdown(scalar, value, meaning)) break;
      guard.has_gained(own.gain);
    }
    search.leave(own);
  }
};

template <Scalar T, Memory M>
std::unique_ptr<Iteration<T, M>> make_block_cg(const Options&) {
  return std::make_unique<BlockCg<T, M>>();
}

}  // namespace tacit::krylov
