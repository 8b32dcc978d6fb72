// The errors that an H-matrix of a compiled function reports, beside the true ones: smooth kernels, cut-off radii,
// jumps.
#include <gtest/gtest.h>
#include <tacit/op/hmatrix/point_kernels.hpp>

#include "hmatrix_cases.hpp"
#include "support/communicators.hpp"
#include "support/reference.hpp"

#include <algorithm>
#include <cmath>
#include <random>

using namespace tacit;
using namespace tacit::op;
using namespace tacit::test;

namespace {

struct Kernel {
  long dimension;
  int kind;
  double width, radius, size;

  double operator()(double r) const {
    switch (kind) {
      case 0:
        return std::exp(-r / width);
      case 1:
        return 1 / (r + 0.1 * width);
      case 2:
        return r < radius ? std::exp(-r / width) : 0;
      case 3:
        return std::exp(-r / width) + (r < radius ? size : 0);
      case 4:
        return std::pow(std::max(0.0, 1 - r / (0.3 * width)), 4) * (1 + 4 * r / (0.3 * width));
      default:
        return r < 0.3 * width ? 1 / (r + 0.01) : 0;
    }
  }
};

void block(long m, const double* x, long n, const double* y, double* out, void* data) {
  const auto& k = *static_cast<const Kernel*>(data);
  for (long i = 0; i < m; ++i)
    for (long j = 0; j < n; ++j) {
      double r2 = 0;
      for (long c = 0; c < k.dimension; ++c) {
        const double side = x[i * k.dimension + c] - y[j * k.dimension + c];
        r2 += side * side;
      }
      out[i * n + j] = k(std::sqrt(r2));
    }
}

struct Case {
  Kernel kernel;
  std::shared_ptr<const ClusterTree> tree;
  HMatrixOptions options;
};
Case random_case(std::mt19937_64& random, int kind, Local n) {
  std::uniform_real_distribution<double> uniform(0, 1);
  Case c;
  c.kernel = {1 + long(random() % 3), kind, 0.05 + 0.95 * uniform(random), 0, std::pow(10, -3 * uniform(random))};
  c.kernel.radius = (0.1 + 0.8 * uniform(random)) * std::sqrt(double(c.kernel.dimension));
  Coordinates points{int(c.kernel.dimension), {}, {}};
  for (long i = 0; i < n * c.kernel.dimension; ++i) points.points.push_back(uniform(random));
  c.tree = std::make_shared<const ClusterTree>(points, TreeOptions{Bisection::median, 32, 0});
  c.options.tolerance = std::pow(10, -3 - int(random() % 5));
  c.options.smooth = false;
  return c;
}

// Compared with all entries, the bound is certain. With `compared` = 0 only lines and entries at random show errors: a
// jump that is in few entries of few blocks may stay unseen, as with 1 of 100 random kernels of so few points.
TEST(HMatrixErrors, TheBoundIsNotFarBelowTheTrueError) {
  const Local n = 400;
  const auto space = layout::Space::distributed(comm::Communicator::self(), n);
  std::mt19937_64 random(5);
  int unseen = 0, sampled = 0;
  for (int k = 0; k < 180; ++k) {
    Case c = random_case(random, k % 6, n);
    const bool samples = k / 6 % 2 == 0;
    if (samples) c.options.compared = 0;
    const auto entry = kernel_entries<double>(&block, &c.kernel, 0.0, c.tree);
    const HMatrix<double> A(space, c.tree, entry, c.options);
    const double error = relative_error(entries_of(A), dense(entry, n, n));
    const auto& r = A.report();
    const bool below = 3 * r.error_bound < error && r.warnings.empty();
    EXPECT_TRUE(r.confidence == 1 || (r.confidence > 0.9 && samples));
    if (!samples) {
      EXPECT_LE(error, c.options.tolerance) << k;
    }
    if (r.confidence == 1) {
      EXPECT_LE(error, 1.01 * r.error_bound + 1e-14) << k;
    }
    if (k % 6 < 2) {
      EXPECT_FALSE(below) << k;
    }
    sampled += samples, unseen += below;
  }
  EXPECT_LE(unseen, sampled / 30);
}

// Smooth kernels cost few further entries, and no block is made twice.
TEST(HMatrixErrors, SmoothKernelsAreMadeOnce) {
  const Local n = 3000;
  const auto space = layout::Space::distributed(comm::Communicator::self(), n);
  const auto tree = tree_of(sphere(n));
  for (const KernelName name : {KernelName::laplace, KernelName::gaussian, KernelName::matern52})
    for (const double tolerance : {1e-3, 1e-6, 1e-9}) {
      PointKernel kernel;
      kernel.kernel = name;
      HMatrixOptions options;
      options.tolerance = tolerance;
      double plain = 0;
      for (const bool smooth : {true, false}) {
        options.smooth = smooth;
        options.compared = 0;
        const HMatrix<double> A(space, tree, kernel_entries<double>(kernel, tree), options);
        const auto& r = A.report();
        EXPECT_LE(r.error_bound, 2 * tolerance);
        EXPECT_GT(r.error_bound, tolerance / 20);
        EXPECT_EQ(r.confidence, 0.95);
        if (smooth) plain = r.entries_evaluated;
        else EXPECT_LT(r.entries_evaluated, 1.6 * plain) << to_string(name) << tolerance;
      }
    }
}

// Blocks of a symmetric kernel are made once for both triangles.
TEST(HMatrixErrors, MirrorsAreTransposes) {
  const Local n = 500;
  const auto space = layout::Space::distributed(comm::Communicator::self(), n);
  const auto tree = tree_of(sphere(n), leaves(16));
  PointKernel kernel;
  kernel.kernel = KernelName::yukawa;
  kernel.nugget = 0.5;
  HMatrixOptions options;
  options.mirrors = true;
  const auto entry = kernel_entries<double>(kernel, tree);
  const HMatrix<double> A(space, tree, entry, options);
  options.mirrors = false;
  const HMatrix<double> B(space, tree, entry, options);
  EXPECT_LT(A.report().entries_evaluated, 0.65 * B.report().entries_evaluated);
  const auto a = entries_of(A);
  EXPECT_LE(relative_error(a, dense(entry, n, n)), 1e-4);
  double most = 0;  // products round in another order
  for (Local i = 0; i < n; ++i)
    for (Local j = 0; j < i; ++j)
      most = std::max(most, std::abs(a[std::size_t(i) + std::size_t(j) * n] - a[std::size_t(j) + std::size_t(i) * n]));
  EXPECT_LE(most, 1e-14);
}

TEST(ClusterTree, HasBoxesOfAnyDimension) {
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal;
  Coordinates points{40, {}, {}};
  for (int i = 0; i < 300 * 40; ++i) points.points.push_back(normal(random));
  const ClusterTree tree(points, leaves(16));
  for (std::size_t c = 0; c < tree.clusters().size(); ++c) {
    const Cluster& cluster = tree.clusters()[c];
    for (Local p = cluster.begin; p < cluster.end; ++p)
      for (std::size_t k = 0; k < 40; ++k) {
        const double at = tree.point(tree.order()[std::size_t(p)])[k];
        ASSERT_TRUE(tree.box(int(c))[k] <= at && at <= tree.box(int(c))[k + 40]);
      }
  }
  EXPECT_THROW(ClusterTree(Coordinates{}), Error);
  EXPECT_THROW(ClusterTree(Coordinates{2, {1, 2, 3}, {}}), Error);
}

}  // namespace
