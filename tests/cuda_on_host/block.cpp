#include "block.hpp"

#include "fault.hpp"

#include <cooperative_groups.h>
#include <cuda_pipeline_primitives.h>

#include <tacit/base/sanitizers.hpp>
#include "exec/fiber.hpp"

#include <alloca.h>
#include <algorithm>
#include <bit>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#if defined(TACIT_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#endif

__thread uint3 threadIdx, blockIdx, blockDim, gridDim;

namespace cuda_on_host {
namespace {

using tacit::exec::Fiber;
constexpr std::size_t stack_bytes = 256 * 1024, static_limit = 48 * 1024, shared_limit = 227 * 1024;
constexpr std::size_t line_bytes = 64, stack_shifts = 61;
constexpr int warp_size = 32;
constexpr unsigned whole_warp = 0xffffffffu;

/// A place in the source where threads wait for each other.
struct Site {
  const char* what = "";
  const char* file = "";
  int line = 0;
  bool operator==(const Site& o) const {
    return line == o.line && (what == o.what || std::strcmp(what, o.what) == 0) &&
           (file == o.file || std::strcmp(file, o.file) == 0);
  }
  std::string text() const { return line == 0 ? what : std::string(what) + " of " + file + ":" + std::to_string(line); }
};

/// The threads of a warp, a block or a grid, where they wait for each other.
struct Meeting {
  int members = 0;  // that have not left
  bool some_left = false;
  std::vector<int> waiting;
  Site site;
};
/// What the lanes of a warp give in an exchange.
struct Exchange {
  std::size_t bytes = 0;  // of a value
  int lanes = 0;
  unsigned given = 0;  // by lane
  std::vector<unsigned char> values;
};
struct Warp : Meeting {
  Exchange exchange[2];  // in turn: a lane gives for the next one while others have not taken from this one
  int turn = 0;
};

/// A shared variable of a block, with bytes around it that nothing may touch.
class Shared {
 public:
  static constexpr std::size_t margin = 128;
  Shared(const char* mark, std::size_t bytes)
      : mark_(mark),
        bytes_(bytes),
        room_((bytes + 3 * margin - 1) / margin * margin),
        all_(static_cast<unsigned char*>(std::aligned_alloc(margin, room_)), std::free) {
    fill();
#if defined(TACIT_ADDRESS_SANITIZER)
    __asan_poison_memory_region(all_.get(), margin);
    __asan_poison_memory_region(data() + bytes_, room_ - margin - bytes_);
#endif
  }
#if defined(TACIT_ADDRESS_SANITIZER)
  Shared(Shared&&) = default;
  ~Shared() {
    if (all_) __asan_unpoison_memory_region(all_.get(), room_);
  }
  void fill() {
    std::memset(data(), 0xff, bytes_);
  }
  bool intact() const {
    return true;
  }
#else
  void fill() {
    std::memset(all_.get(), 0xff, room_);
  }
  bool intact() const {
    const auto untouched = [](unsigned char c) { return c == 0xff; };
    return std::all_of(all_.get(), all_.get() + margin, untouched) &&
           std::all_of(data() + bytes_, all_.get() + room_, untouched);
  }
#endif
  const char* mark() const {
    return mark_;
  }
  std::size_t bytes() const {
    return bytes_;
  }
  unsigned char* data() const {
    return all_.get() + margin;
  }
  bool holds(const void* p, std::size_t n) const {
    const auto* const first = static_cast<const unsigned char*>(p);
    return first >= data() && first + n <= data() + bytes_;
  }

