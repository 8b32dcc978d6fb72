// What a test can ask of the stand-in for the CUDA runtime, and set.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
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
  std::int64_t bytes_read = 0, bytes_written = 0;  ///< of device memory by kernels, copies and fills: watch_traffic()
};
Counts counts();

/// Whether bytes_read and bytes_written are counted; at first not, because it makes kernels slower. Each page of 4 KiB
/// that an operation reads, or writes, counts once for it, as if caches held everything for one kernel and nothing
/// beyond: the least traffic of these kernels. x86-64 only.
void watch_traffic(bool on);

/// The devices on which this process has a context: those that a thread has selected, and the current one at a call
/// that needs a context.
std::vector<int> contexts();

/// The number of devices, at first that of the environment's CUDA_ON_HOST_DEVICES (1). Between tests only: no stream
/// has work, and all devices are forgotten with their peers.
void set_devices(int count);
/// The order in which streams work and threads of blocks run, at first that of CUDA_ON_HOST_SEED (0). 0: a stream works
/// when it is waited for, or asked for an event many times, not before, threads run by number. Any other seed: streams
/// also work ahead, between calls and between operations of others, and threads run in changing orders, in one
/// repeatable way for each seed.
void set_seed(std::uint64_t seed);

/// A kind of wait, for tests that leave one out.
enum class Wait {
  of_stream,          ///< cudaStreamWaitEvent
  of_host_for_event,  ///< cudaEventSynchronize
  of_host_for_stream  ///< cudaStreamSynchronize
};
/// Plants a fault: the calls of this kind do nothing, or only the call of this number, counted from 0 from now on.
/// nullopt: none is left out.
void leave_out(std::optional<Wait> kind, std::int64_t number = -1);

/// Plants a fault: the cudaMalloc of this number, counted from 0 from now on, finds no memory. nullopt: none. Returns
/// whether the one that was planted before has been met.
bool refuse_memory(std::optional<std::int64_t> number);

/// A model of the time that devices take, for tests of what overlaps: each stream has a clock, and so has each link to
/// the host in each direction and each pair of devices. Modelled, never measured; 0 costs nothing. Calls of the runtime
/// take no time but where they wait.
struct Rates {
  double kernel = 0;                       ///< seconds of a launch, beside what work() adds
  double to_device = 0, to_host = 0;       ///< bytes per second of a link to the host; its copies follow each other
  int link = 1;                            ///< neighbouring devices that share a link
  double peer = 0;                         ///< bytes per second between two devices
  double memory = 0;                       ///< bytes per second of a device's memory, for copies on the device
  std::function<double()> now;             ///< the clock of the host, in seconds
  std::function<void(double)> wait_until;  ///< sets it where the host waits
};
/// Restarts the clocks with these rates; nullopt: stops them.
void set_rates(const std::optional<Rates>& rates);
/// Adds the work of a kernel that was launched in this stream (a cudaStream_t) of the current device.
void work(void* stream, double seconds);
struct Interval {
  std::string what;  ///< the kernel, the call, or "work"
  int device, stream;
  double begin, end;
};
/// What the clocks have seen since they were restarted or asked last, in the order of the calls.
std::vector<Interval> take_intervals();

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
