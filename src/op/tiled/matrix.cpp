#include <tacit/op/tiled_matrix.hpp>

#include <tacit/base/error.hpp>
#include <tacit/base/trace.hpp>
#include <tacit/exec/tasks.hpp>

#include "kernels.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <limits>
#include <mutex>
#include <numeric>
#include <type_traits>
#include <utility>

#ifdef _OPENMP
#include <omp.h>
#endif
#ifdef __linux__
#include <sys/mman.h>
#endif

namespace tacit::op {

// Rows begin to begin + rows - 1. Segment s rows + r holds row r's entries in stage s.
template <class T>
struct TiledMatrix<T>::Block {
  Local begin = 0, rows = 0;
  const std::uint32_t* item_start = nullptr;   // of segments, then the end
  const std::uint32_t* value_start = nullptr;  // likewise; the same array in lists
  const void* items = nullptr;                 // 16-bit columns, or column / 16 and a mask
  const void* values = nullptr;
  T scale = 1;
  std::uint32_t longest = 0;  // entries of a segment
};

// Memory of the blocks that one thread makes.
template <class T>
struct TiledMatrix<T>::Arena {
  static constexpr std::size_t smallest = std::size_t(1) << 16, largest = std::size_t(1) << 24,
                               page = std::size_t(1) << 21;
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::vector<std::unique_ptr<std::byte, Free>> slabs;
  std::size_t used = 0, size = 0;
  double bytes = 0, value_bytes = 0;
  // scratch
  struct Run {
    std::uint32_t chunk, mask;
  };
  std::vector<Run> run_list;
  std::vector<std::size_t> run_start;
  std::vector<std::uint32_t> run_of, value_of_run, stamp, place, count;
  std::vector<std::uint64_t> seen;  // by run of columns: the row that touched it last (an epoch), its place there
  std::uint32_t epoch = 0;

