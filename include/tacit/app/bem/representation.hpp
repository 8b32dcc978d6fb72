// Representation: potentials of single and double layers at points, and their far field.
#pragma once

#include <tacit/app/bem/boundary.hpp>

#include <array>
#include <span>
#include <vector>

namespace tacit::app::bem {

/// With G(x, y) = exp(i k |x - y|) / (4 pi |x - y|), k = 0 for real scalars. Densities have one value for each function
/// of the elements: each triangle, or each vertex. Local; all threads share the points; points times triangles
/// operations; the same bits for any number of threads.
///
/// Seven points on each triangle; near a point triangles are divided into four until they are smaller than their
/// distance, and what is left around a point on the surface has its exact static potential.
template <class T>
class Representation {
 public:
  Representation(const Mesh& mesh, Elements elements, double wavenumber);

  /// out[p] = int G single dy + int dG/dn_y twofold dy at points[p]; an empty span is a density of 0. On a triangle,
  /// where the double layer jumps, the mean of both sides.
  void potential(std::span<const T> single, std::span<const T> twofold, std::span<const Point> points, T* out) const;
  /// The gradient of the single layer's potential; on a triangle the mean of both sides.
  void gradient(std::span<const T> single, std::span<const Point> points, std::array<T, 3>* out) const;
  /// f of the far potential f(d) exp(i k r) / r in the directions d (unit vectors).
  void far_field(std::span<const T> single, std::span<const T> twofold, std::span<const Point> directions,
                 T* out) const;

 private:
  struct Densities;
  struct Sum;
  Densities at_points(std::span<const T> single, std::span<const T> twofold) const;
  std::array<T, 3> at_corners(std::span<const T> density, std::size_t triangle) const;
  Sum sum_at(const Densities& of, const Point& p) const;
  void add_points(const Densities& of, std::size_t begin, std::size_t end, const Point& p, Sum& sum) const;
  void add_near(const std::array<Point, 3>& corners, const std::array<T, 3>& single, const std::array<T, 3>& twofold,
                const Point& normal, const Point& p, int depth, Sum& sum) const;

  Elements elements_;
  double wavenumber_;
  std::size_t functions_;
  std::vector<std::array<Point, 3>> corners_;
  std::vector<std::array<Local, 3>> of_corner_;
  std::vector<Point> normal_, centroid_;
  std::vector<double> size2_, area_;
  std::vector<double> x_[3];  // seven points of each triangle
};

}  // namespace tacit::app::bem
