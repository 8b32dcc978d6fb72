// The storage of an H-matrix as team kernels read it (op/kernels/hmatrix_product.hpp). For real scalars. nvcc compiles
// this header.
#pragma once

#include <tacit/op/hmatrix/on_devices.hpp>
#include <tacit/op/kernels/hmatrix_product.hpp>

#include <memory>
#include <span>
#include <tuple>
#include <vector>

namespace tacit::op::detail {

/// In host memory; the spans refer to the storage.
template <class R>
struct KernelPlan {
  std::vector<FactorTask> factors;
  std::vector<PanelTask> panels;
  std::vector<ColumnRun> runs;
  std::vector<std::uint16_t> run_of;
  std::vector<double> scale;
  std::tuple<std::span<const R>, std::span<const float>, std::span<const std::int16_t>> factor_numbers, panel_numbers;
  Local rows, columns;
  std::int64_t ld;  ///< of z: x, followed by the results of the factors
};

/// The part of one device of a process.
template <Scalar T>
struct DevicePart {
  KernelPlan<T> plan;
  std::shared_ptr<const void> storage;  ///< that the plan's spans refer to
  std::pair<Local, Local> rows{0, 0};   ///< the rows it has blocks in, relative to the rank's first
  double bytes = 0;                     ///< of the matrix
};

/// Distributes this rank's blocks over `count` devices. Local; makes another copy of the matrix.
template <Scalar T>
std::vector<DevicePart<T>> deal_blocks(const HMatrix<T>& matrix, int count, BlockDeal deal);

}  // namespace tacit::op::detail
