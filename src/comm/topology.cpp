#include <tacit/comm/topology.hpp>

#include "state.hpp"

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#ifdef TACIT_HAVE_HWLOC
#include <hwloc.h>
#elif defined(__linux__)
#include <sched.h>
#endif

namespace tacit::comm {
namespace {

#ifndef TACIT_HAVE_HWLOC
// Parses "0-3,8".
std::vector<int> numbers_of(const std::string& text) {
  std::vector<int> all;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) {
    const auto dash = part.find('-');
    try {
      const int first = std::stoi(part), last = dash == std::string::npos ? first : std::stoi(part.substr(dash + 1));
      for (int i = first; i <= last; ++i) all.push_back(i);
    } catch (const std::exception&) {
      return {};
    }
  }
  return all;
}

// The NUMA domain that this thread is bound to; -1 when it may run on several.
int numa_domain() {
#ifdef __linux__
  cpu_set_t mine;
  if (sched_getaffinity(0, sizeof mine, &mine) != 0) return -1;
  std::ifstream online("/sys/devices/system/node/online");
  std::string domains;
  std::getline(online, domains);
  int found = -1;
  for (const int domain : numbers_of(domains)) {
    std::ifstream file("/sys/devices/system/node/node" + std::to_string(domain) + "/cpulist");
    std::string list;
    std::getline(file, list);
    for (const int cpu : numbers_of(list)) {
      if (cpu >= CPU_SETSIZE || !CPU_ISSET(cpu, &mine)) continue;
      if (found >= 0 && found != domain) return -1;
      found = domain;
    }
  }
  return found;
#else
  return -1;
#endif
}
#endif

// Numbers 0, 1, ... for equal keys, in the order of their first ranks.
template <class Key>
std::vector<int> group_of(const std::vector<Key>& keys) {
  std::map<Key, int> number;
  std::vector<int> group;
  for (const auto& key : keys) group.push_back(number.try_emplace(key, int(number.size())).first->second);
  return group;
}

constexpr const char* names[] = {"device", "numa", "node"};

}  // namespace

Topology Topology::given(int ranks, std::span<const int> sizes) {
  require(ranks >= 1, "a topology of ", ranks, " ranks");
  require(sizes.size() <= 3, "a topology of ", sizes.size(),
          " levels below the global one; up to three are known (device, ", "NUMA domain, node)");
  Topology t;
  std::int64_t together = 1;
  for (std::size_t l = 0; l < sizes.size(); ++l) {
    require(sizes[l] >= 1, "levels: groups of ", sizes[l], "; at least 1 is needed");
    together = std::min<std::int64_t>(together * sizes[l], std::int64_t(1) << 31);
    Level level{names[3 - sizes.size() + l], {}};
    for (int r = 0; r < ranks; ++r) level.group.push_back(int(r / together));
    t.level_.push_back(std::move(level));
  }
  if (sizes.empty()) t.level_.push_back({"node", std::vector<int>(std::size_t(ranks), 0)});
  t.level_.push_back({"global", std::vector<int>(std::size_t(ranks), 0)});
  return t;
}

Topology Topology::given(int ranks, const std::string& text) {
  std::vector<int> sizes;
  require(text.empty() || text.back() != ',', "levels \"", text, "\" end with a comma");
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) {
    std::size_t end = 0;
    int size = 0;
    try {
      size = std::stoi(part, &end);
    } catch (const std::exception&) {
      end = 0;
    }
    require(end > 0 && end == part.size(), "levels \"", text,
            "\"; numbers like \"3,2\" are needed: ranks of a NUMA domain, ", "domains of a node");
    sizes.push_back(size);
  }
  require(!sizes.empty(), "levels are empty; numbers like \"3,2\" are needed");
  return given(ranks, sizes);
}

