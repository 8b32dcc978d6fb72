// launch: a team kernel in either memory space.
#pragma once

#include <tacit/exec/team.hpp>

#ifdef __CUDACC__
#include <tacit/exec/cuda.hpp>
#endif

#include <concepts>

namespace tacit::exec {

/// Runs the kernel, whose pointers are to memory space M, on blocks [0, blocks). In host memory one thread executes a
/// team, or with `race_check` a real thread each member (launch_threads: slow), and all have returned when this does.
/// In device memory the kernel is queued on current_stream() of the current device; this does not wait. Does nothing
/// for no blocks. Error(environment) when CUDA refuses the launch. For device memory in files that nvcc compiles.
template <Memory M, class Kernel>
void launch(Global blocks, const Kernel& kernel, [[maybe_unused]] bool race_check = false) {
  if (blocks == 0) return;
  if constexpr (std::same_as<M, Host>) {
    if (race_check) launch_threads(blocks, kernel);
    else launch_serial(blocks, kernel);
  } else {
#ifdef __CUDACC__
    launch_cuda(blocks, kernel);
#else
    static_assert(std::same_as<M, Host>, "kernels in device memory are compiled by nvcc");
#endif
  }
}

}  // namespace tacit::exec
