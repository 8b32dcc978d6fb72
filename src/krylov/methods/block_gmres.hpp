// Block GMRES, as one of the columns sees it; the formulas are in ../block_gmres.cpp.
#pragma once

#ifndef __CUDACC__  // columns meet on the host only
#include "../block_search.hpp"
#endif
#include "gmres.hpp"

#include "krylov/iteration.hpp"

#include <memory>

namespace tacit::krylov {

/// One column's part in a cycle of the search; a column alone is a run of gmres.
template <Scalar T, Memory M>
class BlockGmres final : public Iteration<T, M> {
 public:
  explicit BlockGmres(const Options& options)
      : restart_(options.restart.value_or(default_restart)),
        side_(options.side.value_or(Side::right)),
        alone_(options, side_) {}

  void run(const Run<T, M>& run, Monitor& monitor) override {
    if constexpr (std::same_as<M, Host>) {
      if (run.together) return share(run, *run.together, monitor);
    }
    is_alone_ = true;
    alone_.run(run, monitor);
  }
  std::string step_down() override { return is_alone_ ? alone_.step_down() : ""; }
  bool lengthen(int restart) override {
    restart_ = restart;
    return alone_.lengthen(restart);
  }

 private:
  void share(const Run<T, Host>& run, BlockSearch<T>& search, Monitor& monitor) {
    typename BlockSearch<T>::Member own{run};
    own.cycle = restart_;
    own.flexible = run.P && side_ == Side::flexible;
    const bool through = run.P && !own.flexible;  // d = P V y
    const double asked = monitor.norm();
    search.enter(own);
    // In the 2-norm also with Norm::max, because the basis is orthonormal.
    const double factor = own.norm > 0 ? asked / own.norm : 1;
    monitor.scale_norms(factor);
    own.goal = monitor.goal() / factor;
    monitor.confirm_by([&] {
      const double largest = search.largest_of(own);
      if (largest > 0) own.goal = monitor.goal() * (own.norm / largest);
      return largest;
    });
    monitor.solution_by([&](void* x) {
      layout::Vector<T, Host> d(run.d.space()), u(run.d.space());
      search.column(own, (through ? u : d).data());
      if (through) run.P->apply(u, d);
      solution(d, T(0), d, x);
    });
    int steps = 0;
    while (monitor.go_on(own.norm)) {
      if (steps == own.cycle || own.ended) {
        monitor.end(Outcome::cycle_end);
        break;
      }
      ++steps;
      const auto& [scalar, value, meaning] = search.step(own);
      if (scalar && !monitor.breakdown(scalar, value, meaning)) break;
    }
    // As in gmres: where the space is exhausted the recomputed residual decides.
    if (own.ended && monitor.outcome() == Outcome::at_goal) monitor.end(Outcome::cycle_end);
    monitor.solution_by(nullptr);
    search.leave(own);
    if (!through || steps == 0) return;
    layout::copy(run.d, run.w[0]);
    run.P->apply(run.w[0], run.d);
  }

  int restart_;
  Side side_;
  Gmres<T, M> alone_;
  bool is_alone_ = false;
};

template <Scalar T, Memory M>
std::unique_ptr<Iteration<T, M>> make_block_gmres(const Options& options) {
  return std::make_unique<BlockGmres<T, M>>(options);
}

}  // namespace tacit::krylov
