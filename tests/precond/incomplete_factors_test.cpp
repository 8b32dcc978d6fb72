// Incomplete factors, and the solves with them, compared with dense ones; blocks of a rank.
#include <tacit/comm/communicator.hpp>
#include <tacit/layout/ordering.hpp>
#include <tacit/layout/partitioners.hpp>
#include <tacit/precond/block_jacobi.hpp>
#include <tacit/precond/make.hpp>

#include "support/communicators.hpp"
#include "support/precond.hpp"
#include "support/scalars.hpp"
#include "support/systems.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace tacit::test {
namespace {

using layout::Vector;
using precond::BlockJacobi;
using precond::BlockOrder;
using precond::Factorisation;
using precond::Incomplete;

template <class T>
class IncompleteFactors : public testing::Test {};
TYPED_TEST_SUITE(IncompleteFactors, Scalars);

/// Rows of different lengths: I, with an entry of a grid where a hash of its place is not 0 modulo 3, and couplings of
/// rows so far apart.
template <class T>
Whole<T> ragged(Global n, Global near, Global far) {
  Whole<T> a;
  a.n = n;
  for (Global i = 0; i < n; ++i) {
    for (const Global d : {-far, -near, Global(-1), Global(0), Global(1), near, far})
      if (const Global j = i + d; j >= 0 && j < n && (d == 0 || d == far || d == -far || (i * j + i + j) % 3 != 0))
        a.push(j, d == 0 ? T(4) : T(real_t<T>(-0.3)));
    a.end_row();
  }
  return a;
}

TYPED_TEST(IncompleteFactors, TriangularSolvesByLevelsInvertTheFactors) {
  using T = TypeParam;
  on_ranks([](const comm::Communicator& comm) {
    // Grids are solved in slices of eight rows, the others row by row; with long rows by four sums. Large ones in
    // several windows, the last one with offsets of 32 bits.
    for (const auto& a : {grid<T>(23, 31, 0.3), grid<T>(40, 9), scattered<T>(60, 20, 3), grid<T>(151, 130, 0.3),
                          ragged<T>(20000, 100, 5000), ragged<T>(52000, 40, 35000)})
      for (const auto kind : {Factorisation::ilu0, Factorisation::ilut}) {
        const auto A = a.on(comm);
        const BlockJacobi<T> P(*A, Incomplete(kind));
        expect_columns<T>(P, true);
        expect_adjoint<T>(P);
        if (kind != Factorisation::ilu0) continue;
        // (L + I)(D + U) y = x on this rank's rows.
        const auto x = spread(A->range(), random_vector<T>(A->range().size(), 5));
        Vector<T> y(A->range());
        layout::fill(y, T(std::numeric_limits<real_t<T>>::quiet_NaN()));  // which must not be read
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

TYPED_TEST(IncompleteFactors, TriangularSolvesKeepTheSignsOfZeros) {
  using T = TypeParam;
  if constexpr (!is_complex<T>) {
    // In slices of eight rows, the shorter of which are filled up, and row by row.
    for (const auto& a : {grid<T>(23, 31, 0.3), grid<T>(60, 1), ragged<T>(20000, 100, 5000)}) {
      const auto A = a.on(comm::Communicator::self());
      const BlockJacobi<T> P(*A, Incomplete(Factorisation::ilu0));
      for (const int k : {1, 2}) {
        Vector<T> x(A->range(), k), y(A->range(), k);
        layout::fill(x, T(-0.0));
        P.apply(x, y);
        for (std::size_t i = 0; i < y.size(); ++i) ASSERT_TRUE(std::signbit(y.data()[i])) << i << " of " << k;
      }
    }
  }
}

TYPED_TEST(IncompleteFactors, TriangularSolvesByLevelsInvertTheFactorsOfIc0) {
  using T = TypeParam;
  on_ranks([](const comm::Communicator& comm) {
    // A grid is solved in slices of eight rows, a line row by row; also minus the matrix, whose factors are the same.
    for (const auto& a : {grid<T>(23, 31), grid<T>(60, 1), grid<T>(190, 90), ragged<T>(20000, 100, 5000)})
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

TYPED_TEST(IncompleteFactors, Ilu0OfATridiagonalIsExact) {
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

TYPED_TEST(IncompleteFactors, Ilu0FactorsGiveBackTheMatrixOnItsPattern) {
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

TYPED_TEST(IncompleteFactors, Ic0FactorsGiveBackTheMatrixOnItsPattern) {
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

TYPED_TEST(IncompleteFactors, Ic0ShiftsWhenAPivotIsNotPositiveAndSaysSo) {
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

TYPED_TEST(IncompleteFactors, Ic0RefusesWhatIsNotHermitian) {
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

TYPED_TEST(IncompleteFactors, Ic0OfAnIndefiniteMatrixIsPositiveDefinite) {
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

TYPED_TEST(IncompleteFactors, Ic0TakesAsymmetryOfRoundingAndNegativeDefiniteMatrices) {
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

TYPED_TEST(IncompleteFactors, ZeroPivotsAreReplacedAndCounted) {
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
TYPED_TEST(IncompleteFactors, FactorsWithAllFillAreExact) {
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

TYPED_TEST(IncompleteFactors, IncompleteCholeskyWithAllFillIsExact) {
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
TYPED_TEST(IncompleteFactors, LevelsOfFillEnlargeThePattern) {
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

TYPED_TEST(IncompleteFactors, IlutDropsAndLimitsItsFill) {
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
TYPED_TEST(IncompleteFactors, IlutGivesLaterRowsWhatEarlierOnesLeave) {
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

TYPED_TEST(IncompleteFactors, IlutReportsStructurallySingularBlocks) {
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
TYPED_TEST(IncompleteFactors, BlocksOfARankDropTheCouplingsBetweenThem) {
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

}  // namespace
}  // namespace tacit::test
