// System: the linear system of charges on conductors, A sigma = phi, as an H-matrix.
#pragma once

#include <tacit/app/bem/galerkin.hpp>
#include <tacit/app/bem/on_device.hpp>
#include <tacit/app/bem/single_layer.hpp>
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
  /// Relative accuracy of entries by quadrature, in tolerances of the matrix.
  double quadrature = 0.05;
  std::optional<GroundedPlane> plane;
  op::TreeOptions tree;
  op::HMatrixOptions matrix;
  /// Who evaluates entries and finds crosses; recompression and storage are the host's. A device does collocation, by
  /// aca and aca+: the same crosses as on the host but for rounding. Error(usage) for Galerkin's and for svd,
  /// Error(environment) where there is no CUDA device, or none was compiled for.
  AssemblyOn assembly = AssemblyOn::host;
};

/// A x = b for the charge density sigma, in units of eps0 times volts over a unit of the mesh: the kernel is
/// G / (4 pi). x = sigma and b_i = phi(centroid i), or, for Galerkin, x_j = sqrt(a_j) sigma_j and b_i the integral of
/// phi over triangle i over sqrt(a_i). Unknowns are in the order of a cluster tree, in which ranks own neighbours.
template <Scalar T>
class System {
 public:
  /// Collective; the mesh is the same on all ranks. The entries are not kept. Errors of SingleLayer and HMatrix.
  System(const comm::Communicator& comm, const Mesh& mesh, const SystemOptions& options);

  const std::shared_ptr<op::HMatrix<T>>& matrix() const { return matrix_; }
  /// Unknown k belongs to triangle order()[k] of the mesh.
  std::span<const Global> order() const { return order_; }
  /// x = sigma times this and b = phi times this, by triangle of the mesh: 1, or sqrt(area).
  std::span<const double> weight() const { return weight_; }

 private:
  std::vector<Global> order_;
  std::vector<double> weight_;
  std::shared_ptr<op::HMatrix<T>> matrix_;
};

}  // namespace tacit::app::bem
