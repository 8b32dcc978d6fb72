// Tasks: the engine that runs a method as a graph of tasks.
//
//   Tasks::run([&] { method(); }, [&] { comm.poll(); });
//
// While the function runs, kernels on host memory that the calling thread comes to are cut into blocks of rows. Each
// block is a task that waits for those that write what it reads and touch what it writes, and the thread goes on at
// once: a kernel that gives numbers back waits for its own blocks, nothing else. So products, updates and inner
// products of several steps run interleaved, and while the thread waits for a message or a sum it takes part in the
// work, block by block, polling in between. Methods are written once, and not for this.
//
// Sums are formed chunk by chunk in the order that sweeps have, so the numbers are those of the other engines, bit for
// bit. Communication stays on the calling thread, in the order of the program. Whatever touches elements in another way
// settles first: copies of arrays, memory that is freed, operators that do not declare what they read
// (Operator::as_tasks).
#pragma once

#include <tacit/base/types.hpp>
#include <tacit/exec/caught.hpp>
#include <tacit/exec/parallel.hpp>

#include <array>
#include <cstddef>
#include <deque>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace tacit::exec {

/// An array that a kernel reads or writes: where element 0 stands, and the bytes of an element.
struct Touched {
  const void* data;
  std::size_t bytes;
  bool written;
  template <class T>
  static Touched read(const T* p) {
    return {p, sizeof(T), false};
  }
  template <class T>
  static Touched write(T* p) {
    return {p, sizeof(T), true};
  }
};

class Tasks {
 public:
  /// Elements begin to end of the kernel's arrays.
  using Body = std::function<void(std::size_t begin, std::size_t end)>;
  struct Record;  // of one task
  class Graph;    // of those that are not done

  /// The engine whose function the calling thread is in; null outside, and in tasks.
  static Tasks* current() noexcept { return current_; }

  /// Runs f with kernels as tasks, on threads() threads; `poll` pushes messages on and is called by this thread between
  /// tasks. All tasks are done when it returns or throws: what f throws, or else what a task has thrown.
  ///
  /// Once a task has thrown, those that follow do nothing, and the next call of the kernels below that begins or waits
  /// for work throws it in f, once.
  static void run(const std::function<void()>& f, std::function<void()> poll);

  /// Rows of a block of arrays of n elements: a number of whole chunks of every kernel that depends on n alone.
  static std::size_t block_of(std::size_t n) noexcept;
  /// Blocks of arrays of n elements that come first in every kernel: those whose elements others wait for.
  void put_first(std::size_t n, std::span<const std::size_t> blocks);
  /// All blocks of arrays of n elements, in the order in which kernels start them.
  std::span<const std::size_t> order(std::size_t n) { return order_of(n).blocks; }

  /// body over the n elements of the arrays touched, by blocks, some time before they are touched again.
  void start(const char* name, std::size_t n, std::span<const Touched> touched, Body body);
  /// The same, done when it returns. Nothing else is waited for.
  void finish(const char* name, std::size_t n, std::span<const Touched> touched, Body body);

  /// A task that reads and writes what stands at these addresses: first elements of blocks.
  void start(const char* name, std::span<const void* const> reads, std::span<const void* const> writes, bool urgent,
             std::function<void()> body);
  /// Waits for the tasks that write what stands at these addresses.
  void wait_for(std::span<const void* const> addresses);

  /// f(c) for c < count, after all else, done when it returns: for kernels that do not say what they touch.
  void each(std::size_t count, const std::function<void(std::size_t)>& f);
  /// Waits for all tasks.
  void settle() noexcept;
  /// Takes part in the work while the caller waits for something else; false when there is nothing to take part in.
  bool help();

  /// Within an InOrder.
  bool in_order() const { return in_order_ > 0; }
  /// While it lives every kernel is done before the next thing happens.
  class InOrder {
   public:
    explicit InOrder(bool needed) : tasks_(needed ? current_ : nullptr) {
      if (tasks_) tasks_->settle(), ++tasks_->in_order_;
    }
    InOrder(const InOrder&) = delete;
    ~InOrder() {
      if (tasks_) tasks_->settle(), --tasks_->in_order_;
    }

   private:
    Tasks* tasks_;
  };

  ~Tasks();

 private:
  explicit Tasks(std::function<void()> poll);
  void blocks(const char* name, std::size_t n, std::span<const Touched> touched, Body body,
              std::vector<Record*>* started);
  Record* start_record(const char* name, std::shared_ptr<const Body> body, std::size_t begin, std::size_t end,
                       std::span<const void* const> reads, std::span<const void* const> writes, bool urgent);
  void wait(Record* record);
  void wait_for_all(std::span<Record* const> records);
  void tell();

  struct Order {
    std::size_t n;
    std::vector<std::size_t> blocks;
    std::size_t first;  // of them come first
  };
  const Order& order_of(std::size_t n);

  static inline thread_local Tasks* current_ = nullptr;
  std::function<void()> poll_;
  int in_order_ = 0;
  std::deque<Order> orders_;
  std::vector<const void*> reads_, writes_;
  std::vector<Record*> started_;
  Caught caught_;  // by tasks
  bool told_ = false;
  std::unique_ptr<Graph> graph_;
};

/// Waits for all tasks of the calling thread's engine, if there is one.
inline void settle() noexcept {
  if (auto* tasks = Tasks::current()) tasks->settle();
}

/// True on the thread that a loop or a task is to push messages on from: the first of a team.
bool may_poll() noexcept;

/// f(c) for c < count: by parallel_for() where `parallel`, or by the engine's tasks, after what was started before.
/// What f throws is thrown when all threads have come back.
template <class F>
void each(std::size_t count, bool parallel, F&& f, std::size_t piece = by_shares) {
  if (auto* tasks = Tasks::current()) tasks->each(count, std::cref(f));
  else parallel_for(count, parallel, f, piece);
}

}  // namespace tacit::exec
