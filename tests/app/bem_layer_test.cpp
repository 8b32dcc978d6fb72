// Single layers: Galerkin integrals against brute force, symmetry, the grounded plane, potential and field at points.
#include <gtest/gtest.h>
#include <tacit/app/bem/galerkin.hpp>
#include <tacit/app/bem/system.hpp>
#include <tacit/base/error.hpp>
#include <tacit/krylov/solve.hpp>

#include "support/communicators.hpp"

#include <cmath>
#include <numbers>
#include <numeric>

using namespace tacit;
using namespace tacit::app::bem;
using layout::Vector;
using std::numbers::pi;

namespace {

std::vector<Global> numbers(Global n) {
  std::vector<Global> all(static_cast<std::size_t>(n));
  std::iota(all.begin(), all.end(), Global(0));
  return all;
}

template <class Layer>
std::vector<double> dense(const Layer& layer) {
  const auto all = numbers(layer.size());
  std::vector<double> a(all.size() * all.size());
  layer(all, all, a.data());
  return a;
}

// Integral over triangles 0 and 1: the exact potential of one, integrated over the other by the midpoint rule on ever
// smaller triangles and extrapolated (halving the triangles divides the error by four; near a singular edge at least by
// two).
double brute(const Mesh& mesh, int cuts) {
  const auto& t = mesh.triangles[0];
  const Point &a = mesh.vertices[std::size_t(t[0])], &b = mesh.vertices[std::size_t(t[1])],
              &c = mesh.vertices[std::size_t(t[2])];
  const Mesh source{mesh.vertices, {mesh.triangles[1]}};
  const SingleLayer layer(source, 1e-13);
  std::vector<Point> points;
  for (int i = 0; i < cuts; ++i)
    for (int j = 0; i + j < cuts; ++j)
      for (const bool upper : {false, true}) {
        if (upper && i + j + 2 > cuts) continue;
        const double u = (i + (upper ? 2.0 : 1.0) / 3) / cuts, v = (j + (upper ? 2.0 : 1.0) / 3) / cuts;
        Point p;
        for (std::size_t d = 0; d < 3; ++d) p[d] = a[d] + u * (b[d] - a[d]) + v * (c[d] - a[d]);
        points.push_back(p);
      }
  std::vector<double> phi(points.size());
  const double one = 1;
  layer.potential({&one, 1}, points, phi.data());
  return std::accumulate(phi.begin(), phi.end(), 0.0) * mesh.area(0) / double(points.size());
}

TEST(GalerkinLayer, IntegratesPairsOfTriangles) {
  const Point a{0, 0, 0}, b{1, 0, 0}, c{0.3, 0.9, 0}, d{0.4, -0.8, 0.3}, e{-0.7, -0.2, 0.4}, f{-0.6, -0.9, 0.1};
  const Mesh edge{{a, b, c, d}, {{0, 1, 2}, {1, 0, 3}}}, corner{{a, b, c, e, f}, {{0, 1, 2}, {0, 3, 4}}},
      same{{a, b, c}, {{0, 1, 2}, {0, 1, 2}}},
      apart{{a, b, c, {0.1, 0.1, 0.05}, {0.9, 0, 0.1}, {0.2, 0.7, 0.06}}, {{0, 1, 2}, {3, 4, 5}}},
      away{{a, b, c, {4, 1, 0}, {5, 1, 0}, {4.3, 1.9, 0.2}}, {{0, 1, 2}, {3, 4, 5}}};
  const struct {
    const Mesh& mesh;
    double within;
  } cases[] = {{edge, 1e-5}, {corner, 5e-6}, {same, 1e-5}, {apart, 5e-6}, {away, 1e-7}};  // mostly brute force's error
  for (const auto& [mesh, within] : cases) {
    const GalerkinLayer layer(mesh, 1e-8);
    const auto entries = dense(layer);
    const double truth = brute(mesh, 480), value = entries[2] * std::sqrt(mesh.area(0) * mesh.area(1));
    EXPECT_NEAR(value, truth, within * truth);
    EXPECT_EQ(entries[1], entries[2]);
  }
}

TEST(GalerkinLayer, IsSymmetricAndIndependentOfTheRequest) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  const Mesh mesh = joined(geodesic_sphere(4), moved(ellipsoid(2, {0.3, 0.5, 0.2}), {1.5, 0.2, 0.1}));
  for (const bool with_plane : {false, true}) {
    std::optional<GroundedPlane> plane;
    if (with_plane) plane = GroundedPlane{2, -1.2};
    const GalerkinLayer layer(mesh, 1e-5, 2.0, plane);
    const auto a = dense(layer);
    const std::size_t n = std::size_t(layer.size());
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < i; ++j) ASSERT_NEAR(a[i + j * n], a[j + i * n], 1e-14 * a[i + i * n]);
    const auto all = numbers(layer.size());
    std::vector<double> row(n);
    const Global i = 77;
    layer({&i, 1}, all, row.data());
    for (std::size_t j = 0; j < n; ++j) ASSERT_NEAR(row[j], a[77 + j * n], 1e-14 * a[77 + 77 * n]);
    const auto truth = dense(GalerkinLayer(mesh, 1e-9, 2.0, plane)), free = dense(GalerkinLayer(mesh, 1e-9, 2.0));
    double worst = 0;  // relative to the entry without its image, which cancels most of it close to the plane
    for (std::size_t k = 0; k < truth.size(); ++k) worst = std::max(worst, std::abs(a[k] - truth[k]) / free[k]);
    EXPECT_LT(worst, 2e-5);
  }
}

