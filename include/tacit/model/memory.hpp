// Memory of this machine: how large caches and free memory are, and how fast memory is read.
#pragma once

#include <cstddef>
#include <limits>

namespace tacit::model {

/// Bytes of the last-level cache that a processor of this process uses, and the processors that share it. 0 bytes where
/// the system does not tell. Local.
struct Cache {
  std::size_t bytes = 0;
  int processors = 1;
};
Cache last_level_cache();

/// Bytes that this process may still take: free memory, or less where a control group (a container, a batch system)
/// allows less. SIZE_MAX where the system does not tell. Local.
std::size_t free_memory();

/// An array to be read from memory. Its pages are touched by the threads that read it (as many as OMP_NUM_THREADS says)
/// and given back to the system at the end.
class MemoryReader {
 public:
  /// So many bytes, rounded up to 2 MB, or as many as `most_seconds` of touching pages have given; at least 2 MB.
  /// Error(environment) when memory does not suffice.
  explicit MemoryReader(std::size_t bytes, double most_seconds = std::numeric_limits<double>::infinity());
  MemoryReader(const MemoryReader&) = delete;
  MemoryReader& operator=(const MemoryReader&) = delete;
  ~MemoryReader();

  std::size_t bytes() const { return bytes_; }
  /// One pass over the array: contiguous vector loads into sums that do not wait for each other, so that nothing but
  /// memory limits it (where the array is larger than the caches). Returns the sum of its elements, 0.
  double read() const;

 private:
  void* begin_ = nullptr;
  std::size_t room_ = 0, bytes_ = 0, threads_ = 1;
};

/// How large an array has to be that `readers` processes with `threads` each read together, so that caches keep little
/// of it from one pass to the next: four times the last-level caches that they use, for each its share; at most an
/// eighth of the free memory in all, at least 2 MB each. Local.
std::size_t beyond_caches(int readers, int threads);

}  // namespace tacit::model
