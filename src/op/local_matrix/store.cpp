// Construction of LocalMatrix: the choice of a format, and the storage by rows and by slices.
#include <tacit/base/error.hpp>

#include "storage.hpp"

#include <atomic>
#include <cstring>
#include <functional>
#include <numeric>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace tacit::op {
namespace {

// SELL is chosen where it stores at most so many numbers for an entry. CSR ends each row with a branch that is
// mispredicted where rows differ in length: on a Delaunay mesh (1.3) SELL takes half of its time, with 15 % more bytes.
// Complex numbers are not gathered, and CSR stays as fast.
template <Scalar T>
constexpr double most_padded = is_complex<T> ? 1.1 : 1.5;

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

template <class T>
std::string_view characters_of(const T* from, std::size_t n) {
  return {reinterpret_cast<const char*>(from), n * sizeof(T)};
}

/// A copy as values of type V, in which all are exact.
template <class V, class T>
exec::Array<V, Host> array_as(std::span<const T> from) {
  if constexpr (std::same_as<V, T>) return array(from);
  else {
    auto to = exec::Array<V, Host>::uninitialised(from.size());
    exec::parallel_for(from.size(), from.size() > std::size_t(1) << 19,
                       [&](std::size_t k) { to[k] = shortened<V>(from[k]); });
    return to;
  }
}

/// Whether all values are exact as V. Stops soon after the first that is not.
template <class V, class T>
bool are_exact(std::span<const T> values) {
  constexpr std::size_t piece = 1 << 12;
  const std::size_t pieces = (values.size() + piece - 1) / piece;
  std::atomic<bool> all = true;
  exec::parallel_for(pieces, pieces > 64, [&](std::size_t i) {
    if (!all.load(std::memory_order_relaxed)) return;
    auto lost = inexact<V>(T{});
    for (const T v : values.subspan(i * piece, std::min(piece, values.size() - i * piece))) lost |= inexact<V>(v);
    if (lost) all.store(false, std::memory_order_relaxed);
  });
  return all;
}

/// Where blocks of numbers have been stored, to find equal ones. Gives up where too few are found.
class Repeats {
 public:
  /// The place of a block that equals the one of this length at place `at`; `at` if there is none. equal(place)
  /// compares blocks of the same length, bytes() are those of the new one.
  template <class Equal, class Bytes>
  std::uint32_t find(std::uint32_t at, std::uint32_t length, Equal&& equal, Bytes&& bytes) {
    if (looks_ >= 64 && found_ < looks_ / 4) return at;
    ++looks_;
    if (length == last_.length && equal(last_.place)) return ++found_, last_.place;
    last_ = {at, length};
    const std::size_t hash = std::hash<std::string_view>()(bytes());
    const auto [from, to] = blocks_.equal_range(hash);
    for (auto b = from; b != to; ++b)
      if (b->second.length == length && equal(b->second.place)) return ++found_, last_ = b->second, last_.place;
    blocks_.emplace(hash, last_);
    return at;
  }

 private:
  struct Block {
    std::uint32_t place, length;
  };
  std::unordered_multimap<std::size_t, Block> blocks_;
  Block last_{0, 0xffffffff};
  std::uint32_t looks_ = 0, found_ = 0;
};

}  // namespace

/// The kinds of slices, and their numbers of steps, in SELL; found for chunks of task_rows rows.
template <Scalar T, Memory M>
struct LocalMatrix<T, M>::Storage::Kinds {
  struct Chunk {
    std::vector<Local> diagonals;  // of all diagonal slices
    Global padded = 0, general = 0;
    bool narrow_rows = true, narrow_slices = true;
  };
  exec::Array<std::uint32_t, Host> shape;
  std::vector<Chunk> chunk;
  Global padded = 0, general = 0, diagonals = 0;
  bool narrow_rows = true, narrow_slices = true;

