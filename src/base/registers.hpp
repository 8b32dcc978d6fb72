// Vectors (gcc's vector_size) that fit a register of the processor that is compiled for. gcc 12 keeps longer ones in
// memory, and reads them back in other sizes than it has written, which waits for the stores: loops over rows of 64
// bytes take them in parts of this size.
#pragma once

#include <algorithm>
#include <cstring>

namespace tacit {

#if defined(__AVX512F__)
inline constexpr int register_bytes = 64;
#elif defined(__AVX__)
inline constexpr int register_bytes = 32;
#else
inline constexpr int register_bytes = 16;
#endif

/// `count` numbers as registers: part[i] has `lanes` of them, at most `most`. Loops over parts are to be unrolled.
template <class T, int count, int most = register_bytes / int(sizeof(T))>
struct Registers {
  static constexpr int lanes = std::min(count, most), parts = count / lanes;
  static_assert(count % lanes == 0);
  typedef T V __attribute__((vector_size(lanes * sizeof(T))));
  V part[parts] = {};

  [[gnu::always_inline]] static V load(const T* from, int i) {
    V v;
    std::memcpy(&v, from + i * lanes, sizeof v);
    return v;
  }
  [[gnu::always_inline]] void store(T* to) const {
#pragma GCC unroll 8
    for (int i = 0; i < parts; ++i) std::memcpy(to + i * lanes, &part[i], sizeof(V));
  }
};

}  // namespace tacit
