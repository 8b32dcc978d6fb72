// Stencils: their coefficients, and products large enough to be divided into pieces and shared by threads.
#include <gtest/gtest.h>
#include <tacit/op/stencil.hpp>

#include "support/communicators.hpp"
#include "support/reference.hpp"
#include "support/threads.hpp"

#include <cmath>
#include <complex>

using namespace tacit;
using namespace tacit::op;
using comm::Communicator;
using layout::Vector;
using test::on_ranks;

namespace {

TEST(Grid, RefusesWhatIsNone) {
  EXPECT_THROW(Grid(std::vector<Global>{}), Error);
  EXPECT_THROW(Grid({1, 2, 3, 4}), Error);
  EXPECT_THROW(Grid({5, 0}), Error);
  EXPECT_THROW(Grid({Global(1) << 40, Global(1) << 40}), Error);
  EXPECT_THROW(Grid({5, 4}, std::vector<Boundary>{Boundary::periodic}), Error);
  EXPECT_EQ(Grid({5, 4, 3}).size(), 60);
  EXPECT_EQ(Grid({5, 4, 3}).slab(), 20);
  EXPECT_EQ(Grid({5, 4}).slab(), 5);
  EXPECT_EQ(Grid({5}).slab(), 1);
  EXPECT_EQ(Grid({5, 4, 3}).slabs(4), layout::Partition({0, 20, 40, 60, 60}));
}

TEST(Weights, OfTheSecondDifference) {
  const auto w = laplacian<double>(2, {0.5, 2, 1});
  EXPECT_EQ(w.at(0), 8.5);
  EXPECT_EQ(w.at(-1), -4);
  EXPECT_EQ(w.at(0, 1), -0.25);
  EXPECT_EQ(w.at(0, 0, 1), 0);
  EXPECT_EQ(w.shifted(-1).at(0), 7.5);
}

TEST(Weights, OfConvection) {
  const auto up = convection<double>(3, {2, -3, 0}, Convection::upwind, {1, 0.5, 1});
  EXPECT_EQ(up.at(-1), -2);
  EXPECT_EQ(up.at(1), 0);
  EXPECT_EQ(up.at(0, 1), -6);
  EXPECT_EQ(up.at(0), 8);
  const auto central = convection<float>(1, {2, 0, 0}, Convection::central);
  EXPECT_EQ(central.at(-1), -1);
  EXPECT_EQ(central.at(1), 1);
  EXPECT_EQ(central.at(0), 0);
}

// -Laplace of x^2 + y^2 + z^2 is -2 d; for an isotropic stencil the leading error, seen for fourth powers, is the same
// in all directions.
TEST(Weights, AreConsistent) {
  for (int d : {1, 2, 3}) {
    for (const auto& w : {laplacian<double>(d), isotropic_laplacian<double>(d)}) {
      double sum = 0, square = 0, mixed = 0, fourth = 0;
      for (int i = 0; i < 27; ++i) {
        const int x = i % 3 - 1, y = i / 3 % 3 - 1, z = i / 9 - 1;
        sum += w.value[i];
        square += w.value[i] * (x * x + y * y + z * z);
        mixed += w.value[i] * x * x * y * y;
        fourth += w.value[i] * x * x * x * x;
      }
      EXPECT_NEAR(sum, 0, 1e-14);
      EXPECT_NEAR(square, -2 * d, 1e-14);
      if (d > 1 && w.at(1, 1) != 0) {
        EXPECT_NEAR(3 * mixed, fourth, 1e-14);
      }
    }
  }
  EXPECT_EQ(isotropic_laplacian<double>(2, 0.5).at(0), 4 * isotropic_laplacian<double>(2).at(0));
}

TEST(Stencil, OfNeumannHasConstantsInItsKernel) {
  on_ranks([](const Communicator& comm) {
    const Stencil<double> A(comm, Grid({7, 5, 4}, Boundary::neumann), isotropic_laplacian<double>(3));
    Vector<double> x(A.domain()), y(A.range());
    layout::fill(x, 1.0);
    A.apply(x, y);
    for (double v : y.to_host()) EXPECT_NEAR(v, 0, 1e-14);
  });
}

TEST(Stencil, OfPeriodicAxesHasWavesAsEigenvectors) {
  on_ranks([](const Communicator& comm) {
    using C = std::complex<double>;
    const Grid grid({12, 9}, Boundary::periodic);
    const Stencil<C> A(comm, grid, laplacian<C>(2).shifted(C(-0.3, 0.2)));
    Vector<C> x(A.domain()), y(A.range());
    const double kx = 2 * M_PI * 3 / 12, ky = 2 * M_PI * 2 / 9;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const Global g = x.space().begin() + Global(i);
      x.data()[i] = std::polar(1.0, kx * double(g % 12) + ky * double(g / 12));
    }
    A.apply(x, y);
    const C lambda = 4 - 2 * std::cos(kx) - 2 * std::cos(ky) + C(-0.3, 0.2);
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_LE(std::abs(y.data()[i] - lambda * x.data()[i]), 1e-13);
  });
}

