// Times on the device.
#pragma once

#include <tacit/exec/cuda.hpp>

#include <algorithm>
#include <functional>
#include <vector>

namespace tacit::device {

inline bool quick = false;  // --quick: small problems, few calls
inline bool dry = false;    // --dry: smaller still and one call, for kernels that the processor runs; nothing is timed

/// Median seconds of one call on the device.
inline double time_of(const std::function<void()>& call, int most = 30) {
  cudaEvent_t begin, end;
  exec::check_cuda(cudaEventCreate(&begin), "cudaEventCreate");
  exec::check_cuda(cudaEventCreate(&end), "cudaEventCreate");
  for (int i = 0; i < (dry ? 1 : 3); ++i) call();
  std::vector<double> seconds;
  for (int i = 0; i < (dry ? 1 : quick ? 5 : most); ++i) {
    exec::check_cuda(cudaEventRecord(begin), "cudaEventRecord");
    call();
    exec::check_cuda(cudaEventRecord(end), "cudaEventRecord");
    exec::check_cuda(cudaEventSynchronize(end), "cudaEventSynchronize");
    float ms = 0;
    exec::check_cuda(cudaEventElapsedTime(&ms, begin, end), "cudaEventElapsedTime");
    seconds.push_back(1e-3 * ms);
  }
  exec::check_cuda(cudaEventDestroy(begin), "cudaEventDestroy");
  exec::check_cuda(cudaEventDestroy(end), "cudaEventDestroy");
  std::nth_element(seconds.begin(), seconds.begin() + seconds.size() / 2, seconds.end());
  return seconds[seconds.size() / 2];
}

}  // namespace tacit::device
