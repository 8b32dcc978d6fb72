// boundary_matrix: the Galerkin matrix of boundary operators as an H-matrix.
#pragma once

#include <tacit/app/bem/boundary.hpp>
#include <tacit/app/bem/interfaces.hpp>
#include <tacit/comm/communicator.hpp>
#include <tacit/op/hmatrix/hmatrix.hpp>

#include <memory>
#include <span>
#include <vector>

namespace tacit::app::bem {

/// D^-1 A D^-1 with A of BoundaryLayer and D the roots of the integrals of the basis functions, which make rows of
/// triangles of very different sizes equally large. It maps D times the coefficients of a function u to D^-1 times the
/// integrals of phi_i (A u).
template <Scalar T>
struct BoundaryMatrix {
  std::shared_ptr<op::HMatrix<T>> matrix;
  std::vector<Global> order;  ///< row k belongs to function order[k] of the mesh, in the order of a cluster tree
  std::vector<double> root;   ///< D, by function of the mesh
};

/// The integral of each basis function.
std::vector<double> integrals_of(const Mesh& mesh, Elements elements);

/// Entries are accurate to `quadrature` times the tolerance of `options`; `images` of all functions are added, times
/// their signs, symmetrically. Collective; the mesh is the same on all ranks. Errors: those of BoundaryLayer and
/// HMatrix.
template <Scalar T>
BoundaryMatrix<T> boundary_matrix(const comm::Communicator& comm, const Mesh& mesh, Elements elements,
                                  const BoundaryForm<in_double_t<T>>& form, double quadrature,
                                  const op::TreeOptions& tree, const op::HMatrixOptions& options,
                                  std::span<const Image> images = {});

}  // namespace tacit::app::bem
