// Surface: finds defects of a mesh as a surface; mend() repairs them.
#pragma once

#include <tacit/app/bem/mesh.hpp>

#include <vector>

namespace tacit::app::bem {

/// Counts of defects and, for some, the first triangle (or vertex) that has the defect; -1 for none.
struct Surface {
  Global unused_vertices = 0;
  Global repeated_vertices = 0, first_repeated_vertex = -1;  ///< with the coordinates of an earlier one
  Global flat_triangles = 0, first_flat_triangle = -1;       ///< without area: a corner twice, or all three on a line
  Global repeated_triangles = 0, first_repeated_triangle = -1;  ///< with the corners of an earlier one
  Global border_edges = 0;                                      ///< of one triangle
  Global crowded_edges = 0;                                     ///< of more than two
  Global flipped_edges = 0;                                     ///< of two triangles with opposite orientations
  int components = 0;                                           ///< of triangles with vertices in common
  std::vector<Local> component;  ///< of each triangle, numbered in the order of their first triangles
  double area = 0;
  double volume = 0;  ///< enclosed, if closed and oriented; negative where normals point inwards
  double least_area = 0, most_area = 0, longest_edge = 0;
  op::Box box;

  bool closed() const { return border_edges == 0 && crowded_edges == 0; }
  bool oriented() const { return flipped_edges == 0 && crowded_edges == 0; }
};

/// Vertices with equal coordinates count as one. Local; O(n log n). Error(input) for a coordinate that is not finite
/// and for a triangle with a vertex that does not exist, Error(usage) without triangles.
Surface inspect(const Mesh& mesh);

struct Mended {
  Mesh mesh;
  std::vector<Global>
      kept;  ///< triangle k of the new mesh is triangle kept[k] of the old one, perhaps with reversed orientation
  Global merged_vertices = 0, dropped_triangles = 0, turned_triangles = 0;
};

/// Merges vertices within `distance` of each other (0: with equal coordinates), drops unused vertices and flat or
/// repeated triangles, and reverses triangles so that neighbours have one orientation and, where a component is closed,
/// normals point outwards. Local; O(n log n) where few vertices are within `distance`.
Mended mend(const Mesh& mesh, double distance = 0);

}  // namespace tacit::app::bem