 private:
  const char* mark_;
  std::size_t bytes_, room_;
  std::unique_ptr<unsigned char, void (*)(void*)> all_;
};

struct Copy {
  void* to;
  const void* from;
  std::size_t bytes, zeros;
};
/// Asynchronous copies of a thread, in order; a group ends where `ends` says.
struct Copies {
  std::vector<Copy> all;
  std::vector<std::size_t> ends;
};

struct Block {
  uint3 index{};
  Meeting meeting;
  std::vector<Warp> warps;
  std::vector<Shared> shared;  // made as threads ask for it, kept for the next block of the launch
};
struct Thread {
  uint3 index{};
  int block = 0, rank = 0;
  Fiber* fiber = nullptr;
  Copies copies;
};

/// Threads that can run, in order, each at most once.
class Ready {
 public:
  void make_room(std::size_t threads) {
    if (all_.size() < threads) all_.resize(std::bit_ceil(threads));
    mask_ = all_.size() - 1;
  }
  bool empty() const { return begin_ == end_; }
  void push(int thread) { all_[end_++ & mask_] = thread; }
  int pop() { return all_[begin_++ & mask_]; }

 private:
  std::vector<int> all_;
  std::size_t mask_ = 0, begin_ = 0, end_ = 0;
};

constexpr char dynamic_mark = 0;
constexpr Site in_shfl{"__shfl_xor_sync"}, in_syncwarp{"__syncwarp"};

/// Runs the blocks of one launch on this thread of the host.
class Engine {
 public:
  void run(const Launch& launch, const std::string& name, const std::function<void()>& body, std::uint64_t seed);

  void meet_block(const Site& site) { meet(block().meeting, site, "block"); }
  void meet_grid(const Site& site);
  void meet_warp(unsigned mask, const Site& site) {
    check_mask(mask, site);
    meet(warp(), site, "warp");
  }
  void exchange(unsigned mask, void* to, const void* from, std::size_t bytes, int lanes, const Site& site);
  unsigned char* shared(const char* mark, std::size_t bytes);
  std::size_t dynamic_bytes() const { return launch_->dynamic_bytes; }
  Thread& thread() { return threads_[std::size_t(current_)]; }
  Block& block() { return blocks_[std::size_t(thread().block)]; }
  const std::string& kernel() const { return *name_; }
  void fault_once(const std::string& text);

 private:
  Warp& warp() { return block().warps[std::size_t(thread().rank / warp_size)]; }
  void check_mask(unsigned mask, const Site& site) const;
  void meet(Meeting& m, const Site& site, const char* of);
  void release(Meeting& m);
  void leave(Meeting& m, const char* of);
  void run_blocks(std::size_t first, std::size_t count);
  void work(Fiber& self);
  void go_on(Fiber& from);
  void enter(int thread);
  void untangle();

