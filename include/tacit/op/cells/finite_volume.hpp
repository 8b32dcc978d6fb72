// FiniteVolume: a alpha u - b div(beta grad u) on cells, matrix-free, on any set of boxes.
#pragma once

#include <tacit/op/cells/boxes.hpp>
#include <tacit/op/cells/wide.hpp>
#include <tacit/op/csr.hpp>
#include <tacit/op/operator.hpp>

#include <array>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tacit::op {

/// A function of the position (x, y, z); coordinates of axes that the domain lacks are 0.5.
using Field = std::function<double(double, double, double)>;

/// How the value on a face is computed from those of the two adjacent cells.
enum class Mean {
  harmonic,   ///< 2 / (1/v_1 + 1/v_2): the flux is continuous where beta jumps on a face
  arithmetic  ///< (v_1 + v_2) / 2
};

/// a, b and the fields alpha (at the centres of this rank's cells, in the order of vectors) and beta (on faces). Faces
/// of axis d: patch after patch, first axis fastest; a patch of n cells along d has n + 1 of them. A face that two
/// patches share, or the two ends of a period, has to have the same value in both places. Empty: 1 everywhere. For the
/// fourth-order stencil the values are averages over cells and over faces.
template <Scalar T>
struct Coefficients {
  double a = 0, b = 1;
  std::vector<T> alpha;
  std::array<std::vector<T>, 3> beta;
  CellStencil stencil = CellStencil::seven_point;
};

/// Centres of this rank's cells in the order of vectors, or of the faces along an axis in the order of
/// Coefficients::beta: x, y, z of each; 0.5 along axes that the domain lacks. Faces at both ends of a period have the
/// coordinate of its beginning. Local.
std::vector<double> centres(const Boxes& boxes);
std::vector<double> face_centres(const Boxes& boxes, int axis);

/// Values of functions at centres and face centres; for the fourth-order stencil averages over cells and faces, by two
/// Gauss points along each axis. Local.
template <Scalar T>
Coefficients<T> coefficients(const Boxes& boxes, double a, double b, const Field& alpha, const Field& beta,
                             CellStencil stencil = CellStencil::seven_point);
/// beta on faces from its values in this rank's cells; faces at the ends of the domain or of the boxes take the value
/// of their cell. Collective; one exchange.
template <Scalar T>
Coefficients<T> coefficients_of_cells(const Boxes& boxes, double a, double b, std::vector<T> alpha,
                                      std::span<const T> beta, Mean mean);

/// (A u)_i = (V_i / V) (a alpha_i u_i) + sum over faces F of c_F (u_i - u_across), c_F = b beta_F |F| / (d_F V): the
/// equation of cell i integrated over the cell, V its mean volume, d_F the distance of the two centres. On cells of one
/// size this is a alpha u - b div(beta grad u) by 3, 5 or 7 points, of second order.
/// At an end of the domain: Dirichlet, u = g on the face, the cell's centre half a width away (a linear ghost, 2 g -
/// u_i); Neumann, the flux is given; periodic. Faces between a cell and a missing one are Dirichlet. The data g enter
/// the right-hand side (boundary_terms). A is symmetric (the fourth-order stencil only where all axes are periodic and
/// coefficients constant); singular where a = 0 and no face is Dirichlet (singular()): the null space then is the
/// constants.
/// Memory: 3 coefficients and a diagonal for each cell, or where it is_compact() those of a line of cells along each
/// axis. A product reads these and x once and writes y once; one exchange of a layer of cells (fourth order: two) for
/// all columns. Same bits for any number of ranks, boxes and threads.
template <Scalar T>
class FiniteVolume final : public Operator<T, Host> {
 public:
  /// Collective. Error(usage): coefficients of other lengths, a or b not finite, a stencil that these boxes do not
  /// allow. Coefficients that are not finite are reported by fault().
  FiniteVolume(Boxes boxes, const Coefficients<T>& coefficients);
  ~FiniteVolume() override;

