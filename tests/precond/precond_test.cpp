// The preconditioners compared with their definitions: dense matrices, patterns, minimisation properties.
#include <tacit/comm/communicator.hpp>
#include <tacit/krylov/solve.hpp>
#include <tacit/layout/ordering.hpp>
#include <tacit/layout/partitioners.hpp>
#include <tacit/op/spectrum.hpp>
#include <tacit/precond/block_jacobi.hpp>
#include <tacit/precond/jacobi.hpp>
#include <tacit/precond/make.hpp>
#include <tacit/precond/matching.hpp>
#include <tacit/precond/polynomial.hpp>
#include <tacit/precond/spai.hpp>

#include "support/communicators.hpp"
#include "support/precond.hpp"
#include "support/scalars.hpp"
#include "support/systems.hpp"
#include "support/threads.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace tacit::test {
namespace {

using layout::Space;
using layout::Vector;
using precond::BlockJacobi;
using precond::BlockOrder;
using precond::Factorisation;
using precond::Incomplete;
using precond::Jacobi;
using precond::Polynomial;
using precond::PolynomialKind;
using precond::PolynomialOptions;
using precond::Spai;

template <class T>
class Precond : public testing::Test {};
TYPED_TEST_SUITE(Precond, Scalars);

/// <M x, y> = <x, M^H y>
template <class T>
void expect_adjoint(const op::Operator<T, Host>& m) {
  const auto x = spread(m.domain(), random_vector<T>(m.domain().size(), 5));
  const auto y = spread(m.domain(), random_vector<T>(m.domain().size(), 6));
  Vector<T> mx(m.domain()), my(m.domain());
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
    Vector<T> mx(m.domain()), my(m.domain());
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
  const Space& space = m.domain();
  Vector<T> x(space, 3), y(space, 3);
  for (std::size_t i = 0; i < x.size(); ++i) x.data()[i] = noise_of<T>(9, 3 * space.begin() + i);
  m.apply(x, y);
  for (int c = 0; c < 3; ++c) {
    Vector<T> xc(space), yc(space);
    for (std::size_t i = 0; i < xc.size(); ++i) xc.data()[i] = x.data()[3 * i + c];
    m.apply(xc, yc);
    for (std::size_t i = 0; i < xc.size(); ++i)
      EXPECT_LE(std::abs(yc.data()[i] - y.data()[3 * i + c]),
                bits ? 0 : tolerance<T>(50) * (std::abs(yc.data()[i]) + 1));
  }
}

TYPED_TEST(Precond, JacobiIsTheInverseOfTheDiagonal) {
  using T = TypeParam;
  on_ranks([](const comm::Communicator& comm) {
    const auto a = scattered<T>(17, 3, 1).map([](Global r, Global c, T v) { return r == c ? v * phase<T>(r + 1) : v; });
    const auto A = a.on(comm);
    const Jacobi<T> P(*A);
    EXPECT_EQ(P.name(), "jacobi");
    ASSERT_NE(P.pointwise(), nullptr);
    const auto m = dense_of(P), d = a.dense();
    for (Global i = 0; i < a.n; ++i)
      for (Global j = 0; j < a.n; ++j) {
        EXPECT_LE(std::abs(m[i][j] * (i == j ? d[i][i] : T(1)) - T(i == j)), i == j ? tolerance<T>(8) : 0);
      }
    expect_adjoint<T>(P);
    expect_columns<T>(P);
    const Jacobi<T> absolute(*A, true);
    expect_symmetric_positive<T>(absolute);
  });
}

TYPED_TEST(Precond, JacobiNamesTheRowThatCannotBeInverted) {
  using T = TypeParam;
  using R = real_t<T>;
  on_ranks([](const comm::Communicator& comm) {
    for (const R bad : {std::numeric_limits<R>::quiet_NaN(), std::numeric_limits<R>::infinity(),
                        std::numeric_limits<R>::denorm_min()}) {
      // Where several ranks have such rows, the error is that of any of them.
      const Global last = comm.size() == 1 ? 10 : 7;
      const auto a = tridiagonal<T>(11, -1, 2, -1).map([&](Global r, Global c, T v) {
        return r == c && r >= 7 && r <= last ? T(bad) : v;
      });
      const auto A = a.on(comm);
      const auto text = usage_error([&] { Jacobi<T> P(*A); });
      EXPECT_NE(text.find("row 7 "), std::string::npos) << text;
    }
  });
}

TYPED_TEST(Precond, JacobiTakesZerosAsTheLargestDiagonalEntry) {
  using T = TypeParam;
  on_ranks([](const comm::Communicator& comm) {
    for (const bool all : {false, true}) {
      const auto entry = [&](Global r) { return all || r % 4 == 1 ? T(0) : T(-real_t<T>(1 + r % 3)); };
      const auto a = tridiagonal<T>(11, -1, 2, -1).map([&](Global r, Global c, T v) { return r == c ? entry(r) : v; });
      const auto A = a.on(comm);
      const Jacobi<T> P(*A);
      EXPECT_TRUE(P.is_doubtful());
      EXPECT_NE(P.note().find(all ? "11 of 11 diagonal" : "3 of 11 diagonal"), std::string::npos) << P.note();
      const auto x = P.pointwise()->to_host();
      for (std::size_t i = 0; i < x.size(); ++i) {
        const T d = entry(A->range().begin() + Global(i));
        EXPECT_EQ(x[i], T(1) / (d != T(0) ? d : T(real_t<T>(all ? 1 : 3))));
      }
    }
  });
}

TYPED_TEST(Precond, TriangularSolvesByLevelsInvertTheFactors) {
  using T = TypeParam;
  on_ranks([](const comm::Communicator& comm) {
    // Grids are solved in slices of eight rows, the others row by row; with long rows by four sums.
    for (const auto& a : {grid<T>(23, 31, 0.3), grid<T>(40, 9), scattered<T>(60, 20, 3)})
      for (const auto kind : {Factorisation::ilu0, Factorisation::ilut}) {
        const auto A = a.on(comm);
        const BlockJacobi<T> P(*A, Incomplete(kind));
        expect_columns<T>(P, true);
        expect_adjoint<T>(P);
        if (kind != Factorisation::ilu0) continue;
        // (L + I)(D + U) y = x on this rank's rows.
        const auto x = spread(A->range(), random_vector<T>(A->range().size(), 5));
        Vector<T> y(A->range());
        P.apply(x, y);
        const auto f = P.factors(0);
        const auto at = [&](Global k) { return y.data()[f.column[k]]; };
        std::vector<T> u(std::size_t(f.count()), T(0));
        real_t<T> largest = 1;
        for (Local i = 0; i < f.count(); ++i)
          for (Global k = f.start[i]; k < f.start[i + 1]; ++k)
            if (f.column[k] >= i) u[i] += f.value[k] * at(k);
        for (Local i = 0; i < f.count(); ++i) {
          T sum = u[i];
          for (Global k = f.start[i]; k < f.start[i + 1]; ++k)
            if (f.column[k] < i) sum += f.value[k] * u[std::size_t(f.column[k])];
          largest = std::max(largest, std::abs(u[i]));
          EXPECT_LE(std::abs(sum - x.data()[i]), tolerance<T>(100) * largest);
        }
      }
  });
}

TYPED_TEST(Precond, TriangularSolvesByLevelsInvertTheFactorsOfIc0) {
  using T = TypeParam;
  on_ranks([](const comm::Communicator& comm) {
    // A grid is solved in slices of eight rows, a line row by row; also minus the matrix, whose factors are the same.
    for (const auto& a : {grid<T>(23, 31), grid<T>(60, 1)})
      for (const real_t<T> sign : {1, -1})
        for (const auto kind : {Factorisation::ic0, Factorisation::ick}) {
          const auto A = a.map([&](Global, Global, T v) { return T(sign) * v; }).on(comm);
          const BlockJacobi<T> P(*A, kind);
          expect_columns<T>(P);
          const auto f = P.factors(0);
          // P (sign L L^H z) = z
          const auto z = random_vector<T>(f.count(), 5);
          std::vector<T> u(std::size_t(f.count()), T(0)), x = u;
          const auto each = [&](auto&& use) {
            for (Local i = 0; i < f.count(); ++i)
              for (Global k = f.start[i]; k < f.start[i + 1]; ++k)
                use(std::size_t(i), std::size_t(f.column[k]), f.value[k]);
          };
          each([&](std::size_t i, std::size_t j, T l) { u[j] += conj(l) * z[i]; });
          each([&](std::size_t i, std::size_t j, T l) { x[i] += T(sign) * l * u[j]; });
          Vector<T> right(A->range()), y(A->range());
          right.assign(x);
          P.apply(right, y);
          for (std::size_t i = 0; i < z.size(); ++i)
            EXPECT_LE(std::abs(y.data()[i] - z[i]), tolerance<T>(4000)) << i << " " << P.name();
        }
  });
}

TYPED_TEST(Precond, Ilu0OfATridiagonalIsExact) {
  using T = TypeParam;
  on_ranks([](const comm::Communicator& comm) {
    const auto a = tridiagonal<T>(23, -1.5, 3, -1).map([](Global row, Global, T v) { return v * phase<T>(row + 1); });
    const auto A = a.on(comm);
    const BlockJacobi<T> P(*A);
    EXPECT_EQ(P.name(), "block-jacobi (ilu0)");
    EXPECT_EQ(P.note(), "");
    expect_adjoint<T>(P);
    expect_columns<T>(P);
    // The inverse of the matrix without couplings between ranks.
    const auto& part = A->range().partition();
    const auto block = a.map([&](Global r, Global c, T v) { return part.owner(r) == part.owner(c) ? v : T(0); });
    const auto x = random_vector<T>(a.n, 2);
    Vector<T> y(A->range());
    P.apply(spread(A->range(), x), y);
    EXPECT_LE(relative_difference(whole(y), dense_solve(block.dense(), x)), tolerance<T>(100));
  });
}

TYPED_TEST(Precond, Ilu0FactorsGiveBackTheMatrixOnItsPattern) {
  using T = TypeParam;
  for (const auto& a : {grid<T>(7, 5, 0.3), scattered<T>(40, 4, 3)}) {
    const auto A = a.on(comm::Communicator::self());
    const BlockJacobi<T> P(*A);
    const auto f = P.factors(0);
    Dense<T> l(a.n, std::vector<T>(a.n)), u = l;
    for (Local i = 0; i < f.count(); ++i) {
      l[i][i] = T(1);
      for (Global k = f.start[i]; k < f.start[i + 1]; ++k) (f.column[k] < i ? l : u)[i][f.column[k]] = f.value[k];
    }
    const auto product = multiply(l, u);
    a.each([&](Global r, Global c, T v) {
      EXPECT_LE(std::abs(product[r][c] - v), tolerance<T>(40) * (std::abs(v) + 1)) << r << " " << c;
    });
    // Outside of the pattern, L U differs from A: the factorisation is incomplete.
    double outside = 0;
    const auto d = a.dense();
    for (Global i = 0; i < a.n; ++i)
      for (Global j = 0; j < a.n; ++j)
        if (d[i][j] == T(0)) outside = std::max(outside, double(std::abs(product[i][j])));
    EXPECT_GT(outside, 1e-3);
  }
}

TYPED_TEST(Precond, Ic0FactorsGiveBackTheMatrixOnItsPattern) {
  using T = TypeParam;
  // Couplings at distances 1, 2, 5 and 7: rows of L have columns in common.
  Whole<T> a;
  a.n = 42;
  for (Global i = 0; i < a.n; ++i) {
    for (Global j = std::max<Global>(0, i - 7); j < std::min<Global>(a.n, i + 8); ++j)
      if (const Global d = std::abs(i - j); d != 3 && d != 4 && d != 6)
        a.push(j, T(real_t<T>(d == 0 ? 8 : -1.0 / double(d))) * phase<T>(i) * conj(phase<T>(j)));
    a.end_row();
  }
  const auto A = a.on(comm::Communicator::self());
  const BlockJacobi<T> P(*A, Factorisation::ic0);
  EXPECT_EQ(P.name(), "block-jacobi (ic0)");
  EXPECT_EQ(P.shift(), 0);
  const auto f = P.factors(0);
  Dense<T> l(a.n, std::vector<T>(a.n)), lh = l;
  for (Local i = 0; i < f.count(); ++i)
    for (Global k = f.start[i]; k < f.start[i + 1]; ++k)
      l[i][f.column[k]] = f.value[k], lh[f.column[k]][i] = conj(f.value[k]);
  const auto product = multiply(l, lh);
  a.each([&](Global r, Global c, T v) { EXPECT_LE(std::abs(product[r][c] - v), tolerance<T>(40)) << r << " " << c; });
  on_ranks([&](const comm::Communicator& comm) {
    const auto B = a.on(comm);
    const BlockJacobi<T> Q(*B, Factorisation::ic0);
    expect_symmetric_positive<T>(Q);
    expect_columns<T>(Q);
  });
}

TYPED_TEST(Precond, Ic0ShiftsWhenAPivotIsNotPositiveAndSaysSo) {
  using T = TypeParam;
  // Positive definite, but the incomplete factorisation breaks down (Kershaw's matrix, a ring of four).
  Whole<T> a;
  a.n = 4;
  const double k[4][4] = {{3, -2, 0, 2}, {-2, 3, -2, 0}, {0, -2, 3, -2}, {2, 0, -2, 3}};
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j)
      if (k[i][j] != 0) a.push(j, T(real_t<T>(k[i][j])));
    a.end_row();
  }
  const auto A = a.on(comm::Communicator::self());
  const BlockJacobi<T> P(*A, Factorisation::ic0);
  EXPECT_GT(P.shift(), 0);
  EXPECT_LT(P.shift(), 1);
  EXPECT_NE(P.name().find("shift"), std::string::npos);
  EXPECT_NE(P.note().find("raised"), std::string::npos);
  expect_symmetric_positive<T>(P);
  // The factors are those of the shifted matrix.
  const auto f = P.factors(0);
  Dense<T> l(4, std::vector<T>(4)), lh = l;
  for (Local i = 0; i < f.count(); ++i)
    for (Global e = f.start[i]; e < f.start[i + 1]; ++e)
      l[i][f.column[e]] = f.value[e], lh[f.column[e]][i] = conj(f.value[e]);
  const auto product = multiply(l, lh);
  a.each([&](Global r, Global c, T v) {
    const T expected = r == c ? v * real_t<T>(1 + P.shift()) : v;
    EXPECT_LE(std::abs(product[r][c] - expected), tolerance<T>(40));
  });
}

