// Rigid-body modes compared with their definition.
#include <tacit/comm/communicator.hpp>
#include <tacit/precond/rigid_body.hpp>

#include "support/communicators.hpp"
#include "support/systems.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

namespace tacit::test {
namespace {

using precond::RigidBodyModes;

/// Pseudo-random nodes in a box that is far from the origin.
std::vector<double> nodes_of(int dimension, int count, double away) {
  std::vector<double> x;
  for (int i = 0; i < count * dimension; ++i) x.push_back(away + (1 + i % dimension) * noise(4, std::uint64_t(i)));
  return x;
}
/// Rank r's nodes: none for rank 0 of several, then more and more.
std::vector<double> part(const std::vector<double>& x, int dimension, const comm::Communicator& comm) {
  const auto begin = [&](int r) {
    const std::size_t nodes = x.size() / std::size_t(dimension), p = std::size_t(comm.size());
    return r == comm.size() ? x.size() : std::size_t(dimension) * (nodes * std::size_t(r * (r - 1)) / (p * p));
  };
  const int r = comm.rank();
  return {x.begin() + std::ptrdiff_t(r ? begin(r) : 0), x.begin() + std::ptrdiff_t(begin(r + 1))};
}
/// The number of columns that are independent, by elimination with complete pivoting.
int rank_of(std::vector<double> a, int columns) {
  const auto n = std::size_t(columns), m = a.size() / n;
  int found = 0;
  for (std::size_t step = 0; step < n; ++step) {
    std::size_t row = 0, column = 0;
    for (std::size_t i = 0; i < m; ++i)
      for (std::size_t c = 0; c < n; ++c)
        if (std::abs(a[i * n + c]) > std::abs(a[row * n + column])) row = i, column = c;
    const double pivot = a[row * n + column];
    if (std::abs(pivot) < 1e-3) break;
    ++found;
    const std::vector<double> of(a.begin() + std::ptrdiff_t(row * n), a.begin() + std::ptrdiff_t(row * n + n));
    for (std::size_t i = 0; i < m; ++i) {
      const double factor = a[i * n + column] / pivot;
      for (std::size_t c = 0; c < n; ++c) a[i * n + c] -= factor * of[c];
    }
  }
  return found;
}

TEST(RigidBodyModes, DistancesOfNodesStayTheSame) {
  on_ranks([](const comm::Communicator& comm) {
    for (const int dimension : {2, 3})
      for (const double away : {0.0, 1e6}) {
        const auto x = nodes_of(dimension, 23, away);
        const auto D = std::size_t(dimension);
        const RigidBodyModes all(x, dimension, comm::Communicator::self());
        const auto k = std::size_t(all.count);
        ASSERT_EQ(all.count, dimension == 2 ? 3 : 6);
        ASSERT_EQ(all.values.size(), x.size() * k);
        for (std::size_t m = 0; m < k; ++m) {
          double most = 0;
          for (std::size_t i = 0; i < x.size(); i += D)
            for (std::size_t j = 0; j < i; j += D) {
              double change = 0;
              for (std::size_t d = 0; d < D; ++d)
                change += (all.values[(i + d) * k + m] - all.values[(j + d) * k + m]) * (x[i + d] - x[j + d]);
              EXPECT_NEAR(change, 0, 1e-9) << "mode " << m;
            }
          for (std::size_t i = 0; i < x.size(); ++i) most = std::max(most, std::abs(all.values[i * k + m]));
          EXPECT_LE(most, 1 + 1e-9);
          EXPECT_GE(most, 0.3);
        }
        EXPECT_EQ(rank_of(all.values, all.count), all.count);

        const auto own = part(x, dimension, comm);
        const RigidBodyModes mine(own, dimension, comm);
        ASSERT_EQ(mine.count, all.count);
        const auto sizes = comm.all_gather(Global(own.size()));
        const auto before = std::size_t(std::accumulate(sizes.begin(), sizes.begin() + comm.rank(), Global(0)));
        const std::vector<double> expected(all.values.begin() + std::ptrdiff_t(before * k),
                                           all.values.begin() + std::ptrdiff_t((before + own.size()) * k));
        EXPECT_EQ(mine.values, expected);  // to the bit
      }
  });
}

TEST(RigidBodyModes, RotationsThatMoveNothingAreLeftOut) {
  on_ranks([](const comm::Communicator& comm) {
    const std::vector<double> line{3, 5, 7, 4, 5, 7, 9, 5, 7}, point{3, 5, 7},
        plane{0, 1, 1, 0, 0, 0, 2, 2, 0, 1, 0, 0};
    EXPECT_EQ(RigidBodyModes(part(line, 3, comm), 3, comm).count, 5);
    EXPECT_EQ(RigidBodyModes(part(point, 3, comm), 3, comm).count, 3);
    EXPECT_EQ(RigidBodyModes(part({3, 5}, 2, comm), 2, comm).count, 2);
    EXPECT_EQ(RigidBodyModes(part(plane, 3, comm), 3, comm).count, 6);
    EXPECT_EQ(RigidBodyModes({}, 3, comm).count, 3);
    const RigidBodyModes widest(std::vector<double>{-1.7e308, 0, 1.7e308, 0}, 2, comm);
    EXPECT_EQ(widest.count, 3);
    for (const double v : widest.values) EXPECT_LE(std::abs(v), 1 + 1e-9);
  });
}

TEST(RigidBodyModes, WhatIsRefusedIsRefusedOnAllRanks) {
  on_ranks([](const comm::Communicator& comm) {
    const auto text = [&](std::vector<double> x, int dimension) -> std::string {
      try {
        const RigidBodyModes modes(x, dimension, comm);
      } catch (const Error& e) {
        EXPECT_EQ(e.kind(), ErrorKind::usage);
        return e.what();
      }
      return "";
    };
    const bool last = comm.rank() + 1 == comm.size();
    EXPECT_NE(text({1, 2}, 1).find("nodes have 1 coordinates; 2 or 3 are needed"), std::string::npos);
    EXPECT_NE(text(std::vector<double>(last ? 4 : 3, 0), 3).find("4 coordinates are no whole nodes of 3"),
              std::string::npos);
    EXPECT_NE(text({0, 1, 2, last ? std::numeric_limits<double>::quiet_NaN() : 0}, 2).find("nan at node 1"),
              std::string::npos);
  });
}

}  // namespace
}  // namespace tacit::test
