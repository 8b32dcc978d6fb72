// The calls of the runtime. Each holds one lock, so that threads of the host may call as they like; streams work within
// calls only.
#include "block.hpp"
#include "clock.hpp"
#include "fault.hpp"
#include "memory.hpp"
#include "streams.hpp"

#include <cuda_runtime.h>
#include <cuda_runtime_api.h>
#include <cuda_on_host.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>

namespace cuda_on_host {
namespace {

constexpr int processors = 3, threads_of_processor = 2048, most_threads = 1024;
constexpr std::size_t shared_of_processor = 228 * 1024, most_shared = 227 * 1024, shared_without_asking = 48 * 1024,
                      most_arguments = 32764;

struct State {
  std::recursive_mutex mutex;
  Counts counts;
  int devices = std::max(1, std::getenv("CUDA_ON_HOST_DEVICES") ? std::atoi(std::getenv("CUDA_ON_HOST_DEVICES")) : 1);
  std::map<const void*, std::size_t> dynamic_limit;  // by kernel
  std::set<Event*> events;
  std::set<int> contexts;
  std::optional<Wait> left_out;
  std::int64_t left_out_number = -1, waits_of_kind = 0;
  std::optional<std::int64_t> refused;  // allocations until one finds no memory
  bool has_refused = false;
};
State& state() {
  static State* const one = new State;  // never destroyed: calls are made while the process ends
  return *one;
}
thread_local int device_of_thread = 0;
thread_local cudaError_t last_error = cudaSuccess;
thread_local std::vector<StreamPointer> captures;  // streams that this thread captures

class Call {
 public:
  Call() : lock_(state().mutex) {
    state().contexts.insert(device_of_thread);
    streams::work_ahead();
  }
  ~Call() {
    // Under other orders results are looked at, and accesses of the host have been found under the seed 0: there it
    // closes seldom, because each array that is opened again costs two system calls and a signal.
    if (streams::next_random() % 64 == 0) memory::close();
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

 private:
  std::lock_guard<std::recursive_mutex> lock_;
};

cudaError_t failed(cudaError_t error) {
  return last_error = error;
}
// A call that is not permitted while a stream is captured ends the capture: nothing but its end is accepted from then
// on.
cudaError_t spoil(const StreamPointer& stream) {
  stream->spoilt = true;
  return failed(cudaErrorStreamCaptureUnsupported);
}
// The same of calls that may wait for the device, whatever they are of (cudaStreamCaptureModeThreadLocal).
cudaError_t spoil_captures() {
  for (const StreamPointer& stream : captures) stream->spoilt = true;
  return failed(cudaErrorStreamCaptureUnsupported);
}
bool is_device(int device) {
  return device >= 0 && device < state().devices;
}
double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool is_left_out(Wait kind) {
  State& s = state();
  if (s.left_out != kind) return false;
  const std::int64_t number = s.waits_of_kind++;
  return s.left_out_number < 0 || s.left_out_number == number;
}

Event* event_of(cudaEvent_t event) {
  auto* const one = reinterpret_cast<Event*>(event);
  return state().events.count(one) ? one : nullptr;
}

}  // namespace

Counts counts() {
  const std::lock_guard lock(state().mutex);
  Counts c = state().counts;
  c.live_bytes = std::int64_t(memory::used_bytes());
  const memory::Traffic traffic = memory::traffic();
  c.bytes_read = std::int64_t(traffic.read), c.bytes_written = std::int64_t(traffic.written);
  return c;
}
void watch_traffic(bool on) {
  const Call call;
  memory::watch(on);
}
std::vector<int> contexts() {
  const std::lock_guard lock(state().mutex);
  return {state().contexts.begin(), state().contexts.end()};
}
void set_devices(int count) {
  const Call call;
  streams::work_on_all();
  streams::forget();
  memory::forget_peers();
  state().devices = count;
  state().contexts.clear();
  device_of_thread = 0;
}
void set_seed(std::uint64_t seed) {
  const Call call;
  streams::work_on_all();
  streams::set_seed(seed);
}

void leave_out(std::optional<Wait> kind, std::int64_t number) {
  const std::lock_guard lock(state().mutex);
  state().left_out = kind, state().left_out_number = number, state().waits_of_kind = 0;
}
bool refuse_memory(std::optional<std::int64_t> number) {
  const std::lock_guard lock(state().mutex);
  state().refused = number;
  return std::exchange(state().has_refused, false);
}
void set_rates(const std::optional<Rates>& rates) {
  const Call call;
  streams::work_on_all();
  clock::restart(rates);
  for (Event* const event : state().events) event->time = 0;
}
int current_device() {
  return device_of_thread;
}

// ---- Launches ------------------------------------------------------------------------------------------------------

cudaError_t launch(const char*, const Launch& l, Kernel kernel) {
  const Call call;
  const auto stream = streams::find(l.stream, device_of_thread);
  if (!stream || stream->device != device_of_thread) return failed(cudaErrorInvalidResourceHandle);
  if (stream->spoilt) return failed(cudaErrorStreamCaptureInvalidated);
  const auto product = [](dim3 d) { return std::size_t(d.x) * d.y * d.z; };
  const std::size_t blocks = product(l.grid), threads = product(l.block);
  if (blocks == 0 || threads == 0 || threads > most_threads || l.block.z > 64 || l.grid.x > 0x7fffffffu ||
      l.grid.y > 65535 || l.grid.z > 65535)
    return failed(cudaErrorInvalidConfiguration);
  const auto limit = state().dynamic_limit.find(kernel.function);
  if (l.dynamic_bytes > (limit == state().dynamic_limit.end() ? shared_without_asking : limit->second))
    return failed(cudaErrorInvalidValue);
  std::size_t arguments = 0;
  for (const auto& a : kernel.arguments) arguments += a.size;
  if (arguments > most_arguments) return failed(cudaErrorInvalidValue);
  if (l.cooperative && blocks > std::size_t(processors) *
                                    std::size_t(blocks_per_processor(kernel.function, int(threads), l.dynamic_bytes)))
    return failed(cudaErrorCooperativeLaunchTooLarge);

  const std::string& name = name_of_kernel(*kernel.name);
  for (const auto& a : kernel.arguments) memory::check_argument(a.bytes, a.size, device_of_thread, name);
  state().counts.launches += !stream->recorded;
  streams::enqueue(
      stream, {name.c_str(),
               [l, &name, thread = std::move(kernel.thread)] { run_grid(l, name, thread, streams::next_random()); },
               {},
               true});
  clock::launched(*stream, name.c_str());
  return cudaSuccess;
}

cudaError_t allow_dynamic_shared(const void* function, cudaFuncAttribute attribute, int bytes) {
  const Call call;
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || bytes < 0 || std::size_t(bytes) > most_shared)
    return failed(cudaErrorInvalidValue);
  state().dynamic_limit[function] = std::size_t(bytes);
  return cudaSuccess;
}

int blocks_per_processor(const void*, int threads, std::size_t dynamic_bytes) {
  // Static shared memory is not known before a kernel has run; two blocks of the most of it fit.
  const int by_threads = threads_of_processor / threads;
  const int by_shared = dynamic_bytes == 0 ? 2 : int(shared_of_processor / (dynamic_bytes + 1024));
  return std::min({by_threads, by_shared, 2});
}

}  // namespace cuda_on_host

