// Partitions, orderings and renumberings.
#include <gtest/gtest.h>
#include <tacit/layout/ordering.hpp>
#include <tacit/layout/partitioners.hpp>

#include "support/communicators.hpp"

#include <algorithm>
#include <complex>
#include <numeric>
#include <random>
#include <set>

using namespace tacit;
using namespace tacit::layout;
using comm::Communicator;
using test::on_ranks;

namespace {

// A permutation of n indices, the same on all ranks.
std::vector<Global> shuffled(Global n, unsigned seed = 1) {
  std::vector<Global> p(static_cast<std::size_t>(n));
  std::iota(p.begin(), p.end(), Global(0));
  std::shuffle(p.begin(), p.end(), std::mt19937(seed));
  return p;
}

// A whole graph as lists of neighbours, and a rank's part of it.
using Neighbours = std::vector<std::vector<Global>>;
struct Rows {
  std::vector<Global> start{0}, column;
  GraphView view() const { return {start, column}; }
};
Rows rows_of(const Neighbours& g, const Partition& p, int rank) {
  Rows r;
  for (Global i = p.begin(rank); i < p.end(rank); ++i) {
    r.column.insert(r.column.end(), g[i].begin(), g[i].end());
    r.start.push_back(Global(r.column.size()));
  }
  return r;
}
// A grid with randomly numbered vertices.
Neighbours shuffled_grid(Global nx, Global ny, unsigned seed = 1) {
  const auto number = shuffled(nx * ny, seed);
  Neighbours g(number.size());
  for (Global y = 0; y < ny; ++y)
    for (Global x = 0; x < nx; ++x) {
      const auto link = [&](Global u, Global v) { g[number[u]].push_back(number[v]); };
      const Global i = x + nx * y;
      link(i, i);
      if (x > 0) link(i, i - 1);
      if (x + 1 < nx) link(i, i + 1);
      if (y > 0) link(i, i - nx);
      if (y + 1 < ny) link(i, i + nx);
    }
  return g;
}
LocalGraph local(const Neighbours& g) {
  LocalGraph l;
  for (const auto& n : g) {
    l.column.insert(l.column.end(), n.begin(), n.end());
    l.start.push_back(Global(l.column.size()));
  }
  return l;
}
// The vectors of all ranks, concatenated in their order.
template <class T>
std::vector<T> together(const Communicator& comm, const std::vector<T>& mine) {
  return comm.all_gather(std::span<const T>(mine));
}
// The last of several ranks owns nothing.
Partition lopsided(Global n, int ranks) {
  const auto blocks = Partition::blocks(n, std::max(1, ranks - 1));
  std::vector<Global> o(blocks.offsets().begin(), blocks.offsets().end());
  if (ranks > 1) o.push_back(n);
  return Partition(std::move(o));
}

// The number of edges whose vertices have different owners.
Global edge_cut(const Communicator& comm, GraphView graph, const std::vector<int>& owner) {
  const auto all = comm.all_gather(std::span<const int>(owner));
  Global cut = 0;
  for (std::size_t i = 0; i < owner.size(); ++i)
    for (Global k = graph.start[i]; k < graph.start[i + 1]; ++k) cut += all[std::size_t(graph.column[k])] != owner[i];
  return comm.all_sum(cut);
}

TEST(Partition, BlocksDifferByOneAtMost) {
  for (Global n : {0, 1, 4, 5, 6, 100})
    for (int p : {1, 2, 5, 7}) {
      const auto blocks = Partition::blocks(n, p);
      EXPECT_EQ(blocks.size(), n);
      EXPECT_EQ(blocks.parts(), p);
      for (int r = 0; r < p; ++r) {
        const Global own = blocks.end(r) - blocks.begin(r);
        EXPECT_TRUE(own == n / p || own == n / p + 1);
        for (Global i = blocks.begin(r); i < blocks.end(r); ++i) EXPECT_EQ(blocks.owner(i), r);
      }
    }
  EXPECT_THROW(Partition({0, 3, 2}), Error);
  EXPECT_THROW(Partition({1, 3}), Error);
}

TEST(Symmetrised, HasEveryEdgeBothWaysOnce) {
  // Edges 0 -> 1 (twice) and 2 -> 0, a loop at 1, and the isolated vertex 3.
  const LocalGraph g{{0, 2, 3, 4, 4}, {1, 1, 1, 0}};
  const auto s = symmetrised(g);
  EXPECT_EQ(s.start, (std::vector<Global>{0, 2, 3, 4, 4}));
  EXPECT_EQ(s.column, (std::vector<Local>{1, 2, 0, 0}));
}

TEST(ReverseCuthillMckee, NarrowsAShuffledGrid) {
  const auto g = symmetrised(local(shuffled_grid(40, 12)));
  const auto order = reverse_cuthill_mckee(g);
  std::vector<Local> sorted = order, place(order.size()), same(order.size());
  std::sort(sorted.begin(), sorted.end());
  std::iota(same.begin(), same.end(), 0);
  ASSERT_EQ(sorted, same);
  for (std::size_t i = 0; i < order.size(); ++i) place[order[i]] = Local(i);
  EXPECT_GT(bandwidth(g, same), 300);
  EXPECT_LE(bandwidth(g, place), 13);  // the width of the grid plus one
}

TEST(ReverseCuthillMckee, KeepsComponentsTogether) {
  // A path 0-2-4-6-8, a triangle 1-3-5, and the isolated vertices 7 and 9.
  Neighbours g(10);
  const auto link = [&](Global i, Global j) { g[i].push_back(j), g[j].push_back(i); };
  link(0, 2), link(2, 4), link(4, 6), link(6, 8), link(1, 3), link(3, 5), link(5, 1);
  const auto graph = symmetrised(local(g));
  const auto order = reverse_cuthill_mckee(graph);
  ASSERT_EQ(order.size(), 10u);
  std::vector<Local> place(10);
  for (std::size_t i = 0; i < order.size(); ++i) place[order[i]] = Local(i);
  EXPECT_EQ(std::set<Local>(order.begin(), order.begin() + 5), (std::set<Local>{0, 2, 4, 6, 8}));
  EXPECT_EQ(std::set<Local>(order.begin() + 5, order.begin() + 8), (std::set<Local>{1, 3, 5}));
  EXPECT_EQ(bandwidth(graph, place), 2);
  Local ends[2] = {order[0], order[4]};
  EXPECT_EQ(std::min(ends[0], ends[1]), 0);  // a path is numbered from one end to the other
  EXPECT_EQ(std::max(ends[0], ends[1]), 8);
  EXPECT_TRUE(reverse_cuthill_mckee(LocalGraph{}).empty());
}

/// Entries below the diagonal of a complete factor of a matrix with this graph, eliminated in this order.
std::size_t fill_of(const LocalGraph& g, const std::vector<Local>& order) {
  std::vector<std::set<Local>> left(order.size());
  for (Local i = 0; i < g.vertices(); ++i)
    for (Global k = g.start[i]; k < g.start[i + 1]; ++k) left[i].insert(g.column[k]);
  std::size_t entries = 0;
  for (const Local i : order) {
    entries += left[i].size();
    for (const Local j : left[i]) {
      left[j].erase(i);
      for (const Local k : left[i])
        if (k != j) left[j].insert(k);
    }
  }
  return entries;
}

TEST(MinimumDegree, IsAPermutationOfLittleFill) {
  if (!amd_built()) GTEST_SKIP() << "built without AMD";
  const auto g = symmetrised(local(shuffled_grid(40, 30)));
  const auto order = minimum_degree(g);
  std::vector<Local> sorted = order, same(order.size());
  std::sort(sorted.begin(), sorted.end());
  std::iota(same.begin(), same.end(), 0);
  ASSERT_EQ(sorted, same);
  EXPECT_LT(fill_of(g, order), 0.6 * double(fill_of(g, reverse_cuthill_mckee(g))));
  EXPECT_TRUE(minimum_degree(LocalGraph{}).empty());
  const auto alone = minimum_degree(LocalGraph{{0, 0, 0}, {}});  // no edges
  EXPECT_EQ(std::set<Local>(alone.begin(), alone.end()), (std::set<Local>{0, 1}));
}

TEST(GraphParts, CutAShuffledGridBetterThanBlocks) {
  on_ranks([](const Communicator& comm) {
    const auto g = shuffled_grid(30, 30);
    for (const Partition& p : {Partition::blocks(900, comm.size()), lopsided(900, comm.size())}) {
      const auto rows = rows_of(g, p, comm.rank());
      for (int parts : {2, 4, 5}) {
        std::vector<int> blocks;
        for (Global i = p.begin(comm.rank()); i < p.end(comm.rank()); ++i)
          blocks.push_back(Partition::blocks(900, parts).owner(i));
        const Global before = edge_cut(comm, rows.view(), blocks);
        for (Partitioner how : {Partitioner::automatic, Partitioner::bisection}) {
          const auto owner = graph_parts(comm, p, rows.view(), parts, how);
          ASSERT_EQ(owner.size() + 1, rows.start.size());
          // A straight cut of a 30 x 30 grid has 30 edges, each counted in both directions. The level sets of
          // Cuthill-McKee start at a corner and run along a diagonal, which cuts twice as many.
          const double worse = how == Partitioner::bisection || !metis_built() ? 2 : 1.1;
          EXPECT_LE(double(edge_cut(comm, rows.view(), owner)), worse * 2 * 30 * (parts - 1));
          EXPECT_LT(edge_cut(comm, rows.view(), owner), before / 5);
          std::vector<Global> size(parts, 0);
          for (int o : together(comm, owner)) ++size.at(std::size_t(o));
          for (Global s : size) EXPECT_NEAR(double(s), 900.0 / parts, 0.05 * 900 / parts + 1);
        }
      }
    }
  });
}

TEST(GraphParts, MetisCutsBetterThanBisection) {
  if (!metis_built()) GTEST_SKIP() << "a build without METIS";
  on_ranks(
      [](const Communicator& comm) {
        const auto g = shuffled_grid(48, 48, 5);
        const auto p = Partition::blocks(Global(g.size()), comm.size());
        const auto rows = rows_of(g, p, comm.rank());
        const auto cut = [&](Partitioner how) {
          return edge_cut(comm, rows.view(), graph_parts(comm, p, rows.view(), 8, how));
        };
        EXPECT_LT(cut(Partitioner::metis), cut(Partitioner::bisection));
      },
      {1, 3});
}

TEST(GraphParts, AreTheSameOnAnyNumberOfRanks) {
  const auto g = shuffled_grid(17, 13, 3);
  const auto alone = Communicator::self();
  const auto one = Partition::blocks(Global(g.size()), 1);
  const auto expected = graph_parts(alone, one, rows_of(g, one, 0).view(), 5);
  on_ranks([&](const Communicator& comm) {
    const auto p = lopsided(Global(g.size()), comm.size());
    EXPECT_EQ(together(comm, graph_parts(comm, p, rows_of(g, p, comm.rank()).view(), 5)), expected);
  });
}

TEST(GraphParts, TakeAnyGraph) {
  on_ranks([](const Communicator& comm) {
    // Edges in one direction only, two components, isolated vertices, more parts than vertices, and an empty graph.
    Neighbours one_way(200);
    for (Global i = 0; i < 150; ++i)
      if (i != 99) one_way[i] = {i + 1};
    for (const auto& [g, parts] : {std::pair(one_way, 3), std::pair(Neighbours(7), 3), std::pair(Neighbours(3), 5),
                                   std::pair(Neighbours(), 2), std::pair(one_way, 1)}) {
      const auto p = Partition::blocks(Global(g.size()), comm.size());
      const auto rows = rows_of(g, p, comm.rank());
      for (Partitioner how : {Partitioner::automatic, Partitioner::bisection}) {
        const auto all = together(comm, graph_parts(comm, p, rows.view(), parts, how));
        ASSERT_EQ(all.size(), g.size());
        std::vector<Global> size(parts, 0);
        for (int o : all) ++size.at(std::size_t(o));
        for (Global s : size) EXPECT_LE(s, Global(1.1 * double(g.size()) / parts) + 1);
      }
    }
    const auto p = Partition::blocks(4, comm.size());
    Rows wrong = rows_of(Neighbours{{1}, {9}, {0}, {0}}, p, comm.rank());
    EXPECT_THROW(graph_parts(comm, p, wrong.view(), 2), Error);
    EXPECT_THROW(graph_parts(comm, p, rows_of(Neighbours(4), p, comm.rank()).view(), 0), Error);
  });
}

TEST(Renumbering, GroupsByOwnerAndKeepsTheOrder) {
  on_ranks([](const Communicator& comm) {
    const int ranks = comm.size();
    for (const Partition& p : {Partition::blocks(23, ranks), lopsided(23, ranks)}) {
      const auto owner_of = [&](Global i) {
        return int((i * i + 3) % std::max(1, ranks - (ranks > 2)));
      };  // from three ranks on, one owns nothing
      std::vector<int> owner;
      for (Global i = p.begin(comm.rank()); i < p.end(comm.rank()); ++i) owner.push_back(owner_of(i));
      const auto r = Renumbering::by_owner(comm, p, owner);
      std::vector<Global> expected;
      for (int o = 0; o < ranks; ++o)
        for (Global i = 0; i < 23; ++i)
          if (owner_of(i) == o) expected.push_back(i);
      EXPECT_EQ(together(comm, r.old_of_new()), expected);
      const auto new_of_old = together(comm, r.new_of_old());
      for (Global i = 0; i < 23; ++i) {
        EXPECT_EQ(expected[new_of_old[i]], i);
        EXPECT_EQ(r.after().owner(new_of_old[i]), owner_of(i));
      }
    }
  });
}

TEST(Renumbering, MovesValuesThereAndBack) {
  on_ranks([](const Communicator& comm) {
    const Global n = 61;
    const auto number = shuffled(n, 7);
    const auto before = lopsided(n, comm.size()), after = Partition::blocks(n, comm.size());
    std::vector<Global> new_of_old(number.begin() + before.begin(comm.rank()),
                                   number.begin() + before.end(comm.rank()));
    const auto r = Renumbering::by_new_index(comm, before, after, new_of_old);
    for (int k : {1, 3}) {
      std::vector<std::complex<double>> old_values;
      for (Global i = before.begin(comm.rank()); i < before.end(comm.rank()); ++i)
        for (int c = 0; c < k; ++c) old_values.emplace_back(double(i), double(c));
      const auto moved = r.forward<std::complex<double>>(comm, old_values, k);
      ASSERT_EQ(moved.size(), std::size_t(after.end(comm.rank()) - after.begin(comm.rank())) * k);
      for (std::size_t e = 0; e < moved.size(); ++e) {
        const Global j = after.begin(comm.rank()) + Global(e) / k;
        EXPECT_EQ(number[std::size_t(moved[e].real())], j);
        EXPECT_EQ(moved[e].imag(), double(e % k));
      }
      EXPECT_EQ((r.backward<std::complex<double>>(comm, moved, k)), old_values);
    }
    EXPECT_THROW(r.forward<float>(comm, std::vector<float>(1000)), Error);

    // Queries for indices of any rank, also repeated ones.
    const std::vector<Global> some{n - 1, 0, n / 2, 0, comm.rank()};
    std::vector<Global> expected;
    for (Global i : some) expected.push_back(number[i]);
    EXPECT_EQ(r.to_new(comm, some), expected);
    EXPECT_EQ(r.to_new(comm, comm.rank() == 0 ? std::span<const Global>(some) : std::span<const Global>()).size(),
              comm.rank() == 0 ? some.size() : 0u);
    EXPECT_THROW(r.to_new(comm, std::vector<Global>{n}), Error);
  });
}

TEST(Renumbering, ComposesAndRefusesWhatIsNoPermutation) {
  on_ranks(
      [](const Communicator& comm) {
        const auto p = Partition::blocks(19, comm.size());
        const auto part = [&](const std::vector<Global>& v) {
          return std::vector<Global>(v.begin() + p.begin(comm.rank()), v.begin() + p.end(comm.rank()));
        };
        const auto a = shuffled(19, 1), b = shuffled(19, 2);
        const auto ra = Renumbering::by_new_index(comm, p, p, part(a)),
                   rb = Renumbering::by_new_index(comm, p, p, part(b));
        const auto both = together(comm, ra.then(comm, rb).new_of_old());
        for (Global i = 0; i < 19; ++i) EXPECT_EQ(both[i], b[a[i]]);
        EXPECT_EQ(together(comm, Renumbering::none(comm, p).new_of_old()),
                  (std::vector<Global>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18}));
        // Each rank's own order reversed.
        std::vector<Local> turned(std::size_t(p.end(comm.rank()) - p.begin(comm.rank())));
        std::iota(turned.rbegin(), turned.rend(), 0);
        const auto inside = Renumbering::inside(comm, p, turned);
        for (std::size_t i = 0; i < turned.size(); ++i)
          EXPECT_EQ(inside.old_of_new()[i], p.begin(comm.rank()) + turned[i]);

        auto twice = a;
        twice[3] = twice[4];
        EXPECT_THROW(Renumbering::by_new_index(comm, p, p, part(twice)), Error);
        auto outside = a;
        outside[18] = 19;
        EXPECT_THROW(Renumbering::by_new_index(comm, p, p, part(outside)), Error);
        std::vector<int> nobody(turned.size(), comm.size());
        EXPECT_THROW(Renumbering::by_owner(comm, p, nobody), Error);
        std::fill(turned.begin(), turned.end(), 0);
        if (comm.size() < 10) {
          EXPECT_THROW(Renumbering::inside(comm, p, turned), Error);
        }
      },
      {1, 2, 5});
}

}  // namespace
