// Whether the stored entries are those of a Hermitian matrix.
#include "op/hermitian.hpp"

#include "storage.hpp"

#include <atomic>
#include <bit>
#include <cmath>
#include <cstddef>
#include <vector>

namespace tacit::op {

namespace {

/// The first of n ascending numbers that is not below `wanted`.
template <class F>
Global search(Global n, Global wanted, F&& number) {
  Global from = 0;
  while (n > 0) {
    const Global half = n / 2;
    if (Global(number(from + half)) < wanted) from += half + 1, n -= half + 1;
    else n = half;
  }
  return from;
}

}  // namespace

template <Scalar T, Memory M>
Global LocalMatrix<T, M>::Storage::find_block(Local r, Local c) const {
  const Global first = start[r], n = start[r + 1] - first;
  const Global k = search(n, c, [&](Global e) { return column_of(r, first + e); });
  return k < n && column_of(r, first + k) == c ? first + k : nowhere;
}

template <Scalar T, Memory M>
Global LocalMatrix<T, M>::Storage::find(Local row, Local of) const {
  if (format == Format::csr) {
    const Global first = start[row], n = start[row + 1] - first;
    const Global k = search(n, of, [&](Global i) { return column_of(row, first + i); });
    return k < n && column_of(row, first + k) == of ? first + k : nowhere;
  }
  if (format == Format::sell) {
    const Local q = row / slice, l = row - q * slice;
    const Slice& in = slices[std::size_t(q)];
    const Local steps = Local(in.steps);
    const Global v = in.first_value() + l;
    if (in.is_diagonal) {
      const Global d = in.pattern;
      const Global j = search(steps, of - row, [&](Global i) { return diagonal[d + i]; });
      return j < steps && diagonal[d + j] == of - row && (mask[d + j] >> l & 1) ? v + j * slice : nowhere;
    }
    const Global at = in.first_index() + l, n = width[std::size_t(row)];
    const auto column_at = [&](Global j) { return column_of(q * slice, at + j * slice); };
    const Global j = search(n, of, column_at);
    return j < n && column_at(j) == of ? v + j * slice : nowhere;
  }
  const Local b = grid.b, r = grid.block_row(row);
  if (r >= 0 && of >= grid.column) {
    const Local i = row - grid.first_row(r), c = (of - grid.column) / b, j = (of - grid.column) % b;
    if (const Global k = find_block(r, c); k != nowhere) return (k * b + j) * b + i;
  }
  const Local p = rest.place(row);
  if (p == rest.count() || rest.row(p) != row) return nowhere;
  const auto columns_outside = rest.columns_of(p);
  const auto c = std::lower_bound(columns_outside.begin(), columns_outside.end(), of);
  if (c == columns_outside.end() || *c != of) return nowhere;
  return ~(rest.values_of(p).data() - rest.values() + (c - columns_outside.begin()));
}

namespace {

/// Whether n entries are the conjugates of these.
template <class T, class V>
inline bool are_conjugates(const V* a, const V* mirror, int n) {
  bool same = true;
  for (int i = 0; i < n; ++i) same &= widen<T>(a[i]) == conj(widen<T>(mirror[i]));
  return same;
}

/// Brings to the cache where find() looks for entries of a row: first where the row begins, later (`entries`) these.
template <class Storage>
void fetch_row(const Storage& s, Local row, Local slice, bool entries) {
  Global index = 0, value = 0, stride = 1;
  if (s.format == Format::csr) {
    if (!entries) return __builtin_prefetch(s.start.data() + row);
    index = value = s.start[std::size_t(row)];
  } else if (s.format == Format::sell) {
    const auto q = std::size_t(row / slice);
    if (!entries) {
      if (!s.width.empty()) __builtin_prefetch(s.width.data() + row);
      return __builtin_prefetch(s.slices.data() + q);
    }
    if (s.slices[q].is_diagonal) return;
    index = s.slices[q].first_index(), value = s.slices[q].first_value(), stride = slice;
  } else {
    return;
  }
  constexpr int some = 8;  // entries of a row
  const auto fetch = [&](const auto* from) {
    constexpr Global line = 64 / Global(sizeof(*from));
    for (Global k = 0; k < some * stride; k += line) __builtin_prefetch(from + k);
  };
  if (s.narrow) fetch(s.offset.data() + index);
  else fetch(s.column.data() + index);
  s.with_values([&](const auto* from) { fetch(from + value); });
}

/// Whether a = a_ij and b = conj(a_ji) are equal but for rounding (mirror_each_other()), or equal, where no diagonal is
/// given.
template <class T>
bool agree(T a, T b, std::span<const T> diagonal, Local i, Local j) {
  if (a == b || diagonal.empty()) return a == b;
  const auto size = [&](Local of) { return double(std::abs(diagonal[std::size_t(of)])); };
  return mirror_each_other(a, b, size(i), size(j));
}

/// An entry that looks for its mirror entry.
template <class T>
struct Seeker {
  Local row, column;
  T value;
};

}  // namespace

/// A slice that is stored by diagonals: an entry d right of the diagonal has its mirror entry on the diagonal -d of at
/// most two slices, which are looked up once for all rows of the slice. Adds the entries below the diagonal to `below`,
/// and those above it that have a mirror entry to `met`.
template <Scalar T, Memory M>
template <class V>
bool LocalMatrix<T, M>::Storage::slice_mirrors_itself(const V* values, std::size_t q, std::span<const T> diagonals,
                                                      Global& below, Global& met) const {
  const Global from = slices[q].pattern, steps = slices[q].steps;
  bool all = true;
  for (Global j = 0; j < steps; ++j) {
    const Local d = diagonal[from + j];
    const unsigned present = mask[from + j];
    if (d < 0) {
      below += std::popcount(present);
      continue;
    }
    const V* const v = values + slices[q].first_value() + j * slice;
    for (Local l = 0; l < slice;) {
      const Local r = Local(q) * slice + l, other = (r + d) / slice, at = r + d - other * slice;
      const Local lanes = std::min(slice - l, slice - at);
      const unsigned full = (1u << lanes) - 1, here = present >> l & full;
      const V* mirrors = v;
      unsigned there = 0;
      if (here) {
        const Slice& to = slices[std::size_t(other)];
        const Global first = to.pattern, n = to.steps;
        Global k = n - 1 - j;  // where the other slice has the same diagonals
        if (k < 0 || diagonal[first + k] != -d)
          for (k = 0; k < n && diagonal[first + k] != -d;) ++k;
        if (k < n) mirrors = values + to.first_value() + k * slice + at, there = mask[first + k] >> at;
      }
      // Without prefetches each slice waits for the memory.
      const std::ptrdiff_t ahead = 16 * std::ptrdiff_t(steps) * slice;
      __builtin_prefetch(v + l + ahead), __builtin_prefetch(mirrors + ahead);
      there &= here;
      if (d > 0) met += std::popcount(there);
      const bool whole = there == full && (lanes == slice ? are_conjugates<T>(v, mirrors, slice)
                                                          : are_conjugates<T>(v + l, mirrors, int(lanes)));
      for (Local m = 0; !whole && m < lanes; ++m) {
        if (!(here >> m & 1)) continue;
        const T mirror = there >> m & 1 ? conj(widen<T>(mirrors[m])) : T{};
        all = all && agree(widen<T>(v[l + m]), mirror, diagonals, r + m, r + d + m);
      }
      l += lanes;
    }
  }
  return all;
}

/// Block row r where all entries are in blocks: a block right of the diagonal looks for its mirror block once for all
/// of its entries. Adds the blocks left of the diagonal to `below`, and those right of it that have a mirror block to
/// `met`.
template <Scalar T, Memory M>
bool LocalMatrix<T, M>::Storage::block_row_mirrors_itself(Local r, std::span<const T> diagonals, Global& below,
                                                          Global& met) const {
  const Local b = grid.b;
  bool all = true;
  for (Global k = start[r]; k < start[r + 1]; ++k) {
    const Local c = column_of(r, k);
    if (c < r) {
      ++below;
      continue;
    }
    const Global other = c == r ? k : find_block(c, r);
    const bool found = other != nowhere;
    met += found && c > r;
    const T *const v = value.data() + k * b * b, *const mirrors = value.data() + (found ? other : 0) * b * b;
    bool same = found;
    for (Local j = 0; found && j < b; ++j)
      for (Local i = 0; i < b; ++i) same &= v[j * b + i] == conj(mirrors[i * b + j]);
    for (Local j = 0; !same && j < b; ++j)
      for (Local i = 0; i < b; ++i)
        all = all && agree(v[j * b + i], found ? conj(mirrors[i * b + j]) : T{}, diagonals, grid.first_row(r) + i,
                           grid.first_row(c) + j);
  }
  return all;
}

template <Scalar T, Memory M>
bool LocalMatrix<T, M>::mirrors_itself(std::span<const T> diagonal) const {
  const Storage& s = *s_;
  std::atomic<bool> same = true;
  std::atomic<Global> below = 0, met = 0;
  // Entries above the diagonal look for their mirror entries; if these are as many as the entries below it, they are
  // all of them.
  const bool by_diagonals = s.format == Format::sell && std::all_of(s.slices.data(), s.slices.data() + s.slices.size(),
                                                                    [](const auto& q) { return q.is_diagonal; });
  const bool by_blocks = s.format == Format::bsr && s.grid.row == s.grid.column && s.rest.entries() == 0;
  // mirrors(q, low, pairs) of n slices or block rows.
  const auto compare_units = [&](std::size_t n, auto&& mirrors) {
    constexpr std::size_t part = 1024;
    exec::parallel_for((n + part - 1) / part, n > part, [&](std::size_t p) {
      Global low = 0, pairs = 0;
      bool here = same.load(std::memory_order_relaxed);
      for (std::size_t q = p * part; here && q < std::min((p + 1) * part, n); ++q) here = mirrors(q, low, pairs);
      below += low, met += pairs;
      if (!here) same.store(false, std::memory_order_relaxed);
    });
  };
  if (by_diagonals)
    compare_units(s.slices.size(), [&](std::size_t q, Global& low, Global& pairs) {
      return s.with_values([&](const auto* v) { return s.slice_mirrors_itself(v, q, diagonal, low, pairs); });
    });
  if (by_blocks)
    compare_units(std::size_t(s.grid.block_rows), [&](std::size_t r, Global& low, Global& pairs) {
      return s.block_row_mirrors_itself(Local(r), diagonal, low, pairs);
    });
  const auto compare = [&](bool upper) {
    exec::parallel_for(std::size_t(blocks()), blocks() > 1, [&](std::size_t b) {
      Global low = 0, pairs = 0;
      bool here = same.load(std::memory_order_relaxed);
      if (!here) return;
      std::vector<Seeker<T>> seekers;
      s.each(int(b), int(b) + 1, [&](Local r, Local c, T v) {
        low += c < r;
        if (upper ? c >= r : c < r) seekers.push_back({r, c, v});
      });
      // Rows that are far apart are fetched while others are searched.
      constexpr std::size_t ahead = 12;
      for (std::size_t k = 0; here && k < seekers.size() + 2 * ahead; ++k) {
        if (k < seekers.size()) fetch_row(s, seekers[k].column, slice, false);
        if (k >= ahead && k - ahead < seekers.size()) fetch_row(s, seekers[k - ahead].column, slice, true);
        if (k < 2 * ahead) continue;
        const auto& [r, c, v] = seekers[k - 2 * ahead];
        const Global place = s.find(c, r);
        const bool found = place != Storage::nowhere;
        const T mirror = found ? conj(s.at(place)) : T{};
        pairs += found && c != r;
        here = agree(v, mirror, diagonal, r, c);
      }
      below += low, met += pairs;
      if (!here) same.store(false, std::memory_order_relaxed);
    });
    return same.load();
  };
  return (by_diagonals || by_blocks ? same.load() : compare(true)) && (met == below || compare(false));
}

#define TACIT_INSTANTIATE(T) template bool LocalMatrix<T, Host>::mirrors_itself(std::span<const T>) const;
TACIT_EACH_OF_FOUR(TACIT_INSTANTIATE)

}  // namespace tacit::op