using namespace cuda_on_host;

// ---- Errors and devices --------------------------------------------------------------------------------------------

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorInvalidResourceHandle:
      return "cudaErrorInvalidResourceHandle";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    case cudaErrorPeerAccessAlreadyEnabled:
      return "cudaErrorPeerAccessAlreadyEnabled";
    case cudaErrorPeerAccessUnsupported:
      return "cudaErrorPeerAccessUnsupported";
    case cudaErrorCooperativeLaunchTooLarge:
      return "cudaErrorCooperativeLaunchTooLarge";
    case cudaErrorStreamCaptureUnsupported:
      return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated:
      return "cudaErrorStreamCaptureInvalidated";
  }
  return "unrecognized error code";
}
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorPeerAccessAlreadyEnabled:
      return "peer access is already enabled";
    case cudaErrorPeerAccessUnsupported:
      return "peer access is not supported between these two devices";
    case cudaErrorCooperativeLaunchTooLarge:
      return "too many blocks in cooperative launch";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
      return "operation failed due to a previous error during capture";
  }
  return "unrecognized error code";
}
cudaError_t cudaGetLastError() {
  return std::exchange(last_error, cudaSuccess);
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = state().devices;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = device_of_thread;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (!is_device(device)) return failed(cudaErrorInvalidDevice);
  device_of_thread = device;
  const std::lock_guard lock(state().mutex);
  state().contexts.insert(device);  // since CUDA 12
  return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* found) {
  using GetState = int (*)(int, unsigned*, int*);
  constexpr GetState state_of = [](int device, unsigned* flags, int* active) {
    const std::lock_guard lock(state().mutex);
    return *flags = 0, *active = int(state().contexts.count(device)), 0;
  };
  const bool known = std::string(symbol) == "cuDevicePrimaryCtxGetState";
  *function = known ? reinterpret_cast<void*>(state_of) : nullptr;
  *found = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (!is_device(device)) return failed(cudaErrorInvalidDevice);
  *properties = {"processor of the host (tests/cuda_on_host)", memory::total_bytes(), 9, 0, processors, 50 << 20};
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (!is_device(device)) return failed(cudaErrorInvalidDevice);
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      *value = most_threads;
      return cudaSuccess;
    case cudaDevAttrClockRate:
      *value = 1'000'000;
      return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
      *value = processors;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      *value = 9;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = 0;
      return cudaSuccess;
    case cudaDevAttrCooperativeLaunch:
      *value = 1;
      return cudaSuccess;
  }
  return failed(cudaErrorInvalidValue);
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  if (!is_device(device) || !is_device(peer)) return failed(cudaErrorInvalidDevice);
  *can = device != peer;
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  const Call call;
  if (!is_device(peer)) return failed(cudaErrorInvalidDevice);
  if (flags != 0) return failed(cudaErrorInvalidValue);
  if (peer == device_of_thread) return failed(cudaErrorInvalidDevice);
  if (memory::is_peer(device_of_thread, peer)) return failed(cudaErrorPeerAccessAlreadyEnabled);
  memory::set_peer(device_of_thread, peer, true);
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  const Call call;
  if (!captures.empty()) return spoil_captures();
  ++state().counts.waits;
  streams::work_on_all();
  for (const auto& stream : streams::all()) clock::host_waits(stream->time);
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  return *version = 13000, cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  return *version = 13000, cudaSuccess;
}

