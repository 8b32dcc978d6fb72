// The rule of Method::automatic, for artificial costs.
#include <tacit/krylov/choose.hpp>

#include <gtest/gtest.h>

namespace tacit::krylov {
namespace {

constexpr Method general[] = {Method::gmres, Method::ca_gmres, Method::pipelined_gmres, Method::pipelined_ca_gmres};
constexpr Method positive[] = {Method::cg, Method::pipelined_cg};

Method choose(std::span<const Method> candidates, Prices prices) {
  std::string why;
  const Method method = cheapest(candidates, prices, 0.8, why);
  EXPECT_EQ(why.empty(), method == candidates.front());
  return method;
}

TEST(Choose, FewerBytesWhereMemoryDominates) {
  EXPECT_EQ(choose(general, {.product = 4, .vector = 0.4, .sum = 1e-3}), Method::ca_gmres);
  EXPECT_EQ(choose(positive, {.product = 4, .vector = 0.4, .sum = 1e-3}), Method::cg);
}
TEST(Choose, SweepsOnlyWhereTheyWereTried) {
  constexpr Method with_sweeps[] = {Method::cg, Method::ca_cg, Method::pipelined_cg};
  EXPECT_EQ(choose(with_sweeps, {.product = 4, .vector = 0.4, .sum = 1e-3}), Method::cg);
  EXPECT_EQ(choose(with_sweeps, {.product = 4, .vector = 0.4, .sum = 1e-3, .cg = 8, .ca_cg = 4}), Method::ca_cg);
  EXPECT_EQ(choose(with_sweeps, {.product = 4, .vector = 0.4, .sum = 1e-3, .cg = 8, .ca_cg = 7}), Method::cg);
  // Reductions that cost more than all else.
  EXPECT_EQ(choose(with_sweeps, {.product = 4, .vector = 0.4, .sum = 9, .cg = 8, .ca_cg = 7}), Method::ca_cg);
}
TEST(Choose, ClassicalWhereProductsDominate) {
  EXPECT_EQ(choose(general, {.product = 1000, .vector = 0.4, .sum = 1e-3}), Method::gmres);
  EXPECT_EQ(choose(general, {.product = 1, .precondition = 1000, .vector = 0.4, .sum = 1e-3}), Method::gmres);
}
TEST(Choose, FewerOrHiddenReductionsWhereLatencyDominates) {
  EXPECT_NE(choose(general, {.product = 1, .vector = 0.01, .sum = 3}), Method::gmres);
  EXPECT_EQ(choose(positive, {.product = 1, .vector = 0.01, .sum = 1}), Method::pipelined_cg);
}
TEST(Choose, SmallGainsKeepTheClassicalMethod) {
  std::string why;
  const Prices close{.product = 1, .vector = 0.01, .sum = 0.08};
  EXPECT_LT(seconds_an_iteration(Method::pipelined_cg, close), seconds_an_iteration(Method::cg, close));
  EXPECT_EQ(cheapest(positive, close, 0.8, why), Method::cg);
  EXPECT_EQ(cheapest(positive, close, 1.0, why), Method::pipelined_cg);
}

}  // namespace
}  // namespace tacit::krylov
