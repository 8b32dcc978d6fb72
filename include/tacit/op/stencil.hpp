// Stencil: a matrix with constant coefficients on a regular grid, applied matrix-free; stencil_rows() gives the same
// matrix as sparse rows.
#pragma once

#include <tacit/base/names.hpp>
#include <tacit/comm/exchange.hpp>
#include <tacit/layout/space.hpp>
#include <tacit/op/csr.hpp>
#include <tacit/op/operator.hpp>

#include <array>
#include <memory>
#include <string>
#include <vector>

namespace tacit::op {

/// The value used for a neighbour outside of the grid.
enum class Boundary {
  dirichlet,  ///< zero: the equations of the boundary points are eliminated
  neumann,    ///< the value of the nearest inner point: no flux through the face between the two
  periodic    ///< the point at the other end of the axis
};

/// A box of points. Point (x, y, z) has the global index x + nx (y + ny z).
struct Grid {
  int dimensions = 1;
  std::array<Global, 3> points{1, 1, 1};
  std::array<Boundary, 3> boundary{};

  /// Error(usage) unless there are 1 to 3 dimensions of at least one point each, and fewer than 2^62 points together.
  Grid(std::vector<Global> points, std::vector<Boundary> boundary);
  explicit Grid(std::vector<Global> points, Boundary everywhere = Boundary::dirichlet);
  Global size() const { return points[0] * points[1] * points[2]; }
  /// The number of points of one slab: those with one index on the slowest axis.
  Global slab() const { return size() / points[std::size_t(dimensions) - 1]; }
  /// Partition by whole slabs, whose numbers differ by at most one. Parts beyond the number of slabs are empty.
  layout::Partition slabs(int parts) const;
};

/// Coefficients of a point's equation: at(dx, dy, dz) multiplies the neighbour at that offset (-1, 0 or 1 along each
/// axis). Those along axes that the grid lacks are ignored.
template <Scalar T>
struct Weights {
  std::array<T, 27> value{};

  T& at(int dx, int dy = 0, int dz = 0) { return value[std::size_t(13 + dx + 3 * dy + 9 * dz)]; }
  const T& at(int dx, int dy = 0, int dz = 0) const { return value[std::size_t(13 + dx + 3 * dy + 9 * dz)]; }
  /// By the number of axes along which the neighbour is displaced: 0 (the point itself), 1, 2 (diagonals in a plane),
  /// 3.
  static Weights of(T center, T face, T edge = T(0), T corner = T(0));
  /// A + sigma I; sigma = -k^2 gives the Helmholtz operator.
  Weights shifted(T sigma) const {
    Weights w = *this;
    w.at(0) += sigma;
    return w;
  }
  friend Weights operator+(Weights a, const Weights& b) {
    for (std::size_t i = 0; i < 27; ++i) a.value[i] += b.value[i];
    return a;
  }
  friend Weights operator*(T alpha, Weights a) {
    for (T& v : a.value) v *= alpha;
    return a;
  }
};

/// -Laplace u by second differences: 3, 5 or 7 points. `spacing`: distance of points along each axis.
template <Scalar T>
Weights<T> laplacian(int dimensions, std::array<double, 3> spacing = {1, 1, 1});

/// -Laplace u by 9 (plane) or 27 (box) points, with an isotropic leading error (a multiple of Laplace Laplace u); in
/// one dimension, the second difference. The weights of faces, edges and corners are 4 : 1 in the plane and 14 : 3 : 1
/// in the box, which follow from the second and fourth moments. Source (box): O'Reilly and Beck, A family of
/// large-stencil discrete Laplacian approximations in three dimensions (2006).
template <Scalar T>
Weights<T> isotropic_laplacian(int dimensions, double spacing = 1);

enum class Convection {
  upwind,  ///< first differences against the flow: an M-matrix for any velocity
  central  ///< second order; oscillates where |velocity| spacing exceeds twice the diffusion
};
/// velocity . grad u.
template <Scalar T>
Weights<T> convection(int dimensions, std::array<double, 3> velocity, Convection how,
                      std::array<double, 3> spacing = {1, 1, 1});

/// Rows [begin, end) of the matrix that Stencil applies. A row stores all points of the stencil's shape inside the
/// grid, including zero weights: 2 d + 1 points when no weight couples diagonally, else 3^d. Local; O(rows).
template <Scalar T>
Rows<T> stencil_rows(const Grid& grid, const Weights<T>& weights, Global begin, Global end);

/// y = A x and y = A^H x with A the stencil's matrix, for k columns at once. Every row is summed in one order, so the
/// result does not depend on the number of ranks or threads beyond rounding. Two products may be in flight.
/// Memory: only the halo, one slab on each side. A product reads x once and writes y once where a few slabs (or, for
/// large slabs, tiles of them) fit the cache; one exchange of the halo.
template <Scalar T>
class Stencil final : public Operator<T, Host> {
 public:
  /// Over grid.slabs(comm.size()). Collective.
  Stencil(comm::Communicator comm, const Grid& grid, const Weights<T>& weights);
  /// Over the given space. Collective. Error(usage) unless every rank owns whole slabs.
  Stencil(Space space, const Grid& grid, const Weights<T>& weights);
  ~Stencil() override;

