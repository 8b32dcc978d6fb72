// Sums over nested groups of ranks: correct values, the transpose, and the volume that follows from the elements that
// ranks touch.
#include <gtest/gtest.h>
#include <tacit/comm/hierarchy.hpp>

#include "support/communicators.hpp"

#include <numeric>
#include <set>

using namespace tacit;
using comm::Communicator;
using comm::Groups;
using comm::SparseReduction;

namespace {

constexpr Global elements = 101;

std::vector<Global> offsets_of(int ranks) {
  std::vector<Global> offsets{0};
  for (int r = 1; r < ranks; ++r)
    offsets.push_back(std::max(offsets.back(), r % 4 == 2 ? offsets.back() : elements * r / ranks));
  offsets.push_back(elements);
  return offsets;
}

bool touches(int rank, Global i) {
  return rank != 1 && (i * 7 + rank * 5) % 11 < 5;
}

std::vector<Global> touched_by(int rank) {
  std::vector<Global> all;
  for (Global i = 0; i < elements; ++i)
    if (touches(rank, i)) all.push_back(i);
  return all;
}

double value(int rank, Global i, int column) {
  return double((i * 31 + rank * 17 + column * 3) % 64);  // small integers: sums are exact
}

void check(const Communicator& comm, const Groups& groups) {
  const auto offsets = offsets_of(comm.size());
  SparseReduction reduction(comm, offsets, touched_by(comm.rank()), groups);
  const Global first = offsets[std::size_t(comm.rank())], own = offsets[std::size_t(comm.rank()) + 1] - first;
  ASSERT_EQ(Global(reduction.owned()), own);
  for (const int k : {1, 3}) {
    const auto& touched = reduction.touched();
    std::vector<double> partial;
    for (const Global i : touched)
      for (int c = 0; c < k; ++c) partial.push_back(value(comm.rank(), i, c));
    const int stride = k + 2;
    std::vector<double> sums(std::size_t(own) * std::size_t(stride), -1);
    const auto before = comm.counters();
    const int token = reduction.start_sum(partial.data(), k);
    std::fill(partial.begin(), partial.end(), -1e9);
    reduction.finish_sum(token, sums.data(), k, stride);
    const auto sent = comm.counters() - before;
    if (comm.size() > 1) {
      EXPECT_EQ(sent.messages, reduction.messages(false));
      EXPECT_EQ(sent.bytes, reduction.values(false) * k * Global(sizeof(double)));
    }
    for (Global i = 0; i < own; ++i)
      for (int c = 0; c < stride; ++c) {
        double expected = c < k ? 0 : -1;
        for (int r = 0; r < comm.size() && c < k; ++r)
          if (touches(r, first + i)) expected += value(r, first + i, c);
        ASSERT_EQ(sums[std::size_t(i * stride + c)], expected) << "element " << first + i << ", column " << c;
      }
    // Spread: every rank gets the owners' values of the elements that it touches; two spreads may be active at once.
    std::vector<double> owned, back(partial.size()), again(partial.size());
    for (Global i = 0; i < own; ++i)
      for (int c = 0; c < k; ++c) owned.push_back(value(-1, first + i, c));
    const int a = reduction.start_spread(owned.data(), k, k), b = reduction.start_spread(owned.data(), k, k);
    EXPECT_FALSE(reduction.has_room());
    reduction.finish_spread(b, owned.data(), k, k, again.data());
    reduction.finish_spread(a, owned.data(), k, k, back.data());
    EXPECT_TRUE(reduction.has_room());
    for (std::size_t j = 0; j < touched.size(); ++j)
      for (int c = 0; c < k; ++c) ASSERT_EQ(back[j * std::size_t(k) + std::size_t(c)], value(-1, touched[j], c));
    EXPECT_EQ(back, again);
  }
}

TEST(SparseReduction, AddsUpAndSpreads) {
  test::on_ranks(
      [](const Communicator& comm) {
        for (const Groups& groups : {Groups{}, Groups{2}, Groups{3}, Groups{2, 4}, Groups{1, 3, 6, 12}}) {
          SCOPED_TRACE(std::to_string(groups.size()) + " groups on " + std::to_string(comm.size()) + " ranks");
          check(comm, groups);
        }
      },
      {1, 2, 3, 4, 5, 7, 8, 12});
}

// The volume of a level: its pairs (group, element touched in the group), except those whose holder does not change.
TEST(SparseReduction, MovesWhatTheSetsSay) {
  if (test::under_mpi()) GTEST_SKIP() << "counts do not depend on the transport";
  const int ranks = 24;
  comm::run_threads(ranks, [&](const Communicator& comm) {
    const auto offsets = offsets_of(ranks);
    const auto owner = [&](Global i) {
      return int(std::upper_bound(offsets.begin(), offsets.end(), i) - offsets.begin()) - 1;
    };
    SparseReduction hierarchical(comm, offsets, touched_by(comm.rank()), {3, 6}),
        direct(comm, offsets, touched_by(comm.rank()));
    const auto levels = hierarchical.total_volume();
    ASSERT_EQ(levels.size(), 3u);
    EXPECT_EQ(direct.levels(), 1);
    const int sizes[] = {1, 3, 6, ranks};
    for (std::size_t l = 0; l < 3; ++l) {
      std::set<std::pair<int, Global>> held;
      Global stays = 0;
      for (int r = 0; r < ranks; ++r)
        for (const Global i : touched_by(r)) held.insert({r / sizes[l], i});
      for (const auto& [group, i] : held) {
        // The holder is the member of the inner group at the owner's position; the same holds at the next level.
        const int holder = group * sizes[l] + owner(i) % sizes[l];
        const int next = holder / sizes[l + 1] * sizes[l + 1] + owner(i) % sizes[l + 1];
        stays += holder == next;
      }
      EXPECT_EQ(levels[l].group, sizes[l + 1]);
      EXPECT_EQ(levels[l].touched, Global(held.size()));
      EXPECT_EQ(levels[l].sent, Global(held.size()) - stays);
    }
    EXPECT_LT(levels[2].sent, direct.total_volume()[0].sent / 2);
  });
}

TEST(SparseReduction, RefusesWhatDoesNotFit) {
  test::on_ranks(
      [](const Communicator& comm) {
        const auto offsets = offsets_of(comm.size());
        EXPECT_THROW(SparseReduction(comm, offsets, {3, 3}), Error);
        EXPECT_THROW(SparseReduction(comm, offsets, {elements}), Error);
        EXPECT_THROW(SparseReduction(comm, offsets, {}, {2, 3}), Error);
        EXPECT_THROW(SparseReduction(comm, offsets, {}, {0}), Error);
        if (comm.rank() == comm.size() - 1) {
          EXPECT_THROW(SparseReduction(comm, offsets, {-1}), Error);
        } else {
          EXPECT_THROW(SparseReduction(comm, offsets, {}), Error);
        }
      },
      {1, 3});
  EXPECT_EQ(comm::parse_groups("3,6"), (Groups{3, 6}));
  EXPECT_EQ(comm::parse_groups(""), Groups{});
  for (const char* text : {"3,", ",3", "a", "0", "3;6", "-2"}) EXPECT_THROW(comm::parse_groups(text), Error) << text;
}

}  // namespace
