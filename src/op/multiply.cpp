#include "product_rows.hpp"

#include <tacit/base/trace.hpp>
#include <tacit/exec/memory.hpp>
#include <tacit/exec/parallel.hpp>
#include "op/multiply.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace tacit::op {
namespace {

using detail::Fetched;
using detail::Numbering;
using detail::outside;

/// Part of a row: local columns and values.
template <class T>
struct Entries {
  const Local* column;
  const T* value;
  std::size_t count;
  /// Rows stand in other places than their predecessors: without it sums wait for memory a third of the time.
  void fetch() const {
    constexpr std::size_t line = 64;
    for (std::size_t at = 0; at < count * sizeof(Local); at += line)
      __builtin_prefetch(reinterpret_cast<const char*>(column) + at);
    for (std::size_t at = 0; at < count * sizeof(T); at += line)
      __builtin_prefetch(reinterpret_cast<const char*>(value) + at);
  }
};

/// Columns that stand in groups of one of these widths are looked up once for a group.
constexpr int group_widths[] = {6, 4, 3, 2};

/// The rows of a right factor that a rank refers to: its own and `fetched`, those of the rows `needed` (ascending).
template <class T>
class RightFactor {
 public:
  RightFactor(const Space& inner, const Rows<T>& own, std::vector<Global> needed, const Rows<T>& fetched,
              const Numbering& columns)
      : row_(inner, std::move(needed)), own_rows_(inner.local_size()), own_(own, columns), fetched_(fetched, columns) {}
  /// Of row c, which this rank has or has fetched.
  Entries<T> row(Global c) const {
    const Local j = row_(c);
    return j < own_rows_ ? own_.row(j) : fetched_.row(j - own_rows_);
  }
  /// Whether no row has more than one entry.
  bool is_single() const { return own_.is_single() && fetched_.is_single(); }
  /// The largest of group_widths of which all rows, with numbered columns, consist: groups of columns c, c + 1, .. ,
  /// c a multiple of the width, as several near-null vectors make them.
  int group_width(const Numbering& columns) const {
    const Local all = fetched_.common_width(own_.common_width(columns.border()));
    for (const int w : group_widths)
      if (all % w == 0) return w;
    return 1;
  }

 private:
  struct Numbered {
    const Rows<T>& rows;
    std::vector<Local> column;
    Numbered(const Rows<T>& r, const Numbering& number) : rows(r) {
      column.reserve(r.column.size());
      column.resize(r.column.size());
      exec::parallel_for(column.size(), column.size() > 20000, [&](std::size_t k) { column[k] = number(r.column[k]); });
    }
    Entries<T> row(Local i) const {
      const auto begin = std::size_t(rows.start[std::size_t(i)]), end = std::size_t(rows.start[std::size_t(i) + 1]);
      return {column.data() + begin, rows.value.data() + begin, end - begin};
    }
    bool is_single() const {
      return std::adjacent_find(rows.start.begin(), rows.start.end(), [](Global a, Global b) { return b > a + 1; }) ==
             rows.start.end();
    }
    /// The greatest divisor of `width` that divides the beginnings and lengths of all runs of columns in rows.
    Local common_width(Local width) const {
      for (Local i = 0; width != 1 && i < rows.count(); ++i) {
        const auto part = row(i);
        for (std::size_t k = 0, end; k < part.count; k = end) {
          for (end = k + 1; end < part.count && part.column[end] == part.column[end - 1] + 1;) ++end;
          width = std::gcd(width, std::gcd(part.column[k], Local(end - k)));
        }
      }
      return width;
    }
  };
  Numbering row_;
  Local own_rows_;
  Numbered own_, fetched_;
};

/// Room for rows that are made one after another; the first `used` entries are.
template <class T>
struct Room {
  exec::Array<Local> column;
  exec::Array<T> value;
  std::size_t used = 0;
  /// Makes room for so many more entries.
  void provide(std::size_t more) {
    if (used + more <= column.size()) return;
    const std::size_t size = std::max(used + more, 2 * column.size());
    auto columns = exec::Array<Local>::uninitialised(size);
    auto values = exec::Array<T>::uninitialised(size);
    std::copy_n(column.data(), used, columns.data());
    std::copy_n(value.data(), used, values.data());
    column = std::move(columns), value = std::move(values);
  }
};

/// Adds up a row of a product: where the group of column c has its sums in row number `row_` is in the lower half of
/// place_[c / width], if the upper half has that number.
template <class T>
class Accumulator {
 public:
  Accumulator(const Numbering& number, int width)
      : number_(number), width_(width), place_(std::size_t(number.count() / width) + 1, 0) {}

