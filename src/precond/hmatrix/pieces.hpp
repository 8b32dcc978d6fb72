// The blocks of an H-matrix, cut at the cells of a grid and sent to the ranks that own these.
#pragma once

#include <tacit/op/hmatrix/hmatrix.hpp>

#include "grid.hpp"
#include "op/hmatrix/moved_blocks.hpp"

#include <vector>

namespace tacit::precond::detail {

using op::detail::Sent;

/// Adds the parts of a block in the cells of the grid, which the block's numbers are moved or copied to.
template <Scalar T>
void cut_at(const Grid& grid, op::BlockMatrix<T> whole, std::vector<op::BlockMatrix<T>>& parts);

/// The parts of scale A in this rank's cells, of the blocks whose rows begin in [first, last). `lower`: without blocks
/// above the diagonal; `rank` > 0: with at most so many terms. Collective; one message to each rank that has a part of
/// this one's blocks.
template <Scalar T>
std::vector<op::BlockMatrix<T>> own_pieces(const op::HMatrix<T>& A, const Grid& grid, Local first, Local last,
                                           bool lower, Local rank, T scale, Sent& sent);

}  // namespace tacit::precond::detail