TEST(StencilRows, AreTheMatrixInAnyPieces) {
  for (const Grid& grid : {Grid({6, 5, 4}, {Boundary::periodic, Boundary::neumann, Boundary::dirichlet}),
                           Grid({2, 2}, Boundary::periodic)})
    for (bool star : {true, false}) {
      const auto w = test::random_weights<double>(3, star);
      const auto expected = test::stencil_matrix(grid, w);
      for (Global begin = 0; begin < grid.size();) {
        const Global end = std::min(grid.size(), begin + 17);
        const auto rows = stencil_rows(grid, w, begin, end);
        ASSERT_EQ(rows.count(), end - begin);
        for (Local r = 0; r < rows.count(); ++r)
          for (Global k = rows.start[r]; k < rows.start[r + 1]; ++k) {
            const auto found = expected.entry.find({begin + r, rows.column[k]});
            ASSERT_NE(found, expected.entry.end());
            EXPECT_NEAR(rows.value[k], found->second, 1e-14);
            if (k > rows.start[r]) {
              EXPECT_LT(rows.column[k - 1], rows.column[k]);
            }
          }
        begin = end;
      }
      EXPECT_EQ(stencil_rows(grid, w, 0, grid.size()).start.back(), Global(expected.entry.size()));
    }
  EXPECT_THROW(stencil_rows(Grid({4}), laplacian<double>(1), 2, 5), Error);
}

TEST(Stencil, RefusesASpaceThatCutsSlabs) {
  on_ranks([](const Communicator& comm) {
    const Grid grid({4, 3});
    std::vector<Global> offsets(comm.size() + 1, 12);
    offsets[0] = 0;
    if (comm.size() > 1) offsets[1] = 5;
    const auto cut = layout::Space::distributed(comm, layout::Partition(offsets));
    if (comm.size() > 1) {
      EXPECT_THROW(Stencil<double>(cut, grid, laplacian<double>(2)), Error);
    }
    EXPECT_THROW(Stencil<double>(layout::Space::distributed(comm, 13), grid, laplacian<double>(2)), Error);
    if (comm.size() > 1) offsets[1] = 8;  // uneven, but whole planes
    const auto uneven = layout::Space::distributed(comm, layout::Partition(offsets));
    const Stencil<double> A(uneven, grid, laplacian<double>(2));
    Vector<double> x(uneven), y(uneven);
    layout::fill(x, 1.0);
    A.apply(x, y);
    const std::vector<double> all{2, 1, 1, 2, 1, 0, 0, 1, 2, 1, 1, 2};
    EXPECT_EQ(y.to_host(), std::vector<double>(all.begin() + uneven.begin(), all.begin() + uneven.end()));
  });
}

TEST(Stencil, TellsOfWeightsThatAreNotFinite) {
  auto w = laplacian<double>(2);
  EXPECT_EQ(Stencil<double>(Communicator::self(), Grid({3, 3}), w).fault(), "");
  w.at(0, 1) = INFINITY;
  EXPECT_NE(Stencil<double>(Communicator::self(), Grid({3, 3}), w).fault(), "");
}

// Long lines are processed in pieces, large planes in tiles; threads share planes, tiles or pieces.
template <class T>
void expect_equal_to_csr(const Grid& grid, const Weights<T>& w, int threads, int columns) {
  const test::Threads team(threads);
  const auto comm = Communicator::self();
  const Stencil<T> A(comm, grid, w);
  const Csr<T> B(A.range(), A.domain(), A.rows());
  const auto x = test::vector_of<T>(A.domain(), 1, columns);
  Vector<T> y(A.range(), columns), z(A.range(), columns);
  for (bool adjoint : {false, true}) {
    if (adjoint) A.apply_adjoint(x, y), B.apply_adjoint(x, z);
    else A.apply(x, y), B.apply(x, z);
    double worst = 0;
    for (std::size_t i = 0; i < y.size(); ++i) worst = std::max(worst, double(std::abs(y.data()[i] - z.data()[i])));
    EXPECT_LE(worst, 27 * 8 * test::epsilon<T>() * A.largest()) << "threads " << threads << ", columns " << columns;
  }
}

TEST(Stencil, IsTheSameInPiecesTilesAndThreads) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  for (int threads : {1, 2, 3}) {
    expect_equal_to_csr(Grid({100003}, Boundary::periodic), test::random_weights<double>(1, true), threads, 1);
    expect_equal_to_csr(Grid({70001, 3}, Boundary::neumann), test::random_weights<double>(2, false), threads, 1);
    expect_equal_to_csr(Grid({9001, 5, 2}, {Boundary::periodic, Boundary::dirichlet, Boundary::neumann}),
                        test::random_weights<double>(3, false), threads, 2);
    expect_equal_to_csr(Grid({257, 301, 3}), test::random_weights<double>(4, true), threads, 1);
    expect_equal_to_csr(Grid({33, 31, 37}, Boundary::periodic), test::random_weights<float>(5, true), threads, 3);
    expect_equal_to_csr(Grid({33, 31, 37}), test::random_weights<std::complex<double>>(6, false), threads, 1);
    expect_equal_to_csr(Grid({1, 1, 40000}), test::random_weights<double>(7, false), threads, 1);
    expect_equal_to_csr(Grid({1, 40000}), test::random_weights<double>(8, true), threads, 1);
    expect_equal_to_csr(Grid({2, 150000, 1}, Boundary::neumann), test::random_weights<double>(9, false), threads, 1);
  }
}

}  // namespace
