// Sweeps of the Jacobi-Richardson iteration compared with closed forms.
#include <gtest/gtest.h>
#include <tacit/krylov/solve.hpp>
#include <tacit/op/stencil.hpp>
#include <tacit/precond/jacobi.hpp>

#include "support/communicators.hpp"

#include <cmath>
#include <memory>
#include <numbers>
#include <optional>

using namespace tacit;
using comm::Communicator;
using layout::Vector;
using op::Grid;
using test::on_ranks;

namespace {

// For b = 3 pi^2 u, u = sin sin sin, Jacobi-Richardson has the closed form x_k = (1 - cos(pi h)^k) c u.
TEST(Richardson, FollowsTheClosedForm) {
  on_ranks(
      [](const Communicator& c) {
        const int n = 33, m = n - 2;
        const double h = 1.0 / (n - 1), pi = std::numbers::pi;
        const auto weights = op::laplacian<double>(3, {h, h, h});
        const op::Stencil<double> A(c, Grid({m, m, m}), weights);
        const auto P = std::make_shared<precond::Jacobi<double>>(A);
        Vector<double> b(A.range()), x(A.range());
        std::vector<double> u(x.size());
        for (std::size_t i = 0; i < u.size(); ++i) {
          const Global g = A.range().begin() + Global(i);
          u[i] = std::sin(pi * h * double(g % m + 1)) * std::sin(pi * h * double(g / m % m + 1)) *
                 std::sin(pi * h * double(g / m / m + 1));
          b.data()[i] = 3 * pi * pi * u[i];
        }
        const double factor = std::pow(pi * h / 2 / std::sin(pi * h / 2), 2), rho = std::cos(pi * h);
        for (const std::optional<int> sweeps : {std::optional<int>(), std::optional<int>(1), std::optional<int>(3)}) {
          krylov::Options o;
          o.method = krylov::Method::richardson, o.rtol = 0, o.max_iterations = 101, o.sweeps = sweeps,
          o.fallbacks = false;
          layout::fill(x, 0.0);
          const auto report = krylov::solve<double, Host>(A, P.get(), b, x, o, true);
          EXPECT_EQ(report.iterations, 101);
          for (std::size_t i = 0; i < u.size(); ++i)
            ASSERT_NEAR(x.data()[i], (1 - std::pow(rho, 101)) * factor * u[i], 1e-12);
          EXPECT_NEAR(report.residual_norm, std::pow(rho, 101), 1e-12);
          ASSERT_EQ(report.history.size(), 102u);
          for (int k = 1; k <= 101; ++k) EXPECT_NEAR(report.history[std::size_t(k)], std::pow(rho, k - 1), 1e-12);
        }
      },
      {1, 2, 3, 7});
}

// At Neumann boundaries the diagonal differs: there too, several steps at once equal single steps.
TEST(Richardson, TakesSeveralStepsAtOnceWithADiagonalThatVaries) {
  on_ranks(
      [](const Communicator& c) {
        const Grid grid({20, 17, 23}, {op::Boundary::dirichlet, op::Boundary::neumann, op::Boundary::neumann});
        const op::Stencil<double> A(c, grid, op::laplacian<double>(3));
        const auto P = std::make_shared<precond::Jacobi<double>>(A);
        Vector<double> b(A.range()), x(A.range()), y(A.range());
        for (std::size_t i = 0; i < b.size(); ++i) b.data()[i] = std::cos(0.1 * double(A.range().begin() + Global(i)));
        const auto solve = [&](std::optional<int> sweeps, Vector<double>& solution) {
          krylov::Options o;
          o.method = krylov::Method::richardson, o.rtol = 0, o.max_iterations = 40, o.sweeps = sweeps,
          o.fallbacks = false;
          layout::fill(solution, 0.0);
          return krylov::solve<double, Host>(A, P.get(), b, solution, o, true);
        };
        const auto before = c.counters();
        const auto several = solve(std::nullopt, x);
        const auto half = c.counters();
        const auto one = solve(1, y);
        const auto after = c.counters();
        ASSERT_EQ(several.history.size(), one.history.size());
        for (std::size_t k = 0; k < one.history.size(); ++k) EXPECT_NEAR(several.history[k], one.history[k], 1e-13);
        for (std::size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x.data()[i], y.data()[i], 1e-12);
        EXPECT_LT((half - before).reductions, (after - half).reductions / 2);  // several steps were done at once
      },
      {1, 2, 3});
}

}  // namespace