TYPED_TEST(Precond, Ic0RefusesWhatIsNotHermitian) {
  using T = TypeParam;
  on_ranks([](const comm::Communicator& comm) {
    // The changed entry is within a block on any number of ranks.
    const auto lopsided =
        tridiagonal<T>(21, -1, 2, -1).map([](Global r, Global c, T v) { return r == 1 && c == 0 ? T(-3) : v; });
    const auto A = lopsided.on(comm);
    for (const auto kind : {Factorisation::ic0, Factorisation::ick})
      EXPECT_NE(usage_error([&] { BlockJacobi<T> P(*A, kind); }).find("Hermitian"), std::string::npos);
    EXPECT_NE(usage_error([&] { BlockJacobi<T> P(*A, Factorisation::ilu0, 0); }).find("blocks"), std::string::npos);
  });
}

TYPED_TEST(Precond, Ic0OfAnIndefiniteMatrixIsPositiveDefinite) {
  using T = TypeParam;
  on_ranks([](const comm::Communicator& comm) {
    const auto indefinite = tridiagonal<T>(21, -1, 2, -1).map([](Global r, Global c, T v) {
      return r != c ? v : r == 13 ? -v : r == 5 ? T(0) : v;
    });
    const auto A = indefinite.on(comm);
    for (const auto kind : {Factorisation::ic0, Factorisation::ick}) {
      const BlockJacobi<T> P(*A, kind);
      EXPECT_GT(P.shift(), 1);
      EXPECT_NE(P.note().find("raised"), std::string::npos);
      expect_symmetric_positive<T>(P);
    }
  });
}

