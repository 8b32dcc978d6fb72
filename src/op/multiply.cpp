#include <tacit/base/trace.hpp>
#include <tacit/exec/parallel.hpp>
#include <tacit/op/multiply.hpp>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

namespace tacit::op {
namespace {

void sort_unique(std::vector<Global>& v) {
  std::sort(v.begin(), v.end());
  v.erase(std::unique(v.begin(), v.end()), v.end());
}

/// The columns that occur on a rank as local numbers: its own first, then those of others, ascending.
class Numbering {
 public:
  Numbering(const Space& space, std::vector<Global> others)
      : first_(space.begin()), own_(space.local_size()), others_(std::move(others)) {}
  Local operator()(Global c) const {
    if (is_own(c)) return Local(c - first_);
    return own_ + Local(std::lower_bound(others_.begin(), others_.end(), c) - others_.begin());
  }
  Global global(Local c) const { return c < own_ ? first_ + c : others_[std::size_t(c - own_)]; }
  bool is_own(Global c) const { return c >= first_ && c < first_ + own_; }
  Local count() const { return own_ + Local(others_.size()); }
  bool in_order() const { return others_.empty(); }

 private:
  Global first_;
  Local own_;
  std::vector<Global> others_;
};

/// Rows with local column numbers.
template <class T>
struct Numbered {
  const Rows<T>& rows;
  std::vector<Local> column;
  Numbered(const Rows<T>& r, const Numbering& number) : rows(r), column(r.column.size()) {
    exec::parallel_for(column.size(), column.size() > 20000, [&](std::size_t k) { column[k] = number(r.column[k]); });
  }
};

/// Some consecutive rows of the product: the first `used` entries of the arrays.
template <class T>
struct Piece {
  std::vector<Local> length, column;
  std::vector<T> value;
  std::size_t used = 0;
};

/// Adds up a row of the product: place[c] is where column c has its sum in the row, if it is there.
template <class T>
class Accumulator {
 public:
  explicit Accumulator(const Numbering& number) : number_(number), place_(std::size_t(number.count()), 0) {}

  /// Begins a row of at most so many entries.
  void begin(Piece<T>& piece, std::size_t most) {
    if (piece.used + most > piece.column.size()) {
      const std::size_t room = std::max(piece.used + most, 2 * piece.column.size());
      piece.column.resize(room);
      piece.value.resize(room);
    }
    piece_ = &piece;
    column_ = piece.column.data() + piece.used;
    value_ = piece.value.data() + piece.used;
    count_ = 0;
  }
  void add(T a, const Local* column, const T* value, std::size_t count) {
    Local* const columns = column_;
    T* const values = value_;
    std::uint32_t* const place = place_.data();
    std::uint32_t n = count_;
    for (std::size_t k = 0; k < count; ++k) {
      const Local c = column[k];
      const std::uint32_t at = place[c];
      if (at < n && columns[at] == c) {
        values[at] += a * value[k];
      } else {
        place[c] = n;
        columns[n] = c;
        values[n++] = a * value[k];
      }
    }
    count_ = n;
  }
  /// Sorts the row by global columns.
  void end() {
    piece_->length.push_back(Local(count_));
    piece_->used += count_;
    if (number_.in_order()) sort([](Local a, Local b) { return a < b; });
    else sort([&](Local a, Local b) { return number_.global(a) < number_.global(b); });
  }

