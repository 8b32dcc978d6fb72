// The queues of a group of CUDA devices.
#include <tacit/base/virtual_clock.hpp>
#include <tacit/exec/cuda.hpp>
#include <tacit/exec/devices.hpp>
#include <tacit/exec/gpus.hpp>

#include <algorithm>
#include <utility>

namespace tacit::exec {

int device_count() noexcept {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();
  return 0;
}

namespace detail {

namespace {

/// An event of the current device, for the order of streams.
class Event {
 public:
  Event() { check_cuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreateWithFlags"); }
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&&) = delete;
  ~Event() {
    if (event_) cudaEventDestroy(event_);
  }
  void record(cudaStream_t stream) const { check_cuda(cudaEventRecord(event_, stream), "cudaEventRecord"); }
  void hold(cudaStream_t stream) const { check_cuda(cudaStreamWaitEvent(stream, event_, 0), "cudaStreamWaitEvent"); }
  void wait() const { check_cuda(cudaEventSynchronize(event_), "cudaEventSynchronize"); }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace

struct Queues<Device>::Impl {
  /// The place of a piece in page-locked memory, between the source's queue and the target's.
  struct Piece {
    void* memory;
    Event filled;                 // of the source
    Event emptied;                // of copies to this device
    const Event* last = nullptr;  // the event `emptied` of the target that read it
  };
  struct Queue {
    int id;
    cudaStream_t stream = nullptr, aside = nullptr;
    Event reached{}, host_read{}, left{};
    std::vector<Piece> pieces = {};
    void* pieces_memory = nullptr;
    int next = 0;
  };
  std::vector<std::unique_ptr<Queue>> queues;
  std::vector<std::vector<bool>> can_read;
  void* staging = nullptr;
  std::size_t staging_bytes = 0;

