// Vectors over memory of another owner: arrays of a caller, which a product then reads and writes where they lie.
#pragma once

#include <cstddef>
#include <utility>

namespace tacit::exec {

namespace detail {
/// The next allocation by this thread, if it is of so many bytes, gets the memory at p, with what it holds; host_free()
/// then leaves it to its owner. Null: no longer.
void lend(void* p, std::size_t bytes);
}  // namespace detail

/// Worth it from about so many bytes on: over() takes a lock, and saves a pass over the memory.
constexpr std::size_t least_lent = std::size_t(1) << 14;

/// make() with its first array of `bytes` bytes over those at p, whose elements it keeps. The memory has to outlive
/// what is made.
template <class F>
auto over(const void* p, std::size_t bytes, F&& make) {
  struct Ends {
    ~Ends() { detail::lend(nullptr, 0); }
  } ends;
  detail::lend(const_cast<void*>(p), bytes);
  return make();
}

}  // namespace tacit::exec
