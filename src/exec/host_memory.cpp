#include <tacit/base/error.hpp>
#include <tacit/exec/memory.hpp>

#include <cstdlib>
#include <cstring>

namespace tacit::exec {

void* host_allocate(std::size_t bytes) {
  constexpr std::size_t alignment = 128;
  void* p = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (!p) throw Error(ErrorKind::environment, message("out of memory: ", bytes, " bytes were asked for"));
  // Pages land where the thread that first writes them runs; sweeps use the same static split.
  constexpr std::size_t page = 1 << 16;
  const std::size_t pages = (bytes + page - 1) / page;
#pragma omp parallel for schedule(static) if (pages > 16)
  for (std::size_t i = 0; i < pages; ++i)
    std::memset(static_cast<char*>(p) + i * page, 0, i + 1 < pages ? page : bytes - i * page);
  return p;
}

void host_free(void* p) noexcept { std::free(p); }

}  // namespace tacit::exec
