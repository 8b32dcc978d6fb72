#include <gtest/gtest.h>
#include <tacit/base/error.hpp>
#include <tacit/layout/hilbert.hpp>

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
