// The GPU of a rank: ranks of a node take its devices in turn.
#pragma once

#include <tacit/comm/communicator.hpp>
#include <tacit/comm/topology.hpp>
#include <tacit/exec/gpus.hpp>

namespace tacit::comm {

/// r mod d on the r-th rank of a node, where each process sees d devices: with one rank for each device every rank has
/// its own, and a launcher that shows each rank one device only (CUDA_VISIBLE_DEVICES) is followed. Collective.
/// Error(environment) on every rank where one of them sees no device.
inline int gpu_of_rank(const Communicator& comm) {
  return collective(comm, [&] {
    const int count = exec::gpu_count();
    if (count == 0) throw Error(ErrorKind::environment, "no GPU answers");
    const Topology& topology = comm.topology();
    int before = 0;
    for (int r = 0; r < comm.rank(); ++r) before += topology.same_node(r, comm.rank());
    return before % count;
  });
}

}  // namespace tacit::comm