  explicit Kinds(const LocalRowsView<T>& a)
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
  // Loops over slices and tasks count beyond the last row.
  constexpr Local most_rows = std::numeric_limits<Local>::max() - Storage::task_rows;
  require(a.count() <= most_rows, "a part of ", a.count(), " rows; a rank can store ", most_rows,
          " rows: use more ranks");
  s.rows = a.count(), s.columns = a.columns;
  s.row_begin = a.row_begin, s.column_begin = a.column_begin;
  s.entries = a.start.back();
  const typename Storage::Kinds kinds(a);
  const bool sell = format == Format::sell ||
                    (format == Format::automatic && double(kinds.padded) <= most_padded<T> * double(s.entries));
  if (format == Format::automatic || format == Format::bsr) {  // as if no value were narrower: new values may not be
    const double otherwise =
        sell ? double(kinds.padded) * sizeof(T) + double(kinds.general) * (kinds.narrow_slices ? 2 : 4) +
                   double(kinds.diagonals) * 5
             : double(s.entries) * (sizeof(T) + (kinds.narrow_rows ? 2 : 4)) + double(s.rows) * sizeof(Global);
    // A list of single entries may have fewer bytes than padded slices, but takes longer.
    constexpr double least_in_blocks = 0.25;
    const auto pays = [&](double bytes, double in_blocks) {
      return format == Format::bsr || (bytes <= 0.95 * otherwise && in_blocks >= least_in_blocks);
    };
    BlockGrid::Estimate estimate;
    s.grid = BlockGrid::best(a, estimate);
    if (pays(estimate.bytes * double(s.entries), estimate.in_blocks)) {
      s.store_blocks(a);
      s.find_neighbours(a);
      const double in_blocks = 1 - double(s.rest.entries()) / double(std::max<Global>(s.entries, 1));
      if (pays(s.bytes(), in_blocks)) return;  // the sample has represented the matrix
      s.start = {}, s.offset = {}, s.column = {}, s.value = {}, s.block.clear();
      s.rest = RowList<T, Host>(LocalRows<T>());
    }
  }
  s.format = sell ? Format::sell : Format::csr;
  s.choose_numbers(a.value);
  s.narrow = sell ? kinds.narrow_slices : kinds.narrow_rows;
  s.find_scattered(a);
  s.with_values([&]<class V>(const V*) {
    if (sell) s.template store_slices<V>(a, kinds);
    else s.template store_rows<V>(a);
  });
  s.find_neighbours(a);
}

template <Scalar T, Memory M>
void LocalMatrix<T, M>::Storage::choose_numbers(std::span<const T> values) {
  if constexpr (is_narrower<T, InBfloat16<T>>)
    if (are_exact<InBfloat16<T>>(values)) numbers = Numbers::bfloat16;
  if constexpr (is_narrower<T, InSingle<T>>)
    if (numbers == Numbers::given && are_exact<InSingle<T>>(values)) numbers = Numbers::single;
}

template <Scalar T, Memory M>
int LocalMatrix<T, M>::Storage::block_of(Local row) const {
  const auto after =
      std::upper_bound(block.begin(), block.end() - 1, row, [](Local r, const Block& b) { return r < b.row; });
  return int(after - block.begin()) - 1;
}

template <Scalar T, Memory M>
void LocalMatrix<T, M>::Storage::find_neighbours(const LocalRowsView<T>& a) {
  const int blocks = std::max(int(block.size()) - 1, 0);
  exec::parallel_for(std::size_t(blocks), blocks > 64, [&](std::size_t b) {
    Local least = block[b].row, most = least;
    for (Local r = block[b].row; r < block[b + 1].row; ++r)
      if (a.start[r + 1] > a.start[r])
        least = std::min(least, a.column[a.start[r]]), most = std::max(most, a.column[a.start[r + 1] - 1]);
    block[b].lowest = block_of(least), block[b].needs = block_of(most) + 1;
  });
  for (Block& b : block) b.entry = a.start[b.row];
  for (int b = 0; b < blocks; ++b) {
    int& needs = block[std::size_t(block[std::size_t(b)].lowest)].needs;
    needs = std::max(needs, b + 1);
  }
  for (int b = 1; b < blocks; ++b) block[b].needs = std::max(block[b].needs, block[b - 1].needs);
  for (int b = blocks - 2; b >= 0; --b) block[b].lowest = std::min(block[b].lowest, block[b + 1].lowest);
}

