// Shared by all code that calls MPI: the check of error codes, the process' lock, buffers that MPI may still read.
#pragma once

#include <mpi.h>

#include <tacit/comm/transport.hpp>

#include <atomic>
#include <memory>
#include <vector>

#include <sys/types.h>
#include <unistd.h>

namespace tacit::comm::mpi {

inline void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) [[likely]]
    return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw Error(ErrorKind::environment, message(call, " failed: ", text));
}

// The process that loaded Tacit, or first used MPI. In the child of a fork() MPI's state is a copy, and its connections
// are the parent's.
inline std::atomic<pid_t> process = getpid();
inline bool forked() {
  return process.load(std::memory_order_relaxed) != getpid();
}

inline bool finalized() {
  if (forked()) return true;
  int flag = 0;
  MPI_Finalized(&flag);
  return flag;
}

// MPI is initialised with MPI_THREAD_SERIALIZED, so all communicators of the process share one lock.
inline const std::shared_ptr<TransportLock>& process_lock() {
  static const auto& lock =
      *new std::shared_ptr<TransportLock>(std::make_shared<TransportLock>());  // outlives all communicators
  return lock;
}
// To be called for each communicator that is made. From the second one on the lock is taken, as with a progress thread:
// threads may use one communicator each.
inline void count_communicator() {
  static std::atomic<int> made = 0;
  if (made.fetch_add(1) == 1) ++process_lock()->engines;
}

// Buffers of abandoned sends, which MPI may read until it is finalised.
inline std::vector<std::shared_ptr<void>>& kept() {
  static auto* buffers = new std::vector<std::shared_ptr<void>>;
  return *buffers;
}

}  // namespace tacit::comm::mpi