  std::string name() const override { return "finite volume"; }
  /// True where A is symmetric: the adjoint product is the product.
  bool has_adjoint() const override { return is_symmetric(); }
  bool has_diagonal() const override { return true; }
  std::vector<T> diagonal() const override;
  double largest() const override { return largest_; }
  std::string fault() const override { return fault_; }
  /// Of the coefficients of cells and faces.
  bool intact() const override { return checksum() == made_; }
  std::shared_ptr<const Operator<in_double_t<T>, Host>> in_double() const override;
  Cost cost() const override;

  const Boxes& boxes() const { return boxes_; }
  bool singular() const { return singular_; }
  /// Whether all cells, except those at the ends of the domain, have the same coefficients.
  bool is_constant() const { return constant_; }
  /// Whether coefficients are stored for a line of cells along each axis: where they are constant, all cells of the
  /// domain are there, and the stencil is that of 7 points.
  bool is_compact() const { return compact_; }
  /// The smallest element of the diagonal on this rank; infinite where it has no cells. Not of use where there is a
  /// fault(). Local.
  double smallest() const { return smallest_; }
  bool is_symmetric() const;
  CellStencil stencil() const { return stencil_; }
  /// The contribution of the boundary data g to the right-hand side, for this rank's cells: c_F g at a Dirichlet face
  /// (g = `value`), and b g |F| / V at a Neumann face (g = `flux` = beta du/dn, outwards); with a wide stencil from
  /// ghosts computed with the averages of g over faces. Local. Error(usage): a flux with the fourth-order stencil and
  /// coefficients that vary.
  std::vector<T> boundary_terms(const Field& value, const Field& flux = {}) const;
  /// f at the centres (for the fourth-order stencil: its averages over cells, by two Gauss points along each axis)
  /// times V_i / V: the right-hand side without boundary terms. Local.
  std::vector<T> sampled(const Field& f) const;
  /// V_i / V of this rank's cells. Local.
  std::vector<T> volumes() const;
  /// This rank's rows of the matrix. Local.
  Rows<T> rows() const;
  /// On one rank, with one or two columns and 7 points, the sweep of each step is done a few lines after its product,
  /// while these are in cache.
  void powers(std::span<Vector<T, Host>* const> v, std::span<const RecurrenceStep<T>> steps,
              const Vector<T, Host>* before = nullptr) const override;

  // ---- for multigrid ----

  /// The wide stencil, null with 7 points.
  const Wide<T>* wide() const { return wide_.get(); }
  /// c_F of this rank's patch p along an axis, n + 1 faces (first axis fastest); none along axes that the domain lacks.
  /// Stored values, or where it is_compact() those in `room`. Local.
  std::span<const T> faces(int axis, std::size_t patch, std::vector<T>& room) const;
  /// The diagonal likewise.
  std::span<const T> diagonal(std::vector<T>& room) const;
  /// V_i a alpha_i / V of this rank's cells, or where it is_compact() of a cell; empty where a = 0.
  std::span<const T> mass() const { return mass_; }
  /// The operator on coarser cells: parent[axis][i] is the coarse cell of cell i, `coarse` the boxes of the coarse
  /// cells, whose patches correspond one to one to these. beta on a coarse face is a mean over its fine faces, for each
  /// of them the larger of beta and the series conductance from coarse centre to coarse centre (a coarse correction
  /// that is too small does no harm); alpha is the mean over the cell. A wide stencil is kept, without series
  /// conductances, where pairs of cells were joined along each coarsened axis and every non-periodic axis has at least
  /// four coarse cells; otherwise the coarse operator has 7 points. Collective; one exchange.
  std::unique_ptr<FiniteVolume> coarsened(Boxes coarse, const std::array<std::vector<Local>, 3>& parent) const;
  /// The same operator with its cells on other ranks (Boxes::gathered). Collective.
  std::unique_ptr<FiniteVolume> moved(Boxes to) const;
  /// The same operator in another scalar type. Collective.
  template <Scalar S>
  std::unique_ptr<FiniteVolume<S>> cast() const;
  /// Where one rank has all cells: on that rank the same operator over Communicator::self(); else null. Local.
  std::unique_ptr<FiniteVolume> alone() const;
  /// b.
  double b() const { return b_; }
  /// V, the mean volume of the finest cells.
  double unit_volume() const { return unit_; }

