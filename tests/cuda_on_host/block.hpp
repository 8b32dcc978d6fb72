// The threads of kernels, as fibers of one thread of the host.
#pragma once

#include <cuda_runtime.h>

#include <functional>
#include <string>

namespace cuda_on_host {

/// Runs the kernel on all blocks; blocks of a cooperative launch side by side, others one after another.
void run_grid(const Launch& launch, const std::string& name, const std::function<void()>& thread, std::uint64_t seed);

}  // namespace cuda_on_host