// In the plane of a triangle an edge contributes t (asinh(s / t) + asinh((L - s) / t)) with t the distance from its
// line, s the position of the perpendicular's foot along the edge and L the edge's length.
TEST(SingleLayer, TakesSlimTriangles) {
  for (const double height : {1e-3, 1e-6, 1e-9, 1e-12}) {
    Mesh mesh;
    mesh.vertices = {{0, 0, 0}, {1, 0, 0}, {0.375, height, 0}};
    mesh.triangles = {{0, 1, 2}};
    const Point c = mesh.centroid(0);
    double expected = 0;
    for (int k = 0; k < 3; ++k) {
      const Point &a = mesh.vertices[std::size_t(k)], &b = mesh.vertices[std::size_t((k + 1) % 3)];
      const double ex = b[0] - a[0], ey = b[1] - a[1], edge = std::hypot(ex, ey);
      const double t = 2 * mesh.area(0) / 3 / edge, s = ((c[0] - a[0]) * ex + (c[1] - a[1]) * ey) / edge;
      expected += t * (std::asinh(s / t) + std::asinh((edge - s) / t));
    }
    const SingleLayer layer(mesh, 1e-6);
    const Global zero = 0;
    double value = 0;
    layer({&zero, 1}, {&zero, 1}, &value);
    EXPECT_NEAR(value / expected, 1, 1e-3 * 1e-9 / height + 1e-10) << height;
    const GalerkinLayer both(mesh, 1e-6);
    both({&zero, 1}, {&zero, 1}, &value);  // divided by sqrt(area_i area_j): close to the collocated entry
    EXPECT_GT(value, 0.5 * expected) << height;
    EXPECT_LT(value, 1.5 * expected) << height;
    Point field;
    const double density = 1;
    layer.field({&density, 1}, {&c, 1}, &field);
    EXPECT_TRUE(std::isfinite(field[0]) && std::isfinite(field[1]) && std::isfinite(field[2])) << height;
  }
}

TEST(SingleLayer, PotentialAndFieldBelongTogether) {
  const Mesh mesh = geodesic_sphere(6);
  const SingleLayer layer(mesh, 1e-9, 1 / (4 * pi), GroundedPlane{1, -1.1});
  std::vector<double> sigma;
  for (Local t = 0; t < mesh.size(); ++t) sigma.push_back(1 + mesh.centroid(t)[0]);
  // Points close to the surface, at several distances, and inside.
  const std::vector<Point> points{{0.3, 0.2, 1.0}, {1.2, 0.1, -0.4}, {0.1, -0.2, 0.3},
                                  {3, 4, -2},      {30, 1, 5},       {0, -1.1, 0}};
  std::vector<Point> field(points.size());
  layer.field(sigma, points, field.data());
  const double h = 1e-4;
  for (std::size_t k = 0; k < points.size(); ++k)
    for (std::size_t d = 0; d < 3; ++d) {
      std::vector<Point> two(2, points[k]);
      two[0][d] -= h, two[1][d] += h;
      double phi[2];
      layer.potential(sigma, two, phi);
      EXPECT_NEAR(field[k][d], (phi[0] - phi[1]) / (2 * h), 2e-6) << k << ' ' << d;
    }
  double phi;
  layer.potential(sigma, {&points.back(), 1}, &phi);
  EXPECT_NEAR(phi, 0, 1e-12);
  EXPECT_NEAR(field.back()[0], 0, 1e-12);

  // On a triangle the field is the mean of both sides' fields, which differ by 4 pi factor sigma along the normal.
  const Point c = mesh.centroid(17);
  Point on, near[2], beside[2];
  for (std::size_t d = 0; d < 3; ++d) beside[0][d] = c[d] * (1 + 1e-7), beside[1][d] = c[d] * (1 - 1e-7);
  layer.field(sigma, {&c, 1}, &on);
  layer.field(sigma, beside, near);
  double jump = 0;
  for (std::size_t d = 0; d < 3; ++d) {
    EXPECT_NEAR(on[d], (near[0][d] + near[1][d]) / 2, 1e-5);
    jump += (near[0][d] - near[1][d]) * (near[0][d] - near[1][d]);
  }
  EXPECT_NEAR(std::sqrt(jump), sigma[17], 1e-5);
}