  /// Begins a row of at most so many entries, after those in `room`.
  void begin(Room<T>& room, std::size_t most) {
    room.provide(most + std::size_t(width_));
    room_ = &room;
    column_ = room.column.data() + room.used;
    value_ = room.value.data() + room.used;
    count_ = 0;
    if (++row_ == 0) std::fill(place_.begin(), place_.end(), 0), row_ = 1;
  }
  void add(T a, const Entries<T>& entries) {
    switch (width_) {
      case 6:
        return add_groups<6>(a, entries);
      case 4:
        return add_groups<4>(a, entries);
      case 3:
        return add_groups<3>(a, entries);
      case 2:
        return add_groups<2>(a, entries);
      default:
        return add_groups<1>(a, entries);
    }
  }
  /// Ends the row; returns its number of entries, which stand as they came.
  Local end() {
    room_->used += count_;
    return Local(count_);
  }
  /// The same, in the order of global columns.
  Local end_in_order() {
    const auto width = std::size_t(width_), n = count_ / width;
    order_.resize(n), values_.assign(value_, value_ + count_);
    for (std::size_t k = 0; k < n; ++k)
      order_[k] = std::uint64_t(number_.place(column_[k * width])) << 32 | (k * width);
    if (n <= 16) {
      for (std::size_t i = 1; i < n; ++i) {
        const std::uint64_t o = order_[i];
        std::size_t j = i;
        for (; j > 0 && o < order_[j - 1]; --j) order_[j] = order_[j - 1];
        order_[j] = o;
      }
    } else {
      std::sort(order_.begin(), order_.end());
    }
    for (std::size_t k = 0; k < n; ++k) {
      const Local first = number_.at_place(Local(order_[k] >> 32));
      const T* const from = values_.data() + std::uint32_t(order_[k]);
      for (std::size_t e = 0; e < width; ++e)
        column_[k * width + e] = first + Local(e), value_[k * width + e] = from[e];
    }
    return end();
  }

 private:
  /// Without a branch on whether the group is there, which is not to be foretold while a row is short.
  template <int Width>
  void add_groups(T a, const Entries<T>& entries) {
    const Local* const column = entries.column;
    const T* const value = entries.value;
    Local* const columns = column_;
    T* const values = value_;
    std::uint64_t* const place = place_.data();
    const std::uint64_t row = std::uint64_t(row_) << 32;
    std::uint32_t n = count_;
    for (std::size_t k = 0; k < entries.count; k += Width) {
      const Local c = column[k];
      const std::uint64_t known = place[c / Width];
      const bool there = (known ^ row) < (std::uint64_t(1) << 32);
      const std::uint32_t at = there ? std::uint32_t(known) : n;
      place[c / Width] = row | at;
      for (int e = 0; e < Width; ++e) {
        const T term = a * value[k + std::size_t(e)], sum = values[at + std::uint32_t(e)] + term;
        columns[at + std::uint32_t(e)] = c + e;
        values[at + std::uint32_t(e)] = there ? sum : term;
      }
      n += there ? 0u : std::uint32_t(Width);
    }
    count_ = n;
  }

