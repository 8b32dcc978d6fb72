// The storage of an H-matrix as team kernels read it (op/kernels/hmatrix.hpp). Real scalars.
#pragma once

#include <tacit/op/kernels/hmatrix.hpp>

#include "storage.hpp"

#include <span>
#include <tuple>
#include <vector>

namespace tacit::op::detail {

/// In host memory; the spans are the storage's own.
template <class R>
struct KernelPlan {
  std::vector<FactorTask> factors;
  std::vector<PanelTask> panels;
  std::vector<ColumnRun> runs;
  std::vector<std::uint16_t> run_of;
  std::vector<double> scale;
  std::tuple<std::span<const R>, std::span<const float>, std::span<const std::int16_t>> factor_numbers, panel_numbers;
  Local rows, columns;
  std::int64_t ld;       ///< of z: x, then what the factors give
  double bytes() const;  ///< of everything that a product reads once
};

}  // namespace tacit::op::detail
