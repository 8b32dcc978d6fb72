// BlockJacobiOnDevice: triangular solves with incomplete factors in the memory of a device.
#pragma once

#include <tacit/precond/block_jacobi.hpp>
#include <tacit/precond/triangular_on_device.hpp>

#include <memory>
#include <string>

namespace tacit::precond {

/// y = B^-1 x, that of BlockJacobi with the same options, with the same numbers up to rounding. The factors are made on
/// the host, then copied; they, vectors and solves stay in memory M. M = Host runs the same code on the processor. New
/// values of A need a new object: this one keeps the factors of the old ones.
/// Construction: that of BlockJacobi, A being on the host meanwhile. Apply: no messages, and nothing waits for the
/// device. Rows are solved level by level, all blocks of a rank at the same time (TriangularOnDevice), in as many
/// launches as levels() and their width ask for; where these are several they are recorded (exec::Repeat), and an apply
/// is three launches: x in, the levels, y out. Memory: the factors and vectors of TriangularOnDevice; not of a
/// Hermitian A, the factors in host memory too, until the first adjoint product has copied their adjoint to M.
/// Error(usage): as BlockJacobi, and 2^30 rows or more on a rank.
template <Scalar T, Memory M>
class BlockJacobiOnDevice final : public op::Operator<T, M>, public op::Noted {
 public:
  explicit BlockJacobiOnDevice(const op::Csr<T, M>& A, const Incomplete& how = {}, int blocks = 1);
  ~BlockJacobiOnDevice() override;
  std::string name() const override { return name_; }
  bool has_adjoint() const override { return true; }
  op::Cost cost() const override { return cost_; }
  /// Solves that wait for each other in an apply, on this rank: the levels of L and of U.
  Local levels() const;
  /// Launches for them, before they are recorded.
  int launches() const;

 protected:
  int begin(const Vector<T, M>&, Vector<T, M>&, bool) const override { return 0; }
  void finish(const Vector<T, M>& x, Vector<T, M>& y, bool adjoint, int token) const override;

 private:
  struct Solve;
  std::string name_;
  op::Cost cost_;
  std::unique_ptr<Solve> solve_;
  mutable std::unique_ptr<Solve> adjoint_;
  mutable std::unique_ptr<TriangularFactors<T>> factors_;  // for the adjoint
  bool hermitian_ = false;
};

}  // namespace tacit::precond