  const Numbering& number_;
  int width_;
  Room<T>* room_ = nullptr;
  Local* column_ = nullptr;
  T* value_ = nullptr;
  std::uint32_t count_ = 0, row_ = 0;
  std::vector<std::uint64_t> place_, order_;
  std::vector<T> values_;
};

/// A short row of a product with a factor whose rows have one entry at most, in the order of global columns from the
/// beginning: quicker than Accumulator, with its bits.
template <class T>
class ShortRow {
 public:
  static constexpr std::size_t most = 32;  // terms
  /// a[k] times the row of `right` for column[k], for n terms; appends to `room` and returns the number of entries.
  Local make(const Global* column, const T* a, std::size_t n, const RightFactor<T>& right, const Numbering& number,
             Room<T>& room) {
    std::size_t count = 0;
    for (std::size_t k = 0; k < n; ++k) {
      const auto part = right.row(column[k]);
      if (part.count == 0) continue;
      const T term = a[k] * *part.value;
      const Local place = number.place(*part.column);
      std::size_t at = count;
      while (at > 0 && place_[at - 1] > place) --at;
      if (at > 0 && place_[at - 1] == place) {
        value_[at - 1] += term;
        continue;
      }
      for (std::size_t e = count++; e > at; --e) place_[e] = place_[e - 1], value_[e] = value_[e - 1];
      place_[at] = place, value_[at] = term;
    }
    room.provide(count);
    for (std::size_t e = 0; e < count; ++e)
      room.column[room.used + e] = number.at_place(place_[e]), room.value[room.used + e] = value_[e];
    room.used += count;
    return Local(count);
  }

 private:
  Local place_[most];
  T value_[most];
};

/// Some consecutive rows of a product.
template <class T>
struct Piece {
  std::vector<Local> length;
  exec::Array<Local> column;
  exec::Array<T> value;
};

/// A product of `count` rows. make_worker() is called once on each thread, and what it returns for some rows at a time:
/// worker(first, last, length, room) appends their lengths and entries.
template <class T, class MakeWorker>
Rows<T> product_of(std::size_t count, const Numbering& number, MakeWorker&& make_worker) {
  constexpr std::size_t piece_rows = 2048;
  const std::size_t pieces = (count + piece_rows - 1) / piece_rows;
  Rows<T> all;
  all.start.reserve(count + 1);
  const auto put = [&](const Local* column, const T* value, std::size_t n, std::size_t at) {
    for (std::size_t k = 0; k < n; ++k) all.column[at + k] = number.global(column[k]);
    std::copy_n(value, n, all.value.data() + at);
  };
  if (exec::threads() == 1 || pieces <= 1) {
    auto worker = make_worker();
    Room<T> room;
    std::vector<Local> length;
    for (std::size_t p = 0; p < pieces; ++p) {
      room.used = 0, length.clear();
      const std::size_t last = std::min(count, (p + 1) * piece_rows), before = all.column.size();
      worker(p * piece_rows, last, length, room);
      for (const Local n : length) all.start.push_back(all.start.back() + n);
      if (before + room.used > all.column.capacity()) {
        // Rows inside a mesh are up to half as long again as those on its boundary, which come first. Room that is not
        // used is never touched.
        const auto expected = std::size_t(1.5 * double(before + room.used) * double(count) / double(last));
        all.column.reserve(expected), all.value.reserve(expected);
      }
      all.column.resize(before + room.used), all.value.resize(before + room.used);
      put(room.column.data(), room.value.data(), room.used, before);
    }
    return all;
  }
  std::vector<Piece<T>> made(pieces);
  exec::parallel_claims(pieces, 1, true, [&](exec::Claims& claims) {
    auto worker = make_worker();
    Room<T> room;
    claims.each([&](std::size_t p) {
      room.used = 0;
      worker(p * piece_rows, std::min(count, (p + 1) * piece_rows), made[p].length, room);
      made[p].column = exec::Array<Local>::uninitialised(room.used);
      made[p].value = exec::Array<T>::uninitialised(room.used);
      std::copy_n(room.column.data(), room.used, made[p].column.data());
      std::copy_n(room.value.data(), room.used, made[p].value.data());
    });
  });
  std::vector<std::size_t> entry{0};
  for (const auto& p : made) {
    entry.push_back(entry.back() + p.column.size());
    for (const Local n : p.length) all.start.push_back(all.start.back() + n);
  }
  all.column.reserve(entry.back()), all.value.reserve(entry.back());
  all.column.resize(entry.back()), all.value.resize(entry.back());
  exec::parallel_for(
      pieces, true,
      [&](std::size_t i) {
        put(made[i].column.data(), made[i].value.data(), made[i].column.size(), entry[i]);
        made[i] = {};
      },
      1);
  return all;
}

/// Error(usage) where these are no rows of that number with columns in `columns`.
template <class T>
void require_rows(const char* of, const Rows<T>& rows, Local count, const Space& columns) {
  require(rows.count() == count, of, " has ", rows.count(), " rows on rank ", columns.comm().rank(),
          "; the space of its rows has ", count);
  require(rows.start.back() == Global(rows.column.size()) && rows.column.size() == rows.value.size(), of, " has ",
          rows.column.size(), " columns and ", rows.value.size(), " values; its rows have ", rows.start.back(),
          " entries");
  Global low = 0, high = -1;
  for (const Global c : rows.column) low = std::min(low, c), high = std::max(high, c);
  require(low >= 0 && high < columns.size(), of, " has an entry in column ", low < 0 ? low : high,
          "; columns are 0 to ", columns.size() - 1);
}

}  // namespace