TYPED_TEST(Precond, Ic0TakesAsymmetryOfRoundingAndNegativeDefiniteMatrices) {
  using T = TypeParam;
  using R = real_t<T>;
  on_ranks([](const comm::Communicator& comm) {
    const auto a = grid<T>(6, 5);
    const auto A = a.on(comm);
    const auto nearly =
        a.map([](Global r, Global c, T v) { return r < c ? v + T(4 * std::numeric_limits<R>::epsilon()) : v; });
    const auto B = nearly.on(comm);
    const auto negative = a.map([](Global, Global, T v) { return -v; });
    const auto C = negative.on(comm);
    const BlockJacobi<T> P(*A, Factorisation::ic0), Q(*B, Factorisation::ic0), N(*C, Factorisation::ic0);
    const auto x = spread(A->range(), random_vector<T>(a.n, 7));
    Vector<T> y(A->range()), z(A->range());
    P.apply(x, y);
    Q.apply(x, z);
    EXPECT_LE(relative_difference(whole(z), whole(y)), tolerance<T>(100));
    N.apply(x, z);
    layout::scale(T(-1), z);
    EXPECT_LE(relative_difference(whole(z), whole(y)), tolerance<T>(100));
    N.apply_adjoint(x, z);
    layout::scale(T(-1), z);
    EXPECT_LE(relative_difference(whole(z), whole(y)), tolerance<T>(100));
    EXPECT_NE(N.name().find("-A"), std::string::npos) << N.name();
  });
}

TYPED_TEST(Precond, ZeroPivotsAreReplacedAndCounted) {
  using T = TypeParam;
  on_ranks([](const comm::Communicator& comm) {
    // Row 4 has no diagonal entry, row 9 no entry; there are no other couplings, so fill cannot make the pivots
    // nonzero.
    Whole<T> a;
    a.n = 12;
    for (Global i = 0; i < a.n; ++i) {
      if (i == 4) a.push(11, T(8));
      else if (i != 9) a.push(i, T(2));
      a.end_row();
    }
    const auto A = a.on(comm);
    const BlockJacobi<T> P(*A);
    EXPECT_EQ(P.perturbed_pivots(), 2);
    EXPECT_NE(P.note().find("2 pivots"), std::string::npos);
    EXPECT_TRUE(P.is_doubtful());
    Vector<T> x(A->range()), y(A->range());
    layout::fill(x, T(1));
    P.apply(x, y);
    const auto all = whole(y);
    const auto wanted = std::sqrt(std::numeric_limits<real_t<T>>::epsilon());
    EXPECT_EQ(all[9], T(1));
    EXPECT_EQ(all[0], T(real_t<T>(0.5)));
    if (A->range().partition().owner(4) == A->range().partition().owner(11)) {
      EXPECT_NEAR(std::abs(all[4] * (wanted * 8)), 3, 1e-3);  // (1 - 8 / 2) / pivot
    }
  });
}

/// The matrix without couplings between ranks.
template <class T>
Whole<T> own_blocks(const Whole<T>& a, const layout::Partition& part) {
  return a.map([&](Global r, Global c, T v) { return part.owner(r) == part.owner(c) ? v : T(0); });
}

/// Factors without dropping are exact, with every order, matching and pivoting; and the adjoint is the adjoint.
TYPED_TEST(Precond, FactorsWithAllFillAreExact) {
  using T = TypeParam;
  // Rows of very different size, a weak diagonal, and a zero on it.
  const auto size = [](Global i) { return real_t<T>(std::exp2(double(i * 7 % 11) - 5)); };
  const auto a = scattered<T>(37, 14, 5).map([&](Global r, Global c, T v) {
    return size(r) * (r != c ? v : r == 20 ? T(0) : v * real_t<T>(0.05));
  });
  const auto x = random_vector<T>(a.n, 2);
  std::vector<BlockOrder> orders{BlockOrder::none, BlockOrder::rcm};
  if (layout::metis_built()) orders.push_back(BlockOrder::dissection);
  if (layout::amd_built()) orders.push_back(BlockOrder::minimum_degree);
  on_ranks([&](const comm::Communicator& comm) {
    const auto A = a.on(comm);
    const auto exact = dense_solve(own_blocks(a, A->range().partition()).dense(), x);
    Vector<T> y(A->range());
    for (const auto kind : {Factorisation::iluk, Factorisation::ilut})
      for (const auto order : orders)
        for (const bool matching : {false, true}) {
          Incomplete how = kind;
          how.levels = 40, how.drop = 0, how.fill = 100, how.pivoting = 1;
          how.ordering = order, how.matching = matching;
          if (kind == Factorisation::iluk && !matching) continue;  // its pivots need the matching
          const BlockJacobi<T> P(*A, how);
          EXPECT_EQ(P.note(), "");
          EXPECT_GE(P.fill(), 1);
          P.apply(spread(A->range(), x), y);
          EXPECT_LE(relative_difference(whole(y), exact), tolerance<T>(2e4)) << P.name() << matching;
          expect_adjoint<T>(P);
          expect_columns<T>(P);
        }
  });
}

TYPED_TEST(Precond, IncompleteCholeskyWithAllFillIsExact) {
  using T = TypeParam;
  const auto a = grid<T>(7, 6);
  const auto x = random_vector<T>(a.n, 2);
  on_ranks([&](const comm::Communicator& comm) {
    const auto A = a.on(comm);
    Vector<T> y(A->range());
    for (const auto order : {BlockOrder::none, BlockOrder::rcm}) {
      Incomplete how = Factorisation::ick;
      how.levels = 100, how.ordering = order;
      const BlockJacobi<T> P(*A, how);
      EXPECT_EQ(P.shift(), 0);
      expect_symmetric_positive<T>(P);
      P.apply(spread(A->range(), x), y);
      const auto exact = dense_solve(own_blocks(a, A->range().partition()).dense(), x);
      EXPECT_LE(relative_difference(whole(y), exact), tolerance<T>(200));
    }
  });
}

