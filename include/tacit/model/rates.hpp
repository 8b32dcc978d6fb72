// The rates of a rank's kernels, measured.
#pragma once

#include <tacit/comm/communicator.hpp>
#include <tacit/comm/kernel_rates.hpp>

namespace tacit::model {

/// By the library's own sweeps, on all ranks at once: bandwidth, cache, cache_bandwidth and kernel from y := y + a x on
/// vectors of 8 bytes to four times the caches; flop_rate from products in the first cache. Medians, and the slowest
/// rank's: the same on all ranks. Takes about a second, and four times the caches in memory.
/// Collective; what else runs on the machine is measured with it.
comm::KernelRates measure_rates(const comm::Communicator& comm);

}  // namespace tacit::model
