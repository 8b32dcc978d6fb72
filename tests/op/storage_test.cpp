// The storage of a sparse matrix does not change results.
#include <gtest/gtest.h>
#include <tacit/op/csr.hpp>

#include "op/stored_rows.hpp"
#include "support/communicators.hpp"
#include "support/reference.hpp"
#include "support/scalars.hpp"
#include "support/threads.hpp"

#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace tacit;
using namespace tacit::op;
using namespace tacit::op::stored;
using comm::Communicator;
using layout::Vector;
using test::on_ranks;

namespace {

template <class T>
class Storage : public testing::Test {};
TYPED_TEST_SUITE(Storage, test::Scalars);

TYPED_TEST(Storage, DoesNotChangeTheResult) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  using T = TypeParam;
  const Global n = 80001;
  for (const int team : {1, 3}) {
    const test::Threads threads(team);
    for (Global reach : {Global(100), Global(40000)}) {
      const auto comm = Communicator::self();
      const auto space = layout::Space::distributed(comm, n);
      const auto rows = rows_reaching<T>(n, 0, n, reach);
      for (Format format : {Format::csr, Format::sell, Format::bsr, Format::automatic}) {
        const Csr<T> A(space, space, rows, format);
        if (format != Format::bsr) {
          EXPECT_EQ(A.storage().find("16-bit") != std::string::npos, reach == 100) << A.storage();
        }
        if (format == Format::csr) {
          EXPECT_EQ(A.storage().substr(0, 3), "csr");
        }
        if (format == Format::sell) {
          EXPECT_EQ(A.storage().substr(0, 4), "sell");
        }
        for (int k : {1, 2, 9}) {
          const auto x = test::vector_of<T>(space, 2, k);
          Vector<T> y(space, k);
          layout::fill(y, T(std::numeric_limits<real_t<T>>::quiet_NaN()));
          A.apply(x, y);
          double worst = 0;
          for (Global i = 0; i < n; ++i)
            for (int c = 0; c < k; ++c) {
              T sum{};
              for (Global e = rows.start[i]; e < rows.start[i + 1]; ++e)
                sum += rows.value[e] * x.data()[rows.column[e] * k + c];
              worst = std::max(worst, double(std::abs(sum - y.data()[i * k + c])));
            }
          EXPECT_LE(worst, 32 * test::epsilon<T>()) << A.storage() << ", " << k << " columns";
        }
        const auto back = A.rows();
        EXPECT_EQ(back.start, rows.start);
        EXPECT_EQ(back.column, rows.column);
        EXPECT_EQ(back.value, rows.value);
      }
    }
  }
}

// Every number of columns that has a kernel of its own, and some that are made of several. Sums have one order.
TYPED_TEST(Storage, ColumnsAreThoseOfSingleProducts) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  using T = TypeParam;
  if (is_complex<T>) GTEST_SKIP() << "gcc 12 fuses some complex products and sums";
  const Global n = 30011;
  const auto space = layout::Space::distributed(Communicator::self(), n);
  const auto of = [&](bool scattered, bool narrow) {
    Rows<T> rows;
    for (Global i = 0; i < n; ++i) {
      std::set<Global> columns;
      const Global count = i % 7 == 3 ? 0 : i % 1000 == 8 ? 300 : 1 + i * i % 13;
      for (Global e = 0; e < count; ++e)
        columns.insert(scattered ? (i * 7919 + e * e * 104729) % n : (i / 4 + 3 * e) % n);
      for (const Global j : columns) {
        rows.column.push_back(j);
        rows.value.push_back(narrow ? T(real_t<T>(1 + (i + j) % 5)) : test::number<T>(1, std::uint64_t(i * 7 + j)));
      }
      rows.start.push_back(Global(rows.column.size()));
    }
    return rows;
  };
  for (const bool scattered : {false, true})
    for (const bool narrow : {false, true})
      for (Format format : {Format::csr, Format::sell}) {
        const Csr<T> A(space, space, of(scattered, narrow), format);
        for (int k : {2, 3, 4, 8, 16, 21, 32, 64, 135, 160}) {  // the last one: results are stored past the caches
          auto x = test::vector_of<T>(space, 2, k);
          x.data()[std::size_t(17 * k)] = T(std::numeric_limits<real_t<T>>::infinity());  // padding multiplies it by 0
          Vector<T> y(space, k), one(space), alone(space);
          A.apply(x, y);
          for (int c = 0; c < k; c += 1 + k / 5) {
            for (Global i = 0; i < n; ++i) one.data()[i] = x.data()[i * k + c];
            A.apply(one, alone);
            int differ = 0;
            for (Global i = 0; i < n; ++i) {
              const T &a = y.data()[i * k + c], &b = alone.data()[i];
              differ += std::memcmp(&a, &b, sizeof(T)) != 0 && (a == a || b == b);
            }
            EXPECT_EQ(differ, 0) << A.storage() << ", " << scattered << ", column " << c << " of " << k;
          }
        }
      }
}

