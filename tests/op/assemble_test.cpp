// Which rows make a matrix, and how entries of several ranks become rows.
#include <gtest/gtest.h>
#include <tacit/op/csr.hpp>

#include "support/communicators.hpp"

#include <cmath>
#include <map>
#include <string>
#include <vector>

using namespace tacit;
using namespace tacit::op;
using comm::Communicator;
using test::on_ranks;

namespace {

TEST(Csr, RefusesWhatIsNoMatrix) {
  on_ranks([](const Communicator& comm) {
    const auto space = layout::Space::distributed(comm, 2 * comm.size());
    const auto make = [&](std::vector<Global> start, exec::Buffer<Global> column) {
      exec::Buffer<double> value(column.size(), 1.0);
      return Csr<double>(space, space, Rows<double>{std::move(start), std::move(column), std::move(value)});
    };
    EXPECT_THROW(make({0, 1}, {0}), Error);                   // one row too few
    EXPECT_THROW(make({0, 1, 2}, {0, space.size()}), Error);  // a column out of range
    EXPECT_THROW(make({0, 2, 2}, {1, 0}), Error);             // columns not ascending
    EXPECT_THROW(make({0, 2, 2}, {1, 1}), Error);             // a repeated column
    EXPECT_THROW(make({0, 1, 3}, {0, 1}), Error);             // more row starts than entries
    EXPECT_EQ(make({0, 1, 2}, {0, 1}).fault(), "");
    Rows<double> nan{{0, 1, 2}, {0, 1}, {1, comm.rank() == comm.size() - 1 ? NAN : 1}};
    const Csr<double> A(space, space, nan);
    EXPECT_NE(A.fault().find("row " + std::to_string(space.size() - 1)), std::string::npos) << A.fault();
  });
}

TEST(Assemble, SendsEntriesToTheirOwnersAndAddsThemUp) {
  on_ranks([](const Communicator& comm) {
    const auto partition = layout::Partition::blocks(31, comm.size());
    // Every rank contributes one share of every entry.
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

TEST(Assemble, AddsDuplicatesInTheOrderOfRanksAndAsGiven) {
  on_ranks([](const Communicator& comm) {
    const auto partition = layout::Partition::blocks(7, comm.size());
    const auto share = [](int rank, int i) { return 0.1 * (rank + 1) + 1e16 * (i % 3 - 1); };  // the order shows
    std::vector<Global> row, column;
    std::vector<double> value;
    for (int i = 0; i < 6; ++i)
      for (Global r = 6; r >= 0; --r)
        for (Global c : {Global(3), Global(i % 2)})
          row.push_back(r), column.push_back(c), value.push_back(share(comm.rank(), i));
    double all = 0, of_parity[2] = {};
    for (int rank = 0; rank < comm.size(); ++rank)
      for (int i = 0; i < 6; ++i) all += share(rank, i), of_parity[i % 2] += share(rank, i);
    const auto rows = assemble<double>(comm, partition, 4, row, column, value);
    for (Local r = 0; r < rows.count(); ++r) EXPECT_EQ(rows.start[r + 1], 3 * (r + 1));
    for (std::size_t k = 0; k < rows.value.size(); ++k)
      EXPECT_EQ(rows.value[k], k % 3 == 2 ? all : of_parity[k % 3]) << k << " on " << comm.size() << " ranks";
  });
}

}  // namespace
