// Blocks of H-matrices on their way from rank to rank.
#pragma once

#include <tacit/comm/communicator.hpp>
#include <tacit/op/hmatrix/block_matrix.hpp>

#include <map>
#include <span>
#include <vector>

namespace tacit::op::detail {

/// What this rank has sent.
struct Sent {
  double messages = 0, bytes = 0;
};

/// The part of a block in `b`, which is within it.
template <Scalar T>
BlockMatrix<T> part_of(const BlockMatrix<T>& whole, const Block& b);

/// Sends blocks, by rank, and adds those that arrive to `own`, by sender. Collective; one message to each rank.
template <Scalar T>
void exchange_blocks(const comm::Communicator& comm, std::map<int, std::vector<BlockMatrix<T>>> others,
                     std::vector<BlockMatrix<T>>& own, Sent& sent);

/// The blocks of all ranks, cut at rows: this rank gets what is in rows [cuts[rank], cuts[rank + 1]). Collective.
template <Scalar T>
std::vector<BlockMatrix<T>> moved_to_rows(const comm::Communicator& comm, std::vector<BlockMatrix<T>> blocks,
                                          std::span<const Global> cuts);

}  // namespace tacit::op::detail