// Results of many columns are stored past the caches, by all kernels that write whole lines.
TYPED_TEST(Storage, LargeResultsAreThoseOfSingleProducts) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  using T = TypeParam;
  const Global n = 30006;  // the last slice of SELL is not whole
  const int k = 160;
  const auto space = layout::Space::distributed(Communicator::self(), n);
  for (const bool alone : {false, true}) {  // an entry outside of the blocks of 3 x 3
    Rows<T> rows;
    for (Global i = 0; i < n; ++i) {
      for (Global j = std::max<Global>(0, i / 3 * 3 - 3); j < std::min(n, i / 3 * 3 + 6); ++j) rows.column.push_back(j);
      if (alone && i == 300) rows.column.push_back(n - 1);
      while (rows.value.size() < rows.column.size()) rows.value.push_back(test::number<T>(1, rows.value.size()));
      rows.start.push_back(Global(rows.column.size()));
    }
    for (const int team : {1, 3})
      for (Format format : {Format::csr, Format::sell, Format::bsr}) {
        const test::Threads threads(team);
        const Csr<T> A(space, space, rows, format);
        const auto x = test::vector_of<T>(space, 2, k);
        Vector<T> y(space, k), one(space), single(space);
        A.apply(x, y);
        for (const int c : {0, 7, 96, k - 1}) {
          for (Global i = 0; i < n; ++i) one.data()[i] = x.data()[i * k + c];
          A.apply(one, single);
          double worst = 0;
          for (Global i = 0; i < n; ++i)
            worst = std::max(worst, double(std::abs(y.data()[i * k + c] - single.data()[i])));
          EXPECT_LE(worst, format == Format::bsr || is_complex<T> ? 64 * test::epsilon<T>() : 0)
              << A.storage() << ", column " << c;
        }
      }
  }
}

TEST(Csr, GivesItsRowsBackOnAnyRanks) {
  on_ranks([](const Communicator& comm) {
    const auto space = layout::Space::distributed(comm, 203);
    const auto rows = rows_reaching<double>(203, space.begin(), space.end(), 90);
    for (Format format : {Format::csr, Format::sell, Format::bsr}) {
      const Csr<double> A(space, space, rows, format);
      const auto back = A.rows();
      EXPECT_EQ(back.start, rows.start);
      EXPECT_EQ(back.column, rows.column);
      EXPECT_EQ(back.value, rows.value);
      EXPECT_EQ(A.entries(), comm.all_sum(rows.start.back()));
    }
  });
}

TYPED_TEST(Storage, GivesBlocksOfARanksRows) {
  using T = TypeParam;
  on_ranks([](const Communicator& comm) {
    const Global n = 20003;  // blocks of rows begin at several rows of a rank
    const auto space = layout::Space::distributed(comm, n);
    const auto rows = rows_reaching<T>(n, space.begin(), space.end(), 300);
    for (Format format : {Format::csr, Format::sell, Format::bsr}) {
      const Csr<T> A(space, space, rows, format);
      const Local own = space.local_size();
      EXPECT_EQ(A.own_block_entries(), A.own_block().start.back());
      for (const auto& range : {std::pair<Local, Local>{0, own}, {0, 0}, {own / 3, own / 2}, {own - 1, 1}}) {
        const Local first = range.first, count = range.second;
        LocalRows<T> all, lower, upper;
        std::vector<T> diagonal(std::size_t(count), T{});
        for (Local r = 0; r < count; ++r) {
          for (Global e = rows.start[first + r]; e < rows.start[first + r + 1]; ++e) {
            const Global c = rows.column[e] - space.begin() - first;
            if (c < 0 || c >= count) continue;
            all.column.push_back(Local(c)), all.value.push_back(rows.value[e]);
            if (c == r) diagonal[std::size_t(r)] = rows.value[e];
            auto& part = c < r ? lower : upper;
            if (c != r) part.column.push_back(Local(c)), part.value.push_back(rows.value[e]);
          }
          for (auto* part : {&all, &lower, &upper}) part->start.push_back(Global(part->column.size()));
        }
        const auto expect = [&](const LocalRows<T>& found, const LocalRows<T>& wanted) {
          EXPECT_EQ(found.columns, count);
          EXPECT_EQ(found.start, wanted.start);
          EXPECT_EQ(found.column, wanted.column);
          EXPECT_EQ(found.value, wanted.value);
        };
        expect(A.own_block(first, count), all);
        for (const bool with_upper : {true, false}) {
          const auto parts = A.split_own_block(first, count, with_upper);
          expect(parts.lower, lower);
          expect(parts.upper, with_upper ? upper : LocalRows<T>());
          EXPECT_EQ(parts.diagonal, diagonal);
        }
      }
    }
  });
}

