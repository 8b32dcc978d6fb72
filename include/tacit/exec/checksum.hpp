// Checksum: tells whether arrays in host memory still hold the same bits.
//
//   const std::uint64_t made = Checksum().add(value).add(column).value();
//   ...
//   const bool intact = Checksum().add(value).add(column).value() == made;
#pragma once

#include <cstddef>
#include <cstdint>

namespace tacit::exec {

/// A 64-bit checksum of the bytes of arrays, in their order. Bytes that differ give the same number with a probability
/// of about 2^-64; it is no protection against intent. The same for any number of threads. Cost: one read of the
/// arrays, by all threads where they are large. Local.
class Checksum {
 public:
  Checksum& add(const void* data, std::size_t bytes);
  /// A contiguous container of numbers.
  template <class Container>
  Checksum& add(const Container& of) {
    return add(of.data(), of.size() * sizeof(*of.data()));
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0;
};

}  // namespace tacit::exec
