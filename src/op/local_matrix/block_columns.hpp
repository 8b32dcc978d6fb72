// The product of rows of dense blocks and many interleaved columns: a row of x is loaded once for the rows of a block.
#pragma once

#include "block_rows.hpp"
#include "streamed.hpp"

#include <cstddef>
#include <cstdint>

namespace tacit::op {

/// Rows of blocks of b x b times m columns of x. The sums of a block's rows are in registers.
template <int b, int m, class T>
struct BlockColumns {
  using Sum = Registers<T, m>;
  /// Whether there are registers enough.
  static constexpr bool fits = b * Sum::parts <= (register_bytes == 64 ? 24 : 8);

  /// As BlockRows::multiply(). `streamed`: see is_streamed().
  [[gnu::noinline]] static void multiply(Local from, Local to, const Global* start, const T* value,
                                         const std::int16_t* offset, const Local* column, const T* x, T* y, int k,
                                         bool streamed) {
    const T* a = value + start[from] * (b * b);
    for (Local r = from; r < to; ++r, y += std::ptrdiff_t(b) * k) {
      Sum sum[b];
      for (Global e = start[r]; e < start[r + 1]; ++e) {
        const T* row = x + std::ptrdiff_t(offset ? r + offset[e] : column[e]) * b * k;
        __builtin_prefetch(reinterpret_cast<const char*>(a) + 1024);
#pragma GCC unroll 8
        for (int j = 0; j < b; ++j, row += k, a += b) {
#pragma GCC unroll 8
          for (int p = 0; p < Sum::parts; ++p) {
            const auto v = Sum::load(row, p);
#pragma GCC unroll 8
            for (int i = 0; i < b; ++i) sum[i].part[p] = mul_add(a[i] - typename Sum::V{}, v, sum[i].part[p]);
          }
        }
      }
#pragma GCC unroll 8
      for (int i = 0; i < b; ++i)
        if (streamed) stream(sum[i], y + std::ptrdiff_t(i) * k);
        else sum[i].store(y + std::ptrdiff_t(i) * k);
    }
  }
};

}  // namespace tacit::op
