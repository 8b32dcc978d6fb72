// OwnRows: the rows that a rank has of an H-matrix, in the order of its tree, and the way of vectors there and back.
#pragma once

#include <tacit/comm/exchange.hpp>
#include <tacit/layout/space.hpp>
#include <tacit/op/hmatrix/cluster_tree.hpp>

#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace tacit::op {

/// Rank r has positions [cuts[r], cuts[r + 1]) of the tree's order, whatever elements of the space it owns. A vector's
/// elements travel to the ranks that have their rows (get) and back (put): distributed one message to a neighbour each
/// way; replicated get needs none, and put is a gather. Everything is given as k interleaved columns.
template <Scalar T>
class OwnRows {
 public:
  /// Collective. The space has as many elements as the tree.
  OwnRows(const layout::Space& space, std::shared_ptr<const ClusterTree> tree, std::vector<Global> cuts);

  Local first() const { return first_; }
  Local count() const { return count_; }
  const std::vector<Global>& cuts() const { return cuts_; }
  const layout::Space& space() const { return space_; }
  const ClusterTree& tree() const { return *tree_; }
  /// Null on one rank. Ghosts: distributed, own rows that other ranks own in the space, ascending; replicated,
  /// everybody's other rows by position.
  const comm::Pattern* pattern() const { return pattern_.get(); }

  /// Starts bringing this rank's rows of x here; the token is for finish_get. x: this rank's elements.
  int start_get(const T* x, int k) const;
  /// rows[p - first()]: the element at position p.
  void finish_get(const T* x, int k, int token, T* rows) const;
  /// Starts bringing rows to the elements y of all who hold them; what is this rank's own is written at once.
  int start_put(const T* rows, int k, T* y) const;
  void finish_put(int k, int token, T* y) const;

 private:
  comm::Exchange& exchange(int k) const;

  layout::Space space_;
  std::shared_ptr<const ClusterTree> tree_;
  std::vector<Global> cuts_;
  Local first_ = 0, count_ = 0;
  std::shared_ptr<const comm::Pattern> pattern_;
  std::vector<Local> at_;                     // distributed: positions of the ghosts, from first_
  std::vector<std::pair<Local, Local>> own_;  // distributed: (element of this rank, position from first_)
  mutable std::map<int, std::unique_ptr<comm::Exchange>> exchange_;
};

}  // namespace tacit::op
