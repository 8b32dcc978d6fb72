// The halo exchanges of a communicator.
#pragma once

#include <tacit/comm/exchange.hpp>

#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

namespace tacit::comm::detail {

struct Exchanges {
  std::vector<Exchange*> all;
  // Of `all`: an exchange may be destroyed by any thread, such as by Python's garbage collection.
  std::recursive_mutex in_use;
  // The number of parts that neighbours wait for and only this rank can move: those whose windows were not granted when
  // they were posted, and those that it has to fetch. Done when it polls or waits on any communicator.
  int deferred = 0;
  int under_way = 0;  // posted and not closed
  Path path = Path::automatic;
  std::map<int, Path> fastest;  // by the binary logarithm of an exchange's bytes
  std::uint32_t numbered = 0, opened = 0;
};

}  // namespace tacit::comm::detail
