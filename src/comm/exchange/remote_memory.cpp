#include "remote_memory.hpp"

#include <tacit/base/error.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>

#ifdef __linux__
#include <sys/uio.h>
#endif
#ifdef __unix__
#include <unistd.h>
#endif

namespace tacit::comm::detail {

std::int64_t this_process() {
#ifdef __unix__
  return getpid();
#else
  return 0;
#endif
}

void require_reading() {
#ifndef __linux__
  throw Error(ErrorKind::environment, "processes cannot read each other's memory on this system");
#endif
}

void read_memory(std::int64_t process, std::span<const Stretch> stretches, std::byte* into, std::size_t bytes,
                 int rank) {
#ifdef __linux__
  constexpr std::size_t most = 512, most_bytes = std::size_t(1) << 30;  // the limits of Linux are 1024 and 2 GiB
  std::size_t s = 0, skipped = 0;                                       // bytes of range s already read
  while (bytes > 0) {
    iovec there[most];
    std::size_t n = 0, asked = 0;
    for (std::size_t i = s, skip = skipped; i < stretches.size() && n < most && asked < most_bytes; ++i, skip = 0) {
      const std::size_t size = std::min(stretches[i].bytes - skip, most_bytes - asked);
      there[n++] = {reinterpret_cast<void*>(std::uintptr_t(stretches[i].address + skip)), size};
      asked += size;
    }
    const iovec here{into, asked};
    const auto got = process_vm_readv(pid_t(process), &here, 1, there, n, 0);
    if (got <= 0)
      throw Error(ErrorKind::environment,
                  message("the memory of rank ", rank, " (process ", process,
                          ") cannot be read: process_vm_readv: ", got < 0 ? std::strerror(errno) : "nothing came"));
    into += got;
    bytes -= std::size_t(got);
    for (std::size_t left = std::size_t(got); left > 0;) {
      const std::size_t rest = stretches[s].bytes - skipped;
      if (left < rest) {
        skipped += left;
        break;
      }
      left -= rest, skipped = 0, ++s;
    }
  }
#else
  (void)process, (void)stretches, (void)into, (void)bytes, (void)rank;
  require_reading();
#endif
}

}  // namespace tacit::comm::detail
