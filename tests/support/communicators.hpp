// Runs a test body on every kind of communicator: self, threads of this process, or, under mpiexec, MPI processes.
#pragma once

#include <tacit/comm/communicator.hpp>

#include <cstdlib>
#include <functional>
#include <vector>

namespace tacit::test {

inline bool under_mpi() {
  return std::getenv("TACIT_TEST_MPI") != nullptr;
}

/// Calls f(communicator) on `sizes` ranks each, as threads; under mpiexec once, on all its ranks. Exceptions of f
/// propagate.
inline void on_ranks(const std::function<void(const comm::Communicator&)>& f,
                     const std::vector<int>& sizes = {1, 2, 3, 4, 5}) {
  if (under_mpi()) return f(comm::mpi_world());
  f(comm::Communicator::self());
  for (int n : sizes) comm::run_threads(n, f);
}

}  // namespace tacit::test