// ---- Memory --------------------------------------------------------------------------------------------------------

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  const Call call;
  *memory = nullptr;
  if (bytes == 0) return cudaSuccess;
  if (!captures.empty()) return spoil_captures();
  if (auto& left = state().refused; left && (*left)-- == 0) {
    left.reset();
    state().has_refused = true;
    return failed(cudaErrorMemoryAllocation);
  }
  *memory = memory::allocate(device_of_thread, bytes);
  if (!*memory) return failed(cudaErrorMemoryAllocation);
  ++state().counts.allocations;
  return cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  if (!memory) return cudaSuccess;
  const Call call;
  if (!captures.empty()) return spoil_captures();
  streams::work_on_all();  // as CUDA's, which waits for the device
  if (memory::release(memory)) return cudaSuccess;
  fault("cudaFree of " +
        std::string(memory::find(memory).freed ? "what was freed before" : "no allocation's beginning"));
  return failed(cudaErrorInvalidValue);
}
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned) {
  const Call call;
  *memory = nullptr;
  if (bytes == 0) return cudaSuccess;
  if (!captures.empty()) return spoil_captures();
  *memory = memory::allocate_pinned(bytes);
  if (!*memory) return failed(cudaErrorMemoryAllocation);
  ++state().counts.host_allocations;
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** memory, std::size_t bytes) {
  return cudaHostAlloc(memory, bytes, cudaHostAllocDefault);
}
cudaError_t cudaFreeHost(void* memory) {
  if (!memory) return cudaSuccess;
  const Call call;
  if (!captures.empty()) return spoil_captures();
  streams::work_on_all();
  if (memory::release_pinned(memory)) return cudaSuccess;
  fault("cudaFreeHost of what cudaHostAlloc has not given, or of what was freed before");
  return failed(cudaErrorInvalidValue);
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  const Call call;
  const memory::Place place = memory::find(address);
  const bool nowhere =
      place.kind == memory::Kind::pageable || (place.kind == memory::Kind::device && place.beyond == 0);
  *attributes = {nowhere                              ? cudaMemoryTypeUnregistered
                 : place.kind == memory::Kind::pinned ? cudaMemoryTypeHost
                                                      : cudaMemoryTypeDevice,
                 place.device};
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const Call call;
  *total = memory::total_bytes();
  *free = *total - memory::used_bytes(device_of_thread);
  return cudaSuccess;
}

