// Products and adjoints of distributed sparse matrices, compared with maps of entries.
#include "op/multiply.hpp"
#include <gtest/gtest.h>

#include "support/communicators.hpp"
#include "support/reference.hpp"
#include "support/scalars.hpp"
#include "support/threads.hpp"

#include <algorithm>
#include <string>
#include <vector>

using namespace tacit;
using layout::Partition;
using layout::Space;
using test::Reference;

namespace {

template <class T>
class Multiply : public testing::Test {};
using test::Scalars;
TYPED_TEST_SUITE(Multiply, Scalars);

enum class Spread { blocks, growing, gaps, last, replicated };
constexpr Spread all_spreads[] = {Spread::blocks, Spread::growing, Spread::gaps, Spread::last, Spread::replicated};

/// n indices on the ranks of comm: equal shares, shares that grow, none on every second rank, all on the last one.
Space space_of(const comm::Communicator& comm, Global n, Spread how) {
  if (how == Spread::replicated) return Space::replicated(comm, n);
  if (how == Spread::blocks) return Space::distributed(comm, n);
  const int parts = comm.size();
  std::vector<Global> offsets{0};
  for (int r = 1; r <= parts; ++r)
    offsets.push_back(r == parts               ? n
                      : how == Spread::last    ? 0
                      : how == Spread::growing ? n * r * r / (parts * parts)
                                               : n * (r - r % 2) / parts);
  return Space::distributed(comm, Partition(offsets));
}

/// Columns and structure to the letter, values to rounding of sums whose terms have these sizes.
template <class T>
void expect_rows(const op::Rows<T>& found, const Reference<T>& expected, const Reference<T>& size, const Space& space) {
  const auto rows = expected.rows_of(space);
  ASSERT_EQ(found.start, rows.start);
  ASSERT_EQ(found.column, rows.column);
  const auto scale = size.rows_of(space);
  for (std::size_t k = 0; k < rows.value.size(); ++k)
    ASSERT_LE(std::abs(found.value[k] - rows.value[k]), 8 * test::epsilon<T>() * double(std::abs(scale.value[k])));
}
template <class T>
Reference<T> magnitudes(Reference<T> a) {
  for (auto& [at, v] : a.entry) v = T(real_t<T>(std::abs(v)));
  return a;
}

/// 31 x 47: rows without entries, a row with all of them, else a few.
template <class T>
Reference<T> left(std::uint64_t seed) {
  return test::random_matrix<T>(
      31, 47, seed, [](Global i, Global j) { return i == 17 || (i % 7 != 3 && (3 * i + 5 * j) % 11 == 0); });
}
/// 47 x 39: a row with 39 entries, and rows without.
template <class T>
Reference<T> right(std::uint64_t seed) {
  return test::random_matrix<T>(47, 39, seed,
                                [](Global i, Global j) { return i == 30 || (i % 5 != 1 && (7 * i + 4 * j) % 9 == 0); });
}

TYPED_TEST(Multiply, IsTheProductOnAnyRanks) {
  using T = TypeParam;
  test::on_ranks([](const comm::Communicator& comm) {
    const auto a = left<T>(1), b = right<T>(2);
    const auto product = a * b, size = magnitudes(a) * magnitudes(b);
    for (const Spread of_rows : all_spreads)
      for (const Spread of_inner : all_spreads) {
        if ((of_rows == Spread::replicated) != (of_inner == Spread::replicated)) continue;
        const auto rows = space_of(comm, 31, of_rows), inner = space_of(comm, 47, of_inner);
        const auto columns = space_of(comm, 39, of_inner == Spread::growing ? Spread::gaps : of_inner);
        expect_rows(op::multiply(a.rows_of(rows), inner, b.rows_of(inner), columns), product, size, rows);
      }
  });
}

// Columns in groups, as several near-null vectors make them, also where ranks share a group; and single entries.
TYPED_TEST(Multiply, OfGroupsOfColumnsAndOfSingleEntries) {
  using T = TypeParam;
  test::on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = left<T>(6);
        for (const Global group : {0, 2, 3, 4, 5, 6}) {
          const auto b = test::random_matrix<T>(47, 60, std::uint64_t(group), [&](Global i, Global j) {
            return i % 5 != 1 && (group ? (7 * i + 4 * (j / group)) % 9 == 0 : (7 * i + 11) % 60 == j);
          });
          const auto product = a * b, size = magnitudes(a) * magnitudes(b);
          for (const Spread how : all_spreads) {
            const auto rows = space_of(comm, 31, how), inner = space_of(comm, 47, how);
            expect_rows(op::multiply(a.rows_of(rows), inner, b.rows_of(inner), space_of(comm, 60, how)), product, size,
                        rows);
          }
        }
      },
      {1, 2, 3, 5});
}

