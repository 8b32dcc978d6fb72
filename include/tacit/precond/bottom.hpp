// Solvers of the last, coarsest level of a multigrid hierarchy, geometric or algebraic: direct, or any Krylov method.
#pragma once

#include <tacit/base/described.hpp>
#include <tacit/krylov/options.hpp>
#include <tacit/op/csr.hpp>
#include <tacit/op/operator.hpp>

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tacit::precond {

/// The last level as its solver sees it.
template <Scalar T>
struct LastLevel {
  std::shared_ptr<const op::Operator<T, Host>> A;
  std::function<op::Rows<T>()> rows;  ///< A's, of this rank
  int ranks = 1;                      ///< that have unknowns
  /// Where one rank has all unknowns: A on a communicator of that rank alone, null on the others. Local.
  std::function<std::shared_ptr<const op::Operator<T, Host>>()> alone{};
  bool hermitian = false;
  /// A maps constants to zero; right-hand sides come, and solutions go, without their mean.
  bool constants = false;
};

/// What a bottom solve has done; the same on all ranks.
struct BottomOutcome {
  bool solved = true;
  int iterations = 0;
  std::vector<std::string> warnings;
};

/// Solves A u = f on the last level from u = 0, to the accuracy that the solver was made for.
template <Scalar T>
class Bottom {
 public:
  virtual ~Bottom() = default;
  virtual std::string name() const = 0;
  /// Why this solver was chosen, where the choice was automatic.
  virtual std::string choice() const { return {}; }
  /// Whether u depends on f otherwise than linearly, as with methods that iterate to an accuracy.
  virtual bool varies() const { return false; }
  /// The rows of A^-1 on this rank, of a solver that has them (direct). Local.
  virtual std::optional<op::Rows<T>> inverse() const { return {}; }
  /// Any number of columns. Collective over the level's communicator.
  virtual BottomOutcome solve(const layout::Vector<T>& f, layout::Vector<T>& u) = 0;
};
/// Makes the solver of a level; null: the level is left to its smoother. Collective.
template <Scalar T>
using MakeBottom = std::function<std::unique_ptr<Bottom<T>>(const LastLevel<T>&)>;

/// What the bottom solver has done; the same on all ranks.
struct BottomReport {
  std::string name;
  std::string choice;  ///< why it was chosen, and whether a level moved, where this was automatic
  int solves = 0, iterations = 0, failures = 0;
  std::vector<std::string> warnings;

  void add(const BottomOutcome& outcome);
};

/// Exact to rounding, in double precision. For up to 2048 unknowns, where rows have few entries: the factors of the
/// band in reverse Cuthill-McKee order, which every rank holds; else the dense inverse, n^2 numbers on each rank while
/// it is made, its own rows afterwards; whichever is predicted to take less time. A pseudo-inverse where A is singular
/// to rounding; where it maps constants to zero, the inverse on vectors of mean 0. A solve is one reduction of n
/// numbers a column; none where one rank has all unknowns. For more unknowns complete sparse factors on one rank
/// (precond/direct.hpp). Set-up: Error(usage) where there are more unknowns and A maps constants to zero, or the build
/// has no sparse direct solver.
template <Scalar T>
MakeBottom<T> direct_bottom();
/// Levels of more unknowns are not inverted, but factorised.
inline constexpr Global largest_direct = 2048;

struct BottomOptions {
  /// "automatic", "direct", "smoother", or the name of a Krylov method. automatic: direct up to 512 unknowns (1024 on
  /// one rank), bicgstab on one rank, else bicgstab or ca-bicgstab with s = 2, 4 or 8 by predicted time (from measured
  /// reductions and products); with app::make_multigrid it also decides whether cells move to fewer ranks. In Amg: see
  /// AmgShape::bottom.
  std::string name = "automatic";
  /// Options of the Krylov method: rtol is the factor by which a bottom solve reduces its residual [1e-3], in the norm
  /// `norm` [max], within max_iterations [1000]. Where `name` is a Krylov method, also step, basis, powers and others
  /// as in krylov::solve.
  krylov::Options krylov = defaults();

  static krylov::Options defaults();
  bool is_automatic() const { return name == "automatic" || name == "auto"; }
  /// Whether the name is that of a Krylov method.
  bool iterates() const { return !is_automatic() && name != "direct" && name != "smoother"; }
};

/// The names that make_bottom accepts.
std::vector<std::string> bottom_names();
/// The options of a bottom as users give them, once for all tables: `bottom` is the member of Options that they are in.
template <class Options>
std::vector<Option<Options>> bottom_options(BottomOptions Options::*bottom) {
  using B = BottomOptions;
  using K = krylov::Options;
  const char* const named = "of a bottom that names a Krylov method: as in solve";
  return {
      option<Options>("bottom", within(bottom, &B::name), bottom_names(),
                      "solver of the coarsest level; automatic: direct for few unknowns, else of boxes of cells the "
                      "cheapest of bicgstab and ca-bicgstab by measured reductions and products, of amg the smoother")
          .with_options_of("solve"),
      option<Options>("bottom_reduction", within(bottom, &B::krylov, &K::rtol), positive(),
                      "a bottom solve reduces its residual by this factor"),
      option<Options>("bottom_norm", within(bottom, &B::krylov, &K::norm), "of that residual"),
      option<Options>("bottom_max_iterations", within(bottom, &B::krylov, &K::max_iterations),
                      at_least(0, "iterations"), "of a bottom solve", "1000"),
      option<Options>("step", within(bottom, &B::krylov, &K::step), at_least(1, "iteration"), named, "by method"),
      option<Options>("basis", within(bottom, &B::krylov, &K::basis), named, "by method"),
      option<Options>("powers", within(bottom, &B::krylov, &K::powers), named, "products"),
      option<Options>("depth", within(bottom, &B::krylov, &K::depth), at_least(1, "reduction"), named, "by method")};
}

/// The bottom solver of this name; null (the smoother) for "smoother". A Krylov method that does not converge (with its
/// own fallbacks) is followed, for the remaining residual, by its classical variant; where that fails too, by the
/// level's smoother; each is a warning of the report. Columns are solved one after the other. Where one rank has all
/// unknowns of the level, it solves alone, and one reduction informs the others of the outcome. Error(usage): unknown
/// names, options that do not fit.
template <Scalar T>
MakeBottom<T> make_bottom(const BottomOptions& options);

/// The costs of the operations of a bottom solve on the slowest rank, in seconds; the same on all ranks.
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
/// Seconds of A's products with one column and with two, on the slowest rank: three of each. Collective.
template <Scalar T>
std::array<double, 2> measured_products(const op::Operator<T, Host>& A);

}  // namespace tacit::precond
