// Who goes by which virtual clock (trace.hpp).
#pragma once

#include <tacit/base/trace.hpp>

namespace tacit {

/// The calling thread's, null where it goes by the machine's.
VirtualClock* virtual_clock() noexcept;

}  // namespace tacit
