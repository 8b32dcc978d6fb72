// Poisson's equation in the unit cube with a known solution: -Laplace u = f, u = 0 on the walls, second differences on
// a regular mesh. The model problem of Stoyanov and Pfreundt (2014), "Hybrid-parallel sparse matrix-vector
// multiplication and iterative linear solvers with the communication library GPI".
#pragma once

#include <tacit/base/names.hpp>
#include <tacit/layout/space.hpp>
#include <tacit/layout/vector.hpp>
#include <tacit/op/csr.hpp>
#include <tacit/op/stencil.hpp>

#include <array>
#include <memory>
#include <vector>

namespace tacit::app::poisson {

/// How the cube is partitioned.
enum class Parts {
  slices,  ///< whole planes perpendicular to z
  boxes    ///< boxes with the least surface for the number of ranks
};
enum class Solution {
  sine,  ///< sin(pi x) sin(pi y) sin(pi z): an eigenvector of the matrix, so that cg needs one step
  bump   ///< g(x) g(y) g(z), g(t) = t (1 - t) e^t
};

template <Scalar T>
class Cube {
 public:
  /// `nodes` along an edge, including those on the walls: (nodes - 2)^3 unknowns, mesh width h = 1 / (nodes - 1). A
  /// rank's points are numbered with x fastest, after those of the previous rank. Collective. Error(usage) for fewer
  /// than 3 or more than 2000000 nodes.
  Cube(const comm::Communicator& comm, Global nodes, Parts parts = Parts::slices);

  const layout::Space& space() const { return space_; }
  Global nodes() const { return nodes_; }
  /// Ranks along x, y, z.
  std::array<int, 3> ranks() const { return ranks_; }
  /// This rank's rows of the 7-point matrix, divided by h^2. Local; O(rows).
  op::Rows<T> rows() const;
  /// The matrix, stored. Collective.
  std::shared_ptr<op::Csr<T>> matrix(op::Format format = op::Format::automatic) const;
  /// The same matrix, matrix-free. Collective. Error(usage) for boxes.
  std::shared_ptr<op::Stencil<T>> stencil() const;
  /// f, and u, at this rank's points. Local.
  std::vector<T> right_side(Solution solution) const;
  std::vector<T> exact(Solution solution) const;
  struct Distance {
    double max;  ///< max |x - u|, the C norm
    double l2;   ///< sqrt(h^3 sum |x - u|^2)
  };
  /// The distance of x from u. Collective; two reductions.
  Distance distance(const layout::Vector<T>& x, Solution solution) const;

 private:
  /// Calls f(i, j, k) for this rank's points in their order; 0 <= i < nodes - 2.
  template <class F>
  void each(F&& f) const;
  Global number(Global i, Global j, Global k) const;
  Global nodes_, points_;
  std::array<int, 3> ranks_{1, 1, 1};
  std::array<layout::Partition, 3> cut_;
  std::array<Global, 3> begin_{}, end_{};
  std::vector<Global> offsets_;  // of boxes
  layout::Space space_;
};

}  // namespace tacit::app::poisson

namespace tacit {
template <>
inline constexpr auto names_of<app::poisson::Parts> = named<app::poisson::Parts>(
    "parts", {{app::poisson::Parts::slices, "slices"}, {app::poisson::Parts::boxes, "boxes"}});
template <>
inline constexpr auto names_of<app::poisson::Solution> = named<app::poisson::Solution>(
    "solution", {{app::poisson::Solution::bump, "bump"}, {app::poisson::Solution::sine, "sine"}});
}  // namespace tacit