// Columns 3 and 8 occur together, on both sides of those of the second rank, and are no group there.
TEST(MultiplyEntries, InPairsOnBothSidesOfARanksColumns) {
  const auto a = test::random_matrix<double>(6, 6, 1, [](Global, Global j) { return j == 2 || j == 3; });
  const auto b = test::random_matrix<double>(6, 12, 2, [](Global i, Global j) {
    return i == 2 ? j == 3 || j == 8 : i == 3 ? j == 4 || j == 5 : j < 2;
  });
  const auto product = a * b, size = magnitudes(a) * magnitudes(b);
  test::on_ranks(
      [&](const comm::Communicator& comm) {
        const auto space = Space::distributed(comm, 6);
        expect_rows(op::multiply(a.rows_of(space), space, b.rows_of(space), Space::distributed(comm, 12)), product,
                    size, space);
      },
      {3});
}

TYPED_TEST(Multiply, AdjointHasTheConjugatesAcrossTheDiagonal) {
  using T = TypeParam;
  test::on_ranks([](const comm::Communicator& comm) {
    const auto a = left<T>(3);
    const auto expected = a.adjoint();
    for (const Spread of_rows : all_spreads)
      for (const Spread of_columns : all_spreads) {
        if ((of_rows == Spread::replicated) != (of_columns == Spread::replicated)) continue;
        const auto rows = space_of(comm, 31, of_rows), columns = space_of(comm, 47, of_columns);
        const auto found = op::adjoint(a.rows_of(rows), rows, columns);
        const auto mine = expected.rows_of(columns);
        EXPECT_EQ(found.start, mine.start);  // a rank that left would leave the others waiting
        EXPECT_EQ(found.column, mine.column);
        EXPECT_EQ(found.value, mine.value);
      }
  });
}

TEST(MultiplySizes, EmptyMatricesAndNoRows) {
  test::on_ranks([](const comm::Communicator& comm) {
    const auto none = Space::distributed(comm, 0), some = Space::distributed(comm, 5);
    const Reference<double> wide{0, 5, {}}, tall{5, 0, {}}, zero{5, 5, {}};
    EXPECT_EQ(op::multiply(wide.rows_of(none), some, zero.rows_of(some), some).count(), 0);
    const auto outer = op::multiply(tall.rows_of(some), none, wide.rows_of(none), some);
    EXPECT_EQ(outer.count(), some.local_size());
    EXPECT_TRUE(outer.column.empty());
    EXPECT_EQ(op::adjoint(tall.rows_of(some), some, none).count(), 0);
    EXPECT_EQ(op::adjoint(wide.rows_of(none), none, some).count(), some.local_size());
  });
}

