// Repeated: many solves with one operator, as on the coarsest level of a multigrid hierarchy. They share what does not
// depend on the right-hand side, and tell the ranks nothing that a solve's caller does not need.
#pragma once

#include <tacit/krylov/options.hpp>
#include <tacit/krylov/report.hpp>
#include <tacit/layout/vector.hpp>
#include <tacit/op/operator.hpp>

#include <memory>

namespace tacit::krylov {

/// The solver of A x = b for one A, without P, in host memory. As solve() from x = 0, but that
///
/// - an s-step method keeps its basis and its step from one solve to the next, and begins with blocks as long as the
///   last solve's iterations allow: with the 2-norm a solve is 2 reductions and one for each block;
/// - within a collective call of the caller there is no agreement on errors at the end of a solve, since that call ends
///   with one;
/// - seconds, messages and bytes in the reports are those of this rank, and no failure is looked into.
///
/// The numbers of a solve may depend on the solves before it. Vectors are those of the method; they are kept.
template <Scalar T>
class Repeated {
 public:
  /// Local. Error(usage): an A that is not square, options that do not fit.
  Repeated(std::shared_ptr<const op::Operator<T, Host>> A, Options options, bool hermitian = false);
  ~Repeated();
  Repeated(Repeated&&) noexcept;
  /// x is overwritten. Collective.
  Report solve(const layout::Vector<T>& b, layout::Vector<T>& x);
  const Options& options() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace tacit::krylov
