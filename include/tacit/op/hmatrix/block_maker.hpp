// BlockMaker: who makes the blocks of an HMatrix where it is not its entry function, many at a time.
#pragma once

#include <tacit/op/hmatrix/block_tree.hpp>
#include <tacit/op/hmatrix/compress.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace tacit::op {

struct WantedBlock {
  Block block;  ///< crosses where it is admissible, else all entries
  Tolerance tolerance;
};

/// A block as it comes from its entries: crosses, or all of them.
template <Scalar T>
struct RawBlock {
  /// More crosses than pay, or an entry that is not finite: only the entry function can tell.
  bool given_up = false;
  bool dense = false;
  Local rank = 0;
  std::vector<T> u, v;  ///< rows x rank, columns x rank: B = U V^T; dense: u holds rows x columns
  /// Recompressed already: B = U diag(sigma) V^T, U and V orthonormal, and cut as compress() would. Else empty.
  std::vector<real_t<T>> sigma;
  double norm = 0;  ///< of the crosses, as Compressed's
  double error = 0;
  Global entries = 0;  ///< evaluated
};

/// What is left of making blocks after that (recompression, comparison with all entries, digits, storage) is HMatrix's.
template <Scalar T>
class BlockMaker {
 public:
  virtual ~BlockMaker() = default;
  /// Makes the first of `wanted`, as many as there is room for, and at least one; how many. Local. Error(usage) for
  /// what it cannot do.
  virtual std::size_t make(std::span<const WantedBlock> wanted, const CompressOptions& options) = 0;
  /// Block k of those. Once each, from any thread.
  virtual RawBlock<T> take(std::size_t k) const = 0;
};

/// What compress() makes of the crosses it has found, and evaluate() of all entries. Local; for what the block does not
/// tell it asks the entry function. Errors of both.
template <Scalar T>
Compressed<T> finish(RawBlock<T> raw, const EntryFunction<T>& entry, std::span<const Global> rows,
                     std::span<const Global> columns, Tolerance tolerance, const CompressOptions& options);

/// Crosses that a block may take: low rank is smaller than dense up to here, and a little more where recompression will
/// lower it; and where they are enough.
inline Local most_crosses(Local rows, Local columns, const CompressOptions& options) {
  const double even = double(rows) * columns / (double(rows) + columns);
  const Local limit = Local(std::min<double>(std::min(rows, columns), options.recompress ? 1.5 * even + 1 : even));
  if (options.max_rank <= 0) return limit;
  return std::min(limit, options.recompress ? options.max_rank + options.max_rank / 2 + 2 : options.max_rank);
}
inline Local enough_crosses(Local rows, Local columns, const CompressOptions& options) {
  const Local all = std::min(rows, columns);
  return options.cut_rank > 0 ? std::min(all, options.cut_rank + (options.recompress ? 2 : 0)) : all;
}
/// Whether the norm of the crosses' sum is needed by itself.
inline bool tracks_norm(const Tolerance& tolerance, const CompressOptions& options) {
  return tolerance.relative > 0 || !options.recompress;
}

/// Shares of a block's tolerance, the sum of their squares at most 1 together with that of storage: the crosses are
/// cheap to take a little further, and recompression throws away what was too much.
inline constexpr double cross_share = 0.35, cut_share = 0.75;

}  // namespace tacit::op
