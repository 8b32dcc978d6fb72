// What a test can ask of the stand-in for the CUDA runtime, and set.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cuda_on_host {

/// What this process has asked of the runtime so far.
struct Counts {
  std::int64_t launches = 0;  ///< of kernels and of graphs; kernels that are recorded into a graph are not counted
  std::int64_t copies_to_device = 0, copies_to_host = 0, copies_on_device = 0, copies_between_devices = 0, fills = 0;
  std::int64_t bytes_to_device = 0, bytes_to_host = 0, bytes_on_device = 0, bytes_between_devices = 0, bytes_filled = 0;
  std::int64_t waits = 0;        ///< calls in which the host waited for a stream, an event or a device
  std::int64_t event_waits = 0;  ///< waits of a stream for an event
  std::int64_t allocations = 0, host_allocations = 0;
  std::int64_t live_bytes = 0;        ///< device memory that is allocated now
  std::int64_t overlapped_waits = 0;  ///< waits for an event whose stream had been given more work after it
  std::int64_t graph_launches = 0;    ///< of the launches
};
Counts counts();

/// The devices on which this process has a context: those that a thread has selected, and the current one at a call
/// that needs a context.
std::vector<int> contexts();

/// The number of devices, at first that of the environment's CUDA_ON_HOST_DEVICES (1). Between tests only: no stream
/// has work, and all devices are forgotten with their peers.
void set_devices(int count);
/// The order in which streams work and threads of blocks run, at first that of CUDA_ON_HOST_SEED (0). 0: a stream works
/// when it is waited for, not before, threads run by number. Any other seed: streams also work ahead, between calls and
/// between operations of others, and threads run in changing orders, in one repeatable way for each seed.
void set_seed(std::uint64_t seed);

/// Collects the faults of this process while it lives. Without one a fault ends the process (abort).
class Faults {
 public:
  Faults();
  ~Faults();
  Faults(const Faults&) = delete;
  Faults& operator=(const Faults&) = delete;
  std::vector<std::string> take();
};

}  // namespace cuda_on_host
