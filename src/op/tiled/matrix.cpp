#include <tacit/op/tiled_matrix.hpp>

#include <tacit/base/error.hpp>
#include <tacit/exec/checksum.hpp>
#include <tacit/exec/parallel.hpp>

#include "block.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <limits>
#include <mutex>
#include <numeric>
#include <type_traits>
#include <utility>

namespace tacit::op {
namespace {

std::size_t bytes_of(Values v, std::size_t full) {
  return v == Values::full ? full : v == Values::single ? 4 : 2;
}

// The number of runs of 16 columns that the rows touch, summed over rows.
template <class T>
double count_runs(const RowBuffer<T>& rows) {
  double runs = 0;
  std::vector<Local> seen;
  for (std::size_t r = 0; r + 1 < rows.start.size(); ++r) {
    seen.clear();
    for (auto i = rows.start[r]; i < rows.start[r + 1]; ++i) seen.push_back(rows.column[std::size_t(i)] / detail::run);
    std::sort(seen.begin(), seen.end());
    runs += double(std::unique(seen.begin(), seen.end()) - seen.begin());
  }
  return runs;
}

int stages_of(TiledFormat format, Local columns) {
  if (format == TiledFormat::plain) return 1;
  const int stage = format == TiledFormat::list ? detail::list_stage : detail::bitmap_stage;
  return std::max(1, int((Global(columns) + stage - 1) / stage));
}

void check_order(const std::vector<Local>& order, Local n, const char* what) {
  std::vector<char> named(order.size());
  for (const Local i : order) {
    require(i >= 0 && i < n && !named[std::size_t(i)], what, " ", i, " in an order of ", n, " ", what,
            "s: each comes once");
    named[std::size_t(i)] = 1;
  }
}

[[noreturn]] void refuse_twice(const Local* column, std::size_t entries, Local row) {
  std::size_t i = 0;
  while (i + 1 < entries && std::find(column, column + i, column[i]) == column + i) ++i;
  throw Error(ErrorKind::usage, message("row ", row, " has column ", column[i], " twice"));
}

// Segments are counted, then their offsets are summed up; `longest` is that of values.
std::uint32_t sum_up(std::uint32_t* start, std::size_t segments) {
  std::uint32_t longest = 0;
  for (std::size_t s = 0; s < segments; ++s) longest = std::max(longest, start[s + 1]), start[s + 1] += start[s];
  return longest;
}

void check_tiling(Local rows, Local columns, const TiledOptions& options, std::size_t scalar) {
  require(rows >= 0 && columns >= 0, "a tiled matrix of ", rows, " x ", columns);
  require(options.block_rows >= 0 && options.block_rows <= 65536, "blocks of ", options.block_rows,
          " rows; 1 to 65536 are possible, 0 leaves the choice to Tacit");
  require(options.columns >= 1, "a tiled matrix made for ", options.columns, " columns at once");
  require(options.tile >= 0 && options.tile <= 128 && options.tile % 8 == 0, "a register tile of ", options.tile,
          " columns; multiples of 8 up to 128 are possible");
  require(options.row_order.empty() || options.row_order.size() == std::size_t(rows), "an order of ",
          options.row_order.size(), " rows for a matrix of ", rows);
  check_order(options.row_order, rows, "row");
  require(options.column_order.empty() || options.column_order.size() == std::size_t(columns), "an order of ",
          options.column_order.size(), " columns for a matrix of ", columns);
  check_order(options.column_order, columns, "column");
  require(options.vectors == Vectors::full || scalar == sizeof(float),
          "vectors in 16 bits are of matrices of floats; this one is of doubles");
}

template <class T>
TiledFormat chosen_format(Local rows, Local columns, Local block_rows, int together, const RowSource<T>& source) {
  const double stages = std::ceil(double(columns) / detail::list_stage);
  if ((together >= 8 && stages <= 1) || rows == 0) return TiledFormat::list;
  double runs = 0, entries = 0, sampled = 0;
  RowBuffer<T> some;
  const Local blocks = Local((Global(rows) + block_rows - 1) / block_rows), samples = std::min<Local>(8, blocks);
  for (Local s = 0; s < samples; ++s) {
    const Local begin = Local(Global(blocks) * s / samples) * block_rows;
    const Local end = std::min<Local>(rows, begin + std::min(block_rows, 16));
    some.start = {0}, some.column.clear(), some.value.clear();
    source(begin, end, some);
    runs += count_runs(some), entries += double(some.column.size()), sampled += end - begin;
  }
  if (together < 8 && 4 * runs <= 2.2 * entries) return TiledFormat::bitmap;
  return stages > 1 && entries < 16 * stages * sampled ? TiledFormat::plain : TiledFormat::list;
}

}  // namespace

template <class T>
TiledMatrix<T>::TiledMatrix(Local rows, Local columns, const RowSource<T>& source, const TiledOptions& options)
    : rows_(rows), columns_(columns), format_(options.format), values_(options.values) {
  require(options.format != TiledFormat::computed,
          "a tiled matrix stores its entries; the format computed is of projectors");
  if (options.tune) {
    *this = TiledMatrix(rows, columns, source, tuned(rows, columns, source, options));
    return;
  }
  check_tiling(rows, columns, options, sizeof(T));
  in_order_ = options.in_order;
  order_ = options.row_order;
  column_order_ = options.column_order;
  vectors_ = options.vectors;
  spare_ = std::make_unique<Spare>();
  if (values_ == Values::single && sizeof(T) == sizeof(float)) values_ = Values::full;
  block_rows_ = options.block_rows > 0 ? options.block_rows : 128;
  constexpr int widest = detail::most_vectors * detail::lanes<T>;
  tile_ = options.tile == 0
              ? widest
              : std::min(std::max(options.tile, detail::lanes<T>) / detail::lanes<T> * detail::lanes<T>, widest);
  const Local blocks = Local((Global(rows) + block_rows_ - 1) / block_rows_);
  if (format_ == TiledFormat::automatic) format_ = chosen_format(rows, columns, block_rows_, options.columns, source);
  stages_ = stages_of(format_, columns);
  blocks_.resize(std::size_t(blocks));
  for (int t = 0; t < exec::threads(); ++t) arenas_.push_back(std::make_unique<Arena>());
  std::vector<typename Arena::Survey> found(std::size_t(blocks), typename Arena::Survey{});
  std::exception_ptr failure;
  std::mutex mutex;
  exec::parallel_claims(std::size_t(blocks), 1, true, [&](exec::Claims& claims) {
    RowBuffer<T> buffer;
    Arena& arena = *arenas_[std::size_t(claims.thread())];
    claims.each([&](std::size_t b) {
      try {
        const Local begin = Local(b) * block_rows_, end = Local(std::min<Global>(rows, Global(begin) + block_rows_));
        buffer.start = {0}, buffer.column.clear(), buffer.value.clear();
        source(begin, end, buffer);
        found[b] = Arena::surveyed(begin, end, columns, buffer);
        Block& block = blocks_[b];
        encode(begin, end, buffer, block, arena);
        block.made[0] = checksum_of_starts(block), block.made[1] = checksum_of_entries(block);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
      }
    });
    arena.forget();
  });
  if (failure) std::rethrow_exception(failure);
  largest_ = 0, longest_ = 0, entries_ = 0;
  for (auto& of : found) {
    entries_ += of.entries;
    largest_ = std::max(largest_, of.largest), longest_ = std::max(longest_, of.longest);
    if (fault_.empty()) fault_ = std::move(of.fault);
  }
}

template <class T>
auto TiledMatrix<T>::Arena::surveyed(Local begin, Local end, Local columns, const RowBuffer<T>& rows) -> Survey {
  require(Local(rows.start.size()) == end - begin + 1, "rows ", begin, " to ", end - 1, " were asked for, ",
          rows.start.size() - 1, " were given");
  require(rows.column.size() < std::size_t(1) << 32, "a block of ", end - begin, " rows has ", rows.column.size(),
          " entries; fewer rows in a block are needed");
  // The largest magnitude by bit patterns, which are ordered like the numbers, with Inf and NaN last.
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  Bits most_bits = 0;
  std::uint32_t most_column = 0;
  for (const T v : rows.value) most_bits = std::max(most_bits, Bits(std::bit_cast<Bits>(v) << 1));
  for (const Local c : rows.column) most_column = std::max(most_column, std::uint32_t(c));
  const T most = std::bit_cast<T>(Bits(most_bits >> 1));
  Survey found;
  found.largest = most, found.entries = Global(rows.column.size());
  for (std::size_t r = 0; r + 1 < rows.start.size(); ++r)
    found.longest = std::max(found.longest, std::uint32_t(rows.start[r + 1] - rows.start[r]));
  const bool outside = !rows.column.empty() && most_column >= std::uint32_t(columns);
  if (std::isfinite(most) && !outside) return found;
  for (std::size_t i = 0; i < rows.column.size(); ++i) {
    require(rows.column[i] >= 0 && rows.column[i] < columns, "an entry in column ", rows.column[i],
            "; columns run from 0 to ", columns - 1);
    if (std::isfinite(rows.value[i]) || !found.fault.empty()) continue;
    const auto row = std::upper_bound(rows.start.begin(), rows.start.end(), std::int64_t(i)) - rows.start.begin() - 1;
    found.fault = message("the matrix has a value that is not finite at row ", begin + row, ", column ", rows.column[i],
                          " (counted from 0)");
  }
  return found;
}

template <class T>
std::uint64_t TiledMatrix<T>::checksum_of_starts(const Block& block) const {
  const std::size_t bytes = (std::size_t(block.rows) * std::size_t(stages_) + 1) * sizeof(std::uint32_t);
  return exec::Checksum().add(block.item_start, bytes).add(block.value_start, bytes).value();
}
template <class T>
std::uint64_t TiledMatrix<T>::checksum_of_entries(const Block& block) const {
  const std::size_t last = std::size_t(block.rows) * std::size_t(stages_);
  const std::size_t item = format_ == TiledFormat::list ? sizeof(std::uint16_t) : sizeof(std::uint32_t);
  return exec::Checksum()
      .add(block.items, block.item_start[last] * item)
      .add(block.values, block.value_start[last] * bytes_of(values_, sizeof(T)))
      .value();
}
template <class T>
bool TiledMatrix<T>::intact() const {
  std::atomic<bool> same = true;
  exec::parallel_for(blocks_.size(), blocks_.size() > 1, [&](std::size_t b) {
    const Block& block = blocks_[b];
    // The starts first: they say how long the others are.
    if (checksum_of_starts(block) != block.made[0] || checksum_of_entries(block) != block.made[1]) same = false;
  });
  return same;
}

template <class T>
TiledMatrix<T>::~TiledMatrix() = default;
template <class T>
TiledMatrix<T>::TiledMatrix(TiledMatrix&&) noexcept = default;
template <class T>
TiledMatrix<T>& TiledMatrix<T>::operator=(TiledMatrix&&) noexcept = default;

// Calls f(put), where put(at, v) stores number `at` of a block.
template <class T, class F>
static void with_put(Values how, T scale, std::byte* values, F&& f) {
  const double inverse = 1.0 / double(scale);  // exact: a power of two
  auto* const narrow = reinterpret_cast<std::uint16_t*>(values);
  if (how == Values::full) f([to = reinterpret_cast<T*>(values)](std::size_t at, T v) { to[at] = v; });
  else if (how == Values::single)
    f([to = reinterpret_cast<float*>(values)](std::size_t at, T v) { to[at] = float(v); });
  else if (how == Values::half)
    f([=](std::size_t at, T v) { narrow[at] = detail::to_half(float(double(v) * inverse)); });
  else f([=](std::size_t at, T v) { narrow[at] = detail::to_bfloat16(float(double(v) * inverse)); });
}

// encode() for bitmaps with a single stage: row by row, so that the data of a row stay in the first-level cache.
template <class T>
void TiledMatrix<T>::encode_runs(Local begin, const RowBuffer<T>& in, Block& block, Arena& arena) const {
  const std::size_t n = in.column.size(), rows = std::size_t(block.rows);
  auto *const item_start = arena.template array<std::uint32_t>(rows + 1), *const value_start =
                                                                              arena.template array<std::uint32_t>(rows +
                                                                                                                  1);
  std::byte* const values = arena.template padded<std::byte>(n * bytes_of(values_, sizeof(T)));
  const std::size_t runs = std::size_t(columns_) / detail::run + 1;
  if (arena.seen.size() < runs) arena.seen.assign(runs, 0), arena.epoch = 0;
  std::size_t longest = 0;
  for (std::size_t r = 0; r < rows; ++r) longest = std::max(longest, std::size_t(in.start[r + 1] - in.start[r]));
  auto& items = arena.count;            // of the block
  auto& code = arena.run_of;            // of the row's entries: run, position in it
  auto& value_at = arena.value_of_run;  // of the row's runs
  items.resize(n + 1), code.resize(longest), value_at.resize(longest + 1), arena.run_list.resize(longest + 1);
  auto* const list = arena.run_list.data();
  std::uint64_t* const seen = arena.seen.data();
  std::size_t count = 0;
  std::uint32_t value_count = 0;
  with_put<T>(values_, block.scale, values, [&](auto put) {
    for (std::size_t r = 0; r < rows; ++r) {
      item_start[r] = std::uint32_t(count), value_start[r] = value_count;
      if (++arena.epoch == 0) std::fill(arena.seen.begin(), arena.seen.end(), 0u), arena.epoch = 1;
      const std::uint64_t epoch = std::uint64_t(arena.epoch) << 32;
      const auto first = std::size_t(in.start[r]), entries = std::size_t(in.start[r + 1]) - first;
      const Local* const column = in.column.data() + first;
      const T* const value = in.value.data() + first;
      std::uint32_t touched = 0, twice = 0;
      for (std::size_t i = 0; i < entries; ++i) {
        const auto c = std::uint32_t(column[i]), chunk = c / detail::run, place = c % detail::run, bit = 1u << place;
        const std::uint64_t known = seen[chunk];
        const bool fresh = (known & ~std::uint64_t(0xffffffffu)) != epoch;
        const std::uint32_t at = fresh ? touched : std::uint32_t(known), mask = fresh ? 0u : list[at].mask;
        seen[chunk] = epoch | at;
        twice |= mask & bit;
        list[at] = {chunk, mask | bit};
        code[i] = at << 4 | place;
        touched += fresh;
      }
      if (twice) refuse_twice(column, entries, begin + Local(r));
      for (std::uint32_t k = 0; k < touched; ++k) {
        const auto [chunk, mask] = list[k];
        items[count++] = chunk << 16 | mask;
        value_at[k] = value_count;
        value_count += std::uint32_t(std::popcount(mask));
      }
      for (std::size_t i = 0; i < entries; ++i) {
        const std::uint32_t at = code[i] >> 4, below = list[at].mask & ((1u << (code[i] & 15u)) - 1);
        put(value_at[at] + std::size_t(std::popcount(below)), value[i]);
      }
    }
  });
  item_start[rows] = std::uint32_t(count), value_start[rows] = value_count;
  auto* const kept = arena.template padded<std::uint32_t>(count);
  std::copy_n(items.data(), count, kept);
  block.longest = std::uint32_t(longest);
  block.items = kept, block.values = values, block.item_start = item_start, block.value_start = value_start;
}

template <class T>
void TiledMatrix<T>::encode(Local begin, Local end, const RowBuffer<T>& in, Block& block, Arena& arena) const {
  block.begin = begin;
  block.rows = end - begin;
  if (values_ == Values::half || values_ == Values::bfloat16) {
    double most = 0;
    for (const T v : in.value)
      if (std::isfinite(v)) most = std::max(most, double(std::abs(v)));
    // Scales the largest number to [2^14, 2^15): halves then have full precision down to 2^-29 of it.
    block.scale = most > 0 ? T(std::ldexp(1.0, std::clamp(std::ilogb(most) - 14, sizeof(T) == 4 ? -120 : -1000,
                                                          sizeof(T) == 4 ? 120 : 1000)))
                           : T(1);
  }
  const std::size_t width = bytes_of(values_, sizeof(T));
  arena.value_bytes += double(in.column.size() * width);
  if (format_ != TiledFormat::bitmap) arena.encode_lists(*this, in, block);
  else if (stages_ == 1) encode_runs(begin, in, block, arena);
  else arena.encode_bitmaps(*this, in, block);
}

template <class T>
void TiledMatrix<T>::Arena::encode_lists(const TiledMatrix& of, const RowBuffer<T>& in, Block& block) {
  const auto rows = std::size_t(block.rows), stages = std::size_t(of.stages_), segments = rows * stages;
  const std::size_t n = in.column.size();
  const Local* const column = in.column.data();
  auto* const start = array<std::uint32_t>(segments + 1);
  std::fill_n(start, segments + 1, 0u);
  for (std::size_t r = 0; r < rows; ++r) {
    const auto first = std::size_t(in.start[r]), last = std::size_t(in.start[r + 1]);
    if (stages == 1) start[r + 1] = std::uint32_t(last - first);
    else
      for (auto i = first; i < last; ++i) ++start[(std::uint32_t(column[i]) / detail::list_stage) * rows + r + 1];
  }
  block.longest = std::max(block.longest, sum_up(start, segments));
  block.item_start = block.value_start = start;
  auto* const values = padded<std::byte>(n * bytes_of(of.values_, sizeof(T)));
  block.values = values;
  with_put<T>(of.values_, block.scale, values, [&](auto put) {
    if (of.format_ == TiledFormat::plain) {
      auto* items = padded<std::uint32_t>(n);
      for (std::size_t i = 0; i < n; ++i) items[i] = std::uint32_t(column[i]), put(i, in.value[i]);
      block.items = items;
      return;
    }
    auto* items = padded<std::uint16_t>(n);
    count.assign(stages, 0);
    std::uint32_t* const next = count.data();
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t s = 0; s < stages; ++s) next[s] = start[s * rows + r];
      for (auto i = std::size_t(in.start[r]); i < std::size_t(in.start[r + 1]); ++i) {
        const std::uint32_t at = next[stages == 1 ? 0 : std::uint32_t(column[i]) / detail::list_stage]++;
        items[at] = std::uint16_t(column[i]);
        put(at, in.value[i]);
      }
    }
    block.items = items;
  });
}