 protected:
  int begin(const Vector<T, Host>& x, Vector<T, Host>& y, bool adjoint) const override;
  void finish(const Vector<T, Host>& x, Vector<T, Host>& y, bool adjoint, int token) const override;
  void abandon(int token) const noexcept override;

 private:
  template <Scalar S>
  friend class FiniteVolume;
  struct Parts;
  FiniteVolume(Boxes boxes, double unit);
  /// Coefficients that are zero.
  void allocate(bool compact);
  /// Error(usage) as the constructor; whether the coefficients are constant as far as this rank knows. Local.
  bool check(const Coefficients<T>& c) const;
  /// A line of faces (is_compact()) or all of a patch; null along axes that the domain lacks.
  const T* stored_faces(int axis, std::size_t patch) const;
  T face(int axis, std::size_t patch, const std::array<Global, 3>& cell, int side) const;
  T mass(std::size_t cell) const { return mass_[compact_ ? 0 : cell]; }
  /// Of a line of cells along the first axis (is_compact()): what mass and that axis add to the diagonal.
  const T* diagonal_line(std::size_t patch) const { return diagonal_.data() + face_start_[0][patch] - patch; }
  void set_lines(double a);
  void set_coefficients(const Coefficients<T>& c);
  /// Stores the coefficients of all cells.
  void expand();
  /// For each ghost cell of the halo, in its order: the coefficients of its two faces along each axis. Collective.
  std::vector<T> faces_beside() const;
  /// Sets the diagonal and the global properties from faces_, mass_ and stencil_. Collective.
  void complete(bool constant);
  void set_diagonal();
  bool has_given_value() const;
  void find_extremes();
  void make_wide();
  std::uint64_t checksum() const;
  void product(const Vector<T, Host>& x, Vector<T, Host>& y, int token, const RecurrenceStep<T>* step,
               const Vector<T, Host>* before) const;
  void finish_wide(const Vector<T, Host>& x, Vector<T, Host>& y, int token) const;
  Boxes boxes_;
  double unit_ = 1, b_ = 1;
  std::array<exec::Buffer<T>, 3> faces_;
  std::array<std::vector<std::size_t>, 3> face_start_;  // of each patch
  exec::Buffer<T> mass_, diagonal_;
  std::uint64_t made_ = 0;
  double largest_ = 0, smallest_ = 0;
  std::string fault_;
  bool singular_ = false, constant_ = false, compact_ = false;
  CellStencil stencil_ = CellStencil::seven_point;
  std::unique_ptr<Wide<T>> wide_;
  std::unique_ptr<Parts> parts_;
};

/// Calls f(local position, x, y, z) for the centres of this rank's cells, in the order of vectors.
template <class F>
void each_cell(const Boxes& boxes, F&& f) {
  const Domain& d = boxes.domain();
  for (std::size_t p = 0; p < boxes.count(); ++p) {
    const CellBox& b = boxes.own(p);
    Local i = boxes.offset(p);
    for (Global z = b.lower[2]; z < b.upper[2]; ++z)
      for (Global y = b.lower[1]; y < b.upper[1]; ++y)
        for (Global x = b.lower[0]; x < b.upper[0]; ++x) f(i++, d.centre(0, x), d.centre(1, y), d.centre(2, z));
  }
}

}  // namespace tacit::op

namespace tacit {
template <>
inline constexpr auto names_of<op::Mean> = named<op::Mean>("mean", {{op::Mean::harmonic, "harmonic"},
                                                                    {op::Mean::arithmetic, "arithmetic"}});
}  // namespace tacit