template <Scalar T, Memory M>
template <class V>
void LocalMatrix<T, M>::Storage::store_rows(const LocalRowsView<T>& a) {
  start = array(a.start);
  array_of<V>() = array_as<V>(a.value);
  if (narrow) {
    offset = exec::Array<std::int16_t, Host>::uninitialised(a.column.size());
    exec::parallel_for(std::size_t(rows), rows > task_rows, [&](std::size_t r) {
      for (Global k = a.start[r]; k < a.start[r + 1]; ++k) offset[k] = std::int16_t(a.column[k] - Local(r));
    });
  } else {
    column = array(a.column);
  }
  cut(a, 0, 1);
  find_order();
}

/// From a sample of the rows.
template <Scalar T, Memory M>
void LocalMatrix<T, M>::Storage::find_scattered(const LocalRowsView<T>& a) {
  constexpr Local samples = 512, close = 8;
  Global all = 0, far = 0;
  for (Local s = 0; rows > 1 && s < std::min(samples, rows - 1); ++s) {
    const Local r = 1 + Local(Global(s) * (rows - 1) / std::min(samples, rows - 1));
    Global before = a.start[r - 1];
    for (Global k = a.start[r]; k < a.start[r + 1]; ++k, ++all) {
      while (before < a.start[r] && a.column[before] < a.column[k] - close) ++before;
      far += before == a.start[r] || a.column[before] > a.column[k] + close;
    }
  }
  scattered = 2 * far > all;
}

template <Scalar T, Memory M>
void LocalMatrix<T, M>::Storage::find_order() {
  static_assert(std::max(task_rows, Local(block_entries) + 1) <= UINT16_MAX);  // rows of a block
  order.resize(std::size_t(rows));
  const std::size_t blocks = block.size() - 1;
  exec::parallel_for(blocks, blocks > 64, [&](std::size_t b) {
    const Local first = block[b].row;
    const auto begin = order.begin() + first, end = order.begin() + block[b + 1].row;
    const auto length = [&](std::uint16_t i) { return start[first + i + 1] - start[first + i]; };
    std::iota(begin, end, std::uint16_t(0));
    std::stable_sort(begin, end, [&](std::uint16_t i, std::uint16_t j) { return length(i) > length(j); });
  });
}

/// task_rows rows of SELL while they are stored: where their numbers begin in arrays that have room for all of them,
/// and how many are kept.
template <Scalar T, Memory M>
struct LocalMatrix<T, M>::Storage::Chunk {
  Global value = 0, index = 0, diagonal = 0;
  Global values = 0, indices = 0, diagonals = 0;
  std::vector<Block> block;
  std::vector<Local> empty;
};

template <Scalar T, Memory M>
template <class V>
void LocalMatrix<T, M>::Storage::store_slices(const LocalRowsView<T>& a, const Kinds& kinds) {
  array_of<V>() = exec::Array<V, Host>::uninitialised(std::size_t(kinds.padded));
  if (narrow) offset = exec::Array<std::int16_t, Host>::uninitialised(std::size_t(kinds.general));
  else column = exec::Array<Local, Host>::uninitialised(std::size_t(kinds.general));
  slices = exec::Array<Slice, Host>::uninitialised(kinds.shape.size());
  diagonal = exec::Array<Local, Host>::uninitialised(std::size_t(kinds.diagonals));
  mask = exec::Array<std::uint8_t, Host>::uninitialised(std::size_t(kinds.diagonals));
  width.resize(kinds.general ? std::size_t(rows) : 0);
  std::vector<Chunk> chunk(kinds.chunk.size());
  for (std::size_t i = 1; i < chunk.size(); ++i) {
    const auto& before = kinds.chunk[i - 1];
    chunk[i].value = chunk[i - 1].value + before.padded;
    chunk[i].index = chunk[i - 1].index + before.general;
    chunk[i].diagonal = chunk[i - 1].diagonal + Global(before.diagonals.size());
  }
  exec::parallel_for(
      chunk.size(), chunk.size() > 1, [&](std::size_t i) { store_chunk<V>(a, kinds, i, chunk[i]); }, 1);
  shared = std::any_of(chunk.begin(), chunk.end(),
                       [&](const Chunk& c) { return c.values != kinds.chunk[std::size_t(&c - chunk.data())].padded; });
  close_gaps<V>(chunk);
  for (const Chunk& c : chunk) {
    block.insert(block.end(), c.block.begin(), c.block.end());
    empty.insert(empty.end(), c.empty.begin(), c.empty.end());
  }
  block.push_back({rows});
  exec::parallel_for(block.size() - 1, chunk.size() > 1,
                     [&](std::size_t b) { find_alike(block[b].row, block[b + 1].row); });
}

