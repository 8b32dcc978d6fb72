#pragma once

#include <tacit/precond/make.hpp>
#include <tacit/precond/polynomial.hpp>

namespace tacit::precond {

template <Scalar T, Memory M>
std::unique_ptr<op::Operator<T, M>> make_polynomial(const op::Csr<T, M>& A, const Options& options) {
  PolynomialOptions o;
  o.kind = options.kind.value_or(o.kind);
  o.degree = options.degree.value_or(o.degree);
  o.lambda_min = options.lambda_min, o.lambda_max = options.lambda_max;
  o.relaxation = options.relaxation.value_or(o.relaxation);
  const bool chebyshev = o.kind == PolynomialKind::chebyshev;
  require(!chebyshev || !options.relaxation, "relaxation ", o.relaxation, " is an option of the kind neumann");
  require(chebyshev || !(o.lambda_min || o.lambda_max), "lambda_min and lambda_max are options of the kind chebyshev");
  return std::make_unique<Polynomial<T, M>>(A, o);
}

}  // namespace tacit::precond