  std::string name() const override { return "stencil"; }
  bool has_adjoint() const override { return true; }
  bool has_diagonal() const override { return true; }
  std::vector<T> diagonal() const override;
  /// On grids of two and three dimensions.
  bool has_schedules() const override { return grid_.dimensions > 1; }
  /// On one rank, with a slowest axis that is not periodic, several steps pass over the grid together, each one or two
  /// slabs behind the one before: where a few slabs of each vector fit the cache, only the first step reads from
  /// memory. Otherwise step after step. The same bits for any number of threads.
  void powers(std::span<Vector<T, Host>* const> v, std::span<const RecurrenceStep<T>> steps,
              const Vector<T, Host>* before = nullptr) const override;
  /// Temporal blocking: several steps are done on a tile of the grid (a few neighbouring lines through many slabs)
  /// while it is in the second-level cache, each step a slab behind the one before; overlaps of tiles are computed
  /// twice. On several ranks one exchange transfers as many slabs of x as there are steps (and another one those of f
  /// and of a varying diagonal, unless they are known), while tiles that do not need them yet are computed. More than 1
  /// for real scalars on grids of two and three dimensions of which only the fastest axis may be periodic.
  int sweeps_at_once() const override;
  void sweeps(const Vector<T, Host>& f, T omega, T scale, const Vector<T, Host>* scaling, Vector<T, Host>& x,
              Vector<T, Host>& other, std::span<double> squares, bool again = false) const override;
  double largest() const override { return largest_; }
  std::string fault() const override { return fault_; }
  std::shared_ptr<const Operator<in_double_t<T>, Host>> in_double() const override;
  Cost cost() const override;
  const Grid& grid() const { return grid_; }
  const Weights<T>& weights() const { return weights_; }
  /// This rank's rows of the matrix.
  Rows<T> rows() const { return stencil_rows(grid_, weights_, this->range().begin(), this->range().end()); }

 protected:
  int begin(const Vector<T, Host>& x, Vector<T, Host>& y, bool adjoint) const override;
  void finish(const Vector<T, Host>& x, Vector<T, Host>& y, bool adjoint, int token) const override;
  void abandon(int token) const noexcept override;

 private:
  struct Parts;
  comm::Exchange& exchange(int columns) const;
  Grid grid_;
  Weights<T> weights_;
  double largest_ = 0;
  std::string fault_;
  std::unique_ptr<Parts> parts_;
};

}  // namespace tacit::op

namespace tacit {
template <>
inline constexpr auto names_of<op::Boundary> = named<op::Boundary>("boundary", {{op::Boundary::dirichlet, "dirichlet"},
                                                                                {op::Boundary::neumann, "neumann"},
                                                                                {op::Boundary::periodic, "periodic"}});
template <>
inline constexpr auto names_of<op::Convection> =
    named<op::Convection>("convection", {{op::Convection::upwind, "upwind"}, {op::Convection::central, "central"}});
}  // namespace tacit
