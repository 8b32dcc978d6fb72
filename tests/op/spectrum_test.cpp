// Lanczos processes that end early.
#include <gtest/gtest.h>

#include "op/spectrum_until.hpp"
#include "op/stored_rows.hpp"
#include "support/communicators.hpp"

#include <limits>

using namespace tacit;
using namespace tacit::op;
using namespace tacit::op::stored;
using comm::Communicator;

namespace {

TEST(Spectrum, EndsWhereTheLargestValueIsEnough) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  const auto space = layout::Space::distributed(Communicator::self(), 40 * 30);
  const auto rows = grid_rows<double>(
      40, 30, [](Global i) { return double(4 + i % 3); }, -1);
  const Csr<double> A(space, space, rows);
  const auto until = [&](double enough) { return spectrum_until<double, Host>(enough, A, nullptr, 10).lambda_max; };
  double before = 0;
  for (int steps = 1; steps <= 10; ++steps) {
    const double found = estimate_spectrum<double, Host>(A, nullptr, steps).lambda_max;
    EXPECT_GT(found, before);
    // From just above the value before on these are the steps that it takes.
    EXPECT_EQ(until(before * (1 + 1e-12)), found) << steps;
    EXPECT_EQ(until(found), found) << steps;
    before = found;
  }
  EXPECT_EQ(until(2 * before), before);
  EXPECT_EQ(until(std::numeric_limits<double>::infinity()), before);
}

}  // namespace
