// Mirror images of charges in planes, and the rows of the system for triangles between two dielectrics.
#pragma once

#include <tacit/app/bem/mesh.hpp>
#include <tacit/app/bem/single_layer.hpp>

#include <array>
#include <span>
#include <utility>
#include <vector>

namespace tacit::app::bem {

/// The charges mirrored in one or several planes across axes, times a sign: 1 where a plane is one of symmetry, -1
/// where it is at potential 0, and the product of these in several planes.
struct Image {
  std::array<bool, 3> across{};
  Point at{};  ///< the coordinate of each plane, by its axis
  double sign = 1;

  Point mirrored(Point p) const {
    for (std::size_t d = 0; d < 3; ++d)
      if (across[d]) p[d] = 2 * at[d] - p[d];
    return p;
  }
};

/// The triangles of the mesh, and then those of each image.
Mesh unfolded(const Mesh& mesh, std::span<const Image> images);

/// The entries of a layer (SingleLayer, GalerkinLayer, BoundaryLayer) plus those of all images, times their signs, W
/// the scalar of the entries. Local.
template <class Layer, class W = double>
class Folded {
 public:
  /// layer: of unfolded(mesh, images). symmetric: entries of images are means of (i, j) and (j, i), so that the sum is
  /// symmetric to rounding if the layer is. Twice the cost.
  Folded(Layer layer, std::span<const Image> images, bool symmetric = false)
      : size_(layer.size() / Local(images.size() + 1)), symmetric_(symmetric), layer_(std::move(layer)) {
    for (const Image& image : images) signs_.push_back(image.sign);
  }

  /// out[i + j rows.size()] = A(rows[i], columns[j]). Local, from any number of threads.
  void operator()(std::span<const Global> rows, std::span<const Global> columns, W* out) const {
    layer_(rows, columns, out);
    if (signs_.empty() || rows.empty() || columns.empty()) return;
    for (std::size_t m = 0; m < signs_.size(); ++m) {
      add(rows, columns, (Global(m) + 1) * size_, 0, symmetric_ ? signs_[m] / 2 : signs_[m], out);
      if (symmetric_) add(rows, columns, 0, (Global(m) + 1) * size_, signs_[m] / 2, out);
    }
  }

 private:
  // Adds entries with the indices of columns, or of rows, shifted to an image: that of j seen from i is that of i from
  // j.
  void add(std::span<const Global> rows, std::span<const Global> columns, Global by_column, Global by_row, double sign,
           W* out) const {
    std::vector<Global> i(rows.begin(), rows.end()), j(columns.begin(), columns.end());
    for (Global& row : i) row += by_row;
    for (Global& column : j) column += by_column;
    std::vector<W> more(i.size() * j.size());
    layer_(i, j, more.data());
    for (std::size_t k = 0; k < more.size(); ++k) out[k] += sign * more[k];
  }

  Global size_;
  bool symmetric_;
  Layer layer_;
  std::vector<double> signs_;
};

/// The system with interfaces between dielectrics: sigma is the total charge, free and bound, of each triangle, as in
/// vacuum. Rows of conductors are those of the potential. In the row of an interface, where eps E is continuous along
/// the normal,
///
///   A sigma = sqrt(a_i) (sigma_i / 2 + contrast_i * the mean over triangle i of the field of sigma along its normal),
///
/// contrast = (eps_out - eps_in) / (eps_out + eps_in), "out" on the side of the normal. sqrt(a_i), of the area, makes
/// these rows as large as those of the potential.
///
/// Near a triangle the mean is exact in i, by the solid angle under which points of j see it (Van Oosterom and
/// Strackee 1983, doi 10.1109/TBME.1983.325207), with seven points on j and on its pieces where j is large: the flux
/// out of a closed interface is then the charge within, for any contrast. Farther away 3 x 3 points, then the
/// centroids.
class DielectricLayer {
 public:
  /// contrast: by triangle, NaN for conductors. Error(usage) where there is none for a triangle or it is beyond -1 and
  /// 1; as for SingleLayer.
  DielectricLayer(const Mesh& mesh, std::span<const double> contrast, double accuracy, double factor,
                  std::span<const Image> images);

  /// out[i + j rows.size()] = A(rows[i], columns[j]). Local, from any number of threads.
  void operator()(std::span<const Global> rows, std::span<const Global> columns, double* out) const;

 private:
  double flux_through(std::size_t i, std::size_t j) const;
  double entry(Global i, Global j) const;

  double factor_, near2_, far2_;  // squared distances, relative to the longer longest edge
  Folded<SingleLayer> potential_;
  std::vector<double> contrast_, signs_;
  std::vector<std::array<Point, 3>> corners_;  // of triangles and images
  std::vector<Point> centroid_, normal_;       // unit normals, of the triangles only
  std::vector<double> area_, size2_;
};

}  // namespace tacit::app::bem
