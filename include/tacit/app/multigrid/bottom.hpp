// Coarsest-level solvers of multigrid: any Krylov method, with fallbacks.
#pragma once

#include <tacit/krylov/options.hpp>
#include <tacit/precond/multigrid/multigrid.hpp>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tacit::app {

struct BottomOptions {
  /// "automatic", "direct", "smoother", or the name of a Krylov method. automatic: direct up to 512 cells (1024 on one
  /// rank), bicgstab on one rank, else bicgstab or ca-bicgstab with s = 2, 4 or 8 by predicted time (from measured
  /// reductions and products); with make_multigrid it also decides whether cells move to fewer ranks.
  std::string name = "automatic";
  /// Options of the Krylov method: rtol is the factor by which a coarsest-level solve reduces its residual [1e-3], in
  /// the norm `norm` [max], within max_iterations [1000]. Where `name` is a Krylov method, also step, basis, powers and
  /// others as in krylov::solve.
  krylov::Options krylov = defaults();

  static krylov::Options defaults() {
    krylov::Options o;
    o.rtol = 1e-3;
    o.norm = krylov::Norm::max;
    o.max_iterations = 1000;
    o.history = false;
    return o;
  }
};

/// The options of multigrid as users give them: one table for Python, the command line and documents.
struct MultigridRequest {
  precond::MultigridOptions levels;
  BottomOptions bottom;
  std::optional<Global>
      bottom_cells;  ///< on a device: the coarsest level is the first one of at most this many cells [4096]
};
std::span<const Option<MultigridRequest>> multigrid_options();
std::span<const Option<precond::MultigridSolve>> multigrid_solve_options();

/// The coarsest-level solver of this name; null (the smoother) for "smoother". A Krylov method that does not converge
/// (with its own fallbacks) is followed, for the remaining residual, by its classical variant, and then by the level's
/// smoother; each is reported in MultigridReport::warnings. Where one rank has all cells of the level, it solves alone,
/// and one reduction informs the others of the outcome. Error(usage): unknown names, options that do not fit.
template <Scalar T>
precond::MakeBottom<T> make_bottom(const BottomOptions& options);

/// The costs of the operations of a coarsest-level solve on the slowest rank, in seconds; the same on all ranks.
struct BottomPrices {
  double product = 0, pair = 0;  ///< A x for one column, for two
  double vector = 0;             ///< one pass over a vector
  double sum = 0;                ///< a reduction
};
/// Predicted seconds of an iteration of bicgstab (step 0) or ca-bicgstab with `step`. Local.
double seconds_an_iteration(int step, const BottomPrices& prices);
/// The step of least predicted time among 0 (bicgstab), 2, 4, 8; `why` explains it. A larger step must save a tenth of
/// the time. Local.
int cheapest_step(const BottomPrices& prices, std::string& why);
/// Whether to move cells to fewer ranks and coarsen further there, or to leave them and solve a larger coarsest level
/// by a Krylov method, by the predicted time of these levels in one V-cycle. A coarsest level of n cells along its
/// longest axis is assumed to take 2 n iterations (for a reduction by 1e-3, as observed for a model problem). Local.
precond::ForkChoice choose_at(const precond::Fork& fork);

/// Multigrid with this coarsest-level solver. Where agglomerate_below is not given and levels may move, "automatic"
/// also decides whether they do (MultigridReport::bottom_choice). Collective.
template <Scalar T>
std::shared_ptr<precond::Multigrid<T>> make_multigrid(std::shared_ptr<const op::FiniteVolume<T>> A,
                                                      precond::MultigridOptions options, const BottomOptions& bottom);

/// The names that make_bottom accepts.
std::vector<std::string> bottom_names();

}  // namespace tacit::app