Topology Topology::detect(const Communicator& comm) {
  // Ranks may have been started with different environments, so that of rank 0 is used.
  const char* const mine = std::getenv("TACIT_LEVELS");
  const std::string levels = comm.broadcast(mine ? mine : "", 0);
  if (!levels.empty()) return given(comm.size(), levels);
  if (comm.size() == 1) return given(1, std::span<const int>());
  const auto node = comm.transport().node();
  const auto firsts = comm.all_gather(node.empty() ? comm.rank() : *std::min_element(node.begin(), node.end()));
  auto places = comm.all_gather(comm.transport().one_process() ? Place{} : here());
  const auto nodes = group_of(firsts);
  for (std::size_t r = 0; r < places.size(); ++r) places[r].node = nodes[r];
  return of(places);
}

Topology Topology::of(std::span<const Place> places) {
  require(!places.empty(), "a topology of no ranks");
  const auto level = [&](const char* name, int Place::*member) {
    std::vector<std::pair<int, int>> keys;
    bool known = true;
    for (const auto& p : places) keys.emplace_back(p.node, p.*member), known = known && p.*member >= 0;
    return known ? Level{name, group_of(keys)} : Level{name, {}};
  };
  std::vector<int> node_of;
  for (const auto& p : places) node_of.push_back(p.node);
  const Level nodes{"node", group_of(node_of)};
  Level numa = level("numa", &Place::numa), socket = level("socket", &Place::socket);
  for (auto* l : {&numa, &socket})
    if (l->group == nodes.group) l->group.clear();
  if (socket.group == numa.group) socket.group.clear();
  if (!numa.group.empty() && !socket.group.empty()) {
    const auto nests = [](const Level& inner, const Level& outer) {
      std::map<int, int> around;
      for (std::size_t r = 0; r < inner.group.size(); ++r)
        if (around.try_emplace(inner.group[r], outer.group[r]).first->second != outer.group[r]) return false;
      return true;
    };
    if (!nests(numa, socket)) {
      if (nests(socket, numa)) std::swap(socket, numa);
      else socket.group.clear();
    }
  }
  Topology t;
  for (auto* l : {&numa, &socket})
    if (!l->group.empty()) t.level_.push_back(std::move(*l));
  t.level_.push_back(nodes);
  t.level_.push_back({"global", std::vector<int>(places.size(), 0)});
  return t;
}

Topology::Place Topology::here() {
  Place place;
#ifdef TACIT_HAVE_HWLOC
  hwloc_topology_t machine;
  if (hwloc_topology_init(&machine) != 0) return place;
  const hwloc_bitmap_t bound = hwloc_bitmap_alloc();
  if (hwloc_topology_load(machine) == 0 && bound && hwloc_get_cpubind(machine, bound, HWLOC_CPUBIND_THREAD) == 0) {
    // The object of this type, if the thread is bound to exactly one. Fast and slow memories of one domain count as
    // one.
    const auto only = [&](hwloc_obj_type_t type) {
      hwloc_obj_t found = nullptr;
      for (hwloc_obj_t o = nullptr; (o = hwloc_get_next_obj_by_type(machine, type, o));) {
        if (!o->cpuset || !hwloc_bitmap_intersects(o->cpuset, bound)) continue;
        if (found && !hwloc_bitmap_isequal(found->cpuset, o->cpuset)) return -1;
        if (!found) found = o;
      }
      return found ? int(found->logical_index) : -1;
    };
    place.socket = only(HWLOC_OBJ_PACKAGE);
    place.numa = only(HWLOC_OBJ_NUMANODE);
  }
  hwloc_bitmap_free(bound);
  hwloc_topology_destroy(machine);
#else
  place.numa = numa_domain();
#endif
  return place;
}

int Topology::groups(int level) const {
  const auto& group = level_[std::size_t(level)].group;
  return int(std::set<int>(group.begin(), group.end()).size());
}

std::string Topology::describe() const {
  std::string text = message(ranks(), ranks() == 1 ? " rank" : " ranks");
  for (int l = levels() - 2; l >= 0; --l)
    text += message(l == levels() - 2 ? ": " : ", ", groups(l), " ", name(l), groups(l) == 1 ? " group" : " groups");
  return text;
}

}  // namespace tacit::comm