/// Level 0 is ilu0 and ic0; entries of the pattern of level k are reproduced by L U.
TYPED_TEST(Precond, LevelsOfFillEnlargeThePattern) {
  using T = TypeParam;
  const auto a = grid<T>(9, 8, 0.3);
  const auto A = a.on(comm::Communicator::self());
  const auto with = [&](int levels) {
    Incomplete how = Factorisation::iluk;
    how.levels = levels;
    return BlockJacobi<T>(*A, how);
  };
  const auto zero = BlockJacobi<T>(*A).factors(0), same = with(0).factors(0);
  EXPECT_EQ(zero.column, same.column);
  EXPECT_EQ(zero.value, same.value);
  double before = 1e30;
  for (const int levels : {0, 1, 2, 4}) {
    const auto f = with(levels).factors(0);
    Dense<T> l(a.n, std::vector<T>(a.n)), u = l, pattern = l;
    for (Local i = 0; i < f.count(); ++i) {
      l[i][i] = T(1);
      for (Global k = f.start[i]; k < f.start[i + 1]; ++k)
        (f.column[k] < i ? l : u)[i][f.column[k]] = f.value[k], pattern[i][f.column[k]] = T(1);
    }
    const auto product = multiply(l, u), d = a.dense();
    double outside = 0;
    for (Global i = 0; i < a.n; ++i)
      for (Global j = 0; j < a.n; ++j) {
        if (pattern[i][j] == T(0)) outside = std::max(outside, double(std::abs(product[i][j])));
        else EXPECT_LE(std::abs(product[i][j] - d[i][j]), tolerance<T>(60));
      }
    EXPECT_LT(outside, before);
    before = outside;
  }
  // 5 points: fill of level 1 are the two diagonals at distance 8 of one side: (i, i + 8) and (i + 8, i).
  EXPECT_EQ(with(1).factors(0).column.size() - zero.column.size(), 2u * 8 * 7);
}

TYPED_TEST(Precond, IlutDropsAndLimitsItsFill) {
  using T = TypeParam;
  const auto a = grid<T>(20, 20, 0.3);
  const auto A = a.on(comm::Communicator::self());
  const auto fill = [&](double drop, double most) {
    Incomplete how = Factorisation::ilut;
    how.drop = drop, how.fill = most;
    const BlockJacobi<T> P(*A, how);
    EXPECT_EQ(P.perturbed_pivots(), 0);
    return P.fill();
  };
  EXPECT_GT(fill(1e-4, 20), fill(1e-2, 20));
  EXPECT_GT(fill(1e-2, 20), fill(0.3, 20));
  EXPECT_LE(fill(0, 2), 2 + 0.3);  // the diagonal comes on top
  EXPECT_GT(fill(0, 2), 1.5);
}

/// A last row and column with entries everywhere: complete factors have no fill, but as many entries in the last row.
TYPED_TEST(Precond, IlutGivesLaterRowsWhatEarlierOnesLeave) {
  using T = TypeParam;
  using R = real_t<T>;
  Whole<T> a;
  a.n = 60;
  for (Global i = 0; i < a.n; ++i) {
    if (i + 1 == a.n)
      for (Global j = 0; j < i; ++j) a.push(j, T(R(0.1)));
    a.push(i, T(R(i + 1 == a.n ? 9 : 1)));
    if (i + 1 < a.n) a.push(a.n - 1, T(R(0.1)));
    a.end_row();
  }
  const auto A = a.on(comm::Communicator::self());
  Incomplete how = Factorisation::ilut;
  how.ordering = BlockOrder::none, how.matching = false, how.drop = 0, how.fill = 2;
  const BlockJacobi<T> P(*A, how);
  const auto b = random_vector<T>(a.n, 2);
  Vector<T> x(A->range());
  P.apply(spread(A->range(), b), x);
  EXPECT_LE(relative_difference(whole(x), dense_solve(a.dense(), b)), tolerance<T>(1e3)) << P.name();
}

TYPED_TEST(Precond, IlutReportsStructurallySingularBlocks) {
  using T = TypeParam;
  Whole<T> a;  // rows 2 and 3 have entries in column 5 only; columns 2 and 3 have none
  a.n = 7;
  for (Global i = 0; i < a.n; ++i) {
    if (i == 2 || i == 3 || i == 5) a.push(5, T(real_t<T>(i)));
    else a.push(i, T(2));
    a.end_row();
  }
  const auto A = a.on(comm::Communicator::self());
  const BlockJacobi<T> P(*A, Factorisation::ilut);
  EXPECT_NE(P.note().find("2 of 7 rows have no entry left"), std::string::npos) << P.note();
  EXPECT_TRUE(P.is_doubtful());
  expect_adjoint<T>(P);
}

/// The matching is the best of all permutations; its scalings make it the largest entry of its row and column.
TYPED_TEST(Precond, MatchingMaximisesTheProductOfTheDiagonal) {
  using T = TypeParam;
  for (int seed = 0; seed < 60; ++seed) {
    const Local n = Local(2 + seed % 6);
    op::LocalRows<T> a;
    a.columns = n;
    for (Local i = 0; i < n; ++i) {
      for (Local j = 0; j < n; ++j)
        if (noise(std::uint64_t(seed), std::uint64_t(i * n + j)) < 0.2)
          a.column.push_back(j),
              a.value.push_back(
                  T(real_t<T>(std::exp2(std::round(8 * noise(std::uint64_t(seed + 100), std::uint64_t(i * n + j)))))));
      a.start.push_back(Global(a.column.size()));
    }
    const auto size = [&](Local i, Local j) {
      for (Global k = a.start[i]; k < a.start[i + 1]; ++k)
        if (a.column[k] == j) return double(std::abs(a.value[k]));
      return 0.0;
    };
    const auto product = [&](const std::vector<Local>& column) {
      double p = 1;
      for (Local i = 0; i < n; ++i) p *= size(i, column[std::size_t(i)]);
      return p;
    };
    std::vector<Local> all(static_cast<std::size_t>(n));
    std::iota(all.begin(), all.end(), Local(0));
    double best = 0;
    do best = std::max(best, product(all));
    while (std::next_permutation(all.begin(), all.end()));
    const auto m = precond::maximum_product_matching(a);
    EXPECT_EQ(product(m.column), best) << "seed " << seed;
    EXPECT_EQ(m.unmatched > 0, best == 0);
    auto sorted = m.column;
    std::sort(sorted.begin(), sorted.end());
    for (Local j = 0; j < n; ++j) EXPECT_EQ(sorted[std::size_t(j)], j);
    if (best == 0) continue;
    for (Local i = 0; i < n; ++i)
      for (Local j = 0; j < n; ++j) {
        const double scaled =
            std::ldexp(size(i, j), m.row_exponent[std::size_t(i)] + m.column_exponent[std::size_t(j)]);
        EXPECT_LE(scaled, 2.0);
        if (m.column[std::size_t(i)] == j) {
          EXPECT_GE(scaled, 0.5);
        }
      }
  }
}

/// The same for entries of any size, up to the ends of the range, against all permutations.
TYPED_TEST(Precond, MatchingOfEntriesOfAnySize) {
  using T = TypeParam;
  using R = real_t<T>;
  const double range = std::numeric_limits<R>::max_exponent - 8;
  for (int seed = 0; seed < 60; ++seed) {
    const Local n = Local(1 + seed % 7);
    const double spread = seed % 3 == 0 ? 1 : seed % 3 == 1 ? 20 : range;
    op::LocalRows<T> a;
    a.columns = n;
    std::vector<double> logarithm(std::size_t(n * n), -std::numeric_limits<double>::infinity());
    for (Local i = 0; i < n; ++i) {
      for (Local j = 0; j < n; ++j) {
        const auto at = std::uint64_t(i * n + j);
        if (noise(std::uint64_t(seed), at) > 0.4) continue;
        const R size = std::exp2(R(spread * noise(std::uint64_t(seed + 100), at)));
        a.column.push_back(j);
        a.value.push_back(T(-size));
        logarithm[at] = std::log2(double(size));
      }
      a.start.push_back(Global(a.column.size()));
    }
    const auto sum = [&](const std::vector<Local>& column) {
      double all = 0;
      for (Local i = 0; i < n; ++i) all += logarithm[std::size_t(i * n + column[std::size_t(i)])];
      return all;
    };
    std::vector<Local> all(static_cast<std::size_t>(n));
    std::iota(all.begin(), all.end(), Local(0));
    double best = -std::numeric_limits<double>::infinity();
    do best = std::max(best, sum(all));
    while (std::next_permutation(all.begin(), all.end()));
    const auto m = precond::maximum_product_matching(a);
    ASSERT_EQ(m.unmatched > 0, !std::isfinite(best)) << "seed " << seed;
    if (m.unmatched == 0) {
      EXPECT_NEAR(sum(m.column), best, 1e-9) << "seed " << seed;
    }
  }
}

