// Repeat: CUDA graphs of what a stream is given.
#include <tacit/exec/cuda.hpp>
#include <tacit/exec/gpus.hpp>
#include "exec/repeat.hpp"

#include <optional>

namespace tacit::exec {

struct Repeat::Impl {
  enum class State { first, second, recorded, impossible } state = State::first;
  int gpu = 0;
  cudaStream_t stream = nullptr;  // the legacy default stream cannot be recorded
  cudaGraphExec_t graph = nullptr;
  std::optional<StreamScope> scope;

  void destroy() noexcept {
    if (!stream && !graph) return;
    int before = gpu;
    cudaGetDevice(&before);
    if (before != gpu) cudaSetDevice(gpu);
    if (graph) cudaGraphExecDestroy(graph);
    destroy_stream(stream);
    return_to_gpu(before);
    stream = nullptr, graph = nullptr;
  }
  ~Impl() { destroy(); }
};

Repeat::Repeat() : impl_(std::make_unique<Impl>()) {}
Repeat::~Repeat() = default;

void Repeat::forget() {
  impl_->destroy();
  impl_->state = Impl::State::first;
}

bool Repeat::launch() {
  if (impl_->state != Impl::State::recorded) return false;
  check_cuda(cudaGraphLaunch(impl_->graph, current_stream()), "cudaGraphLaunch");
  return true;
}

bool Repeat::begin() {
  if (impl_->state == Impl::State::first) return impl_->state = Impl::State::second, false;
  if (impl_->state == Impl::State::impossible) return false;
  impl_->destroy();  // what an error in here has left
  check_cuda(cudaGetDevice(&impl_->gpu), "cudaGetDevice");
  check_cuda(cudaStreamCreateWithFlags(&impl_->stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  check_cuda(cudaStreamBeginCapture(impl_->stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  impl_->scope.emplace(impl_->stream);
  return true;
}

void Repeat::give_up(bool for_good) noexcept {
  impl_->scope.reset();
  cudaGraph_t graph = nullptr;
  cudaStreamEndCapture(impl_->stream, &graph);
  if (graph) cudaGraphDestroy(graph);
  cudaGetLastError();
  impl_->destroy();
  impl_->state = for_good ? Impl::State::impossible : Impl::State::first;
}

bool Repeat::end() {
  impl_->scope.reset();
  cudaGraph_t graph = nullptr;
  const bool made = cudaStreamEndCapture(impl_->stream, &graph) == cudaSuccess &&
                    cudaGraphInstantiate(&impl_->graph, graph, 0) == cudaSuccess;
  if (graph) cudaGraphDestroy(graph);
  if (!made) cudaGetLastError();
  impl_->state = made ? Impl::State::recorded : Impl::State::impossible;
  return made;
}

}  // namespace tacit::exec
