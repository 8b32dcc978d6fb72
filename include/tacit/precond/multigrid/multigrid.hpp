// Multigrid: geometric multigrid on the cells of a finite-volume operator, as a solver and as a preconditioner.
#pragma once

#include <tacit/base/names.hpp>
#include <tacit/krylov/options.hpp>
#include <tacit/krylov/report.hpp>
#include <tacit/op/cells/finite_volume.hpp>
#include <tacit/op/noted.hpp>
#include <tacit/op/operator.hpp>
#include <tacit/precond/bottom.hpp>
#include <tacit/precond/cycle.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tacit::precond {

using layout::Vector;

enum class Smoother {
  gauss_seidel,  ///< red-black: a half sweep for the cells of even, one for those of odd i + j + k
  chebyshev,     ///< a polynomial in D^-1 A that is small on the upper part of its spectrum
  jacobi,        ///< u += omega D^-1 r
  l1_jacobi      ///< u += D_1^-1 r, D_1 the sums of the rows' magnitudes; always converges for definite A
};
/// Named by the degree of the polynomial along each axis. Above linear: a product of polynomials along the axes with
/// the right averages over cells. Near a boundary corrections use the value (or slope) 0 there, solutions only cells
/// inside.
enum class Interpolation {
  constant,   ///< a coarse cell's value for all its cells
  linear,     ///< 1/4 of the difference to the nearest neighbour along each axis is added
  quadratic,  ///< from 3 coarse cells along an axis: HPGMG's v2
  cubic,      ///< from 4, one more on the child's side
  quartic     ///< from 5: HPGMG's v4
};
using tacit::to_string;

/// A level whose cells may stay on their ranks, with a larger coarsest level on all ranks, or move to fewer ranks. The
/// same on all ranks.
struct Fork {
  int dimensions = 3;
  std::array<Global, 3> cells{};
  int ranks = 1, fewer = 1;  ///< ranks that have cells of it now, and after a move
  Global least_box = 1;      ///< shortest stretch of a box, along the axis that can be coarsened most
  Global smallest_box = 2, agglomerate_below = 4096;
  int sweeps = 4;  ///< pre + post
  std::size_t number_bytes = 8;
  double product = 0, pair = 0;  ///< seconds of the level's product with one column, with two
  double sum = 0;                ///< seconds of an all-reduce
  double bandwidth = 0;          ///< bytes per second of a rank
};
struct ForkChoice {
  bool move = true;
  std::string why;
};

struct MultigridOptions {
  Cycle cycle = Cycle::v;
  Smoother smoother = Smoother::gauss_seidel;
  int pre = 2, post = 2;  ///< sweeps before and after the coarser level (gauss_seidel: two half sweeps each)
  /// Interpolation of corrections. [constant; quadratic with the fourth-order stencil]
  std::optional<Interpolation> interpolation;
  /// Restriction of residuals: the adjoint of this interpolation; constant: sums over the children. The cycle is
  /// symmetric where it equals the interpolation of corrections (and `symmetric` is set).
  Interpolation restriction = Interpolation::constant;
  /// Interpolation of solutions by the F-cycle, at least linear. [linear; quartic with the fourth-order stencil]
  std::optional<Interpolation> full_interpolation;
  /// The sweeps after the coarser level mirror those before it (odd cells first): the cycle is then a symmetric
  /// operator, as cg wants it, where the bottom solver is one.
  bool symmetric = false;
  /// omega of jacobi, refused for other smoothers; reduced where D^-1 A has eigenvalues above 2. [6/7]
  std::optional<double> relaxation;
  /// chebyshev smooths [lambda_max / range, lambda_max]; refused for other smoothers. [4]
  std::optional<double> chebyshev_range;
  double omega() const { return relaxation.value_or(6.0 / 7); }
  double range() const { return chebyshev_range.value_or(4); }
  /// An axis is coarsened while its boxes have at least twice as many cells. [2; 4 for u]
  std::optional<Global> smallest_box;
  /// Levels with fewer cells for each rank move to fewer ranks; 0: none moves (u: 0). [4096]
  std::optional<Global> agglomerate_below;
  /// Called where cells would move for the first time and agglomerate_below is not given. `move` = false, on all ranks:
  /// they stay, here and on coarser levels. Empty: they move. Costs a measurement of the machine and six products of
  /// that level.
  std::function<ForkChoice(const Fork&)> agglomerates;
  int levels = 0;  ///< at most; 0: as many as possible
  /// The levels are stored and smoothed in single precision, residuals and solutions in the operator's precision.
  bool single_levels = false;
};

/// Sweeps of the level's smoother where there is no bottom solver, or after one that has failed.
inline constexpr int smoother_sweeps = 24;

/// Seconds and counts of one level, on this rank.
struct LevelReport {
  std::array<Global, 3> cells{};
  Global boxes = 0;  ///< over all ranks, merged ones
  int ranks = 0;     ///< that have cells
  double smooth = 0, residual = 0, interpolation = 0, exchange = 0, bottom = 0, move = 0;
  /// Seconds of steps done in one pass: smooth, residual, restriction (down); interpolation, smooth, norm (up).
  double down = 0, up = 0;
  std::int64_t half_sweeps = 0, exchanges = 0;
};