template <Scalar T, Memory M>
template <class V>
void LocalMatrix<T, M>::Storage::store_chunk(const LocalRowsView<T>& a, const Kinds& kinds, std::size_t i, Chunk& c) {
  constexpr std::size_t of_value = sizeof(V) * slice;
  V* const all = array_of<V>().data();
  const Local* found = kinds.chunk[i].diagonals.data();
  Repeats same_values, same_indices, same_diagonals;
  Global since = block_entries;
  const Local end = std::min(rows, Local(i + 1) * task_rows);
  for (Local base = Local(i) * task_rows; base < end; base += slice) {
    const std::uint32_t shape = kinds.shape[std::size_t(base / slice)], steps = shape / 2;
    const Global n = Global(steps) * slice, v = c.value + c.values;
    Slice& q = slices[std::size_t(base / slice)] = {steps, shape & 1, 0, 0};
    if (since >= block_entries) c.block.push_back({base}), since = 0;
    since += n + slice;
    if (q.is_diagonal) {
      const Global d = c.diagonal + c.diagonals;
      std::copy_n(found, steps, diagonal.data() + d), found += steps;
      store_diagonals(a, base, Local(steps), all + v, d);
      const auto equal = [&](std::uint32_t place) {
        return std::equal(diagonal.data() + d, diagonal.data() + d + steps, diagonal.data() + c.diagonal + place) &&
               std::equal(mask.data() + d, mask.data() + d + steps, mask.data() + c.diagonal + place);
      };
      q.pattern = same_diagonals.find(std::uint32_t(c.diagonals), steps, equal,
                                      [&] { return characters_of(diagonal.data() + d, steps); });
      if (q.pattern == c.diagonals) c.diagonals += steps;
    } else {
      const Global k = c.index + c.indices;
      store_general(a, base, Local(steps), all + v, k, c.empty);
      const auto find = [&](auto* indices) {
        const auto equal = [&](std::uint32_t place) {
          return std::equal(indices + k, indices + k + n, indices + c.index + Global(place) * slice);
        };
        return same_indices.find(std::uint32_t(c.indices / slice), steps, equal,
                                 [&] { return characters_of(indices + k, std::size_t(n)); });
      };
      q.pattern = narrow ? find(offset.data()) : find(column.data());
      if (q.pattern == c.indices / slice) c.indices += n;
    }
    const auto equal = [&](std::uint32_t place) {  // bit for bit: -0 is not 0
      const V* const other = all + c.value + Global(place) * slice;
      return std::memcmp(static_cast<const void*>(all + v), other, of_value * steps) == 0;
    };
    q.value = same_values.find(std::uint32_t(c.values / slice), steps, equal,
                               [&] { return characters_of(all + v, std::size_t(n)); });
    if (q.value == c.values / slice) c.values += n;
  }
}