/// What is wrong on the last rank alone is thrown on all.
TEST(MultiplyUse, NamesRowsAndColumnsThatDoNotFit) {
  test::on_ranks([](const comm::Communicator& comm) {
    const auto inner = Space::distributed(comm, 47), columns = Space::distributed(comm, 39);
    const auto rows = Space::distributed(comm, 31);
    const auto a = left<double>(1).rows_of(rows), b = right<double>(2).rows_of(inner);
    const bool last = comm.rank() + 1 == comm.size();
    const auto said = [](auto&& f) -> std::string {
      try {
        f();
      } catch (const Error& e) {
        EXPECT_EQ(e.kind(), ErrorKind::usage);
        return e.what();
      }
      return "nothing";
    };
    const auto product = [&](const auto& x, const auto& y) {
      return said([&] { op::multiply(x, inner, y, columns); });
    };
    const auto expect = [](const std::string& found, const char* text) {
      EXPECT_NE(found.find(text), std::string::npos) << found;
    };
    auto wrong = a;
    if (last) wrong.column.back() = 47;
    expect(product(wrong, b), "left factor of a sparse product has an entry in column 47; columns are 0 to 46");
    expect(said([&] { op::adjoint(wrong, rows, inner); }), "has an entry in column 47");
    if (last) wrong.column.back() = -3;
    expect(product(wrong, b), "an entry in column -3");
    auto few = b;
    if (last) few.start.pop_back();
    expect(product(a, few), "right factor of a sparse product has");
    auto values = a;
    if (last) values.value.pop_back();
    expect(product(values, b), "left factor of a sparse product has");
    expect(said([&] { op::adjoint(values, rows, inner); }), "a matrix to be adjoined has");
    EXPECT_EQ(product(a, b), "nothing");
  });
}

TEST(MultiplyEntries, ThatCancelStayAsZeros) {
  test::on_ranks([](const comm::Communicator& comm) {
    const Reference<double> a{2, 2, {{{0, 0}, 1.0}, {{0, 1}, 1.0}, {{1, 1}, 2.0}}};
    const Reference<double> b{2, 2, {{{0, 1}, 3.0}, {{1, 1}, -3.0}}};
    const auto space = Space::distributed(comm, 2);
    const auto found = op::multiply(a.rows_of(space), space, b.rows_of(space), space);
    const Reference<double> expected{2, 2, {{{0, 1}, 0.0}, {{1, 1}, -6.0}}};
    expect_rows(found, expected, expected, space);
  });
}

// Enough rows for many pieces; sums of up to 60 terms, of rows on this rank and on others.
TYPED_TEST(Multiply, HasTheSameBitsForAnyThreadsAndRanks) {
  using T = TypeParam;
  const Global n = 9000;
  const auto row = [&](Global i, auto&& put) {
    const int width = i % 97 == 0 ? 60 : 5;
    std::vector<Global> columns;
    for (int k = 0; k < width; ++k) columns.push_back((i + k * k * 37) % n);
    std::sort(columns.begin(), columns.end());
    columns.erase(std::unique(columns.begin(), columns.end()), columns.end());
    for (const Global c : columns) put(c, test::number<T>(5, std::uint64_t(i * n + c)));
  };
  const auto rows_of = [&](const Space& space) {
    op::Rows<T> rows;
    for (Global i = space.begin(); i < space.end(); ++i) {
      row(i, [&](Global c, T v) { rows.column.push_back(c), rows.value.push_back(v); });
      rows.start.push_back(Global(rows.column.size()));
    }
    return rows;
  };
  op::Rows<T> alone;
  {
    const test::Threads one(1);
    const auto space = Space::distributed(comm::Communicator::self(), n);
    const auto rows = rows_of(space);
    alone = op::multiply(rows, space, rows, space);
  }
  const auto expect_part = [&](const op::Rows<T>& part, const Space& space) {
    const auto begin = alone.start[std::size_t(space.begin())], end = alone.start[std::size_t(space.end())];
    ASSERT_EQ(Global(part.column.size()), end - begin);
    EXPECT_TRUE(std::equal(part.column.begin(), part.column.end(), alone.column.begin() + begin));
    EXPECT_TRUE(std::equal(part.value.begin(), part.value.end(), alone.value.begin() + begin));
  };
  for (const int threads : {2, 3, 8}) {
    const test::Threads several(threads);
    const auto space = Space::distributed(comm::Communicator::self(), n);
    const auto rows = rows_of(space);
    expect_part(op::multiply(rows, space, rows, space), space);
  }
  test::on_ranks(
      [&](const comm::Communicator& comm) {
        const auto space = Space::distributed(comm, n);
        const auto rows = rows_of(space);
        expect_part(op::multiply(rows, space, rows, space), space);
      },
      {3});
}

}  // namespace
