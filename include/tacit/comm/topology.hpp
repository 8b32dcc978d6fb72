// Topology: who is near whom. Ranks stand in groups (of a NUMA domain, of a node), groups in larger ones, and all of
// them in the global one.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace tacit::comm {

class Communicator;

class Topology {
 public:
  /// From the inside out: ranks of a group, groups of one on the next level, and so on; the last number makes the node,
  /// what is left is global. {3, 2}: three ranks a NUMA domain, two of these a node. {} is one node. Ranks are numbered
  /// through: 0, 1, 2 are one group. The last group may have fewer. Local. Error(usage) on a number below 1, or more
  /// than 3.
  static Topology given(int ranks, std::span<const int> sizes);
  /// Reads "3,2". Error(usage) on anything else.
  static Topology given(int ranks, const std::string& sizes);
  /// Where a rank runs: its node's number, and those of socket and NUMA domain on that node; -1: on several, or not
  /// known.
  struct Place {
    int node = 0, socket = -1, numa = -1;
  };
  /// Where the calling thread is bound to; node stays 0. By hwloc (which can be given another machine by its
  /// environment variables) where Tacit was built with it, else by what Linux tells of NUMA domains. Local.
  static Place here();
  /// One place a rank. A level of sockets, or of NUMA domains, is there where every rank has one and it parts a node;
  /// the finer of two is the inner one; of two that part ranks alike, or do not nest, NUMA domains are left. Local.
  static Topology of(std::span<const Place> places);
  /// What the environment variable TACIT_LEVELS of rank 0 says ("3,2"); without it, nodes as the transport knows them
  /// (MPI_COMM_TYPE_SHARED; threads are of one node) and sockets and NUMA domains that ranks are bound to (here()).
  /// Collective.
  static Topology detect(const Communicator& comm);

  /// At least 2, the outermost one being "global"; the one before it is "node".
  int levels() const { return int(level_.size()); }
  /// "device", "numa", "socket", "node", "global".
  const std::string& name(int level) const { return level_[std::size_t(level)].name; }
  /// The group that a rank is in, from 0.
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
