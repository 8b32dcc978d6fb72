// A hierarchy of the host as arrays for a device. Compiled for the host only: nvcc sees neither levels nor operators.
#pragma once

#include <tacit/precond/multigrid/device_levels.hpp>

#include <memory>

namespace tacit::precond::mg {

/// The levels that Multigrid has on one rank; those below the first one of at most `bottom_cells` cells are left out.
/// Error(usage) where there are several ranks, or options that have no kernels.
template <class T>
DeviceData<T> device_data(std::shared_ptr<const op::FiniteVolume<T>> A, const MultigridOptions& options,
                          Global bottom_cells);

}  // namespace tacit::precond::mg
