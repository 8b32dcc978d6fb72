// Windows in shared memory, for the set-up and the use of routes.
#pragma once

#include "route.hpp"

#include <atomic>
#include <cstring>
#include <map>

namespace tacit::comm::detail {

// The alignment of buffers.
constexpr std::size_t line = 128;
inline std::size_t rounded(std::size_t bytes) {
  return (bytes + line - 1) / line * line;
}

// The segments of this rank and its neighbours.
struct Route::SharedWindow final : Window {
  std::shared_ptr<Segment> mine;
  std::map<int, std::shared_ptr<Segment>> theirs;
  static std::atomic_ref<std::uint64_t> flag(std::byte* p) {
    return std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(p));
  }
  std::byte* data() override { return mine->data(); }
  std::byte* data_of(int rank) { return theirs.at(rank)->data(); }
  void raise(int to, std::size_t place, std::uint64_t value) {
    flag(data_of(to) + place).store(value, std::memory_order_release);
  }
  void write(int to, std::size_t at, const void* data, std::size_t bytes, std::size_t place,
             std::uint64_t value) override {
    if (bytes) std::memcpy(data_of(to) + at, data, bytes);
    raise(to, place, value);
  }
  std::uint64_t read(std::size_t place) override { return flag(mine->data() + place).load(std::memory_order_acquire); }
};

}  // namespace tacit::comm::detail
