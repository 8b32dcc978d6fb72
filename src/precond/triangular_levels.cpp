#include "triangular_levels.hpp"

#include <tacit/base/error.hpp>
#include <tacit/precond/triangular_on_device.hpp>

#include <algorithm>
#include <numeric>
#include <utility>

namespace tacit::precond {
namespace {

/// Threads that read entries side by side.
constexpr Local warp = 32;
/// Entries of a row, on average, from which on several threads share it.
constexpr Global long_row = 8;

template <Scalar T>
Local length(const op::LocalRows<T>& a, Local i) {
  return Local(a.start[i + 1] - a.start[i]);
}

/// The level of each row; returns their number.
template <Scalar T>
Local find_levels(const op::LocalRows<T>& strict, bool is_upper, std::vector<Local>& level) {
  const Local n = strict.count();
  level.assign(std::size_t(n), 0);
  Local levels = 0;
  for (Local step = 0; step < n; ++step) {
    const Local i = is_upper ? n - 1 - step : step;
    Local l = 0;
    for (Global k = strict.start[i]; k < strict.start[i + 1]; ++k) l = std::max(l, level[strict.column[k]] + 1);
    level[i] = l;
    levels = std::max(levels, l + 1);
  }
  return levels;
}

}  // namespace

std::vector<LevelRun> level_runs(std::span<const Local> level_row, Local rows_at_once) {
  std::vector<LevelRun> runs;
  bool joins = false;  // the last run may take another level
  for (Local level = 0; level + 1 < Local(level_row.size()); ++level) {
    const Local rows = level_row[level + 1] - level_row[level];
    const bool is_narrow = rows <= 2 * rows_at_once;
    if (is_narrow && joins) ++runs.back().last;
    else runs.push_back({level, level + 1, is_narrow ? 1 : (rows + rows_at_once - 1) / rows_at_once});
    joins = is_narrow;
  }
  return runs;
}

/// The rows of a factor in the order of their levels, which begin at `first_level`, and the position of each row.
template <Scalar T>
struct TriangularLevels<T>::Order {
  Local first_level;
  std::vector<Local> row, position;
};

template <Scalar T>
typename TriangularLevels<T>::Order TriangularLevels<T>::add_levels(const op::LocalRows<T>& strict, bool is_upper) {
  const Local n = strict.count(), slice_rows = warp / lanes, before = level_row.back();
  std::vector<Local> level;
  const Local count = find_levels(strict, is_upper, level);
  std::vector<Local> start(std::size_t(count) + 1, 0);
  for (const Local l : level) ++start[std::size_t(l) + 1];
  std::partial_sum(start.begin(), start.end(), start.begin());
  Order order{levels(), std::vector<Local>(std::size_t(n)), std::vector<Local>(std::size_t(n))};
  {
    std::vector<Local> next(start.begin(), start.end() - 1);
    for (Local i = 0; i < n; ++i) order.row[std::size_t(next[level[i]]++)] = i;
  }
  for (Local l = 0; l < count; ++l) {
    const auto begin = order.row.begin() + start[l], end = order.row.begin() + start[std::size_t(l) + 1];
    // Rows of a slice should have the same length.
    const auto longer = [&](Local a, Local b) { return length(strict, a) > length(strict, b); };
    if (!std::is_sorted(begin, end, longer)) std::stable_sort(begin, end, longer);
    for (auto first = begin; first < end; first += std::min<std::ptrdiff_t>(slice_rows, end - first)) {
      const auto rows = std::min<std::ptrdiff_t>(slice_rows, end - first);
      const Global rounds = (length(strict, *first) + lanes - 1) / lanes;
      slice_begin.push_back(slice_begin.back() + rounds * rows * lanes);
    }
    level_row.push_back(before + start[std::size_t(l) + 1]);
    level_slice.push_back(Local(slice_begin.size()) - 1);
  }
  for (Local p = 0; p < n; ++p) order.position[std::size_t(order.row[p])] = before + p;
  return order;
}

/// Stores the entries of a factor in the slices of its levels.
template <Scalar T>
void TriangularLevels<T>::fill(const op::LocalRows<T>& strict, const Order& order) {
  const Local slice_rows = warp / lanes, before = level_row[order.first_level];
  Local level = order.first_level;
  for (Local p = 0; p < strict.count(); ++p) {
    while (level_row[std::size_t(level) + 1] <= before + p) ++level;
    const Local begin = level_row[level], r = (before + p - begin) % slice_rows;
    const Local s = level_slice[level] + (before + p - begin) / slice_rows;
    const Local rows = std::min(slice_rows, level_row[std::size_t(level) + 1] - (before + p - r));
    const Local i = order.row[p];
    for (Global j = 0; j < length(strict, i); ++j) {
      const Global k = strict.start[i] + j;
      const auto at = std::size_t(slice_begin[s] + j / lanes * rows * lanes + r * lanes + j % lanes);
      column[at] = order.position[std::size_t(strict.column[k])];
      value[at] = strict.value[k];
    }
  }
}

template <Scalar T>
TriangularLevels<T>::TriangularLevels(const TriangularFactors<T>& f) : rows(f.lower.count()) {
  require(rows < Local(1) << 30, "factors of ", rows, " rows on a rank; fewer than 2^30 fit the indices of a device");
  const auto n = std::size_t(rows);
  const auto entries = Global(f.lower.column.size() + f.upper.column.size());
  lanes = entries >= 2 * long_row * Global(rows) && rows > 0 ? lanes_of_long_rows : 1;
  const Order lower = add_levels(f.lower, false), upper = add_levels(f.upper, true);
  column.resize(std::size_t(slice_begin.back()), Local(-1));
  value.resize(std::size_t(slice_begin.back()), T(0));
  fill(f.lower, lower), fill(f.upper, upper);

  const bool scales_lower = !f.lower_inverse.empty(), scales_upper = !f.upper_inverse.empty();
  scaled_begin = scales_lower ? 0 : rows, scaled_end = scales_upper ? 2 * rows : rows;
  for (const Local i : lower.row)
    if (scales_lower) inverse.push_back(f.lower_inverse[std::size_t(i)]);
  for (const Local i : upper.row) {
    if (scales_upper) inverse.push_back(f.upper_inverse[std::size_t(i)]);
    from.push_back(lower.position[std::size_t(i)]);
  }
  for (const Local i : lower.row) {
    row.push_back(f.row[std::size_t(i)]);
    if (!f.row_exponent.empty()) before.push_back(f.row_exponent[std::size_t(row.back())]);
  }
  place.resize(n);
  for (std::size_t i = 0; i < n; ++i) place[std::size_t(f.column[i])] = upper.position[i];
  after = f.column_exponent;
}

#define TACIT_INSTANTIATE(T) template struct TriangularLevels<T>;
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::precond