/// Moves the numbers that the chunks keep together, and counts from the beginning of the arrays.
template <Scalar T, Memory M>
template <class V>
void LocalMatrix<T, M>::Storage::close_gaps(std::span<Chunk> chunk) {
  const auto close = [&](auto& all, Global Chunk::*begin, Global Chunk::*kept) {
    std::vector<Global> to(chunk.size() + 1, 0);
    for (std::size_t i = 0; i < chunk.size(); ++i) to[i + 1] = to[i] + chunk[i].*kept;
    if (to.back() == Global(all.size())) return;
    auto less = std::remove_reference_t<decltype(all)>::uninitialised(std::size_t(to.back()));
    exec::parallel_for(chunk.size(), chunk.size() > 1, [&](std::size_t i) {
      std::copy_n(all.data() + chunk[i].*begin, chunk[i].*kept, less.data() + to[i]);
    });
    for (std::size_t i = 0; i < chunk.size(); ++i) chunk[i].*begin = to[i];
    all = std::move(less);
  };
  // The masks lie as the diagonals do, which are moved last.
  close(array_of<V>(), &Chunk::value, &Chunk::values);
  if (!narrow) close(column, &Chunk::index, &Chunk::indices);
  else close(offset, &Chunk::index, &Chunk::indices);
  std::vector<Global> before;
  for (const Chunk& c : chunk) before.push_back(c.diagonal);
  close(mask, &Chunk::diagonal, &Chunk::diagonals);
  for (std::size_t i = 0; i < chunk.size(); ++i) chunk[i].diagonal = before[i];
  close(diagonal, &Chunk::diagonal, &Chunk::diagonals);
  exec::parallel_for(chunk.size(), chunk.size() > 1, [&](std::size_t i) {
    const Chunk& c = chunk[i];
    const std::size_t first = i * task_rows / slice, end = std::min(slices.size(), (i + 1) * task_rows / slice);
    for (std::size_t k = first; k < end; ++k) {
      Slice& q = slices[k];
      q.value = checked_cast<std::uint32_t>(q.value + c.value / slice, "the entries of a rank");
      q.pattern = checked_cast<std::uint32_t>(q.pattern + (q.is_diagonal ? c.diagonal : c.index / slice),
                                              "the entries of a rank");
    }
  });
}

/// How many slices can be multiplied as one, for the slices of rows [first, end).
template <Scalar T, Memory M>
void LocalMatrix<T, M>::Storage::find_alike(Local first, Local end) {
  constexpr auto full = std::uint8_t((1u << slice) - 1);
  for (Local base = (end - 1) / slice * slice - slice; base >= first; base -= slice) {
    Slice& q = slices[std::size_t(base / slice)];
    const Slice& next = slices[std::size_t(base / slice) + 1];
    if (!q.is_diagonal || !next.is_diagonal || q.steps != next.steps || q.pattern != next.pattern) continue;
    if (end - base < 2 * slice) continue;
    const std::uint8_t* const masks = mask.data() + q.pattern;
    if (!std::all_of(masks, masks + q.steps, [](std::uint8_t m) { return m == full; })) continue;
    const bool repeats = next.value == q.value;
    if ((!repeats && next.value != q.value + q.steps) || (next.alike > 1 && bool(next.repeats) != repeats)) continue;
    q.alike = next.alike + 1, q.repeats = repeats;
  }
}

template <Scalar T, Memory M>
template <class V>
void LocalMatrix<T, M>::Storage::store_diagonals(const LocalRowsView<T>& a, Local base, Local steps, V* to, Global d) {
  const Local here = std::min(slice, rows - base);
  const Global first = a.start[base];
  if (a.start[base + here] - first == Global(steps) * slice) {  // every row has an entry on each diagonal
    const T* const from = a.value.data() + first;
    for (Local j = 0; j < steps; ++j)
      for (int l = 0; l < slice; ++l)
        to[std::ptrdiff_t(j) * slice + l] = shortened<V>(from[std::ptrdiff_t(l) * steps + j]);
    std::fill_n(mask.data() + d, steps, std::uint8_t((1u << slice) - 1));
    return;
  }
  std::fill_n(to, std::ptrdiff_t(steps) * slice, V{});
  std::fill_n(mask.data() + d, steps, std::uint8_t(0));
  for (int l = 0; l < here; ++l) {
    Local j = 0;
    for (Global k = a.start[base + l]; k < a.start[base + l + 1]; ++k) {
      while (diagonal[d + j] != a.column[k] - (base + l)) ++j;
      to[std::ptrdiff_t(j) * slice + l] = shortened<V>(a.value[k]);
      mask[d + j] |= std::uint8_t(1u << l);
    }
  }
}

template <Scalar T, Memory M>
template <class V>
void LocalMatrix<T, M>::Storage::store_general(const LocalRowsView<T>& a, Local base, Local steps, V* to, Global index,
                                               std::vector<Local>& without) {
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
      const Global place = Global(j) * slice + l;
      to[place] = j < count ? shortened<V>(a.value[first + j]) : V{};
      if (narrow) offset[index + place] = std::int16_t(c - base);
      else column[index + place] = c;
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
