// Faces of mesh files: polygons of any number of corners, divided into triangles.
#pragma once

#include <tacit/app/bem/mesh.hpp>

#include <span>
#include <string>
#include <vector>

namespace tacit::app::bem {

/// Face f has the corners corners[starts[f]] .. corners[starts[f + 1] - 1], numbers of vertices in the order of its
/// edge; the last corner is followed by the first.
struct Polygons {
  std::vector<Global> starts{0};
  std::vector<Local> corners;

  Local size() const { return Local(starts.size()) - 1; }
};

struct Triangulation {
  std::vector<std::array<Local, 3>> triangles;  ///< in the order of the faces
  std::vector<Local> face;                      ///< of each triangle
  /// Faces whose edge crosses itself, which have no triangles; the first of them, -1 if there is none.
  Global crossing = 0, first_crossing = -1;
  /// Faces whose corners are up to more than a tenth of their size away from a common plane; the first, or -1. Another
  /// division of such a face is another surface.
  Global bent = 0, first_bent = -1;
};

/// Divides faces into triangles with the corners of the faces. Where the triangles between the first corner and each
/// edge divide the face, these are taken (always for triangles and convex polygons); otherwise ears are cut off, the
/// best shaped first (G. H. Meisters, Polygons have ears, 1975), in the plane of Newell's normal. The areas of the
/// triangles add up to that of the face in this plane. Repeated neighbouring corners count once; a face whose corners
/// are on a line gives triangles without area, which inspect() counts. Cost: O(k) for convex polygons of k corners,
/// O(k^2) for others. Error(input) naming the face if it has fewer than three corners, or one that is not among the
/// vertices.
Triangulation triangulate(std::span<const Point> vertices, const Polygons& faces);

/// Sentences on the faces of Triangulation::crossing and ::bent; `first` names the first of them.
std::string crossing_faces(const Triangulation& made, const std::string& first);
std::string bent_faces(const Triangulation& made, const std::string& first);

}  // namespace tacit::app::bem
