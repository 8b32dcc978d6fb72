// SingleLayer: the potential of charges on triangles, at the triangles' centroids or at any points.
#pragma once

#include <tacit/app/bem/mesh.hpp>
#include <tacit/op/hmatrix/compress.hpp>

#include <optional>
#include <span>
#include <vector>

namespace tacit::app::bem {

/// The plane where coordinate `axis` has this value, at potential 0: every charge has an image of opposite sign on the
/// other side.
struct GroundedPlane {
  int axis = 2;
  double value = 0;

  Point mirrored(Point p) const {
    p[std::size_t(axis)] = 2 * value - p[std::size_t(axis)];
    return p;
  }
};

/// Error(input) naming the first triangle that lies in the plane, or extends to its other side. Local.
void check(const Mesh& mesh, const GroundedPlane& plane);

/// The data of the entries of a SingleLayer, by triangle and coordinate, for evaluation on a device.
struct LayerNumbers {
  const double* x[3];          ///< centroids
  const double* corner[2][3];  ///< relative to the centroid; the third is minus the sum of the two
  const double* moment[3];     ///< Shape::second and third, from the squared lengths of the three corners
  const double *area, *size2;  ///< size2: the squared length of the longest edge
  const double* image[3];      ///< the mirror images of centroids, with a plane; else null
  double reach[3];  ///< squared distances, in size2, from which 7 points, moments and 1 point are accurate enough
  double factor;
};

/// A_ij = factor * integral over triangle j of G(c_i, y) dy, c_i the centroid of triangle i, G = 1 / |c_i - y|:
/// collocation with piecewise constant charge. With factor = 1 / (4 pi eps0) it is the potential in volts of charges in
/// coulombs per square unit. With a grounded plane G includes the image.
///
/// Near a triangle the integral is exact, by edges (Wilton et al. 1984, doi 10.1109/TAP.1984.1143304) and the solid
/// angle (Van Oosterom and Strackee 1983, doi 10.1109/TBME.1983.325207). Farther away, where the exact form loses
/// digits, the cheapest rule that is accurate to `accuracy`: quadrature of degree 5 (7 points), then the triangle's
/// moments up to the third, then the centroid only. Several entries are computed at once; the value of an entry does
/// not depend on which.
class SingleLayer {
 public:
  /// Error(input) for a triangle without area, with its number, and as check() for the plane.
  explicit SingleLayer(const Mesh& mesh, double accuracy = 1e-7, double factor = 1,
                       const std::optional<GroundedPlane>& plane = {});

  Local size() const { return Local(area_.size()); }
  /// out[i + j rows.size()] = A(rows[i], columns[j]). Local, from any number of threads. Fastest where the columns of a
  /// row, or the rows of a column, are contiguous: use a mesh in the order of the cluster tree.
  void operator()(std::span<const Global> rows, std::span<const Global> columns, double* out) const;
  /// Pointers to this object's data.
  LayerNumbers numbers() const;
  double area(Local j) const { return area_[std::size_t(j)]; }
  const std::optional<GroundedPlane>& plane() const { return plane_; }

  /// out[k] = factor * sum over j of density[j] times the integral of G(points[k], y) over triangle j. Local; all
  /// threads share the points; points times triangles operations. Same bits for any number of threads.
  void potential(std::span<const double> density, std::span<const Point> points, double* out) const;
  /// The field: minus the gradient of the potential at the points. On a triangle, where the normal component jumps by 4
  /// pi factor density, the mean of both sides. Local; cost as for potential().
  void field(std::span<const double> density, std::span<const Point> points, Point* out) const;

 private:
  std::array<Point, 3> seen_from(const Point& p, std::size_t triangle) const;
  void row(const Point& p, std::span<const Global> columns, double* out) const;
  void column(const std::vector<double>* x, std::span<const Global> rows, std::size_t j, double* out) const;
  Point field_of(std::span<const double> density, const Point& p) const;

  double factor_;
  // Squared distances, relative to the squared longest edge, from which 7 points, moments and 1 point are accurate
  // enough.
  double reach_[3];
  std::optional<GroundedPlane> plane_;
  // By coordinate: centroids, and corners less the centroid (the third is minus the sum of the two).
  std::vector<double> x_[3], corner_[2][3], area_, size2_;
  std::vector<double> moment_[3];  // Shape::second and third, for the moment expansion
  std::vector<double> image_[3];   // of the centroids, where there is a plane
};

/// The entry function of a layer for an HMatrix; the layer must outlive its assembly.
inline op::EntryFunction<double> entries(const SingleLayer& layer) {
  return [&layer](std::span<const Global> rows, std::span<const Global> columns, double* out) {
    layer(rows, columns, out);
  };
}

}  // namespace tacit::app::bem
