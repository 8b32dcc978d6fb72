// Sparse approximate inverses (spai, fsai): the defect that they minimise, patterns, scaling.
#include <tacit/comm/communicator.hpp>
#include <tacit/precond/make.hpp>
#include <tacit/precond/spai.hpp>

#include "support/communicators.hpp"
#include "support/precond.hpp"
#include "support/scalars.hpp"
#include "support/systems.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace tacit::test {
namespace {

using layout::Vector;
using precond::Spai;

template <class T>
class SparseInverse : public testing::Test {};
TYPED_TEST_SUITE(SparseInverse, Scalars);

/// || A M - I ||_F^2
template <class T>
long double defect(const Dense<T>& a, const Dense<T>& m) {
  long double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t j = 0; j < a.size(); ++j) {
      wide_t<T> s = i == j ? -1 : 0;
      for (std::size_t k = 0; k < a.size(); ++k) s += widen(a[i][k]) * widen(m[k][j]);
      sum += std::norm(s);
    }
  return sum;
}

TYPED_TEST(SparseInverse, SpaiMinimisesTheDefectOnThePattern) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        for (const auto& a : {scattered<T>(14, 3, 7), grid<T>(4, 4, 0.2)}) {
          const auto A = a.on(comm);
          const Spai<T> P(*A);
          const auto dense = a.dense();
          auto m = dense_of(P);
          const auto least = defect(dense, m);
          EXPECT_LT(least, 0.9L * a.n);
          for (Global i = 0; i < a.n; ++i)
            for (Global j = 0; j < a.n; ++j) {
              if (dense[i][j] == T(0)) {
                EXPECT_EQ(m[i][j], T(0));
                continue;
              }
              for (const T step : {T(real_t<T>(1e-2)), T(real_t<T>(-1e-2)), real_t<T>(1e-2) * phase<T>(2),
                                   real_t<T>(-1e-2) * phase<T>(2)}) {
                const T kept = m[i][j];
                m[i][j] += step;
                EXPECT_GT(defect(dense, m), least) << i << " " << j;
                m[i][j] = kept;
              }
            }
          expect_adjoint<T>(P);
          expect_columns<T>(P);
        }
      },
      {2, 3});
}

TYPED_TEST(SparseInverse, SpaiIsTheSameForAnyNumberOfRanksAndLocalIsNot) {
  using T = TypeParam;
  const auto x = random_vector<T>(36, 3);
  on_ranks([&](const comm::Communicator& comm) {
    for (const bool factorised : {false, true}) {
      const auto a = grid<T>(6, 6, factorised ? 0 : 0.2);
      const auto A = a.on(comm);
      const auto one = a.on(comm::Communicator::self());
      const Spai<T> P(*A, {factorised, false}), Q(*one, {factorised, false});
      Vector<T> y(A->range()), z(one->range());
      P.apply(spread(A->range(), x), y);
      Q.apply(spread(one->range(), x), z);
      EXPECT_LE(relative_difference(whole(y), whole(z)), tolerance<T>(20));
      const Spai<T> local(*A, {factorised, true});
      EXPECT_EQ(local.cost().messages, 0);
      local.apply(spread(A->range(), x), y);
      if (comm.size() > 1) {
        EXPECT_GT(relative_difference(whole(y), whole(z)), 1e-3L);
      }
    }
  });
}

TYPED_TEST(SparseInverse, FsaiGivesAUnitDiagonalAndTheRightZeros) {
  using T = TypeParam;
  on_ranks([](const comm::Communicator& comm) {
    const auto a = grid<T>(5, 4);
    const auto A = a.on(comm);
    const Spai<T> P(*A, {.factorised = true});
    EXPECT_EQ(P.name(), "fsai");
    EXPECT_EQ(P.note(), "");
    expect_symmetric_positive<T>(P);
    expect_columns<T>(P);
    const auto g = dense_of(P.matrix()), d = a.dense();
    const auto ga = multiply(g, d);
    for (Global i = 0; i < a.n; ++i) {
      T unit(0);
      for (Global j = 0; j < a.n; ++j) unit += ga[i][j] * conj(g[i][j]);
      EXPECT_LE(std::abs(unit - T(1)), tolerance<T>(20));
      for (Global j = 0; j < i; ++j) {
        EXPECT_LE(d[i][j] != T(0) ? std::abs(ga[i][j]) : 0, tolerance<T>(20));
        EXPECT_EQ(g[j][i], T(0));
      }
    }
    const auto m = dense_of(P);
    T sum(0);
    for (Global k = 0; k < a.n; ++k) sum += conj(g[k][0]) * g[k][1];
    EXPECT_LE(std::abs(m[0][1] - sum), tolerance<T>(20));
    const auto lopsided = grid<T>(5, 4, 0.5).on(comm);
    EXPECT_NE(usage_error([&] { Spai<T> Q(*lopsided, {.factorised = true}); }).find("Hermitian"), std::string::npos);
    const auto negative = a.map([](Global r, Global c, T v) { return r == c && r == 11 ? -v : v; }).on(comm);
    EXPECT_NE(usage_error([&] { Spai<T> Q(*negative, {.factorised = true}); }).find("row 11 "), std::string::npos);
  });
}

TYPED_TEST(SparseInverse, InversesOfBadlyScaledMatricesScaleWithThem) {
  using T = TypeParam;
  using R = real_t<T>;
  const int e = std::same_as<R, double> ? 900 : 100;
  const auto comm = comm::Communicator::self();
  const auto a = grid<T>(5, 5);
  const auto x = random_vector<T>(a.n, 4);
  for (const int sign : {1, -1})
    for (const char* name : {"jacobi", "ilu0", "ic0", "spai", "fsai", "polynomial"}) {
      const auto plain = a.on(comm);
      const auto scaled = a.map([&](Global, Global, T v) { return v * std::ldexp(R(1), sign * e); }).on(comm);
      const auto P = precond::make<T, Host>(name, *plain), Q = precond::make<T, Host>(name, *scaled);
      Vector<T> y(plain->range()), z(scaled->range());
      P->apply(spread(plain->range(), x), y);
      Q->apply(spread(scaled->range(), x), z);
      for (std::size_t i = 0; i < z.size(); ++i) z.data()[i] *= std::ldexp(R(1), sign * e);
      EXPECT_LE(relative_difference(whole(z), whole(y)), tolerance<T>(50)) << name << " " << sign * e;
    }
}

}  // namespace
}  // namespace tacit::test
