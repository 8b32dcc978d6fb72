// BlockMaker: computes many blocks of an HMatrix at a time, in place of its entry function.
#pragma once

#include <tacit/op/hmatrix/block_tree.hpp>
#include <tacit/op/hmatrix/compress.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace tacit::op {

struct WantedBlock {
  Block block;  ///< made by crosses where it is admissible, else from all entries
  Tolerance tolerance;
};

/// A block before recompression: the crosses of ACA, or all entries.
template <Scalar T>
struct RawBlock {
  /// The block needs too many crosses or has an entry that is not finite: HMatrix then uses the entry function.
  bool given_up = false;
  bool dense = false;
  Local rank = 0;
  std::vector<T> u, v;  ///< rows x rank, columns x rank: B = U V^T; dense: u holds rows x columns
  /// Not empty: already recompressed and truncated as by compress(), B = U diag(sigma) V^T with orthonormal U and V.
  std::vector<real_t<T>> sigma;
  double norm = 0;  ///< Frobenius, of the sum of the crosses
  double error = 0;
  Global entries = 0;  ///< evaluated
};

/// Makes raw blocks; HMatrix completes them (recompression where missing, comparison with all entries, storage).
template <Scalar T>
class BlockMaker {
 public:
  virtual ~BlockMaker() = default;
  /// Makes the first blocks of `wanted`, at least one and as many as memory allows; returns their number. Local.
  /// Error(usage) for options that it does not support.
  virtual std::size_t make(std::span<const WantedBlock> wanted, const CompressOptions& options) = 0;
  /// Block k of the last make(). To be called once for each, from any thread.
  virtual RawBlock<T> take(std::size_t k) const = 0;
};

/// Completes a raw block as compress() does after finding crosses, or evaluate() with all entries. Local; calls the
/// entry function where it needs further entries. Errors: those of both.
template <Scalar T>
Compressed<T> finish(RawBlock<T> raw, const EntryFunction<T>& entry, std::span<const Global> rows,
                     std::span<const Global> columns, Tolerance tolerance, const CompressOptions& options);

/// The largest number of crosses of a block for which low rank is smaller than dense (more where recompression will
/// reduce it), and the number after which cut_rank stops.
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
/// Whether the norm of the sum of the crosses is needed.
inline bool tracks_norm(const Tolerance& tolerance, const CompressOptions& options) {
  return tolerance.relative > 0 || !options.recompress;
}

/// Shares of a block's tolerance for crosses and for recompression; their squares and that of the share for storage sum
/// to at most 1. Crosses get a small share, since additional ones are cheap and recompression removes the excess.
inline constexpr double cross_share = 0.35, cut_share = 0.75;

}  // namespace tacit::op
