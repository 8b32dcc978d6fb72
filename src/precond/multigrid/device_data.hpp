// A hierarchy of the host as arrays for a device. Compiled for the host only: nvcc sees neither levels nor operators.
#pragma once

#include <tacit/precond/multigrid/device_levels.hpp>

#include <memory>

namespace tacit::precond::mg {

/// This rank's part of the levels that Multigrid has; those below the first one of at most `bottom_cells` cells are
/// left out. That one's cells stay where its finer level's are, as its system is solved by every rank. Error(usage) for
/// what has no kernels. Collective.
template <class T>
DeviceData<T> device_data(std::shared_ptr<const op::FiniteVolume<T>> A, const MultigridOptions& options,
                          Global bottom_cells);

}  // namespace tacit::precond::mg