template <Scalar T>
Rows<T> multiply(Local count, const RowMaker<T>& A, std::span<const Global> needed, const Space& inner,
                 const Rows<T>& B, const Space& columns) {
  const Span span("sparse product", "op");
  comm::collective(inner.comm(),
                   [&] { require_rows("the right factor of a sparse product", B, inner.local_size(), columns); });
  const bool alone = inner.comm().size() == 1;
  const Rows<T> fetched = alone ? Rows<T>{} : rows_of_others(inner, B, needed);
  const Numbering number(columns, alone ? std::vector<Global>{} : outside(columns, {&B, &fetched}));
  const RightFactor<T> right(inner, B, {needed.begin(), needed.end()}, fetched, number);
  const bool single = right.is_single();
  const int width = right.group_width(number);
  return product_of<T>(std::size_t(count), number, [&] {
    return [&, sum = Accumulator<T>(number, width), few = ShortRow<T>(), a = Rows<T>()](
               std::size_t first, std::size_t last, std::vector<Local>& length, Room<T>& room) mutable {
      a.start.assign(1, 0), a.column.clear(), a.value.clear();
      A(Local(first), Local(last), a);
      for (std::size_t i = 0; i < last - first; ++i) {
        const auto begin = std::size_t(a.start[i]), end = std::size_t(a.start[i + 1]);
        if (single && end - begin <= ShortRow<T>::most) {
          length.push_back(few.make(a.column.data() + begin, a.value.data() + begin, end - begin, right, number, room));
          continue;
        }
        std::size_t most = 0;
        for (std::size_t k = begin; k < end; ++k) most += right.row(a.column[k]).count;
        sum.begin(room, most);
        for (std::size_t k = begin; k < end; ++k) sum.add(a.value[k], right.row(a.column[k]));
        length.push_back(sum.end_in_order());
      }
    };
  });
}

template <Scalar T>
Rows<T> multiply(const Rows<T>& A, const Space& inner, const Rows<T>& B, const Space& columns) {
  comm::collective(inner.comm(), [&] { require_rows("the left factor of a sparse product", A, A.count(), inner); });
  const std::vector<Global> needed = inner.comm().size() == 1 ? std::vector<Global>{} : outside(inner, {&A});
  const auto copy = [&](Local first, Local last, Rows<T>& rows) {
    const Global begin = A.start[std::size_t(first)], end = A.start[std::size_t(last)];
    for (Local i = first; i < last; ++i) rows.start.push_back(A.start[std::size_t(i) + 1] - begin);
    rows.column.assign(A.column.begin() + begin, A.column.begin() + end);
    rows.value.assign(A.value.begin() + begin, A.value.begin() + end);
  };
  return multiply<T>(A.count(), copy, needed, inner, B, columns);
}

