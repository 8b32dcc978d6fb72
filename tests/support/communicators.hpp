// Runs a test body on every kind of communicator: self, threads of this process, or, under mpiexec, MPI processes.
#pragma once

#include <tacit/comm/communicator.hpp>

#include <cstdlib>
#include <functional>
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
/// once, on all its ranks. Exceptions of f propagate.
inline void on_ranks(const std::function<void(const comm::Communicator&)>& f,
                     const std::vector<int>& sizes = {TACIT_TEST_RANKS}) {
  if (under_mpi()) return f(comm::mpi_world());
  f(comm::Communicator::self());
  for (int n : sizes)
    if (n >= TACIT_TEST_FEWEST_THREADS) comm::run_threads(n, f);
}

}  // namespace tacit::test
