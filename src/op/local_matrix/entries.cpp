// What LocalMatrix tells of its entries: copies of rows and of blocks, sums and counts; and new values for all.
#include <tacit/base/error.hpp>

#include "storage.hpp"

#include <array>
#include <atomic>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

namespace tacit::op {
template <Scalar T, Memory M>
template <class F>
void LocalMatrix<T, M>::Storage::each_value(int b, F&& f) const {
  if (format == Format::csr) {
    for (Local row = block[b].row; row < block[b + 1].row; ++row)
      for (Global k = start[row]; k < start[row + 1]; ++k) f(row, Local(k - start[row]), k);
    return;
  }
  if (format == Format::bsr) return each_of_blocks(b, f);
  for (Local base = block[b].row; base < block[b + 1].row; base += slice) {
    const Slice& of = slices[std::size_t(base / slice)];
    const Global from = of.first_value();
    const std::uint8_t* const masks = mask.data() + (of.is_diagonal ? of.pattern : 0);
    const Local steps = Local(of.steps), here = std::min(slice, block[b + 1].row - base);
    const bool diagonals = of.is_diagonal;
    unsigned full = (1u << slice) - 1;
    for (Local j = 0; diagonals && j < steps; ++j) full &= masks[j];
    for (Local l = 0; l < here; ++l) {
      const Local row = base + l, n = diagonals ? steps : width[std::size_t(row)];
      if (!diagonals || full == (1u << slice) - 1) {
        for (Local j = 0; j < n; ++j) f(row, j, from + Global(j) * slice + l);
      } else {
        for (Local j = 0, k = 0; j < n; ++j)
          if (masks[j] >> l & 1) f(row, k++, from + Global(j) * slice + l);
      }
    }
  }
}

/// each_value() of dense blocks: columns are looked at only in rows that have entries outside of blocks.
template <Scalar T, Memory M>
template <class F>
void LocalMatrix<T, M>::Storage::each_of_blocks(int b, F&& f) const {
  const Local size = grid.b;
  for (Local row = block[b].row, p = rest.place(row); row < block[b + 1].row; ++row) {
    const Local r = grid.block_row(row), i = r < 0 ? 0 : row - grid.first_row(r);
    const Global first = r < 0 ? 0 : start[r], last = r < 0 ? 0 : start[r + 1];
    const bool more = p < rest.count() && rest.row(p) == row;
    const auto outside = more ? rest.columns_of(p) : std::span<const Local>();
    const Global place = more ? rest.values_of(p).data() - rest.values() : 0;
    p += more;
    Local n = 0;
    std::size_t t = 0;
    for (Global k = first; k < last; ++k) {
      if (more)
        for (const Local c = grid.column + column_of(r, k) * size; t < outside.size() && outside[t] < c; ++t)
          f(row, n++, ~(place + Global(t)));
      for (Local j = 0; j < size; ++j) f(row, n++, (k * size + j) * size + i);
    }
    for (; t < outside.size(); ++t) f(row, n++, ~(place + Global(t)));
  }
}

template <Scalar T, Memory M>
template <class F>
void LocalMatrix<T, M>::Storage::each_number(int b, const Global* begin, F&& f) const {
  if (begin) return each_value(b, [&](Local row, Local k, Global place) { f(begin[row] + k, place); });
  Global next = block[b].entry;
  each_value(b, [&](Local, Local, Global place) { f(next++, place); });
}

template <Scalar T, Memory M>
void LocalMatrix<T, M>::Storage::copy_diagonal(int b, T* to) const {
  if (format != Format::sell)
    return each(b, b + 1, [&](Local row, Local of, T v) {
      if (of == row) to[row] = v;
    });
  for (Local base = block[b].row; base < block[b + 1].row; base += slice) {
    const Slice& of = slices[std::size_t(base / slice)];
    const Global v = of.first_value(), index = of.first_index(), d = of.pattern;
    const Local steps = Local(of.steps), here = std::min(slice, block[b + 1].row - base);
    if (of.is_diagonal) {
      for (Local j = 0; j < steps; ++j)
        for (Local l = 0; diagonal[d + j] == 0 && l < here; ++l)
          if (mask[d + j] >> l & 1) to[base + l] = at(v + Global(j) * slice + l);
    } else {
      for (Local l = 0; l < here; ++l)
        for (Local j = 0; j < width[std::size_t(base + l)]; ++j)
          if (const Global k = Global(j) * slice + l; column_of(base, index + k) == base + l) {
            to[base + l] = at(v + k);
            break;
          }
    }
  }
}

template <Scalar T, Memory M>
void LocalMatrix<T, M>::copy_values(const Global* begin, T* to) const requires std::same_as<M, Host> {
  const Storage& s = *s_;
  const T* const outside = s.rest.values();
  s.with_values([&](const auto* values) {
    exec::parallel_for(std::size_t(blocks()), blocks() > 16, [&](std::size_t b) {
      s.each_number(int(b), begin,
                    [&](Global k, Global place) { to[k] = place < 0 ? outside[~place] : widen<T>(values[place]); });
    });
  });
}

template <Scalar T, Memory M>
LocalRows<T> LocalMatrix<T, M>::rows() const {
  const Storage& s = *s_;
  LocalRows<T> a{s.columns, s.row_begin, s.column_begin};
  std::vector<Local> count(std::size_t(s.rows), 0);
  count_entries(count);
  a.start.resize(std::size_t(s.rows) + 1);
  std::partial_sum(count.begin(), count.end(), a.start.begin() + 1, [](Global sum, Local n) { return sum + n; });
  a.column.resize(std::size_t(s.entries));
  a.value.resize(std::size_t(s.entries));
  exec::parallel_for(std::size_t(blocks()), blocks() > 16, [&](std::size_t b) {
    Global k = a.start[std::size_t(s.block[b].row)];
    s.each(int(b), int(b) + 1, [&](Local, Local column, T value) { a.column[k] = column, a.value[k++] = value; });
  });
  return a;
}

template <Scalar T, Memory M>
void LocalMatrix<T, M>::copy_rows(const Global* begin, Global shift, Global* column,
                                  T* value) const requires std::same_as<M, Host> {
  exec::parallel_for(std::size_t(blocks()), blocks() > 16, [&](std::size_t b) {
    Local now = -1;
    Global k = 0;
    s_->each(int(b), int(b) + 1, [&](Local row, Local of, T v) {
      if (row != now) now = row, k = begin[row];
      column[k] = shift + of, value[k++] = v;
    });
  });
}

template <Scalar T, Memory M>
template <class F>
void LocalMatrix<T, M>::Storage::each_of_block(Local first, Local count, const F& f) const {
  if (count <= 0) return;
  const int from = block_of(first), to = block_of(first + count - 1) + 1;
  exec::parallel_for(std::size_t(to - from), to - from > 1, [&](std::size_t b) {
    each(from + int(b), from + int(b) + 1, [&](Local row, Local of, T v) {
      const Local r = row - first, c = of - first;
      if (r >= 0 && r < count && c >= 0 && c < count) f(r, c, v);
    });
  });
}

namespace {

/// Turns start[i + 1], the length of row i, into where the row begins; put() then makes it where the row ends.
template <Scalar T>
void begin_rows(LocalRows<T>& a, Local columns) {
  a.columns = columns;
  Global sum = 0;
  for (std::size_t i = 1; i < a.start.size(); ++i) sum += std::exchange(a.start[i], sum);
  a.column.resize(std::size_t(sum));
  a.value.resize(std::size_t(sum));
}
template <Scalar T>
void put(LocalRows<T>& a, Local row, Local column, T value) {
  const Global k = a.start[std::size_t(row) + 1]++;
  a.column[std::size_t(k)] = column;
  a.value[std::size_t(k)] = value;
}

}  // namespace

template <Scalar T, Memory M>
LocalRows<T> LocalMatrix<T, M>::block(Local first, Local count) const requires std::same_as<M, Host> {
  LocalRows<T> a;
  a.start.resize(std::size_t(count) + 1);
  s_->each_of_block(first, count, [&](Local r, Local, T) { ++a.start[std::size_t(r) + 1]; });
  begin_rows(a, count);
  s_->each_of_block(first, count, [&](Local r, Local c, T v) { put(a, r, c, v); });
  return a;
}

template <Scalar T, Memory M>
SplitRows<T> LocalMatrix<T, M>::split_block(Local first, Local count,
                                            bool with_upper) const requires std::same_as<M, Host> {
  SplitRows<T> a;
  a.lower.start.resize(std::size_t(count) + 1);
  a.upper.start.resize(with_upper ? std::size_t(count) + 1 : 1);
  a.diagonal.resize(std::size_t(count));
  s_->each_of_block(first, count, [&](Local r, Local c, T) {
    if (c < r) ++a.lower.start[std::size_t(r) + 1];
    else if (with_upper && c > r) ++a.upper.start[std::size_t(r) + 1];
  });
  begin_rows(a.lower, count);
  begin_rows(a.upper, count);
  s_->each_of_block(first, count, [&](Local r, Local c, T v) {
    if (c < r) put(a.lower, r, c, v);
    else if (c == r) a.diagonal[std::size_t(r)] = v;
    else if (with_upper) put(a.upper, r, c, v);
  });
  return a;
}

template <Scalar T, Memory M>
Global LocalMatrix<T, M>::entries() const requires std::same_as<M, Host> {
  return s_->entries;
}

template <Scalar T, Memory M>
void LocalMatrix<T, M>::add_node_couplings(int b, double* sums) const requires std::same_as<M, Host> {
  const Storage& s = *s_;
  const int all = blocks(), samples = std::min(all, 16);
  std::vector<Local> met;
  const auto count_node = [&] {
    sums[0] += double(met.size());
    std::sort(met.begin(), met.end());
    sums[1] += double(b) * b * double(std::unique(met.begin(), met.end()) - met.begin());
    met.clear();
  };
  for (int i = 0; i < samples; ++i) {
    // Scattered by the golden ratio, as equal steps may follow a grid.
    const std::uint64_t fraction = std::uint64_t(i) * 0x9e3779b97f4a7c15u >> 32;
    const int at = samples < all ? int(fraction * std::uint64_t(all) >> 32) : i;
    const Local first = (s.block[std::size_t(at)].row + b - 1) / b, last = s.block[std::size_t(at) + 1].row / b;
    Local node = first;
    s.each(at, at + 1, [&](Local r, Local c, T) {
      if (r / b < first || r / b >= last) return;
      if (r / b != node) count_node(), node = r / b;
      met.push_back(c / b);
    });
    count_node();
  }
}

template <Scalar T, Memory M>
void LocalMatrix<T, M>::add_couplings(std::span<const T> diagonal, int b,
                                      double* sums) const requires std::same_as<M, Host> {
  const auto count = std::size_t(blocks());
  std::vector<std::array<double, 2>> of(count);
  exec::parallel_for(count, count > 1, [&](std::size_t i) {
    auto& mine = of[i];
    s_->each(int(i), int(i) + 1, [&](Local r, Local c, T v) {
      if (c == r || (c - r) % b != 0) return;
      const double size = double(std::abs(v));
      mine[0] += size;
      if (real(v * conj(diagonal[std::size_t(r)])) > 0) mine[1] += size;
    });
  });
  for (const auto& mine : of) sums[0] += mine[0], sums[1] += mine[1];
}

template <Scalar T, Memory M>
void LocalMatrix<T, M>::count_entries(std::span<Local> count) const {
  const Storage& s = *s_;
  exec::parallel_for(std::size_t(blocks()), blocks() > 1, [&](std::size_t b) {
    if (s.format != Format::sell) {
      s.each(int(b), int(b) + 1, [&](Local r, Local, T) { ++count[std::size_t(r)]; });
      return;
    }
    for (Local base = s.block[b].row; base < s.block[b + 1].row; base += slice) {
      const auto& of = s.slices[std::size_t(base / slice)];
      const Local rows = std::min(slice, s.block[b + 1].row - base);
      for (Local l = 0; l < rows && !of.is_diagonal; ++l)
        count[std::size_t(base + l)] += s.width[std::size_t(base + l)];
      for (std::uint32_t j = 0; of.is_diagonal && j < of.steps; ++j)
        for (Local l = 0; l < rows; ++l) count[std::size_t(base + l)] += s.mask[of.pattern + j] >> l & 1;
    }
  });
}

template <Scalar T, Memory M>
bool LocalMatrix<T, M>::Storage::holds(const Global* begin, const T* values) const {
  if (numbers == Numbers::given) return true;
  std::atomic<bool> exact = true;
  with_values([&]<class V>(const V*) {
    if constexpr (is_narrower<T, V>)
      exec::parallel_for(block.size() - 1, block.size() > 16, [&](std::size_t b) {
        if (!exact.load(std::memory_order_relaxed)) return;
        auto lost = inexact<V>(T{});
        each_number(int(b), begin, [&](Global k, Global) { lost |= inexact<V>(values[k]); });
        if (lost) exact.store(false, std::memory_order_relaxed);
      });
  });
  return exact;
}

template <Scalar T, Memory M>
void LocalMatrix<T, M>::Storage::replace(const Global* begin, const T* values, T* diagonal_of) {
  const std::size_t count = std::max(block.size(), std::size_t(1)) - 1;
  with_values([&]<class V>(const V* all) {
    V* const to = const_cast<V*>(all);  // with_values() is of a constant matrix, and this one is not
    T* const outside = const_cast<T*>(rest.values());
    exec::parallel_for(count, count > 16, [&](std::size_t b) {
      each_number(int(b), begin, [&](Global k, Global place) {
        if (place < 0) outside[~place] = values[k];
        else to[place] = shortened<V>(values[k]);
      });
      if (diagonal_of) copy_diagonal(int(b), diagonal_of);
    });
  });
}

template <Scalar T, Memory M>
void LocalMatrix<T, M>::set_values(const Global* begin, const T* values, T* diagonal) requires std::same_as<M, Host> {
  if (!s_->shared && s_->holds(begin, values)) return s_->replace(begin, values, diagonal);
  // Slices with one copy of their values may now differ, or numbers need more bits than are stored of them. The matrix
  // stays as it is if there is no memory for another one.
  LocalRows<T> a = rows();
  exec::parallel_for(std::size_t(s_->rows), s_->rows > Storage::task_rows, [&](std::size_t r) {
    std::copy_n(values + (begin ? begin[r] : a.start[r]), a.start[r + 1] - a.start[r], a.value.data() + a.start[r]);
  });
  LocalMatrix made(a, s_->format);
  s_.swap(made.s_);
  for (int b = 0; diagonal && b < blocks(); ++b) s_->copy_diagonal(b, diagonal);
}

template <Scalar T, Memory M>
std::uint64_t LocalMatrix<T, M>::checksum() const requires std::same_as<M, Host> {
  const Storage& s = *s_;
  std::vector<Global> blocks;  // without the bytes between their numbers, which may be anything
  for (const auto& b : s.block) blocks.insert(blocks.end(), {b.row, b.lowest, b.needs});
  exec::Checksum sum;
  sum.add(s.start).add(s.offset).add(s.column).add(s.value).add(s.single).add(s.brief).add(s.slices).add(s.diagonal);
  sum.add(s.mask).add(s.width).add(s.empty).add(s.order).add(blocks);
  return sum.value() ^ s.rest.checksum();
}

template <Scalar T, Memory M>
double LocalMatrix<T, M>::bytes() const {
  return s_->bytes();
}

template <Scalar T, Memory M>
std::string LocalMatrix<T, M>::storage() const {
  const Storage& s = *s_;
  std::string notes;
  const auto note = [&](bool holds, const std::string& more) {
    if (holds) notes += notes.empty() ? more : ", " + more;
  };
  note(s.diagonal.size() > 0, "diagonals");
  note(s.offset.size() > 0, "16-bit offsets");
  note(s.column.size() > 0 && s.diagonal.size() > 0, "32-bit columns");
  note(s.numbers == Storage::Numbers::single, "float32 values");
  note(s.numbers == Storage::Numbers::bfloat16, "bfloat16 values");
  note(s.shared, "shared values");
  if (s.rest.count()) note(true, message(100 * (s.entries - s.rest.entries()) / s.entries, " % of entries in blocks"));
  const std::string size = s.format == Format::csr ? "" : message("-", s.format == Format::sell ? slice : s.grid.b);
  return message(to_string(s.format), size, notes.empty() ? "" : " (" + notes + ")");
}

#define TACIT_INSTANTIATE(T)                                                                 \
  template void LocalMatrix<T, Host>::copy_values(const Global*, T*) const;                  \
  template LocalRows<T> LocalMatrix<T, Host>::rows() const;                                  \
  template void LocalMatrix<T, Host>::copy_rows(const Global*, Global, Global*, T*) const;   \
  template LocalRows<T> LocalMatrix<T, Host>::block(Local, Local) const;                     \
  template SplitRows<T> LocalMatrix<T, Host>::split_block(Local, Local, bool) const;         \
  template Global LocalMatrix<T, Host>::entries() const;                                     \
  template void LocalMatrix<T, Host>::add_node_couplings(int, double*) const;                \
  template void LocalMatrix<T, Host>::add_couplings(std::span<const T>, int, double*) const; \
  template void LocalMatrix<T, Host>::count_entries(std::span<Local>) const;                 \
  template void LocalMatrix<T, Host>::set_values(const Global*, const T*, T*);               \
  template std::uint64_t LocalMatrix<T, Host>::checksum() const;                             \
  template double LocalMatrix<T, Host>::bytes() const;                                       \
  template std::string LocalMatrix<T, Host>::storage() const;
TACIT_EACH_OF_FOUR(TACIT_INSTANTIATE)

}  // namespace tacit::op
