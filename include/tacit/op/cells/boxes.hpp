// Boxes: a set of cells of a rectangular domain as a union of boxes, each owned by a rank, such as whole rectangles,
// L-shapes, or the levels of an adaptive mesh.
#pragma once

#include <tacit/comm/exchange.hpp>
#include <tacit/layout/space.hpp>
#include <tacit/op/stencil.hpp>

#include <array>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace tacit::op {

/// Cells [lower, upper) along each axis.
struct CellBox {
  std::array<Global, 3> lower{0, 0, 0}, upper{1, 1, 1};
  Global size(int axis) const { return upper[std::size_t(axis)] - lower[std::size_t(axis)]; }
  Global cells() const { return size(0) * size(1) * size(2); }
  /// Whether the box contains cell c.
  bool holds(const std::array<Global, 3>& c) const {
    for (std::size_t a = 0; a < 3; ++a)
      if (c[a] < lower[a] || c[a] >= upper[a]) return false;
    return true;
  }
  friend bool operator==(const CellBox&, const CellBox&) = default;
};

/// A rectangular domain divided into cells by planes: along each axis the ascending coordinates of the faces, and the
/// boundary conditions at both ends. Axes beyond `dimensions` have one cell of length 1.
struct Domain {
  int dimensions = 1;
  std::array<std::vector<double>, 3> faces;
  std::array<std::array<Boundary, 2>, 3> boundary{};  ///< [axis][low, high]; periodic at both ends or at none

  /// Cells of one width along each axis, on [0, lengths]. Error(usage) unless there are 1 to 3 axes of at least one
  /// cell and of positive length, with one or two conditions each ({low, high}).
  static Domain uniform(std::vector<Global> cells, std::vector<std::array<Boundary, 2>> boundary,
                        std::vector<double> lengths = {});
  static Domain uniform(std::vector<Global> cells, Boundary everywhere);
  Global cells(int axis) const { return Global(faces[std::size_t(axis)].size()) - 1; }
  bool periodic(int axis) const { return boundary[std::size_t(axis)][0] == Boundary::periodic; }
  double width(int axis, Global i) const {
    const auto& f = faces[std::size_t(axis)];
    return f[std::size_t(i) + 1] - f[std::size_t(i)];
  }
  double centre(int axis, Global i) const {
    const auto& f = faces[std::size_t(axis)];
    return 0.5 * (f[std::size_t(i)] + f[std::size_t(i) + 1]);
  }
  /// The distance between the centres of cells i - 1 and i; at a non-periodic end, the distance between the cell's
  /// centre and the end.
  double distance(int axis, Global i) const;
  /// Whether all cells of an axis have one width (to rounding).
  bool uniform(int axis) const;
};

/// Whether an axis is periodic and has one cell, which is its own neighbour: there is no flux along it.
inline bool couples_itself(const Domain& d, int axis) {
  return d.periodic(axis) && d.cells(axis) == 1;
}

/// The boxes of all ranks. Boxes of one rank that together form a larger box are merged into a patch, which needs no
/// exchange inside. Vectors hold the cells of a rank's patches one after the other, in each the first axis fastest;
/// with a single patch this is the natural order of the grid.
class Boxes {
 public:
  /// boxes[b] belongs to rank owners[b]; the same lists on all ranks. Local: all ranks know all boxes.
  /// Error(usage) unless the boxes lie in the domain, do not overlap, and owners are ranks.
  Boxes(comm::Communicator comm, Domain domain, std::span<const CellBox> boxes, std::span<const int> owners);
  /// The whole domain in boxes of `edge` cells (the last of an axis may be smaller; 0: one box for each rank, as cubic
  /// as possible), distributed to the ranks in runs of equal work along Hilbert's curve.
  static Boxes whole(comm::Communicator comm, Domain domain, std::array<Global, 3> edge = {0, 0, 0});
  /// As whole(), with those boxes only for whose centre (x, y, z) `is_inside` is true.
  static Boxes within(comm::Communicator comm, Domain domain, std::array<Global, 3> edge,
                      const std::function<bool(double, double, double)>& is_inside);

  const Domain& domain() const { return domain_; }
  const layout::Space& space() const { return *space_; }
  /// The patches of all ranks, ordered by rank.
  std::span<const CellBox> patches() const { return patches_; }
  int owner(std::size_t patch) const { return owners_[patch]; }
  /// This rank's patches are patches()[first() .. first() + count()).
  std::size_t first() const { return first_[std::size_t(space_->comm().rank())]; }
  std::size_t count() const { return first_[std::size_t(space_->comm().rank()) + 1] - first(); }
  const CellBox& own(std::size_t p) const { return patches_[first() + p]; }
  /// The position in this rank's part of a vector where its patch p begins.
  Local offset(std::size_t p) const { return Local(start_[first() + p] - space_->begin()); }
  /// The number of ranks that have cells.
  int ranks_in_use() const;
  Global cells() const { return space_->size(); }
  /// Whether the cells make up the whole domain.
  bool is_whole() const;
  /// Positions along an axis where cells of a coarser level have to end: the ends of the boxes as given.
  const std::vector<Global>& cuts(int axis) const { return cuts_[std::size_t(axis)]; }
  /// The same boxes on fewer ranks: those of rank r move to rank r / factor. The cuts are the ends of the merged boxes.
  Boxes gathered(int factor) const;
  /// The boxes of coarser cells: parent[axis][i] is the coarse cell that contains cell i. `keep`: the cuts are the
  /// images of this object's cuts; else the ends of the merged boxes.
  Boxes coarsened(Domain coarse, const std::array<std::vector<Local>, 3>& parent, bool keep) const;
  /// Global index of a cell; -1 where there is none. Cells beyond a periodic end are mapped to the other end.
  Global index(std::array<Global, 3> cell) const;
  /// The cell at local position i of a vector.
  std::array<Global, 3> cell(Local i) const;

 private:
  void place(std::vector<CellBox> boxes, std::vector<int> owners);
  Domain domain_;
  std::vector<CellBox> patches_;
  std::vector<int> owners_;
  std::vector<std::size_t> first_;  // of each rank
  std::vector<Global> start_;       // of each patch in the global order
  std::array<std::vector<Global>, 3> cuts_;
  // Patches by bins of cells, for look-ups.
  std::array<Global, 3> bin_{1, 1, 1}, bins_{1, 1, 1};
  std::vector<std::vector<std::uint32_t>> in_bin_;
  std::shared_ptr<const layout::Space> space_;
};

/// The source of each ghost cell in one layer around this rank's patches, without edges and corners. Order: by patch,
/// by side (low x, high x, low y, ..), by position on the side (first axis fastest).
struct Halo {
  static constexpr Local nothing = -1;  ///< there is no such cell: beyond the end of the domain, or in no box
  std::vector<Local> source;            ///< own position, or remote(i) of the pattern's ghost i, or nothing
  std::vector<std::size_t> start;       ///< of side s of patch p: start[6 p + s]
  std::shared_ptr<const comm::Pattern> pattern;
  static constexpr Local remote(Local ghost) { return -2 - ghost; }
  static constexpr Local ghost(Local source) { return -2 - source; }
  /// Only ghosts for which `needed(patch, side, cell)` is true (cell: the ghost's coordinates); others are `nothing`.
  /// Collective.
  static Halo build(const Boxes& boxes,
                    const std::function<bool(std::size_t, int, const std::array<Global, 3>&)>& needed = {});
};

}  // namespace tacit::op
