// Values of cells from those of other cells, axis by axis: interpolation of any order, and its adjoint.
#pragma once

#include <tacit/comm/exchange.hpp>
#include <tacit/op/cells/margin.hpp>
#include <tacit/precond/multigrid/multigrid.hpp>

#include <array>
#include <memory>
#include <vector>

namespace tacit::precond::mg {

/// Along an axis: cell t takes `width` cells from first[t] on (beyond a period's ends: of its next turn).
struct AxisMap {
  std::vector<std::ptrdiff_t> first;
  std::ptrdiff_t width = 1;
  std::vector<double> weight;  ///< width a cell
};

/// Averages over fine cells of the polynomial with the averages of the coarse cells around. At an end `known`: with the
/// value (or slope) 0 there; else from the cells within alone.
AxisMap interpolation_map(const op::Domain& fine, const op::Domain& coarse, const std::vector<Local>& parent, int axis,
                          Interpolation order, bool known);
/// The transposed map: coarse cells from fine ones.
AxisMap adjoint_of(const AxisMap& map, std::ptrdiff_t fine, std::ptrdiff_t coarse);

/// The product of maps along the axes, from cells to cells whose patches are images of them.
template <class S>
class Transfer {
 public:
  /// Collective.
  Transfer(const op::Boxes& from, const op::Boxes& to, std::array<AxisMap, 3> maps);
  /// Vectors in the order of the boxes. Collective; one exchange.
  void apply(const S* from, S* to);

 private:
  std::array<AxisMap, 3> maps_;
  std::array<std::vector<S>, 3> weight_;
  op::Margin margin_;
  std::unique_ptr<comm::Exchange> exchange_;
  std::vector<op::CellBox> target_;
  std::vector<Local> offset_;
  std::vector<S> padded_;
};

}  // namespace tacit::precond::mg
