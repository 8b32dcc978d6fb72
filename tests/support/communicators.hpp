// Runs a test body on every kind of communicator: alone, as threads of this process, or, under mpiexec, as processes.
#pragma once

#include <tacit/comm/communicator.hpp>

#include <cstdlib>
#include <functional>
#include <initializer_list>

namespace tacit::test {

inline bool under_mpi() {
  return std::getenv("TACIT_TEST_MPI") != nullptr;
}

/// f(communicator) on `sizes` ranks each, as threads; under mpiexec once, on all its ranks. What f throws is thrown
/// here.
inline void on_ranks(const std::function<void(const comm::Communicator&)>& f,
                     std::initializer_list<int> sizes = {1, 2, 3, 4, 5}) {
  if (under_mpi()) return f(comm::mpi_world());
  f(comm::Communicator::self());
  for (int n : sizes) comm::run_threads(n, f);
}

}  // namespace tacit::test