  void forget() {
    run_list = {}, run_start = {}, seen = {};
    for (auto* v : {&run_of, &value_of_run, &stamp, &place, &count}) *v = {};
  }
  std::byte* allocate(std::size_t bytes_wanted) {
    const std::size_t need = (bytes_wanted + 63) / 64 * 64;
    if (used + need > size) {
      size = std::max(need, std::clamp(std::bit_ceil(std::size_t(bytes)), smallest, largest));
      const std::size_t alignment = size < page ? 64 : page;
      size = (size + alignment - 1) / alignment * alignment;
      auto* p = static_cast<std::byte*>(std::aligned_alloc(alignment, size));
      if (!p) throw std::bad_alloc();
#ifdef __linux__
      if (size >= page) madvise(p, size, MADV_HUGEPAGE);  // a sixth of the product's time
#endif
      slabs.emplace_back(p);
      used = 0;
    }
    std::byte* const p = slabs.back().get() + used;
    used += need;
    bytes += double(bytes_wanted);
    return p;
  }
};

namespace {

constexpr int most_vectors = 8;  // registers of sums
constexpr int list_stage = 1 << 16, bitmap_stage = detail::run << 16;

std::size_t bytes_of(Values v, std::size_t full) {
  return v == Values::full ? full : v == Values::single ? 4 : 2;
}

int threads() {
#ifdef _OPENMP
  return omp_get_max_threads();
#else
  return 1;
#endif
}
int thread() {
#ifdef _OPENMP
  return omp_get_thread_num();
#else
  return 0;
#endif
}

// Runs of 16 columns that the rows touch, over all rows.
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

}  // namespace

template <class T>
TiledMatrix<T>::TiledMatrix(Local rows, Local columns, const RowSource<T>& source, const TiledOptions& options)
    : rows_(rows), columns_(columns), format_(options.format), values_(options.values) {
  if (options.tune) {
    *this = TiledMatrix(rows, columns, source, tuned(rows, columns, source, options));
    return;
  }
  require(rows >= 0 && columns >= 0, "a tiled matrix of ", rows, " x ", columns);
  require(options.block_rows >= 0 && options.block_rows <= 65536, "blocks of ", options.block_rows,
          " rows; 1 to 65536 are possible, 0 leaves the choice to Tacit");
  require(options.columns >= 1, "a tiled matrix made for ", options.columns, " columns at once");
  require(options.tile >= 0 && options.tile <= 128 && options.tile % 8 == 0, "a register tile of ", options.tile,
          " columns; multiples of 8 up to 128 are possible");
  require(options.row_order.empty() || options.row_order.size() == std::size_t(rows), "an order of ",
          options.row_order.size(), " rows for a matrix of ", rows);
  in_order_ = options.in_order;
  order_ = options.row_order;
  std::vector<char> named(order_.size());
  for (const Local r : order_) {
    require(r >= 0 && r < rows && !named[std::size_t(r)], "row ", r, " in an order of ", rows,
            " rows: each comes once");
    named[std::size_t(r)] = 1;
  }
  if (values_ == Values::single && sizeof(T) == sizeof(float)) values_ = Values::full;
  block_rows_ = options.block_rows > 0 ? options.block_rows : 128;
  constexpr int widest = most_vectors * detail::lanes<T>;
  tile_ = options.tile == 0
              ? widest
              : std::min(std::max(options.tile, detail::lanes<T>) / detail::lanes<T> * detail::lanes<T>, widest);
  const Local blocks = Local((Global(rows) + block_rows_ - 1) / block_rows_);
  if (format_ == TiledFormat::automatic) {
    format_ = TiledFormat::list;
    if (options.columns < 8 && rows > 0) {
      double runs = 0, entries = 0;
      RowBuffer<T> some;
      const Local samples = std::min<Local>(8, blocks);
      for (Local s = 0; s < samples; ++s) {
        const Local begin = Local(Global(blocks) * s / samples) * block_rows_;
        some.start = {0}, some.column.clear(), some.value.clear();
        source(begin, std::min<Local>(rows, begin + std::min(block_rows_, 16)), some);
        runs += count_runs(some), entries += double(some.column.size());
      }
      if (4 * runs <= 2.2 * entries) format_ = TiledFormat::bitmap;
    }
  }
  const int stage = format_ == TiledFormat::list ? list_stage : bitmap_stage;
  stages_ = std::max(1, int((Global(columns) + stage - 1) / stage));
  blocks_.resize(std::size_t(blocks));
  for (int t = 0; t < threads(); ++t) arenas_.push_back(std::make_unique<Arena>());
  std::vector<double> largest(std::size_t(blocks), 0);
  std::vector<Global> entries(std::size_t(blocks), 0);
  std::exception_ptr failure;
  std::string fault;
  Global fault_at = -1;
  std::mutex mutex;
#pragma omp parallel
  {
    RowBuffer<T> buffer;
    Arena& arena = *arenas_[std::size_t(thread())];
#pragma omp for schedule(dynamic, 1)
    for (Local b = 0; b < blocks; ++b) {
      try {
        const Local begin = b * block_rows_, end = Local(std::min<Global>(rows, Global(begin) + block_rows_));
        buffer.start = {0}, buffer.column.clear(), buffer.value.clear();
        source(begin, end, buffer);
        require(Local(buffer.start.size()) == end - begin + 1, "rows ", begin, " to ", end - 1, " were asked for, ",
                buffer.start.size() - 1, " were given");
        require(buffer.column.size() < std::size_t(1) << 32, "a block of ", end - begin, " rows has ",
                buffer.column.size(), " entries; fewer rows in a block are needed");
        // The largest magnitude by bits, which are ordered as numbers are: infinities and what is no number come last.
        using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
        Bits most_bits = 0;
        std::uint32_t most_column = 0;
        for (const T v : buffer.value) most_bits = std::max(most_bits, Bits(std::bit_cast<Bits>(v) << 1));
        for (const Local c : buffer.column) most_column = std::max(most_column, std::uint32_t(c));
        const T most = std::bit_cast<T>(Bits(most_bits >> 1));
        const bool odd = !std::isfinite(most),
                   outside = !buffer.column.empty() && most_column >= std::uint32_t(columns);
        for (std::size_t i = 0; (odd || outside) && i < buffer.column.size(); ++i) {
          require(buffer.column[i] >= 0 && buffer.column[i] < columns, "an entry in column ", buffer.column[i],
                  "; columns run from 0 to ", columns - 1);
          if (std::isfinite(buffer.value[i])) continue;
          const auto row =
              std::upper_bound(buffer.start.begin(), buffer.start.end(), std::int64_t(i)) - buffer.start.begin() - 1;
          const std::lock_guard lock(mutex);
          if (fault_at < 0 || begin + row < fault_at)
            fault_at = begin + row, fault = message("the matrix has a value that is not finite at row ", begin + row,
                                                    ", column ", buffer.column[i], " (counted from 0)");
        }
        largest[std::size_t(b)] = most;
        entries[std::size_t(b)] = Global(buffer.column.size());
        encode(begin, end, buffer, blocks_[std::size_t(b)], arena);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
      }
    }
    arena.forget();
  }
  if (failure) std::rethrow_exception(failure);
  entries_ = std::accumulate(entries.begin(), entries.end(), Global(0));
  largest_ = largest.empty() ? 0 : *std::max_element(largest.begin(), largest.end());
  fault_ = std::move(fault);
}

template <class T>
TiledMatrix<T>::~TiledMatrix() = default;
template <class T>
TiledMatrix<T>::TiledMatrix(TiledMatrix&&) noexcept = default;
template <class T>
TiledMatrix<T>& TiledMatrix<T>::operator=(TiledMatrix&&) noexcept = default;

// f(put), where put(at, v) writes number `at` of a block as it is stored.
template <class T, class F>
static void with_put(Values how, T scale, std::byte* values, F&& f) {
  const double inverse = 1.0 / double(scale);  // of a power of two
  auto* const narrow = reinterpret_cast<std::uint16_t*>(values);
  if (how == Values::full) f([to = reinterpret_cast<T*>(values)](std::size_t at, T v) { to[at] = v; });
  else if (how == Values::single)
    f([to = reinterpret_cast<float*>(values)](std::size_t at, T v) { to[at] = float(v); });
  else if (how == Values::half)
    f([=](std::size_t at, T v) { narrow[at] = detail::to_half(float(double(v) * inverse)); });
  else f([=](std::size_t at, T v) { narrow[at] = detail::to_bfloat16(float(double(v) * inverse)); });
}

// Runs of a block of a single stage, row by row, so that what a row needs stays in the nearest cache.
template <class T>
void TiledMatrix<T>::encode_runs(Local begin, const RowBuffer<T>& in, Block& block, Arena& arena) const {
  const std::size_t n = in.column.size(), rows = std::size_t(block.rows);
  auto* const item_start = reinterpret_cast<std::uint32_t*>(arena.allocate((rows + 1) * sizeof(std::uint32_t)));
  auto* const value_start = reinterpret_cast<std::uint32_t*>(arena.allocate((rows + 1) * sizeof(std::uint32_t)));
  const std::size_t width = bytes_of(values_, sizeof(T));
  std::byte* const values = arena.allocate(n * width + 64);  // loads run past the end
  arena.bytes -= 64;
  arena.value_bytes += double(n * width);
  const std::size_t runs = std::size_t(columns_) / detail::run + 1;
  if (arena.seen.size() < runs) arena.seen.assign(runs, 0), arena.epoch = 0;
  std::size_t longest = 0;
  for (std::size_t r = 0; r < rows; ++r) longest = std::max(longest, std::size_t(in.start[r + 1] - in.start[r]));
  auto& items = arena.count;            // of the block
  auto& code = arena.run_of;            // of the row's entries: run, place in it
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
      if (twice)
        for (std::size_t i = 0; i < entries; ++i)
          require(std::find(column, column + i, column[i]) == column + i, "row ", begin + Local(r), " has column ",
                  column[i], " twice");
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
  auto* const kept = reinterpret_cast<std::uint32_t*>(arena.allocate(count * sizeof(std::uint32_t) + 64));
  arena.bytes -= 64;
  std::copy_n(items.data(), count, kept);
  block.longest = std::uint32_t(longest);
  block.items = kept, block.values = values, block.item_start = item_start, block.value_start = value_start;
}

template <class T>
void TiledMatrix<T>::encode(Local begin, Local end, const RowBuffer<T>& in, Block& block, Arena& arena) const {
  const auto rows = std::size_t(end - begin), stages = std::size_t(stages_), segments = rows * stages;
  const std::size_t n = in.column.size();
  const bool bitmap = format_ == TiledFormat::bitmap;
  block.begin = begin;
  block.rows = end - begin;
  if (values_ == Values::half || values_ == Values::bfloat16) {
    double most = 0;
    for (const T v : in.value)
      if (std::isfinite(v)) most = std::max(most, double(std::abs(v)));
    // The largest becomes 2^14 to 2^15: halves have all their digits down to 2^-29 of it.
    block.scale = most > 0 ? T(std::ldexp(1.0, std::clamp(std::ilogb(most) - 14, sizeof(T) == 4 ? -120 : -1000,
                                                          sizeof(T) == 4 ? 120 : 1000)))
                           : T(1);
  }
  if (bitmap && stages == 1) return encode_runs(begin, in, block, arena);

  // Where each entry goes: item and value starts of segments.
  const std::size_t starts = segments + 1;
  auto* item_start = reinterpret_cast<std::uint32_t*>(arena.allocate(starts * sizeof(std::uint32_t)));
  std::fill_n(item_start, starts, 0u);
  auto* value_start = item_start;
  std::vector<std::uint32_t>& cursor = arena.count;
  if (bitmap) {
    value_start = reinterpret_cast<std::uint32_t*>(arena.allocate(starts * sizeof(std::uint32_t)));
    std::fill_n(value_start, starts, 0u);
    const std::size_t runs = std::size_t(columns_) / detail::run + 1;
    if (arena.stamp.size() < runs) arena.stamp.assign(runs, 0), arena.place.assign(runs, 0), arena.epoch = 0;
  }
  auto& run_list = arena.run_list;    // of all rows
  auto& run_start = arena.run_start;  // of each row
  auto& run_of = arena.run_of;        // of each entry
  run_list.clear(), run_start.assign(1, 0);
  if (bitmap) run_of.resize(n);
  for (std::size_t r = 0; r < rows; ++r) {
    if (bitmap) {
      if (++arena.epoch == 0) std::fill(arena.stamp.begin(), arena.stamp.end(), 0u), arena.epoch = 1;
      const std::uint32_t epoch = arena.epoch;
      std::uint32_t *const stamp = arena.stamp.data(), *const place = arena.place.data(),
                           *const of_entry = run_of.data();
      const Local* const column = in.column.data();
      const auto first = std::size_t(in.start[r]), last = std::size_t(in.start[r + 1]);
      auto runs = std::uint32_t(run_list.size());
      run_list.resize(runs + (last - first));
      auto* const list = run_list.data();
      for (std::size_t i = first; i < last; ++i) {
        const auto c = std::uint32_t(column[i]), chunk = c / detail::run, bit = 1u << (c % detail::run);
        if (stamp[chunk] != epoch) stamp[chunk] = epoch, place[chunk] = runs, list[runs++] = {chunk, 0};
        const std::uint32_t at = place[chunk];
        require(!(list[at].mask & bit), "row ", begin + Local(r), " has column ", c, " twice");
        list[at].mask |= bit;
        of_entry[i] = at;
      }
      run_list.resize(runs);
      for (std::size_t k = run_start.back(); k < runs; ++k) {
        const std::size_t segment = (list[k].chunk >> 16) * rows + r + 1;
        ++item_start[segment];
        value_start[segment] += std::uint32_t(std::popcount(list[k].mask));
      }
      run_start.push_back(run_list.size());
    } else if (stages == 1) {
      item_start[r + 1] = std::uint32_t(in.start[r + 1] - in.start[r]);
    } else {
      for (auto i = std::size_t(in.start[r]); i < std::size_t(in.start[r + 1]); ++i)
        ++item_start[(std::uint32_t(in.column[i]) / list_stage) * rows + r + 1];
    }
  }
  for (std::size_t s = 0; s < segments; ++s) {
    block.longest = std::max(block.longest, value_start[s + 1]);  // counts so far
    value_start[s + 1] += value_start[s];
    if (bitmap) item_start[s + 1] += item_start[s];
  }

  const std::size_t width = bytes_of(values_, sizeof(T));
  std::byte* const values = arena.allocate(n * width + 64);  // loads run past the end
  arena.bytes -= 64;
  arena.value_bytes += double(n * width);
  const auto fill = [&](auto put) {
    if (bitmap) {
      auto* items = reinterpret_cast<std::uint32_t*>(arena.allocate(run_list.size() * sizeof(std::uint32_t) + 64));
      arena.bytes -= 64;
      arena.value_of_run.resize(run_list.size());
      std::uint32_t* const value_of_run = arena.value_of_run.data();
      const auto* const list = run_list.data();
      const std::uint32_t* const of_entry = run_of.data();
      cursor.assign(2 * stages, 0);
      for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t s = 0; s < stages; ++s)
          cursor[s] = item_start[s * rows + r], cursor[stages + s] = value_start[s * rows + r];
        for (std::size_t k = run_start[r]; k < run_start[r + 1]; ++k) {
          const auto [chunk, mask] = list[k];
          const std::size_t s = chunk >> 16;
          items[cursor[s]++] = (chunk & 0xffffu) << 16 | mask;
          value_of_run[k] = cursor[stages + s];
          cursor[stages + s] += std::uint32_t(std::popcount(mask));
        }
        for (auto i = std::size_t(in.start[r]); i < std::size_t(in.start[r + 1]); ++i) {
          const std::uint32_t below =
              list[of_entry[i]].mask & ((1u << (std::uint32_t(in.column[i]) % detail::run)) - 1);
          put(value_of_run[of_entry[i]] + std::size_t(std::popcount(below)), in.value[i]);
        }
      }
      block.items = items;
      return;
    }
    auto* items = reinterpret_cast<std::uint16_t*>(arena.allocate(n * sizeof(std::uint16_t) + 64));
    arena.bytes -= 64;
    cursor.assign(stages, 0);
    std::uint32_t* const next = cursor.data();
    const Local* const column = in.column.data();
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t s = 0; s < stages; ++s) next[s] = item_start[s * rows + r];
      for (auto i = std::size_t(in.start[r]); i < std::size_t(in.start[r + 1]); ++i) {
        const std::uint32_t at = next[stages == 1 ? 0 : std::uint32_t(column[i]) / list_stage]++;
        items[at] = std::uint16_t(column[i]);
        put(at, in.value[i]);
      }
    }
    block.items = items;
  };
  with_put<T>(values_, block.scale, values, fill);
  block.item_start = item_start;
  block.value_start = value_start;
  block.values = values;
}

