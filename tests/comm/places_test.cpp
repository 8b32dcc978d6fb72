// Levels of artificial machines.
#include <gtest/gtest.h>
#include <tacit/comm/communicator.hpp>

#include "support/communicators.hpp"

#include <cstdlib>
#include <vector>

#ifdef __linux__
#include <sched.h>
#endif

using namespace tacit;
using comm::Topology;
using Place = comm::Topology::Place;

namespace {

std::vector<std::string> names(const Topology& t) {
  std::vector<std::string> all;
  for (int l = 0; l < t.levels(); ++l) all.push_back(t.name(l));
  return all;
}
using Names = std::vector<std::string>;

TEST(Places, MakeLevelsFromTheInsideOut) {
  // Two nodes, each of two sockets of two NUMA domains, one rank per domain.
  std::vector<Place> places;
  for (int r = 0; r < 8; ++r) places.push_back({r / 4, r / 2 % 2, r % 4});
  const auto t = Topology::of(places);
  EXPECT_EQ(names(t), (Names{"numa", "socket", "node", "global"}));
  EXPECT_EQ(t.groups(0), 8);
  EXPECT_EQ(t.groups(1), 4);
  EXPECT_EQ(t.groups(2), 2);
  EXPECT_TRUE(t.same(2, 3, 1));
  EXPECT_FALSE(t.same(2, 6, 0));  // the same positions on another node
  EXPECT_TRUE(t.same_node(4, 7));
  EXPECT_FALSE(t.same_node(3, 4));
  EXPECT_EQ(t.describe(), "8 ranks: 2 node groups, 4 socket groups, 8 numa groups");
}

TEST(Places, OmitLevelsThatSeparateNoRanks) {
  // Sockets equal to NUMA domains; ranks assigned to nodes in turn; several sockets in a NUMA domain; levels that are
  // not nested; unknown positions.
  EXPECT_EQ(names(Topology::of(std::vector<Place>{{0, 0, 0}, {0, 1, 1}})), (Names{"numa", "node", "global"}));
  EXPECT_EQ(names(Topology::of(std::vector<Place>{{0, 0, 0}, {0, 0, 0}})), (Names{"node", "global"}));
  const auto turns = Topology::of(std::vector<Place>{{0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {1, 1, 0}});
  EXPECT_EQ(names(turns), (Names{"socket", "node", "global"}));
  EXPECT_TRUE(turns.same_node(0, 2));
  EXPECT_FALSE(turns.same(0, 2, 0));
  EXPECT_EQ(names(Topology::of(std::vector<Place>{{0, 0, 0}, {0, 1, 0}, {0, 2, 1}, {0, 2, 1}})),
            (Names{"socket", "numa", "node", "global"}));
  EXPECT_EQ(names(Topology::of(std::vector<Place>{{0, 0, 0}, {0, 0, 1}, {0, 1, 1}, {0, 1, 0}})),
            (Names{"numa", "node", "global"}));
  EXPECT_EQ(names(Topology::of(std::vector<Place>{{0, -1, 0}, {0, 1, -1}})), (Names{"node", "global"}));
  EXPECT_EQ(names(Topology::of(std::vector<Place>{{0, -1, 0}, {0, 1, 1}})), (Names{"numa", "node", "global"}));
  EXPECT_THROW((void)Topology::of({}), Error);
}

#if defined(__linux__) && defined(TACIT_HAVE_HWLOC)
TEST(Places, AgreeWithHwloc) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  const auto bind = [](std::initializer_list<int> cpus) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const int cpu : cpus) CPU_SET(cpu, &set);
    return sched_setaffinity(0, sizeof set, &set) == 0;
  };
  setenv("HWLOC_THISSYSTEM", "1", 1);
  const auto here = [](const char* machine) {
    setenv("HWLOC_SYNTHETIC", machine, 1);
    return Topology::here();
  };
  const bool two = bind({0, 1});
  if (two) {
    Place p = here("Package:2 NUMANode:1 PU:1");
    EXPECT_EQ(p.socket, -1);
    EXPECT_EQ(p.numa, -1);
    p = here("Package:1 NUMANode:2 PU:1");
    EXPECT_EQ(p.socket, 0);
    EXPECT_EQ(p.numa, -1);
    ASSERT_TRUE(bind({1}));
    p = here("Package:2 NUMANode:1 PU:1");
    EXPECT_EQ(p.socket, 1);
    EXPECT_EQ(p.numa, 1);
    p = here("Package:2 NUMANode:2 Core:4 PU:2");
    EXPECT_EQ(p.socket, 0);
    EXPECT_EQ(p.numa, 0);
  }
  unsetenv("HWLOC_SYNTHETIC");
  unsetenv("HWLOC_THISSYSTEM");
  sched_setaffinity(0, sizeof before, &before);
  if (!two) GTEST_SKIP() << "needs two processors";
}

// Ranks bound to two sockets of one artificial machine.
TEST(Places, AreGatheredFromAllRanks) {
  if (!test::under_mpi()) return;
  const auto c = comm::mpi_world();
  cpu_set_t before, mine;
  sched_getaffinity(0, sizeof before, &before);
  CPU_ZERO(&mine);
  CPU_SET(std::size_t(c.rank() % 2), &mine);
  const bool bound = c.all(sched_setaffinity(0, sizeof mine, &mine) == 0);
  setenv("HWLOC_THISSYSTEM", "1", 1);
  setenv("HWLOC_SYNTHETIC", "Package:2 NUMANode:1 PU:1", 1);
  const auto t = c.topology();
  unsetenv("HWLOC_SYNTHETIC");
  unsetenv("HWLOC_THISSYSTEM");
  sched_setaffinity(0, sizeof before, &before);
  if (!bound) GTEST_SKIP() << "needs two processors";
  if (c.size() == 1) return;
  EXPECT_EQ(t.name(0), "numa");
  for (int r = 2; r < c.size(); ++r) EXPECT_EQ(t.same(r, r - 2, 0), t.same_node(r, r - 2));
  EXPECT_FALSE(t.same(0, 1, 0));
}
#endif

}  // namespace