// The runs of a row, which are added to run_list, and that of each entry.
template <class T>
void TiledMatrix<T>::Arena::find_runs(Local row, const RowBuffer<T>& in, std::size_t r) {
  if (++epoch == 0) std::fill(stamp.begin(), stamp.end(), 0u), epoch = 1;
  const std::uint32_t now = epoch;
  std::uint32_t *const stamps = stamp.data(), *const places = place.data(), *const of_entry = run_of.data();
  const Local* const column = in.column.data();
  const auto first = std::size_t(in.start[r]), last = std::size_t(in.start[r + 1]);
  auto runs = std::uint32_t(run_list.size());
  run_list.resize(runs + (last - first));
  auto* const list = run_list.data();
  for (std::size_t i = first; i < last; ++i) {
    const auto c = std::uint32_t(column[i]), chunk = c / detail::run, bit = 1u << (c % detail::run);
    if (stamps[chunk] != now) stamps[chunk] = now, places[chunk] = runs, list[runs++] = {chunk, 0};
    const std::uint32_t at = places[chunk];
    require(!(list[at].mask & bit), "row ", row, " has column ", c, " twice");
    list[at].mask |= bit;
    of_entry[i] = at;
  }
  run_list.resize(runs);
}

template <class T>
void TiledMatrix<T>::Arena::encode_bitmaps(const TiledMatrix& of, const RowBuffer<T>& in, Block& block) {
  const auto rows = std::size_t(block.rows), stages = std::size_t(of.stages_), segments = rows * stages;
  const std::size_t n = in.column.size();
  auto *const item_start = array<std::uint32_t>(segments + 1), *const value_start = array<std::uint32_t>(segments + 1);
  std::fill_n(item_start, segments + 1, 0u), std::fill_n(value_start, segments + 1, 0u);
  const std::size_t runs_of_row = std::size_t(of.columns_) / detail::run + 1;
  if (stamp.size() < runs_of_row) stamp.assign(runs_of_row, 0), place.assign(runs_of_row, 0), epoch = 0;
  run_list.clear(), run_start.assign(1, 0), run_of.resize(n);
  for (std::size_t r = 0; r < rows; ++r) {
    find_runs(block.begin + Local(r), in, r);
    const auto* const list = run_list.data();
    for (std::size_t k = run_start.back(); k < run_list.size(); ++k) {
      const std::size_t segment = (list[k].chunk >> 16) * rows + r + 1;
      ++item_start[segment];
      value_start[segment] += std::uint32_t(std::popcount(list[k].mask));
    }
    run_start.push_back(run_list.size());
  }
  sum_up(item_start, segments);
  block.longest = std::max(block.longest, sum_up(value_start, segments));
  block.item_start = item_start, block.value_start = value_start;
  auto* const values = padded<std::byte>(n * bytes_of(of.values_, sizeof(T)));
  auto* const items = padded<std::uint32_t>(run_list.size());
  block.values = values, block.items = items;
  value_of_run.resize(run_list.size());
  std::uint32_t* const value_at = value_of_run.data();
  const auto* const list = run_list.data();
  const std::uint32_t* const of_entry = run_of.data();
  std::vector<std::uint32_t>& cursor = count;
  cursor.assign(2 * stages, 0);
  with_put<T>(of.values_, block.scale, values, [&](auto put) {
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t s = 0; s < stages; ++s)
        cursor[s] = item_start[s * rows + r], cursor[stages + s] = value_start[s * rows + r];
      for (std::size_t k = run_start[r]; k < run_start[r + 1]; ++k) {
        const auto [chunk, mask] = list[k];
        const std::size_t s = chunk >> 16;
        items[cursor[s]++] = (chunk & 0xffffu) << 16 | mask;
        value_at[k] = cursor[stages + s];
        cursor[stages + s] += std::uint32_t(std::popcount(mask));
      }
      for (auto i = std::size_t(in.start[r]); i < std::size_t(in.start[r + 1]); ++i) {
        const std::uint32_t below = list[of_entry[i]].mask & ((1u << (std::uint32_t(in.column[i]) % detail::run)) - 1);
        put(value_at[of_entry[i]] + std::size_t(std::popcount(below)), in.value[i]);
      }
    }
  });
}

