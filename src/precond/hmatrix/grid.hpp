// The cells into which factors of an H-matrix on several ranks are divided: pairs of clusters, dealt to ranks.
#pragma once

#include <tacit/base/types.hpp>
#include <tacit/op/hmatrix/cluster_tree.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace tacit::precond::detail {

/// The clusters of one level (and leaves above it), the finer the more ranks there are: all in one on one rank. Cell
/// (i, j) has the rows of cluster i and the columns of cluster j. Of P ranks in a grid of p x P / p, p >= P / p, row i
/// of cells belongs to row i mod p of the grid, and column j to its column (j / p) mod P / p: so each rank has as many
/// cells of the diagonal, which are those with most work.
class Grid {
 public:
  /// Clusters of at most `leaf_size` indices are not divided further. Local, the same on all ranks.
  Grid(const op::ClusterTree& tree, int ranks, Local leaf_size) {
    for (int c = 1; c * c <= ranks; ++c)
      if (ranks % c == 0) columns_ = c;
    rows_ = ranks / columns_;
    const auto& clusters = tree.clusters();
    const std::size_t wanted = ranks == 1 ? 1 : std::size_t(std::max(8, cells_of_rank * rows_));
    clusters_.push_back(0);
    while (clusters_.size() < wanted) {
      std::vector<int> next;
      for (const int i : clusters_) {
        const op::Cluster& c = clusters[std::size_t(i)];
        if (c.is_leaf() || c.size() <= leaf_size) next.push_back(i);
        else next.insert(next.end(), {c.child[0], c.child[1]});
      }
      if (next.size() == clusters_.size()) break;
      clusters_ = std::move(next);
    }
    for (const int c : clusters_) cuts_.push_back(clusters[std::size_t(c)].begin);
    cuts_.push_back(tree.size());
  }

  int count() const { return int(clusters_.size()); }
  int cluster(int i) const { return clusters_[std::size_t(i)]; }
  Local begin(int i) const { return cuts_[std::size_t(i)]; }
  Local end(int i) const { return cuts_[std::size_t(i) + 1]; }
  Local size(int i) const { return end(i) - begin(i); }
  /// The cluster that has this position.
  int of(Local position) const {
    return int(std::upper_bound(cuts_.begin(), cuts_.end(), position) - cuts_.begin()) - 1;
  }
  int owner(int i, int j) const { return i % rows_ * columns_ + j / rows_ % columns_; }

 private:
  static constexpr int cells_of_rank = 4;
  int rows_ = 1, columns_ = 1;
  std::vector<int> clusters_;
  std::vector<Local> cuts_;
};

}  // namespace tacit::precond::detail
