// Reads the memory of another process of this node, where the system permits it (Linux, processes of one user).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tacit::comm::detail {

std::int64_t this_process();

// A range of another process' memory.
struct Stretch {
  std::uint64_t address;
  std::size_t bytes;
};

/// Error(environment) where the system has no such call.
void require_reading();
/// Copies ranges of the process of `rank`, one after the other, to `into`, which has room for `bytes`.
/// Error(environment) where the system refuses.
void read_memory(std::int64_t process, std::span<const Stretch> stretches, std::byte* into, std::size_t bytes,
                 int rank);

}  // namespace tacit::comm::detail
