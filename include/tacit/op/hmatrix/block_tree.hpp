// BlockTree: partitions a matrix into blocks that are admissible (far apart in space) or small.
#pragma once

#include <tacit/base/names.hpp>
#include <tacit/op/hmatrix/cluster_tree.hpp>

#include <vector>

namespace tacit::op {

/// The condition under which a block of rows in cluster s and columns in cluster t is approximated by low rank.
struct Admissibility {
  enum class Kind {
    smaller,  ///< min(diam s, diam t) <= eta dist(s, t): Hackbusch 1999 (doi 10.1007/s006070050015), HACApK with eta =
              ///< 2
    larger,   ///< max(diam s, diam t) <= eta dist(s, t): more blocks, of lower rank
    weak,     ///< s and t are disjoint (one tree) or do not touch, as in HODLR
    none      ///< never: a dense matrix in blocks
  };
  Kind kind = Kind::smaller;
  /// A larger eta gives larger admissible blocks of higher rank; memory and time decrease up to about 3 or 4.
  double eta = 3;
  /// Clusters of fewer indices than this give dense blocks (HACApK: 16).
  Local least = 1;
};

struct Block {
  Local row_begin, row_end, column_begin, column_end;  ///< positions in the orders of the trees
  bool admissible;

  Local rows() const { return row_end - row_begin; }
  Local columns() const { return column_end - column_begin; }
  /// Over one tree: whether it holds entries of the diagonal, so that it belongs to both triangles.
  bool is_diagonal() const { return column_begin < row_end && row_begin < column_end; }
};

/// The leaves of the block tree, depth first: they cover every entry once. A block that is not admissible is divided
/// along both of its clusters, or along the one that is not a leaf; two leaves give a dense block. Local; O(number of
/// leaves).
/// Error(usage) unless eta > 0.
std::vector<Block> block_tree(const ClusterTree& rows, const ClusterTree& columns, const Admissibility& admissibility);

}  // namespace tacit::op

template <>
inline constexpr auto tacit::names_of<tacit::op::Admissibility::Kind> =
    tacit::named<tacit::op::Admissibility::Kind>("admissibility", {{tacit::op::Admissibility::Kind::smaller, "smaller"},
                                                                   {tacit::op::Admissibility::Kind::larger, "larger"},
                                                                   {tacit::op::Admissibility::Kind::weak, "weak"},
                                                                   {tacit::op::Admissibility::Kind::none, "none"}});
