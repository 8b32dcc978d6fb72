// Mesh: flat triangles in space, for boundary elements; standard bodies, and mesh files.
#pragma once

#include <tacit/op/hmatrix/cluster_tree.hpp>

#include <array>
#include <span>
#include <string>
#include <vector>

namespace tacit::app::bem {

using op::Point;

struct Mesh {
  std::vector<Point> vertices;
  std::vector<std::array<Local, 3>> triangles;

  Local size() const { return Local(triangles.size()); }
  Point centroid(Local t) const;
  double area(Local t) const;
  /// The centroid and the bounding box of each triangle.
  op::Geometry geometry() const;
  /// Triangle k of the new mesh is triangle order[k] of this one.
  Mesh reordered(std::span<const Global> order) const;
};

/// The icosahedron with every edge divided into `cuts`, projected to the sphere around 0: 20 cuts^2 triangles of nearly
/// equal size.
Mesh geodesic_sphere(int cuts, double radius = 1);

/// 2 rings - 1 circles of latitude, the i-th of `wedges` min(i, 2 rings - i) points: 2 wedges rings^2 triangles. The
/// family of HACApK's inputs.
Mesh ring_sphere(int wedges, int rings, double radius = 1);

/// The geodesic sphere stretched along x, y and z.
Mesh ellipsoid(int cuts, const Point& half_axes);

/// The cube around 0, each face of cuts x cuts rectangles that are divided into two triangles: 12 cuts^2 triangles. The
/// relative distance from an edge, s = 1 - |x| / (side / 2), becomes s^grading, so that triangles are small near edges,
/// where the charge density is large.
Mesh cube(int cuts, double side = 1, double grading = 1);

/// The triangles of one mesh followed by those of the other.
Mesh joined(const Mesh& first, const Mesh& second);
Mesh moved(Mesh mesh, const Point& by);
/// counts[d] copies along axis d at distances of pitch[d]; the first copy is not moved, and x runs fastest.
Mesh copies(const Mesh& mesh, const std::array<int, 3>& counts, const Point& pitch);

/// Triangles of a .pbf or .pbs file (bem-bb) or a Wavefront .obj (v and f; faces of more than three corners are divided
/// by triangulate(), see polygons.hpp; other lines are ignored); the suffix in small or in capital letters.
/// `potential`, where given, receives the first real parameter of each triangle of a .pbf, and stays empty where the
/// file has none; `notes` receives sentences on what was read otherwise than one may expect. Error(input) naming the
/// file, and the line where there is one, when it is in none of these formats or a face crosses itself,
/// Error(environment) when it cannot be read.
Mesh read_mesh(const std::string& path, std::vector<double>* potential = nullptr,
               std::vector<std::string>* notes = nullptr);

}  // namespace tacit::app::bem
