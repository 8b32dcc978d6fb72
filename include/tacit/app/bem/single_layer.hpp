// SingleLayer: the potential of charges on triangles, at the triangles' centroids.
#pragma once

#include <tacit/app/bem/mesh.hpp>
#include <tacit/op/hmatrix/compress.hpp>

#include <span>
#include <vector>

namespace tacit::app::bem {

/// A_ij = factor * integral over triangle j of 1 / |c_i - y| dy, c_i the centroid of triangle i: collocation with
/// piecewise constant charge. With factor = 1 / (4 pi eps0) the potential in volts of charges in coulombs per square
/// unit.
///
/// Near a triangle exactly, by edges (Wilton et al. 1984, doi 10.1109/TAP.1984.1143304) and the solid angle (Van
/// Oosterom and Strackee 1983, doi 10.1109/TBME.1983.325207); from where they are good to `accuracy` on by quadrature
/// of degree 5 (7 points), 2 (3 points) and 1, several entries at once: exact forms lose digits far away. An entry is
/// the same however it is asked for.
class SingleLayer {
 public:
  explicit SingleLayer(const Mesh& mesh, double accuracy = 1e-7, double factor = 1);

  Local size() const { return Local(area_.size()); }
  /// out[i + j rows.size()] = A(rows[i], columns[j]). Local, from any number of threads. Fastest where the columns of a
  /// single row, or the rows, are neighbours: give it a mesh in the order of the cluster tree.
  void operator()(std::span<const Global> rows, std::span<const Global> columns, double* out) const;
  double area(Local j) const { return area_[std::size_t(j)]; }

 private:
  double exact(const Point& p, std::size_t triangle) const;
  void row(std::size_t i, std::span<const Global> columns, double* out) const;
  void column(std::span<const Global> rows, std::size_t j, double* out) const;

  double factor_;
  double reach_[3];  // squared distances, in squares of the longest edge, where 7, 3 and 1 points are good enough
  // By coordinate: centroids, and corners less the centroid (the third is minus the sum of the two).
  std::vector<double> x_[3], corner_[2][3], area_, size2_;
};

/// This mesh's entries for an hmatrix; the object must outlive its assembly.
inline op::EntryFunction<double> entries(const SingleLayer& layer) {
  return [&layer](std::span<const Global> rows, std::span<const Global> columns, double* out) {
    layer(rows, columns, out);
  };
}

}  // namespace tacit::app::bem
