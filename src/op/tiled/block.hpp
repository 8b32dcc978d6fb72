// The storage of blocks of rows of a tiled matrix.
#pragma once

#include <tacit/base/free_memory.hpp>
#include <tacit/exec/memory.hpp>
#include <tacit/op/tiled_matrix.hpp>

#include "kernels.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace tacit::op {
namespace detail {

inline constexpr int most_vectors = 8;                                // registers of sums
inline constexpr int list_stage = 1 << 16, bitmap_stage = run << 16;  // columns of a stage

}  // namespace detail

// Rows begin to begin + rows - 1. Segment number s * rows + r holds the entries of row r in stage s.
template <class T>
struct TiledMatrix<T>::Block {
  Local begin = 0, rows = 0;
  const std::uint32_t* item_start = nullptr;   // of segments, then the end
  const std::uint32_t* value_start = nullptr;  // likewise; the same array in lists
  const void* items = nullptr;                 // 16-bit columns, or column / 16 and a mask
  const void* values = nullptr;
  T scale = 1;
  std::uint32_t longest = 0;   // entries of a segment
  std::uint64_t made[2] = {};  // checksums of the starts, and of items and values
  struct Segments;
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
  std::vector<std::uint64_t> seen;  // of each run of columns: the epoch of the last row with it, its position there
  std::uint32_t epoch = 0;

  template <class S>
  S* array(std::size_t count) {
    return reinterpret_cast<S*>(allocate(count * sizeof(S)));
  }
  /// With memory behind it: loads run past the end.
  template <class S>
  S* padded(std::size_t count) {
    S* const made = array<S>(count + 64 / sizeof(S));
    bytes -= 64;
    return made;
  }
  // What is found of the entries of a block.
  struct Survey {
    double largest = 0;
    Global entries = 0;
    std::uint32_t longest = 0;  // row
    std::string fault{};
  };
  static Survey surveyed(Local begin, Local end, Local columns, const RowBuffer<T>& rows);
  // Stores the items and values of a block of `of`, whose rows and scale are known.
  void encode_lists(const TiledMatrix& of, const RowBuffer<T>& in, Block& block);
  void encode_bitmaps(const TiledMatrix& of, const RowBuffer<T>& in, Block& block);
  void find_runs(Local row, const RowBuffer<T>& in, std::size_t r);
  void forget() {
    run_list = {}, run_start = {}, seen = {};
    for (auto* v : {&run_of, &value_of_run, &stamp, &place, &count}) *v = {};
  }
  std::byte* allocate(std::size_t bytes_wanted) {
    const std::size_t need = (bytes_wanted + 63) / 64 * 64;
    if (used + need > size) {
      std::size_t room = std::max(need, std::clamp(std::bit_ceil(std::size_t(bytes)), smallest, largest));
      const std::size_t alignment = room < page ? 64 : page;
      room = (room + alignment - 1) / alignment * alignment;
      std::unique_ptr<std::byte, Free> slab(static_cast<std::byte*>(std::aligned_alloc(alignment, room)));
      if (!slab) throw_out_of_memory(room);
#ifdef __linux__
      if (room >= page) madvise(slab.get(), room, MADV_HUGEPAGE);  // saves a sixth of the product's time
#endif
      slabs.push_back(std::move(slab));  // the arena stays as it was where one of these fails
      size = room, used = 0;
    }
    std::byte* const p = slabs.back().get() + used;
    used += need;
    bytes += double(bytes_wanted);
    return p;
  }
};

// A copy of the vectors in the order of the stored columns, in the precision of the product.
template <class T>
struct TiledMatrix<T>::Copy {
  exec::Array<T> full;                // element i, column c at i k + c
  exec::Array<std::uint16_t> narrow;  // at i stride + c, k padded to whole registers
  int stride = 0;
  bool in_16_bits = false;
  std::vector<float> up;  // the factor of each column's sums that undoes the scaling
};

template <class T>
struct TiledMatrix<T>::Spare {
  std::mutex mutex;
  std::vector<std::unique_ptr<Copy>> copies;
};

}  // namespace tacit::op
