// Memory: arrays in a memory space, and views of them.
#pragma once

#include <tacit/base/error.hpp>
#include <tacit/base/types.hpp>
#include <tacit/exec/tasks.hpp>

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tacit::exec {

// The device's memory. CUDA errors become Error(environment) (src/exec/device.cu). Without CUDA device_available() is
// false and the other functions throw that error.
bool device_available() noexcept;
std::string device_name();
void* device_allocate(std::size_t bytes);
void device_free(void* p) noexcept;
void copy_to_device(void* device, const void* host, std::size_t bytes);
void copy_to_host(void* host, const void* device, std::size_t bytes);
void copy_on_device(void* to, const void* from, std::size_t bytes);
void clear_on_device(void* p, std::size_t bytes);

/// Host memory, aligned to two cache lines. Unless `clear` is false it is zeroed: pages are first touched by the
/// threads that sweep them, if these arrive in time.
void* host_allocate(std::size_t bytes, bool clear = true);
void host_free(void* p) noexcept;
/// memcpy by the threads that sweep such an array.
void copy_by_threads(void* to, const void* from, std::size_t bytes);

/// From so many bytes on host_allocate() uses large pages, and host_free() keeps the memory for later allocations.
constexpr std::size_t large_bytes = std::size_t(1) << 20;

/// Allocates as host_allocate() does what is large. Elements that are made without a value stay uninitialised, as the
/// system clears new pages anyway.
template <class T>
struct BufferAllocator {
  using value_type = T;
  BufferAllocator() = default;
  template <class U>
  BufferAllocator(const BufferAllocator<U>&) {}
  T* allocate(std::size_t n) {
    const std::size_t bytes = n * sizeof(T);
    return static_cast<T*>(bytes < large_bytes ? ::operator new(bytes) : host_allocate(bytes, false));
  }
  void deallocate(T* p, std::size_t n) noexcept {
    if (n * sizeof(T) < large_bytes) ::operator delete(p);
    else host_free(p);
  }
  template <class U, class... Arguments>
  void construct(U* p, Arguments&&... arguments) {
    if constexpr (sizeof...(Arguments) == 0) ::new (static_cast<void*>(p)) U;
    else ::new (static_cast<void*>(p)) U(std::forward<Arguments>(arguments)...);
  }
  bool operator==(const BufferAllocator&) const = default;
};
/// A vector for many numbers: resize(n) leaves new ones uninitialised, resize(n, value) does not.
template <class T>
using Buffer = std::vector<T, BufferAllocator<T>>;

/// What arrays of a memory space need beyond its type: a group of devices (group.hpp).
class Place {
 public:
  virtual ~Place() = default;
};

/// n elements at p, in memory space M. Not owning.
template <class T, Memory M = Host>
class View {
 public:
  using scalar = std::remove_const_t<T>;
  using memory = M;
  View() = default;
  View(T* p, std::size_t n) : p_(p), n_(n) {}
  template <class U>
  requires(std::same_as<const U, T>) View(View<U, M> other) : p_(other.data()), n_(other.size()) {}
  T* data() const { return p_; }
  std::size_t size() const { return n_; }
  T& operator[](std::size_t i) const requires(std::same_as<M, Host>) { return p_[i]; }
  T* begin() const { return p_; }
  T* end() const { return p_ + n_; }
  View part(std::size_t from, std::size_t count) const { return {p_ + from, count}; }

 private:
  T* p_ = nullptr;
  std::size_t n_ = 0;
};

/// Owns n elements of T in memory space M, zero at first. Copying copies the elements.
template <class T, Memory M = Host>
class Array {
 public:
  using scalar = T;
  using memory = M;
  static_assert(std::is_trivially_copyable_v<T>);

  Array() = default;
  explicit Array(std::size_t n) : p_(allocate(n)), n_(n) {}
  Array(const Array& other) : Array(other.n_, Uninitialised{}) { copy(other.p_, p_, n_); }
  Array(Array&& other) noexcept : p_(std::exchange(other.p_, nullptr)), n_(std::exchange(other.n_, 0)) {}
  Array& operator=(Array other) noexcept {
    std::swap(p_, other.p_);
    std::swap(n_, other.n_);
    return *this;
  }
  ~Array() {
    if constexpr (std::same_as<M, Host>) host_free(p_);
    else device_free(p_);
  }

  T* data() { return p_; }
  const T* data() const { return p_; }
  std::size_t size() const { return n_; }
  View<T, M> view() { return {p_, n_}; }
  View<const T, M> view() const { return {p_, n_}; }
  T& operator[](std::size_t i) requires(std::same_as<M, Host>) { return p_[i]; }
  const T& operator[](std::size_t i) const requires(std::same_as<M, Host>) { return p_[i]; }

  /// n elements with any values, for a caller that writes them all.
  static Array uninitialised(std::size_t n) requires(std::same_as<M, Host>) { return Array(n, Uninitialised{}); }

  /// A copy of host elements in this memory space.
  static Array from(std::span<const T> host) {
    if constexpr (std::same_as<M, Host>) {
      Array a = uninitialised(host.size());
      copy_by_threads(a.p_, host.data(), host.size_bytes());
      return a;
    } else {
      Array a(host.size());
      if (!host.empty()) copy_to_device(a.p_, host.data(), host.size_bytes());
      return a;
    }
  }

 private:
  struct Uninitialised {};
  Array(std::size_t n, Uninitialised) : p_(allocate(n, false)), n_(n) {}
  static T* allocate(std::size_t n, bool clear = true) {
    if (n == 0) return nullptr;
    if constexpr (std::same_as<M, Host>) {
      return static_cast<T*>(host_allocate(n * sizeof(T), clear));
    } else {
      void* p = device_allocate(n * sizeof(T));
      clear_on_device(p, n * sizeof(T));
      return static_cast<T*>(p);
    }
  }
  static void copy(const T* from, T* to, std::size_t n) {
    if (n == 0) return;
    if constexpr (std::same_as<M, Host>) settle(), copy_by_threads(to, from, n * sizeof(T));
    else copy_on_device(to, from, n * sizeof(T));
  }
  T* p_ = nullptr;
  std::size_t n_ = 0;
};

}  // namespace tacit::exec
