// Hash: pseudo-random choice of the rows and columns of a block that are sampled.
#pragma once

#include <tacit/base/types.hpp>

#include <cstdint>

namespace tacit::op {

/// Pseudo-random numbers, the same on every machine.
struct Hash {
  std::uint64_t state;
  TACIT_HD std::uint64_t next() {
    std::uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  TACIT_HD Local below(Local n) { return Local(next() % std::uint64_t(n)); }
  /// The generator for a block of this size.
  TACIT_HD static Hash of(Local rows, Local columns) {
    return {std::uint64_t(rows) * 0x10001u + std::uint64_t(columns)};
  }
};

}  // namespace tacit::op
