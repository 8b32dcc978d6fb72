// The methods that are compiled for groups of devices.
#pragma once

#include <tacit/krylov/options.hpp>

namespace tacit::krylov {

/// Those that solve<T, Group<M>> takes; the first is the one for general use.
inline constexpr Method group_methods[] = {Method::bicgstab, Method::pipelined_bicgstab};

}  // namespace tacit::krylov