// ---- Copies --------------------------------------------------------------------------------------------------------

namespace {

using memory::Kind;

// Whether the bytes lie within one allocation of device or pinned memory; a fault where not.
bool is_within(const char* call, const char* side, const void* p, std::size_t bytes) {
  const memory::Place place = memory::find(p);
  if (place.kind == Kind::pageable || bytes <= place.beyond) return true;
  fault(std::string(call) + ": the " + side + " of " + std::to_string(bytes) + " bytes is " +
        (place.freed         ? "memory that was freed"
         : place.beyond == 0 ? "no allocation"
                             : std::to_string(bytes - place.beyond) + " bytes longer than its allocation"));
  return false;
}

cudaError_t copy(const char* call, void* to, const void* from, std::size_t bytes, cudaStream_t s) {
  const auto stream = streams::find(s, device_of_thread);
  if (!stream) return failed(cudaErrorInvalidResourceHandle);
  if (stream->spoilt) return failed(cudaErrorStreamCaptureInvalidated);
  if (!is_within(call, "target", to, bytes) || !is_within(call, "source", from, bytes))
    return failed(cudaErrorInvalidValue);
  const memory::Place target = memory::find(to), source = memory::find(from);
  Counts& c = state().counts;
  const bool to_device = target.kind == Kind::device, from_device = source.kind == Kind::device;
  if (to_device && from_device && target.device != source.device) {
    ++c.copies_between_devices, c.bytes_between_devices += std::int64_t(bytes);
  } else if (to_device && from_device) {
    ++c.copies_on_device, c.bytes_on_device += std::int64_t(bytes);
  } else if (to_device) {
    ++c.copies_to_device, c.bytes_to_device += std::int64_t(bytes);
  } else if (from_device) {
    ++c.copies_to_host, c.bytes_to_host += std::int64_t(bytes);
  }
  if (stream->recorded && (source.kind == Kind::pageable || target.kind == Kind::pageable)) return spoil(stream);
  std::function<void()> run;
  if (source.kind == Kind::pageable) {
    // CUDA reads pageable memory before it returns, and writes later.
    const auto* const begin = static_cast<const unsigned char*>(from);
    run = [to, staged = std::vector<unsigned char>(begin, begin + bytes)] {
      std::memcpy(to, staged.data(), staged.size());
    };
  } else {
    run = [=] { std::memmove(to, from, bytes); };
  }
  streams::enqueue(stream, {call, std::move(run)});
  clock::copied(*stream, call, target, source, bytes);
  if (target.kind == Kind::pageable) streams::work_until({stream, stream->enqueued});
  return cudaSuccess;
}

}  // namespace

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  const Call call;
  if (bytes == 0) return cudaSuccess;
  if (!to || !from) return failed(cudaErrorInvalidValue);
  const bool to_device = memory::find(to).kind == Kind::device, from_device = memory::find(from).kind == Kind::device;
  const bool as_said = kind == cudaMemcpyDefault ||
                       (to_device == (kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice) &&
                        from_device == (kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice));
  if (!as_said) {
    fault(std::string("cudaMemcpyAsync from ") + (from_device ? "device" : "host") + " to " +
          (to_device ? "device" : "host") + " memory with another cudaMemcpyKind");
    return failed(cudaErrorInvalidValue);
  }
  return copy("cudaMemcpyAsync", to, from, bytes, stream);
}
cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, std::size_t bytes,
                                cudaStream_t stream) {
  const Call call;
  if (!is_device(to_device) || !is_device(from_device)) return failed(cudaErrorInvalidDevice);
  if (bytes == 0) return cudaSuccess;
  const memory::Place target = memory::find(to), source = memory::find(from);
  if (target.kind != Kind::device || source.kind != Kind::device || target.device != to_device ||
      source.device != from_device) {
    fault("cudaMemcpyPeerAsync of memory that is not on the devices that are named");
    return failed(cudaErrorInvalidValue);
  }
  return copy("cudaMemcpyPeerAsync", to, from, bytes, stream);
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t s) {
  const Call call;
  if (bytes == 0) return cudaSuccess;
  const auto stream = streams::find(s, device_of_thread);
  if (!stream) return failed(cudaErrorInvalidResourceHandle);
  if (stream->spoilt) return failed(cudaErrorStreamCaptureInvalidated);
  if (memory::find(to).kind == Kind::pageable) {
    fault("cudaMemsetAsync of host memory that is not pinned");
    return failed(cudaErrorInvalidValue);
  }
  if (!is_within("cudaMemsetAsync", "target", to, bytes)) return failed(cudaErrorInvalidValue);
  ++state().counts.fills, state().counts.bytes_filled += std::int64_t(bytes);
  streams::enqueue(stream, {"cudaMemsetAsync", [=] { std::memset(to, value, bytes); }});
  return cudaSuccess;
}

