// BoundaryLayer: Galerkin matrices of the boundary operators of Laplace's and Helmholtz' equations, with piecewise
// constant or continuous piecewise linear functions.
#pragma once

#include <tacit/app/bem/mesh.hpp>
#include <tacit/base/names.hpp>
#include <tacit/base/types.hpp>

#include <span>
#include <vector>

namespace tacit::app::bem {

enum class Elements {
  constant,  ///< one value on each triangle
  linear     ///< continuous: a value at each vertex, linear on triangles
};

/// A sum of boundary operators. With G(x, y) = exp(i k |x - y|) / (4 pi |x - y|) and normals n by the right-hand rule,
///
///   V q = int G q(y) dy,  K u = int dG/dn_y u(y) dy,  K' q = int dG/dn_x q(y) dy,  W u = -d/dn_x int dG/dn_y u(y) dy.
template <class T>
struct BoundaryForm {
  T single_layer{};         ///< times V
  double double_layer = 0;  ///< times K
  double adjoint = 0;       ///< times K'
  T hypersingular{};        ///< times W, by parts as curls (Maue 1949, Z. Phys. 126, 601): linear elements
  double mass = 0;          ///< times the identity
  double wavenumber = 0;    ///< k; 0 for Laplace's equation, which real scalars are for

  bool has_gradient() const { return double_layer != 0 || adjoint != 0; }
};

/// A_ij = the integral of phi_i times (the sum of the operators applied to phi_j), phi the basis functions of the
/// elements. T: double (k = 0) or std::complex<double>.
///
/// Far entries by samples of both functions: at the vertices, the middles of edges and the centroids of their
/// triangles, or at the middles of edges alone, which many functions share. Near ones by 7 or 16 points on each
/// triangle, and where these touch by rules in whose variables the integrand is analytic (pair_rules.hpp).
template <class T>
class BoundaryLayer {
 public:
  /// Vertices with equal coordinates must be one vertex for linear elements to be continuous there. Error(input) for a
  /// triangle without area, naming it, and for a vertex of no triangle with linear elements. Error(usage) for the
  /// hypersingular operator with constant elements, and for a wave number with real scalars.
  BoundaryLayer(const Mesh& mesh, Elements elements, const BoundaryForm<T>& form, double accuracy);

  Local size() const { return Local(support_.size()) - 1; }
  /// out[i + j rows.size()] = A(rows[i], columns[j]). Local, from any number of threads. Fastest where the functions of
  /// a call are neighbours.
  void operator()(std::span<const Global> rows, std::span<const Global> columns, T* out) const;

 private:
  // Values of basis functions at points that they share: value is the weight times phi, normal that times the normal,
  // curl the weight times n x grad phi, all summed over the triangles around a point.
  struct Samples {
    std::vector<double> x[3];
    std::vector<Local> start, point;
    std::vector<double> value, normal[3], curl[3];
  };
  struct Gathered;
  struct Near;

  void prepare(const Mesh& mesh);
  void sample(const Mesh& mesh, bool many, Samples& to) const;
  int level(std::size_t i, std::size_t j) const;
  void line(std::size_t fixed, std::span<const Global> others, bool fixed_is_row, const Samples& samples, T* out) const;
  void far(std::span<const Global> rows, std::span<const Global> columns, std::span<const char> levels, T* out) const;
  void near(std::span<const Global> rows, std::span<const Global> columns, std::span<const char> levels, T* out) const;

  Elements elements_;
  BoundaryForm<T> form_;
  double accuracy_;
  double reach_[2];  // distances in radii from which few and many samples are accurate enough
  Samples few_, many_;
  std::vector<std::array<Point, 3>> corners_;
  std::vector<std::array<Local, 3>> functions_;  // of each triangle's corners, or the triangle itself three times
  std::vector<Point> centre_, normal_;           // of functions, of triangles
  std::vector<double> radius_, area_;            // of functions, of triangles
  std::vector<Local> support_, triangles_;       // the triangles of each function
};

/// The geometry of the functions: vertices or centroids, and the boxes of their triangles.
op::Geometry geometry_of(const Mesh& mesh, Elements elements);
/// The mesh with function k of the new one being function order[k] of this one; for linear elements triangles are
/// sorted by their first vertex.
Mesh reordered(const Mesh& mesh, Elements elements, std::span<const Global> order);

}  // namespace tacit::app::bem

namespace tacit {
template <>
inline constexpr auto names_of<app::bem::Elements> = named<app::bem::Elements>(
    "elements", {{app::bem::Elements::constant, "constant"}, {app::bem::Elements::linear, "linear"}});
}  // namespace tacit
