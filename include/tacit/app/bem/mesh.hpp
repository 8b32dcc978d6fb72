// Mesh: flat triangles in space, for boundary elements; spheres whose triangles are known, and files of them.
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
  /// The centroid of each triangle, in the box around it.
  op::Geometry geometry() const;
  /// Triangle k of the new mesh is triangle order[k] of this one.
  Mesh reordered(std::span<const Global> order) const;
};

/// The icosahedron with every edge cut in `cuts`, on the sphere around 0: 20 cuts^2 triangles of nearly equal size.
Mesh geodesic_sphere(int cuts, double radius = 1);

/// 2 rings - 1 circles of latitude, the i-th of `wedges` min(i, 2 rings - i) points: 2 wedges rings^2 triangles. The
/// family of HACApK's inputs.
Mesh ring_sphere(int wedges, int rings, double radius = 1);

/// Triangles of a .pbf or .pbs file (bem-bb) or a Wavefront .obj (v and f with three vertices; all else is passed
/// over). `potential`, where given: the first real parameter of each triangle, 1 where the file has none. Error(input)
/// naming the file for what is no such file, Error(environment) when it cannot be read.
Mesh read_mesh(const std::string& path, std::vector<double>* potential = nullptr);

}  // namespace tacit::app::bem
