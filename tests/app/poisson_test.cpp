// Poisson in the unit cube: the error falls like h^2 on nested meshes, for all partitions and storage formats.
#include <gtest/gtest.h>
#include <tacit/app/poisson/cube.hpp>
#include <tacit/krylov/solve.hpp>
#include <tacit/precond/jacobi.hpp>

#include "support/communicators.hpp"

#include <cmath>
#include <numbers>

using namespace tacit;
using namespace tacit::app::poisson;
using comm::Communicator;
using layout::Vector;
using test::on_ranks;

namespace {

double error_of(const Communicator& c, Global nodes, Parts parts, bool assembled, Solution solution) {
  const Cube<double> cube(c, nodes, parts);
  std::shared_ptr<const op::Operator<double>> A;
  if (assembled) A = cube.matrix();
  else A = cube.stencil();
  Vector<double> b(cube.space()), x(cube.space());
  b.assign(cube.right_side(solution));
  krylov::Options o;
  o.method = krylov::Method::cg, o.rtol = 1e-11;
  const auto report = krylov::solve<double, Host>(*A, nullptr, b, x, o, true);
  EXPECT_TRUE(report.converged());
  return cube.distance(x, solution).max;
}

TEST(Poisson, ErrorFallsWithTheSquareOfTheMeshWidth) {
  on_ranks(
      [](const Communicator& c) {
        for (const auto& [parts, assembled] :
             {std::pair(Parts::slices, false), std::pair(Parts::slices, true), std::pair(Parts::boxes, true)})
          for (const auto solution : {Solution::sine, Solution::bump}) {
            double before = 0;
            for (const Global nodes : {9, 17, 33}) {
              const double error = error_of(c, nodes, parts, assembled, solution);
              if (before > 0) {
                EXPECT_NEAR(before / error, 4.0, nodes == 33 ? 0.1 : 0.2);
              }
              before = error;
              if (solution == Solution::sine) {  // known in closed form
                const double h = std::numbers::pi / double(nodes - 1) / 2;
                EXPECT_NEAR(error, std::pow(h / std::sin(h), 2) - 1, 1e-9);
              }
            }
          }
      },
      {1, 2, 3, 4, 8});
}

TEST(Poisson, MeshesMayHaveFewerPlanesThanRanks) {
  on_ranks(
      [](const Communicator& c) {
        for (const auto parts : {Parts::slices, Parts::boxes})
          EXPECT_LT(error_of(c, 4, parts, true, Solution::sine), 0.2);
        EXPECT_LT(error_of(c, 3, Parts::slices, false, Solution::sine), 0.3);
        EXPECT_THROW(Cube<double>(c, 2), Error);
      },
      {1, 3, 5, 8});
}

TEST(Poisson, PartsAndFormsAreOneMatrix) {
  on_ranks(
      [](const Communicator& c) {
        double first = 0;
        for (const auto parts : {Parts::slices, Parts::boxes})
          for (const bool assembled : {true, false}) {
            if (parts == Parts::boxes && !assembled) {
              if (c.size() > 3) {
                EXPECT_THROW((void)Cube<double>(c, 9, parts).stencil(), Error);
              }
              continue;
            }
            const double error = error_of(c, 12, parts, assembled, Solution::bump);
            if (first == 0) first = error;
            EXPECT_NEAR(error, first, 1e-11);
          }
      },
      {1, 2, 4, 8});
}

TEST(Poisson, FloatToo) {
  on_ranks(
      [](const Communicator& c) {
        const Cube<float> cube(c, 17);
        const auto A = cube.stencil();
        Vector<float> b(cube.space()), x(cube.space());
        b.assign(cube.right_side(Solution::sine));
        const precond::Jacobi<float> P(*A);
        krylov::Options o;
        o.method = krylov::Method::richardson, o.rtol = 1e-4;
        EXPECT_TRUE((krylov::solve<float, Host>(*A, &P, b, x, o, true).converged()));
        EXPECT_LT(cube.distance(x, Solution::sine).max, 0.01);
      },
      {2});
}

}  // namespace