TYPED_TEST(Storage, SumsCouplingsAndCountsEntries) {
  using T = TypeParam;
  on_ranks([](const Communicator& comm) {
    const Global n = 9001;
    const auto space = layout::Space::distributed(comm, n);
    const auto rows = rows_reaching<T>(n, space.begin(), space.end(), 300);
    std::vector<Local> lengths;
    double sums[2] = {0, 0};
    for (Local r = 0; r < rows.count(); ++r) {
      T d{};
      for (Global e = rows.start[r]; e < rows.start[r + 1]; ++e)
        if (rows.column[e] == space.begin() + r) d = rows.value[e];
      for (Global e = rows.start[r]; e < rows.start[r + 1]; ++e) {
        if (rows.column[e] == space.begin() + r) continue;
        sums[0] += double(std::abs(rows.value[e]));
        if (real(rows.value[e] * conj(d)) > 0) sums[1] += double(std::abs(rows.value[e]));
      }
      lengths.push_back(Local(rows.start[r + 1] - rows.start[r]));
    }
    space.sum(sums, 2);
    for (Format format : {Format::csr, Format::sell, Format::bsr}) {
      const Csr<T> A(space, space, rows, format);
      const auto found = A.couplings();
      EXPECT_NEAR(found[0], sums[0], 1e-10 * sums[0]);
      EXPECT_NEAR(found[1], sums[1], 1e-10 * sums[0]);
      EXPECT_GT(found[1], 0.2 * found[0]);
      EXPECT_LT(found[1], 0.8 * found[0]);
      EXPECT_EQ(A.unknowns_in_a_node(), 1);
      EXPECT_EQ(A.row_lengths(), lengths);
    }
  });
}

TYPED_TEST(Storage, OfSlicesWithoutEntriesBesideFullOnes) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  using T = TypeParam;
  const Global n = 640;
  const auto space = layout::Space::distributed(Communicator::self(), n);
  for (const Global empty : {8, 24, 40}) {
    Rows<T> rows;
    for (Global i = 0; i < n; ++i) {
      for (const Global j : {i - 1, i, i + 1})
        if (i % 64 >= empty && j >= 0 && j < n) rows.column.push_back(j), rows.value.push_back(T(2));
      rows.start.push_back(Global(rows.column.size()));
    }
    const Csr<T> A(space, space, rows, Format::sell);
    for (const int k : {1, 2}) expect_product(A, rows, k);
  }
}

// Rows longer than 255 need wider row lengths in slices.
TEST(Csr, TakesLongRowsInSlices) {
  const auto comm = Communicator::self();
  const auto space = layout::Space::distributed(comm, 700);
  const auto a = test::random_matrix<double>(
      700, 700, 2, [](Global i, Global j) { return i == 3 || i == j || (i == 4 && j < 256); });
  const Csr<double> A(space, space, a.rows_of(space), Format::sell);
  const auto x = test::vector_of<double>(space, 3);
  Vector<double> y(space);
  A.apply(x, y);
  const auto whole = test::whole_vector<double>(700, 3);
  const auto expected = a.times(whole), size = a.size(whole);
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y.data()[i], expected[i], 1e-14 * size[i] + 1e-15);
  EXPECT_EQ(A.rows().column, a.rows_of(space).column);
}

TEST(LocalMatrix, RefusesMoreRowsThanItCanCount) {
  LocalRowsView<double> a;
  a.start = {static_cast<const Global*>(nullptr), std::size_t(std::numeric_limits<Local>::max())};  // is not read
  for (const Format format : {Format::automatic, Format::csr, Format::sell, Format::bsr})
    EXPECT_THROW((LocalMatrix<double>(a, format)), Error);
}

}  // namespace
