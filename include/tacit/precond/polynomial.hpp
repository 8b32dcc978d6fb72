// Polynomial: products with A in place of triangular solves; no reductions, and as parallel as A.
#pragma once

#include <tacit/base/names.hpp>
#include <tacit/precond/jacobi.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tacit::precond {

enum class PolynomialKind {
  chebyshev,  ///< least error over an interval of the spectrum
  neumann     ///< the first terms of the geometric series
};

struct PolynomialOptions {
  PolynomialKind kind = PolynomialKind::chebyshev;
  int degree = 4;  ///< k >= 0: products with A in an apply
  /// Chebyshev: the interval; the spectrum of D^-1 A is estimated (20 steps) for what is absent: lambda_min as found,
  /// lambda_max 1.1 times what was found.
  std::optional<double> lambda_min = {}, lambda_max = {};
  /// Neumann: omega. The series converges where Jacobi's iteration with this relaxation does.
  double relaxation = 1;
};

/// y = p(D^-1 A) D^-1 x, D the diagonal of A and p a fixed polynomial of degree k.
///
/// chebyshev: 1 - t p(t) = T_{k+1}((theta - t) / delta) / T_{k+1}(theta / delta) on [lambda_min, lambda_max], with
/// theta its middle and delta half its length; Saad, Iterative Methods for Sparse Linear Systems (2003),
/// section 12.3.2. neumann: p(t) = omega sum_{i<=k} (1 - omega t)^i; Dubois, Greenbaum and Rodrigue (1979),
/// doi 10.1007/BF02243566. A linear operator, Hermitian when A is; positive definite when A is and no eigenvalue of
/// D^-1 A lies above lambda_max (neumann: above 2 / omega); negative definite when A is, likewise.
///
/// Refers to A, which must outlive it; products are counted by A too. Construction is collective; chebyshev may cost 20
/// products and 41 reductions. An apply is collective: k products, no reduction, k + 1 sweeps of 3 to 8 vectors.
/// Vectors kept: 4. Error(usage): an A without a diagonal, a zero in it (chebyshev: anything but numbers of one sign),
/// a degree < 0, an interval that is not positive, a spectrum that the estimate finds not positive.
template <Scalar T, Memory M = Host>
class Polynomial final : public op::Operator<T, M> {
 public:
  explicit Polynomial(const op::Operator<T, M>& A, const PolynomialOptions& options = {});
  std::string name() const override;
  bool has_adjoint() const override { return a_.has_adjoint(); }
  bool as_tasks() const override { return a_.as_tasks(); }
  op::Cost cost() const override;
  /// The interval of chebyshev.
  double lambda_min() const { return lambda_min_; }
  double lambda_max() const { return lambda_max_; }

 protected:
  int begin(const Vector<T, M>&, Vector<T, M>&, bool) const override { return 0; }
  void finish(const Vector<T, M>& x, Vector<T, M>& y, bool adjoint, int) const override;

 private:
  struct Step {
    real_t<T> a, b;  // p := a p + b D^-1 r
  };
  struct Work {
    Vector<T, M> r, p, v;
  };
  Work& work(int columns) const;
  const op::Operator<T, M>& a_;
  PolynomialOptions options_;
  std::unique_ptr<Jacobi<T, M>> jacobi_;
  double lambda_min_ = 0, lambda_max_ = 0;
  std::vector<Step> steps_;
  mutable std::map<int, std::unique_ptr<Work>> work_;  // by number of columns
};

}  // namespace tacit::precond

template <>
inline constexpr auto tacit::names_of<tacit::precond::PolynomialKind> = tacit::named<tacit::precond::PolynomialKind>(
    "kind of polynomial",
    {{tacit::precond::PolynomialKind::chebyshev, "chebyshev"}, {tacit::precond::PolynomialKind::neumann, "neumann"}});
