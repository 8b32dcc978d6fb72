// The virtual clock of a thread (trace.hpp).
#pragma once

#include <tacit/base/trace.hpp>

namespace tacit {

/// The calling thread's virtual clock; null where it uses the machine's.
VirtualClock* virtual_clock() noexcept;

}  // namespace tacit
