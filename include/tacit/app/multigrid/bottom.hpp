// Bottom solvers of multigrid: any Krylov method on the coarsest level, with its way down where it fails.
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
  /// rank), bicgstab on one rank, else bicgstab or ca-bicgstab with s = 2, 4 or 8 by predicted time (from sums and
  /// products that are measured); and with make_multigrid also whether cells move to fewer ranks.
  std::string name = "automatic";
  /// Of the Krylov method: rtol is the factor by which a bottom solve reduces its residual [1e-3], in the norm `norm`
  /// [max], within max_iterations [1000]; step, basis, powers and the rest as everywhere, where `name` is such a
  /// method.
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

/// Multigrid as users say it: one table for Python, the command line and documents.
struct MultigridRequest {
  precond::MultigridOptions levels;
  BottomOptions bottom;
  std::optional<Global> bottom_cells;  ///< of a device: the bottom is the first level of at most so many cells [4096]
};
std::span<const Option<MultigridRequest>> multigrid_options();

/// The bottom solver of this name; null (the smoother) for "smoother". A Krylov method that does not converge is
/// followed, for what is left of the residual, by the classical method that it is a variant of (after the variant's own
/// smaller steps), and then by the level's smoother; each is told in MultigridReport::warnings. Where one rank has all
/// cells of the level it solves alone, and the others learn how it went by one reduction. Error(usage): unknown names
/// and options.
template <Scalar T>
precond::MakeBottom<T> make_bottom(const BottomOptions& options);

/// What the parts of a bottom solve cost on the slowest rank, in seconds; the same on all ranks.
struct BottomPrices {
  double product = 0, pair = 0;  ///< A x for one column, for two
  double vector = 0;             ///< one pass over a vector
  double sum = 0;                ///< an all-reduce
};
/// Predicted seconds of an iteration of bicgstab (step 0) or ca-bicgstab with `step`. Local.
double seconds_an_iteration(int step, const BottomPrices& prices);
/// The step of least predicted time among 0 (bicgstab), 2, 4, 8; `why` says so. A larger step has to save a tenth of
/// the time. Local.
int cheapest_step(const BottomPrices& prices, std::string& why);
/// Whether it pays to move cells to fewer ranks and to coarsen on there, or to leave them and solve a larger bottom by
/// a Krylov method, by the predicted time of what is below the fork in one V-cycle. A bottom of n cells along its
/// longest axis is expected to take 2 n iterations (a reduction by 1e-3; counted in the paper's problem). Local.
precond::ForkChoice choose_at(const precond::Fork& fork);

/// Multigrid with this bottom; "automatic" also decides where agglomerate_below is not given, and levels may move,
/// whether they do. MultigridReport::bottom_choice tells. Collective.
template <Scalar T>
std::shared_ptr<precond::Multigrid<T>> make_multigrid(std::shared_ptr<const op::FiniteVolume<T>> A,
                                                      precond::MultigridOptions options, const BottomOptions& bottom);

/// Names that make_bottom knows.
std::vector<std::string> bottom_names();

}  // namespace tacit::app
