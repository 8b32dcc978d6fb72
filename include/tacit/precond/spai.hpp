// Spai: an inverse that is a sparse matrix itself, so that an apply is a product: no triangular solves, any memory.
#pragma once

#include <tacit/op/csr.hpp>
#include <tacit/op/noted.hpp>

#include <memory>
#include <string>

namespace tacit::precond {

using layout::Vector;

namespace detail {
template <Scalar T>
class RowSet;
}  // namespace detail

struct SpaiOptions {
  /// M = G^H G, G on the lower triangle of A with G A G^H = I on its pattern: Hermitian positive definite (or negative:
  /// of -A), for cg.
  bool factorised = false;
  /// Couplings between ranks are dropped: an apply sends nothing, and the result depends on the number of ranks.
  bool local = false;
};

/// y = M x, M the sparse approximate inverse on the pattern of A.
///
/// Plain: column j of M minimises ||A m - e_j||_2 over the m whose entries stand where column j of A has some, and on
/// the diagonal: ||A M - I||_F is least on the pattern of A. Grote and Huckle (1997), doi 10.1137/S1064827594276552,
/// with a pattern that is fixed. Small least-squares problems by Householder reflections. Factorised: Kolotilina and
/// Yeremin (1993), doi 10.1137/0614004. Rows whose small matrix is not positive definite take the diagonal alone;
/// note() tells how many. Where all of A's diagonal is negative G is that of -A, and M = -G^H G.
///
/// The same for any number of ranks (unless `local`). Construction is collective: rows of A that belong to ghosts
/// travel once, entries of M once. An apply costs one product with M (factorised: with G and G^H), with its halo
/// exchange. Error(usage): a matrix that has NaN or Inf; factorised: a matrix that is not Hermitian, a diagonal whose
/// signs differ or that has a zero (global row).
template <Scalar T, Memory M = Host>
class Spai final : public op::Operator<T, M>, public op::Noted {
 public:
  explicit Spai(const op::Csr<T, M>& A, const SpaiOptions& options = {});
  std::string name() const override;
  bool has_adjoint() const override { return true; }
  op::Cost cost() const override;
  bool as_tasks() const override { return true; }
  /// M, or G when factorised.
  const op::Csr<T, M>& matrix() const { return *matrix_; }

 protected:
  int begin(const Vector<T, M>&, Vector<T, M>&, bool) const override { return 0; }
  void finish(const Vector<T, M>& x, Vector<T, M>& y, bool adjoint, int) const override;

 private:
  op::Rows<T> rows_of(const op::Csr<T, M>& A);
  op::Rows<T> inverse_of(const detail::RowSet<T>& set, const layout::Space& space);
  SpaiOptions options_;
  bool negative_ = false;  // G is that of -A
  std::unique_ptr<op::Csr<T, M>> matrix_;
  mutable std::unique_ptr<Vector<T, M>> between_;  // G x
};

}  // namespace tacit::precond
