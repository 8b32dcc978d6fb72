// Multigrid on a device, virtual or CUDA's: the results of the host's levels, and its own properties.
#include <gtest/gtest.h>

#include <tacit/exec/gang.hpp>

#include "multigrid_device.hpp"

#include <cmath>
#include <string>

using namespace tacit;
using namespace tacit::test;

namespace {

template <class T>
void same_cycles(double closeness) {
  for (int k = 0; const Case& c : cases()) {
    if (k++ % 3 != 0 && !test::on_host) continue;
    const auto A = operator_of<T>(c);
    // The coarsest level is solved nearly exactly: differences are rounding errors of the passes.
    const Multigrid<T> host(A, c.options, precond::direct_bottom<T>());
    const MultigridOnDevice<T, TestMemory> device(A, c.options, {0, 30 * closeness, 1000, 0});
    ASSERT_EQ(device.levels(), host.levels()) << text(c);
    const auto f = right_side(*A);
    Vector<T> expected(A->range()), got(A->range());
    for (const bool again : {false, true}) {  // independent of the state that the first cycle has left
      host.apply(f, expected);
      cycle(device, f, got);
      EXPECT_LE(difference(got, expected), 1e3 * closeness) << text(c) << (again ? ", again" : "");
    }
    EXPECT_EQ(device.bottom().failures, 0) << text(c);
    // Several columns in one vector.
    Vector<T> pair(A->range(), 2), both(A->range(), 2);
    for (std::size_t i = 0; i < f.size(); ++i) pair.data()[2 * i] = T(1), pair.data()[2 * i + 1] = f.data()[i];
    cycle(device, pair, both);
    for (std::size_t i = 0; i < f.size(); ++i) ASSERT_EQ(both.data()[2 * i + 1], got.data()[i]) << text(c);
  }
}

TEST(MultigridOnDevice, HasTheCyclesOfTheHost) {
  same_cycles<double>(1e-13);
  same_cycles<float>(1e-6);
}

TEST(MultigridOnDevice, SolvesAsTheHostDoes) {
  for (Case c : cases()) {
    if (c.options.smoother != Smoother::gauss_seidel || c.options.pre == 0) continue;
    c.options.pre = c.options.post = 2;
    for (const bool mass : {true, false}) {
      if (test::is_repeated() && mass) continue;
      c.a = mass ? 1 : 0;
      const auto A = operator_of<double>(c);
      auto f = right_side(*A);
      const Multigrid<double> host(A, c.options, precond::direct_bottom<double>());
      const MultigridOnDevice<double, TestMemory> device(A, c.options, {100, 1e-3, 1000, 0});
      precond::MultigridSolve s;
      s.norm = mass ? krylov::Norm::max : krylov::Norm::two;
      Vector<double> expected(A->range()), got(A->range());
      layout::fill(got, A->singular() ? 3.0 : 0.0);
      const auto there = host.solve(f, expected, s);
      const auto here = solve(device, f, got, s);
      EXPECT_TRUE(here.converged()) << text(c) << ": " << to_string(here.reason) << " " << here.residual_norm;
      // Fewer levels need at most a few more cycles.
      EXPECT_LE(here.cycles, there.cycles + (device.levels() == 1 ? 3 : 1)) << text(c);
      EXPECT_LE(here.residual_norm, s.default_rtol<double>());
      EXPECT_EQ(here.bottom_failures, 0) << text(c);
      EXPECT_EQ(here.warnings.size(), there.warnings.size()) << text(c);
      EXPECT_NEAR(here.b_norm, there.b_norm, 1e-12 * there.b_norm);
      EXPECT_LE(difference(got, expected), 1e-7) << text(c);
      if (!A->singular()) {
        EXPECT_LE(residual(*A, f, got), 1.01e-10 * (mass ? here.b_norm : 1e2 * here.b_norm)) << text(c);
      }
    }
  }
}

// From a guess, the F-cycle is for a correction to it: as on the host, and independent of what the guess adds to f.
TEST(MultigridOnDevice, FullCycleGoesOnFromAGuess) {
  for (Case c : cases()) {
    if (c.options.cycle != Cycle::f) continue;
    c.options.pre = c.options.post = 2;
    const auto A = operator_of<double>(c);
    if (A->singular()) continue;
    const auto f = right_side(*A);
    const Multigrid<double> host(A, c.options, precond::direct_bottom<double>());
    const MultigridOnDevice<double, TestMemory> device(A, c.options, {0, 1e-12, 1000, 0});
    precond::MultigridSolve one;
    one.max_cycles = 1, one.rtol = 0;
    Vector<double> expected(A->range()), got(A->range());
    layout::fill(expected, 0.7), layout::fill(got, 0.7);
    host.solve(f, expected, one), solve(device, f, got, one);
    EXPECT_LE(difference(got, expected), 1e-9) << text(c);
  }
}

// Scaling f by a power of two scales u by the same power; a NaN is reported as non_finite.
TEST(MultigridOnDevice, ScalingByPowersOfTwoIsExact) {
  const Case c{{12, 10, 8}, {{dirichlet, dirichlet}, {neumann, dirichlet}, {periodic, periodic}}, 0};
  const auto A = operator_of<double>(c);
  const MultigridOnDevice<double, TestMemory> M(A, c.options, {20, 1e-3, 1000, 0});
  const auto f = right_side(*A);
  Vector<double> u(A->range());
  const auto plain = solve(M, f, u);
  ASSERT_TRUE(plain.converged());
  for (const int e : {-660, 660, 990}) {
    auto g = f;
    for (std::size_t i = 0; i < g.size(); ++i) g.data()[i] = std::ldexp(f.data()[i], e);
    Vector<double> v(A->range());
    const auto report = solve(M, g, v);
    EXPECT_TRUE(report.converged()) << e;
    EXPECT_EQ(report.cycles, plain.cycles) << e;
    for (std::size_t i = 0; i < v.size(); ++i)
      ASSERT_NEAR(std::ldexp(v.data()[i], -e), u.data()[i], 1e-12 * std::abs(u.data()[i]));
  }
  auto g = f;
  g.data()[5] = std::nan("");
  Vector<double> v(A->range());
  EXPECT_EQ(solve(M, g, v).reason, krylov::Reason::non_finite);
  EXPECT_TRUE(solve(M, f, v = Vector<double>(A->range())).converged());
  EXPECT_EQ(layout::max_norm(v), layout::max_norm(u));
}

// An indefinite operator, for which cycles diverge.
TEST(MultigridOnDevice, AFailureIsNoWorseThanTheGuess) {
  for (const double a : {-60.0, -80.0, -200.0}) {
    const Case c{{16, 16, 16}, {{dirichlet, dirichlet}, {dirichlet, dirichlet}, {dirichlet, dirichlet}}, a};
    const auto A = operator_of<double>(c);
    const MultigridOnDevice<double, TestMemory> M(A, {}, {20, 1e-3, 1000, 0});
    const auto f = right_side(*A);
    for (const double guess : {0.0, 1e-3}) {
      Vector<double> u(A->range());
      layout::fill(u, guess);
      const double before = residual(*A, f, u);
      const auto report = solve(M, f, u);
      EXPECT_FALSE(report.converged()) << a;
      EXPECT_LE(residual(*A, f, u), before) << a << ": " << to_string(report.reason);
    }
  }
}

TEST(MultigridOnDevice, CoarsestLevelSynchronisesThreeTimesInEachIteration) {
  const Case c{{12, 12, 12}, {{dirichlet, dirichlet}, {dirichlet, dirichlet}, {neumann, neumann}}};
  const auto A = operator_of<double>(c);
  const auto f = right_side(*A);
  const auto bottom = [&](const ResidentBottom& b) {
    MultigridOptions o;
    o.levels = 1;
    const MultigridOnDevice<double, TestMemory> M(A, o, b);
    Vector<double> u(A->range());
    cycle(M, f, u);
    return std::pair(M.bottom(), residual(*A, f, u) / layout::max_norm(f));
  };
  const auto [good, reached] = bottom({0, 1e-8, 1000, 0});
  EXPECT_LE(reached, 1.1e-8);
  EXPECT_EQ(good.failures, 0);
  EXPECT_GT(good.iterations, 10);
  // Two at the start, and two after the first claim of convergence.
  EXPECT_EQ(good.meetings, 3 * good.iterations + 4);
  // A solve that misses its goal is reported as a failure, but its result is used.
  const auto [short_of, left] = bottom({0, 1e-8, 3, 0});
  EXPECT_EQ(short_of.failures, 1);
  EXPECT_EQ(short_of.iterations, 3);
  EXPECT_LT(left, 1);
  // With solve(), the coarsest-level solver computes corrections of u.
  MultigridOptions o;
  o.levels = 1;
  const MultigridOnDevice<double, TestMemory> M(A, o, {0, 1e-3, 1000, 0});
  Vector<double> u(A->range());
  const auto report = solve(M, f, u);
  EXPECT_TRUE(report.converged());
  EXPECT_LE(report.cycles, 4);
}

// With a thread for every member of the teams, for ThreadSanitizer: the same results, except for the order of sums over
// several teams.
TEST(MultigridOnDevice, TeamsDoNotRace) {
  if (!test::on_host) GTEST_SKIP() << "of threads of the processor";
  Case c{{6, 5, 4}, {{periodic, periodic}, {periodic, periodic}, {dirichlet, neumann}}};
  c.options.pre = c.options.post = 1;
  c.options.interpolation = Interpolation::linear;
  const struct {
    bool constant;
    Smoother smoother;
    Global teams;
  } ways[] = {{true, Smoother::gauss_seidel, 1}, {false, Smoother::gauss_seidel, 3}, {false, Smoother::chebyshev, 2}};
  for (const auto& [constant, smoother, teams] : ways) {
    c.constant = constant, c.options.smoother = smoother;
    const auto A = operator_of<double>(c);
    const auto f = right_side(*A);
    Vector<double> serial(A->range()), threads(A->range());
    const MultigridOnDevice<double, Host> M(A, c.options, {40, 1e-2, 4, teams});
    M.apply(f, serial);
    M.race_check(true);
    M.apply(f, threads);
    EXPECT_LE(difference(threads, serial), 1e-12);
  }
}

TEST(MultigridOnDevice, RefusesWhatHasNoKernels) {
  const Case c{{16, 16}, {{dirichlet, dirichlet}, {dirichlet, dirichlet}}};
  const auto A = operator_of<double>(c);
  const auto refuses = [&](auto&& change, const ResidentBottom& bottom = {}) {
    MultigridOptions o;
    change(o);
    EXPECT_THROW((MultigridOnDevice<double, TestMemory>(A, o, bottom)), Error);
  };
  refuses([](auto& o) { o.cycle = Cycle::k; });
  refuses([](auto& o) { o.cycle = Cycle::f, o.full_interpolation = Interpolation::quadratic; });
  refuses([](auto& o) { o.interpolation = Interpolation::quadratic; });
  refuses([](auto& o) { o.restriction = Interpolation::linear; });
  refuses([](auto& o) { o.single_levels = true; });
  refuses([](auto& o) { o.pre = o.post = 0; });
  refuses([](auto&) {}, {-1, 1e-3, 100, 0});
  refuses([](auto&) {}, {0, 0, 100, 0});
  const Boxes boxes = Boxes::whole(Communicator::self(), Domain::uniform({16, 16}, dirichlet));
  const auto wide = std::make_shared<const FiniteVolume<double>>(
      boxes, op::Coefficients<double>{0, 1, {}, {}, op::CellStencil::fourth_order});
  EXPECT_THROW((MultigridOnDevice<double, TestMemory>(wide, {}, {})), Error);
}

}  // namespace
