// Construction of LocalMatrix: the choice of a format, and the storage by rows and by slices.
#include "storage.hpp"

#include <cstring>

namespace tacit::op {
namespace {

/// A copy, made by all threads.
template <class T>
exec::Array<T, Host> array(std::span<const T> from) {
  auto to = exec::Array<T, Host>::uninitialised(from.size());
  constexpr std::size_t piece = 1 << 15;
  const std::size_t pieces = (from.size() + piece - 1) / piece;
  exec::parallel_for(pieces, pieces > 16, [&](std::size_t i) {
    const auto some = from.subspan(i * piece, std::min(piece, from.size() - i * piece));
    std::memcpy(static_cast<void*>(to.data() + i * piece), some.data(), some.size_bytes());
  });
  return to;
}
template <class T>
exec::Array<T, Host> array(const std::vector<T>& v) {
  return array(std::span<const T>(v));
}

}  // namespace

/// The kinds of slices, and their numbers of steps, in SELL; found for chunks of task_rows rows.
template <Scalar T, Memory M>
struct LocalMatrix<T, M>::Storage::Slices {
  struct Chunk {
    std::vector<Local> diagonals;  // of all diagonal slices
    Global padded = 0, general = 0;
    bool narrow_rows = true, narrow_slices = true;
  };
  exec::Array<std::uint32_t, Host> shape;
  std::vector<Chunk> chunk;
  Global padded = 0, general = 0, diagonals = 0;
  bool narrow_rows = true, narrow_slices = true;

  explicit Slices(const LocalRowsView<T>& a)
      : shape(exec::Array<std::uint32_t, Host>::uninitialised(std::size_t((a.count() + slice - 1) / slice))),
        chunk(std::size_t((a.count() + task_rows - 1) / task_rows)) {
    exec::parallel_for(
        chunk.size(), chunk.size() > 1,
        [&](std::size_t i) {
          std::vector<Local> found, merged;
          const Local end = std::min(a.count(), Local(i + 1) * task_rows);
          for (Local base = Local(i) * task_rows; base < end; base += slice) add(a, base, chunk[i], found, merged);
        },
        1);
    for (const Chunk& c : chunk) {
      padded += c.padded, general += c.general, diagonals += Global(c.diagonals.size());
      narrow_rows &= c.narrow_rows, narrow_slices &= c.narrow_slices;
    }
    // Offsets are relative to x[row] (or that of the slice's first row), so each row has to be a column as well.
    narrow_rows &= a.count() <= a.columns;
    narrow_slices &= a.count() <= a.columns;
  }

 private:
  /// Whether all rows of a slice have the pattern of its first row, shifted: the case of most slices on grids.
  static bool is_uniform(const LocalRowsView<T>& a, Local base) {
    if (a.count() - base < slice) return false;
    const Global first = a.start[base], n = a.start[base + 1] - first;
    if (a.start[base + slice] - first != n * slice) return false;
    const Local* const c = a.column.data() + first;
    for (Local l = 1; l < slice; ++l) {
      if (a.start[base + l] - first != n * l) return false;
      const Local* const other = c + n * l;
      Local differ = 0;
      for (Global k = 0; k < n; ++k) differ |= other[k] - c[k] - l;
      if (differ) return false;
    }
    return true;
  }

  /// Adds the diagonals of a row to those found, which ascend.
  static void merge(const LocalRowsView<T>& a, Local r, std::vector<Local>& found, std::vector<Local>& merged) {
    merged.clear();
    auto old = found.begin();
    for (Global k = a.start[r]; k < a.start[r + 1]; ++k) {
      const Local d = a.column[k] - r;
      while (old != found.end() && *old < d) merged.push_back(*old++);
      if (old != found.end() && *old == d) ++old;
      merged.push_back(d);
    }
    merged.insert(merged.end(), old, found.end());
    found.swap(merged);
  }

