// What simulated messages share: rendezvous, network interfaces, hops and uplinks, and interruptions of ranks.
#include "support/communicators.hpp"

#include <tacit/base/trace.hpp>
#include <tacit/comm/exchange.hpp>
#include <tacit/comm/simulate.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <vector>

namespace tacit::comm {
namespace {

using Progress = MachineModel::Progress;
using Topology = MachineModel::Topology;

class Network : public testing::Test {
 protected:
  void SetUp() override {
    if (test::under_mpi()) GTEST_SKIP() << "one process simulates all ranks";
  }
};

// Parameters whose multiples differ, so that a wrong number of terms shows.
MachineModel machine() {
  MachineModel m;
  m.latency = 10, m.overhead = 1.25, m.gap = 0.0625;
  m.bandwidth = 1;
  m.progress = Progress::in_wait;
  return m;
}
constexpr double L = 10, o = 1.25, G = 0.0625;

/// The time in which each rank sends n doubles to its partner, and receives as many; meanwhile it works.
double swapped(int ranks, const MachineModel& m, Global n, const std::function<int(int)>& partner, double work = 0) {
  return simulate(ranks, m,
                  [&](const Communicator& comm) {
                    std::vector<Global> offsets, needed;
                    for (int r = 0; r <= comm.size(); ++r) offsets.push_back(r * n);
                    for (Global i = 0; i < n; ++i) needed.push_back(partner(comm.rank()) * n + i);
                    Exchange exchange(comm, std::make_shared<const Pattern>(Pattern::build(comm, offsets, needed)),
                                      sizeof(double));
                    (void)exchange.open(), exchange.close(0);  // the path is made at the first use
                    restart_clocks(comm);
                    const std::vector<double> x(std::size_t(n), comm.rank() + 1.0);
                    const int number = exchange.open();
                    exchange.post(number, x.data());
                    Trace::work("work", work, 0);
                    exchange.wait(number);
                    const auto* in = reinterpret_cast<const double*>(exchange.incoming(number));
                    for (Global i = 0; i < n; ++i) EXPECT_EQ(in[i], partner(comm.rank()) + 1.0);
                    exchange.close(number);
                    (void)read_clocks(comm);
                  })
      .finish;
}
const auto neighbour = [](int r) { return r ^ 1; };

TEST_F(Network, LargeMessagesAreAnnouncedAndFetched) {
  auto m = machine();
  m.eager_limit = 100;
  EXPECT_DOUBLE_EQ(swapped(2, m, 5, neighbour), 2 * o + L + 40 * G);
  EXPECT_DOUBLE_EQ(swapped(2, m, 20, neighbour), 2 * o + 3 * L + 160 * G);
  // A rank that works sees the announcement afterwards; the fetch takes two latencies then.
  EXPECT_DOUBLE_EQ(swapped(2, m, 5, neighbour, 100), 2 * o + 100);
  EXPECT_DOUBLE_EQ(swapped(2, m, 20, neighbour, 100), 2 * o + 100 + 2 * L + 160 * G);
}

TEST_F(Network, RanksOfANodeShareItsInterface) {
  auto m = machine();
  m.ranks_per_node = 2, m.nic_gap = 2 * G;
  const auto across = [](int r) { return r ^ 2; };
  // The second message of each node follows the first: from its first byte on, twice 40 bytes at the interface's rate.
  EXPECT_DOUBLE_EQ(swapped(4, m, 5, across), 2 * o + L + 2 * 40 * m.nic_gap);
  EXPECT_DOUBLE_EQ(swapped(4, m, 5, neighbour), 2 * o + L + 40 * G);  // within the nodes
  m.nic_gap = G / 4;                                                  // faster than both ranks together
  EXPECT_DOUBLE_EQ(swapped(4, m, 5, across), 2 * o + L + 40 * G);
}

TEST_F(Network, RanksOfANodeShareItsMemory) {
  auto m = machine();
  m.bandwidth = 4, m.ranks_per_node = 4, m.node_bandwidth = 8;
  EXPECT_DOUBLE_EQ(m.kernel_seconds(40, 0), 20);
  m.node_bandwidth = 100;
  EXPECT_DOUBLE_EQ(m.kernel_seconds(40, 0), 10);
  m.cache = 64, m.cache_bandwidth = 16, m.node_bandwidth = 8;  // caches are the ranks' own
  EXPECT_DOUBLE_EQ(m.kernel_seconds(40, 0), 2.5);
  EXPECT_DOUBLE_EQ(m.memory_bandwidth(), 2);
}

TEST_F(Network, HopsTakeTime) {
  auto m = machine();
  m.hop_latency = 3;
  const auto extra = [&](int ranks, const std::function<int(int)>& partner) {
    return swapped(ranks, m, 5, partner) - (2 * o + L + 40 * G);
  };
  const auto flipped = [](int bits) { return [bits](int r) { return r ^ bits; }; };
  m.topology = Topology::fat_tree, m.nodes_per_switch = 2, m.switches_per_group = 2;
  EXPECT_DOUBLE_EQ(extra(8, flipped(1)), 0);
  EXPECT_DOUBLE_EQ(extra(8, flipped(2)), 2 * 3);  // by a second level of switches
  EXPECT_DOUBLE_EQ(extra(8, flipped(4)), 4 * 3);  // by a third
  m.topology = Topology::dragonfly;
  EXPECT_DOUBLE_EQ(extra(8, flipped(1)), 0);
  EXPECT_DOUBLE_EQ(extra(8, flipped(2)), 3);      // to another router of the group
  EXPECT_DOUBLE_EQ(extra(8, flipped(4)), 3 * 3);  // to the group's link, across, from the other's
  m.topology = Topology::torus;                   // 2 x 2 x 2
  EXPECT_DOUBLE_EQ(extra(8, flipped(1)), 0);
  EXPECT_DOUBLE_EQ(extra(8, flipped(6)), 3);
  EXPECT_DOUBLE_EQ(extra(8, flipped(7)), 2 * 3);
  m.torus_axes = 1;  // a ring: the shorter way round
  const auto mirrored = [](int r) { return 7 - r; };
  EXPECT_DOUBLE_EQ(extra(8, mirrored), 2 * 3);  // 1 and 6, 2 and 5
  m.torus_axes = 2;                             // 4 x 3
  EXPECT_DOUBLE_EQ(extra(12, flipped(3)), 0);   // 0 and 3 are neighbours, and 1 and 2
  m.ranks_per_node = 2, m.topology = Topology::fat_tree;
  EXPECT_DOUBLE_EQ(extra(8, flipped(2)), 0);  // other nodes of one switch
}

TEST_F(Network, MessagesFollowEachOtherOnUplinks) {
  auto m = machine();
  m.topology = Topology::fat_tree, m.nodes_per_switch = 2, m.switches_per_group = 2, m.uplink_gap = 4 * G;
  const double alone = 2 * o + L;
  EXPECT_DOUBLE_EQ(swapped(4, m, 5, [](int r) { return r ^ 1; }), alone + 40 * G);
  EXPECT_DOUBLE_EQ(swapped(4, m, 5, [](int r) { return r ^ 2; }), alone + 2 * 40 * m.uplink_gap);
  m.topology = Topology::dragonfly;  // groups of four nodes: only messages between them
  EXPECT_DOUBLE_EQ(swapped(8, m, 5, [](int r) { return r ^ 2; }), alone + 40 * G);
  EXPECT_DOUBLE_EQ(swapped(8, m, 5, [](int r) { return r ^ 4; }), alone + 4 * 40 * m.uplink_gap);
  m.topology = Topology::torus, m.torus_axes = 1;  // 0..3 and 4..7
  EXPECT_DOUBLE_EQ(swapped(8, m, 5, [](int r) { return r ^ 1; }), alone + 40 * G);
  EXPECT_DOUBLE_EQ(swapped(8, m, 5, [](int r) { return r ^ 4; }), alone + 4 * 40 * m.uplink_gap);  // in each direction
}

TEST_F(Network, InterruptionsAreEventsInTime) {
  MachineModel m;
  m.bandwidth = 1, m.noise_interval = 10, m.noise_duration = 1;
  const auto finish = [&](int kernels, double seconds) {
    return simulate(4, m,
                    [&](const Communicator& comm) {
                      restart_clocks(comm);
                      for (int i = 0; i < kernels; ++i) Trace::work("work", seconds, 0);
                      (void)read_clocks(comm);
                    })
        .finish;
  };
  const double whole = finish(1, 4000);
  EXPECT_NEAR(whole, 4000 * 1.1, 4000 * 0.02);        // a tenth of the time more, on the slowest of four ranks
  EXPECT_NEAR(finish(4000, 1), whole, 1e-9 * whole);  // in however many kernels
  EXPECT_EQ(finish(1, 4000), whole);
  m.seed = 2;
  EXPECT_NE(finish(1, 4000), whole);
  m.seed = 1, m.progress = Progress::poll, m.poll_interval = 0.25;
  EXPECT_NEAR(finish(1, 4000), whole, 1e-9 * whole);
  // A rank that waits is late only where an interruption lasts beyond the arrival: rarely, by one's duration at most.
  m = machine();
  m.noise_interval = 1e6, m.noise_duration = 1;
  EXPECT_DOUBLE_EQ(swapped(2, m, 5, neighbour), 2 * o + L + 40 * G);
}

TEST_F(Network, WrongMachinesAreRefused) {
  const auto refused = [](const std::function<void(MachineModel&)>& change) {
    auto m = machine();
    change(m);
    EXPECT_THROW(m.check(), Error);
  };
  refused([](auto& m) { m.nic_gap = 1; });
  refused([](auto& m) { m.node_bandwidth = 1; });
  refused([](auto& m) { m.hop_latency = 1; });
  refused([](auto& m) { m.uplink_gap = 1; });
  refused([](auto& m) { m.noise_interval = 1; });
  refused([](auto& m) { m.noise_interval = 1, m.noise_duration = 2; });
  refused([](auto& m) { m.topology = Topology::torus, m.torus_axes = 7; });
  refused([](auto& m) { m.ranks_per_node = -1; });
}

}  // namespace
}  // namespace tacit::comm