/// Entries r_i b_ij c_j with |b_ij| <= |b_ii| = 1, many of them 1, for scalings that are not powers of two: no product
/// is larger than that of the diagonal, and many are the same.
TYPED_TEST(Precond, MatchingKeepsADiagonalThatIsTheBestChoice) {
  using T = TypeParam;
  using R = real_t<T>;
  for (int seed = 0; seed < 60; ++seed) {
    const Local n = Local(2 + 3 * (seed % 9));
    const auto scale = [&](int of, Local i) {
      return std::exp2(R(12 * noise(std::uint64_t(seed + of), std::uint64_t(i))));
    };
    op::LocalRows<T> a;
    a.columns = n;
    for (Local i = 0; i < n; ++i) {
      for (Local j = 0; j < n; ++j) {
        const double u = noise(std::uint64_t(seed + 900), std::uint64_t(i * n + j));
        if (i != j && u < 0) continue;
        a.column.push_back(j);
        a.value.push_back(T(scale(100, i) * (i == j || u > 0.4 ? R(1) : R(0.5)) * scale(200, j)));
      }
      a.start.push_back(Global(a.column.size()));
    }
    // Products of float entries differ by their rounding.
    const auto m = precond::maximum_product_matching(a);
    double taken = 0, diagonal = 0;
    for (Local i = 0; i < n; ++i)
      for (Global k = a.start[std::size_t(i)]; k < a.start[std::size_t(i) + 1]; ++k) {
        const double size = std::log2(double(std::abs(a.value[std::size_t(k)])));
        if (a.column[std::size_t(k)] == i) diagonal += size;
        if (a.column[std::size_t(k)] == m.column[std::size_t(i)]) taken += size;
      }
    const bool better = taken > diagonal + 1e-11;
    EXPECT_EQ(m.unmatched, 0);
    for (Local i = 0; i < n && !better; ++i) EXPECT_EQ(m.column[std::size_t(i)], i) << "seed " << seed;
    if (std::same_as<R, double>) {
      EXPECT_FALSE(better);
    }
  }
}

/// Rows 1 and 2 and columns 2 and 3 without entries: 2 stays on the diagonal.
TYPED_TEST(Precond, MatchingOfAStructurallySingularMatrix) {
  using T = TypeParam;
  op::LocalRows<T> a;
  a.columns = 4;
  a.start = {0, 1, 1, 1, 2};
  a.column = {0, 1};
  a.value = {T(2), T(2)};
  const auto m = precond::maximum_product_matching(a);
  EXPECT_EQ(m.unmatched, 2);
  EXPECT_EQ(m.column, (std::vector<Local>{0, 3, 2, 1}));
  const auto none = precond::maximum_product_matching(op::LocalRows<T>{});
  EXPECT_EQ(none.unmatched, 0);
  EXPECT_TRUE(none.column.empty());
}

TYPED_TEST(Precond, BlocksOfARankDropTheCouplingsBetweenThem) {
  using T = TypeParam;
  on_ranks([](const comm::Communicator& comm) {
    const auto a = tridiagonal<T>(50, -1, 2.5, -1);
    const auto A = a.on(comm);
    const BlockJacobi<T> P(*A, Factorisation::ilu0, 3);
    EXPECT_EQ(P.blocks(), 3);
    const auto& space = A->range();
    std::vector<Global> block(a.n);  // the block of each row
    Global number = 0;
    for (int r = 0; r < comm.size(); ++r) {
      const Global first = space.partition().begin(r), count = space.partition().end(r) - first;
      for (int b = 0; b < 3; ++b, ++number)
        for (Global i = 0; i < count / 3 + (b < count % 3); ++i)
          block[first + count / 3 * b + std::min<Global>(b, count % 3) + i] = number;
    }
    const auto cut = a.map([&](Global r, Global c, T v) { return block[r] == block[c] ? v : T(0); });
    const auto x = random_vector<T>(a.n, 2);
    Vector<T> y(space);
    P.apply(spread(space, x), y);
    EXPECT_LE(relative_difference(whole(y), dense_solve(cut.dense(), x)), tolerance<T>(100));
    const BlockJacobi<T> many(*A, Factorisation::ic0, 1000);  // more blocks than rows: the diagonal
    many.apply(spread(space, x), y);
    auto expected = x;
    for (T& v : expected) v *= real_t<T>(0.4);
    EXPECT_LE(relative_difference(whole(y), expected), tolerance<T>(100));
  });
}

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

