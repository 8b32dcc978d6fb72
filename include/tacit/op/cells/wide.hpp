// Wide: finite-volume stencils that reach beyond the neighbours across a cell's faces: 27 points, and fourth order.
#pragma once

#include <tacit/base/names.hpp>
#include <tacit/exec/checksum.hpp>
#include <tacit/op/cells/margin.hpp>

#include <array>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tacit::op {

/// How the operator of FiniteVolume is formed.
enum class CellStencil {
  seven_point,         ///< 3, 5 or 7 points, second order; any cells and boxes
  twenty_seven_point,  ///< 3, 9 or 27 points, second order, isotropic error; constant b, cubic cells
  fourth_order         ///< cell averages, fluxes of fourth order: 5, 17 or 25 points (13 with constant beta)
};

/// Why a stencil cannot be used on these boxes; empty where it can. The same on all ranks.
std::string refusal(const Boxes& boxes, CellStencil stencil);

/// y = A u by one of the wide stencils for the cells of this rank, on padded arrays (margin.hpp).
///
/// 27 points, on cubes of edge h: b (128/30 at the cell, -14/30 at 6 faces, -3/30 at 12 edges, -1/30 at 8 corners) /
/// h^2 (in the plane 20/6, 4/6 and 1/6). With a = 0 and b = 1, A u = f + h^2/12 lap f + O(h^4) for -lap u = f: second
/// order with the right-hand side f, fourth order with f + h^2/12 lap f. Ghosts beyond an end are linear
/// extrapolations.
///
/// Fourth order, for averages over cells, c = b <beta> of faces: the flux through a face between cells q - 1 and q is
/// -(1/12h) (c (15 (u_q - u_q-1) - (u_q+1 - u_q-2)) + 1/4 sum over transverse t of (c_+t - c_-t) ((u_q+t - u_q-1+t) -
/// (u_q-t - u_q-1-t))): the average of a product is the product of the averages plus h^2/12 times the product of the
/// gradients. a <alpha u> is treated in the same way. Ghosts beyond an end: from the polynomial with the averages of
/// four cells and the value (or slope 0) at the end. Source: Colella, Dorr, Hittinger, Martin (2011), doi
/// 10.1016/j.jcp.2010.12.044; as in HPGMG (fv4).
template <class T>
class Wide {
 public:
  struct Terms {
    CellStencil stencil = CellStencil::fourth_order;
    std::array<double, 3> weight{};  ///< b V_i / (V h_d^2) along each axis
    double mass = 0;                 ///< V_i a / V, where `masses` is empty
    std::span<const T> masses;       ///< of own cells
    /// The face coefficients c_F of FiniteVolume, by axis and patch; null: constant.
    std::function<const T*(int axis, std::size_t patch)> faces;
  };
  /// `has_masses`: whether `masses` is not empty on some rank. Collective.
  Wide(const Boxes& boxes, const Terms& terms, bool has_masses);

  const Margin& margin() const { return margin_; }
  CellStencil stencil() const { return stencil_; }
  /// Fills the ghosts beyond the ends of the domain from the cells inside, for boundary data 0. Local.
  void fill_ends(T* u) const;
  /// A u for line (j, k) of a patch whose ghosts are filled. Local.
  void line(const T* u, std::size_t patch, std::ptrdiff_t j, std::ptrdiff_t k, T* out) const;
  /// The row of cell (i, j, k) of a patch: pairs of a cell, in coordinates of the domain (a period may occur several
  /// times), and its coefficient. Local.
  using Entry = std::pair<std::array<Global, 3>, double>;
  std::vector<Entry> row(std::size_t patch, std::ptrdiff_t i, std::ptrdiff_t j, std::ptrdiff_t k) const;
  /// The diagonal, and the sums of magnitudes of each row, for own cells. Local.
  std::vector<T> diagonal() const;
  std::vector<T> row_sums() const;
  /// Adds the coefficients of cells and faces to a checksum. Local.
  void add_to(exec::Checksum& sum) const {
    for (const auto& c : c_) sum.add(c);
    sum.add(weight_).add(masses_);
  }
  /// The contribution of boundary data to the right-hand side: values on Dirichlet ends, outward slopes du/dn on
  /// Neumann ends, given as averages over the faces of cells. Local.
  using FaceData = std::function<double(int axis, int side, const std::array<Global, 3>& cell)>;
  std::vector<T> end_terms(const FaceData& data) const;

 private:
  using Patch = Margin::Patch;
  // For each ghost layer beyond an end, nearest first: the weights of the inner cells, nearest first, then of the data.
  using Layers = std::vector<std::vector<double>>;
  void fill(T* u, const FaceData* data) const;
  template <int D>
  void fourth_order_line(const T* u, const Patch& p, std::ptrdiff_t at, T* out) const;
  template <int D>
  void compact_line(const T* u, const Patch& p, std::ptrdiff_t at, T* out) const;
  double gathered(std::size_t patch, std::ptrdiff_t i, std::ptrdiff_t j, std::ptrdiff_t k, double* coefficient) const;
  bool near_end(const Patch& p, std::ptrdiff_t i, std::ptrdiff_t j, std::ptrdiff_t k) const;
  void spread(const Boxes& boxes, const Terms& terms, bool has_masses);

  Domain domain_;
  CellStencil stencil_;
  Margin margin_;
  std::array<T, 3> weight_{};
  T mass_ = 0;
  std::array<std::vector<T>, 3> c_;  // padded: the lower face of a cell is stored at the cell's position
  std::vector<T> masses_;            // padded
  std::array<std::array<Layers, 2>, 3> ends_;
};

}  // namespace tacit::op

namespace tacit {
template <>
inline constexpr auto names_of<op::CellStencil> =
    named<op::CellStencil>("stencil", {{op::CellStencil::seven_point, "7-point"},
                                       {op::CellStencil::twenty_seven_point, "27-point"},
                                       {op::CellStencil::fourth_order, "fourth-order"}});
}  // namespace tacit
