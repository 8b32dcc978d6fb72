// Shared by all code that calls MPI: the check of error codes, the process' lock, buffers that MPI may still read.
#pragma once

#include <mpi.h>

#include <tacit/comm/transport.hpp>

#include <memory>
#include <vector>

namespace tacit::comm::mpi {

inline void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) [[likely]]
    return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw Error(ErrorKind::environment, message(call, " failed: ", text));
}

inline bool finalized() {
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

// Buffers of abandoned sends, which MPI may read until it is finalised.
inline std::vector<std::shared_ptr<void>>& kept() {
  static auto* buffers = new std::vector<std::shared_ptr<void>>;
  return *buffers;
}

}  // namespace tacit::comm::mpi
