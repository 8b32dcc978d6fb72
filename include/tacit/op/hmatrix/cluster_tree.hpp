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

/// The same in any number of dimensions, by rows.
struct Coordinates {
  int dimension = 0;
  std::vector<double> points;  ///< n x dimension
  std::vector<double> boxes;   ///< empty, or n x 2 x dimension: low corner, high corner

  Global size() const { return dimension > 0 ? Global(points.size() / std::size_t(dimension)) : 0; }
};
Coordinates coordinates_of(const Geometry& geometry);

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
  int child[2] = {-1, -1};  ///< positions in ClusterTree::clusters(), -1 at a leaf
  int level = 0;

  Local size() const { return end - begin; }
  bool is_leaf() const { return child[0] < 0; }
};

/// A binary tree over an order of the indices. Each cluster is divided across the longest side of the bounding box of
/// its points; equal points are ordered by index, so that the tree does not depend on the machine.
class ClusterTree {
 public:
  /// O(d n log n), local. Error(usage) without points or dimensions, with a number of boxes that is neither 0 nor that
  /// of the points, a leaf size below 1, or a quantum above the leaf size; Error(input) for a coordinate that is not
  /// finite or a box that is empty, naming the index.
  ClusterTree(Coordinates geometry, const TreeOptions& options = {});
  ClusterTree(const Geometry& geometry, const TreeOptions& options = {})
      : ClusterTree(coordinates_of(geometry), options) {}

  /// A tree as it was: its parts. Error(usage) where they do not fit together.
  ClusterTree(int dimension, std::vector<double> points, std::vector<double> boxes, const TreeOptions& options,
              std::vector<Global> order, std::vector<Cluster> clusters, int depth);

  Local size() const { return Local(order_.size()); }
  /// The index at each position.
  std::span<const Global> order() const { return order_; }
  /// The clusters, the root first and children after their parent.
  const std::vector<Cluster>& clusters() const { return clusters_; }
  const Cluster& root() const { return clusters_.front(); }
  int depth() const { return depth_; }
  const TreeOptions& options() const { return options_; }
  int dimension() const { return dimension_; }
  std::span<const double> points() const { return points_; }  ///< of all indices, by rows
  std::span<const double> boxes() const { return boxes_; }    ///< of all clusters, see box()
  /// The point of an index.
  std::span<const double> point(Global index) const {
    return std::span<const double>(points_).subspan(std::size_t(index) * std::size_t(dimension_),
                                                    std::size_t(dimension_));
  }
  /// Around the elements' boxes of a cluster: its low corner, then its high corner.
  std::span<const double> box(int cluster) const {
    const std::size_t length = 2 * std::size_t(dimension_);
    return std::span<const double>(boxes_).subspan(std::size_t(cluster) * length, length);
  }
  /// Length of the diagonal of a cluster's box.
  double diameter(int cluster) const;
  /// Smallest distance of two points, one of each cluster's box. The trees are of one dimension.
  double distance(int cluster, const ClusterTree& other, int of_other) const;

 private:
  void divide(const Coordinates& geometry);
  int dimension_ = 0;
  std::vector<double> points_, boxes_;  // boxes_: of the clusters
  TreeOptions options_;
  std::vector<Global> order_;
  std::vector<Cluster> clusters_;
  int depth_ = 0;
};

}  // namespace tacit::op

template <>
inline constexpr auto tacit::names_of<tacit::op::Bisection> = tacit::named<tacit::op::Bisection>(
    "bisection", {{tacit::op::Bisection::median, "median"}, {tacit::op::Bisection::midpoint, "midpoint"}});
