// OwnRows: a rank's rows of an H-matrix, in the order of its tree, and the transfer of vectors to and from them.
#pragma once

#include <tacit/comm/exchange.hpp>
#include <tacit/layout/space.hpp>
#include <tacit/op/hmatrix/cluster_tree.hpp>

#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace tacit::op {

/// Rank r has positions [cuts[r], cuts[r + 1]) of the tree's order, independent of the elements of the space that it
/// owns. get sends the elements of a vector to the ranks that have their rows, put sends them back: for distributed
/// vectors by one message to each neighbour; for replicated ones get needs no message, and put is a gather. All
/// functions take k interleaved columns; get and put are collective.
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
  /// Null on one rank. Ghosts: for distributed vectors, own rows whose elements other ranks own, ascending; for
  /// replicated ones, the rows of all other ranks by position.
  const comm::Pattern* pattern() const { return pattern_.get(); }

  /// Starts fetching the elements of this rank's rows; returns the token for finish_get. x: this rank's elements.
  int start_get(const T* x, int k) const;
  /// rows[p - first()]: the element at position p.
  void finish_get(const T* x, int k, int token, T* rows) const;
  /// Starts sending rows to the ranks that hold their elements; this rank's own elements of y are written at once.
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
