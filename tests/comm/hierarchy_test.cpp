// Sums over nested groups of ranks: correct values, the transpose, and the volume that follows from the elements that
// ranks touch.
#include <gtest/gtest.h>
#include <tacit/comm/hierarchy.hpp>

#include "support/communicators.hpp"

#include <cmath>
#include <limits>
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

// Sums and spreads in 16 bits of columns of very different sizes: errors of a unit and a half for every message, zeros
// and numbers that are not finite as they are, and as many bytes as said.
void check_16_bits(const Communicator& comm, const Groups& groups) {
  constexpr int k = 4;
  constexpr float size[k] = {1, 1e30f, 1e-30f, 3.4e38f / 64};
  const auto offsets = offsets_of(comm.size());
  SparseReduction reduction(comm, offsets, touched_by(comm.rank()), groups);
  const auto& touched = reduction.touched();
  const auto number = [&](int rank, Global i, int c) {
    const double v = i % 9 == 4 ? 0 : std::sin(double(i * 5 + rank * 3 + c + 1));
    return float(v) * size[c] / 8;
  };
  std::vector<float> partial, back(touched.size() * k);
  for (const Global i : touched)
    for (int c = 0; c < k; ++c) partial.push_back(number(comm.rank(), i, c));
  const auto own = std::size_t(reduction.owned());
  std::vector<float> sums(own * k), owned, got(touched.size() * k);
  const Global first = offsets[std::size_t(comm.rank())];
  const auto counted = [&](bool spread, const auto& work) {
    const auto before = comm.counters();
    work();
    const auto sent = comm.counters() - before;
    EXPECT_EQ(sent.messages, comm.size() > 1 ? reduction.messages(spread) : 0);
    const Global bytes = reduction.bytes<float>(spread, comm::MessageFormat::fixed16);
    EXPECT_EQ(sent.bytes, comm.size() > 1 ? bytes * k : 0);
    const Global values = reduction.values(spread), blocks = values / 64 + reduction.messages(spread);
    EXPECT_EQ(reduction.bytes<float>(spread, comm::MessageFormat::full), 4 * values);
    EXPECT_GE(bytes, 2 * values);
    EXPECT_LE(bytes, 2 * (values + blocks));
  };
  counted(false, [&] {
    const int token = reduction.start_sum(partial.data(), k, comm::MessageFormat::fixed16);
    std::fill(partial.begin(), partial.end(), -1.0f);
    reduction.finish_sum(token, sums.data(), k, k);
  });
  const double unit = 1.5 * 0x1p-14 / 8;
  int rounded = 0;
  for (std::size_t i = 0; i < own; ++i)
    for (int c = 0; c < k; ++c) {
      double expected = 0;
      for (int r = 0; r < comm.size(); ++r)
        if (touches(r, first + Global(i))) expected += double(number(r, first + Global(i), c));
      // At each level a message of as many partial sums as ranks.
      const double bound = unit * double(size[c]) * comm.size() * comm.size() * reduction.levels();
      EXPECT_NEAR(double(sums[i * k + std::size_t(c)]), expected, bound) << i << " " << c;
      EXPECT_TRUE(expected != 0 || sums[i * k + std::size_t(c)] == 0) << i << " " << c;
      rounded += c == 0 && std::abs(double(sums[i * k]) - expected) > 1e-6;
    }
  EXPECT_TRUE(comm.size() <= 2 || own <= 20 || rounded > 0);  // rank 1 touches nothing
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const auto value_of = [&](Global i, int c) {
    if (c == 1 && i % 10 == 3) return i % 20 == 3 ? infinity : -infinity;
    return c == 2 && i % 17 == 5 ? std::numeric_limits<float>::quiet_NaN() : number(-1, i, c);
  };
  for (Global i = first; i < first + Global(own); ++i)
    for (int c = 0; c < k; ++c) owned.push_back(value_of(i, c));
  counted(true, [&] {
    const int token = reduction.start_spread(owned.data(), k, k, comm::MessageFormat::fixed16);
    reduction.finish_spread(token, owned.data(), k, k, got.data());
  });
  for (std::size_t j = 0; j < touched.size(); ++j)
    for (int c = 0; c < k; ++c) {
      const float expected = value_of(touched[j], c), found = got[j * k + std::size_t(c)];
      if (std::isfinite(expected))
        EXPECT_NEAR(double(found), double(expected), unit * double(size[c]) * reduction.levels());
      else EXPECT_TRUE(std::isnan(expected) ? std::isnan(found) : found == expected) << touched[j] << " " << c;
      EXPECT_TRUE(expected != 0 || found == 0) << touched[j] << " " << c;
    }
  // Both formats at once.
  const int a = reduction.start_spread(owned.data(), k, k),
            b = reduction.start_spread(owned.data(), k, k, comm::MessageFormat::fixed16);
  reduction.finish_spread(a, owned.data(), k, k, back.data());
  reduction.finish_spread(b, owned.data(), k, k, got.data());
  for (std::size_t j = 0; j < touched.size(); ++j) EXPECT_EQ(back[j * k], value_of(touched[j], 0));
}

TEST(SparseReduction, SendsIn16Bits) {
  test::on_ranks(
      [](const Communicator& comm) {
        for (const Groups& groups : {Groups{}, Groups{2}, Groups{2, 4}}) {
          SCOPED_TRACE(std::to_string(groups.size()) + " groups on " + std::to_string(comm.size()) + " ranks");
          check_16_bits(comm, groups);
        }
      },
      {1, 2, 3, 4, 7});
}

// What rounding takes from a value the next ones get: the sum of many equal values is that of the exact ones to two
// units, where each by itself would be off by the same part of a unit.
TEST(SparseReduction, KeepsSumsIn16Bits) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as with threads";
  comm::run_threads(2, [](const Communicator& comm) {
    constexpr Global n = 5000;
    std::vector<Global> all(comm.rank() == 1 ? n : 0);
    std::iota(all.begin(), all.end(), Global(0));
    SparseReduction reduction(comm, std::vector<Global>{0, n, n}, all);
    std::vector<float> own(comm.rank() == 0 ? n : 0, 0.7000123f), got(all.size());
    const int token = reduction.start_spread(own.data(), 1, 1, comm::MessageFormat::fixed16);
    reduction.finish_spread(token, own.data(), 1, 1, got.data());
    if (comm.rank() == 0) return;
    double sum = 0;
    for (const float v : got) sum += double(v) - double(0.7000123f);
    EXPECT_NEAR(sum, 0, 2 * 0x1p-15);
    EXPECT_NE(got[0], 0.7000123f);
    std::vector<double> twice(all.size());
    EXPECT_THROW(reduction.start_sum(twice.data(), 1, comm::MessageFormat::fixed16), Error);
  });
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