TYPED_TEST(Precond, SpaiMinimisesTheDefectOnThePattern) {
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

TYPED_TEST(Precond, SpaiIsTheSameForAnyNumberOfRanksAndLocalIsNot) {
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

TYPED_TEST(Precond, FsaiGivesAUnitDiagonalAndTheRightZeros) {
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

TYPED_TEST(Precond, InversesOfBadlyScaledMatricesScaleWithThem) {
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

TYPED_TEST(Precond, OfMinusAIsMinusThatOfA) {
  using T = TypeParam;
  on_ranks([](const comm::Communicator& comm) {
    const auto a = grid<T>(7, 6);
    const auto A = a.on(comm), B = a.map([](Global, Global, T v) { return -v; }).on(comm);
    const auto x = random_vector<T>(a.n, 3);
    for (const char* name : {"jacobi", "ilu0", "ic0", "spai", "fsai", "polynomial"}) {
      const auto P = precond::make<T, Host>(name, *A), Q = precond::make<T, Host>(name, *B);
      Vector<T> y(A->range()), z(A->range());
      P->apply(spread(A->range(), x), y);
      Q->apply(spread(A->range(), x), z);
      for (std::size_t i = 0; i < z.size(); ++i) z.data()[i] = -z.data()[i];
      EXPECT_LE(relative_difference(whole(z), whole(y)), tolerance<T>(50)) << name;
    }
  });
}

TYPED_TEST(Precond, ChebyshevPolynomialEqualsItsDenseForm) {
  using T = TypeParam;
  on_ranks([](const comm::Communicator& comm) {
    const auto a = tridiagonal<T>(12, -1, 2.2, -1);
    const auto A = a.on(comm);
    for (const int degree : {0, 1, 2, 5}) {
      PolynomialOptions o;
      o.degree = degree;
      o.lambda_min = 0.1;
      o.lambda_max = 1.9;
      const Polynomial<T> P(*A, o);
      EXPECT_EQ(P.name(), "polynomial (chebyshev, degree " + std::to_string(degree) + ")");
      // The eigenvectors of the Toeplitz matrix are sines (times the phases), on which P acts as a multiplication.
      for (const Global mode : {1, 4, 12}) {
        const double t = (2.2 - 2 * std::cos(M_PI * double(mode) / 13)) / 2.2;
        const double theta = 1.0, delta = 0.9;
        const auto chebyshev = [&](double z) {
          return std::abs(z) <= 1
                     ? std::cos((degree + 1) * std::acos(z))
                     : (z < 0 && (degree + 1) % 2 ? -1 : 1) * std::cosh((degree + 1) * std::acosh(std::abs(z)));
        };
        const double p = (1 - chebyshev((theta - t) / delta) / chebyshev(theta / delta)) / t;
        std::vector<T> s(a.n), expected(a.n);
        for (Global i = 0; i < a.n; ++i) {
          s[i] = T(real_t<T>(std::sin(M_PI * double(mode * (i + 1)) / 13))) * phase<T>(i);
          expected[i] = s[i] * real_t<T>(p / 2.2);
        }
        Vector<T> y(A->range());
        P.apply(spread(A->range(), s), y);
        EXPECT_LE(relative_difference(whole(y), expected), tolerance<T>(200)) << degree << " " << mode;
      }
      expect_symmetric_positive<T>(P);
      expect_adjoint<T>(P);
      expect_columns<T>(P);
    }
  });
}

TYPED_TEST(Precond, NeumannPolynomialIsTheSumOfItsSeries) {
  using T = TypeParam;
  on_ranks([](const comm::Communicator& comm) {
    const auto a = scattered<T>(15, 3, 11);
    const auto A = a.on(comm);
    PolynomialOptions o;
    o.kind = PolynomialKind::neumann;
    o.degree = 3;
    o.relaxation = 0.8;
    const Polynomial<T> P(*A, o);
    // P = sum_i (I - w D^-1 A)^i w D^-1
    const auto d = a.dense();
    Dense<T> term(a.n, std::vector<T>(a.n)), step = term, sum = term;
    for (Global i = 0; i < a.n; ++i)
      for (Global j = 0; j < a.n; ++j) {
        step[i][j] = (i == j ? T(1) : T(0)) - d[i][j] / d[i][i] * real_t<T>(0.8);
        term[i][j] = i == j ? T(real_t<T>(0.8)) / d[i][i] : T(0);
      }
    for (int k = 0; k <= 3; ++k) {
      for (Global i = 0; i < a.n; ++i)
        for (Global j = 0; j < a.n; ++j) sum[i][j] += term[i][j];
      term = multiply(step, term);
    }
    const auto m = dense_of(P);
    for (Global i = 0; i < a.n; ++i) EXPECT_LE(relative_difference(m[i], sum[i]), tolerance<T>(50));
    expect_adjoint<T>(P);
  });
}

TYPED_TEST(Precond, PolynomialUsesProductsOnly) {
  using T = TypeParam;
  on_ranks([](const comm::Communicator& comm) {
    const auto A = grid<T>(6, 6).on(comm);
    const Polynomial<T> P(*A, {.degree = 4});
    EXPECT_GT(P.lambda_min(), 0.0);
    EXPECT_LT(P.lambda_min(), 0.3);  // 1 - cos(pi / 7) = 0.0990
    EXPECT_GT(P.lambda_max(), 1.9);  // 1 + cos(pi / 7) = 1.901
    EXPECT_LT(P.lambda_max(), 2.2);
    Vector<T> x(A->range()), y(A->range());
    layout::fill(x, T(1));
    const auto before = comm.counters();
    const auto applies = A->applies();
    P.apply(x, y);
    EXPECT_EQ(A->applies() - applies, 4);
    EXPECT_EQ((comm.counters() - before).reductions, 0);
  });
}

TYPED_TEST(Precond, PolynomialRefusesWhatItCannotDo) {
  using T = TypeParam;
  on_ranks([](const comm::Communicator& comm) {
    const auto A = grid<T>(4, 4).on(comm);
    const auto says = [&](const op::Csr<T>& m, const PolynomialOptions& o, const char* word) {
      const auto text = usage_error([&] { Polynomial<T> P(m, o); });
      EXPECT_NE(text.find(word), std::string::npos) << text;
    };
    says(*A, {.degree = -1}, "degree");
    says(*A, {.lambda_min = -1.0}, "lambda_min");
    says(*A, {.lambda_min = 2.0, .lambda_max = 1.0}, "lambda_max");
    says(*A, {.kind = PolynomialKind::neumann, .relaxation = 0.0}, "relaxation");
    const auto negative = grid<T>(4, 4).map([](Global r, Global c, T v) { return r == c && r == 5 ? -v : v; }).on(comm);
    says(*negative, {}, "row 5 ");
    const auto indefinite = grid<T>(4, 4).map([](Global r, Global c, T v) { return r == c ? T(1) : v; }).on(comm);
    says(*indefinite, {}, "needs a definite matrix");
  });
}

TYPED_TEST(Precond, ResultsDoNotDependOnThreads) {
#ifdef _OPENMP
  using T = TypeParam;
  if (under_mpi()) GTEST_SKIP();
  // Wide levels: a block-diagonal matrix of many short chains, ordered so that each level is a range of rows.
  Whole<T> chains;
  const Global width = 33000;
  chains.n = 3 * width;
  for (Global i = 0; i < chains.n; ++i) {
    if (i >= width) chains.push(i - width, T(-1));
    chains.push(i, T(3));
    if (i + width < chains.n) chains.push(i + width, T(-1));
    chains.end_row();
  }
  for (const auto& a : {grid<T>(60, 50), chains}) {
    const auto x = random_vector<T>(a.n, 8);
    for (const char* name : {"jacobi", "ilu0", "ic0", "spai", "fsai", "polynomial"}) {
      std::vector<T> first;
      for (const int threads : {1, 2, 3}) {
        const Threads team(threads);
        const auto A = a.on(comm::Communicator::self());
        const auto P = precond::make<T, Host>(name, *A);
        Vector<T> y(A->range());
        P->apply(spread(A->range(), x), y);
        if (threads == 1) first = whole(y);
        EXPECT_EQ(first, whole(y)) << name << " " << threads;
      }
    }
  }
#endif
}

TYPED_TEST(Precond, EmptyRanksAndEmptyMatricesAreFine) {
  using T = TypeParam;
  on_ranks([](const comm::Communicator& comm) {
    for (const Global n : {0, 1, 2}) {
      const auto a = tridiagonal<T>(n, -1, 3, -1);
      const auto A = a.on(comm);
      for (const auto& name : tacit::names<precond::Kind>()) {
        const auto P = precond::make<T, Host>(name, *A);
        if (!P) continue;
        Vector<T> x(A->range()), y(A->range());
        layout::fill(x, T(1));
        P->apply(x, y);
        EXPECT_EQ(P->domain().size(), n);
        for (std::size_t i = 0; i < y.size(); ++i) EXPECT_GT(real(y.data()[i]), 0.1) << name;
      }
    }
  });
}

/// sum_i R~_i^T (R_i A R_i^T)^-1 R_i, with blocks and overlaps determined from the pattern of A.
template <class T>
Dense<T> schwarz_of(const Whole<T>& a, const layout::Partition& partition, int blocks, int overlap, bool restricted) {
  const auto dense = a.dense();
  Dense<T> sum(a.n, std::vector<T>(a.n, T(0)));
  for (int rank = 0; rank < partition.parts(); ++rank) {
    const Global n = partition.end(rank) - partition.begin(rank), parts = std::min<Global>(blocks, n);
    for (Global b = 0, first = partition.begin(rank); b < parts; ++b) {
      const Global end = first + n / parts + (b < n % parts);
      std::vector<bool> in(a.n, false);
      for (Global i = first; i < end; ++i) in[i] = true;
      for (int level = 0; level < overlap; ++level) {
        const auto before = in;
        a.each([&](Global r, Global c, T) {
          if (before[r]) in[c] = true;
        });
      }
      std::vector<Global> rows;
      for (Global i = 0; i < a.n; ++i)
        if (in[i]) rows.push_back(i);
      Dense<T> block;
      for (const Global i : rows) {
        block.emplace_back();
        for (const Global j : rows) block.back().push_back(dense[i][j]);
      }
      for (std::size_t j = 0; j < rows.size(); ++j) {
        std::vector<T> e(rows.size(), T(0));
        e[j] = T(1);
        const auto column = dense_solve(block, e);
        for (std::size_t i = 0; i < rows.size(); ++i)
          if (!restricted || (rows[i] >= first && rows[i] < end)) sum[rows[i]][rows[j]] += T(column[i]);
      }
      first = end;
    }
  }
  return sum;
}

/// A dense band, for which incomplete factors equal those of Gaussian elimination, also in blocks that omit distant
/// rows.
template <class T>
Whole<T> full_band(Global n, Global width) {
  Whole<T> a;
  a.n = n;
  for (Global i = 0; i < n; ++i) {
    for (Global j = std::max<Global>(0, i - width); j <= std::min(n - 1, i + width); ++j)
      a.push(j, i == j ? T(real_t<T>(2.0 * width)) : noise_of<T>(8, std::uint64_t(i * n + j)));
    a.end_row();
  }
  return a;
}

TYPED_TEST(Precond, SchwarzSolvesOnOverlappingBlocks) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        for (const int width : {1, 3}) {
          const auto a = full_band<T>(17, width);
          const auto A = a.on(comm);
          for (const int blocks : {1, 3})
            for (const int overlap : {0, 1, 2, 17})
              for (const bool restricted : {true, false}) {
                const auto P = precond::make<T, Host>("schwarz", *A,
                                                      {.blocks = blocks, .overlap = overlap, .restricted = restricted});
                const auto expected = schwarz_of(a, A->range().partition(), blocks, overlap, restricted);
                const auto found = dense_of(*P);
                for (Global i = 0; i < a.n; ++i)
                  for (Global j = 0; j < a.n; ++j)
                    ASSERT_LE(std::abs(found[i][j] - expected[i][j]), tolerance<T>(100))
                        << i << " " << j << ": " << P->name() << ", " << blocks << " blocks on each of " << comm.size();
                expect_adjoint<T>(*P);
                expect_columns<T>(*P);
              }
        }
      },
      {3});
}

TYPED_TEST(Precond, SchwarzTakesAnyLocalSolver) {
  using T = TypeParam;
  using precond::Kind;
  on_ranks(
      [](const comm::Communicator& comm) {
        // With an overlap that covers the whole matrix, each block is the matrix itself, and its rows of the result
        // equal those of the local solver on one rank.
        const auto a = grid<T>(6, 5);
        const auto A = a.on(comm), alone = a.on(comm::Communicator::self());
        for (const auto& [solver, symmetric] : {std::pair(Kind::ilu0, true),
                                                {Kind::ic0, true},
                                                {Kind::jacobi, true},
                                                {Kind::spai, false},
                                                {Kind::fsai, true}}) {
          precond::Options o{.solver = solver, .overlap = 100};
          const auto P = precond::make<T, Host>("schwarz", *A, o);
          const auto expected = dense_of(*precond::make<T, Host>(to_string(solver), *alone)), found = dense_of(*P);
          for (Global i = 0; i < a.n; ++i)
            for (Global j = 0; j < a.n; ++j)
              EXPECT_LE(std::abs(found[i][j] - expected[i][j]), tolerance<T>(100)) << to_string(solver);
          expect_adjoint<T>(*P);
          EXPECT_FALSE(precond::is_symmetric("schwarz", o));
          o.overlap = 1, o.restricted = false;
          EXPECT_EQ(precond::is_symmetric("schwarz", o), symmetric);
          const auto added = precond::make<T, Host>("schwarz", *A, o);
          if (symmetric) expect_symmetric_positive<T>(*added);
          expect_adjoint<T>(*added);
        }
        const auto P =
            precond::make<T, Host>("schwarz", *A, {.solver = Kind::polynomial, .degree = 3, .restricted = false});
        expect_symmetric_positive<T>(*P);
        EXPECT_NE(P->name().find("degree 3"), std::string::npos) << P->name();
      },
      {2, 3});
}

TEST(Schwarz, ReportsChangesOfItsLocalSolver) {
  using precond::Kind;
  on_ranks([](const comm::Communicator& comm) {
    const auto a = grid<double>(5, 4).map([](Global r, Global c, double v) { return r == c && r == 7 ? 0 : v; });
    const auto A = a.on(comm);
    const auto P = precond::make<double, Host>("schwarz", *A);
    const auto* noted = dynamic_cast<const op::Noted*>(P.get());
    ASSERT_NE(noted, nullptr);
    const auto says = [&](const precond::Options& o, const char* word) {
      const auto text = usage_error([&] { precond::make<double, Host>("schwarz", *A, o); });
      EXPECT_NE(text.find(word), std::string::npos) << text;
    };
    const auto lopsided = grid<double>(5, 4, 0.3).on(comm);
    const auto refused = usage_error([&] { precond::make<double, Host>("schwarz", *lopsided, {.solver = Kind::ic0}); });
    EXPECT_NE(refused.find("local solver of schwarz"), std::string::npos) << refused;
    says({.solver = Kind::block_jacobi}, "solver is block-jacobi; schwarz takes ilu0, ic0");
    says({.overlap = -1}, "overlap is -1");
    says({.degree = 3}, "degree 3 is an option of polynomial");
    says({.local = true}, "local true");
  });
}

TEST(Schwarz, OverlapSavesIterations) {
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = grid<double>(32, 32, 0.3);
        const auto A = a.on(comm);
        const auto b = spread(A->range(), random_vector<double>(a.n, 2));
        std::vector<std::int64_t> taken;
        for (const int overlap : {0, 2, 5}) {
          const auto P = precond::make<double, Host>("schwarz", *A, {.blocks = 4, .overlap = overlap});
          Vector<double> x(A->domain());
          krylov::Options o;
          o.method = krylov::Method::gmres;
          const auto report = krylov::solve<double, Host>(*A, P.get(), b, x, o);
          EXPECT_TRUE(report.converged());
          taken.push_back(report.iterations);
        }
        EXPECT_LT(taken[1], taken[0]);
        EXPECT_LE(taken[2], taken[1]);
      },
      {2});
}

