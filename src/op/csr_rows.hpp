// What Csr finds in the rows of a rank when it is made: their largest entry and faults, their own and ghost columns.
#pragma once

#include <tacit/exec/parallel.hpp>
#include <tacit/op/csr.hpp>
#include <tacit/op/local_matrix.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace tacit::op {

/// What one pass over the rows of a rank finds.
template <Scalar T>
struct Survey {
  Local wrong = -1;      // the first row whose columns do not ascend, or are out of range
  Global infinite = -1;  // the first entry that is not finite
  real_t<T> largest = 0;
  Global ghosts = 0;        // entries in columns of other ranks
  std::vector<T> diagonal;  // if asked for
};

/// max |p_i| of n real numbers; Inf or NaN if one of them is not finite. Bit patterns of magnitudes are in the order of
/// these, and compilers vectorise the maximum of integers.
template <class R>
R largest_magnitude(const R* p, std::size_t n) {
  using Word = std::conditional_t<sizeof(R) == 4, std::uint32_t, std::uint64_t>;
  Word most = 0;
  for (std::size_t i = 0; i < n; ++i) {
    Word word;
    std::memcpy(&word, p + i, sizeof word);
    word &= ~Word(0) >> 1;
    most = word > most ? word : most;
  }
  R value;
  std::memcpy(&value, &most, sizeof value);
  return value;
}

/// largest_magnitude() of pieces of these numbers, by all threads.
template <Scalar T>
std::vector<T> largest_of_pieces(std::span<const T> values) {
  constexpr std::size_t piece = 1 << 15;
  std::vector<T> most((values.size() + piece - 1) / piece);
  exec::parallel_for(most.size(), most.size() > 16, [&](std::size_t i) {
    const auto some = values.subspan(i * piece, std::min(piece, values.size() - i * piece));
    const auto* const parts = reinterpret_cast<const real_t<T>*>(some.data());
    most[i] = T(largest_magnitude(parts, some.size() * (is_complex<T> ? 2 : 1)));
  });
  return most;
}

/// Looks at all entries, by all threads. `domain`: the columns, of which this rank owns [begin, end).
template <Scalar T, class Index>
Survey<T> survey(const RowsView<T, Index>& rows, const Space& domain, Global row_begin, bool with_diagonal) {
  constexpr Local piece = 8192;
  const Global columns = domain.size(), begin = domain.begin(), end = domain.end();
  const std::size_t pieces = std::size_t((rows.count() + piece - 1) / piece);
  std::vector<Survey<T>> of(pieces);
  Survey<T> all;
  if (with_diagonal) all.diagonal.resize(std::size_t(rows.count()));
  exec::parallel_for(
      pieces, pieces > 1,
      [&](std::size_t i) {
        Survey<T>& s = of[i];
        const Local first = Local(i) * piece, last = std::min(rows.count(), first + piece);
        for (Local r = first; r < last; ++r) {
          const Global low = rows.start[r], high = rows.start[r + 1];
          if (low == high) continue;
          const Index *const from = rows.column.data() + low, *const to = rows.column.data() + high;
          bool ascend = true;
          for (const Index* c = from + 1; c < to; ++c) ascend &= c[-1] < c[0];
          if (!ascend || *from < 0 || Global(to[-1]) >= columns) {
            s.wrong = r;
            return;
          }
          if (Global(*from) < begin) s.ghosts += std::lower_bound(from, to, begin) - from;
          if (Global(to[-1]) >= end) s.ghosts += to - std::lower_bound(from, to, end);
          if (!with_diagonal) continue;
          const Index* const d = std::find(from, to, Index(row_begin + r));
          if (d != to) all.diagonal[std::size_t(r)] = rows.value[std::size_t(low + (d - from))];
        }
        const auto n = std::size_t(rows.start[last] - rows.start[first]) * (is_complex<T> ? 2 : 1);
        const T* const v = rows.value.data() + rows.start[first];
        s.largest = largest_magnitude(reinterpret_cast<const real_t<T>*>(v), n);
        if (std::isfinite(s.largest)) return;
        s.largest = 0;
        for (Global k = rows.start[first]; k < rows.start[last] && s.infinite < 0; ++k)
          if (!is_finite(rows.value[std::size_t(k)])) s.infinite = k;
      },
      1);
  for (const Survey<T>& s : of) {
    if (all.wrong < 0) all.wrong = s.wrong;
    if (all.infinite < 0) all.infinite = s.infinite;
    all.largest = std::max(all.largest, s.largest), all.ghosts += s.ghosts;
  }
  return all;
}

