// Kernels around the products of a network: inputs to columns, and columns to other panels.
#pragma once

#include <tacit/base/types.hpp>
#include <tacit/exec/sums.hpp>
#include <tacit/exec/team.hpp>

#include <cstdint>

namespace tacit::app::inference {

/// y[i columns + c] = neuron i of input c: bit 7 - i % 8 of byte c row_bytes + i / 8, or number c rows + i; 0 for c >=
/// given.
struct Interleave {
  static constexpr int threads = 256;
  struct Shared {};
  Global rows;
  Global columns, given, row_bytes;
  const std::uint8_t* bits;  // null: numbers
  const float* numbers;
  float* y;
  template <exec::Team Tm>
  TACIT_HD void operator()(Tm team, Shared&) const {
    exec::for_items<threads>(team, [&](int item) {
      const Global at = team.block() * threads + item;
      if (at >= rows * columns) return;
      const Global i = at / columns, c = at % columns;
      y[at] = c >= given ? 0.0F : bits ? float(bits[c * row_bytes + i / 8] >> (7 - i % 8) & 1) : numbers[c * rows + i];
    });
  }
};

/// y[i y_columns + first + c] = x[i x_columns + column[c]] for c < given, 0 for given <= c < count.
struct TakeColumns {
  static constexpr int threads = 256;
  struct Shared {};
  Global rows;
  Global x_columns, y_columns, first, given, count;
  const Local* column;
  const float* x;
  float* y;
  template <exec::Team Tm>
  TACIT_HD void operator()(Tm team, Shared&) const {
    exec::for_items<threads>(team, [&](int item) {
      const Global at = team.block() * threads + item;
      if (at >= rows * count) return;
      const Global i = at / count, c = at % count;
      y[i * y_columns + first + c] = c < given ? x[i * x_columns + column[c]] : 0.0F;
    });
  }
};

/// part[t] = the sum of x[t rows] to x[(t + 1) rows - 1], in double.
struct PartialTotal {
  static constexpr int threads = 256;
  static constexpr Global rows = 65536;
  struct Shared {};
  Global count;
  const float* x;
  double* part;
  template <exec::Team Tm>
  TACIT_HD void operator()(Tm team, Shared&) const {
    const Global first = team.block() * rows, last = first + rows < count ? first + rows : count;
    double sum = 0;
    for (Global i = first + team.rank(); i < last; i += Tm::threads) sum += double(x[i]);
    const double total = team.sum(sum);
    if (team.rank() == 0) part[team.block()] = total;
  }
};

}  // namespace tacit::app::inference
