// BlockMatrix: one block of an H-matrix, in the scalar's own precision.
#pragma once

#include <tacit/base/types.hpp>
#include <tacit/op/hmatrix/block_tree.hpp>
#include <tacit/op/hmatrix/compress.hpp>

#include <vector>

namespace tacit::op {

/// A block of an HMatrix: all entries, or U V^H of low rank.
template <Scalar T>
struct BlockMatrix {
  Block block;
  bool dense = false;
  Local rank = 0;
  std::vector<T> u, v;  ///< rows x rank, columns x rank, by columns, the largest terms first; dense: u has all entries
};

/// The block with orthonormal factors, truncated so that its error (Frobenius) is at most `tolerance` times its norm;
/// dense where that takes less memory. A dense one as it is. U and V may have any number of columns. Local.
template <Scalar T>
Compressed<T> truncated(BlockMatrix<T> block, double tolerance);

}  // namespace tacit::op
