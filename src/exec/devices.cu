// The queues of a group of CUDA devices.
#include <tacit/exec/cuda.hpp>
#include <tacit/exec/devices.hpp>

#include <algorithm>

namespace tacit::exec {

int device_count() noexcept {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();
  return 0;
}

namespace detail {

struct Queues<Device>::Impl {
  struct Queue {
    int id;
    cudaStream_t stream = nullptr, aside = nullptr;
    cudaEvent_t reached = nullptr;
  };
  std::vector<Queue> queues;
  void* staging = nullptr;
  std::size_t staging_bytes = 0;

  ~Impl() {
    // Errors are ignored: the CUDA runtime may have been unloaded before.
    int before = 0;
    cudaGetDevice(&before);
    for (const Queue& q : queues) {
      cudaSetDevice(q.id);
      if (q.stream) cudaStreamSynchronize(q.stream), cudaStreamDestroy(q.stream);
      if (q.aside) cudaStreamSynchronize(q.aside), cudaStreamDestroy(q.aside);
      if (q.reached) cudaEventDestroy(q.reached);
    }
    cudaFreeHost(staging);
    cudaSetDevice(before);
  }
};

Queues<Device>::Use::Use(int id, void* stream) : id_before_(0), stream_before_(current_stream()) {
  check_cuda(cudaGetDevice(&id_before_), "cudaGetDevice");
  check_cuda(cudaSetDevice(id), "cudaSetDevice");
  set_current_stream(static_cast<cudaStream_t>(stream));
}
Queues<Device>::Use::~Use() {
  set_current_stream(static_cast<cudaStream_t>(stream_before_));
  cudaSetDevice(id_before_);
}

Queues<Device>::Queues(const std::vector<int>& ids) : impl_(std::make_unique<Impl>()) {
  int there = 0, before = 0;
  check_cuda(cudaGetDeviceCount(&there), "cudaGetDeviceCount");
  check_cuda(cudaGetDevice(&before), "cudaGetDevice");
  for (const int id : ids) {
    if (id < 0 || id >= there) throw Error(ErrorKind::environment, message("CUDA device ", id, " of ", there));
    check_cuda(cudaSetDevice(id), "cudaSetDevice");
    auto& q = impl_->queues.emplace_back(Impl::Queue{id});
    check_cuda(cudaStreamCreateWithFlags(&q.stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    check_cuda(cudaStreamCreateWithFlags(&q.aside, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    check_cuda(cudaEventCreateWithFlags(&q.reached, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    for (const int other : ids) {
      int direct = 0;
      if (other != id) check_cuda(cudaDeviceCanAccessPeer(&direct, id, other), "cudaDeviceCanAccessPeer");
      if (!direct) continue;
      const cudaError_t code = cudaDeviceEnablePeerAccess(other, 0);
      if (code == cudaErrorPeerAccessAlreadyEnabled) cudaGetLastError();
      else check_cuda(code, "cudaDeviceEnablePeerAccess");
    }
  }
  check_cuda(cudaSetDevice(before), "cudaSetDevice");
}
Queues<Device>::~Queues() = default;

Queues<Device>::Use Queues<Device>::use(int device) const {
  const auto& q = impl_->queues[std::size_t(device)];
  return {q.id, q.stream};
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
  const auto& q = impl_->queues[std::size_t(device)];
  check_cuda(cudaEventRecord(q.reached, q.stream), "cudaEventRecord");
  check_cuda(cudaStreamWaitEvent(q.aside, q.reached, 0), "cudaStreamWaitEvent");
  check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, q.aside), "cudaMemcpyAsync to host");
}

void Queues<Device>::wait_aside(int device) const {
  check_cuda(cudaStreamSynchronize(impl_->queues[std::size_t(device)].aside), "cudaStreamSynchronize");
}

void Queues<Device>::between(int from_device, int to_device, void* to, const void* from, std::size_t bytes, bool peer) {
  auto &source = impl_->queues[std::size_t(from_device)], &target = impl_->queues[std::size_t(to_device)];
  {
    const auto on = use(from_device);
    check_cuda(cudaEventRecord(source.reached, source.stream), "cudaEventRecord");
  }
  const auto on = use(to_device);
  check_cuda(cudaStreamWaitEvent(target.stream, source.reached, 0), "cudaStreamWaitEvent");
  if (peer)
    check_cuda(cudaMemcpyPeerAsync(to, target.id, from, source.id, bytes, target.stream), "cudaMemcpyPeerAsync");
  else
    check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, target.stream), "cudaMemcpyAsync between devices");
  // The source's later work may overwrite what is being read, so it waits.
  check_cuda(cudaEventRecord(target.reached, target.stream), "cudaEventRecord");
  const auto back = use(from_device);
  check_cuda(cudaStreamWaitEvent(source.stream, target.reached, 0), "cudaStreamWaitEvent");
}

void Queues<Device>::wait(int device) const {
  check_cuda(cudaStreamSynchronize(impl_->queues[std::size_t(device)].stream), "cudaStreamSynchronize");
}

std::byte* Queues<Device>::staging(std::size_t bytes) {
  if (impl_->staging_bytes < bytes) {
    for (std::size_t d = 0; d < impl_->queues.size(); ++d) wait(int(d));
    check_cuda(cudaFreeHost(std::exchange(impl_->staging, nullptr)), "cudaFreeHost");
    impl_->staging_bytes = 0;
    check_cuda(cudaMallocHost(&impl_->staging, bytes), "cudaMallocHost");
    impl_->staging_bytes = bytes;
  }
  return static_cast<std::byte*>(impl_->staging);
}

}  // namespace detail
}  // namespace tacit::exec
