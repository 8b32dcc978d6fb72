// The memory that this process may still use, and the error where it does not suffice.
#pragma once

#include <tacit/base/control_groups.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tacit {

/// A limit of the memory of this process.
struct MemoryLimit {
  std::string name;              ///< as in a message: "memory of the machine", "control group /sys/fs/cgroup/job", ..
  std::size_t bytes = SIZE_MAX;  ///< the limit
  std::size_t free = SIZE_MAX;   ///< what is left of it; pages that only cache files count as free
};

/// The limits that the system reports: the machine's memory (with swap), control groups (containers, batch systems) and
/// the limits of address space and of data of this process (ulimit -v, -d). Reads some small files: about 0.1 ms.
/// Local.
std::vector<MemoryLimit> memory_limits(const ControlGroupFiles& groups = {});

/// The limit with the least free memory; SIZE_MAX bytes where the system reports none. Local.
MemoryLimit least_memory_limit();

/// The bytes of the smallest limit, SIZE_MAX where the system reports none: what this process can use in all. Local.
std::size_t total_memory();

/// Throws Error(memory) where `bytes` exceed what is free: a system that overcommits would end the process when it
/// writes to them. Local.
void require_memory(std::size_t bytes);

/// Throws Error(memory): how many bytes were asked for, how many are free, and which limit that is. Local.
[[noreturn]] void throw_out_of_memory(std::size_t bytes);

/// The text of that error where the number of bytes is not known (std::bad_alloc).
std::string out_of_memory();

}  // namespace tacit
