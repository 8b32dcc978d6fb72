// What a rank's kernels take.
#pragma once

namespace tacit::comm {

/// As of MachineModel (simulate.hpp), in bytes, operations and seconds.
struct KernelRates {
  double bandwidth = 0, cache = 0, cache_bandwidth = 0, flop_rate = 0, kernel = 0;
};

}  // namespace tacit::comm
