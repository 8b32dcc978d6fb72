// The layout of a staged matrix, computed on the host (kernels/staged.hpp).
#pragma once

#include <tacit/op/staged_matrix.hpp>
#include "op/kernels/staged.hpp"

#include <cstdint>
#include <vector>

namespace tacit::op::detail {

/// As the kernel reads it; the arrays of a part end where those of the next begin.
template <class T>
struct StagedLayout {
  std::vector<std::int32_t> part_begin{0};
  std::vector<Global> map_begin{0}, quad_begin{0};
  std::vector<std::uint32_t> slice;
  std::vector<Local> map;
  std::vector<std::uint16_t> slot, halves;
  std::vector<T> value, scale;
  StagedCounts counts;
  Global entries = 0;
  double largest = 0;  // of finite values
  int longest = 0;     // entries of a row
};

template <class T>
StagedLayout<T> staged_layout(Local rows, Local columns, const RowSource<T>& source, const StagedShape& shape,
                              bool halves);

}  // namespace tacit::op::detail
