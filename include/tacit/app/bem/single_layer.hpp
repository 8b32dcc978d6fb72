// SingleLayer: the potential of charges on triangles, at the triangles' centroids and anywhere else.
#pragma once

#include <tacit/app/bem/mesh.hpp>
#include <tacit/op/hmatrix/compress.hpp>

#include <optional>
#include <span>
#include <vector>

namespace tacit::app::bem {

/// The plane where coordinate `axis` has this value, at potential 0: every charge has its image, with the opposite
/// sign, on the other side.
struct GroundedPlane {
  int axis = 2;
  double value = 0;

  Point mirrored(Point p) const {
    p[std::size_t(axis)] = 2 * value - p[std::size_t(axis)];
    return p;
  }
};

/// Error(input) naming the first triangle that lies in the plane, or reaches to the other side of it. Local.
void check(const Mesh& mesh, const GroundedPlane& plane);

/// What entries of a SingleLayer are made of, by triangle and coordinate: for who makes them elsewhere.
struct LayerNumbers {
  const double* x[3];          ///< centroids
  const double* corner[2][3];  ///< less the centroid; the third is minus the sum of the two
  const double* moment[3];     ///< of the squared lengths of the three
  const double *area, *size2;  ///< size2: of the longest edge
  const double* image[3];      ///< of centroids, behind a plane; else null
  double reach[3];             ///< squared distances, in size2, where 7 points, moments and 1 point are good enough
  double factor;
};

/// A_ij = factor * integral over triangle j of G(c_i, y) dy, c_i the centroid of triangle i, G = 1 / |c_i - y|:
/// collocation with piecewise constant charge. With factor = 1 / (4 pi eps0) the potential in volts of charges in
/// coulombs per square unit. Over a grounded plane G has the image's part too.
///
/// Near a triangle exactly, by edges (Wilton et al. 1984, doi 10.1109/TAP.1984.1143304) and the solid angle (Van
/// Oosterom and Strackee 1983, doi 10.1109/TBME.1983.325207); from where they are good to `accuracy` on by quadrature
/// of degree 5 (7 points), then by the triangle's moments up to the third, then by the centroid alone, several entries
/// at once: exact forms lose digits far away. An entry is the same however it is asked for.
class SingleLayer {
 public:
  /// Error(input) for a triangle without area, with its number, and what check() says of the plane.
  explicit SingleLayer(const Mesh& mesh, double accuracy = 1e-7, double factor = 1,
                       const std::optional<GroundedPlane>& plane = {});

  Local size() const { return Local(area_.size()); }
  /// out[i + j rows.size()] = A(rows[i], columns[j]). Local, from any number of threads. Fastest where the columns of a
  /// single row, or the rows, are neighbours: give it a mesh in the order of the cluster tree.
  void operator()(std::span<const Global> rows, std::span<const Global> columns, double* out) const;
  /// Of this object's memory.
  LayerNumbers numbers() const;
  double area(Local j) const { return area_[std::size_t(j)]; }
  const std::optional<GroundedPlane>& plane() const { return plane_; }

  /// out[k] = factor * sum over j of density[j] times the integral of G(points[k], y) over triangle j. Local; all
  /// threads share the points; points times triangles operations. Same bits for any number of threads.
  void potential(std::span<const double> density, std::span<const Point> points, double* out) const;
  /// Minus the gradient of that. On a triangle, where the normal part jumps by 4 pi factor density, the mean of both
  /// sides.
  void field(std::span<const double> density, std::span<const Point> points, Point* out) const;

 private:
  std::array<Point, 3> seen_from(const Point& p, std::size_t triangle) const;
  void row(const Point& p, std::span<const Global> columns, double* out) const;
  void column(const std::vector<double>* x, std::span<const Global> rows, std::size_t j, double* out) const;
  Point field_of(std::span<const double> density, const Point& p) const;

  double factor_;
  // Squared distances, in squares of the longest edge, where 7 points, moments and 1 point are good enough.
  double reach_[3];
  std::optional<GroundedPlane> plane_;
  // By coordinate: centroids, and corners less the centroid (the third is minus the sum of the two).
  std::vector<double> x_[3], corner_[2][3], area_, size2_;
  std::vector<double> moment_[3];  // squared lengths of the three, as their expansion takes them
  std::vector<double> image_[3];   // of the centroids, where there is a plane
};

/// This mesh's entries for an hmatrix; the object must outlive its assembly.
inline op::EntryFunction<double> entries(const SingleLayer& layer) {
  return [&layer](std::span<const Global> rows, std::span<const Global> columns, double* out) {
    layer(rows, columns, out);
  };
}

}  // namespace tacit::app::bem
