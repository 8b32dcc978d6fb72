// Kernels whose entry for two points is a matrix of their components.
#pragma once

#include <tacit/op/hmatrix/point_kernels.hpp>

#include "ordered_points.hpp"

namespace tacit::op::detail {

/// Entries of a kernel of three components. The trees have three indices for each point, 3 p to 3 p + 2.
template <Scalar T>
EntryFunction<T> tensor_entries(const PointKernel& kernel, Sides sides);

}  // namespace tacit::op::detail
