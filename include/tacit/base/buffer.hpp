// Memory that is written before it is read.
#pragma once

#include <tacit/base/types.hpp>

#include <cstddef>
#include <cstdlib>
#include <new>
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
  /// std::bad_alloc where there is no memory.
  explicit Buffer(std::size_t n) : n_(n) {
    if (n == 0) return;
    constexpr std::size_t huge = std::size_t(1) << 21, most = std::size_t(-1) / 4 / sizeof(T);
    if (n > most) throw std::bad_alloc();
    const std::size_t unit = n * sizeof(T) >= 2 * huge ? huge : 64, whole = (n * sizeof(T) + unit - 1) / unit * unit;
    p_ = static_cast<T*>(std::aligned_alloc(unit, whole));
    if (!p_) throw std::bad_alloc();
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (unit == huge) madvise(static_cast<void*>(p_), whole, MADV_HUGEPAGE);
#endif
  }
  Buffer(Buffer&& other) noexcept : p_(std::exchange(other.p_, nullptr)), n_(std::exchange(other.n_, 0)) {}
  Buffer& operator=(Buffer other) noexcept {
    std::swap(p_, other.p_), std::swap(n_, other.n_);
    return *this;
  }
  ~Buffer() { std::free(p_); }

  T* data() { return p_; }
  const T* data() const { return p_; }
  std::size_t size() const { return n_; }
  T& operator[](std::size_t i) { return p_[i]; }
  const T& operator[](std::size_t i) const { return p_[i]; }
  operator std::span<const T>() const { return {p_, n_}; }

 private:
  T* p_ = nullptr;
  std::size_t n_ = 0;
};

}  // namespace tacit
