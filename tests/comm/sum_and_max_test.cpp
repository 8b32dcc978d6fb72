// Reductions of sums with a maximum, and numbers that travel in the agreement at the end of a collective call.
#include "support/communicators.hpp"

#include <tacit/layout/space.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace tacit::comm {
namespace {

TEST(SumAndMax, LastNumberIsTheMaximum) {
  test::on_ranks([](const Communicator& c) {
    const double P = c.size(), r = c.rank();
    for (const std::size_t n : {1u, 2u, 7u}) {
      std::vector<double> v(n, r + 1);
      v.back() = -r;
      c.start_sum(v.data(), n, Operation::sum_and_max).wait(v.data());
      for (std::size_t i = 0; i + 1 < n; ++i) EXPECT_EQ(v[i], P * (P + 1) / 2);
      EXPECT_EQ(v.back(), 0);
    }
    const auto space = layout::Space::distributed(c, 10 * c.size());
    double v[2] = {1, r};
    const auto before = c.counters();
    space.sum_and_max(v);
    EXPECT_EQ(v[0], P);
    EXPECT_EQ(v[1], P - 1);
    EXPECT_EQ((c.counters() - before).reductions, 1);
    double own[2] = {r, r};
    layout::Space::replicated(c, 10).sum_and_max(own);
    EXPECT_EQ(own[0], r);
    EXPECT_EQ(own[1], r);
  });
}

TEST(SumAndMax, NaNOfAnyRankStays) {
  test::on_ranks([](const Communicator& c) {
    for (int bad = 0; bad < c.size(); ++bad) {
      double v[2] = {1, c.rank() == bad ? std::nan("") : 5.0};
      c.start_sum(v, 2, Operation::sum_and_max).wait(v);
      EXPECT_EQ(v[0], c.size());
      EXPECT_TRUE(std::isnan(v[1]));
    }
  });
}

TEST(Collective, NumbersTravelInTheAgreement) {
  test::on_ranks([](const Communicator& c) {
    double numbers[3] = {};
    const auto before = c.counters();
    const int result = collective(
        c,
        [&] {
          numbers[0] = 1, numbers[1] = c.rank(), numbers[2] = 10 - c.rank();
          return 7;
        },
        numbers);
    EXPECT_EQ(result, 7);
    EXPECT_EQ(numbers[0], c.size());
    EXPECT_EQ(numbers[1], c.size() * (c.size() - 1) / 2);
    EXPECT_EQ(numbers[2], 10);
    EXPECT_EQ((c.counters() - before).reductions, 0);
    // An error on the last rank is thrown by all, and the communicator works on.
    EXPECT_THROW(collective(
                     c, [&] { require(c.rank() + 1 < c.size(), "the last rank has failed"); }, numbers),
                 Error);
    EXPECT_EQ(c.all_sum(Global(1)), c.size());
    std::vector<double> most{double(c.rank()), -double(c.rank())};
    c.all_max(most);
    EXPECT_EQ(most, (std::vector<double>{double(c.size() - 1), 0}));
  });
}

TEST(Collective, KnowsWhetherACallIsOpen) {
  test::on_ranks([](const Communicator& c) {
    const Communicator other = c.duplicate();  // the program of a thread is within a call on c
    EXPECT_FALSE(other.in_call());
    collective(other, [&] { EXPECT_TRUE(other.in_call()); });
    EXPECT_FALSE(other.in_call());
  });
}

}  // namespace
}  // namespace tacit::comm