template <class T>
double TiledMatrix<T>::bytes() const {
  double sum = 0;
  for (const auto& a : arenas_) sum += a->bytes;
  return sum;
}

template <class T>
double TiledMatrix<T>::bytes_of_values() const {
  double sum = 0;
  for (const auto& a : arenas_) sum += a->value_bytes;
  return sum;
}

template <class T>
void TiledMatrix<T>::rows(Local begin, Local end, RowBuffer<T>& out) const {
  std::vector<T> value;
  std::vector<std::uint32_t> index;
  for (Local i = begin; i < end; ++i) {
    const Block& b = blocks_[std::size_t(i / block_rows_)];
    value.resize(b.longest + 16), index.resize(b.longest + 16);
    for (int s = 0; s < stages_; ++s) {
      const std::size_t segment = std::size_t(s) * std::size_t(b.rows) + std::size_t(i - b.begin);
      const std::uint32_t first = b.item_start[segment], n = b.item_start[segment + 1] - first;
      const std::uint32_t from = b.value_start[segment], entries = b.value_start[segment + 1] - from;
      if (values_ == Values::full) std::copy_n(static_cast<const T*>(b.values) + from, entries, value.data());
      else detail::widen(values_, b.values, from, entries, b.scale, value.data());
      if (format_ == TiledFormat::bitmap)
        detail::decode(static_cast<const std::uint32_t*>(b.items) + first, n, index.data());
      else if (format_ == TiledFormat::plain)
        std::copy_n(static_cast<const std::uint32_t*>(b.items) + first, n, index.data());
      else std::copy_n(static_cast<const std::uint16_t*>(b.items) + first, n, index.data());
      const Local stage = format_ == TiledFormat::bitmap ? detail::bitmap_stage : detail::list_stage;
      for (std::uint32_t e = 0; e < entries; ++e) out.add(Local(index[e]) + stage * s, value[e]);
    }
    out.end_row();
  }
}