namespace {

// One row times the columns of a register tile.
template <class T, class Index>
using RowKernel = void (*)(const Index*, const T*, std::uint32_t, const T*, std::size_t, int, T*, bool,
                           const Clamp<T>*);

template <class T, class Index, int Z, bool Tail>
RowKernel<T, Index> kernel_of(bool in_order) {
  constexpr int chains = Z == 1 ? 8 : Z == 2 ? 4 : Z <= 4 ? 2 : 1;
  if (in_order) return &detail::multiply_row<Z, 1, Tail, T, Index>;
  return &detail::multiply_row<Z, chains, Tail, T, Index>;
}

template <class T, class Index, int... Z>
RowKernel<T, Index> kernel_for(int vectors, bool tail, bool in_order, std::integer_sequence<int, Z...>) {
  RowKernel<T, Index> found = nullptr;
  ((vectors == Z + 1
        ? void(found = tail ? kernel_of<T, Index, Z + 1, true>(in_order) : kernel_of<T, Index, Z + 1, false>(in_order))
        : void()),
   ...);
  return found;
}

}  // namespace

template <class T>
void TiledMatrix<T>::multiply(const T* x, int x_stride, T* y, int y_stride, int k, const comm::Communicator* comm,
                              const Clamp<T>* clamp) const {
  const Span span("tiled product", "op", Trace::on() ? std::int64_t(bytes()) : 0);
  const bool bitmap = format_ == TiledFormat::bitmap, plain = values_ == Values::full;
  const std::size_t stage = bitmap ? bitmap_stage : list_stage;
  const auto row_at = [this](const Block& b, std::size_t r) {
    const std::size_t place = std::size_t(b.begin) + r;
    return order_.empty() ? place : std::size_t(order_[place]);
  };
  const auto work = [&](std::size_t number) {
    const Block& b = blocks_[number];
    thread_local std::vector<T> value_scratch;
    thread_local std::vector<std::uint32_t> index_scratch;
    if (value_scratch.size() < b.longest + 16)
      value_scratch.resize(b.longest + 16), index_scratch.resize(b.longest + 16);
    const auto rows = std::size_t(b.rows);
    const auto values_of = [&](std::size_t segment) -> const T* {
      const std::uint32_t from = b.value_start[segment], n = b.value_start[segment + 1] - from;
      if (plain) return static_cast<const T*>(b.values) + from;
      detail::widen(values_, b.values, from, n, b.scale, value_scratch.data());
      return value_scratch.data();
    };
    if (k == 1 && x_stride == 1) {
      const bool halves = sizeof(T) == sizeof(float) && values_ == Values::half && bitmap;
      for (int s = 0; s < stages_; ++s) {
        const T* const from = x + std::size_t(s) * stage;
        for (std::size_t r = 0; r < rows; ++r) {
          const std::size_t segment = std::size_t(s) * rows + r;
          const std::uint32_t first = b.item_start[segment], n = b.item_start[segment + 1] - first;
          T sum;
          if constexpr (sizeof(T) == sizeof(float)) {
            if (halves)
              sum = b.scale * detail::multiply_runs_of_halves(
                                  static_cast<const std::uint32_t*>(b.items) + first, n,
                                  static_cast<const std::uint16_t*>(b.values) + b.value_start[segment], from);
          }
          if (!halves) {
            const T* const value = values_of(segment);
            sum = bitmap ? detail::multiply_runs(static_cast<const std::uint32_t*>(b.items) + first, n, value, from)
                         : detail::multiply_list(static_cast<const std::uint16_t*>(b.items) + first, n, value, from);
          }
          T& to = y[row_at(b, r) * std::size_t(y_stride)];
          if (s > 0) sum = to + sum;
          if (clamp && s == stages_ - 1) {
            sum += clamp->bias;
            sum = clamp->low > sum ? clamp->low : sum;
            sum = clamp->high < sum ? clamp->high : sum;
          }
          to = sum;
        }
      }
      return;
    }
    for (int column = 0; column < k; column += tile_) {
      const int columns = std::min(tile_, k - column), vectors = (columns + detail::lanes<T> - 1) / detail::lanes<T>;
      const int tail = columns - (vectors - 1) * detail::lanes<T>;
      constexpr std::make_integer_sequence<int, most_vectors> all{};
      const auto wide_kernel = kernel_for<T, std::uint32_t>(vectors, tail != detail::lanes<T>, in_order_, all);
      const auto kernel = kernel_for<T, std::uint16_t>(vectors, tail != detail::lanes<T>, in_order_, all);
      for (int s = 0; s < stages_; ++s) {
        const T* const from = x + std::size_t(s) * stage * std::size_t(x_stride) + column;
        const Clamp<T>* const last = s == stages_ - 1 ? clamp : nullptr;
        for (std::size_t r = 0; r < rows; ++r) {
          const std::size_t segment = std::size_t(s) * rows + r;
          const std::uint32_t first = b.item_start[segment], n = b.item_start[segment + 1] - first;
          if (s > 0 && n == 0 && !last) continue;
          const T* const value = values_of(segment);
          T* const to = y + row_at(b, r) * std::size_t(y_stride) + column;
          if (bitmap) {
            const std::uint32_t count =
                detail::decode(static_cast<const std::uint32_t*>(b.items) + first, n, index_scratch.data());
            wide_kernel(index_scratch.data(), value, count, from, std::size_t(x_stride), tail, to, s == 0, last);
          } else {
            kernel(static_cast<const std::uint16_t*>(b.items) + first, value, n, from, std::size_t(x_stride), tail, to,
                   s == 0, last);
          }
        }
      }
    }
  };
  const auto polled = [&](std::size_t b) {
    work(b);
    if (comm && exec::may_poll()) comm->poll();
  };
  if (auto* tasks = exec::Tasks::current()) {
    tasks->each(blocks_.size(), polled);
    return;
  }
  const bool parallel = entries_ * Global(k) > 20000;
#pragma omp parallel for schedule(dynamic, 1) if (parallel)
  for (std::size_t b = 0; b < blocks_.size(); ++b) polled(b);
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
      else std::copy_n(static_cast<const std::uint16_t*>(b.items) + first, n, index.data());
      const Local stage = format_ == TiledFormat::bitmap ? bitmap_stage : list_stage;
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
  return message(format_ == TiledFormat::bitmap ? "bitmap, " : "list, ", value, ", blocks of ", block_rows_, " rows");
}

template class TiledMatrix<float>;
template class TiledMatrix<double>;

}  // namespace tacit::op