  void add(const LocalRowsView<T>& a, Local base, Chunk& c, std::vector<Local>& found, std::vector<Local>& merged) {
    const Local end = std::min(a.count(), base + slice);
    found.clear();
    Global width = 0;
    bool narrow = true;
    const auto look = [&](Local r) {
      const Global first = a.start[r], last = a.start[r + 1] - 1;
      width = std::max(width, last + 1 - first);
      if (last < first) return;
      c.narrow_rows &= is_narrow(Global(a.column[first]) - r, Global(a.column[last]) - r);
      narrow &= is_narrow(Global(a.column[first]) - base, Global(a.column[last]) - base);
    };
    bool is_diagonal = is_uniform(a, base);
    if (is_diagonal) {
      look(base), look(end - 1);
      for (Global k = a.start[base]; k < a.start[base + 1]; ++k) found.push_back(a.column[k] - base);
    } else {
      for (Local r = base; r < end; ++r) look(r);
      const Global most = width + width / 4;
      for (Local r = base; r < end && Global(found.size()) <= most; ++r) merge(a, r, found, merged);
      is_diagonal = Global(found.size()) <= most;
    }
    const Global steps = is_diagonal ? Global(found.size()) : width;
    shape[std::size_t(base / slice)] = checked_cast<std::uint32_t>(2 * steps + is_diagonal, "the length of a row");
    if (is_diagonal) c.diagonals.insert(c.diagonals.end(), found.begin(), found.end());
    else c.general += steps * slice, c.narrow_slices &= narrow;
    c.padded += steps * slice;
  }
};

template <Scalar T, Memory M>
LocalMatrix<T, M>::LocalMatrix(const LocalRowsView<T>& a, Format format) : s_(std::make_unique<Storage>()) {
  Storage& s = *s_;
  s.rows = a.count(), s.columns = a.columns;
  s.row_begin = a.row_begin, s.column_begin = a.column_begin;
  s.entries = a.start.back();
  const typename Storage::Slices slices(a);
  const bool sell =
      format == Format::sell || (format == Format::automatic && slices.padded <= s.entries + s.entries / 10);
  if (format == Format::automatic || format == Format::bsr) {
    const double otherwise =
        sell ? double(slices.padded) * sizeof(T) + double(slices.general) * (slices.narrow_slices ? 2 : 4) +
                   double(slices.diagonals) * 5
             : double(s.entries) * (sizeof(T) + (slices.narrow_rows ? 2 : 4)) + double(s.rows) * sizeof(Global);
    const auto pays = [&](double bytes) { return format == Format::bsr || bytes <= 0.95 * otherwise; };
    double of_entry;
    s.grid = BlockGrid::best(a, of_entry);
    if (pays(of_entry * double(s.entries))) {
      s.store_blocks(a);
      s.find_reach(a);
      if (pays(s.bytes())) return;  // the sample has represented the matrix
      s.start = {}, s.offset = {}, s.column = {}, s.block.clear();
      s.rest = RowList<T, Host>(LocalRows<T>());
    }
  }
  s.format = sell ? Format::sell : Format::csr;
  s.narrow = sell ? slices.narrow_slices : slices.narrow_rows;
  if (sell) s.store_slices(a, slices);
  else s.store_rows(a);
  s.find_reach(a);
}

template <Scalar T, Memory M>
void LocalMatrix<T, M>::Storage::find_reach(const LocalRowsView<T>& a) {
  const std::size_t blocks = block.empty() ? 0 : block.size() - 1;
  exec::parallel_for(blocks, blocks > 64, [&](std::size_t b) {
    Local reach = 0;
    for (Local r = block[b].row; r < block[b + 1].row; ++r)
      if (a.start[r + 1] > a.start[r]) reach = std::max(reach, a.column[a.start[r + 1] - 1] + 1);
    block[b].reach = reach;
  });
  for (std::size_t b = 1; b < blocks; ++b) block[b].reach = std::max(block[b].reach, block[b - 1].reach);
}

template <Scalar T, Memory M>
void LocalMatrix<T, M>::Storage::store_rows(const LocalRowsView<T>& a) {
  start = array(a.start);
  value = array(a.value);
  if (narrow) {
    offset = exec::Array<std::int16_t, Host>::uninitialised(a.column.size());
    exec::parallel_for(std::size_t(rows), rows > task_rows, [&](std::size_t r) {
      for (Global k = a.start[r]; k < a.start[r + 1]; ++k) offset[k] = std::int16_t(a.column[k] - Local(r));
    });
  } else {
    column = array(a.column);
  }
  cut(a, 0, 1);
}

template <Scalar T, Memory M>
void LocalMatrix<T, M>::Storage::store_slices(const LocalRowsView<T>& a, const Slices& slices) {
  value = exec::Array<T, Host>::uninitialised(std::size_t(slices.padded));
  if (narrow) offset = exec::Array<std::int16_t, Host>::uninitialised(std::size_t(slices.general));
  else column = exec::Array<Local, Host>::uninitialised(std::size_t(slices.general));
  shape = slices.shape;
  diagonal = exec::Array<Local, Host>(std::size_t(slices.diagonals));
  mask = exec::Array<std::uint8_t, Host>(std::size_t(slices.diagonals));
  width.resize(slices.general ? std::size_t(rows) : 0);
  struct Chunk {
    Global value = 0, index = 0, diagonal = 0;  // where it begins
    std::vector<Block> block;
    std::vector<Local> empty;
  };
  std::vector<Chunk> chunk(slices.chunk.size());
  for (std::size_t i = 1; i < chunk.size(); ++i) {
    const auto& before = slices.chunk[i - 1];
    chunk[i].value = chunk[i - 1].value + before.padded;
    chunk[i].index = chunk[i - 1].index + before.general;
    chunk[i].diagonal = chunk[i - 1].diagonal + Global(before.diagonals.size());
  }
  exec::parallel_for(
      chunk.size(), chunk.size() > 1,
      [&](std::size_t i) {
        Chunk& c = chunk[i];
        std::copy(slices.chunk[i].diagonals.begin(), slices.chunk[i].diagonals.end(), diagonal.data() + c.diagonal);
        Global v = c.value, index = c.index, d = c.diagonal, since = block_entries;
        const Local end = std::min(rows, Local(i + 1) * task_rows);
        for (Local base = Local(i) * task_rows; base < end; base += slice) {
          const std::uint32_t kind = shape[base / slice];
          const Local steps = Local(kind / 2);
          if (since >= block_entries) c.block.push_back({base, v, index, d}), since = 0;
          since += Global(steps) * slice + slice;
          if (kind & 1) store_diagonals(a, base, steps, v, d), d += steps;
          else store_general(a, base, steps, v, index, c.empty), index += Global(steps) * slice;
          v += Global(steps) * slice;
        }
      },
      1);
  for (const Chunk& c : chunk) {
    block.insert(block.end(), c.block.begin(), c.block.end());
    empty.insert(empty.end(), c.empty.begin(), c.empty.end());
  }
  block.push_back({rows, slices.padded, slices.general, slices.diagonals});
}

template <Scalar T, Memory M>
void LocalMatrix<T, M>::Storage::store_diagonals(const LocalRowsView<T>& a, Local base, Local steps, Global v,
                                                 Global d) {
  const Local here = std::min(slice, rows - base);
  const Global first = a.start[base];
  T* const to = value.data() + v;
  if (a.start[base + here] - first == Global(steps) * slice) {  // every row has an entry on each diagonal
    const T* const from = a.value.data() + first;
    for (Local j = 0; j < steps; ++j)
      for (int l = 0; l < slice; ++l) to[std::ptrdiff_t(j) * slice + l] = from[std::ptrdiff_t(l) * steps + j];
    std::fill_n(mask.data() + d, steps, std::uint8_t((1u << slice) - 1));
    return;
  }
  std::fill_n(to, std::ptrdiff_t(steps) * slice, T{});
  for (int l = 0; l < here; ++l) {
    Local j = 0;
    for (Global k = a.start[base + l]; k < a.start[base + l + 1]; ++k) {
      while (diagonal[d + j] != a.column[k] - (base + l)) ++j;
      to[std::ptrdiff_t(j) * slice + l] = a.value[k];
      mask[d + j] |= std::uint8_t(1u << l);
    }
  }
}

template <Scalar T, Memory M>
void LocalMatrix<T, M>::Storage::store_general(const LocalRowsView<T>& a, Local base, Local steps, Global v,
                                               Global index, std::vector<Local>& without) {
  for (int l = 0; l < slice; ++l) {
    const Local r = base + l;
    const Global first = r < rows ? a.start[r] : 0, count = r < rows ? a.start[r + 1] - first : 0;
    if (r < rows) width[std::size_t(r)] = Local(count);
    // Padding multiplies zero by an element that the row reads anyway, so that no NaN of another element spoils it. A
    // row without entries is set to zero after the product.
    if (r < rows && !count) without.push_back(r);
    const Local idle = count ? a.column[first] : std::min(base, std::max<Local>(0, a.columns - 1));
    for (Local j = 0; j < steps; ++j) {
      const Local c = j < count ? a.column[first + j] : idle;
      const Global at = Global(j) * slice + l;
      value[v + at] = j < count ? a.value[first + j] : T{};
      if (narrow) offset[index + at] = std::int16_t(c - base);
      else column[index + at] = c;
    }
  }
}

template <Scalar T, Memory M>
LocalMatrix<T, M>::~LocalMatrix() = default;
template <Scalar T, Memory M>
LocalMatrix<T, M>::LocalMatrix(LocalMatrix&&) noexcept = default;

#define TACIT_INSTANTIATE(T) template class LocalMatrix<T, Host>;
TACIT_EACH_OF_FOUR(TACIT_INSTANTIATE)

}  // namespace tacit::op
