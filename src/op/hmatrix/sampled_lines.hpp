// Lines of blocks that are compared after compression: some at random, which estimate the error of a block, and some
// between the points that are nearest to and farthest from each other, where a cut-off or a jump enters a block first.
#pragma once

#include <tacit/op/hmatrix/block_tree.hpp>
#include <tacit/op/hmatrix/compress.hpp>
#include <tacit/op/hmatrix/hash.hpp>

#include "crosses.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

namespace tacit::op::detail {

/// Lines of one block and their entries, one line after the other.
template <Scalar T>
struct SampledLines {
  std::vector<LineName> names;
  std::vector<T> values;
  std::size_t random = 0;  ///< so many are drawn at random: rows, then as many columns
};

/// What lines say of a block's error.
struct LineErrors {
  double estimate2 = 0;  ///< of the squared error (Frobenius), from random lines
  double spread2 = 0;    ///< the variance of the estimate
  double worst2 = 0;     ///< the squared error that the block would have if all lines were like the worst
};

/// The pair of points of a block with the largest distance, or the smallest: in large blocks as far as three passes
/// find it.
inline void add_extremes(const ClusterTree& rows, const ClusterTree& columns, const Block& b, bool far,
                         std::vector<LineName>& names) {
  const auto row = [&](Local p) { return rows.point(rows.order()[std::size_t(p)]); };
  const auto column = [&](Local p) { return columns.point(columns.order()[std::size_t(p)]); };
  const auto square = [](std::span<const double> x, std::span<const double> y) {
    double sum = 0;
    for (std::size_t k = 0; k < x.size(); ++k) sum += (x[k] - y[k]) * (x[k] - y[k]);
    return sum;
  };
  double most = -1;
  Local i = b.row_begin, j = (b.column_begin + b.column_end) / 2;
  const auto meet = [&](Local p, Local q) {
    const double sum = square(row(p), column(q));
    if (most < 0 || (far ? sum > most : sum < most)) i = p, j = q, most = sum;
  };
  constexpr Global all_pairs = Global(1) << 14;
  if (Global(b.rows()) * b.columns() <= all_pairs) {
    for (Local q = b.column_begin; q < b.column_end; ++q)
      for (Local p = b.row_begin; p < b.row_end; ++p) meet(p, q);
  } else {
    for (int pass = 0; pass < 3; ++pass)
      if (const Local at = pass % 2 == 0 ? j : i; pass % 2 == 0)
        for (Local p = b.row_begin; p < b.row_end; ++p) meet(p, at);
      else
        for (Local q = b.column_begin; q < b.column_end; ++q) meet(at, q);
  }
  for (const LineName name : {LineName{0, i - b.row_begin}, LineName{1, j - b.column_begin}})
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

/// Draws two rows and two columns, the same for the same block; with `extremes` three of each, and the others. Without
/// values.
template <Scalar T>
SampledLines<T> draw_lines(const ClusterTree& rows, const ClusterTree& columns, const Block& b, bool extremes) {
  SampledLines<T> lines;
  Hash hash{std::uint64_t(b.row_begin) * 0x9e3779b97f4a7c15u + std::uint64_t(b.column_begin)};
  for (int side = 0; side < 2; ++side)
    for (int k = 0; k < (extremes ? 3 : 2); ++k)
      lines.names.push_back({side, hash.below(side == 0 ? b.rows() : b.columns())});
  lines.random = lines.names.size();
  if (extremes) {
    add_extremes(rows, columns, b, true, lines.names);
    add_extremes(rows, columns, b, false, lines.names);
  }
  std::size_t count = 0;
  for (const LineName& name : lines.names) count += std::size_t(name.side == 0 ? b.columns() : b.rows());
  lines.values.resize(count);
  return lines;
}

/// Compares lines with a block of low rank; their values become errors.
template <Scalar T>
LineErrors compare_lines(const Compressed<T>& made, SampledLines<T>& lines) {
  LineErrors found;
  std::vector<double> each;
  std::vector<T> terms(static_cast<std::size_t>(made.rank));
  T* line = lines.values.data();
  for (const auto& [side, index] : lines.names) {
    const Local length = side == 0 ? made.columns : made.rows;
    for (Local l = 0; l < made.rank; ++l) {
      const auto sigma = made.sigma[std::size_t(l)];
      // In the conjugate for rows, so that V itself is subtracted.
      terms[std::size_t(l)] = side == 0 ? T(conj(made.u[std::size_t(index) + std::size_t(l) * made.rows]) * sigma)
                                        : T(conj(made.v[std::size_t(index) + std::size_t(l) * made.columns]) * sigma);
    }
    if (side == 0)
      for (Local k = 0; k < length; ++k) line[k] = conj(line[k]);
    subtract(side == 0 ? made.v.data() : made.u.data(), length, made.rank, terms.data(), line);
    const double whole2 = norm2(line, length) * (side == 0 ? made.rows : made.columns);
    each.push_back(whole2);
    found.worst2 = std::max(found.worst2, whole2);
    line += length;
  }
  const auto count = double(lines.random);
  for (std::size_t k = 0; k < lines.random; ++k) found.estimate2 += each[k] / count;
  for (std::size_t k = 0; k < lines.random; ++k)
    found.spread2 += (each[k] - found.estimate2) * (each[k] - found.estimate2) / (count * (count - 1));
  return found;
}

}  // namespace tacit::op::detail
