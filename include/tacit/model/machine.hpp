// Machine: the measured costs of moving data that the choice of a method needs.
#pragma once

#include <tacit/comm/communicator.hpp>

namespace tacit::model {

struct Machine {
  double bandwidth = 0;    ///< bytes per second that a rank reads from memory while all ranks read
  double sum_latency = 0;  ///< seconds from the start of an all-reduce of one number to its end
};

/// Measures the machine over the ranks of `comm`: medians of a few reductions, and of passes over an array larger than
/// the caches (model::beyond_caches, or the part whose pages are touched within 50 ms; freed at once). Takes about 25
/// ms, at most about 100. Returns the slowest rank's numbers, the same on all ranks; simulated ranks return the
/// bandwidth of their model. Measured once for each kind of transport and number of ranks; later calls cost three small
/// all-reduces. Collective; the first call counts its reductions.
Machine measure(const comm::Communicator& comm);

}  // namespace tacit::model
