// AmgOnDevice: the cycle of algebraic multigrid in the memory of a device.
#pragma once

#include <tacit/precond/amg.hpp>

#include <memory>

namespace tacit::precond {

template <Scalar T, Memory M>
class CycleLevels;

/// x -> one cycle for A u = x from u = 0: that of Amg with the same options, with the same numbers up to rounding. The
/// levels are made on the host (Amg's set-up), then copied; matrices, vectors and the whole cycle stay in memory M. The
/// last level's inverse is a matrix with full rows. New values of A need a new object. M = Host runs the same code on
/// the processor.
/// Set-up: that of Amg, A and its levels being on the host meanwhile. Apply: the products of Amg and a launch for each
/// sweep; nothing waits for the device but the K-cycle's sums. On one rank other cycles are recorded (exec::Repeat),
/// and an apply is two copies and one launch. Memory: all levels, three vectors of each (four with chebyshev, eight
/// with K), and n^2 numbers of the last. Error(usage): as Amg; the smoother gauss-seidel and single_levels. K-cycles
/// take one column.
template <Scalar T, Memory M>
class AmgOnDevice final : public op::Operator<T, M>, public op::Noted, public op::Varying {
 public:
  explicit AmgOnDevice(const op::Csr<T, M>& A, const AmgOptions<T>& options = {});
  ~AmgOnDevice() override;
  std::string name() const override { return "amg"; }
  op::Cost cost() const override { return cost_; }
  bool has_adjoint() const override { return has_adjoint_; }
  bool varies() const override { return varies_; }
  const std::vector<AmgLevel>& levels() const { return report_; }

 protected:
  int begin(const layout::Vector<T, M>&, layout::Vector<T, M>&, bool) const override { return 0; }
  void finish(const layout::Vector<T, M>& x, layout::Vector<T, M>& y, bool adjoint, int token) const override;

 private:
  Cycle cycle_;
  bool has_adjoint_ = false, varies_ = false;
  op::Cost cost_;
  std::vector<AmgLevel> report_;
  std::unique_ptr<CycleLevels<T, M>> levels_;
};

}  // namespace tacit::precond
