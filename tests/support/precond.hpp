// What tests of preconditioners share: tolerances, messages of wrong use, Galerkin products of multigrid.
#pragma once

#include <tacit/base/error.hpp>
#include <tacit/precond/amg.hpp>

#include "support/reference.hpp"
#include "support/systems.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>

namespace tacit::test {

/// `factor` rounding errors of T.
template <class T>
double tolerance(double factor) {
  return factor * double(std::numeric_limits<real_t<T>>::epsilon());
}

/// What f, which is to throw an Error(usage), says.
inline std::string usage_error(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::usage);
    return e.what();
  }
  return "(nothing was thrown)";
}

/// A_c = P^H A P on each level but the last, by products with vectors. Collective.
template <class T>
void expect_galerkin(const precond::Amg<T>& M) {
  const int levels = int(M.levels().size());
  ASSERT_GE(levels, 2);
  for (int k = 0; k + 1 < levels; ++k) {
    const auto &A = M.matrix(k), &P = M.prolongation(k), &coarse = M.matrix(k + 1);
    const auto e = spread(coarse.domain(), random_vector<T>(coarse.domain().size(), 7));
    layout::Vector<T> fine(A.domain()), product(A.range()), found(coarse.range()), expected(coarse.range());
    P.apply(e, fine);
    A.apply(fine, product);
    P.apply_adjoint(product, expected);
    coarse.apply(e, found);
    const double size = layout::norm(expected);
    layout::axpy(T(-1), expected, found);
    EXPECT_LE(layout::norm(found), tolerance<T>(450) * size) << "level " << k;
  }
}

}  // namespace tacit::test
