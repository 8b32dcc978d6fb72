#include "exec/fiber.hpp"

#include <tacit/base/error.hpp>
#include <tacit/base/sanitizers.hpp>

#include <cxxabi.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#if defined(TACIT_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(TACIT_THREAD_SANITIZER)
#include <sanitizer/tsan_interface.h>
#endif

// Not swapcontext(), which makes a system call for the signal mask at each switch. Rounding modes are the thread's and
// not switched: to load them takes as long as all the rest.
#if defined(__x86_64__) && defined(__ELF__)
#define TACIT_OWN_SWITCH 1
extern "C" void tacit_switch_stack(void** from, void* to);
asm(R"(
.text
.p2align 4
.globl tacit_switch_stack
.hidden tacit_switch_stack
.type tacit_switch_stack,@function
tacit_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size tacit_switch_stack,.-tacit_switch_stack
)");
#endif

namespace tacit::exec {
namespace {
// As in the Itanium ABI: the exceptions being handled, and the number of uncaught ones.
struct Exceptions {
  void* caught = nullptr;
  unsigned int uncaught = 0;
};
}  // namespace

struct Fiber::Parts {
  std::function<void()> f;
  std::byte* stack = nullptr;   // its own, if any
  std::size_t stack_bytes = 0;  // with a guard page below
  Exceptions exceptions;
#ifdef TACIT_OWN_SWITCH
  void* top = nullptr;
#else
  ucontext_t context;
#endif
#if defined(TACIT_ADDRESS_SANITIZER)
  void* fake = nullptr;
  const void* bottom = nullptr;
  std::size_t size = 0;
#endif
#if defined(TACIT_THREAD_SANITIZER)
  void* tsan = nullptr;
#endif
};

namespace {
thread_local Fiber::Parts* entered = nullptr;  // the running fiber
thread_local Fiber::Parts* left = nullptr;

void arrive() {
#if defined(TACIT_ADDRESS_SANITIZER)
  __sanitizer_finish_switch_fiber(entered->fake, &left->bottom, &left->size);
#endif
}

[[noreturn]] void enter() {
  arrive();
  entered->f();
  __builtin_trap();
}
}  // namespace

Fiber::Fiber() : parts_(std::make_unique<Parts>()) {
#if defined(TACIT_THREAD_SANITIZER)
  parts_->tsan = __tsan_get_current_fiber();
#endif
}

namespace {
std::size_t page_bytes() {
  static const auto bytes = std::size_t(sysconf(_SC_PAGESIZE));
  return bytes;
}
std::byte* mapped(std::size_t bytes, const char* why) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    throw Error(ErrorKind::environment,
                message("no memory for stacks of ", bytes, " bytes: ", std::strerror(errno), why));
  return static_cast<std::byte*>(memory);
}
void unmap(std::byte* memory, std::size_t bytes) {
#if defined(TACIT_ADDRESS_SANITIZER)
  // The last frames never returned: what is mapped at these addresses next would count as their variables'
  // surroundings.
  __asan_unpoison_memory_region(memory, bytes);
#endif
  munmap(memory, bytes);
}

constexpr std::uint64_t whole = 0x7461636974u;  // the last words of a stack, as long as nothing has reached them
constexpr std::size_t words_of_end = 8;
std::uint64_t* end_of(std::byte* stack) {
  return reinterpret_cast<std::uint64_t*>(stack);
}
}  // namespace

FiberStacks::FiberStacks(std::size_t count, std::size_t bytes)
    : count_(count), bytes_((bytes + page_bytes() - 1) / page_bytes() * page_bytes()) {
  memory_ = mapped(count_ * bytes_, "");
#ifdef MADV_NOHUGEPAGE
  (void)madvise(memory_, count_ * bytes_, MADV_NOHUGEPAGE);  // or each stack would take its full size
#endif
  for (std::size_t i = 0; i < count_; ++i) std::fill_n(end_of(of(i)), words_of_end, whole);
}

FiberStacks::~FiberStacks() {
  unmap(memory_, count_ * bytes_);
}

bool FiberStacks::intact(std::size_t i) const {
  const auto* const end = end_of(of(i));
  return std::all_of(end, end + words_of_end, [](std::uint64_t word) { return word == whole; });
}

Fiber::Fiber(std::size_t stack_bytes, std::function<void()> f) : parts_(std::make_unique<Parts>()) {
  Parts& p = *parts_;
  const std::size_t page = page_bytes(), bytes = (stack_bytes + page - 1) / page * page + page;
  p.stack = mapped(bytes, " (each takes two of the mappings that vm.max_map_count allows a process)");
  p.stack_bytes = bytes;
  (void)mprotect(p.stack, page, PROT_NONE);
  p.f = std::move(f);
  begin_on(p.stack + page, bytes - page);
}

Fiber::Fiber(const FiberStacks& stacks, std::size_t i, std::function<void()> f) : parts_(std::make_unique<Parts>()) {
  parts_->f = std::move(f);
  begin_on(stacks.of(i), stacks.bytes());
}

void Fiber::begin_on(std::byte* base, std::size_t bytes) {
  Parts& p = *parts_;
#if defined(TACIT_ADDRESS_SANITIZER)
  p.bottom = base;
  p.size = bytes;
#endif
#if defined(TACIT_THREAD_SANITIZER)
  p.tsan = __tsan_create_fiber(0);
#endif
#ifdef TACIT_OWN_SWITCH
  // The stack looks as if the fiber had been suspended at its beginning; the return address of `enter` is no function,
  // and the stack is aligned as after a call.
  auto* const words = reinterpret_cast<std::uint64_t*>(base + bytes) - 10;
  std::memset(words, 0, 10 * sizeof *words);
  words[6] = reinterpret_cast<std::uintptr_t>(&enter);
  p.top = words;
#else
  getcontext(&p.context);
  p.context.uc_stack.ss_sp = base;
  p.context.uc_stack.ss_size = bytes;
  p.context.uc_link = nullptr;
  makecontext(&p.context, reinterpret_cast<void (*)()>(&enter), 0);
#endif
}

Fiber::~Fiber() {
#if defined(TACIT_THREAD_SANITIZER)
  if (parts_->f) __tsan_destroy_fiber(parts_->tsan);
#endif
  if (parts_->stack) unmap(parts_->stack, parts_->stack_bytes);
}

void Fiber::give_way(Fiber& to) {
  Parts &here = *parts_, &there = *to.parts_;
  auto* const exceptions = reinterpret_cast<Exceptions*>(abi::__cxa_get_globals());
  here.exceptions = *exceptions;
  *exceptions = there.exceptions;
  left = &here, entered = &there;
#if defined(TACIT_ADDRESS_SANITIZER)
  __sanitizer_start_switch_fiber(&here.fake, there.bottom, there.size);
#endif
#if defined(TACIT_THREAD_SANITIZER)
  __tsan_switch_to_fiber(there.tsan, 0);
#endif
#ifdef TACIT_OWN_SWITCH
  tacit_switch_stack(&here.top, there.top);
#else
  swapcontext(&here.context, &there.context);
#endif
  arrive();
}

}  // namespace tacit::exec
