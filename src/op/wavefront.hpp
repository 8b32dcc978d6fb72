// Wavefront: several levels of work on the rows of a matrix, block of rows after block of rows, so that what one level
// makes is still in cache when the next one reads it. Alappat, Hager, Schenk, Wellein (2023), doi
// 10.1109/TPDS.2022.3223512 (for matrix powers).
//
//   wavefront(A, levels, work_space, [&](int level, int block) { .. });
#pragma once

#include <tacit/op/local_matrix.hpp>

#include <algorithm>
#include <span>
#include <vector>

namespace tacit::op {

/// Blocks [begin, end) of the rows of a matrix.
struct BlockRange {
  int begin, end;
  int count() const { return end - begin; }
};

/// The blocks in which level 0, 1 .. `levels` before the last have to be done, so that the last can be done in `own`:
/// those that these rows depend on after so many products.
template <Scalar T>
std::vector<BlockRange> blocks_around(const LocalMatrix<T>& A, BlockRange own, int levels) {
  std::vector<BlockRange> range{own};
  for (int k = 0; k < levels; ++k) {
    const auto [begin, end] = range.back();
    range.push_back(own.count() ? BlockRange{std::min(begin, A.lowest(begin)), std::max(end, A.needs(end - 1))} : own);
  }
  return range;
}

/// Calls f(k, b) for each level k and each block b of range[k], in an order in which level k of block b comes after
/// level k - 1 of all blocks that hold a row that b reads, or that read a row of b: level k may overwrite what level k
/// - 2 made in these rows. `next` is work space.
template <Scalar T, class F>
void wavefront(const LocalMatrix<T>& A, std::span<const BlockRange> range, std::vector<int>& next, F&& f) {
  const int levels = int(range.size());
  next.clear();
  for (const auto& r : range) next.push_back(r.begin);
  for (int done = 0; done < levels;) {
    for (int k = done; k < levels; ++k) {
      int& b = next[std::size_t(k)];
      const auto ready = [&] {
        const auto below = std::size_t(k - 1);
        return k == 0 || std::min(A.needs(b), range[below].end) <= next[below];
      };
      // The lowest level that is not complete advances by one block, the others as far as they can.
      for (bool once = true; b < range[std::size_t(k)].end && (k == done ? once : ready()); once = false) f(k, b++);
    }
    while (done < levels && next[std::size_t(done)] == range[std::size_t(done)].end) ++done;
  }
}

/// The same for all blocks in each of the levels.
template <Scalar T, class F>
void wavefront(const LocalMatrix<T>& A, int levels, std::vector<int>& next, F&& f) {
  const std::vector<BlockRange> all(std::size_t(levels), BlockRange{0, A.blocks()});
  wavefront(A, std::span<const BlockRange>(all), next, f);
}

}  // namespace tacit::op