// ---- Streams and events --------------------------------------------------------------------------------------------

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  const Call call;
  *stream = streams::handle(streams::create(device_of_thread, flags));
  return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}
cudaError_t cudaStreamDestroy(cudaStream_t s) {
  const Call call;
  const auto stream = streams::find(s, device_of_thread);
  if (!s || !stream) return failed(cudaErrorInvalidResourceHandle);
  std::erase(captures, stream);
  streams::work_until({stream, stream->enqueued});
  streams::destroy(s);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t s) {
  const Call call;
  const auto stream = streams::find(s, device_of_thread);
  if (!stream) return failed(cudaErrorInvalidResourceHandle);
  if (stream->recorded) return spoil(stream);
  ++state().counts.waits;
  if (is_left_out(Wait::of_host_for_stream)) return cudaSuccess;
  streams::work_until({stream, stream->enqueued});
  clock::host_waits(stream->time);
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned) {
  const Call call;
  const auto stream = streams::find(s, device_of_thread);
  const Event* const event = event_of(e);
  if (!stream || !event) return failed(cudaErrorInvalidResourceHandle);
  ++state().counts.event_waits;
  if (!event->recorded || is_left_out(Wait::of_stream)) return cudaSuccess;
  streams::enqueue(stream, {"cudaStreamWaitEvent", [] {}, {event->until}});
  clock::follows(*stream, event->time);
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  const Call call;
  auto* const one = new Event;
  one->device = device_of_thread, one->timed = !(flags & cudaEventDisableTiming);
  state().events.insert(one);
  *event = reinterpret_cast<cudaEvent_t>(one);
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}
cudaError_t cudaEventDestroy(cudaEvent_t e) {
  const Call call;
  Event* const event = event_of(e);
  if (!event) return failed(cudaErrorInvalidResourceHandle);
  state().events.erase(event);
  delete event;  // streams that wait for it know what for
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
  const Call call;
  const auto stream = streams::find(s, device_of_thread);
  Event* const event = event_of(e);
  if (!stream || !event || event->device != stream->device) return failed(cudaErrorInvalidResourceHandle);
  if (stream->recorded) return spoil(stream);  // real ones can
  event->finished = std::make_shared<double>(-1);
  streams::enqueue(stream, {"cudaEventRecord", [finished = event->finished] { *finished = now(); }});
  event->recorded = true;
  event->until = {stream, stream->enqueued};
  event->time = stream->time;
  event->queries = 0;
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t e) {
  // A loop of queries ends although streams work when they are waited for: a device would have come to the event.
  constexpr int patience = 256;
  const Call call;
  Event* const event = event_of(e);
  if (!event) return failed(cudaErrorInvalidResourceHandle);
  if (!captures.empty()) return spoil_captures();
  if (!event->recorded) return cudaSuccess;
  const Until& until = event->until;
  if (clock::runs() ? clock::is_past(event->time) : ++event->queries > patience) streams::work_until(until);
  else if (clock::runs() || until.stream->done < until.count) return failed(cudaErrorNotReady);
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t e) {
  const Call call;
  const Event* const event = event_of(e);
  if (!event) return failed(cudaErrorInvalidResourceHandle);
  ++state().counts.waits;
  if (!event->recorded || is_left_out(Wait::of_host_for_event)) return cudaSuccess;
  state().counts.overlapped_waits += event->until.stream->enqueued > event->until.count;
  streams::work_until(event->until);
  clock::host_waits(event->time);
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  const Call call;
  const Event *const first = event_of(begin), *const last = event_of(end);
  if (!first || !last || !first->timed || !last->timed || !first->recorded || !last->recorded)
    return failed(cudaErrorInvalidResourceHandle);
  if (*first->finished < 0 || *last->finished < 0) return failed(cudaErrorNotReady);
  *milliseconds = float(1e3 * (*last->finished - *first->finished));
  return cudaSuccess;
}