 private:
  template <class Before>
  void sort(Before&& before) {
    const std::size_t n = count_;
    if (n <= 24) {
      for (std::size_t i = 1; i < n; ++i) {
        const Local c = column_[i];
        const T v = value_[i];
        std::size_t j = i;
        for (; j > 0 && before(c, column_[j - 1]); --j) column_[j] = column_[j - 1], value_[j] = value_[j - 1];
        column_[j] = c, value_[j] = v;
      }
      return;
    }
    order_.resize(n);
    std::iota(order_.begin(), order_.end(), 0u);
    std::sort(order_.begin(), order_.end(), [&](auto a, auto b) { return before(column_[a], column_[b]); });
    columns_.assign(column_, column_ + n), values_.assign(value_, value_ + n);
    for (std::size_t i = 0; i < n; ++i) column_[i] = columns_[order_[i]], value_[i] = values_[order_[i]];
  }
  const Numbering& number_;
  Piece<T>* piece_ = nullptr;
  Local* column_ = nullptr;
  T* value_ = nullptr;
  std::uint32_t count_ = 0;
  std::vector<std::uint32_t> place_, order_;
  std::vector<Local> columns_;
  std::vector<T> values_;
};

template <class T>
Rows<T> joined(const std::vector<Piece<T>>& pieces, const Numbering& number) {
  Rows<T> all;
  std::vector<std::size_t> row{0}, entry{0};
  for (const auto& p : pieces) row.push_back(row.back() + p.length.size()), entry.push_back(entry.back() + p.used);
  all.start.resize(row.back() + 1);
  all.column.resize(entry.back());
  all.value.resize(entry.back());
  exec::parallel_for(
      pieces.size(), pieces.size() > 1,
      [&](std::size_t i) {
        const auto& p = pieces[i];
        auto at = Global(entry[i]);
        for (std::size_t r = 0; r < p.length.size(); ++r) all.start[row[i] + r + 1] = at += p.length[r];
        for (std::size_t k = 0; k < p.used; ++k) all.column[entry[i] + k] = number.global(p.column[k]);
        std::copy_n(p.value.begin(), p.used, all.value.begin() + std::ptrdiff_t(entry[i]));
      },
      1);
  return all;
}

/// The columns outside of `space`, ascending.
template <class T>
std::vector<Global> outside(const Space& space, const Rows<T>& rows) {
  std::vector<Global> found;
  for (const Global c : rows.column)
    if (c < space.begin() || c >= space.end()) found.push_back(c);
  sort_unique(found);
  return found;
}

/// Error(usage) where these are no rows of that number with columns in `columns`.
template <class T>
void require_rows(const char* of, const Rows<T>& rows, Local count, const Space& columns) {
  require(rows.count() == count, of, " has ", rows.count(), " rows on this rank; the space of its rows has ", count);
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
Rows<T> multiply(const Rows<T>& A, const Space& inner, const Rows<T>& B, const Space& columns) {
  const Span span("sparse product", "op");
  comm::collective(inner.comm(), [&] {
    require_rows("the left factor of a sparse product", A, A.count(), inner);
    require_rows("the right factor of a sparse product", B, inner.local_size(), columns);
  });
  const bool alone = inner.comm().size() == 1;
  const std::vector<Global> needed = alone ? std::vector<Global>{} : outside(inner, A);
  const Rows<T> fetched = alone ? Rows<T>{} : rows_of_others(inner, B, needed);
  std::vector<Global> others;
  if (!alone) {
    others = outside(columns, B);
    const auto more = outside(columns, fetched);
    others.insert(others.end(), more.begin(), more.end());
    sort_unique(others);
  }
  const Numbering number(columns, std::move(others)), inner_number(inner, needed);
  const Numbered<T> own(B, number), ghosts(fetched, number);

  constexpr std::size_t piece_rows = 2048;
  const auto n = std::size_t(A.count());
  std::vector<Piece<T>> pieces((n + piece_rows - 1) / piece_rows);
  exec::parallel_claims(pieces.size(), 1, pieces.size() > 1, [&](exec::Claims& claims) {
    Accumulator<T> sum(number);
    // The rows of B that a row of A refers to, as columns, values and their number.
    const auto row_of = [&](Global c) {
      const Local j = inner_number(c);
      const auto& from = j < inner.local_size() ? own : ghosts;
      const auto row = std::size_t(j < inner.local_size() ? j : j - inner.local_size());
      const auto begin = std::size_t(from.rows.start[row]);
      return std::tuple(from.column.data() + begin, from.rows.value.data() + begin,
                        std::size_t(from.rows.start[row + 1]) - begin);
    };
    claims.each([&](std::size_t p) {
      const std::size_t first = p * piece_rows, last = std::min(n, first + piece_rows);
      for (std::size_t i = first; i < last; ++i) {
        std::size_t most = 0;
        for (Global k = A.start[i]; k < A.start[i + 1]; ++k) most += std::get<2>(row_of(A.column[std::size_t(k)]));
        sum.begin(pieces[p], most);
        for (Global k = A.start[i]; k < A.start[i + 1]; ++k) {
          const auto [column, value, count] = row_of(A.column[std::size_t(k)]);
          sum.add(A.value[std::size_t(k)], column, value, count);
        }
        sum.end();
      }
    });
  });
  return joined(pieces, number);
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

#define TACIT_INSTANTIATE(T)                                                                \
  template Rows<T> multiply<T>(const Rows<T>&, const Space&, const Rows<T>&, const Space&); \
  template Rows<T> adjoint<T>(const Rows<T>&, const Space&, const Space&);
TACIT_INSTANTIATE(float)
TACIT_INSTANTIATE(double)
TACIT_INSTANTIATE(std::complex<float>)
TACIT_INSTANTIATE(std::complex<double>)

}  // namespace tacit::op
