// Multigrid on a device: levels, vectors and the whole cycle stay in its memory, so that a cycle costs launches and no
// copies but of values that other ranks need. A preconditioner of every Krylov method on device vectors, and a solver.
#pragma once

#include <tacit/op/operator.hpp>
#include <tacit/precond/multigrid/device_levels.hpp>

#include <memory>
#include <mutex>
#include <string>

namespace tacit::precond {

/// x -> one cycle for A u = x from u = 0. The same levels, passes and options as Multigrid, with the same numbers up to
/// rounding; any boxes, boundaries and coefficients of 3, 5 and 7 points, on any number of ranks. Error(usage) for what
/// is not supported: wide stencils, the K-cycle, interpolation beyond linear, restriction other than by sums,
/// single_levels (take an operator in float32). M = Host runs the same kernels on the processor.
///
/// Launches of a V-cycle and level: 2 (pre + post) half sweeps, residual with restriction 1, interpolation 1, and one
/// more for each of these where boxes touch or odd periods close; 1 for the bottom. Only norms wait for the device: one
/// a cycle in solve(); an apply waits where A is singular, for two means. Memory: 6 numbers a cell (2 with constant
/// coefficients), 8/7 of it in three dimensions; 2 more with chebyshev, jacobi and l1-jacobi.
///
/// On ranks each has its own cells on its own device, and levels of few cells move to fewer ranks, as on the host
/// (agglomerate_below). Of a V-cycle each level has one exchange for each half sweep that does not start from zero and
/// one for the residual, two more with linear interpolation (other smoothers: two for each sweep and for the residual);
/// 2 where its cells move. An exchange is a launch that packs, a copy to page-locked memory, messages, a copy back and
/// a launch; the host waits for the first copy and the messages, and only copies within the rank are made meanwhile.
/// Where several ranks have cells of the last level, all get its f by one reduction of as many numbers as it has cells
/// (ResidentBottom::cells, more where `levels` ends above), and each solves the whole system, whose matrix it has (some
/// 20 numbers a cell): with sums in one order, so that all have the same bits and their parts are those of one
/// solution. Devices have to be of one kind for that. An error of one rank is thrown on all. Source: as Multigrid.
template <Scalar T, Memory M>
class MultigridOnDevice final : public op::Operator<T, M> {
 public:
  /// Collective. Error(usage): see above. Error(environment): a CUDA call fails.
  MultigridOnDevice(std::shared_ptr<const op::FiniteVolume<T>> A, const MultigridOptions& options,
                    const ResidentBottom& bottom = {});
  ~MultigridOnDevice() override;
  std::string name() const override { return "multigrid"; }
  op::Cost cost() const override;

  /// As Multigrid::solve, x and b in memory M: cycles from x until ||b - A x|| <= max(rtol ||b||, atol), confirmed by a
  /// residual over all cells; a right-hand side far from 1 is scaled by a power of two, means are removed where A is
  /// singular. Seconds are of the whole solve, levels have none of their own: nothing waits between passes. Collective;
  /// one reduction a cycle beside those of the bottom.
  MultigridReport solve(const Vector<T, M>& b, Vector<T, M>& x, const MultigridSolve& options = {}) const;
  int levels() const;
  /// What bottom solves have done so far on this rank. Waits for the device.
  mg::ResidentCounts bottom() const;
  /// Kernels started so far.
  std::int64_t launches() const;
  const op::FiniteVolume<T>& A() const { return *a_; }
  /// For tests; M = Host only: see mg::DeviceLevels.
  void race_check(bool on) const;

 protected:
  int begin(const Vector<T, M>&, Vector<T, M>&, bool) const override { return 0; }
  void finish(const Vector<T, M>& x, Vector<T, M>& y, bool adjoint, int token) const override;

 private:
  class Solve;
  std::shared_ptr<const op::FiniteVolume<T>> a_;
  MultigridOptions options_;
  std::unique_ptr<mg::DeviceLevels<T, M>> levels_;
};

}  // namespace tacit::precond
