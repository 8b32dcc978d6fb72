// What tests of preconditioners share: tolerances, messages of wrong use, adjoint and columns, Galerkin products of
// multigrid.
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

/// <M x, y> = <x, M^H y>
template <class T>
void expect_adjoint(const op::Operator<T, Host>& m) {
  const auto x = spread(m.domain(), random_vector<T>(m.domain().size(), 5));
  const auto y = spread(m.domain(), random_vector<T>(m.domain().size(), 6));
  layout::Vector<T> mx(m.domain()), my(m.domain());
  m.apply(x, mx);
  m.apply_adjoint(y, my);
  const auto left = layout::dot(y, mx), right = layout::dot(my, x);
  EXPECT_LE(std::abs(left - right), tolerance<T>(100) * layout::norm(mx) * layout::norm(y));
}
/// <M x, y> = <x, M y>, <M x, x> > 0
template <class T>
void expect_symmetric_positive(const op::Operator<T, Host>& m) {
  for (int seed = 0; seed < 4; ++seed) {
    const auto x = spread(m.domain(), random_vector<T>(m.domain().size(), 50 + seed));
    const auto y = spread(m.domain(), random_vector<T>(m.domain().size(), 60 + seed));
    layout::Vector<T> mx(m.domain()), my(m.domain());
    m.apply(x, mx);
    m.apply(y, my);
    const auto left = layout::dot(y, mx), right = layout::dot(my, x);
    EXPECT_LE(std::abs(left - right), tolerance<T>(100) * layout::norm(mx) * layout::norm(y));
    EXPECT_GT(real(layout::dot(x, mx)), 0);
  }
}
/// k interleaved columns give what each column gives alone; with `bits` exactly.
template <class T>
void expect_columns(const op::Operator<T, Host>& m, bool bits = false) {
  const layout::Space& space = m.domain();
  layout::Vector<T> x(space, 3), y(space, 3);
  for (std::size_t i = 0; i < x.size(); ++i) x.data()[i] = noise_of<T>(9, 3 * space.begin() + i);
  m.apply(x, y);
  for (int c = 0; c < 3; ++c) {
    layout::Vector<T> xc(space), yc(space);
    for (std::size_t i = 0; i < xc.size(); ++i) xc.data()[i] = x.data()[3 * i + c];
    m.apply(xc, yc);
    for (std::size_t i = 0; i < xc.size(); ++i)
      EXPECT_LE(std::abs(yc.data()[i] - y.data()[3 * i + c]),
                bits ? 0 : tolerance<T>(50) * (std::abs(yc.data()[i]) + 1));
  }
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