TEST(SingleLayer, RequiresOneSideOfThePlane) {
  const Mesh mesh = geodesic_sphere(2);
  EXPECT_THROW((SingleLayer{mesh, 1e-6, 1, GroundedPlane{0, 0.5}}), Error);
  EXPECT_THROW((SingleLayer{mesh, 1e-6, 1, GroundedPlane{3, -2}}), Error);
  const Mesh flat{{{0, 0, 0}, {1, 0, 0}, {0, 1, 0}}, {{0, 1, 2}}};
  EXPECT_THROW((SingleLayer{flat, 1e-6, 1, GroundedPlane{2, 0}}), Error);
  EXPECT_NO_THROW((SingleLayer{mesh, 1e-6, 1, GroundedPlane{2, 5}}));
}

// The total charge of a body at this potential, divided by 4 pi.
template <Scalar T>
double charge(const comm::Communicator& comm, const Mesh& mesh, const SystemOptions& options, double tolerance) {
  const System<T> system(comm, mesh, options);
  const auto& A = *system.matrix();
  Vector<T> b(A.range()), x(A.domain());
  const Global first = A.range().partition().begin(comm.rank());
  const auto triangle = [&](Local i) { return std::size_t(system.order()[std::size_t(first + i)]); };
  for (Local i = 0; i < A.range().local_size(); ++i) b.data()[i] = T(system.weight()[triangle(i)]);
  krylov::Options solver;
  solver.method = krylov::Method::bicgstab;
  solver.rtol = tolerance;
  EXPECT_TRUE((krylov::solve<T, Host>(A, nullptr, b, x, solver).converged()));
  double sum = 0;
  for (Local i = 0; i < A.range().local_size(); ++i)
    sum += double(x.data()[i]) / system.weight()[triangle(i)] * mesh.area(Local(triangle(i))) / (4 * pi);
  return comm.all_sum(sum);
}

// The capacitance of a sphere of radius 2 is 2; the error is of second order.
TEST(System, SphereHasItsCapacitanceOnAnyRanksAndScalars) {
  test::on_ranks(
      [](const comm::Communicator& comm) {
        for (const auto kind : {Discretisation::collocation, Discretisation::galerkin}) {
          SystemOptions options;
          options.discretisation = kind;
          options.matrix.tolerance = 1e-6;
          options.tree.leaf_size = 32;
          const double coarse = 2 - charge<double>(comm, geodesic_sphere(4, 2), options, 1e-8),
                       fine = 2 - charge<double>(comm, geodesic_sphere(8, 2), options, 1e-8);
          EXPECT_NEAR(coarse / fine, 4, 0.2);
          EXPECT_LT(fine, 0.007);
          options.matrix.tolerance = 1e-4;
          EXPECT_NEAR((charge<float>(comm, geodesic_sphere(4, 2), options, 1e-4)), 2 - coarse, 1e-3);
        }
      },
      {2, 3});
}

// A sphere over a grounded plane corresponds to two spheres at opposite potentials: its capacitance is c11 - c12 of two
// spheres of radius 1 with centres 3 apart.
TEST(System, PlaneIsAPairOfBodies) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  const comm::Communicator self = comm::Communicator::self();
  SystemOptions options;
  options.matrix.tolerance = 1e-6;
  options.plane = GroundedPlane{2, -1.5};
  const double exact = 1.146287441941131 + 0.389083066895123;
  for (const auto kind : {Discretisation::collocation, Discretisation::galerkin}) {
    options.discretisation = kind;
    const double coarse = exact - charge<double>(self, geodesic_sphere(4), options, 1e-8),
                 fine = exact - charge<double>(self, geodesic_sphere(8), options, 1e-8);
    EXPECT_NEAR(coarse / fine, 4, 0.3);
    EXPECT_LT(fine, 0.01);
  }
}

TEST(System, RefusesWhatCannotBe) {
  const comm::Communicator self = comm::Communicator::self();
  SystemOptions options;
  options.plane = GroundedPlane{2, 0};
  EXPECT_THROW(System<double>(self, geodesic_sphere(2), options), Error);
  options.plane = {};
  options.quadrature = 0;
  EXPECT_THROW(System<double>(self, geodesic_sphere(2), options), Error);
}

}  // namespace
