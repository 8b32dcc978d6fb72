// Boundary elements: meshes, entries of the single layer, and bodies of known capacitance.
#include <gtest/gtest.h>
#include <tacit/app/bem/polygons.hpp>
#include <tacit/app/bem/single_layer.hpp>
#include <tacit/krylov/solve.hpp>
#include <tacit/op/hmatrix/hmatrix.hpp>

#include "support/communicators.hpp"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <numbers>
#include <numeric>

#include <unistd.h>

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

// Closed and consistently oriented: every directed edge occurs once, and so does its opposite.
void expect_closed(const Mesh& mesh) {
  std::map<std::pair<Local, Local>, int> edges;
  for (const auto& t : mesh.triangles)
    for (std::size_t k = 0; k < 3; ++k) ++edges[{t[k], t[(k + 1) % 3]}];
  for (const auto& [e, count] : edges) {
    ASSERT_EQ(count, 1);
    ASSERT_TRUE(edges.count({e.second, e.first}));
  }
}

TEST(Mesh, SpheresAreClosedAndHaveTheirCounts) {
  for (const int cuts : {1, 2, 5}) {
    const Mesh mesh = geodesic_sphere(cuts, 2);
    EXPECT_EQ(mesh.size(), 20 * cuts * cuts);
    EXPECT_EQ(mesh.vertices.size(), std::size_t(10 * cuts * cuts + 2));
    expect_closed(mesh);
    for (const Point& p : mesh.vertices) EXPECT_NEAR(std::hypot(p[0], p[1], p[2]), 2, 1e-14);
  }
  const Mesh rings = ring_sphere(5, 10);
  EXPECT_EQ(rings.size(), 1000);
  EXPECT_EQ(rings.vertices.size(), 502u);
  expect_closed(rings);
  const Mesh fine = geodesic_sphere(20);
  double area = 0;
  for (Local t = 0; t < fine.size(); ++t) area += fine.area(t);
  EXPECT_NEAR(area, 4 * pi, 4 * pi * 5e-3);
  EXPECT_LT(area, 4 * pi);
  EXPECT_THROW(geodesic_sphere(0), Error);
  EXPECT_THROW(ring_sphere(2, 1), Error);
}

TEST(Mesh, ReadsFiles) {
  const auto folder = std::filesystem::temp_directory_path() / ("tacit_bem_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const auto write = [&](const char* name, const std::string& text) {
    std::ofstream(folder / name) << text;
    return (folder / name).string();
  };
  std::vector<double> potential;
  const Mesh pbf = read_mesh(
      write("a.pbf", "4\r\n0 0 0 1.0e+000 0 0\t0 1 0 0 0 1\r\n2 3 1 1\n0 1 2 0 1 3\n7 7\n2.5 -1\n"), &potential);
  EXPECT_EQ(pbf.size(), 2);
  EXPECT_EQ(pbf.triangles[1], (std::array<Local, 3>{0, 1, 3}));
  EXPECT_EQ(potential, (std::vector<double>{2.5, -1}));
  const Mesh obj = read_mesh(
      write("a.obj", "# a tetrahedron's corner\nv 0 0 0\nv 1 0 0\nv 0 1 0\ng body\nf 1/1 2/2 -1\n"), &potential);
  EXPECT_EQ(obj.size(), 1);
  EXPECT_NEAR(obj.area(0), 0.5, 1e-15);
  EXPECT_TRUE(potential.empty());
  const Mesh quad = read_mesh(write("q.obj", "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nf 1 2 3 4\n"));
  EXPECT_EQ(quad.triangles, (std::vector<std::array<Local, 3>>{{0, 1, 2}, {0, 2, 3}}));
  EXPECT_THROW(read_mesh(write("b.pbf", "4 0 0 0")), Error);
  EXPECT_THROW(read_mesh(write("c.pbf", "3 0 0 0 1 0 0 0 1 0 1 4 0 0 0 1 2 2")), Error);
  EXPECT_THROW(read_mesh(write("d.pbf", "3 0 0 0 1 0 0 0 1 0 1 3 0 0 0 1 3")), Error);
  EXPECT_THROW(read_mesh(write("b.obj", "v 0 0\n")), Error);
  EXPECT_THROW(read_mesh(write("c.obj", "v 0 0 0\nf 1 2 3\n")), Error);
  EXPECT_THROW(read_mesh((folder / "none.pbf").string()), Error);
  std::vector<std::string> notes;
  const Mesh bent = read_mesh(write("B.OBJ", "v 0 0 0\nv 1 0 1\nv 1 1 0\nv 0 1 1\nf 1 2 \\\n3 4\n"), nullptr, &notes);
  EXPECT_EQ(bent.size(), 2);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("line 5"), std::string::npos);
  std::filesystem::remove_all(folder);
}