TEST(Make, KnowsItsNamesAndOptions) {
  using precond::Kind;
  on_ranks([](const comm::Communicator& comm) {
    const auto A = grid<double>(6, 6).on(comm);
    const auto make = [&](const char* name, const precond::Options& o = {}) {
      return precond::make<double, Host>(name, *A, o);
    };
    EXPECT_EQ(make("none"), nullptr);
    EXPECT_EQ(make("jacobi")->name(), "jacobi");
    EXPECT_EQ(make("jacobi", {.absolute = true})->name(), "jacobi (absolute values)");
    EXPECT_EQ(make("ilu0")->name(), "block-jacobi (ilu0)");
    EXPECT_EQ(make("block-jacobi")->name(), "block-jacobi (ilu0)");
    EXPECT_EQ(make("block-jacobi", {.solver = Kind::ic0, .blocks = 2})->name(), "block-jacobi (ic0, 2 blocks a rank)");
    EXPECT_EQ(make("block-jacobi", {.solver = Kind::spai})->name(), "spai (local)");
    EXPECT_EQ(make("ic0")->name(), "block-jacobi (ic0)");
    EXPECT_EQ(make("iluk", {.levels = 0})->name(), "block-jacobi (iluk, levels 0, 1 entries for one of A)");
    EXPECT_EQ(make("block-jacobi", {.solver = Kind::ick, .levels = 0})->name(), make("ick", {.levels = 0})->name());
    EXPECT_EQ(make("spai", {.local = false})->name(), "spai");
    EXPECT_EQ(make("fsai")->name(), "fsai");
    EXPECT_EQ(make("polynomial", {.degree = 3})->name(), "polynomial (chebyshev, degree 3)");
    EXPECT_EQ(make("polynomial", {.kind = PolynomialKind::neumann, .relaxation = 0.9})->name(),
              "polynomial (neumann, degree 4)");
    const auto says = [&](const char* name, const precond::Options& o, std::initializer_list<const char*> words) {
      const auto text = usage_error([&] { make(name, o); });
      for (const char* w : words) EXPECT_NE(text.find(w), std::string::npos) << text;
    };
    says("jacoby", {}, {"jacoby", "did you mean \"jacobi\"", "block-jacobi"});
    says("ilu", {}, {"\"ilu0\""});
    says("none", {.degree = 3}, {"degree 3", "option of polynomial", "none has none"});
    says("jacobi", {.local = true}, {"local true", "spai, fsai", "jacobi has none"});
    says("polynomial", {.degree = -1}, {"degree is -1", "at least 0"});
    says("polynomial", {.relaxation = 1}, {"relaxation", "neumann"});
    says("polynomial", {.kind = PolynomialKind::neumann, .lambda_max = 2}, {"lambda_max", "chebyshev"});
    says("block-jacobi", {.solver = Kind::polynomial},
         {"solver is polynomial", "ilu0, ic0, iluk, ick, ilut, spai, fsai"});
    says("block-jacobi", {.solver = Kind::spai, .blocks = 2}, {"blocks"});
    says("block-jacobi", {.drop = 0.1}, {"drop", "ilut"});
    says("ilu0", {.blocks = 0}, {"blocks"});
    says("ilu0", {.levels = 1}, {"levels", "iluk, ick"});
    says("ilut", {.drop = -1}, {"drop is -1"});
    says("ilut", {.pivoting = 2}, {"pivoting is 2"});
  });
}

