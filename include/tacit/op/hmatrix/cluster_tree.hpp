// ClusterTree: a binary tree by recursive bisection of indices that have positions in space.
#pragma once

#include <tacit/base/error.hpp>
#include <tacit/base/names.hpp>
#include <tacit/base/types.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

namespace tacit::op {

using Point = std::array<double, 3>;

/// An axis-parallel box, empty at first.
struct Box {
  Point low{inf, inf, inf}, high{-inf, -inf, -inf};

  static Box of(const Point& p) { return {p, p}; }
  void add(const Box& other) {
    for (int d = 0; d < 3; ++d) low[d] = std::min(low[d], other.low[d]), high[d] = std::max(high[d], other.high[d]);
  }
  /// Length of the diagonal.
  double diameter() const {
    double sum = 0;
    for (int d = 0; d < 3; ++d) sum += (high[d] - low[d]) * (high[d] - low[d]);
    return std::sqrt(sum);
  }
  /// Smallest distance of two points, one of each box.
  double distance(const Box& other) const {
    double sum = 0;
    for (int d = 0; d < 3; ++d) {
      const double gap = std::max({0.0, other.low[d] - high[d], low[d] - other.high[d]});
      sum += gap * gap;
    }
    return std::sqrt(sum);
  }

 private:
  static constexpr double inf = std::numeric_limits<double>::infinity();
};

/// The geometry of the row or column indices: a point for each and, where an index has an extent (a triangle, the
/// support of a basis function), its bounding box. In one or two dimensions the other coordinates are 0.
struct Geometry {
  std::vector<Point> points;
  std::vector<Box> boxes;  ///< empty: the points have no extent

  Global size() const { return Global(points.size()); }
};

enum class Bisection {
  median,   ///< halves of equal number
  midpoint  ///< halves of equal size, at the middle of the longest side (HACApK)
};

struct TreeOptions {
  Bisection bisection = Bisection::median;
  /// Clusters of at most this many indices are not divided.
  Local leaf_size = 64;
  /// Cuts are at multiples of this number of indices, so that product kernels work on whole vectors. 1: at the exact
  /// position of the bisection; 0: 16 where leaves hold at least 32, else 1.
  Local quantum = 0;
};

/// Indices [begin, end) in the order of the tree.
struct Cluster {
  Local begin = 0, end = 0;
  Box box;                  ///< around the elements' boxes
  int child[2] = {-1, -1};  ///< positions in ClusterTree::clusters(), -1 at a leaf
  int level = 0;

  Local size() const { return end - begin; }
  bool is_leaf() const { return child[0] < 0; }
};

/// A binary tree over an order of the indices. Each cluster is divided across the longest side of the bounding box of
/// its points; equal points are ordered by index, so that the tree does not depend on the machine.
class ClusterTree {
 public:
  /// O(n log n), local. Error(usage) without points, with a number of boxes that is neither 0 nor that of the points, a
  /// leaf size below 1, or a quantum above the leaf size; Error(input) for a coordinate that is not finite or a box
  /// that is empty, naming the index.
  ClusterTree(const Geometry& geometry, const TreeOptions& options = {});

  Local size() const { return Local(order_.size()); }
  /// The index at each position.
  std::span<const Global> order() const { return order_; }
  /// The clusters, the root first and children after their parent.
  const std::vector<Cluster>& clusters() const { return clusters_; }
  const Cluster& root() const { return clusters_.front(); }
  int depth() const { return depth_; }
  const TreeOptions& options() const { return options_; }

 private:
  TreeOptions options_;
  std::vector<Global> order_;
  std::vector<Cluster> clusters_;
  int depth_ = 0;
};

}  // namespace tacit::op

template <>
inline constexpr auto tacit::names_of<tacit::op::Bisection> = tacit::named<tacit::op::Bisection>(
    "bisection", {{tacit::op::Bisection::median, "median"}, {tacit::op::Bisection::midpoint, "midpoint"}});