TEST(Polygons, KeepTheirArea) {
  // A square with a notch, from each of its corners; the notch is not seen from most of them.
  const std::vector<Point> at{{0, 0, 0}, {4, 0, 0}, {4, 4, 0}, {2, 1, 0}, {0, 4, 0}};
  for (Local first = 0; first < 5; ++first) {
    Polygons face;
    for (Local k = 0; k < 5; ++k) face.corners.push_back((first + k) % 5);
    face.starts.push_back(5);
    const auto made = triangulate(at, face);
    ASSERT_EQ(made.triangles.size(), 3u);
    const Mesh mesh{at, made.triangles};
    EXPECT_NEAR(mesh.area(0) + mesh.area(1) + mesh.area(2), 10, 1e-14);
    EXPECT_EQ(made.crossing + made.bent, 0);
  }
  const auto crossed = triangulate(at, {{0, 3, 7}, {0, 1, 2, 0, 2, 1, 4}});
  EXPECT_EQ(crossed.triangles.size(), 1u);
  EXPECT_EQ(crossed.first_crossing, 1);
  EXPECT_THROW(triangulate(at, {{0, 2}, {0, 1}}), Error);
  EXPECT_THROW(triangulate(at, {{0, 3}, {0, 1, 5}}), Error);
}

TEST(SingleLayer, KnowsTheEquilateralTriangle) {
  // Side 2: the potential at the centroid is side sqrt(3) ln(2 + sqrt 3).
  Mesh mesh{{{0, 0, 0}, {2, 0, 0}, {1, std::sqrt(3.0), 0}}, {{0, 1, 2}}};
  const SingleLayer layer(mesh);
  const auto one = numbers(1);
  double a;
  layer(one, one, &a);
  EXPECT_NEAR(a, 2 * std::sqrt(3.0) * std::log(2 + std::sqrt(3.0)), 1e-13);
  mesh.vertices[2] = mesh.vertices[1];
  EXPECT_THROW(SingleLayer{mesh}, Error);
}

TEST(SingleLayer, EntriesDoNotDependOnTheRequestAndAreAccurate) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  const Mesh mesh = geodesic_sphere(9);
  const Global n = mesh.size();
  const SingleLayer exact(mesh, 1e-13);  // nearly all entries of this mesh by edge formulas
  std::vector<double> truth(std::size_t(n * n)), a(truth.size()), row(static_cast<std::size_t>(n)), column(row.size());
  const auto all = numbers(n);
  exact(all, all, truth.data());
  for (const double accuracy : {1e-3, 1e-5, 1e-8}) {
    const SingleLayer layer(mesh, accuracy, 3.0);
    layer(all, all, a.data());
    double worst = 0;
    for (std::size_t k = 0; k < a.size(); ++k) worst = std::max(worst, std::abs(a[k] / 3 / truth[k] - 1));
    EXPECT_LE(worst, 1.5 * accuracy);
    std::vector<Global> mixed(all.rbegin(), all.rend());
    for (const Global i : {Global(0), n / 3, n - 1}) {
      layer({&i, 1}, all, row.data());
      layer(all, {&i, 1}, column.data());
      for (Global j = 0; j < n; ++j) {
        ASSERT_EQ(row[std::size_t(j)], a[std::size_t(i + j * n)]);
        ASSERT_EQ(column[std::size_t(j)], a[std::size_t(j + i * n)]);
      }
      layer({&i, 1}, mixed, row.data());
      layer(mixed, {&i, 1}, column.data());
      for (Global j = 0; j < n; ++j) {
        ASSERT_EQ(row[std::size_t(n - 1 - j)], a[std::size_t(i + j * n)]);
        ASSERT_EQ(column[std::size_t(n - 1 - j)], a[std::size_t(j + i * n)]);
      }
    }
  }
}

