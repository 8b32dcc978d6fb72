// Memory that is written before it is read.
#pragma once

#include <tacit/base/free_memory.hpp>
#include <tacit/base/types.hpp>

#include <cstddef>
#include <cstdlib>
#include <span>
#include <type_traits>
#include <utility>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace tacit {

/// n elements that are not initialised, so that their pages are touched once, by the threads that fill them. The memory
/// goes back to the system when the buffer ends. For arrays that live until they are converted.
template <class T>
class Buffer {
 public:
  static_assert(std::is_trivially_copyable_v<T>);
  Buffer() = default;
  /// Error(memory) where there is none. `whole`: all elements will be used, so that large pages suit them.
  explicit Buffer(std::size_t n, bool whole = true) : n_(n) {
    if (n == 0) return;
    if (n > std::size_t(-1) / 4 / sizeof(T)) throw_out_of_memory(std::size_t(-1));
#ifdef __linux__
    if (is_mapped()) {  // malloc would keep some of it
      if (whole && n * sizeof(T) >= std::size_t(1) << 25) require_memory(n * sizeof(T));
      void* const p =
          mmap(nullptr, n * sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (p == MAP_FAILED) throw_out_of_memory(n * sizeof(T));
#ifdef MADV_HUGEPAGE
      if (whole) madvise(p, n * sizeof(T), MADV_HUGEPAGE);
#endif
      p_ = static_cast<T*>(p);
      return;
    }
#endif
    p_ = static_cast<T*>(std::malloc(n * sizeof(T)));
    if (!p_) throw_out_of_memory(n * sizeof(T));
  }
  Buffer(Buffer&& other) noexcept : p_(std::exchange(other.p_, nullptr)), n_(std::exchange(other.n_, 0)) {}
  Buffer& operator=(Buffer other) noexcept {
    std::swap(p_, other.p_), std::swap(n_, other.n_);
    return *this;
  }
  ~Buffer() {
#ifdef __linux__
    if (p_ && is_mapped()) {
      munmap(static_cast<void*>(p_), n_ * sizeof(T));
      return;
    }
#endif
    std::free(p_);
  }

  T* data() {
    return p_;
  }
  const T* data() const {
    return p_;
  }
  std::size_t size() const {
    return n_;
  }
  T& operator[](std::size_t i) {
    return p_[i];
  }
  const T& operator[](std::size_t i) const {
    return p_[i];
  }
  operator std::span<const T>() const {
    return {p_, n_};
  }

 private:
  bool is_mapped() const {
    return n_ * sizeof(T) >= std::size_t(1) << 19;
  }
  T* p_ = nullptr;
  std::size_t n_ = 0;
};

}  // namespace tacit