TEST(Make, RefusesAMatrixThatIsNotFinite) {
  on_ranks([](const comm::Communicator& comm) {
    const auto a = grid<double>(4, 4).map([](Global r, Global c, double v) { return r == 9 && c == 10 ? NAN : v; });
    const auto A = a.on(comm);
    for (const char* name : {"ilu0", "ic0", "iluk", "ick", "ilut", "spai", "fsai"}) {
      const auto text = usage_error([&] { precond::make<double, Host>(name, *A); });
      EXPECT_NE(text.find("row 9, column 10"), std::string::npos) << name << ": " << text;
    }
  });
}

TEST(Iterations, FallAsThePreconditionerGetsStronger) {
  on_ranks(
      [](const comm::Communicator& comm) {
        // A diagonal scaling with jumps, which jacobi removes.
        const auto s = [](Global i) { return std::pow(10.0, noise(3, std::uint64_t(i))); };
        const auto a = grid<double>(24, 24).map([&](Global r, Global c, double v) { return v * s(r) * s(c); });
        const auto A = a.on(comm);
        const auto b = random_vector<double>(a.n, 12);
        std::map<std::string, int> iterations;
        for (const auto& name : tacit::names<precond::Kind>()) {
          const auto P = precond::make<double, Host>(name, *A);
          const auto rhs = spread(A->range(), b);
          Vector<double> x(A->range());
          krylov::Options o;
          o.method = !precond::is_symmetric(name) ? krylov::Method::gmres : krylov::Method::cg;
          if (krylov::takes(o.method, "restart")) o.restart = 200;
          const auto report = krylov::solve<double, Host>(*A, P.get(), rhs, x, o);
          EXPECT_TRUE(report.converged()) << name << ": " << report.detail;
          EXPECT_LE(residual_of(a, b, whole(x)), 1.001e-8L) << name;
          iterations[name] = report.iterations;
        }
        const auto& i = iterations;
        EXPECT_LT(i.at("jacobi"), i.at("none") / 2);
        EXPECT_LT(i.at("ic0"), i.at("jacobi"));
        EXPECT_LT(i.at("fsai"), i.at("jacobi"));
        EXPECT_LT(i.at("spai"), i.at("none") / 2);
        EXPECT_LT(i.at("polynomial"), i.at("jacobi") / 2);
        EXPECT_EQ(i.at("block-jacobi"), i.at("ilu0"));
        EXPECT_LT(i.at("ick"), i.at("ic0"));
        EXPECT_LT(i.at("iluk"), i.at("ilu0"));
        EXPECT_LT(i.at("ilut"), i.at("ilu0"));
        EXPECT_LE(std::abs(i.at("ilu0") - i.at("ic0")), 2);  // the same operator, computed differently
      },
      {2, 4});
}

TYPED_TEST(Precond, SpectrumOfKnownMatrices) {
  using T = TypeParam;
  on_ranks([](const comm::Communicator& comm) {
    const auto estimate = [&](const Whole<T>& a, int steps, const op::Operator<T, Host>* P = nullptr) {
      return op::estimate_spectrum<T, Host>(*a.on(comm), P, steps);
    };
    const double near = std::same_as<real_t<T>, double> ? 1e-9 : 1e-4;
    const auto one = estimate(diagonal<T>({3}), 20);
    EXPECT_NEAR(one.lambda_min, 3, 3 * near);
    EXPECT_NEAR(one.lambda_max, 3, 3 * near);
    const auto identity = estimate(diagonal<T>(std::vector<double>(30, 1.0)), 20);
    EXPECT_NEAR(identity.lambda_min, 1, near);
    EXPECT_NEAR(identity.lambda_max, 1, near);
    const auto three = estimate(diagonal<T>({1, 5, 2, 5, 1, 2, 2, 1, 5}), 20);  // exact: three eigenvalues
    EXPECT_NEAR(three.lambda_min, 1, near);
    EXPECT_NEAR(three.lambda_max, 5, 5 * near);
    for (const auto& a : {diagonal<T>({1, -1, 2, 3}), diagonal<T>({0, 0, 0}), diagonal<T>({}), diagonal<T>({-2})}) {
      const auto none = estimate(a, 20);
      EXPECT_EQ(none.lambda_min, 0);
      EXPECT_EQ(none.lambda_max, 0);
    }
    const auto laplace = estimate(grid<T>(15, 15), 25);
    const double c = std::cos(M_PI / 16);
    EXPECT_LE(laplace.lambda_max, 4 + 4 * c + 1e-4);
    EXPECT_GE(laplace.lambda_max, 0.98 * (4 + 4 * c));
    EXPECT_GE(laplace.lambda_min, 4 - 4 * c - 1e-4);
    // P A = I
    const auto a = diagonal<T>({1, 10, 100, 1000, 7});
    const auto A = a.on(comm);
    const Jacobi<T> P(*A);
    const auto flat = op::estimate_spectrum<T, Host>(*A, &P, 20);
    EXPECT_NEAR(flat.lambda_min, 1, 10 * near);
    EXPECT_NEAR(flat.lambda_max, 1, 10 * near);
    const auto before = comm.counters();
    const auto G = grid<T>(15, 15).on(comm);
    op::estimate_spectrum<T, Host>(*G, nullptr, 10);
    EXPECT_EQ((comm.counters() - before).reductions, 21);
    EXPECT_EQ(G->applies(), 10);
  });
}

TEST(Spectrum, IsTheSameForAnyNumberOfRanks) {
  const auto a = grid<double>(12, 12);
  const auto alone = op::estimate_spectrum<double, Host>(*a.on(comm::Communicator::self()), nullptr, 12);
  on_ranks([&](const comm::Communicator& comm) {
    const auto found = op::estimate_spectrum<double, Host>(*a.on(comm), nullptr, 12);
    EXPECT_NEAR(found.lambda_max, alone.lambda_max, 1e-9);
    EXPECT_NEAR(found.lambda_min, alone.lambda_min, 1e-9);
  });
}

}  // namespace
}  // namespace tacit::test