template <class T>
double TiledMatrix<T>::reuse(int block_rows) const {
  require(block_rows >= 1, "reuse in blocks of ", block_rows, " rows");
  std::vector<Local> stamp(std::size_t(columns_), -1);
  RowBuffer<T> row;
  double distinct = 0;
  for (Local i = 0; i < rows_; ++i) {
    row.start = {0}, row.column.clear(), row.value.clear();
    rows(i, i + 1, row);
    for (const Local c : row.column)
      if (std::exchange(stamp[std::size_t(c)], i / block_rows) != i / block_rows) ++distinct;
  }
  return distinct > 0 ? double(entries_) / distinct : 0;
}

template <class T>
std::string TiledMatrix<T>::storage() const {
  const char* const value = values_ == Values::half       ? "float16"
                            : values_ == Values::bfloat16 ? "bfloat16"
                            : values_ == Values::single   ? "float32"
                                                          : scalar_name<T>();
  const char* const format = format_ == TiledFormat::bitmap  ? "bitmap, "
                             : format_ == TiledFormat::plain ? "plain, "
                                                             : "list, ";
  const char* const vectors = vectors_ == Vectors::half       ? ", float16 vectors"
                              : vectors_ == Vectors::bfloat16 ? ", bfloat16 vectors"
                                                              : "";
  return message(format, value, ", blocks of ", block_rows_, " rows", vectors);
}

template class TiledMatrix<float>;
template class TiledMatrix<double>;

}  // namespace tacit::op
