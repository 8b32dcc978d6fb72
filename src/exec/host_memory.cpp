#include <tacit/base/error.hpp>
#include <tacit/base/sanitizers.hpp>
#include <tacit/exec/idle.hpp>
#include <tacit/exec/memory.hpp>
#include <tacit/exec/tasks.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#ifdef __linux__
#include <sys/mman.h>
#include <unistd.h>
#endif
#if defined(TACIT_ADDRESS_SANITIZER)
#define TACIT_KEEPS_NOTHING
#endif

namespace tacit::exec {
namespace {
constexpr std::size_t alignment = 128;
constexpr std::size_t huge = std::size_t(1) << 21;

struct Block {
  char* begin;
  std::size_t bytes;
};

/// Keeps large freed blocks for later allocations of the same size: consecutive solves allocate equal vectors, and the
/// system clears new pages (measured: a third of the time of 120 iterations of gmres). At most a quarter of the memory
/// for each core.
class Kept {
 public:
  char* take(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    for (auto b = blocks_.rbegin(); b != blocks_.rend(); ++b)
      if (b->bytes == bytes) {
        char* const begin = b->begin;
        blocks_.erase(std::next(b).base());
        total_ -= bytes;
        return begin;
      }
    return nullptr;
  }
  bool keep(const Block& block) {
    const std::lock_guard lock(mutex_);
    if (total_ + block.bytes > limit() || blocks_.size() == blocks_.capacity()) return false;
    blocks_.push_back(block);
    total_ += block.bytes;
    return true;
  }
  void release() noexcept {
    const std::lock_guard lock(mutex_);
    for (const Block& b : blocks_) std::free(b.begin);
    blocks_.clear();
    total_ = 0;
  }
  static Kept& of_process() {
    static Kept* const kept = new Kept;  // outlives every vector
    return *kept;
  }

 private:
  Kept() { blocks_.reserve(4096); }  // keep() does not allocate
  static std::size_t limit() {
#if defined(__linux__) && !defined(TACIT_KEEPS_NOTHING)
    static const std::size_t bytes = std::size_t(std::max(0L, sysconf(_SC_PHYS_PAGES))) *
                                     std::size_t(std::max(0L, sysconf(_SC_PAGESIZE))) / 4 /
                                     std::max(1u, std::thread::hardware_concurrency());
    return bytes;
#else
    return 0;
#endif
  }
  std::mutex mutex_;
  std::vector<Block> blocks_;
  std::size_t total_ = 0;
};

/// f(offset, bytes) for pieces of an array. First touch: a page is placed near the thread that first writes it; loops
/// of one length are distributed alike.
template <class F>
void each_page(std::size_t bytes, const F& f) {
  constexpr std::size_t page = 1 << 16;
  const std::size_t pages = (bytes + page - 1) / page;
  parallel_for(pages, pages > 16, [=](std::size_t i) { f(i * page, i + 1 < pages ? page : bytes - i * page); });
}
}  // namespace

// The returned memory follows a cache line that stores the block's address and size.
void* host_allocate(std::size_t bytes, bool clear) {
  const bool large = bytes >= 2 * huge;
  // Vectors that begin at the same offset in a page would map to the same cache sets, so offsets are varied.
  static std::atomic<unsigned> count{0};
  const std::size_t shift = alignment + (large ? count++ % 32 * 5 * alignment : 0);
  const std::size_t unit = large ? huge : alignment, whole = (bytes + shift + unit - 1) / unit * unit;
  char* block = large && whole > bytes ? Kept::of_process().take(whole) : nullptr;
  const bool fresh = !block;
  if (fresh && whole > bytes) {
    block = static_cast<char*>(std::aligned_alloc(unit, whole));
    if (!block) Kept::of_process().release(), block = static_cast<char*>(std::aligned_alloc(unit, whole));
  }
  if (!block) throw Error(ErrorKind::environment, message("out of memory: ", bytes, " bytes were asked for"));
#ifdef MADV_HUGEPAGE
  // With small pages, TLB misses limit the bandwidth of one core (measured: 21 instead of 33 GB/s).
  if (large && fresh) madvise(block, whole, MADV_HUGEPAGE);
#endif
  char* const p = block + shift;
  const Block remembered{block, large ? whole : 0};
  std::memcpy(p - sizeof remembered, &remembered, sizeof remembered);
  if (clear) each_page(bytes, [=](std::size_t at, std::size_t some) { std::memset(p + at, 0, some); });
  return p;
}

void prefer_large_pages(void* p, std::size_t bytes) noexcept {
#ifdef MADV_HUGEPAGE
  if (bytes < 2 * huge) return;
  const auto first = (reinterpret_cast<std::uintptr_t>(p) + huge - 1) / huge * huge;
  const auto last = (reinterpret_cast<std::uintptr_t>(p) + bytes) / huge * huge;
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#else
  (void)p, (void)bytes;
#endif
}

void copy_by_threads(void* to, const void* from, std::size_t bytes) {
  each_page(bytes, [=](std::size_t at, std::size_t some) {
    std::memcpy(static_cast<char*>(to) + at, static_cast<const char*>(from) + at, some);
  });
}

void release_idle_memory() noexcept {
  Kept::of_process().release();
}

void host_free(void* p) noexcept {
  if (!p) return;
  settle();  // tasks may still use it
  Block block;
  std::memcpy(&block, static_cast<char*>(p) - sizeof block, sizeof block);
  if (block.bytes == 0 || !Kept::of_process().keep(block)) std::free(block.begin);
}

}  // namespace tacit::exec