  Fiber home_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
  // Of the launch.
  const Launch* launch_ = nullptr;
  const std::string* name_ = nullptr;
  const std::function<void()>* body_ = nullptr;
  bool faulty_ = false;
  std::minstd_rand random_;
  bool shuffled_ = false;
  // Of the blocks that run side by side.
  std::vector<Block> blocks_;
  std::vector<Thread> threads_;
  std::vector<int> order_;  // in which threads start
  std::size_t started_ = 0, left_ = 0;
  Ready ready_;
  int current_ = 0;
  Meeting grid_;
};

uint3 place(std::size_t i, dim3 size) {
  return {unsigned(i % size.x), unsigned(i / size.x % size.y), unsigned(i / size.x / size.y)};
}
std::size_t volume(dim3 size) {
  return std::size_t(size.x) * size.y * size.z;
}

void Engine::fault_once(const std::string& text) {
  if (!std::exchange(faulty_, true)) fault(kernel() + ": " + text);
}

void Engine::enter(int thread) {
  current_ = thread;
  threadIdx = threads_[std::size_t(thread)].index;
  blockIdx = block().index;
}

// The next thread that can run, on the fiber where it waits or on one that has nothing to do.
void Engine::go_on(Fiber& from) {
  if (!ready_.empty()) {
    from.give_way(*threads_[std::size_t(ready_.pop())].fiber);
  } else if (started_ < order_.size()) {
    if (idle_.empty()) {
      const std::size_t i = fibers_.size();
      fibers_.push_back(std::make_unique<Fiber>(stack_bytes, [this, i] {
        // Stacks begin at the same place of a page, so that what all threads touch would share few sets of the cache.
        void* const shift = alloca(line_bytes * (i % stack_shifts) + 1);
        asm volatile("" : : "r"(shift));
        work(*fibers_[i]);
      }));
      idle_.push_back(fibers_.back().get());
    }
    Fiber& next = *idle_.back();
    idle_.pop_back();
    from.give_way(next);
  } else {
    from.give_way(home_);
  }
}

void Engine::work(Fiber& self) {
  for (;;) {
    while (started_ < order_.size()) {
      enter(order_[started_++]);
      thread().fiber = &self;
      (*body_)();
      leave(warp(), "warp");
      leave(block().meeting, "block");
      if (launch_->cooperative) leave(grid_, "grid");
      ++left_;
    }
    idle_.push_back(&self);
    go_on(self);
  }
}

void Engine::release(Meeting& m) {
  const std::size_t n = m.waiting.size();
  std::size_t next = 0, step = 1;
  if (shuffled_ && n > 1) {
    // Each order of a pair occurs; a full shuffle would cost more than the threads' own work.
    if (random_() & 1) step = n - 1;
    next = random_() % n;
  }
  for (std::size_t i = 0; i < n; ++i) {
    ready_.push(m.waiting[next]);
    if ((next += step) >= n) next -= n;
  }
  m.waiting.clear();
}

void Engine::meet(Meeting& m, const Site& site, const char* of) {
  if (m.waiting.empty()) m.site = site;
  else if (!(m.site == site))
    fault_once(std::string("threads of a ") + of + " wait at different barriers: " + m.site.text() + " and " +
               site.text());
  const int me = current_;
  if (int(m.waiting.size()) + 1 == m.members) {
    if (m.some_left)
      fault_once(std::string("some threads of a ") + of + " have left, and others wait for them in " + site.text());
    return release(m);
  }
  m.waiting.push_back(me);
  go_on(*thread().fiber);
  enter(me);
}

void Engine::leave(Meeting& m, const char* of) {
  --m.members;
  m.some_left = true;
  if (m.waiting.empty()) return;
  fault_once(std::string("some threads of a ") + of + " leave, and others wait for them in " + m.site.text());
  if (int(m.waiting.size()) == m.members) release(m);
}

void Engine::meet_grid(const Site& site) {
  if (!launch_->cooperative)
    fatal(kernel() + ": a grid waits for itself, and was not launched by cudaLaunchCooperativeKernel");
  meet(grid_, site, "grid");
}

void Engine::check_mask(unsigned mask, const Site& site) const {
  if (mask != whole_warp)
    fatal(kernel() + ": " + site.text() + " of a part of a warp, which cuda_on_host does not carry out");
}

void Engine::exchange(unsigned mask, void* to, const void* from, std::size_t bytes, int lanes, const Site& site) {
  check_mask(mask, site);
  Warp& w = warp();
  Exchange& e = w.exchange[w.turn];
  const int lane = thread().rank % warp_size, other = (lane ^ lanes) % warp_size;
  if (w.waiting.empty()) {
    e.bytes = bytes, e.lanes = lanes, e.given = 0;
    if (e.values.size() < bytes * warp_size) e.values.resize(bytes * warp_size);
  } else if (e.bytes != bytes || e.lanes != lanes) {
    fault_once("lanes of a warp are in different exchanges: " + std::to_string(e.bytes) + " bytes with lane ^ " +
               std::to_string(e.lanes) + ", " + std::to_string(bytes) + " bytes with lane ^ " + std::to_string(lanes));
    std::memset(to, 0xff, bytes);
    bytes = std::min(bytes, e.bytes);
  }
  std::memcpy(e.values.data() + std::size_t(lane) * e.bytes, from, bytes);
  e.given |= 1u << lane;
  if (int(w.waiting.size()) + 1 == w.members) w.turn ^= 1;
  meet(w, site, "warp");
  // A lane that has left gives nothing: bits that no value has.
  if (e.given >> other & 1) std::memcpy(to, e.values.data() + std::size_t(other) * e.bytes, bytes);
  else std::memset(to, 0xff, bytes);
}

unsigned char* Engine::shared(const char* mark, std::size_t bytes) {
  auto& all = block().shared;
  std::size_t sum = mark == &dynamic_mark ? 0 : bytes;
  for (const Shared& one : all) {
    if (one.mark() == mark) return one.data();
    if (one.mark() != &dynamic_mark) sum += one.bytes();
  }
  if (sum > static_limit)
    fault_once(std::to_string(sum) + " bytes of static shared memory; a block has " + std::to_string(static_limit));
  if (sum + dynamic_bytes() > shared_limit)
    fault_once(std::to_string(sum) + " bytes of static and " + std::to_string(dynamic_bytes()) +
               " of dynamic shared memory; a block has " + std::to_string(shared_limit));
  return all.emplace_back(mark, bytes).data();
}

// No thread can run, and some have not left: they wait for each other in different groups.
void Engine::untangle() {
  std::string text;
  const auto add = [&](Meeting& m) {
    if (m.waiting.empty()) return;
    if (text.find(m.site.text()) == std::string::npos)
      text += (text.empty() ? "" : ", ") + std::to_string(m.waiting.size()) + " in " + m.site.text();
    release(m);
  };
  add(grid_);
  for (Block& b : blocks_) {
    add(b.meeting);
    for (Warp& w : b.warps) add(w);
  }
  fault_once("threads wait for each other for ever: " + text);
}

void Engine::run_blocks(std::size_t first, std::size_t count) {
  const std::size_t members = volume(launch_->block), all = count * members;
  blocks_.resize(count);
  threads_.resize(all);
  order_.resize(all);
  for (std::size_t b = 0; b < count; ++b) {
    Block& one = blocks_[b];
    one.index = place(first + b, launch_->grid);
    one.meeting.members = int(members), one.meeting.some_left = false;
    one.warps.resize((members + warp_size - 1) / warp_size);
    for (std::size_t w = 0; w < one.warps.size(); ++w) {
      one.warps[w].members = int(std::min<std::size_t>(warp_size, members - w * warp_size));
      one.warps[w].some_left = false;
    }
    for (Shared& s : one.shared) s.fill();
  }
  for (std::size_t t = 0; t < all; ++t) {
    Thread& one = threads_[t];
    one.block = int(t / members), one.rank = int(t % members);
    one.index = place(t % members, launch_->block);
    one.copies.all.clear(), one.copies.ends.clear();
    order_[t] = int(t);
  }
  if (shuffled_) {
    if (random_() & 1) std::reverse(order_.begin(), order_.end());
    std::rotate(order_.begin(), order_.begin() + std::ptrdiff_t(random_() % all), order_.end());
  }
  ready_.make_room(all);
  grid_.members = int(all), grid_.some_left = false;
  started_ = left_ = 0;
  while (left_ < all) {
    if (ready_.empty() && started_ == all) untangle();
    go_on(home_);
  }
  for (const Block& b : blocks_)
    for (const Shared& s : b.shared)
      if (!s.intact()) fault_once("writes beyond " + std::to_string(s.bytes()) + " bytes of shared memory");
}

void Engine::run(const Launch& launch, const std::string& name, const std::function<void()>& body, std::uint64_t seed) {
  launch_ = &launch, name_ = &name, body_ = &body;
  faulty_ = false, shuffled_ = seed != 0;
  random_.seed(std::minstd_rand::result_type(seed));
  const uint3 before[] = {threadIdx, blockIdx, blockDim, gridDim};
  blockDim = {launch.block.x, launch.block.y, launch.block.z};
  gridDim = {launch.grid.x, launch.grid.y, launch.grid.z};
  blocks_.clear();
  const std::size_t blocks = volume(launch.grid);
  if (launch.cooperative) {
    run_blocks(0, blocks);
  } else {
    const bool backwards = shuffled_ && (random_() & 1);
    const std::size_t shift = shuffled_ ? random_() % blocks : 0;
    for (std::size_t b = 0; b < blocks; ++b) {
      const std::size_t i = (b + shift) % blocks;
      run_blocks(backwards ? blocks - 1 - i : i, 1);
    }
  }
  threadIdx = before[0], blockIdx = before[1], blockDim = before[2], gridDim = before[3];
}

// Fibers stay on the thread of the host that made them: compilers keep addresses of thread-local variables.
thread_local std::unique_ptr<Engine> engine_of_thread;
thread_local Engine* running = nullptr;

Engine& engine(const char* call) {
  if (!running) fatal(std::string(call) + " outside of a kernel");
  return *running;
}

}  // namespace

void run_grid(const Launch& launch, const std::string& name, const std::function<void()>& thread, std::uint64_t seed) {
  if (!engine_of_thread) engine_of_thread = std::make_unique<Engine>();
  running = engine_of_thread.get();
  running->run(launch, name, thread, seed);
  running = nullptr;
}

unsigned char* static_shared(const char* mark, std::size_t bytes) {
  return engine("__shared__").shared(mark, bytes);
}
unsigned char* dynamic_shared() {
  Engine& e = engine("extern __shared__");
  return e.shared(&dynamic_mark, e.dynamic_bytes());
}
void exchange_lanes(void* to, const void* from, std::size_t bytes, int lanes) {
  engine("__shfl_xor_sync").exchange(whole_warp, to, from, bytes, lanes, in_shfl);
}

}  // namespace cuda_on_host