template <Scalar T>
Rows<T> adjoint(const Rows<T>& A, const Space& rows, const Space& columns) {
  const Span span("sparse adjoint", "op");
  require(rows.is_replicated() == columns.is_replicated(), "the adjoint of a ", rows.size(), " by ", columns.size(),
          " matrix needs rows and columns that are both spread over ranks, or both replicated");
  comm::collective(rows.comm(), [&] { require_rows("a matrix to be adjoined", A, rows.local_size(), columns); });
  const bool alone = rows.comm().size() == 1 || rows.is_replicated();
  const Global first = columns.begin(), last = columns.end();
  std::vector<Global> row, column;  // of entries that other ranks own
  std::vector<T> value;
  Rows<T> own;
  own.start.assign(std::size_t(columns.local_size()) + 1, 0);
  for (const Global c : A.column)
    if (c >= first && c < last) ++own.start[std::size_t(c - first) + 1];
  std::partial_sum(own.start.begin(), own.start.end(), own.start.begin());
  own.column.resize(std::size_t(own.start.back()));
  own.value.resize(own.column.size());
  std::vector<Global> next(own.start.begin(), own.start.end() - 1);
  for (Local i = 0; i < A.count(); ++i)
    for (Global k = A.start[std::size_t(i)]; k < A.start[std::size_t(i) + 1]; ++k) {
      const Global c = A.column[std::size_t(k)];
      const T v = conj(A.value[std::size_t(k)]);
      if (c >= first && c < last) {
        const auto at = std::size_t(next[std::size_t(c - first)]++);
        own.column[at] = rows.begin() + i, own.value[at] = v;
      } else {
        row.push_back(c), column.push_back(rows.begin() + i), value.push_back(v);
      }
    }
  if (alone) return own;
  const Rows<T> arrived = assemble<T>(rows.comm(), columns.partition(), rows.size(), row, column, value);
  Rows<T> both;
  for (std::size_t i = 0; i + 1 < own.start.size(); ++i) {
    const auto copy = [&](const Rows<T>& from, bool before) {
      for (auto k = std::size_t(from.start[i]); k < std::size_t(from.start[i + 1]); ++k) {
        if (&from == &arrived && (from.column[k] < rows.begin()) != before) continue;
        both.column.push_back(from.column[k]);
        both.value.push_back(from.value[k]);
      }
    };
    copy(arrived, true);
    copy(own, false);
    copy(arrived, false);
    both.start.push_back(Global(both.column.size()));
  }
  return both;
}