// ---- Graphs: what one stream was given, in its order ----------------------------------------------------------------

namespace {
using Graph = std::vector<Work>;
Graph* graph_of(void* handle) {
  return static_cast<Graph*>(handle);
}
}  // namespace

cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode) {
  const Call call;
  const auto stream = s ? streams::find(s, device_of_thread) : nullptr;
  if (!stream || stream->recorded) return failed(cudaErrorStreamCaptureUnsupported);
  stream->recorded = std::make_shared<Graph>();
  captures.push_back(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t* graph) {
  const Call call;
  const auto stream = s ? streams::find(s, device_of_thread) : nullptr;
  *graph = nullptr;
  if (!stream || !stream->recorded) return failed(cudaErrorInvalidValue);
  const auto recorded = std::exchange(stream->recorded, nullptr);
  std::erase(captures, stream);
  if (std::exchange(stream->spoilt, false)) return failed(cudaErrorStreamCaptureInvalidated);
  *graph = reinterpret_cast<cudaGraph_t>(new Graph(std::move(*recorded)));
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  const Call call;
  *executable = reinterpret_cast<cudaGraphExec_t>(new Graph(*graph_of(graph)));
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t s) {
  const Call call;
  const auto stream = streams::find(s, device_of_thread);
  if (!stream || !executable) return failed(cudaErrorInvalidResourceHandle);
  if (stream->recorded) return spoil(stream);  // a graph within a graph: CUDA's documents promise nothing
  ++state().counts.launches, ++state().counts.graph_launches;
  for (const Work& work : *graph_of(executable)) streams::enqueue(stream, work);
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph_of(graph);
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete graph_of(executable);
  return cudaSuccess;
}

// ---- The end of the process ----------------------------------------------------------------------------------------

namespace {
// After the destructors of all static objects.
[[gnu::destructor]] void check_leaks() {
  const std::size_t bytes = memory::used_bytes();
  if (bytes > 0)
    fault("the process ends with " + std::to_string(bytes) + " bytes of device memory that were not freed");
}
}  // namespace
