#include "triangular.hpp"

#include "add_product.hpp"

#include <tacit/exec/parallel.hpp>
#include "base/registers.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

namespace tacit::precond {
namespace {

// Slices in a level, on average, from which on a parallel loop for each level pays.
constexpr Local wide_level = 4096;
// Rows of a window: 128 KB of a vector.
constexpr Local window_rows = 16384;
// Measured in processor cycles: a row that waits for the one before it, each of its entries; a slice, each of its
// steps.
constexpr double row_cost = 16, entry_cost = 2, slice_cost = 24, step_cost = 12;
// Rows from which on four sums side by side are faster than one, in which every entry waits for the previous one.
constexpr Global long_row = 8;
// Bytes that entries of slices are fetched ahead of their use.
constexpr std::ptrdiff_t ahead = 2048;
// Columns that are summed side by side.
constexpr int together = 8;
// What rows are filled up with: the sum less this times x_i keeps the sign of a zero, where a row has no entries and
// b_i is -0.
template <Scalar T>
constexpr T filling = T(-real_t<T>(0));

/// a b, in all solves with the same bits.
template <Scalar T>
[[gnu::always_inline]] inline T product(T a, T b) {
  if constexpr (is_complex<T>) return add_product(a, b, T(0));
  else return a * b;  // a sum with 0 would lose the sign of -0
}

/// The level of each row, counted anew in each window of so many rows; returns the first level of each window, and
/// their number.
template <Scalar T>
std::vector<Local> find_levels(const op::LocalRows<T>& lower, const op::LocalRows<T>* upper, Local window,
                               std::vector<Local>& level) {
  const Local n = lower.count();
  level.assign(std::size_t(n), 0);
  std::vector<Local> first{0};
  for (Local begin = 0, end = 0; begin < n; begin = end) {
    end = n - begin > window ? begin + window : n;
    Local levels = 0;
    for (Local i = begin; i < end; ++i) {
      Local l = level[i];
      for (Global k = lower.start[i]; k < lower.start[i + 1]; ++k)
        if (const Local j = lower.column[k]; j >= begin) l = std::max(l, level[j] + 1);
      level[i] = l;
      levels = std::max(levels, l + 1);
      // L^H has nothing to add.
      for (Global k = upper ? upper->start[i] : 0; upper && k < upper->start[i + 1]; ++k)
        if (const Local j = upper->column[k]; j < end) level[j] = std::max(level[j], l + 1);
    }
    for (Local i = begin; i < end; ++i) level[i] += first.back();
    first.push_back(first.back() + levels);
  }
  return first;
}

template <Scalar T>
Global length(const op::LocalRows<T>& a, Local i) {
  return a.start[i + 1] - a.start[i];
}

/// The lengths of the rows of a^H.
template <Scalar T>
std::vector<Local> column_lengths(const op::LocalRows<T>& a) {
  std::vector<Local> count(std::size_t(a.columns), 0);
  for (const Local c : a.column) ++count[std::size_t(c)];
  return count;
}

}  // namespace

template <Scalar T>
std::shared_ptr<const LevelOrder> level_order(const op::LocalRows<T>& lower, const op::LocalRows<T>* upper) {
  const Local n = lower.count();
  std::vector<Local> level;
  auto windows = find_levels(lower, upper, n, level);
  // Levels of all rows are for threads; one thread is faster in windows.
  if (n > window_rows && n / LevelOrder::lanes / windows.back() < wide_level)
    windows = find_levels(lower, upper, window_rows, level);
  const Local levels = windows.back();
  if (n == 0 || n / 2 < levels) return nullptr;
  std::vector<Local> start(std::size_t(levels) + 1, 0), order(std::size_t(n), 0);
  for (Local i = 0; i < n; ++i) ++start[std::size_t(level[i]) + 1];
  std::partial_sum(start.begin(), start.end(), start.begin());
  {
    std::vector<Local> next(start.begin(), start.end() - 1);
    for (Local i = 0; i < n; ++i) order[std::size_t(next[level[i]]++)] = i;
  }
  std::vector<Local>().swap(level);

  LevelOrder found;
  double steps = 0;
  found.level_start.push_back(0);
  const std::vector<Local> columns = upper ? std::vector<Local>() : column_lengths(lower);
  const auto upper_length = [&](Local i) { return upper ? length(*upper, i) : Global(columns[std::size_t(i)]); };
  found.row.reserve(std::size_t(n) + std::size_t(levels) * (LevelOrder::lanes - 1));
  for (Local l = 0; l < levels; ++l) {
    const auto begin = order.begin() + start[l], end = order.begin() + start[std::size_t(l) + 1];
    // Rows of a slice should have the same length.
    const auto longer = [&](Local a, Local b) {
      return std::pair(length(lower, a), upper_length(a)) > std::pair(length(lower, b), upper_length(b));
    };
    if (!std::is_sorted(begin, end, longer)) std::stable_sort(begin, end, longer);
    for (auto s = begin; s < end;) {
      const auto last = std::min(s + LevelOrder::lanes, end);
      Global most = 0;
      for (auto i = s; i < last; ++i) most = std::max(most, upper_length(*i));
      steps += double(length(lower, *s) + most);
      found.row.insert(found.row.end(), s, last);
      s = last;
    }
    while (found.row.size() % LevelOrder::lanes > 0) found.row.push_back(found.row.back());
    found.level_start.push_back(Local(found.row.size() / LevelOrder::lanes));
  }
  for (const Local l : windows) found.window_start.push_back(found.level_start[std::size_t(l)]);
  const double entries = double(lower.column.size() + (upper ? upper->column.size() : lower.column.size())),
               slices = 2.0 * found.level_start.back();
  if (slices * slice_cost + steps * step_cost > 2.0 * n * row_cost + entries * entry_cost) return nullptr;
  return std::make_shared<const LevelOrder>(std::move(found));
}

template <Scalar T>
InverseDiagonal<T> placed(const std::vector<T>& by_row, const LevelOrder* order) {
  const std::size_t n = order ? order->row.size() : by_row.size();
  const std::shared_ptr<T[]> to(new T[n]);
  for (std::size_t p = 0; p < n; ++p) to[p] = by_row[std::size_t(order ? order->row[p] : Local(p))];
  return to;
}

template <Scalar T>
Triangular<T>::Triangular(op::LocalRows<T> strict, InverseDiagonal<T> inverse, bool lower,
                          std::shared_ptr<const LevelOrder> order, bool may_use_threads)
    : lower_(lower),
      count_(strict.count()),
      entries_(Global(strict.column.size())),
      inverse_(std::move(inverse)),
      rows_(std::move(strict)),
      order_(std::move(order)) {
  // The row that was solved last comes last in a sum.
  if (!lower_)
    for (Local i = 0; i < count_; ++i) {
      std::reverse(rows_.column.begin() + rows_.start[i], rows_.column.begin() + rows_.start[i + 1]);
      std::reverse(rows_.value.begin() + rows_.start[i], rows_.value.begin() + rows_.start[i + 1]);
    }
  if (!sliced()) return;
  store_slices();
  rows_ = {};
  find_threads(may_use_threads);
}

template <Scalar T>
Triangular<T> Triangular<T>::adjoint_of(const op::LocalRows<T>& lower, InverseDiagonal<T> inverse,
                                        std::shared_ptr<const LevelOrder> order, bool may_use_threads) {
  if (!order) return {op::adjoint(lower), std::move(inverse), false, nullptr, may_use_threads};
  Triangular upper;
  upper.lower_ = false;
  upper.count_ = lower.count();
  upper.entries_ = Global(lower.column.size());
  upper.inverse_ = std::move(inverse);
  upper.order_ = std::move(order);
  upper.store_adjoint_slices(lower);
  upper.find_threads(may_use_threads);
  return upper;
}

template <Scalar T>
void Triangular<T>::find_threads(bool may_use_threads) {
  const auto levels = Local(order_->level_start.size()) - 1;
  threads_ = may_use_threads && order_->level_start.back() / levels >= wide_level;
}

/// Makes room for slices of rows of these lengths, whose entries couple the rows of `pattern`.
template <Scalar T>
template <class Length>
void Triangular<T>::begin_slices(const op::LocalRows<T>& pattern, const Length& length) {
  const auto& row = order_->row;
  slice_start_.reserve(row.size() / lanes + 1);
  slice_start_.push_back(0);
  for (std::size_t first = 0; first < row.size(); first += lanes) {
    Global steps = 0;
    for (std::size_t p = first; p < first + lanes; ++p) steps = std::max<Global>(steps, length(row[p]));
    slice_start_.push_back(slice_start_.back() + steps);
  }
  Local farthest = 0;
  for (Local i = 0; i < count_; ++i)
    for (Global k = pattern.start[i]; k < pattern.start[i + 1]; ++k)
      farthest = std::max(farthest, std::abs(pattern.column[k] - i));
  const auto stored = std::size_t(slice_start_.back()) * lanes;
  if (farthest <= INT16_MAX) offset_ = Buffer<std::int16_t>(stored);
  else column_ = Buffer<Local>(stored);
  value_ = Buffer<T>(stored);
}

template <Scalar T>
void Triangular<T>::put(std::size_t at, Local row, Local column, T value) {
  if (offset_.size()) offset_[at] = std::int16_t(column - row);
  else column_[at] = column;
  value_[at] = value;
}

template <Scalar T>
void Triangular<T>::store_slices() {
  const auto& row = order_->row;
  begin_slices(rows_, [&](Local i) { return length(rows_, i); });
  std::size_t at = 0;
  for (std::size_t s = 0; s + 1 < slice_start_.size(); ++s)
    for (Global e = 0; e < slice_start_[s + 1] - slice_start_[s]; ++e)
      for (std::size_t p = s * lanes; p < (s + 1) * lanes; ++p, ++at) {
        const Local i = row[p];
        const bool there = e < length(rows_, i);
        const Global k = rows_.start[i] + e;
        put(at, i, there ? rows_.column[k] : i, there ? rows_.value[k] : filling<T>);
      }
}

/// Stores the slices of `of`^H, its rows reversed as those of an upper factor are.
template <Scalar T>
void Triangular<T>::store_adjoint_slices(const op::LocalRows<T>& of) {
  const auto& row = order_->row;
  std::vector<Local> left = column_lengths(of);  // entries of each row of the adjoint that are still to come
  begin_slices(of, [&](Local i) { return left[std::size_t(i)]; });
  std::vector<Local> place(std::size_t(count_), 0);  // of each row, before the lanes that it fills
  for (std::size_t p = row.size(); p-- > 0;) place[std::size_t(row[p])] = Local(p);
  for (std::size_t s = 0; s + 1 < slice_start_.size(); ++s)
    for (auto k = std::size_t(slice_start_[s]) * lanes; k < std::size_t(slice_start_[s + 1]) * lanes; ++k)
      put(k, row[s * lanes + k % lanes], row[s * lanes + k % lanes], filling<T>);
  for (Local i = 0; i < count_; ++i)
    for (Global k = of.start[i]; k < of.start[i + 1]; ++k) {
      const Local j = of.column[k];
      const Local e = --left[std::size_t(j)];
      for (auto p = std::size_t(place[std::size_t(j)]); p < row.size() && row[p] == j; ++p)
        put(std::size_t(slice_start_[p / lanes] + e) * lanes + p % lanes, j, i, conj(of.value[k]));
    }
}

template <Scalar T>
op::LocalRows<T> Triangular<T>::strict() const {
  op::LocalRows<T> all;
  all.columns = count_;
  std::vector<std::size_t> place(std::size_t(count_), 0);
  for (std::size_t p = 0; sliced() && p < order_->row.size(); ++p) place[std::size_t(order_->row[p])] = p;
  for (Local i = 0; i < count_; ++i) {
    const auto from = std::ptrdiff_t(all.column.size());
    const auto add = [&](Local j, T v) { all.column.push_back(j), all.value.push_back(v); };
    if (sliced()) {
      const std::size_t p = place[std::size_t(i)], s = p / lanes;
      for (auto k = std::size_t(slice_start_[s]) * lanes + p % lanes; k < std::size_t(slice_start_[s + 1]) * lanes;
           k += lanes)
        if (const Local j = column_at(k, i); j != i) add(j, value_[k]);
    } else {
      for (Global k = rows_.start[i]; k < rows_.start[i + 1]; ++k) add(rows_.column[k], rows_.value[k]);
    }
    if (!lower_)
      std::reverse(all.column.begin() + from, all.column.end()),
          std::reverse(all.value.begin() + from, all.value.end());
    all.start.push_back(Global(all.column.size()));
  }
  return all;
}

template <Scalar T>
std::vector<T> Triangular<T>::inverse() const {
  if (!inverse_) return {};
  if (!sliced()) return {inverse_.get(), inverse_.get() + count_};
  std::vector<T> by_row(std::size_t(count_), T(1));
  for (std::size_t p = 0; p < order_->row.size(); ++p)
    by_row[std::size_t(order_->row[p])] = inverse_[std::ptrdiff_t(p)];
  return by_row;
}

template <Scalar T>
template <bool relative, class Index>
inline void Triangular<T>::slice(std::size_t s, Local soon, const Index* column, const T* b, T* x) const {
  // Levels go through a window in more streams than processors follow: the next one is fetched line by line.
  __builtin_prefetch(b + soon);
  if (b != x) __builtin_prefetch(x + soon, 1);
  const Local* const row = order_->row.data() + s * lanes;
  column += slice_start_[s] * lanes;
  const T* value = value_.data() + slice_start_[s] * lanes;
  const T* const inverse = inverse_ ? inverse_.get() + s * lanes : nullptr;
  const auto steps = slice_start_[s + 1] - slice_start_[s];
  const auto at = [&](int l) { return x[relative ? row[l] + column[l] : Local(column[l])]; };
  if (b != x)  // zeros that fill up rows are multiplied by their own element
#pragma GCC unroll 8
    for (int l = 0; l < lanes; ++l) x[row[l]] = b[row[l]];
  if constexpr (is_complex<T>) {
    std::array<T, lanes> sum;
    for (int l = 0; l < lanes; ++l) sum[l] = b[row[l]];
    for (Global e = 0; e < steps; ++e, column += lanes, value += lanes)
#pragma GCC unroll 8
      for (int l = 0; l < lanes; ++l) sum[l] = add_product(-value[l], at(l), sum[l]);
    for (int l = 0; l < lanes; ++l) x[row[l]] = inverse ? product(sum[l], inverse[l]) : sum[l];
  } else {
    using V = Registers<T, lanes>;
    V sum = V::each_lane([&](int l) { return b[row[l]]; });
    for (Global e = 0; e < steps; ++e, column += lanes, value += lanes) {
      __builtin_prefetch(reinterpret_cast<const char*>(value) + (lower_ ? ahead : -ahead));
      sum = mul_add(-V::load(value), V::each_lane(at), sum);
    }
    if (inverse) sum = sum * V::load(inverse);
#pragma GCC unroll 8
    for (int l = 0; l < lanes; ++l) x[row[l]] = sum[l];
  }
}

template <Scalar T>
void Triangular<T>::slice(std::size_t s, const T* b, T* x, int columns) const {
  const auto from = std::size_t(slice_start_[s]) * lanes, to = std::size_t(slice_start_[s + 1]) * lanes;
  for (std::size_t p = s * lanes; p < (s + 1) * lanes; ++p) {
    if (order_->fills(p)) break;
    const Local i = order_->row[p];
    T* const own = x + std::size_t(i) * std::size_t(columns);
    if (b != x) std::copy_n(b + std::size_t(i) * std::size_t(columns), columns, own);
    for (std::size_t k = from + p % lanes; k < to; k += lanes) {
      const Local j = column_at(k, i);
      if (j == i) break;  // the rest of the row is filled up
      const T* const other = x + std::size_t(j) * std::size_t(columns);
      for (int c = 0; c < columns; ++c) own[c] = add_product(-value_[k], other[c], own[c]);
    }
    for (int c = 0; inverse_ && c < columns; ++c) own[c] = product(own[c], inverse_[std::ptrdiff_t(p)]);
  }
}

template <Scalar T>
inline void Triangular<T>::row(Local i, const T* b, T* x) const {
  const Local* const column = rows_.column.data();
  const T* const value = rows_.value.data();
  Global k = rows_.start[i];
  const Global end = rows_.start[i + 1];
  T sum = b[i];
  if (end - k >= long_row) {
    std::array<T, 4> part{};
    for (; k + 4 < end; k += 4) {
#pragma GCC unroll 4
      for (int p = 0; p < 4; ++p) part[p] = add_product(value[k + p], x[column[k + p]], part[p]);
    }
    sum -= (part[0] + part[1]) + (part[2] + part[3]);
  }
  for (; k < end; ++k) sum = add_product(-value[k], x[column[k]], sum);
  x[i] = inverse_ ? product(sum, inverse_[i]) : sum;
}

template <Scalar T>
void Triangular<T>::row(Local i, const T* b, T* x, int columns) const {
  const Global end = rows_.start[i + 1];
  if (b != x)
    std::copy_n(b + std::size_t(i) * std::size_t(columns), columns, x + std::size_t(i) * std::size_t(columns));
  for (int first = 0; first < columns; first += together) {
    const int some = std::min(together, columns - first);
    const auto at = [&](Local j) { return x + std::size_t(j) * std::size_t(columns) + first; };
    T* const own = at(i);
    Global k = rows_.start[i];
    if (end - k >= long_row) {
      std::array<std::array<T, together>, 4> part{};
      for (; k + 4 < end; k += 4)
        for (int p = 0; p < 4; ++p) {
          const T* const other = at(rows_.column[k + p]);
          for (int c = 0; c < some; ++c) part[p][c] = add_product(rows_.value[k + p], other[c], part[p][c]);
        }
      for (int c = 0; c < some; ++c) own[c] -= (part[0][c] + part[1][c]) + (part[2][c] + part[3][c]);
    }
    for (; k < end; ++k) {
      const T* const other = at(rows_.column[k]);
      for (int c = 0; c < some; ++c) own[c] = add_product(-rows_.value[k], other[c], own[c]);
    }
    for (int c = 0; inverse_ && c < some; ++c) own[c] = product(own[c], inverse_[i]);
  }
}

/// f(s, i) for all slices, in an order in which each can be solved; i: a row to fetch meanwhile. One thread goes
/// through the cache lines of the next window.
template <Scalar T>
template <class F>
void Triangular<T>::each_slice(const F& f) const {
  const auto& start = order_->level_start;
  if (threads_ && exec::threads_now() > 1) {
    for (std::size_t l = 0; l + 1 < start.size(); ++l) {
      const std::size_t level = lower_ ? l : start.size() - 2 - l;
      exec::parallel_for(std::size_t(start[level + 1] - start[level]), true, [&](std::size_t s) {
        const std::size_t at = std::size_t(start[level]) + s;
        f(at, order_->row[at * lanes]);  // threads that fetched one line to write would wait for it
      });
    }
    return;
  }
  const auto& window = order_->window_start;
  for (std::size_t w = 0; w + 1 < window.size(); ++w) {
    const std::size_t now = lower_ ? w : window.size() - 2 - w;
    const Local begin = window[now], slices = window[now + 1] - begin;
    for (Local k = 0; k < slices; ++k) {
      const Global edge = Global(lower_ ? w + 1 : now) * window_rows,
                   row = lower_ ? edge + k * lanes : edge - 1 - k * lanes;
      f(std::size_t(lower_ ? begin + k : begin + slices - 1 - k), Local(std::clamp<Global>(row, 0, count_ - 1)));
    }
  }
}

template <Scalar T>
void Triangular<T>::solve(const T* b, T* x, int columns) const {
  const auto each_row = [&](const auto& f) {
    if (lower_)
      for (Local i = 0; i < count_; ++i) f(i);
    else
      for (Local i = count_; i-- > 0;) f(i);
  };
  if (sliced() && columns > 1) each_slice([&](std::size_t s, Local) { slice(s, b, x, columns); });
  else if (sliced() && offset_.size())
    each_slice([&](std::size_t s, Local i) { slice<true>(s, i, offset_.data(), b, x); });
  else if (sliced()) each_slice([&](std::size_t s, Local i) { slice<false>(s, i, column_.data(), b, x); });
  else if (columns == 1) each_row([&](Local i) { row(i, b, x); });
  else each_row([&](Local i) { row(i, b, x, columns); });
}

template <Scalar T>
double Triangular<T>::bytes() const {
  const double entries = double(value_.size() + rows_.column.size());
  return entries * sizeof(T) + double(column_.size() + rows_.column.size()) * sizeof(Local) +
         double(offset_.size()) * sizeof(std::int16_t) +
         double(slice_start_.size() + rows_.start.size()) * sizeof(Global) +
         (sliced() ? double(order_->row.size()) * sizeof(Local) : 0) +
         (inverse_ ? double(sliced() ? order_->row.size() : std::size_t(count_)) * sizeof(T) : 0);
}

#define TACIT_INSTANTIATE(T)                                                       \
  template class Triangular<T>;                                                    \
  template InverseDiagonal<T> placed<T>(const std::vector<T>&, const LevelOrder*); \
  template std::shared_ptr<const LevelOrder> level_order<T>(const op::LocalRows<T>&, const op::LocalRows<T>*);
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::precond