op::HMatrix<double> matrix_of(const Mesh& mesh, const SingleLayer& layer, double tolerance) {
  op::HMatrixOptions options;
  options.tolerance = tolerance;
  const auto space = layout::Space::distributed(comm::Communicator::self(), mesh.size());
  const auto tree =
      std::make_shared<const op::ClusterTree>(mesh.geometry(), op::TreeOptions{op::Bisection::median, 32, 0});
  return {space, tree, entries(layer), options};
}

// Spherical harmonics are eigenfunctions on the unit sphere, with eigenvalues 4 pi / (2 l + 1).
TEST(SingleLayer, HasTheEigenvaluesOfTheSphere) {
  const Mesh mesh = geodesic_sphere(12);
  const SingleLayer layer(mesh);
  const auto A = matrix_of(mesh, layer, 1e-6);
  for (int l = 0; l < 4; ++l) {
    Vector<double> x(A.domain()), y(A.range());
    for (Local t = 0; t < mesh.size(); ++t) {
      const double z = mesh.centroid(t)[2] / std::hypot(mesh.centroid(t)[0], mesh.centroid(t)[1], mesh.centroid(t)[2]);
      x.data()[t] = std::legendre(unsigned(l), z);
    }
    A.apply(x, y);
    const double value = layout::dot(x, y) / layout::dot(x, x);
    EXPECT_NEAR(value, 4 * pi / (2 * l + 1), 0.02 * 4 * pi / (2 * l + 1)) << "l = " << l;
  }
}

std::vector<double> charges(const Mesh& mesh, const std::vector<double>& potential) {
  const SingleLayer layer(mesh);
  const auto A = matrix_of(mesh, layer, 1e-7);
  Vector<double> b(A.range()), x(A.domain());
  b.assign(potential);
  krylov::Options options;
  options.method = krylov::Method::gmres;
  options.rtol = 1e-7;
  const auto report = krylov::solve<double, Host>(A, nullptr, b, x, options);
  EXPECT_TRUE(report.converged());
  std::vector<double> charge;
  for (Local t = 0; t < mesh.size(); ++t) charge.push_back(x.data()[t] * mesh.area(t));
  return charge;
}

// The capacitance of the unit sphere is 1; the error is of second order.
TEST(Bem, SphereHasItsCapacitance) {
  double before = 0;
  for (const int cuts : {4, 8}) {
    const Mesh mesh = geodesic_sphere(cuts);
    const auto charge = charges(mesh, std::vector<double>(std::size_t(mesh.size()), 1.0));
    const double error = 1 - std::accumulate(charge.begin(), charge.end(), 0.0);
    EXPECT_NEAR(error * cuts * cuts, 0.215, 0.02);
    if (before > 0) {
      EXPECT_NEAR(before / error, 4, 0.4);
    }
    before = error;
  }
}

// HACApK's example: two spheres at 1 and -1 volt; the charge is known for this mesh.
TEST(Bem, TwoSpheresOfAFile) {
  const char* shared = std::getenv("TACIT_TEST_SHARED");
  const std::string path = std::string(shared ? shared : "") + "/data/bem/input_sample.pbf";
  if (!shared || !std::filesystem::exists(path)) GTEST_SKIP() << "no " << path;
  std::vector<double> potential;
  const Mesh mesh = read_mesh(path, &potential);
  const auto charge = charges(mesh, potential);
  double positive = 0, total = 0;
  for (std::size_t t = 0; t < charge.size(); ++t) {
    total += charge[t];
    if (potential[t] > 0) positive += charge[t];
  }
  EXPECT_NEAR(positive, 0.32841118, 2e-7);
  EXPECT_NEAR(total, 0, 2e-7);
}

}  // namespace
