// Entries on their way into rows.
#pragma once

#include <tacit/base/types.hpp>
#include <tacit/exec/parallel.hpp>

#include <algorithm>
#include <atomic>
#include <tuple>
#include <utility>
#include <vector>

namespace tacit::op {

/// An entry as ranks send it.
template <Scalar T>
struct Entry {
  Global row, column;
  T value;
};

/// Sorts rows [start[i], start[i + 1]) by their columns and adds duplicates in their order, in place, by all threads.
/// Returns the number of entries that are left, at the beginning of the arrays.
template <Scalar T, class Index>
Global sort_entries(std::vector<Global>& start, Index* c, T* v) {
  const std::size_t rows = start.size() - 1;
  std::atomic<bool> twice = false;
  exec::parallel_claims(rows, 4096, rows > 4096, [&](exec::Claims& claims) {
    std::vector<std::pair<Index, T>> sorted;
    bool repeats = false;
    claims.each([&](std::size_t r) {
      const Global begin = start[r], end = start[r + 1];
      if (!std::is_sorted(c + begin, c + end)) {
        sorted.clear();
        for (Global k = begin; k < end; ++k) sorted.emplace_back(c[k], v[k]);
        std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
        for (Global k = begin; k < end; ++k) std::tie(c[k], v[k]) = sorted[std::size_t(k - begin)];
      }
      for (Global k = begin + 1; k < end; ++k) repeats |= c[k - 1] == c[k];
    });
    if (repeats) twice = true;
  });
  if (!twice) return start.back();
  Global begin = 0, kept = 0;
  for (std::size_t r = 0; r < rows; ++r) {
    const Global end = start[r + 1], first = kept;
    for (Global k = begin; k < end; ++k) {
      if (kept > first && c[kept - 1] == c[k]) v[kept - 1] += v[k];
      else c[kept] = c[k], v[kept] = v[k], ++kept;
    }
    start[r + 1] = kept;
    begin = end;
  }
  return kept;
}

}  // namespace tacit::op
