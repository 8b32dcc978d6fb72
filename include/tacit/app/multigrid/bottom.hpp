// Multigrid with a chosen solver of the coarsest level, and the options of both.
#pragma once

#include <tacit/precond/bottom.hpp>
#include <tacit/precond/multigrid/multigrid.hpp>

#include <memory>
#include <string>
#include <vector>

namespace tacit::app {

/// The options of multigrid as users give them: one table for Python, the command line and documents.
struct MultigridRequest {
  precond::MultigridOptions levels;
  precond::BottomOptions bottom;
  std::optional<Global>
      bottom_cells;  ///< on a device: the coarsest level is the first one of at most this many cells [4096]
};
std::span<const Option<MultigridRequest>> multigrid_options();
std::span<const Option<precond::MultigridSolve>> multigrid_solve_options();

/// Whether to move cells to fewer ranks and coarsen further there, or to leave them and solve a larger coarsest level
/// by a Krylov method, by the predicted time of these levels in one V-cycle. A coarsest level of n cells along its
/// longest axis is assumed to take 2 n iterations (for a reduction by 1e-3, as observed for a model problem). Local.
precond::ForkChoice choose_at(const precond::Fork& fork);

/// Multigrid with this coarsest-level solver. Where agglomerate_below is not given and levels may move, "automatic"
/// also decides whether they do (MultigridReport::bottom_choice). Collective.
template <Scalar T>
std::shared_ptr<precond::Multigrid<T>> make_multigrid(std::shared_ptr<const op::FiniteVolume<T>> A,
                                                      precond::MultigridOptions options,
                                                      const precond::BottomOptions& bottom);

}  // namespace tacit::app
