// Machine: what moving data costs here, in the few numbers that the choice of a method needs.
#pragma once

#include <tacit/comm/communicator.hpp>

namespace tacit::model {

struct Machine {
  double bandwidth = 0;    ///< bytes a second that this rank reads from memory while all ranks do
  double sum_latency = 0;  ///< seconds from the start of an all-reduce of one number to its end
};

/// Measures the machine through `comm`: medians of a few sums, and of passes over an array beyond the caches (as large
/// as model::beyond_caches says, or what 50 ms of touching its pages have given; given back at once). Some 25 ms in
/// all, at most about 100. The slowest rank's numbers, the same on all. Measured once for a group of ranks; later calls
/// cost nothing. Collective; the sums are counted as reductions of the first call.
Machine measure(const comm::Communicator& comm);

}  // namespace tacit::model