  ~Impl() {
    // Errors are ignored: the CUDA runtime may have been unloaded before.
    int before = 0;
    cudaGetDevice(&before);
    for (const auto& q : queues) {
      cudaSetDevice(q->id);
      for (const cudaStream_t s : {q->stream, q->aside})
        if (s) cudaStreamSynchronize(s);
    }
    for (const auto& q : queues) {
      cudaSetDevice(q->id);
      for (const cudaStream_t s : {q->stream, q->aside})
        if (s) destroy_stream(s);
      cudaFreeHost(q->pieces_memory);
    }
    cudaFreeHost(staging);
    return_to_gpu(before);
  }
};

Queues<Device>::Use::Use(int id, void* stream, VirtualClock* clock)
    : id_before_(0), stream_before_(current_stream()), host_(clock ? virtual_clock() : nullptr) {
  check_cuda(cudaGetDevice(&id_before_), "cudaGetDevice");
  check_cuda(cudaSetDevice(id), "cudaSetDevice");
  set_current_stream(static_cast<cudaStream_t>(stream));
  if (host_) Trace::use(clock);
}
Queues<Device>::Use::~Use() {
  if (host_) Trace::use(host_);
  set_current_stream(static_cast<cudaStream_t>(stream_before_));
  return_to_gpu(id_before_);
}

Queues<Device>::Queues(const std::vector<int>& ids) : impl_(std::make_unique<Impl>()) {
  int there = 0;
  check_cuda(cudaGetDeviceCount(&there), "cudaGetDeviceCount");
  for (const int id : ids)
    if (id < 0 || id >= there) throw Error(ErrorKind::environment, message("CUDA device ", id, " of ", there));
  for (const int id : ids) {
    const UseGpu on(id);
    auto& q = *impl_->queues.emplace_back(std::make_unique<Impl::Queue>(Impl::Queue{id}));
    check_cuda(cudaStreamCreateWithFlags(&q.stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    check_cuda(cudaStreamCreateWithFlags(&q.aside, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    auto& can_read = impl_->can_read.emplace_back();
    for (const int other : ids) {
      int direct = other == id;
      if (other != id) check_cuda(cudaDeviceCanAccessPeer(&direct, id, other), "cudaDeviceCanAccessPeer");
      can_read.push_back(direct);
      if (!direct || other == id) continue;
      const cudaError_t code = cudaDeviceEnablePeerAccess(other, 0);
      if (code == cudaErrorPeerAccessAlreadyEnabled) cudaGetLastError();
      else check_cuda(code, "cudaDeviceEnablePeerAccess");
    }
  }
}
Queues<Device>::~Queues() = default;

Queues<Device>::Use Queues<Device>::use(int device) const {
  const auto& q = *impl_->queues[std::size_t(device)];
  return {q.id, q.stream, clock};
}

void Queues<Device>::to_device(int device, void* to, const void* from, std::size_t bytes) {
  const auto on = use(device);
  check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, current_stream()), "cudaMemcpyAsync to device");
}

void Queues<Device>::to_host(int device, void* to, const void* from, std::size_t bytes) {
  const auto on = use(device);
  check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, current_stream()), "cudaMemcpyAsync to host");
}

void Queues<Device>::to_host_aside(int device, void* to, const void* from, std::size_t bytes) {
  const auto on = use(device);
  const auto& q = *impl_->queues[std::size_t(device)];
  q.left.record(q.stream);
  q.left.hold(q.aside);
  check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, q.aside), "cudaMemcpyAsync to host");
}

void Queues<Device>::wait_aside(int device) const {
  check_cuda(cudaStreamSynchronize(impl_->queues[std::size_t(device)]->aside), "cudaStreamSynchronize");
}

void Queues<Device>::mark(int device) const {
  const auto& q = *impl_->queues[std::size_t(device)];
  q.reached.record(q.stream);
}

void Queues<Device>::follow(int device, int marked) const {
  impl_->queues[std::size_t(marked)]->reached.hold(impl_->queues[std::size_t(device)]->stream);
}

void Queues<Device>::mark_host_read(int device) const {
  const auto& q = *impl_->queues[std::size_t(device)];
  q.host_read.record(q.stream);
}

void Queues<Device>::wait_host_read(int device) const {
  impl_->queues[std::size_t(device)]->host_read.wait();
}

void Queues<Device>::direct(int source, int target, void* to, const void* from, std::size_t bytes) {
  const auto on = use(target);
  const auto &s = *impl_->queues[std::size_t(source)], &t = *impl_->queues[std::size_t(target)];
  // Two places of a group may be the same device, which is no peer of its own.
  if (s.id == t.id) return copy_on_device(to, from, bytes);
  check_cuda(cudaMemcpyPeerAsync(to, t.id, from, s.id, bytes, t.stream), "cudaMemcpyPeerAsync");
}

void Queues<Device>::staged(int source, int target, void* to, const void* from, std::size_t bytes) {
  auto &s = *impl_->queues[std::size_t(source)], &t = *impl_->queues[std::size_t(target)];
  for (auto* const q : {&s, &t}) {
    if (!q->pieces.empty()) continue;
    const auto on = use(q == &s ? source : target);
    q->pieces_memory = pinned_allocate(pieces_of_device * piece_bytes);
    for (int k = 0; k < pieces_of_device; ++k)
      q->pieces.push_back({static_cast<std::byte*>(q->pieces_memory) + std::size_t(k) * piece_bytes, {}, {}});
  }
  {
    const auto on = use(source);
    s.left.record(s.stream);
    s.left.hold(s.aside);
  }
  for (std::size_t at = 0; at < bytes; at += piece_bytes) {
    const std::size_t some = std::min(piece_bytes, bytes - at);
    auto& piece = s.pieces[std::size_t(s.next)];
    const auto& emptied = t.pieces[std::size_t(s.next)].emptied;
    s.next = (s.next + 1) % pieces_of_device;
    {
      const auto on = use(source);
      if (piece.last) piece.last->hold(s.aside);
      check_cuda(cudaMemcpyAsync(piece.memory, static_cast<const std::byte*>(from) + at, some, cudaMemcpyDeviceToHost,
                                 s.aside),
                 "cudaMemcpyAsync of a piece to host");
      piece.filled.record(s.aside);
    }
    const auto on = use(target);
    piece.filled.hold(t.stream);
    check_cuda(cudaMemcpyAsync(static_cast<std::byte*>(to) + at, piece.memory, some, cudaMemcpyHostToDevice, t.stream),
               "cudaMemcpyAsync of a piece to device");
    emptied.record(t.stream);
    piece.last = &emptied;
  }
  const auto on = use(source);
  s.left.record(s.aside);
  s.left.hold(s.stream);  // before what was read is written again
}

bool Queues<Device>::can_read(int device, int owner) const {
  return impl_->can_read[std::size_t(device)][std::size_t(owner)];
}

void Queues<Device>::wait(int device) const {
  check_cuda(cudaStreamSynchronize(impl_->queues[std::size_t(device)]->stream), "cudaStreamSynchronize");
}

std::byte* Queues<Device>::staging(std::size_t bytes) {
  if (impl_->staging_bytes < bytes) {
    for (std::size_t d = 0; d < impl_->queues.size(); ++d) wait(int(d));
    pinned_free(std::exchange(impl_->staging, nullptr));
    impl_->staging_bytes = 0;
    impl_->staging = pinned_allocate(bytes);
    impl_->staging_bytes = bytes;
  }
  return static_cast<std::byte*>(impl_->staging);
}

void* pinned_allocate(std::size_t bytes) {
  void* p = nullptr;
  const cudaError_t code = cudaHostAlloc(&p, bytes, cudaHostAllocPortable);
  if (code != cudaSuccess) check_cuda(code, message("cudaHostAlloc of ", bytes, " bytes").c_str());
  return p;
}
void pinned_free(void* p) noexcept {
  cudaFreeHost(p);
}

}  // namespace detail
}  // namespace tacit::exec
