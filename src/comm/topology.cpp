#include <tacit/comm/topology.hpp>

#include "state.hpp"

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#ifdef __linux__
#include <sched.h>
#endif

namespace tacit::comm {
namespace {

// "0-3,8" as numbers.
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
  require(text.empty() || text.back() != ',', "levels \"", text, "\" end in a comma");
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
  if (const char* const levels = std::getenv("TACIT_LEVELS"); levels && *levels) return given(comm.size(), levels);
  Topology t;
  if (comm.size() == 1) return given(1, std::span<const int>());
  const auto node = comm.transport().node();
  const auto first = comm.all_gather(Global(node.empty() ? comm.rank() : *std::min_element(node.begin(), node.end())));
  const auto domain = comm.all_gather(Global(comm.transport().one_process() ? -1 : numa_domain()));
  std::vector<std::pair<Global, Global>> both;
  for (std::size_t r = 0; r < first.size(); ++r) both.emplace_back(first[r], domain[r]);
  Level nodes{"node", group_of(first)}, numa{"numa", group_of(both)};
  const bool bound = std::find(domain.begin(), domain.end(), -1) == domain.end();
  if (bound && numa.group != nodes.group) t.level_.push_back(std::move(numa));
  t.level_.push_back(std::move(nodes));
  t.level_.push_back({"global", std::vector<int>(std::size_t(comm.size()), 0)});
  return t;
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
