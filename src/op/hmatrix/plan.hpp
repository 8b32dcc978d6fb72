// The storage of an H-matrix as team kernels read it (op/kernels/hmatrix.hpp). Real scalars. Nothing here that nvcc
// does not know.
#pragma once

#include <tacit/op/hmatrix/on_devices.hpp>
#include <tacit/op/kernels/hmatrix.hpp>

#include <memory>
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
  std::int64_t ld;  ///< of z: x, then what the factors give
};

/// What one device of a process gets.
template <Scalar T>
struct DevicePart {
  KernelPlan<T> plan;
  std::shared_ptr<const void> storage;  ///< that the plan's spans are of
  std::pair<Local, Local> rows{0, 0};   ///< from the rank's first, that it has a part of
  double bytes = 0;                     ///< of the matrix
};

/// This rank's blocks dealt to `count` devices. Local; another copy of the matrix.
template <Scalar T>
std::vector<DevicePart<T>> deal_blocks(const HMatrix<T>& matrix, int count, BlockDeal deal);

}  // namespace tacit::op::detail
