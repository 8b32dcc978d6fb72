// Multigrid on a device: levels, vectors and the whole cycle stay in its memory, so that a cycle costs launches and no
// copies. A preconditioner of every Krylov method on device vectors, and a solver.
#pragma once

#include <tacit/op/operator.hpp>
#include <tacit/precond/multigrid/device_levels.hpp>

#include <memory>
#include <mutex>
#include <string>

namespace tacit::precond {

/// x -> one cycle for A u = x from u = 0. The same levels, passes and options as Multigrid on one rank, with the same
/// numbers up to rounding; any boxes, boundaries and coefficients of 3, 5 and 7 points. Error(usage) for what is not
/// supported: several ranks, wide stencils, the K-cycle, interpolation beyond linear, restriction other than by sums,
/// single_levels (take an operator in float32). M = Host runs the same kernels on the processor.
///
/// Launches of a V-cycle and level: 2 (pre + post) half sweeps, residual with restriction 1, interpolation 1, and one
/// more for each of these where boxes touch or odd periods close; 1 for the bottom. Only norms wait for the device: one
/// a cycle in solve(); an apply waits where A is singular, for two means. Memory: 6 numbers a cell (2 with constant
/// coefficients), 8/7 of it in three dimensions; 2 more with chebyshev, jacobi and l1-jacobi. Source: as Multigrid.
template <Scalar T, Memory M>
class MultigridOnDevice final : public op::Operator<T, M> {
 public:
  /// Error(usage): see above. Error(environment): a CUDA call fails.
  MultigridOnDevice(std::shared_ptr<const op::FiniteVolume<T>> A, const MultigridOptions& options,
                    const ResidentBottom& bottom = {});
  ~MultigridOnDevice() override;
  std::string name() const override { return "multigrid"; }
  op::Cost cost() const override;

  /// As Multigrid::solve, x and b in memory M: cycles from x until ||b - A x|| <= max(rtol ||b||, atol), confirmed by a
  /// residual over all cells; a right-hand side far from 1 is scaled by a power of two, means are removed where A is
  /// singular. Seconds are of the whole solve, levels have none of their own: nothing waits between passes.
  MultigridReport solve(const Vector<T, M>& b, Vector<T, M>& x, const MultigridSolve& options = {}) const;
  int levels() const;
  /// What bottom solves have done so far. Waits for the device.
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
