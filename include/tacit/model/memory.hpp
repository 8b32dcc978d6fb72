// Memory of this machine: sizes of caches, and the read bandwidth.
#pragma once

#include <cstddef>
#include <limits>

namespace tacit::model {

/// Bytes of the last-level cache of a processor of this process, and the number of processors that share it. 0 bytes
/// where the system does not report it. Local.
struct Cache {
  std::size_t bytes = 0;
  int processors = 1;
};
Cache last_level_cache();

/// An array for measuring the read bandwidth. The threads that read it (OMP_NUM_THREADS) touch its pages first; the
/// memory is returned to the system at the end.
class MemoryReader {
 public:
  /// Allocates `bytes`, rounded up to 2 MB, or the part whose pages are touched within `most_seconds`; at least 2 MB.
  /// Error(memory) when memory does not suffice.
  explicit MemoryReader(std::size_t bytes, double most_seconds = std::numeric_limits<double>::infinity());
  MemoryReader(const MemoryReader&) = delete;
  MemoryReader& operator=(const MemoryReader&) = delete;
  ~MemoryReader();

  std::size_t bytes() const { return bytes_; }
  /// One pass over the array by contiguous vector loads into independent sums, limited by memory only (where the array
  /// exceeds the caches). Returns the sum of its elements, 0.
  double read() const;

 private:
  void* begin_ = nullptr;
  std::size_t room_ = 0, bytes_ = 0, threads_ = 1;
};

/// The size of an array for each of `readers` processes with `threads` threads that read at the same time, large enough
/// that little of it stays in cache between passes: its share of four times their last-level caches, at most an eighth
/// of the free memory in total, and at least 2 MB. Local.
std::size_t beyond_caches(int readers, int threads);

}  // namespace tacit::model