namespace {

/// The adjoint of the rows `Q` of `inner` and others, the part in this rank's columns.
template <class T>
Rows<T> adjoint_part(const Rows<T>& Q, const Fetched<T>& fetched, const Space& inner, const Space& columns) {
  const Global first = columns.begin(), last = columns.end();
  const auto each = [&](auto&& f) {  // rows ascend
    const auto of = [&](const Rows<T>& rows, std::size_t r, Global i) {
      const auto end = std::size_t(rows.start[r + 1]), all = rows.column.size();
      for (auto k = std::size_t(rows.start[r]); k < end; ++k)
        if (const Global c = rows.column[k]; c >= first && c < last)
          f(std::size_t(c - first), i, rows.value[k], rows.column.data() + std::min(k + 24, all - 1));
    };
    std::size_t r = 0;
    for (; r < fetched.row.size() && fetched.row[r] < inner.begin(); ++r) of(fetched.Q, r, fetched.row[r]);
    for (std::size_t i = 0; i < std::size_t(Q.count()); ++i) of(Q, i, inner.begin() + Global(i));
    for (; r < fetched.row.size(); ++r) of(fetched.Q, r, fetched.row[r]);
  };
  Rows<T> R;
  R.start.assign(std::size_t(columns.local_size()) + 1, 0);
  each([&](std::size_t c, Global, const T&, const Global*) { ++R.start[c + 1]; });
  std::partial_sum(R.start.begin(), R.start.end(), R.start.begin());
  R.column.reserve(std::size_t(R.start.back())), R.value.reserve(std::size_t(R.start.back()));
  R.column.resize(std::size_t(R.start.back())), R.value.resize(R.column.size());
  std::vector<Global> next(R.start.begin(), R.start.end() - 1);
  each([&](std::size_t c, Global i, const T& v, const Global* ahead) {
    // Each entry goes to another place, whose line is fetched beforehand.
    if (const Global soon = *ahead - first; soon >= 0 && soon < Global(next.size())) {
      const auto place = std::size_t(next[std::size_t(soon)]);
      __builtin_prefetch(R.column.data() + place, 1), __builtin_prefetch(R.value.data() + place, 1);
    }
    const auto at = std::size_t(next[c]++);
    R.column[at] = i, R.value[at] = conj(v);
  });
  return R;
}

/// Rows of A P, made when they are first asked for and kept for a while: rows of R that follow each other need the same
/// ones. They are in two rooms; when one is full the other, with the older rows, is emptied and filled.
template <class T>
class RowsOfProduct {
 public:
  /// A: the own rows of `inner`; `others`: more rows of it, numbered by `row` after those.
  RowsOfProduct(const Rows<T>& A, const Rows<T>& others, const Numbering& row, const RightFactor<T>& P)
      : A_(A),
        others_(others),
        row_(row),
        P_(P),
        entries_kept_(std::clamp(A.column.size() / 24, std::size_t(1) << 17, std::size_t(1) << 30)),
        place_(std::size_t(row.count())) {}

  struct Place {
    std::uint32_t begin = 0;  // 2 times the first entry, plus the room
    Local count = -1;         // -1: not there
  };
  /// Row i, which stays there until the next free_room(). All rows of a sum are made before it begins, with the same
  /// accumulator.
  Place make(Global i, Accumulator<T>& sum) {
    const Local r = row_(i);
    Place& place = place_[std::size_t(r)];
    if (place.count < 0) {
      const Rows<T>& A = r < A_.count() ? A_ : others_;
      const auto of = std::size_t(r < A_.count() ? r : r - A_.count());
      const auto begin = std::size_t(A.start[of]), end = std::size_t(A.start[of + 1]);
      std::size_t most = 0;
      parts_.clear();
      for (std::size_t k = begin; k < end; ++k) {
        parts_.push_back(P_.row(A.column[k]));
        parts_.back().fetch();
        most += parts_.back().count;
      }
      place.begin = std::uint32_t(2 * rooms_[now_].used + now_);
      rows_[now_].push_back(r);
      sum.begin(rooms_[now_], most);
      for (std::size_t k = begin; k < end; ++k) sum.add(A.value[k], parts_[k - begin]);
      place.count = sum.end();
    }
    return place;
  }
  /// Fetches what make() will look at: whether row i is there, later the row of A where it is not. Rows of R jump in A.
  void fetch(Global i) const {
    const Local r = row_(i);
    __builtin_prefetch(place_.data() + r);
    if (r < A_.count()) __builtin_prefetch(A_.start.data() + r);
  }
  void fetch_row_of_A(Global i) const {
    const Local r = row_(i);
    if (r >= A_.count() || place_[std::size_t(r)].count >= 0) return;
    const auto k = std::size_t(A_.start[std::size_t(r)]);
    __builtin_prefetch(A_.column.data() + k), __builtin_prefetch(A_.value.data() + k);
  }
  Entries<T> row(Place p) const {
    const auto& room = rooms_[p.begin & 1];
    return {room.column.data() + p.begin / 2, room.value.data() + p.begin / 2, std::size_t(p.count)};
  }
  void free_room() {
    if (rooms_[now_].used < entries_kept_) return;
    now_ = 1 - now_;
    for (const Local r : rows_[now_]) place_[std::size_t(r)].count = -1;
    rows_[now_].clear();
    rooms_[now_].used = 0;
  }

