// Clusters of rows and columns from the sparsity pattern: permutations, the same for any number of threads, and data
// reuse.
#include <gtest/gtest.h>
#include <tacit/base/error.hpp>
#include <tacit/layout/clustering.hpp>
#include <tacit/layout/partitioners.hpp>

#include "support/threads.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

using namespace tacit;
using layout::Clustering;

namespace {

struct Matrix {
  std::vector<Global> start{0};
  std::vector<Local> column;
  Local columns = 0;
  layout::Pattern pattern() const { return {start, column, columns}; }
};

// i -> (a i + b) mod n, a permutation for a and n without a common factor.
Local scattered(Local i, Local n) {
  Local a = std::max<Local>(1, n / 3);
  while (std::gcd(a, n) != 1) ++a;
  return Local((Global(i) * a + 7) % n);
}

// Lines through a square of side x side cells, `side` of them at each angle; rows and columns in scattered order.
Matrix lines(Local side, Local angles) {
  Matrix m;
  m.columns = side * side;
  const Local n = side * angles;
  for (Local r = 0; r < n; ++r) {
    const Local line = scattered(r, n), j = line % side;
    const double t = 3.14159265358979 * (line / side) / angles, c = std::cos(t), s = std::sin(t);
    std::set<Local> cells;
    for (double along = -side; along < side; along += 0.25) {
      const double x = side / 2.0 + (j + 0.5 - side / 2.0) * c - along * s,
                   y = side / 2.0 + (j + 0.5 - side / 2.0) * s + along * c;
      if (x >= 0 && y >= 0 && x < side && y < side) cells.insert(scattered(Local(x) + side * Local(y), m.columns));
    }
    m.column.insert(m.column.end(), cells.begin(), cells.end());
    m.start.push_back(Global(m.column.size()));
  }
  return m;
}

// The 5-point pattern of a square grid, in scattered order.
Matrix grid(Local side) {
  Matrix m;
  m.columns = side * side;
  for (Local r = 0; r < m.columns; ++r) {
    const Local p = scattered(r, m.columns), x = p % side, y = p / side;
    for (const auto& [u, v] : {std::pair{x, y}, {x - 1, y}, {x + 1, y}, {x, y - 1}, {x, y + 1}})
      if (u >= 0 && v >= 0 && u < side && v < side) m.column.push_back(scattered(u + side * v, m.columns));
    m.start.push_back(Global(m.column.size()));
  }
  return m;
}

void expect_permutation(const std::vector<Local>& order, Local n) {
  ASSERT_EQ(order.size(), std::size_t(n));
  std::vector<char> seen(order.size(), 0);
  for (const Local i : order) {
    ASSERT_TRUE(i >= 0 && i < n && !seen[std::size_t(i)]);
    seen[std::size_t(i)] = 1;
  }
}

std::vector<Clustering> all_ways() {
  std::vector<Clustering> ways{Clustering::automatic, Clustering::spectral, Clustering::greedy};
  if (layout::metis_built()) ways.push_back(Clustering::metis);
  return ways;
}

}  // namespace

TEST(Clustering, BringsLinesTogetherThatReadTheSameCells) {
  const Matrix m = lines(40, 64);
  const auto a = m.pattern();
  const double before = layout::row_reuse(a, {}, 128), before_columns = layout::column_reuse(a, {}, 128);
  for (const auto how : all_ways()) {
    const auto found = layout::cluster(a, {how, 128});
    expect_permutation(found.rows, a.rows());
    expect_permutation(found.columns, a.columns);
    const double rows = layout::row_reuse(a, found.rows, 128), columns = layout::column_reuse(a, found.columns, 128);
    // Parts by METIS contain rows and columns in varying proportions, so that blocks do not begin where parts do. The
    // spectral method would reach 2.2 without orthonormalisation.
    EXPECT_GT(rows, (how == Clustering::metis ? 1.1 : 2.4) * before) << layout::name_of(how);
    EXPECT_GT(columns, (how == Clustering::metis ? 1.05 : 1.7) * before_columns) << layout::name_of(how);
  }
}

TEST(Clustering, BringsTheNeighboursOfAGridTogether) {
  const Matrix m = grid(64);
  const auto found = layout::cluster(m.pattern(), {Clustering::automatic, 64});
  EXPECT_EQ(found.how, Clustering::greedy);
  expect_permutation(found.rows, 4096);
  // Squares of 8 x 8 points read 96 cells in 320 entries (at best 320 / 96 = 3.3).
  EXPECT_GT(layout::row_reuse(m.pattern(), found.rows, 64), 2.6);
  EXPECT_LT(layout::row_reuse(m.pattern(), {}, 64), 2);
}

// A pattern that is well ordered, and one that no order improves, keep their order.
TEST(Clustering, KeepsTheOrderWithoutGain) {
  Matrix band, diagonal;
  band.columns = diagonal.columns = 3000;
  for (Local r = 0; r < 3000; ++r) {
    for (Local c = std::max(0, r - 2); c <= std::min(2999, r + 2); ++c) band.column.push_back(c);
    band.start.push_back(Global(band.column.size()));
    diagonal.column.push_back(scattered(r, 3000)), diagonal.start.push_back(r + 1);
  }
  for (const Matrix* m : {&band, &diagonal}) {
    const auto found = layout::cluster(m->pattern(), {Clustering::automatic, 256});
    EXPECT_EQ(found.how, Clustering::automatic);
    EXPECT_STREQ(layout::name_of(found.how), "natural");
    std::vector<Local> same(3000);
    std::iota(same.begin(), same.end(), 0);
    EXPECT_EQ(found.rows, same);
  }
}

TEST(Clustering, GivesTheSameOrderOnAnyNumberOfThreads) {
#ifdef _OPENMP
  const Matrix m = lines(32, 40);
  test::Threads threads(1);
  const auto one = layout::cluster(m.pattern(), {Clustering::spectral, 64});
  threads.use(3);
  const auto three = layout::cluster(m.pattern(), {Clustering::spectral, 64});
  EXPECT_EQ(one.rows, three.rows);
  EXPECT_EQ(one.columns, three.columns);
#else
  GTEST_SKIP() << "a build without OpenMP";
#endif
}

TEST(Clustering, AcceptsEmptyRowsAndRefusesWrongPatterns) {
  Matrix holes;
  holes.columns = 90;
  for (Local r = 0; r < 200; ++r) {
    if (r % 3 == 0)
      for (Local c = r % 7; c < 70; c += 9) holes.column.push_back(c);
    holes.start.push_back(Global(holes.column.size()));
  }
  Matrix empty;
  empty.columns = 5, empty.start = {0, 0, 0};
  for (const auto how : all_ways())
    for (const Matrix* m : {&holes, &empty}) {
      const auto found = layout::cluster(m->pattern(), {how, 16});
      expect_permutation(found.rows, m->pattern().rows());
      expect_permutation(found.columns, m->columns);
    }
  EXPECT_DOUBLE_EQ(layout::row_reuse(holes.pattern(), {}, 1), 1);
  EXPECT_THROW(layout::cluster(holes.pattern(), {Clustering::greedy, 0}), Error);
  holes.column[3] = 90;
  EXPECT_THROW(layout::cluster(holes.pattern()), Error);
  EXPECT_EQ(layout::clustering_named("clustered"), Clustering::automatic);
  EXPECT_FALSE(layout::clustering_named("natural"));
}
