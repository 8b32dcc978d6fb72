// Multigrid on a device, virtual or CUDA's: the results of the host's levels, and its own properties.
#include <gtest/gtest.h>

#include <tacit/exec/gang.hpp>
#include <tacit/precond/multigrid/on_device.hpp>

#include "support/communicators.hpp"
#include "support/memory.hpp"

#include <cmath>
#include <string>

using namespace tacit;
using comm::Communicator;
using layout::Vector;
using op::Boundary;
using op::Boxes;
using op::Domain;
using op::FiniteVolume;
using precond::Cycle;
using precond::Interpolation;
using precond::Multigrid;
using precond::MultigridOnDevice;
using precond::MultigridOptions;
using precond::ResidentBottom;
using precond::Smoother;
using test::TestMemory;

namespace {

constexpr auto periodic = Boundary::periodic, dirichlet = Boundary::dirichlet, neumann = Boundary::neumann;

struct Case {
  std::vector<Global> cells;
  std::vector<std::array<Boundary, 2>> boundary;
  double a = 1;
  bool constant = false;
  std::array<Global, 3> edge{0, 0, 0};
  bool whole = true;
  MultigridOptions options{};
};

template <class T>
std::shared_ptr<const FiniteVolume<T>> operator_of(const Case& c, const Communicator& comm = Communicator::self()) {
  const auto domain = Domain::uniform(c.cells, c.boundary);
  const Boxes boxes = c.whole ? Boxes::whole(comm, domain, c.edge)
                              : Boxes::within(comm, domain, c.edge, [](double x, double y, double) {
                                  return x < 0.55 || y < 0.4;  // an L shape
                                });
  const op::Field beta = [](double x, double y, double z) { return 1.5 + std::sin(9 * x + 4 * y + 3 * z); };
  return std::make_shared<const FiniteVolume<T>>(
      boxes, op::coefficients<T>(boxes, c.a, 1, {}, c.constant ? op::Field{} : beta));
}
template <class T>
Vector<T> right_side(const FiniteVolume<T>& A) {
  Vector<T> f(A.range());
  f.assign(A.sampled([](double x, double y, double z) { return std::cos(11 * x) + y * z - 0.3; }));
  return f;
}
/// The result of a cycle in the memory of the device.
template <class T>
void cycle(const MultigridOnDevice<T, TestMemory>& multigrid, const Vector<T>& f, Vector<T>& u) {
  Vector<T, TestMemory> there(u.space(), u.columns());
  multigrid.apply(test::vector_from<T, TestMemory>(f.space(), f.to_host(), f.columns()), there);
  u.assign(there.to_host());
}
template <class T>
precond::MultigridReport solve(const MultigridOnDevice<T, TestMemory>& multigrid, const Vector<T>& f, Vector<T>& u,
                               const precond::MultigridSolve& options = {}) {
  const auto b = test::vector_from<T, TestMemory>(f.space(), f.to_host());
  auto x = test::vector_from<T, TestMemory>(u.space(), u.to_host());
  const auto report = multigrid.solve(b, x, options);
  u.assign(x.to_host());
  return report;
}
template <class T>
double residual(const FiniteVolume<T>& A, const Vector<T>& f, const Vector<T>& u) {
  Vector<T> r(A.range());
  A.apply(u, r);
  layout::subtract(f, r, r);
  return layout::max_norm(r);
}
template <class T>
double difference(const Vector<T>& a, const Vector<T>& b) {
  auto d = a;
  layout::axpy(T(-1), b, d);
  return layout::max_norm(d) / layout::max_norm(b);
}

std::vector<Case> cases() {
  std::vector<Case> all{
      {{16, 12, 10}, {{dirichlet, neumann}, {periodic, periodic}, {dirichlet, dirichlet}}},
      {{16, 12, 10}, {{periodic, periodic}, {neumann, neumann}, {dirichlet, neumann}}, 1, true},
      {{13, 9, 7}, {{periodic, periodic}, {dirichlet, dirichlet}, {periodic, periodic}}},
      {{13, 9, 7}, {{periodic, periodic}, {periodic, periodic}, {neumann, neumann}}, 1, true},
      {{40, 33}, {{dirichlet, dirichlet}, {periodic, periodic}}},
      {{40, 26}, {{dirichlet, neumann}, {periodic, periodic}}, 1, true},
      {{57}, {{neumann, dirichlet}}, 0},
      {{64}, {{periodic, periodic}}, 1, true},
      {{1, 6, 3}, {{neumann, neumann}, {dirichlet, neumann}, {periodic, periodic}}},
      {{16, 1, 5}, {{periodic, periodic}, {periodic, periodic}, {dirichlet, dirichlet}}, 1, true},
      {{20, 20, 8}, {{dirichlet, dirichlet}, {neumann, dirichlet}, {periodic, periodic}}, 0, false, {4, 4, 4}, false},
      {{24, 20}, {{periodic, periodic}, {neumann, dirichlet}}, 1, true, {3, 5, 1}, false},
  };
  const std::size_t plain = all.size();
  for (std::size_t i = 0; i < plain; ++i) {
    Case c = all[i];
    auto& o = c.options;
    o.pre = int(i % 3), o.post = 1 + int(i % 2), o.symmetric = i % 2 == 0;
    o.smoother = std::array{Smoother::gauss_seidel, Smoother::chebyshev, Smoother::jacobi, Smoother::l1_jacobi}[i % 4];
    o.interpolation = i % 3 == 0 ? Interpolation::constant : Interpolation::linear;
    o.cycle = std::array{Cycle::v, Cycle::w, Cycle::u}[i % 3];
    all.push_back(c);
    o.cycle = Cycle::f;
    all.push_back(c);
  }
  return all;
}

std::string text(const Case& c) {
  std::string s = message(to_string(c.options.smoother), " ", to_string(c.options.cycle), " pre ", c.options.pre);
  for (const Global n : c.cells) s += message(" ", n);
  return s;
}

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
      EXPECT_LE(here.residual_norm, s.rtol);
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
  comm::run_threads(2, [&](const Communicator& comm) {
    const auto B = operator_of<double>(c, comm);
    EXPECT_THROW((MultigridOnDevice<double, TestMemory>(B, {}, {})), Error);
  });
  const Boxes boxes = Boxes::whole(Communicator::self(), Domain::uniform({16, 16}, dirichlet));
  const auto wide = std::make_shared<const FiniteVolume<double>>(
      boxes, op::Coefficients<double>{0, 1, {}, {}, op::CellStencil::fourth_order});
  EXPECT_THROW((MultigridOnDevice<double, TestMemory>(wide, {}, {})), Error);
}

}  // namespace
