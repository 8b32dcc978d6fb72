// Bottom solvers of multigrid: any Krylov method on the coarsest level, with its way down where it fails.
#pragma once

#include <tacit/krylov/options.hpp>
#include <tacit/precond/multigrid/multigrid.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace tacit::app {

struct BottomOptions {
  /// "automatic" (direct on one rank or up to 512 cells, else ca-bicgstab with s = 4), "direct", "smoother", or the
  /// name of a Krylov method.
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

/// The bottom solver of this name; null (the smoother) for "smoother". A Krylov method that does not converge is
/// followed, for what is left of the residual, by the classical method that it is a variant of (after the variant's own
/// smaller steps), and then by the level's smoother; each is told in MultigridReport::warnings. Where one rank has all
/// cells of the level it solves alone, and the others learn how it went by one reduction. Error(usage): unknown names
/// and options.
template <Scalar T>
precond::MakeBottom<T> make_bottom(const BottomOptions& options);

/// Names that make_bottom knows.
std::vector<std::string> bottom_names();

}  // namespace tacit::app
