// Compression: a block that is known by its entries becomes U diag(sigma) V^H of low rank, or stays dense where that
// pays nothing.
#pragma once

#include <tacit/base/names.hpp>
#include <tacit/base/types.hpp>

#include <cmath>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace tacit::op {

/// out(i, j) = A(rows[i], columns[j]), column after column: out[i + j rows.size()]. Indices are the caller's own
/// numbers.
template <Scalar T>
using EntryFunction = std::function<void(std::span<const Global> rows, std::span<const Global> columns, T* out)>;

enum class Compression {
  aca_plus,  ///< crosses led by a reference row and a reference column: Grasedyck 2005, doi 10.1007/s00607-004-0103-1
  aca,       ///< crosses with partial pivoting: Bebendorf 2000, doi 10.1007/PL00005410
  svd        ///< all entries and their singular values: the smallest rank there is, at O(m n min(m, n))
};

enum class Norm { frobenius, spectral };

struct CompressOptions {
  Compression method = Compression::aca_plus;
  /// QR of both factors and the singular values of the small product, cut at the tolerance: Bebendorf and Kunis 2009
  /// and earlier; ranks become those of the SVD.
  bool recompress = true;
  /// Rows and columns that the crosses have not met are looked at before a block is believed to be done.
  bool verify = true;
  /// How many rows, and how many columns, each such look takes.
  int samples = 2;
  /// Blocks of up to so many entries are compared with all of them, and cannot be wrong.
  Global settled = 0;
  /// What the cut at recompression bounds: the Frobenius norm of what is cut off, or its largest singular value.
  Norm truncation = Norm::frobenius;
  /// A block that would need a higher rank is kept dense. 0: no limit but that low rank must be smaller than dense.
  Local max_rank = 0;
  /// Low-rank blocks are cut to this rank whatever the error: a matrix to precondition with. Two crosses more than that
  /// are taken, no more is looked at. 0: not cut.
  Local cut_rank = 0;
};

/// B = U diag(sigma) V^H + an error whose Frobenius norm was estimated (the columns of U and of V have length 1, and
/// are orthonormal after recompression, sigma descending); or all entries of B.
template <Scalar T>
struct Compressed {
  Local rows = 0, columns = 0, rank = 0;
  bool dense = false, orthonormal = false;
  std::vector<T> u, v;  ///< rows x rank, columns x rank, by columns; dense: u holds rows x columns
  std::vector<real_t<T>> sigma;
  double norm = 0;     ///< Frobenius, of B as far as it is known
  double error = 0;    ///< Frobenius, estimate; 0 when dense
  Global entries = 0;  ///< evaluated
};

/// The Frobenius error a block may have: the root of (relative norm(B))^2 + absolute^2.
struct Tolerance {
  double relative = 0, absolute = 0;
  double of(double norm) const { return std::hypot(relative * norm, absolute); }
};

/// Compresses the block of these rows and columns. Local; for rank r and the crosses about (r + 4)(m + n) entries and
/// 6 r^2 (m + n) operations. With verify, goes on when sampled rows and columns contradict the stopping rule.
/// Error(input) with both indices when an entry is not finite; what the entry function throws comes through.
template <Scalar T>
Compressed<T> compress(const EntryFunction<T>& entry, std::span<const Global> rows, std::span<const Global> columns,
                       Tolerance tolerance, const CompressOptions& options = {});

/// All entries of the block, as a dense Compressed.
template <Scalar T>
Compressed<T> evaluate(const EntryFunction<T>& entry, std::span<const Global> rows, std::span<const Global> columns);

}  // namespace tacit::op

template <>
inline constexpr auto tacit::names_of<tacit::op::Compression> =
    tacit::named<tacit::op::Compression>("compression", {{tacit::op::Compression::aca_plus, "aca+"},
                                                         {tacit::op::Compression::aca, "aca"},
                                                         {tacit::op::Compression::svd, "svd"}});
