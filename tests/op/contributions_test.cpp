// Contributions of any rank to any row.
#include <gtest/gtest.h>
#include <tacit/op/contributions.hpp>

#include "support/communicators.hpp"

#include <map>
#include <numeric>
#include <utility>

using namespace tacit;
using comm::Communicator;
using layout::Partition;
using test::on_ranks;

namespace {

constexpr Global rows = 23, columns = 17;

/// The k-th of 400 contributions: its place and value. Rank r has those with k modulo P equal to r.
struct Contribution {
  Global row, column;
  double value;
};
Contribution contribution(Global k) {
  return {k * 7 % rows, k * k * 3 % columns, 1.0 / double(3 + k) - (k % 5 == 0 ? 0.1 : 0.0)};
}

struct Given {
  std::vector<Global> row, column;
  std::vector<double> value;
  explicit Given(const Communicator& comm, bool all_on_one = false) {
    for (Global k = 0; k < 400; ++k) {
      if (all_on_one ? comm.rank() != comm.size() - 1 : k % comm.size() != comm.rank()) continue;
      const auto c = contribution(k);
      row.push_back(c.row), column.push_back(c.column), value.push_back(c.value);
    }
  }
};

/// Blocks, and the first rank without rows.
std::vector<Partition> partitions(const Communicator& comm) {
  std::vector<Global> offsets(std::size_t(comm.size()) + 1, 0);
  for (int r = 1; r <= comm.size(); ++r)
    offsets[std::size_t(r)] = r == comm.size() ? rows : rows * (r - 1) / comm.size();
  return {Partition::blocks(rows, comm.size()), Partition(offsets)};
}

/// Their sums as one rank with all contributions has them.
std::map<std::pair<Global, Global>, double> sums_of_one_rank() {
  const Communicator self = Communicator::self();
  const Given all(self);
  op::Contributions plan(self, Partition::blocks(rows, 1), columns, all.row, all.column);
  std::vector<double> sum(plan.column().size());
  plan.sum<double>(all.value, 1, sum);
  std::map<std::pair<Global, Global>, double> found;
  for (Global i = 0; i < rows; ++i)
    for (Global k = plan.start()[std::size_t(i)]; k < plan.start()[std::size_t(i) + 1]; ++k)
      found[{i, plan.column()[std::size_t(k)]}] = sum[std::size_t(k)];
  return found;
}

TEST(Contributions, AreTheSameBitsOnAllRanks) {
  const auto expected = sums_of_one_rank();
  std::map<std::pair<Global, Global>, double> exact;
  for (Global k = 0; k < 400; ++k) exact[{contribution(k).row, contribution(k).column}] += contribution(k).value;
  ASSERT_EQ(exact.size(), expected.size());
  for (const auto& [at, v] : exact) EXPECT_NEAR(v, expected.at(at), 1e-15);
  on_ranks([&](const Communicator& comm) {
    for (const Partition& partition : partitions(comm))
      for (const bool all_on_one : {false, true}) {
        const Given given(comm, all_on_one);
        op::Contributions plan(comm, partition, columns, given.row, given.column);
        const Global first = partition.begin(comm.rank());
        for (int repeat = 0; repeat < 2; ++repeat) {
          std::vector<double> sum(plan.column().size());
          const auto before = comm.counters();
          plan.sum<double>(given.value, 1, sum);
          const auto sent = comm.counters() - before;
          EXPECT_EQ(sent.messages, plan.receivers());
          EXPECT_EQ(sent.reductions, 0);
          std::size_t entries = 0;
          for (const auto& [at, v] : expected)
            if (at.first >= first && at.first < partition.end(comm.rank())) ++entries;
          ASSERT_EQ(entries, plan.column().size());
          for (std::size_t i = 0; i + 1 < plan.start().size(); ++i)
            for (Global k = plan.start()[i]; k < plan.start()[i + 1]; ++k)
              EXPECT_EQ(sum[std::size_t(k)], expected.at({first + Global(i), plan.column()[std::size_t(k)]}));
        }
      }
  });
}

TEST(Contributions, SpreadIsTheAdjointOfASum) {
  on_ranks([](const Communicator& comm) {
    const Given given(comm);
    const Partition partition = Partition::blocks(rows, comm.size());
    op::Contributions plan(comm, partition, columns, given.row, given.column);
    std::vector<float> entry(2 * plan.column().size()), found(2 * given.row.size());
    for (std::size_t i = 0; i + 1 < plan.start().size(); ++i)
      for (Global k = plan.start()[i]; k < plan.start()[i + 1]; ++k) {
        const Global row = partition.begin(comm.rank()) + Global(i);
        entry[std::size_t(2 * k)] = float(100 * row + plan.column()[std::size_t(k)]);
        entry[std::size_t(2 * k + 1)] = -float(row);
      }
    plan.spread<float>(entry, 2, found);
    for (std::size_t k = 0; k < given.row.size(); ++k) {
      EXPECT_EQ(found[2 * k], float(100 * given.row[k] + given.column[k]));
      EXPECT_EQ(found[2 * k + 1], -float(given.row[k]));
    }
  });
}

TEST(Contributions, InsertedOnesAreTheLastOfARank) {
  on_ranks([](const Communicator& comm) {
    // Every rank inserts 5 (0 before that) at (rows - 1, 2), and adds 1 at (0, 0).
    const std::vector<Global> row{rows - 1, 0, rows - 1}, column{2, 0, 2};
    const std::vector<std::uint8_t> inserted{1, 0, 1};
    const Partition partition = Partition::blocks(rows, comm.size());
    op::Contributions plan(comm, partition, columns, row, column, inserted);
    std::vector<double> sum(plan.column().size());
    plan.sum<double>(std::vector<double>{0.0, 1.0, 5.0}, 1, sum);
    if (comm.rank() == 0) {
      EXPECT_EQ(sum.front(), comm.size());
    }
    if (comm.rank() == comm.size() - 1) {
      EXPECT_EQ(sum.back(), 5.0);
    }
    if (comm.size() == 1) return;
    EXPECT_THROW(plan.sum<double>(std::vector<double>{0.0, 1.0, 5.0 + comm.rank()}, 1, sum), Error);
    const std::vector<std::uint8_t> mixed{std::uint8_t(comm.rank() == 0), 0, std::uint8_t(comm.rank() == 0)};
    EXPECT_THROW(op::Contributions(comm, partition, columns, row, column, mixed), Error);
    plan.sum<double>(std::vector<double>{0.0, 2.0, 5.0}, 1, sum);  // works again
    if (comm.rank() == 0) {
      EXPECT_EQ(sum.front(), 2.0 * comm.size());
    }
  });
}

TEST(Contributions, WrongUse) {
  on_ranks([](const Communicator& comm) {
    const Partition partition = Partition::blocks(rows, comm.size());
    const bool last = comm.rank() == comm.size() - 1;
    const std::vector<Global> zero{0}, outside{last ? rows : 0}, negative{last ? Global(-1) : 0};
    EXPECT_THROW(op::Contributions(comm, partition, columns, outside, zero), Error);
    EXPECT_THROW(op::Contributions(comm, partition, columns, negative, zero), Error);
    EXPECT_THROW(op::Contributions(comm, partition, columns, zero, negative), Error);
    op::Contributions plan(comm, partition, columns, zero, zero);
    std::vector<double> sum(plan.column().size());
    EXPECT_THROW(plan.sum<double>(std::vector<double>(last ? 2 : 1), 1, sum), Error);
  });
}

}  // namespace