 private:
  const Rows<T>&A_, &others_;
  const Numbering& row_;
  const RightFactor<T>& P_;
  std::size_t entries_kept_;
  std::vector<Place> place_;
  std::vector<Entries<T>> parts_;  // of P, for a row
  std::vector<Local> rows_[2];     // in each room
  Room<T> rooms_[2];
  unsigned now_ = 0;
};

}  // namespace

template <Scalar T>
TripleProduct<T> triple_product(const Rows<T>& Q, const Rows<T>& A, const Rows<T>& P, const Space& inner,
                                const Space& columns) {
  const Span span("sparse triple product", "op");
  comm::collective(inner.comm(), [&] {
    require(!inner.is_replicated() && !columns.is_replicated(),
            "a sparse triple product has rows and columns that are spread over ranks");
    const auto n = inner.local_size();
    require_rows("the first factor of a sparse triple product", Q, n, columns);
    require_rows("the middle factor of a sparse triple product", A, n, inner);
    require_rows("the last factor of a sparse triple product", P, n, columns);
  });
  const bool alone = inner.comm().size() == 1;
  const Fetched<T> fetched = alone ? Fetched<T>{} : detail::fetch(Q, A, inner, P, columns);
  TripleProduct<T> found{adjoint_part(Q, fetched, inner, columns), {}};
  const Rows<T>& R = found.R;
  const Numbering number(columns, alone ? std::vector<Global>{} : outside(columns, {&P, &fetched.P}));
  const Numbering row(inner, fetched.row);
  const RightFactor<T> right(inner, P, fetched.row_of_P, fetched.P, number);
  const int width = right.group_width(number);
  found.C = product_of<T>(std::size_t(R.count()), number, [&] {
    using Places = std::vector<typename RowsOfProduct<T>::Place>;
    return [&, sum = Accumulator<T>(number, width), product = RowsOfProduct<T>(A, fetched.A, row, right),
            parts = Places()](std::size_t first, std::size_t last, std::vector<Local>& length, Room<T>& room) mutable {
      for (std::size_t i = first; i < last; ++i) {
        const auto begin = std::size_t(R.start[i]), end = std::size_t(R.start[i + 1]);
        product.free_room();
        std::size_t most = 0;
        parts.clear();
        for (std::size_t k = begin; k < end; ++k) {
          product.fetch(R.column[std::min(k + 16, R.column.size() - 1)]);
          product.fetch_row_of_A(R.column[std::min(k + 6, R.column.size() - 1)]);
          parts.push_back(product.make(R.column[k], sum));
          product.row(parts.back()).fetch();
          most += std::size_t(parts.back().count);
        }
        sum.begin(room, most);
        for (std::size_t k = begin; k < end; ++k) sum.add(R.value[k], product.row(parts[k - begin]));
        length.push_back(sum.end_in_order());
      }
    };
  });
  return found;
}

#define TACIT_INSTANTIATE(T)                                                                                     \
  template Rows<T> multiply<T>(const Rows<T>&, const Space&, const Rows<T>&, const Space&);                      \
  template Rows<T> multiply<T>(Local, const RowMaker<T>&, std::span<const Global>, const Space&, const Rows<T>&, \
                               const Space&);                                                                    \
  template TripleProduct<T> triple_product<T>(const Rows<T>&, const Rows<T>&, const Rows<T>&, const Space&,      \
                                              const Space&);                                                     \
  template Rows<T> adjoint<T>(const Rows<T>&, const Space&, const Space&);
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::op
