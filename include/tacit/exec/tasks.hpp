// Tasks: the engine that runs a method as a graph of tasks.
//
//   Tasks::run([&] { method(); }, [&] { comm.poll(); });
//
// While the function runs, each host kernel that the calling thread calls is split into blocks of rows. A block is a
// task that depends on earlier tasks that write what it reads, or read or write what it writes. The thread goes on at
// once; only a kernel that returns numbers waits, for its own blocks. So products, updates and inner products of
// several steps run interleaved, and while the thread waits for a message or a reduction it executes tasks and polls
// between them. Methods need no change.
//
// Sums are formed in the order of ordinary sweeps, so results equal those of the other engines bit for bit. The calling
// thread communicates, in program order. Accesses that are not declared wait for all tasks first: copies of arrays,
// freeing of memory, and operators that do not declare what they read (Operator::as_tasks).
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

/// An array that a kernel reads or writes: the address of element 0, and the bytes of an element.
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
  /// Does the elements [begin, end) of the kernel's arrays.
  using Body = std::function<void(std::size_t begin, std::size_t end)>;
  struct Record;  // one task
  class Graph;    // the unfinished tasks

  /// The engine whose run() the calling thread is in; null outside, and within tasks.
  static Tasks* current() noexcept { return current_; }

  /// Runs f with kernels as tasks, on threads() threads; this thread calls `poll` between tasks to advance messages.
  /// All tasks are done when it returns or throws; it rethrows the exception of f, else that of a task.
  ///
  /// After an exception in a task, later tasks do nothing, and the next call below that starts or waits for work
  /// rethrows it in f, once.
  static void run(const std::function<void()>& f, std::function<void()> poll);

  /// Rows of a block of arrays of n elements: a multiple of the chunks of all kernels, which depends on n only.
  static std::size_t block_of(std::size_t n) noexcept;
  /// Sets the blocks of arrays of n elements that every kernel starts first: those that neighbours wait for.
  void put_first(std::size_t n, std::span<const std::size_t> blocks);
  /// All blocks of arrays of n elements, in the order in which kernels start them.
  std::span<const std::size_t> order(std::size_t n) { return order_of(n).blocks; }

  /// Starts body over the n elements of the arrays touched, by blocks; it is done before a later kernel touches them.
  void start(const char* name, std::size_t n, std::span<const Touched> touched, Body body);
  /// The same, and waits for these blocks only.
  void finish(const char* name, std::size_t n, std::span<const Touched> touched, Body body);

  /// Starts a task that reads and writes the blocks whose first elements are at these addresses.
  void start(const char* name, std::span<const void* const> reads, std::span<const void* const> writes, bool urgent,
             std::function<void()> body);
  /// Waits for the tasks that write the blocks at these addresses.
  void wait_for(std::span<const void* const> addresses);

  /// Calls f(c) for c < count after all earlier tasks, and waits: for kernels that do not declare what they touch.
  void each(std::size_t count, const std::function<void(std::size_t)>& f);
  /// Waits for all tasks.
  void settle() noexcept;
  /// Executes a task while the caller waits for something else; false when there is none.
  bool help();

  /// Whether an InOrder object exists.
  bool in_order() const { return in_order_ > 0; }
  /// While such an object exists kernels are done one after the other, in program order.
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
  void rethrow_caught();

  struct Order {
    std::size_t n;
    std::vector<std::size_t> blocks;
    std::size_t first;  // the number of blocks that come first
  };
  const Order& order_of(std::size_t n);

  static inline thread_local Tasks* current_ = nullptr;
  std::function<void()> poll_;
  int in_order_ = 0;
  std::deque<Order> orders_;
  std::vector<const void*> reads_, writes_;
  std::vector<Record*> started_;
  Caught caught_;  // exceptions of tasks
  bool rethrown_ = false;
  std::unique_ptr<Graph> graph_;
};

/// Waits for all tasks of the calling thread's engine, if any.
inline void settle() noexcept {
  if (auto* tasks = Tasks::current()) tasks->settle();
}

/// Whether the calling thread is the first of its team, which polls messages from within loops and tasks.
bool may_poll() noexcept;

/// Calls f(c) for c < count: by parallel_for(), or under the task engine by tasks, after all earlier ones. An exception
/// of f is rethrown when all threads have returned.
template <class F>
void each(std::size_t count, bool parallel, F&& f, std::size_t piece = by_shares) {
  if (auto* tasks = Tasks::current()) tasks->each(count, std::cref(f));
  else parallel_for(count, parallel, f, piece);
}

}  // namespace tacit::exec
