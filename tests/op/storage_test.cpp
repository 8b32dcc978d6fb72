// How a sparse matrix is stored changes nothing but its size.
#include <gtest/gtest.h>
#include <tacit/op/csr.hpp>
#include <tacit/op/stencil.hpp>

#include "support/communicators.hpp"
#include "support/reference.hpp"
#include "support/threads.hpp"

using namespace tacit;
using namespace tacit::op;
using comm::Communicator;
using layout::Vector;
using test::on_ranks;

namespace {

// Every storage, given rows that fit it: column offsets of 16 bits or not, rows of many lengths.
template <class T>
Rows<T> rows_reaching(Global n, Global begin, Global end, Global reach) {
  Rows<T> rows;
  for (Global i = begin; i < end; ++i) {
    if (i % 11 != 5)
      for (Global j : {i - reach, i - 2, i, i + 1 + i % 3, i + reach})
        if (j >= 0 && j < n && (rows.start.back() == Global(rows.column.size()) || rows.column.back() < j)) {
          rows.column.push_back(j);
          rows.value.push_back(test::number<T>(1, std::uint64_t(i * 7 + j)));
        }
    rows.start.push_back(Global(rows.column.size()));
  }
  return rows;
}

template <class T>
class Storage : public testing::Test {};
using Scalars = testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(Storage, Scalars);

TYPED_TEST(Storage, HasNoPartInTheResult) {
  using T = TypeParam;
  const Global n = 80001;
  for (const int team : {1, 3}) {
    const test::Threads threads(team);
    for (Global reach : {Global(100), Global(40000)}) {
      const auto comm = Communicator::self();
      const auto space = layout::Space::distributed(comm, n);
      const auto rows = rows_reaching<T>(n, 0, n, reach);
      for (Format format : {Format::csr, Format::sell, Format::automatic}) {
        const Csr<T> A(space, space, rows, format);
        EXPECT_EQ(A.storage().find("16-bit") != std::string::npos, reach == 100) << A.storage();
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

TEST(Csr, GivesItsRowsBackOnAnyRanks) {
  on_ranks([](const Communicator& comm) {
    const auto space = layout::Space::distributed(comm, 203);
    const auto rows = rows_reaching<double>(203, space.begin(), space.end(), 90);
    for (Format format : {Format::csr, Format::sell}) {
      const Csr<double> A(space, space, rows, format);
      const auto back = A.rows();
      EXPECT_EQ(back.start, rows.start);
      EXPECT_EQ(back.column, rows.column);
      EXPECT_EQ(back.value, rows.value);
      EXPECT_EQ(A.entries(), comm.all_sum(rows.start.back()));
    }
  });
}

// A row longer than 255 needs wider bookkeeping in slices.
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

TEST(Csr, RefusesWhatIsNoMatrix) {
  on_ranks([](const Communicator& comm) {
    const auto space = layout::Space::distributed(comm, 2 * comm.size());
    const auto make = [&](std::vector<Global> start, std::vector<Global> column) {
      std::vector<double> value(column.size(), 1.0);
      return Csr<double>(space, space, Rows<double>{std::move(start), std::move(column), std::move(value)});
    };
    EXPECT_THROW(make({0, 1}, {0}), Error);                   // a row too few
    EXPECT_THROW(make({0, 1, 2}, {0, space.size()}), Error);  // a column outside
    EXPECT_THROW(make({0, 2, 2}, {1, 0}), Error);             // not ascending
    EXPECT_THROW(make({0, 2, 2}, {1, 1}), Error);             // twice
    EXPECT_THROW(make({0, 1, 3}, {0, 1}), Error);             // more starts than entries
    EXPECT_EQ(make({0, 1, 2}, {0, 1}).fault(), "");
    Rows<double> nan{{0, 1, 2}, {0, 1}, {1, comm.rank() == comm.size() - 1 ? NAN : 1}};
    const Csr<double> A(space, space, nan);
    EXPECT_NE(A.fault().find("row " + std::to_string(space.size() - 1)), std::string::npos) << A.fault();
  });
}

TEST(Assemble, SendsEntriesToTheirOwnersAndAddsThemUp) {
  on_ranks([](const Communicator& comm) {
    const auto partition = layout::Partition::blocks(31, comm.size());
    // Every rank gives one share of every entry.
    std::vector<Global> row, column;
    std::vector<double> value;
    for (Global i = 30; i >= 0; --i)
      for (Global j : {(i * 3) % 29, i}) {
        row.push_back(i), column.push_back(j), value.push_back(double(i + 100 * j) * (comm.rank() + 1));
      }
    const auto rows = assemble<double>(comm, partition, 31, row, column, value);
    const double times = comm.size() * (comm.size() + 1) / 2;
    ASSERT_EQ(rows.count(), partition.end(comm.rank()) - partition.begin(comm.rank()));
    for (Local r = 0; r < rows.count(); ++r) {
      const Global i = partition.begin(comm.rank()) + r;
      std::map<Global, double> expected;
      for (Global j : {(i * 3) % 29, i}) expected[j] += double(i + 100 * j) * times;
      ASSERT_EQ(rows.start[r + 1] - rows.start[r], Global(expected.size()));
      Global k = rows.start[r];
      for (const auto& [j, v] : expected) {
        EXPECT_EQ(rows.column[k], j);
        EXPECT_EQ(rows.value[k++], v);
      }
    }
    EXPECT_THROW(
        assemble<double>(comm, partition, 31, std::vector<Global>{31}, std::vector<Global>{0}, std::vector<double>{1}),
        Error);
  });
}

TEST(IsHermitian, ComparesWithTheAdjoint) {
  on_ranks([](const Communicator& comm) {
    using C = std::complex<double>;
    const auto space = layout::Space::distributed(comm, 23);
    auto a = test::random_matrix<C>(23, 23, 4, [](Global i, Global j) { return std::abs(i - j) < 4; });
    EXPECT_FALSE(is_hermitian(comm, space.partition(), a.rows_of(space)));
    a = a + a.adjoint();
    EXPECT_TRUE(is_hermitian(comm, space.partition(), a.rows_of(space)));
    a.entry.erase({22, 20});
    EXPECT_FALSE(is_hermitian(comm, space.partition(), a.rows_of(space)));
  });
}

TEST(IsHermitian, JudgesAnEntryByTheDiagonalOfItsRowAndColumn) {
  on_ranks([](const Communicator& comm) {
    const Global n = 23;
    const auto space = layout::Space::distributed(comm, n);
    // D M D, M with a diagonal of 2: sizes from 1e-8 to 1e8.
    const auto d = [](Global i) { return std::pow(10.0, double(i % 5) * 2 - 4); };
    const auto is = [&](Global i, Global j, double change, bool mirrored) {
      test::Reference<double> a{n, n, {}};
      for (Global k = 0; k < n; ++k) a.entry[{k, k}] = 2 * d(k) * d(k);
      if (mirrored) a.entry[{i, j}] = a.entry[{j, i}] = 0.25 * d(i) * d(j);
      a.entry[{i, j}] += change * d(i) * d(j);
      return is_hermitian(comm, space.partition(), a.rows_of(space));
    };
    for (const bool mirrored : {true, false})
      for (const auto& [i, j] : {std::pair<Global, Global>{0, 21}, {21, 0}, {4, 5}, {20, 10}, {9, 10}}) {
        // What summing up in another order leaves; also where the terms have cancelled on one side.
        EXPECT_TRUE(is(i, j, 6e-16, mirrored)) << i << " " << j << " " << mirrored;
        EXPECT_FALSE(is(i, j, 1e-12, mirrored)) << i << " " << j << " " << mirrored;
      }
  });
}

}  // namespace
