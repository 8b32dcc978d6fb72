#include <tacit/base/error.hpp>
#include <tacit/exec/memory.hpp>
#include <tacit/exec/tasks.hpp>

#include <atomic>
#include <cstdlib>
#include <cstring>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace tacit::exec {
namespace {
constexpr std::size_t alignment = 128;
constexpr std::size_t huge = std::size_t(1) << 21;
}  // namespace

// What the caller gets lies behind a line that remembers where the block begins.
void* host_allocate(std::size_t bytes) {
  const bool large = bytes >= 2 * huge;
  // Vectors that all begin at the same place of a page meet in the same sets of the cache: each begins elsewhere.
  static std::atomic<unsigned> count{0};
  const std::size_t shift = alignment + (large ? count++ % 32 * 5 * alignment : 0);
  const std::size_t unit = large ? huge : alignment, whole = (bytes + shift + unit - 1) / unit * unit;
  char* const block = whole < bytes ? nullptr : static_cast<char*>(std::aligned_alloc(unit, whole));
  if (!block) throw Error(ErrorKind::environment, message("out of memory: ", bytes, " bytes were asked for"));
#ifdef MADV_HUGEPAGE
  // With small pages the translation of addresses limits what one core can read (measured: 21 instead of 33 GB/s).
  if (large) madvise(block, whole, MADV_HUGEPAGE);
#endif
  char* const p = block + shift;
  std::memcpy(p - sizeof block, &block, sizeof block);
  // Pages land where the thread that first writes them runs; sweeps use the same static split.
  constexpr std::size_t page = 1 << 16;
  const std::size_t pages = (bytes + page - 1) / page;
#pragma omp parallel for schedule(static) if (pages > 16)
  for (std::size_t i = 0; i < pages; ++i) std::memset(p + i * page, 0, i + 1 < pages ? page : bytes - i * page);
  return p;
}

void host_free(void* p) noexcept {
  if (!p) return;
  settle();  // tasks may be at work on it
  void* block;
  std::memcpy(&block, static_cast<char*>(p) - sizeof block, sizeof block);
  std::free(block);
}

}  // namespace tacit::exec
