#include <tacit/base/free_memory.hpp>
#include <tacit/base/sanitizers.hpp>
#include <tacit/exec/memory.hpp>
#include <tacit/exec/tasks.hpp>
#include "base/forks.hpp"
#include "exec/idle.hpp"
#include "exec/lent.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <new>
#include <set>
#include <thread>
#include <utility>

#ifdef __linux__
#include <sys/mman.h>
#include <time.h>
#endif
#if defined(TACIT_ADDRESS_SANITIZER)
#define TACIT_KEEPS_NOTHING
#endif

namespace tacit::exec {
namespace {
constexpr std::size_t alignment = 128;
constexpr std::size_t unit_of_large = std::size_t(1) << 16;  // blocks are multiples of it
/// Smaller blocks than large_bytes are kept, too, from the size on from which malloc() gives memory back to the system:
/// vectors of 20 000 to 130 000 numbers, whose new pages cost a solve of few iterations more than its sweeps do.
constexpr std::size_t least_kept = std::size_t(1) << 17;
static_assert(least_kept <= large_bytes);

struct Block {
  char* begin = nullptr;
  std::size_t bytes = 0;  // 0: of malloc(), and aligned here: aligned_alloc() of glibc takes several times as long
};

#if defined(__linux__) && !defined(TACIT_KEEPS_NOTHING)
constexpr std::size_t huge = std::size_t(1) << 21;
constexpr std::size_t least_mapped = 16 * huge;  // pages that are never touched are not taken

#ifdef MADV_HUGEPAGE
/// Whether a large page, which the first write to it takes, costs less than as many bytes of small ones. A hypervisor
/// that takes back the free memory of its guests finds 512 pages anew for it (measured: 1 to 3 ms instead of 0.1),
/// while the small pages of the guest often are at hand. In time of this thread: it may lose its processor meanwhile.
bool is_cheap(char* large_page) {
  const auto now = [] {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
  };
  const auto start = now();
  *static_cast<volatile char*>(large_page) = 0;
  return now() - start < std::chrono::microseconds(500);
}
#endif

/// At least so many bytes of new memory, from the beginning of a large page; null where there are none.
Block map(std::size_t least) {
  const auto reserve = [](std::size_t bytes) {
    return mmap(nullptr, bytes + huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  };
  const std::size_t needed = (least + huge - 1) / huge * huge;
  // A group that exceeds its limit is ended by the system when it writes to the pages.
  if (needed > least_memory_limit().free) return {};
  std::size_t bytes = std::max(least_mapped, needed);
  void* p = reserve(bytes);
  if (p == MAP_FAILED && bytes > needed) p = reserve(bytes = needed);  // a process whose address space is limited
  if (p == MAP_FAILED) return {};
  char* const begin = static_cast<char*>(p);
  const std::size_t before = (huge - reinterpret_cast<std::uintptr_t>(begin) % huge) % huge;
  if (before > 0) munmap(begin, before);
  if (before < huge) munmap(begin + before + bytes, huge - before);
#ifdef MADV_HUGEPAGE
  // With small pages, TLB misses limit the bandwidth of one core (measured: 21 instead of 33 GB/s).
  madvise(begin + before, bytes, MADV_HUGEPAGE);
  if (!is_cheap(begin + before)) madvise(begin + before + huge, bytes - huge, MADV_NOHUGEPAGE);
#endif
  return {begin + before, bytes};
}
void unmap(char* begin, std::size_t bytes) {
  munmap(begin, bytes);
}
std::size_t memory_to_keep() {
  return total_memory() / 4 / std::max(1u, std::thread::hardware_concurrency());
}
#else
Block map(std::size_t bytes) {
  return {static_cast<char*>(std::aligned_alloc(unit_of_large, bytes)), bytes};
}
void unmap(char* begin, std::size_t) {
  std::free(begin);
}
std::size_t memory_to_keep() {
  return 0;  // parts of a block cannot be given back
}
#endif

/// Keeps freed blocks for later allocations: consecutive solves allocate equal vectors, a set-up matrices of many
/// sizes, and the system clears new pages (measured: a third of the time of 120 iterations of gmres, a fifth of a
/// set-up of algebraic multigrid). Neighbours in memory become one block, and allocations take parts of blocks. At most
/// a quarter of the memory for each core.
class Kept {
 public:
  /// The beginning of the smallest block that is large enough, or new memory; null where there is none.
  char* take(std::size_t bytes) {
    {
      const std::lock_guard lock(mutex_);
      auto best = blocks_.end();
      for (auto b = blocks_.begin(); b != blocks_.end(); ++b)
        if (b->second >= bytes && (best == blocks_.end() || b->second < best->second)) best = b;
      if (best != blocks_.end()) {
        char* const begin = best->first;
        auto node = blocks_.extract(best);
        node.key() += bytes, node.mapped() -= bytes;
        if (node.mapped() > 0) blocks_.insert(std::move(node));
        total_ -= bytes;
        return begin;
      }
    }
    Block made = map(bytes);
    if (!made.begin) release(), made = map(bytes);
    if (made.begin && made.bytes > bytes) give({made.begin + bytes, made.bytes - bytes});
    return made.begin;
  }
  void give(Block block) noexcept {
    const std::lock_guard lock(mutex_);
    if (total_ + block.bytes > limit_) return unmap(block.begin, block.bytes);
    total_ += block.bytes;
    auto after = blocks_.lower_bound(block.begin);
    if (after != blocks_.begin()) {
      const auto before = std::prev(after);
      if (before->first + before->second == block.begin) {
        before->second += block.bytes;
        if (after != blocks_.end() && before->first + before->second == after->first)
          before->second += after->second, blocks_.erase(after);
        return;
      }
    }
    if (after != blocks_.end() && block.begin + block.bytes == after->first) {
      auto node = blocks_.extract(after);
      node.key() = block.begin, node.mapped() += block.bytes;
      blocks_.insert(std::move(node));
      return;
    }
    try {
      blocks_.emplace(block.begin, block.bytes);
    } catch (const std::bad_alloc&) {
      total_ -= block.bytes;
      unmap(block.begin, block.bytes);
    }
  }
  void release() noexcept {
    const std::lock_guard lock(mutex_);
    for (const auto& [begin, bytes] : blocks_) unmap(begin, bytes);
    blocks_.clear();
    total_ = 0;
  }
  static Kept& of_process() {
    static Kept* const kept = new Kept;  // outlives every vector
    return *kept;
  }
  static std::mutex& mutex_of_process() { return of_process().mutex_; }

 private:
  const std::size_t limit_ = memory_to_keep();
  std::mutex mutex_;
  std::map<char*, std::size_t> blocks_;  // by where they begin; not neighbours
  std::size_t total_ = 0;
};

[[maybe_unused]] const int held_over_forks = hold_over_forks<&Kept::mutex_of_process>();

/// The memory that this thread's next allocation gets, and that which arrays have got.
thread_local Block offered;
class Lent {
 public:
  void add(void* p) {
    const std::lock_guard lock(mutex_);
    memory_.insert(p);
    count_.fetch_add(1, std::memory_order_relaxed);
  }
  /// Whether p is lent; then it no longer is, once. The array's own thread or one that has waited for it calls this, so
  /// that a count of zero says that p is not.
  bool end(void* p) {
    if (count_.load(std::memory_order_relaxed) == 0) return false;
    const std::lock_guard lock(mutex_);
    const auto found = memory_.find(p);
    if (found == memory_.end()) return false;
    memory_.erase(found);
    count_.fetch_sub(1, std::memory_order_relaxed);
    return true;
  }
  static Lent& of_process() {
    static Lent* const lent = new Lent;  // outlives every vector
    return *lent;
  }
  static std::mutex& mutex_of_process() { return of_process().mutex_; }

 private:
  std::mutex mutex_;
  std::multiset<void*> memory_;  // several threads may multiply one array
  std::atomic<int> count_{0};
};
[[maybe_unused]] const int lent_held_over_forks = hold_over_forks<&Lent::mutex_of_process>();

/// f(offset, bytes) for pieces of an array. First touch: a page is placed near the thread that first writes it; loops
/// of one length are distributed alike.
template <class F>
void each_page(std::size_t bytes, const F& f) {
  constexpr std::size_t page = 1 << 16;
  const std::size_t pages = (bytes + page - 1) / page;
  parallel_for(pages, pages > 16, [=](std::size_t i) { f(i * page, i + 1 < pages ? page : bytes - i * page); });
}
}  // namespace

// The returned memory follows the block's address and size.
void* host_allocate(std::size_t bytes, bool clear) {
  if (offered.begin && offered.bytes == bytes) {
    void* const p = std::exchange(offered, {}).begin;
    Lent::of_process().add(p);
    return p;
  }
  const bool kept = bytes >= least_kept;
  // Vectors that begin at the same offset in a page would map to the same cache sets, so offsets are varied.
  static std::atomic<unsigned> count{0};
  const std::size_t shift = kept ? alignment + count++ % 32 * 5 * alignment : sizeof(Block) + alignment - 1;
  const std::size_t unit = kept ? unit_of_large : 1, whole = (bytes + shift + unit - 1) / unit * unit;
  Block block;
  if (whole > bytes && kept) block = {Kept::of_process().take(whole), whole};
  else if (whole > bytes) block.begin = static_cast<char*>(std::malloc(whole));
  if (!block.begin) throw_out_of_memory(bytes);
  char* p = block.begin + shift;
  if (!kept) p -= reinterpret_cast<std::uintptr_t>(p) % alignment;
  std::memcpy(p - sizeof block, &block, sizeof block);
  if (clear) each_page(bytes, [=](std::size_t at, std::size_t some) { std::memset(p + at, 0, some); });
  return p;
}

void copy_by_threads(void* to, const void* from, std::size_t bytes) {
  each_page(bytes, [=](std::size_t at, std::size_t some) {
    std::memcpy(static_cast<char*>(to) + at, static_cast<const char*>(from) + at, some);
  });
}

void detail::lend(void* p, std::size_t bytes) {
  offered = {static_cast<char*>(p), bytes};
}

void release_idle_memory() noexcept {
  Kept::of_process().release();
}

void host_free(void* p) noexcept {
  if (!p) return;
  settle();  // tasks may still use it
  if (Lent::of_process().end(p)) return;
  Block block;
  std::memcpy(&block, static_cast<char*>(p) - sizeof block, sizeof block);
  if (block.bytes == 0) std::free(block.begin);
  else Kept::of_process().give(block);
}

}  // namespace tacit::exec
