// Topology: nested groups of ranks that are near each other (NUMA domain, socket, node); the outermost holds all ranks.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace tacit::comm {

class Communicator;

class Topology {
 public:
  /// Group sizes from the innermost level to the node: {3, 2} is three ranks to a NUMA domain and two NUMA domains to a
  /// node; {} is one node. Groups are consecutive ranks (0, 1, 2 are the first), and the last may be smaller. Local.
  /// Error(usage) on a size below 1, or on more than 3 sizes.
  static Topology given(int ranks, std::span<const int> sizes);
  /// Reads "3,2". Error(usage) on anything else.
  static Topology given(int ranks, const std::string& sizes);
  /// Where a rank runs: the number of its node, and of its socket and NUMA domain on that node; -1 where it is bound to
  /// several or this is not known.
  struct Place {
    int node = 0, socket = -1, numa = -1;
  };
  /// The place that the calling thread is bound to; node is 0. From hwloc (whose environment variables can describe
  /// another machine) where Tacit was built with it, else from Linux's list of NUMA domains. Local.
  static Place here();
  /// From the place of each rank. Sockets and NUMA domains become levels where every rank's is known and they divide a
  /// node; the finer is the inner level. Where both divide the ranks alike, or do not nest, only NUMA domains are used.
  /// Local.
  static Topology of(std::span<const Place> places);
  /// From the environment variable TACIT_LEVELS of rank 0 ("3,2"). Without it, nodes come from the transport
  /// (MPI_COMM_TYPE_SHARED; threads are one node), sockets and NUMA domains from here(). Collective.
  static Topology detect(const Communicator& comm);

  /// At least 2: the outermost level is "global", the one inside it "node".
  int levels() const { return int(level_.size()); }
  /// "device", "numa", "socket", "node", "global".
  const std::string& name(int level) const { return level_[std::size_t(level)].name; }
  /// The number of the group that holds a rank, from 0.
  int group(int rank, int level) const { return level_[std::size_t(level)].group[std::size_t(rank)]; }
  int groups(int level) const;
  bool same(int a, int b, int level) const { return group(a, level) == group(b, level); }
  bool same_node(int a, int b) const { return same(a, b, levels() - 2); }
  int ranks() const { return int(level_.back().group.size()); }
  /// "6 ranks: 2 nodes, 2 numa domains a node" or the like.
  std::string describe() const;

 private:
  struct Level {
    std::string name;
    std::vector<int> group;  // of each rank
  };
  std::vector<Level> level_;
};

}  // namespace tacit::comm
