// Numbers in messages, one after the other.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

namespace tacit::bytes {

using Bytes = std::vector<std::byte>;

template <class S>
void write(Bytes& to, const S* numbers, std::size_t count) {
  static_assert(std::is_trivially_copyable_v<S>);
  if (count == 0) return;
  const std::size_t at = to.size();
  to.resize(at + count * sizeof(S));
  std::memcpy(to.data() + at, numbers, count * sizeof(S));
}
template <class S>
void write(Bytes& to, const S& number) {
  write(to, &number, 1);
}

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : left_(bytes) {}
  bool done() const { return left_.empty(); }
  template <class S>
  void read(S* to, std::size_t count) {
    static_assert(std::is_trivially_copyable_v<S>);
    if (count > 0) std::memcpy(to, left_.data(), count * sizeof(S));
    left_ = left_.subspan(count * sizeof(S));
  }
  template <class S>
  S next() {
    S s;
    read(&s, 1);
    return s;
  }
  template <class S>
  std::vector<S> next(std::size_t count) {
    std::vector<S> all(count);
    read(all.data(), count);
    return all;
  }

 private:
  std::span<const std::byte> left_;
};

}  // namespace tacit::bytes
