// One level of a hierarchy: what cycles ask of it, whatever its stencil.
#pragma once

#include "../timed.hpp"
#include "transfer.hpp"

#include <tacit/op/cells/finite_volume.hpp>
#include <tacit/precond/multigrid/multigrid.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace tacit::precond::mg {

/// Whether steps pass over a level as one wavefront where they can.
inline std::atomic<bool> one_pass = true;

/// Patches of fewer cells are passed over by one thread.
constexpr std::ptrdiff_t parallel_cells = 1 << 14;

/// A pass over a level, or a step of one.
enum class Work {
  interpolate,  ///< u += the interpolated u of the coarser level, cells of one colour
  first_relax,  ///< u := f / D, cells of one colour: a half sweep from u = 0
  relax,        ///< a half sweep
  restriction,  ///< f of the coarser level := sums of residuals over the children
  norm          ///< largest residual and sum of squares
};
struct Step {
  Work work;
  int colour = 0;
};

/// The transfers between a level and the coarser one.
struct Ways {
  Interpolation interpolation = Interpolation::constant;
  Interpolation restriction = Interpolation::constant;  ///< the adjoint of that interpolation
  Interpolation full = Interpolation::linear;           ///< of solutions, by the F-cycle
};

template <class S>
class Level {
 public:
  virtual ~Level() = default;
  const op::FiniteVolume<S>& A() const { return *a_; }
  Level* coarse() const { return coarse_; }
  /// The coarser level's patches are images of this one's. Collective.
  virtual void connect(Level* coarse, std::array<std::vector<Local>, 3> parent, const Ways& ways) = 0;

  /// All steps, one after the other or behind each other in one pass. Collective.
  virtual void run(std::span<const Step> steps) = 0;
  /// Sweeps of a smoother that needs whole residuals. Collective.
  virtual void smooth_whole(const MultigridOptions& options, int sweeps, bool from_zero) = 0;
  /// After a `norm` step: largest |r| and the sum of squares on this rank.
  double largest = 0, squares = 0;

  // Vectors in the order of the operator.
  virtual void load_f(std::span<const S> f) = 0;
  virtual void load_u(std::span<const S> u) = 0;
  virtual void store_u(std::span<S> u) const = 0;
  virtual void store_f(std::span<S> f) const = 0;
  virtual void add_u(std::span<const S> u) = 0;
  virtual void clear_u() = 0;
  /// r := f - A u. Collective.
  virtual void residual_to(std::span<S> r) = 0;

  /// Whether the correction (the residual) is transferred by a pass of its own, and not as a step.
  bool interpolates_apart() const { return bool(interpolation_); }
  bool restricts_apart() const { return bool(restriction_); }
  /// u += the coarser level's; f of the coarser level := R (f - A u). Collective.
  void interpolate();
  void restrict_residual();
  /// f of the coarser level := sums of f over the children. Collective.
  virtual void restrict_f();
  /// u := the coarser level's u, interpolated without knowledge of what is at the ends. Collective.
  virtual void interpolate_solution();

  /// Whether the residuals are zero at the colour of the last half sweep.
  virtual bool vanishes() const { return false; }
  LevelReport report;

 protected:
  explicit Level(std::shared_ptr<const op::FiniteVolume<S>> A);
  /// The maps that are needed beyond what the level does by itself. Collective.
  void make_maps(const std::array<std::vector<Local>, 3>& parent, const Ways& ways, bool interpolation,
                 bool restriction, bool full, bool sums);
  std::shared_ptr<const op::FiniteVolume<S>> a_;
  Level* coarse_ = nullptr;
  std::unique_ptr<Transfer<S>> interpolation_, restriction_, full_, sums_;

 private:
  std::vector<S> fine_values_, coarse_values_;
};

/// The level for an operator: a RedBlackLevel with 7 points, else a WideLevel. `red_black`: its smoother is
/// Gauss-Seidel; `slabs`: see RedBlackLevel. Collective.
template <class S>
std::unique_ptr<Level<S>> make_level(std::shared_ptr<const op::FiniteVolume<S>> A, bool red_black, bool slabs);

}  // namespace tacit::precond::mg
