// Compression: approximates a block, given by its entries, by U diag(sigma) V^H of low rank where that is smaller than
// the dense block.
#pragma once

#include <tacit/base/names.hpp>
#include <tacit/base/types.hpp>

#include <cmath>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace tacit::op {

/// out(i, j) = A(rows[i], columns[j]), stored by columns: out[i + j rows.size()]. Indices are in the caller's
/// numbering, not in that of a tree.
template <Scalar T>
using EntryFunction = std::function<void(std::span<const Global> rows, std::span<const Global> columns, T* out)>;

enum class Compression {
  aca_plus,  ///< crosses with a reference row and a reference column: Grasedyck 2005, doi 10.1007/s00607-004-0103-1
  aca,       ///< crosses with partial pivoting: Bebendorf 2000, doi 10.1007/PL00005410
  svd        ///< singular values of the full block: the smallest rank, at O(m n min(m, n))
};

enum class Norm { frobenius, spectral };

struct CompressOptions {
  Compression method = Compression::aca_plus;
  /// Recompress by QR of both factors and the SVD of the small product, truncated at the tolerance (Bebendorf and Kunis
  /// 2009); ranks become those of the SVD.
  bool recompress = true;
  /// Before a block is accepted, sample rows and columns that no cross has used.
  bool verify = true;
  /// The number of rows, and of columns, in each of these samples.
  int samples = 2;
  /// Blocks of up to this many entries are compared with all their entries.
  Global settled = 0;
  /// The norm of the truncation error that recompression bounds: Frobenius, or the largest singular value.
  Norm truncation = Norm::frobenius;
  /// A block that would need a higher rank is kept dense. 0: limited only by the size of the dense block.
  Local max_rank = 0;
  /// Low-rank blocks are truncated to this rank regardless of the error, for preconditioning. ACA then stops two
  /// crosses later (without recompression at this rank) and samples nothing. 0: not truncated.
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
  double norm = 0;     ///< Frobenius, of B or its approximation
  double error = 0;    ///< Frobenius, estimate; 0 when dense
  Global entries = 0;  ///< evaluated
};

/// The allowed Frobenius error of a block: the root of (relative norm(B))^2 + absolute^2.
struct Tolerance {
  double relative = 0, absolute = 0;
  double of(double norm) const { return std::hypot(relative * norm, absolute); }
};

/// Compresses the block of these rows and columns. Local; for an m x n block of rank r by crosses about (r + 4)(m + n)
/// entries and 6 r^2 (m + n) operations. With verify, crosses are added until sampled rows and columns confirm the
/// stopping criterion.
/// Error(input) with both indices when an entry is not finite; exceptions of the entry function are passed on.
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
