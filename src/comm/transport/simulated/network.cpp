#include "network.hpp"

#include <cmath>
#include <cstdlib>

namespace tacit::comm::simulated {
namespace {

// Edges of a box of at least `nodes` places: the most equal ones whose product is `nodes`, the longest first.
std::array<int, 6> torus_edges(int nodes, int axes) {
  std::array<int, 6> edges;
  edges.fill(1);
  for (int axis = axes; axis > 0; --axis) {
    // The largest divisor of what is left that is no longer than an equal edge.
    int edge = int(std::floor(std::pow(double(nodes), 1.0 / axis) + 1e-9));
    while (nodes % edge != 0) --edge;
    edges[std::size_t(axis - 1)] = edge;
    nodes /= edge;
  }
  std::sort(edges.begin(), edges.end(), std::greater<>());
  return edges;
}

}  // namespace

Network::Network(const MachineModel& machine, int ranks) : machine_(machine), nodes_(node(ranks - 1) + 1) {
  using Topology = MachineModel::Topology;
  if (machine.topology == Topology::torus) edges_ = torus_edges(nodes_, machine.torus_axes);
  if (machine.uplink_gap > 0) regions_ = machine.topology == Topology::torus ? 2 : region(nodes_ - 1) + 1;
  if (machine.nic_gap > 0 || regions_ > 1) wires_.resize(2 * std::size_t(nodes_ + regions_));
}

std::array<int, 6> Network::place(int node) const {
  std::array<int, 6> at{};
  for (std::size_t axis = 0; axis < at.size(); ++axis) at[axis] = node % edges_[axis], node /= edges_[axis];
  return at;
}

int Network::region(int node) const {
  switch (machine_.topology) {
    case MachineModel::Topology::flat:
      return 0;
    case MachineModel::Topology::fat_tree:
      return node / machine_.nodes_per_switch;
    case MachineModel::Topology::dragonfly:
      return node / (machine_.nodes_per_switch * machine_.switches_per_group);
    case MachineModel::Topology::torus:
      return 2 * place(node)[0] >= edges_[0];
  }
  return 0;
}

int Network::switches_beyond_first(int from, int to) const {
  const int a = node(from), b = node(to);
  if (a == b || machine_.topology == MachineModel::Topology::flat) return 0;
  if (machine_.topology == MachineModel::Topology::torus) {
    const auto p = place(a), q = place(b);
    int hops = 0;
    for (std::size_t axis = 0; axis < p.size(); ++axis) {
      const int apart = std::abs(p[axis] - q[axis]);
      hops += std::min(apart, edges_[axis] - apart);
    }
    return hops - 1;
  }
  const bool tree = machine_.topology == MachineModel::Topology::fat_tree;
  const int leaf = machine_.nodes_per_switch, group = leaf * machine_.switches_per_group;
  if (a / leaf == b / leaf) return 0;
  // Up and down again: leaf, spine, leaf, or with the core between two spines. In a dragonfly a router has a link to
  // each of its group, and a group has one to each other group, at one of its routers.
  if (a / group == b / group) return tree ? 2 : 1;
  return tree ? 4 : 3;
}

double Network::past_wires(int from, int to, std::size_t bytes, double begun, double left) {
  const int a = node(from), b = node(to);
  if (wires_.empty() || a == b) return left;
  // A message streams through a wire from when it reaches it, or the wire has capacity again, and leaves it no earlier
  // than the wire before, which may be the slower one.
  const auto pass = [&](std::size_t wire, double gap) {
    if (gap <= 0) return;
    begun = std::max(begun, wires_[wire]);
    wires_[wire] = begun + gap * double(bytes);
    left = std::max(left, wires_[wire]);
  };
  const auto node_wire = [](int n, bool in) { return 2 * std::size_t(n) + in; };
  const auto region_wire = [&](int r, bool in) { return 2 * std::size_t(nodes_ + r) + in; };
  pass(node_wire(a, false), machine_.nic_gap);
  if (const int c = region(a), d = region(b); regions_ > 1 && c != d) {
    pass(region_wire(c, false), machine_.uplink_gap);
    // The two halves of a torus are joined by one bundle of links.
    if (machine_.topology != MachineModel::Topology::torus) pass(region_wire(d, true), machine_.uplink_gap);
  }
  pass(node_wire(b, true), machine_.nic_gap);
  return left;
}

}  // namespace tacit::comm::simulated
