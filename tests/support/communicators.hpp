// Runs a test body on every kind of communicator: self, threads of this process, or, under mpiexec, MPI processes.
#pragma once

#include <tacit/comm/communicator.hpp>
#ifdef TACIT_TEST_MEMORY
#include <tacit/exec/gpus.hpp>
#endif

#include <cstdlib>
#include <functional>
#include <optional>
#include <vector>

// On how many threads a test runs that does not say: two have one neighbour, of five some have one on each side, and
// they are more than the processors of most machines; three run under mpiexec. The tests of communication itself have
// others (comm/CMakeLists.txt).
#ifndef TACIT_TEST_RANKS
#define TACIT_TEST_RANKS 2, 5
#define TACIT_TEST_FEWEST_THREADS 2  // one thread is as the process by itself
#else
#define TACIT_TEST_FEWEST_THREADS 1
#endif

namespace tacit::test {

inline bool under_mpi() {
  return std::getenv("TACIT_TEST_MPI") != nullptr;
}

/// Calls f(communicator) on one rank, then on `sizes` ranks each, as threads, where they are two or more; under mpiexec
/// once, on all its ranks. In the program of device memory, rank r works on device r modulo their number. Exceptions of
/// f propagate.
inline void on_ranks(const std::function<void(const comm::Communicator&)>& f,
                     const std::vector<int>& sizes = {TACIT_TEST_RANKS}) {
  const auto on_its_device = [&](const comm::Communicator& comm) {
#ifdef TACIT_TEST_MEMORY
    const int devices = exec::gpu_count();
    std::optional<exec::UseGpu> use;
    if (devices > 1) use.emplace(comm.rank() % devices);
#endif
    f(comm);
  };
  if (under_mpi()) return on_its_device(comm::mpi_world());
  on_its_device(comm::Communicator::self());
  for (int n : sizes)
    if (n >= TACIT_TEST_FEWEST_THREADS) comm::run_threads(n, on_its_device);
}

}  // namespace tacit::test