template <Scalar T, class Index>
bool ascends(const RowsView<T, Index>& rows, Local r) {
  const auto begin = rows.column.begin() + rows.start[r], end = rows.column.begin() + rows.start[r + 1];
  return std::adjacent_find(begin, end, std::greater_equal<Index>()) == end;
}

/// Throws the error of a row whose columns do not ascend, or are out of range.
template <Scalar T, class Index>
void refuse_row(const RowsView<T, Index>& rows, Local r, const Space& range, const Space& domain) {
  for (Global k = rows.start[r]; k < rows.start[r + 1]; ++k) {
    const Global c = rows.column[k];
    require(c >= 0 && c < domain.size(), "row ", range.begin() + r, " has column ", c, "; columns run from 0 to ",
            domain.size() - 1);
    if (k > rows.start[r])
      require(Global(rows.column[k - 1]) < c, "row ", range.begin() + r,
              " has columns that do not ascend: ", rows.column[k - 1], " before ", c);
  }
}

/// The local indices of columns that this rank owns all, made by all threads.
template <class Index>
std::vector<Local> local_columns(std::span<const Index> column, Global begin) {
  std::vector<Local> local(column.size());
  constexpr std::size_t piece = 1 << 15;
  const std::size_t pieces = (column.size() + piece - 1) / piece;
  exec::parallel_for(pieces, pieces > 16, [&](std::size_t i) {
    for (std::size_t k = i * piece; k < std::min(column.size(), (i + 1) * piece); ++k)
      local[k] = Local(Global(column[k]) - begin);
  });
  return local;
}

/// Rows cut into entries in own columns and in ghost columns, which are numbered in the order of `needed`.
template <Scalar T, class Index>
void split(const RowsView<T, Index>& rows, Global begin, Global end, Global ghosts, LocalRows<T>& own,
           LocalRows<T>& ghost, std::vector<Global>& needed) {
  needed.reserve(std::size_t(ghosts));
  for (const Index c : rows.column)
    if (Global(c) < begin || Global(c) >= end) needed.push_back(c);
  std::sort(needed.begin(), needed.end());
  needed.erase(std::unique(needed.begin(), needed.end()), needed.end());
  ghost.columns = checked_cast<Local>(needed.size(), "the number of ghosts");
  const auto count = rows.column.size() - std::size_t(ghosts);
  own.start.reserve(rows.start.size()), own.column.reserve(count), own.value.reserve(count);
  ghost.start.reserve(rows.start.size());
  ghost.column.reserve(std::size_t(ghosts)), ghost.value.reserve(std::size_t(ghosts));
  for (Local r = 0; r < rows.count(); ++r) {
    for (Global k = rows.start[r]; k < rows.start[r + 1]; ++k) {
      const Global c = rows.column[k];
      if (c >= begin && c < end) {
        own.column.push_back(Local(c - begin));
        own.value.push_back(rows.value[k]);
      } else {
        ghost.column.push_back(Local(std::lower_bound(needed.begin(), needed.end(), c) - needed.begin()));
        ghost.value.push_back(rows.value[k]);
      }
    }
    own.start.push_back(Global(own.column.size()));
    ghost.start.push_back(Global(ghost.column.size()));
  }
}

/// Where entries in own columns begin in each row, among all entries of a rank in the order of rows: ghosts of lower
/// ranks, own columns, ghosts of higher ranks. Calls f(k, g) where entry k is the g-th in a ghost column.
template <Scalar T, class F>
std::vector<Global> begin_of_own(const LocalMatrix<T, Host>& own, const RowList<T, Host>& ghost, Local rows, Local left,
                                 F&& f) {
  std::vector<Local> counts(std::size_t(rows), 0);
  own.count_entries(counts);
  std::vector<Global> begin(std::size_t(rows) + 1);  // and the number of all entries
  Global next = 0, g = 0;
  for (Local r = 0, i = 0; r < rows; ++r) {
    const bool has_ghosts = i < ghost.count() && ghost.row(i) == r;
    const auto columns = has_ghosts ? ghost.columns_of(i++) : std::span<const Local>();
    auto c = columns.begin();
    for (; c != columns.end() && *c < left; ++c) f(next++, g++);
    begin[std::size_t(r)] = next;
    next += counts[std::size_t(r)];
    for (; c != columns.end(); ++c) f(next++, g++);
  }
  begin.back() = next;
  return begin;
}

}  // namespace tacit::op
