// Rows for tests of tiled and staged matrices.
#pragma once

#include <tacit/op/tiled_matrix.hpp>

#include "support/reference.hpp"

#include <algorithm>
#include <vector>

namespace tacit::test {

template <class T>
struct Entry {
  Local column;
  T value;
};

// Rows with unsorted columns; some empty, one long.
template <class T>
std::vector<std::vector<Entry<T>>> some_rows(Local rows, Local columns, double size = 1) {
  std::vector<std::vector<Entry<T>>> a(static_cast<std::size_t>(rows));
  for (Local r = 0; r < rows; ++r) {
    const Local n = r % 7 == 3 ? 0 : r == 5 ? std::min(columns, 300) : std::min(columns, 1 + r % 40);
    const Local step = std::max(1, columns / std::max(1, n));
    for (Local i = 0; i < n; ++i) {
      const Local c = (r * 13 + (n - 1 - i) * step + (i % 3 == 0 && step > 1 ? 1 : 0)) % columns;
      bool known = false;
      for (const auto& e : a[std::size_t(r)]) known = known || e.column == c;
      if (!known) a[std::size_t(r)].push_back({c, T(size * number<T>(3, std::uint64_t(r * 1000 + i)))});
    }
  }
  return a;
}

template <class T>
op::RowSource<T> source_of(const std::vector<std::vector<Entry<T>>>& a) {
  return [&a](Local begin, Local end, op::RowBuffer<T>& rows) {
    for (Local r = begin; r < end; ++r) {
      for (const auto& e : a[std::size_t(r)]) rows.add(e.column, e.value);
      rows.end_row();
    }
  };
}

}  // namespace tacit::test
