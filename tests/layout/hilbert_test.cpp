#include <gtest/gtest.h>
#include <tacit/base/error.hpp>
#include <tacit/layout/hilbert.hpp>

#include <array>
#include <cmath>
#include <cstdlib>
#include <set>

using namespace tacit;

TEST(Hilbert, GoesFromNeighbourToNeighbourThroughASquare) {
  for (const Local side : {1, 2, 8, 64}) {
    const auto order = layout::hilbert_order(side, side);
    for (std::size_t i = 1; i < order.size(); ++i) {
      const Local a = order[i - 1], b = order[i];
      ASSERT_EQ(std::abs(a % side - b % side) + std::abs(a / side - b / side), 1);
    }
    for (std::size_t i = 0; i < order.size(); ++i)
      ASSERT_EQ(layout::hilbert_place(side, order[i] % side, order[i] / side), Global(i));
  }
}

TEST(Hilbert, OrdersRectanglesOfAnySize) {
  for (const auto& [width, height] : {std::pair{0, 5}, {1, 7}, {13, 1}, {37, 10}, {5, 100}}) {
    const auto order = layout::hilbert_order(width, height);
    EXPECT_EQ(order.size(), std::size_t(width * height));
    EXPECT_EQ(std::set<Local>(order.begin(), order.end()).size(), order.size());
    const auto wide = layout::hilbert_order(width, height, 256);
    for (std::size_t i = 1; i < wide.size(); ++i)
      ASSERT_LT(layout::hilbert_place(256, wide[i - 1] % width, wide[i - 1] / width),
                layout::hilbert_place(256, wide[i] % width, wide[i] / width));
  }
  EXPECT_THROW(layout::hilbert_order(-1, 3), Error);
  EXPECT_THROW(layout::hilbert_order(1 << 20, 1 << 20), Error);
}

TEST(Hilbert, GoesFromNeighbourToNeighbourThroughACube) {
  for (const Local side : {1, 2, 4, 16}) {
    const auto order = layout::hilbert_order({side, side, side});
    ASSERT_EQ(order.size(), std::size_t(side) * std::size_t(side) * std::size_t(side));
    const auto cell = [&](std::size_t i) {
      return std::array{order[i] % side, order[i] / side % side, order[i] / side / side};
    };
    for (std::size_t i = 0; i < order.size(); ++i) {
      const auto [x, y, z] = cell(i);
      ASSERT_EQ(layout::hilbert_place(side, x, y, z), Global(i));
      if (i == 0) continue;
      const auto before = cell(i - 1);
      ASSERT_EQ(std::abs(x - before[0]) + std::abs(y - before[1]) + std::abs(z - before[2]), 1) << i;
    }
  }
}

TEST(Hilbert, OrdersBoxesOfAnySize) {
  for (const auto& box : {std::array<Local, 3>{0, 5, 2}, {1, 7, 1}, {13, 1, 1}, {7, 10, 3}, {5, 20, 9}, {1, 1, 70}}) {
    const Local width = box[0], height = box[1],
                depth = box[2];  // clang: no capture of structured bindings with OpenMP
    const auto order = layout::hilbert_order({width, height, depth});
    EXPECT_EQ(order.size(), std::size_t(width * height * depth));
    EXPECT_EQ(std::set<Local>(order.begin(), order.end()).size(), order.size());
    const auto wide = layout::hilbert_order({width, height, depth}, 128);
    for (std::size_t i = 1; i < wide.size(); ++i) {
      const auto place = [&](Local c) {
        return layout::hilbert_place(128, c % width, c / width % height, c / width / height);
      };
      ASSERT_LT(place(wide[i - 1]), place(wide[i]));
    }
  }
  EXPECT_THROW(layout::hilbert_order({1, -1, 3}), Error);
  EXPECT_THROW(layout::hilbert_order({1 << 20, 1 << 20, 1 << 20}), Error);
  EXPECT_THROW(layout::hilbert_order({5, 5, 5}, 4), Error);
}

// Bounding boxes of consecutive points of the order: small if the order keeps neighbours together.
TEST(Hilbert, OrdersPointsAsTheirCells) {
  for (const int d : {2, 3}) {
    const Local side = 8, n = d == 2 ? side * side : side * side * side;
    std::vector<double> at;
    for (Local i = 0; i < n; ++i)
      for (int a = 0; a < d; ++a)
        at.push_back(1e-3 * (a == 0 ? i % side : a == 1 ? i / side % side : i / side / side) - 5);
    const auto points = layout::hilbert_order(at, d);
    const auto cells = d == 2 ? layout::hilbert_order(side, side) : layout::hilbert_order({side, side, side});
    EXPECT_EQ(std::set<Local>(points.begin(), points.end()).size(), std::size_t(n));
    // Each quarter (2D) or eighth (3D) of the points fills one quadrant or octant.
    const auto part = std::size_t(n) / (d == 2 ? 4 : 8);
    for (std::size_t first = 0; first < std::size_t(n); first += part)
      for (int a = 0; a < d; ++a) {
        double least = 1e9, most = -1e9;
        for (std::size_t i = first; i < first + part; ++i) {
          const double v = at[std::size_t(points[i]) * std::size_t(d) + std::size_t(a)];
          least = std::min(least, v), most = std::max(most, v);
        }
        EXPECT_LT(most - least, 0.5e-3 * side);
      }
    EXPECT_EQ(cells.size(), points.size());
  }
  EXPECT_TRUE(layout::hilbert_order(std::vector<double>{}, 3).empty());
  EXPECT_EQ(layout::hilbert_order(std::vector<double>{1, 2, 1, 2}, 2), (std::vector<Local>{0, 1}));
  EXPECT_THROW(layout::hilbert_order(std::vector<double>{1, 2, 3}, 2), Error);
  EXPECT_THROW(layout::hilbert_order(std::vector<double>{1, NAN}, 2), Error);
  EXPECT_THROW(layout::hilbert_order(std::vector<double>{1}, 1), Error);
  EXPECT_EQ(layout::hilbert_order(std::vector<double>{1e308, 0, -1e308, 0}, 2).size(), 2u);
}
