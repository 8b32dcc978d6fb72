// The matching of rows and columns with the largest product, compared with all permutations.
#include "precond/matching.hpp"
#include <tacit/comm/communicator.hpp>

#include "support/communicators.hpp"
#include "support/precond.hpp"
#include "support/scalars.hpp"
#include "support/systems.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace tacit::test {
namespace {

template <class T>
class Matching : public testing::Test {};
TYPED_TEST_SUITE(Matching, Scalars);

/// The matching is the best of all permutations; its scalings make it the largest entry of its row and column.
TYPED_TEST(Matching, MaximisesTheProductOfTheDiagonal) {
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
TYPED_TEST(Matching, OfEntriesOfAnySize) {
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
TYPED_TEST(Matching, KeepsADiagonalThatIsTheBestChoice) {
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
TYPED_TEST(Matching, OfAStructurallySingularMatrix) {
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

}  // namespace
}  // namespace tacit::test
