// GalerkinLayer: the single layer tested with the same piecewise constants that carry the charge: a symmetric matrix.
#pragma once

#include <tacit/app/bem/single_layer.hpp>

#include <optional>
#include <span>
#include <vector>

namespace tacit::app::bem {

/// A_ij = factor / sqrt(a_i a_j) * integral over triangles i and j of G(x, y) dx dy, a the areas, G as in SingleLayer:
/// symmetric (entries to the bit where triangles are near each other, to rounding elsewhere) and positive definite. It
/// acts on sqrt(a_j) times the charge density and gives 1 / sqrt(a_i) times the integral of the potential; the roots
/// keep the rows of meshes with triangles of very different sizes alike.
///
/// Far away products of the rules of SingleLayer (1, 9 or 49 points of pairs) that are good to `accuracy`; near, the
/// exact potential of the larger triangle is integrated over the smaller: in closed form where the two are one (Eibert
/// and Hansen 1995, doi 10.1109/8.475946), with points that gather at a common edge or corner, and by cutting the
/// smaller where it is large beside the distance. These are good to a few 1e-6.
class GalerkinLayer {
 public:
  /// As of SingleLayer.
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
