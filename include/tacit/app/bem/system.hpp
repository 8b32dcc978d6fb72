// System: the linear system of charges on conductors, A sigma = phi, as an H-matrix.
#pragma once

#include <tacit/app/bem/boundary.hpp>
#include <tacit/app/bem/galerkin.hpp>
#include <tacit/app/bem/interfaces.hpp>
#include <tacit/app/bem/on_device.hpp>
#include <tacit/app/bem/single_layer.hpp>
#include <tacit/base/described.hpp>
#include <tacit/comm/communicator.hpp>
#include <tacit/op/hmatrix/hmatrix.hpp>

#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace tacit::app::bem {

enum class Discretisation {
  collocation,  ///< the potential at centroids
  galerkin      ///< the mean potential of triangles: a symmetric matrix
};

struct SystemOptions {
  Discretisation discretisation = Discretisation::collocation;
  /// Linear ones: Galerkin on the host, conductors only, and planes as images.
  Elements elements = Elements::constant;
  /// Relative accuracy of quadrature, as a multiple of the matrix's tolerance.
  double quadrature = 0.05;
  std::optional<GroundedPlane> plane;
  /// Further images of all charges, instead of a plane; the host assembles.
  std::vector<Image> images;
  /// By triangle, NaN for conductors, as in DielectricLayer; empty without dielectrics. Collocation, by the host.
  std::vector<double> contrast;
  op::TreeOptions tree;
  op::HMatrixOptions matrix;
  /// Where entries are evaluated and crosses computed. A device supports collocation by aca and aca+, with the same
  /// crosses as on the host up to rounding; it also recompresses blocks of up to 32 crosses, the host does the rest.
  /// Error(usage) for Galerkin and for svd, Error(environment) without a CUDA device or in a build without CUDA.
  AssemblyOn assembly = AssemblyOn::host;
  int gpu = -1;  ///< the number of the CUDA device that assembles; below 0: the rank's (comm/gpu_of_rank.hpp)
};

/// The options as users give them, without the plane and those of tree and matrix (op/hmatrix/request.hpp).
std::span<const Option<SystemOptions>> system_options();

/// A x = b for the charge density sigma, in units of eps0 times volts per unit length of the mesh: the kernel is G / (4
/// pi). x = sigma and b_i = phi(centroid i), or, for Galerkin, x_j = sqrt(a_j) sigma_j and b_i the integral of phi over
/// triangle i divided by sqrt(a_i); for the triangle of an interface, b_i is minus sqrt(a_i) contrast_i times the
/// external field along the normal. With linear elements x_j = sqrt(m_j) sigma_j at vertex j, m_j the integral of its
/// basis function, and b_i is the integral of phi times that of vertex i, divided by sqrt(m_i). Unknowns are in the
/// order of a cluster tree, so that a rank's triangles are close to each other.
template <Scalar T>
class System {
 public:
  /// Collective; the mesh is the same on all ranks. Errors: those of SingleLayer and HMatrix.
  System(const comm::Communicator& comm, const Mesh& mesh, const SystemOptions& options);

  const std::shared_ptr<op::HMatrix<T>>& matrix() const { return matrix_; }
  /// Unknown k belongs to triangle (or vertex) order()[k] of the mesh.
  std::span<const Global> order() const { return order_; }
  /// x = weight * sigma and b = weight * phi, by triangle (or vertex) of the mesh: 1, or for Galerkin the root of the
  /// integral of the basis function.
  std::span<const double> weight() const { return weight_; }

 private:
  std::vector<Global> order_;
  std::vector<double> weight_;
  std::shared_ptr<op::HMatrix<T>> matrix_;
};

}  // namespace tacit::app::bem

namespace tacit {
template <>
inline constexpr auto names_of<app::bem::Discretisation> =
    named<app::bem::Discretisation>("discretisation", {{app::bem::Discretisation::collocation, "collocation"},
                                                       {app::bem::Discretisation::galerkin, "galerkin"}});
}  // namespace tacit
