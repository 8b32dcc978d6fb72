#include "memory.hpp"

#include "fault.hpp"

#include <tacit/base/sanitizers.hpp>

#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <utility>
#include <vector>

#if defined(TACIT_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#endif

namespace cuda_on_host::memory {
namespace {

using Address = std::uintptr_t;
constexpr std::size_t range_bytes = std::size_t(1) << 38, page = 4096, alignment = 256;
constexpr unsigned char unwritten = 0xff;  // NaN, and an index that leads nowhere

struct Allocation {
  std::size_t bytes;
  int device;
  Address first_page, end_page;
  bool open = false;
};

struct State {
  Address base = 0, top = 0;
  std::map<Address, Allocation> live;  // by the address that the caller has
  std::map<Address, Address> freed;    // pages, begin to end
  std::map<Address, std::size_t> pinned;
  std::vector<Allocation*> opened;
  bool watches = false;
  Traffic traffic;
  std::map<int, std::size_t> used;
  std::set<std::pair<int, int>> peers;
  const char* operation = "";  // what is being carried out
  int device = 0;              // and where
  struct sigaction before[2];
};
State& state() {
  static State* const one = new State;  // never destroyed: memory is freed while the process ends
  return *one;
}
thread_local bool works = false;  // this thread carries out an operation

Address at(const void* p) {
  return reinterpret_cast<Address>(p);
}
bool in_range(Address a) {
  const State& s = state();
  return s.base != 0 && a >= s.base && a < s.base + range_bytes;
}
bool may_have(int device, const Allocation& a) {
  return device == any_device || a.device == device || is_peer(device, a.device);
}

// The allocation whose pages hold the address, which may lie before its first byte.
std::pair<const Address, Allocation>* around(Address a) {
  auto& live = state().live;
  auto next = live.upper_bound(a);
  if (next != live.end() && a >= next->second.first_page) return &*next;
  if (next == live.begin()) return nullptr;
  --next;
  return a < next->second.end_page ? &*next : nullptr;
}
bool is_freed(Address a) {
  const auto& freed = state().freed;
  auto next = freed.upper_bound(a);
  return next != freed.begin() && a < (--next)->second;
}

void unlock(const Allocation& a) {
  mprotect(reinterpret_cast<void*>(a.first_page), a.end_page - a.first_page, PROT_READ | PROT_WRITE);
}
void open(Allocation& a) {
  if (a.open) return;
  a.open = true;
  state().opened.push_back(&a);  // its capacity is that of all allocations
  unlock(a);
}
// Only the page that was touched, for reading, or for both from the first write on.
void open_page(Allocation& a, Address begin, Address touched, bool writes) {
  if (!std::exchange(a.open, true)) state().opened.push_back(&a);
  const Address first = touched & ~Address(page - 1);
  const std::size_t bytes = std::min(first + page, begin + a.bytes) - std::max(first, begin);
  (writes ? state().traffic.written : state().traffic.read) += bytes;
  mprotect(reinterpret_cast<void*>(first), page, writes ? PROT_READ | PROT_WRITE : PROT_READ);
}
void shut(Allocation& a) {
  a.open = false;
  mprotect(reinterpret_cast<void*>(a.first_page), a.end_page - a.first_page, PROT_NONE);
}

std::string describe(Address a) {
  char text[200];
  if (const auto* one = around(a)) {
    const auto offset = std::ptrdiff_t(a - one->first);
    std::snprintf(text, sizeof text, "byte %td of an allocation of %zu bytes of device %d", offset, one->second.bytes,
                  one->second.device);
  } else {
    std::snprintf(text, sizeof text, "address %p, %s", reinterpret_cast<void*>(a),
                  is_freed(a) ? "in device memory that was freed" : "between allocations of device memory");
  }
  return text;
}

// Whether the access that failed was to write.
bool is_write([[maybe_unused]] const void* context) {
#if defined(__x86_64__)
  return static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & 2;
#else
  fatal("which pages of device memory are written to is known on x86-64 only");
#endif
}

// What an access to an inaccessible page means. Called in the signal handler.
void touched(int signal, siginfo_t* info, void* context) {
  State& s = state();
  if (signal == SIGILL && works) fatal(std::string("a misaligned access, or undefined behaviour, in ") + s.operation);
  const Address a = at(info->si_addr);
  if (signal == SIGSEGV && in_range(a)) {
    if (!works) fatal("host code touches device memory: " + describe(a));
    auto* const one = around(a);
    if (!one) fatal(std::string(s.operation) + " touches " + describe(a));
    if (!may_have(s.device, one->second))
      fatal(std::string(s.operation) + " on device " + std::to_string(s.device) + " without peer access touches " +
            describe(a));
    if (s.watches) return open_page(one->second, one->first, a, is_write(context));
    return open(one->second);
  }
  // Not ours: with the handler of before the instruction faults again.
  if (works) std::fprintf(stderr, "cuda_on_host: signal %d in %s\n", signal, s.operation);
  sigaction(signal, &s.before[signal == SIGILL], nullptr);
}

void begin() {
  State& s = state();
  if (s.base != 0) return;
  void* const all = mmap(nullptr, range_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) fatal("no range of addresses for device memory");
  s.base = at(all);
  s.top = s.base + page;
  struct sigaction action = {};
  action.sa_sigaction = touched;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  sigaction(SIGSEGV, &action, &s.before[0]);
  sigaction(SIGILL, &action, &s.before[1]);
}

void poison([[maybe_unused]] Address from, [[maybe_unused]] Address to) {
#if defined(TACIT_ADDRESS_SANITIZER)
  __asan_poison_memory_region(reinterpret_cast<void*>(from), to - from);
#endif
}
void unpoison([[maybe_unused]] Address from, [[maybe_unused]] Address to) {
#if defined(TACIT_ADDRESS_SANITIZER)
  __asan_unpoison_memory_region(reinterpret_cast<void*>(from), to - from);
#endif
}

// Pages for n bytes, and an inaccessible one behind them. Addresses are used again only when all have been used.
Address take_pages(std::size_t n) {
  State& s = state();
  if (s.top + n + page <= s.base + range_bytes) {
    const Address first = s.top;
    s.top += n + page;
    return first;
  }
  for (auto [from, to] : s.freed)
    if (to - from >= n + page) {
      s.freed.erase(from);
      if (from + n + page < to) s.freed[from + n + page] = to;
      return from;
    }
  return 0;
}
void give_pages(Address from, Address to) {
  auto& freed = state().freed;
  auto next = freed.lower_bound(from);
  if (next != freed.end() && next->first == to) to = next->second, next = freed.erase(next);
  if (next != freed.begin() && std::prev(next)->second == from) std::prev(next)->second = to;
  else freed[from] = to;
}

#if !defined(TACIT_ADDRESS_SANITIZER)
void check_margin(Address from, Address to, const std::pair<const Address, Allocation>& one) {
  static const std::vector<unsigned char> untouched(page, unwritten);
  const auto* const bytes = reinterpret_cast<unsigned char*>(from);
  if (std::memcmp(bytes, untouched.data(), to - from) == 0) return;  // at most a page, after every operation
  for (std::size_t i = 0; i < to - from; ++i)
    if (bytes[i] != unwritten) {
      std::memset(reinterpret_cast<void*>(from), unwritten, to - from);
      return fault(std::string(state().operation) + " wrote to byte " +
                   std::to_string(std::ptrdiff_t(from + i - one.first)) + " of an allocation of " +
                   std::to_string(one.second.bytes) + " bytes of device " + std::to_string(one.second.device));
    }
}
#endif
// Only what was opened can have been written to. The sanitizer sees the access itself.
void check_margins() {
#if !defined(TACIT_ADDRESS_SANITIZER)
  for (const Allocation* a : state().opened) {
    const auto* const one = around(a->first_page);
    check_margin(a->first_page, one->first, *one);
    check_margin(one->first + a->bytes, a->end_page, *one);
  }
#endif
}

bool is_mapped(Address a) {
  unsigned char resident;
  return mincore(reinterpret_cast<void*>(a & ~Address(page - 1)), 1, &resident) == 0;
}

}  // namespace

Place find(const void* address) {
  const State& s = state();
  const Address a = at(address);
  if (in_range(a)) {
    const auto* const one = around(a);
    if (!one || a < one->first || a > one->first + one->second.bytes) return {Kind::device, 0, 0, is_freed(a)};
    return {Kind::device, one->second.device, one->first + one->second.bytes - a};
  }
  auto next = s.pinned.upper_bound(a);
  if (next != s.pinned.begin() && a < (--next)->first + next->second)
    return {Kind::pinned, 0, next->first + next->second - a};
  return {Kind::pageable};
}

std::size_t total_bytes() {
  static const char* const given = std::getenv("CUDA_ON_HOST_MEBIBYTES");
  static const std::size_t total = (given ? std::strtoull(given, nullptr, 10) : 4096) << 20;
  return total;
}
std::size_t used_bytes(int device) {
  const auto& used = state().used;
  const auto one = used.find(device);
  return one == used.end() ? 0 : one->second;
}
std::size_t used_bytes() {
  std::size_t sum = 0;
  for (const auto& [device, bytes] : state().used) sum += bytes;
  return sum;
}

void* allocate(int device, std::size_t bytes) {
  begin();
  State& s = state();
  if (bytes > total_bytes() - used_bytes(device)) return nullptr;
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment,
                    pages = (rounded + page - 1) / page * page;
  const Address first = take_pages(pages);
  if (first == 0) return nullptr;
  const Address p = first + pages - rounded;
  s.opened.reserve(s.live.size() + 1);
  Allocation& a = s.live.emplace(p, Allocation{bytes, device, first, first + pages}).first->second;
  s.used[device] += bytes;
  open(a);
  unpoison(first, first + pages);
  std::memset(reinterpret_cast<void*>(first), unwritten, pages);
  poison(first, p);
  poison(p + bytes, first + pages);
  return reinterpret_cast<void*>(p);
}

bool release(void* p) {
  State& s = state();
  const auto one = s.live.find(at(p));
  if (one == s.live.end()) return false;
  Allocation& a = one->second;
  std::erase(s.opened, &a);
  shut(a);
  madvise(reinterpret_cast<void*>(a.first_page), a.end_page - a.first_page, MADV_DONTNEED);
  give_pages(a.first_page, a.end_page + page);
  s.used[a.device] -= a.bytes;
  s.live.erase(one);
  return true;
}

void* allocate_pinned(std::size_t bytes) {
  void* const p = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (!p) return p;
  std::memset(p, unwritten, bytes);
  state().pinned[at(p)] = bytes;
  return p;
}
bool release_pinned(void* p) {
  if (state().pinned.erase(at(p)) == 0) return false;
  std::free(p);
  return true;
}

void set_peer(int device, int peer, bool allowed) {
  if (allowed) state().peers.insert({device, peer});
  else state().peers.erase({device, peer});
}
bool is_peer(int device, int peer) {
  return state().peers.count({device, peer}) > 0;
}
void forget_peers() {
  state().peers.clear();
}

Operation::Operation(int device, const char* what) {
  State& s = state();
  s.operation = what;
  s.device = device;
  works = true;
  // What an operation of another device has opened is closed to this one.
  std::erase_if(s.opened, [&](Allocation* a) {
    if (may_have(device, *a) && !s.watches) return false;
    shut(*a);
    return true;
  });
}
Operation::~Operation() {
  if (state().watches)
    for (const Allocation* a : state().opened) unlock(*a);  // all pages, for the bytes around
  check_margins();
  works = false;
}

void close() {
  State& s = state();
  if (s.opened.empty()) return;
  // One call for all: what lies between them is inaccessible already.
  Address first = s.base + range_bytes, end = s.base;
  for (Allocation* a : s.opened) {
    a->open = false;
    first = std::min(first, a->first_page), end = std::max(end, a->end_page);
  }
  mprotect(reinterpret_cast<void*>(first), end - first, PROT_NONE);
  s.opened.clear();
}

void watch(bool on) {
  close();
  state().watches = on;
}
Traffic traffic() {
  return state().traffic;
}

void check_argument(const void* bytes, std::size_t size, int device, const std::string& kernel) {
  for (std::size_t i = 0; i + sizeof(Address) <= size; i += sizeof(Address)) {
    Address a;
    std::memcpy(&a, static_cast<const char*>(bytes) + i, sizeof a);
    if (a < 0x10000 || a >= Address(1) << 47) continue;
    const std::string where = "the argument of " + kernel + " holds at byte " + std::to_string(i) + " ";
    if (in_range(a)) {
      if (const auto* const one = around(a); one && !may_have(device, one->second))
        fault(where + "memory of device " + std::to_string(one->second.device) + ", to which device " +
              std::to_string(device) + " has no peer access");
      else if (!one && is_freed(a)) fault(where + "device memory that was freed");
    } else if (find(reinterpret_cast<void*>(a)).kind == Kind::pageable && is_mapped(a)) {
      fault(where + "an address of host memory that is not pinned");
    }
  }
}

}  // namespace cuda_on_host::memory
