// What messages take between the ranks of a machine: links, hops, and wires that many messages share.
#pragma once

#include <tacit/comm/simulate.hpp>

#include <algorithm>
#include <array>
#include <vector>

namespace tacit::comm::simulated {

class Network {
 public:
  Network(const MachineModel& machine, int ranks);

  struct Link {
    double latency, overhead, gap;
  };
  Link link(int from, int to) const {
    for (const auto& level : machine_.levels)
      if (from / level.ranks == to / level.ranks) return {level.latency, level.overhead, level.gap};
    const double hops = machine_.hop_latency > 0 ? machine_.hop_latency * switches_beyond_first(from, to) : 0;
    return {machine_.latency + hops, machine_.overhead, machine_.gap};
  }
  bool by_rendezvous(std::size_t bytes) const {
    return machine_.eager_limit > 0 && double(bytes) > machine_.eager_limit;
  }
  /// Whether messages queue for wires: then they have to be sent in the order of time.
  bool shared() const { return !wires_.empty(); }
  /// When the last byte of a message has passed the shared wires on its way, which would leave its rank from `begun` to
  /// `left`. Takes the wires in the order of calls.
  double past_wires(int from, int to, std::size_t bytes, double begun, double left);
  /// All wires are free, as at time 0.
  void restart() { std::fill(wires_.begin(), wires_.end(), 0.0); }

 private:
  int node(int rank) const { return rank / std::max(1, machine_.ranks_per_node); }
  int switches_beyond_first(int from, int to) const;
  int region(int node) const;
  std::array<int, 6> place(int node) const;

  const MachineModel& machine_;
  int nodes_, regions_ = 0;
  std::array<int, 6> edges_{};  // of a torus, the longest first
  // When each wire is free: of each node in and out, then of each region (leaf switch, group, half) in and out.
  std::vector<double> wires_;
};

}  // namespace tacit::comm::simulated
