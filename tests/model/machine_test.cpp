#include "support/communicators.hpp"

#include <tacit/model/machine.hpp>

#include <gtest/gtest.h>

namespace tacit::test {
namespace {

TEST(Machine, IsMeasuredOnceAndTheSameOnAllRanks) {
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto first = model::measure(comm);
        EXPECT_GT(first.bandwidth, 1e8);
        EXPECT_LT(first.bandwidth, 1e13);
        EXPECT_GT(first.sum_latency, 0);
        EXPECT_LT(first.sum_latency, 10);
        for (const double b : comm.all_gather(first.bandwidth)) EXPECT_EQ(b, first.bandwidth);
        for (const double s : comm.all_gather(first.sum_latency)) EXPECT_EQ(s, first.sum_latency);
        const auto before = comm.counters().reductions;
        const auto again = model::measure(comm);
        EXPECT_EQ(again.bandwidth, first.bandwidth);
        EXPECT_EQ(comm.counters().reductions, before);
      },
      {1, 2, 3});
}

}  // namespace
}  // namespace tacit::test
