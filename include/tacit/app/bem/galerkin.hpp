// GalerkinLayer: the single-layer matrix with piecewise constant trial and test functions, which is symmetric.
#pragma once

#include <tacit/app/bem/single_layer.hpp>

#include <optional>
#include <span>
#include <vector>

namespace tacit::app::bem {

/// A_ij = factor / sqrt(a_i a_j) * integral over triangles i and j of G(x, y) dx dy, a the areas, G as in SingleLayer:
/// symmetric (bit for bit where triangles are near each other, to rounding elsewhere) and positive definite. It maps
/// sqrt(a_j) times the charge density to 1 / sqrt(a_i) times the integral of the potential; the roots balance the rows
/// of meshes with triangles of very different sizes.
///
/// Far entries by products of quadrature rules of 1, 3 or 7 points (1, 9 or 49 pairs), accurate to `accuracy`. For near
/// ones the exact potential of the larger triangle is integrated over the smaller: in closed form for identical
/// triangles (Eibert and Hansen 1995, doi 10.1109/8.475946), with graded points at a common edge or corner, and by
/// subdividing the smaller one where it is large relative to the distance. Near entries are accurate to a few 1e-6.
class GalerkinLayer {
 public:
  /// As for SingleLayer.
  explicit GalerkinLayer(const Mesh& mesh, double accuracy = 1e-7, double factor = 1,
                         const std::optional<GroundedPlane>& plane = {});

  Local size() const { return Local(area_.size()); }
  /// out[i + j rows.size()] = A(rows[i], columns[j]). Local, from any number of threads.
  void operator()(std::span<const Global> rows, std::span<const Global> columns, double* out) const;
  double area(Local j) const { return area_[std::size_t(j)]; }

 private:
  void line(const std::vector<double> (&x)[3][3], std::size_t fixed, std::span<const Global> others, bool image,
            double* out) const;
  double near(std::size_t i, std::size_t j, bool image) const;

  double factor_;
  double reach_[3];
  std::optional<GroundedPlane> plane_;
  std::vector<double> x_[3][3];      // centroids, and two corners less the centroid, by coordinate
  std::vector<double> image_[3][3];  // the same of the images
  std::vector<std::array<Point, 3>> corners_;
  std::vector<double> area_, root_, size2_;
};

}  // namespace tacit::app::bem
