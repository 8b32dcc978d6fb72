// Streams and events: queues of operations that work when the host waits for them, or by the seed's choice before.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

namespace cuda_on_host {

struct Stream;
using StreamPointer = std::shared_ptr<Stream>;

/// The first `count` operations of a stream.
struct Until {
  StreamPointer stream;
  std::uint64_t count = 0;
};

struct Work {
  const char* what;  ///< lives as long as the process
  std::function<void()> run;
  std::vector<Until> after = {};  ///< operations of other streams that come first
  bool is_kernel = false;
};

struct Stream {
  int device = 0;
  bool is_default = false, with_default = false;  ///< with_default: ordered with the device's default stream
  std::uint64_t enqueued = 0, done = 0;
  std::deque<Work> pending;
  int number = 0;                               ///< in the order of creation; 0: default streams
  double time = 0;                              ///< on the modelled clock: the end of what was enqueued
  std::shared_ptr<std::vector<Work>> recorded;  ///< where the stream is being captured: what it is given
  bool spoilt = false;                          ///< the capture has failed, and only its end is accepted
};

struct Event {
  int device = 0;
  bool timed = false;
  bool recorded = false;
  Until until;                       ///< of the last record
  double time = 0;                   ///< of that record on the modelled clock
  std::shared_ptr<double> finished;  ///< seconds, where that record has been reached
  int queries = 0;                   ///< since that record
};

/// Of this thread.
int current_device();

namespace streams {

StreamPointer create(int device, unsigned flags);
/// nullptr: the default stream of the device. Empty where the stream was destroyed.
StreamPointer find(cudaStream_t stream, int device);
bool destroy(cudaStream_t stream);
cudaStream_t handle(const StreamPointer& stream);
std::vector<StreamPointer> all();

void enqueue(const StreamPointer& stream, Work work);
/// Carries out the stream's first operations, and what they have to come after.
void work_until(const Until& until);
void work_on_all();
/// At times an operation of any stream, as the seed has it.
void work_ahead();

void set_seed(std::uint64_t seed);
std::uint64_t next_random();  ///< 0 with the seed 0
void forget();

}  // namespace streams
}  // namespace cuda_on_host