struct MultigridReport {
  bool converged() const { return reason == krylov::Reason::converged; }
  krylov::Reason reason = krylov::Reason::max_iterations;  ///< converged: the recomputed residual is at the goal
  std::string advice;
  std::string norm;  ///< "2" or "max"
  int cycles = 0;
  double residual_norm = 0;  ///< ||b - A x|| / ||b||, recomputed by the operator
  double b_norm = 0;
  std::vector<double> history;  ///< ||r|| / ||b|| after each cycle, from 0
  std::string bottom, bottom_choice;
  int bottom_solves = 0, bottom_iterations = 0, bottom_failures = 0;
  double seconds = 0;
  std::int64_t reductions = 0, exchanges = 0, messages = 0, bytes = 0;
  std::vector<LevelReport> levels;
  std::vector<std::string> warnings;
};

struct MultigridSolve {
  std::optional<double> rtol;  ///< [default_rtol()]
  double atol = 0;
  int max_cycles = 50;
  krylov::Norm norm = krylov::Norm::max;
  template <Scalar T>
  static constexpr double default_rtol() {
    return std::same_as<T, float> ? krylov::default_rtol<float>() : 1e-10;
  }
  /// Called after each cycle on every rank with its number and ||r|| / ||b||; true on any rank stops all.
  std::function<bool(int, double)> callback;
};

/// x -> one cycle for A u = x from u = 0: an operator like any other, so that every Krylov method may be preconditioned
/// by it; and a solver by itself.
///
/// Levels: cells are joined in pairs along the axes whose cells are smallest, the last of an odd number in a triple;
/// coarse cells do not cross the ends of boxes. Coefficients are averaged (rediscretisation). Wide stencils
/// (op::CellStencil) are kept where pairs of cells are joined and at least four are left, coarser levels have 7 points;
/// Gauss-Seidel then does Jacobi's step within a colour, with one exchange for each half sweep, and no wavefront. Where
/// the boxes of a level become too small for the work to pay for its messages, they move to fewer ranks
/// (agglomerate_below). On one rank all half sweeps, the residual and its restriction pass over the level as one
/// wavefront of planes or tiles (the same bits as one after the other, for any number of threads). On several ranks
/// there is one exchange for each half sweep, or one for a whole wavefront where every rank has a slab of whole planes.
/// Memory: 6 numbers a cell (u, f, 1/D, 3 coefficients), 8/7 of it with all levels in three dimensions.
/// Source: Brandt (1977), doi 10.1090/S0025-5718-1977-0431719-X; the parts as in Williams et al., s-step Krylov
/// subspace methods as bottom solvers for geometric multigrid (2014), doi 10.1109/IPDPS.2014.119.
template <Scalar T>
class Multigrid final : public op::Operator<T, Host>, public op::Varying {
 public:
  /// `bottom` (for single_levels `bottom_single`): the coarsest-level solver; null: sweeps of the smoother. Collective.
  /// Error(usage): options out of range.
  Multigrid(std::shared_ptr<const op::FiniteVolume<T>> A, const MultigridOptions& options, MakeBottom<T> bottom = {},
            MakeBottom<float> bottom_single = {});
  ~Multigrid() override;
  std::string name() const override { return "multigrid"; }
  /// With a K-cycle of three levels or more. (A bottom solver that iterates solves to its own accuracy.)
  bool varies() const override;
  op::Cost cost() const override;

  /// Solves A x = b by cycles from x, until ||b - A x|| <= max(rtol ||b||, atol) (largest magnitude or 2-norm), which
  /// is recomputed by the operator (krylov::judge). A solve that fails leaves an x that is no worse than the initial
  /// one. For a singular A the mean of b and of x is removed; where the mean of b is above rounding error, there is a
  /// warning. Memory: 2 vectors, 1 more where x is not 0, and 1 where cycles gain less than a half. Collective.
  MultigridReport solve(const Vector<T>& b, Vector<T>& x, const MultigridSolve& options = {}) const;
  /// What the levels (the bottom solver) have done since the last call. Local.
  std::vector<LevelReport> take_levels() const;
  BottomReport take_bottom() const;
  int levels() const;
  const op::FiniteVolume<T>& A() const { return *a_; }
  const MultigridOptions& options() const { return options_; }

 protected:
  int begin(const Vector<T, Host>&, Vector<T, Host>&, bool) const override { return 0; }
  void finish(const Vector<T, Host>& x, Vector<T, Host>& y, bool adjoint, int token) const override;

 private:
  struct Parts;
  class Solve;
  std::shared_ptr<const op::FiniteVolume<T>> a_;
  MultigridOptions options_;
  std::unique_ptr<Parts> parts_;
};

namespace detail {
/// False: half sweeps pass over a level one after the other also where they could go together. For tests and
/// benchmarks.
void one_pass(bool together) noexcept;
}  // namespace detail

}  // namespace tacit::precond

template <>
inline constexpr auto tacit::names_of<tacit::precond::Smoother> =
    tacit::named<tacit::precond::Smoother>("smoother", {{tacit::precond::Smoother::gauss_seidel, "gauss-seidel"},
                                                        {tacit::precond::Smoother::chebyshev, "chebyshev"},
                                                        {tacit::precond::Smoother::jacobi, "jacobi"},
                                                        {tacit::precond::Smoother::l1_jacobi, "l1-jacobi"}});

template <>
inline constexpr auto tacit::names_of<tacit::precond::Interpolation> = tacit::named<tacit::precond::Interpolation>(
    "interpolation", {{tacit::precond::Interpolation::constant, "constant"},
                      {tacit::precond::Interpolation::linear, "linear"},
                      {tacit::precond::Interpolation::quadratic, "quadratic"},
                      {tacit::precond::Interpolation::cubic, "cubic"},
                      {tacit::precond::Interpolation::quartic, "quartic"}});