using cuda_on_host::engine;

void __syncthreads(const char* file, int line) {
  engine("__syncthreads").meet_block({"__syncthreads", file, line});
}
void __syncwarp(unsigned mask) {
  engine("__syncwarp").meet_warp(mask, cuda_on_host::in_syncwarp);
}
unsigned __shfl_xor_sync(unsigned mask, unsigned value, int lanes) {
  unsigned other;
  engine("__shfl_xor_sync").exchange(mask, &other, &value, sizeof other, lanes, cuda_on_host::in_shfl);
  return other;
}
void cooperative_groups::grid_group::sync(const char* file, int line) const {
  engine("grid_group::sync").meet_grid({"grid_group::sync", file, line});
}

void __pipeline_memcpy_async(void* shared, const void* global, std::size_t bytes, std::size_t zeros) {
  auto& e = engine("__pipeline_memcpy_async");
  const auto is_aligned = [&](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % bytes == 0; };
  if (bytes != 4 && bytes != 8 && bytes != 16)
    e.fault_once("an asynchronous copy of " + std::to_string(bytes) + " bytes; 4, 8 and 16 can be copied");
  else if (!is_aligned(shared) || !is_aligned(global))
    e.fault_once("a misaligned asynchronous copy of " + std::to_string(bytes) + " bytes");
  const auto& variables = e.block().shared;
  if (std::none_of(variables.begin(), variables.end(), [&](const auto& s) { return s.holds(shared, bytes); }))
    return e.fault_once("an asynchronous copy to what is not the block's shared memory");
  e.thread().copies.all.push_back({shared, global, bytes, zeros});
}
void __pipeline_commit() {
  auto& copies = engine("__pipeline_commit").thread().copies;
  copies.ends.push_back(copies.all.size());
}
void __pipeline_wait_prior(std::size_t groups) {
  auto& copies = engine("__pipeline_wait_prior").thread().copies;
  if (copies.ends.size() <= groups) return;
  const std::size_t done = copies.ends.size() - groups, count = copies.ends[done - 1];
  for (std::size_t i = 0; i < count; ++i) {
    const auto& c = copies.all[i];
    std::memcpy(c.to, c.from, c.bytes - c.zeros);
    std::memset(static_cast<unsigned char*>(c.to) + c.bytes - c.zeros, 0, c.zeros);
  }
  copies.all.erase(copies.all.begin(), copies.all.begin() + std::ptrdiff_t(count));
  copies.ends.erase(copies.ends.begin(), copies.ends.begin() + std::ptrdiff_t(done));
  for (std::size_t& end : copies.ends) end -= count;
}
