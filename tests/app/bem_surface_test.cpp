// Meshes: standard bodies, defects of surfaces, and their repair.
#include <gtest/gtest.h>
#include <tacit/app/bem/surface.hpp>
#include <tacit/base/error.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

using namespace tacit;
using namespace tacit::app::bem;
using std::numbers::pi;

namespace {

TEST(Surface, BodiesAreClosedOutwardsAndHaveTheirVolumes) {
  struct Case {
    Mesh mesh;
    double volume, within;
  };
  for (const auto& [mesh, volume, within] :
       {Case{geodesic_sphere(12, 2), 4 * pi / 3 * 8, 0.2}, Case{ring_sphere(6, 12), 4 * pi / 3, 0.05},
        Case{ellipsoid(12, {2, 1, 0.5}), 4 * pi / 3, 0.03}, Case{cube(3, 2), 8, 1e-12},
        Case{cube(4, 1, 2.5), 1, 1e-12}}) {
    const Surface s = inspect(mesh);
    EXPECT_TRUE(s.closed());
    EXPECT_TRUE(s.oriented());
    EXPECT_EQ(s.components, 1);
    EXPECT_NEAR(s.volume, volume, within);
    EXPECT_EQ(s.flat_triangles + s.repeated_triangles + s.repeated_vertices + s.unused_vertices, 0);
  }
  EXPECT_EQ(cube(5).size(), 12 * 25);
  EXPECT_NEAR(inspect(cube(5)).area, 6, 1e-12);
  EXPECT_LT(inspect(cube(6, 1, 3)).least_area, inspect(cube(6)).least_area / 20);
  EXPECT_THROW(cube(0), Error);
  EXPECT_THROW(cube(3, 1, 0.5), Error);
  EXPECT_THROW(ellipsoid(3, {1, 0, 1}), Error);
}

TEST(Surface, CopiesAreComponentsInOrder) {
  const Mesh one = geodesic_sphere(2);
  const Mesh six = copies(one, {3, 1, 2}, {2.5, 0, 3});
  const Surface s = inspect(six);
  EXPECT_EQ(s.components, 6);
  EXPECT_EQ(s.component.front(), 0);
  EXPECT_EQ(s.component.back(), 5);
  EXPECT_NEAR(s.volume, 6 * inspect(one).volume, 1e-12);
  EXPECT_NEAR(six.centroid(one.size())[0] - one.centroid(0)[0], 2.5, 1e-14);  // copies are numbered with x fastest
  EXPECT_NEAR(six.centroid(3 * one.size())[2] - one.centroid(0)[2], 3, 1e-14);
  EXPECT_THROW(copies(one, {0, 1, 1}, {}), Error);
}

// Defects of exported meshes: separate corners for every triangle, some orientations reversed, one triangle degenerate,
// one duplicated.
TEST(Surface, MendsWhatItFinds) {
  const Mesh good = joined(geodesic_sphere(2), moved(geodesic_sphere(2), {5, 0, 0}));
  Mesh bad;
  for (Local t = 0; t < good.size(); ++t) {
    const Local at = Local(bad.vertices.size());
    for (const Local v : good.triangles[std::size_t(t)]) bad.vertices.push_back(good.vertices[std::size_t(v)]);
    bad.triangles.push_back(t % 3 == 0 ? std::array<Local, 3>{at, at + 2, at + 1}
                                       : std::array<Local, 3>{at, at + 1, at + 2});
  }
  bad.triangles.push_back({0, 1, 1});
  bad.triangles.push_back({4, 5, 3});
  bad.vertices.push_back({9, 9, 9});
  const Surface s = inspect(bad);
  EXPECT_EQ(s.components, 2);
  EXPECT_EQ(s.repeated_vertices, Global(bad.vertices.size()) - 1 - Global(good.vertices.size()));
  EXPECT_EQ(s.first_repeated_vertex, 3);
  EXPECT_EQ(s.flat_triangles, 1);
  EXPECT_EQ(s.first_flat_triangle, good.size());
  EXPECT_EQ(s.repeated_triangles, 1);
  EXPECT_EQ(s.first_repeated_triangle, good.size() + 1);
  EXPECT_EQ(s.unused_vertices, 1);
  EXPECT_GT(s.flipped_edges, 0);
  EXPECT_EQ(s.crowded_edges, 3);

  const Mended made = mend(bad);
  const Surface after = inspect(made.mesh);
  EXPECT_TRUE(after.closed() && after.oriented());
  EXPECT_NEAR(after.volume, inspect(good).volume, 1e-12);
  EXPECT_EQ(made.mesh.size(), good.size());
  EXPECT_EQ(made.mesh.vertices.size(), good.vertices.size());
  EXPECT_EQ(made.dropped_triangles, 2);
  for (Local t = 0; t < good.size(); ++t) {
    ASSERT_EQ(made.kept[std::size_t(t)], t);
    ASSERT_NEAR(made.mesh.area(t), good.area(t), 1e-15);
  }

  // Corners within the given distance are merged.
  Mesh loose = bad;
  loose.triangles.resize(std::size_t(good.size()));
  for (std::size_t v = 0; v < loose.vertices.size(); ++v) loose.vertices[v][v % 3] += 1e-7 * double(v % 5);
  EXPECT_FALSE(inspect(mend(loose).mesh).closed());
  EXPECT_TRUE(inspect(mend(loose, 1e-6).mesh).closed());

  // An open surface is oriented like its first triangle.
  Mesh open = geodesic_sphere(2);
  open.triangles.pop_back();
  std::swap(open.triangles[5][0], open.triangles[5][1]);
  const Mended half = mend(open);
  EXPECT_EQ(half.turned_triangles, 1);
  EXPECT_EQ(inspect(half.mesh).border_edges, 3);
  EXPECT_TRUE(inspect(half.mesh).oriented());
}

TEST(Surface, RefusesWhatIsNoMesh) {
  Mesh mesh = geodesic_sphere(1);
  EXPECT_THROW(inspect(Mesh{}), Error);
  mesh.triangles[2][1] = 99;
  EXPECT_THROW(inspect(mesh), Error);
  mesh = geodesic_sphere(1);
  mesh.vertices[3][1] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(mend(mesh), Error);
  EXPECT_THROW(mend(geodesic_sphere(1), -1), Error);
  EXPECT_THROW(mend(Mesh{{{0, 0, 0}, {1, 0, 0}, {2, 0, 0}}, {{0, 1, 2}}}), Error);
}

}  // namespace
