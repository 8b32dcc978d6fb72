#include <tacit/exec/tasks.hpp>

#include <tacit/base/error.hpp>
#include <tacit/base/trace.hpp>
#include <tacit/exec/backoff.hpp>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <unordered_map>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace tacit::exec {

// Its address is what a wait for this very task depends on.
struct Tasks::Record {
  enum State { waiting, running, done };
  std::atomic<int> state = waiting;
  const char* name = "";
  std::shared_ptr<const Body> body;
  std::size_t begin = 0, end = 0;
  bool urgent = false;
  const std::function<void()>* poll = nullptr;
  Caught* caught = nullptr;
  int rank = 0;
};

class Tasks::Backend {
 public:
  virtual ~Backend() = default;
  virtual void spawn(Record* record, std::span<const void* const> reads, std::span<const void* const> writes) = 0;
  virtual void wait(Record* record) = 0;                              // may run others meanwhile
  virtual void wait_for(std::span<const void* const> addresses) = 0;  // their writers
  virtual void settle() = 0;

  Record* make() {
    while (!unfinished_.empty() && unfinished_.front()->state.load(std::memory_order_acquire) == Record::done) {
      free_.push_back(unfinished_.front());
      unfinished_.pop_front();
    }
    if (free_.empty()) free_.push_back(&all_.emplace_back());
    Record* const record = free_.front();
    free_.pop_front();
    record->state.store(Record::waiting, std::memory_order_relaxed);
    unfinished_.push_back(record);
    return record;
  }
  /// A task that nobody has begun, the oldest; null if there is none.
  Record* oldest_waiting() const {
    for (Record* record : unfinished_)
      if (record->state.load(std::memory_order_acquire) == Record::waiting) return record;
    return nullptr;
  }
  static void execute(Record* record, bool on_caller) noexcept {
    record->state.store(Record::running, std::memory_order_relaxed);
    const auto* const poll = record->poll;
    Caught& caught = *record->caught;
    caught([&] {
      if (Trace::on()) Trace::set_rank(record->rank);
      const Span span(record->name, "task");
      (*record->body)(record->begin, record->end);
    });
    record->body.reset();
    record->state.store(Record::done, std::memory_order_release);
    if (on_caller && *poll) caught(*poll);
  }

 private:
  std::deque<Record> all_;
  std::deque<Record*> unfinished_, free_;  // in the order of their start
};

namespace {

std::atomic<Executor> chosen{Executor::openmp};
thread_local bool helper = false;  // of Threads

#ifdef _OPENMP
// The runtime knows the dependences. All tasks are children of the region's first thread, whose team runs them.
class OpenMp final : public Tasks::Backend {
 public:
  void spawn(Tasks::Record* record, std::span<const void* const> reads, std::span<const void* const> writes) override {
    [[maybe_unused]] const auto* const in = reinterpret_cast<const char* const*>(reads.data());
    const auto* const out = reinterpret_cast<const char* const*>(writes.data());
    const int ins = int(reads.size()), outs = int(writes.size());
    const char* const near = outs ? out[0] : reinterpret_cast<const char*>(record);
    const int priority = record->urgent ? 1 : 0;
#pragma omp task firstprivate(record) depend(iterator(int i = 0 : ins), in : in[i][0])                    \
    depend(iterator(int i = 0 : outs), inout : out[i][0]) depend(out : *record) priority(priority) affinity(*near)
    execute(record, may_poll());
    (void)near;
  }
  void wait(Tasks::Record* record) override {
    for (Backoff running;;) {
      const int state = record->state.load(std::memory_order_acquire);
      if (state == Tasks::Record::done) return;
      if (state == Tasks::Record::waiting) {
#pragma omp taskwait depend(in : *record)
      } else {  // another thread is at it, and perhaps without a processor
        running.pause();
      }
    }
  }
  void wait_for(std::span<const void* const> addresses) override {
    [[maybe_unused]] const auto* const in = reinterpret_cast<const char* const*>(addresses.data());
    const int ins = int(addresses.size());
    if (!ins) return;
#pragma omp taskwait depend(iterator(int i = 0 : ins), in : in[i][0])
  }
  void settle() override {
#pragma omp taskwait
  }
};
#endif

// Plain threads and a table of who writes and reads what.
class Threads final : public Tasks::Backend {
  using Record = Tasks::Record;
  struct Node {
    Record* record;
    int missing = 0;  // tasks it waits for
    std::vector<Node*> followers;
    bool done = false;
  };

 public:
  explicit Threads(int helpers) {
    for (int i = 0; i < helpers; ++i)
      threads_.emplace_back([this] {
        helper = true;
        std::unique_lock lock(mutex_);
        while (!stop_)
          if (!run_one(lock, false)) changed_.wait(lock);
      });
  }
  ~Threads() override {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    for (auto& thread : threads_) thread.join();
  }
  void spawn(Record* record, std::span<const void* const> reads, std::span<const void* const> writes) override {
    std::lock_guard lock(mutex_);
    Node* const node = &nodes_.emplace_back(Node{record, 0, {}, false});
    const auto after = [&](Node* other) {
      if (!other || other == node || other->done) return;
      if (std::find(other->followers.begin(), other->followers.end(), node) != other->followers.end()) return;
      other->followers.push_back(node);
      ++node->missing;
    };
    for (const void* p : reads) {
      auto& place = places_[p];
      after(place.writer);
      place.readers.push_back(node);
    }
    for (const void* p : writes) {
      auto& place = places_[p];
      after(place.writer);
      for (Node* reader : place.readers) after(reader);
      place.readers.clear();
      place.writer = node;
    }
    ++open_;
    of_[record] = node;
    if (node->missing == 0) ready(node);
  }
  void wait(Record* record) override {
    std::unique_lock lock(mutex_);
    Node* const node = of_[record];
    until(lock, [&] { return node->done; });
  }
  void wait_for(std::span<const void* const> addresses) override {
    std::unique_lock lock(mutex_);
    for (const void* p : addresses)
      if (Node* const writer = places_[p].writer) until(lock, [&] { return writer->done; });
  }
  void settle() override {
    std::unique_lock lock(mutex_);
    until(lock, [&] { return open_ == 0; });
    places_.clear();
    of_.clear();
    nodes_.clear();
  }

 private:
  struct Place {
    Node* writer = nullptr;
    std::vector<Node*> readers;
  };
  void ready(Node* node) {
    if (node->record->urgent) ready_.push_front(node);
    else ready_.push_back(node);
    changed_.notify_all();
  }
  bool run_one(std::unique_lock<std::mutex>& lock, bool on_caller) {
    if (ready_.empty()) return false;
    Node* const node = ready_.front();
    ready_.pop_front();
    lock.unlock();
    execute(node->record, on_caller);
    lock.lock();
    node->done = true;
    --open_;
    for (Node* follower : node->followers)
      if (--follower->missing == 0) ready(follower);
    changed_.notify_all();
    return true;
  }
  template <class Condition>
  void until(std::unique_lock<std::mutex>& lock, Condition&& condition) {
    while (!condition())
      if (!run_one(lock, true)) changed_.wait(lock);
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Node> nodes_;
  std::deque<Node*> ready_;
  std::unordered_map<const void*, Place> places_;
  std::unordered_map<Record*, Node*> of_;
  std::size_t open_ = 0;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

bool Tasks::available() noexcept {
#ifdef _OPENMP
  return true;
#else
  return chosen.load() == Executor::threads;
#endif
}
bool may_poll() noexcept {
#ifdef _OPENMP
  if (omp_get_thread_num() != 0) return false;
#endif
  return !helper && !detail::is_helper();
}
void Tasks::use(Executor which) noexcept { chosen.store(which); }
Executor Tasks::executor() noexcept { return chosen.load(); }

Tasks::Tasks(Backend& backend, std::function<void()> poll) : backend_(backend), poll_(std::move(poll)) {}
Tasks::~Tasks() = default;

void Tasks::run(const std::function<void()>& f, std::function<void()> poll) {
  if (!available())
    throw Error(ErrorKind::environment,
                "the engine \"tasks\" needs a build with OpenMP (TACIT_OPENMP=ON); take \"polling\" or \"thread\"");
  Caught caught;  // not out of a parallel region
  const auto guarded = [&](Backend& backend) {
    caught([&] {
      Tasks tasks(backend, std::move(poll));
      Tasks* const before = std::exchange(current_, &tasks);
      Caught by_caller;
      by_caller(f);
      tasks.settle();
      current_ = before;
      by_caller.rethrow();
      tasks.caught_.rethrow();
    });
  };
  if (chosen.load() == Executor::threads) {
    Threads threads(2);
    guarded(threads);
  } else {
#ifdef _OPENMP
    OpenMp openmp;
#pragma omp parallel num_threads(openmp_threads())
#pragma omp master
    guarded(openmp);
#endif
  }
  caught.rethrow();
}

std::size_t Tasks::block_of(std::size_t n) noexcept {
  // Chunks of vector kernels are of 2048 and 8192 elements; those of block kernels grow once there are 256 of 8192 numbers,
  // of which a complex element has two. Some 32 blocks of at least 16384 elements.
  constexpr std::size_t run = 8192, most = 256, wanted = 32;
  const auto parts = [](std::size_t numbers) { return std::max<std::size_t>(((numbers + run - 1) / run + most - 1) / most, 1); };
  const std::size_t runs = (n + run - 1) / run, real_part = parts(n), complex_part = parts(2 * n);
  std::size_t k = std::max<std::size_t>((runs + wanted - 1) / wanted, runs > 16 ? 2 : 1);
  while (k % real_part != 0 || 2 * k % complex_part != 0) ++k;
  return k * run;
}

const Tasks::Order& Tasks::order_of(std::size_t n) {
  for (const auto& order : orders_)
    if (order.n == n) return order;
  auto& order = orders_.emplace_back(Order{n, {}, 0});
  const std::size_t size = block_of(n), count = (n + size - 1) / size;
  for (std::size_t b = 0; b < count; ++b) order.blocks.push_back(b);
  return order;
}

void Tasks::put_first(std::size_t n, std::span<const std::size_t> blocks) {
  auto& order = const_cast<Order&>(order_of(n));
  if (order.first == blocks.size()) return;
  order.first = std::size_t(std::stable_partition(order.blocks.begin(), order.blocks.end(),
                                                  [&](std::size_t b) {
                                                    return std::find(blocks.begin(), blocks.end(), b) != blocks.end();
                                                  }) -
                            order.blocks.begin());
}

Tasks::Record* Tasks::start_record(const char* name, std::shared_ptr<const Body> body, std::size_t begin, std::size_t end,
                                   std::span<const void* const> reads, std::span<const void* const> writes, bool urgent) {
  tell();
  Record* const record = backend_.make();
  record->name = name;
  record->body = std::move(body);
  record->begin = begin, record->end = end;
  record->urgent = urgent;
  record->poll = &poll_;
  record->caught = &caught_;
  record->rank = Trace::rank();
  backend_.spawn(record, reads, writes);
  return record;
}

void Tasks::blocks(const char* name, std::size_t n, std::span<const Touched> touched, Body body,
                   std::vector<Record*>* started) {
  const auto shared = std::make_shared<const Body>(std::move(body));
  const std::size_t size = block_of(n);
  const auto& order = order_of(n);
  for (std::size_t at = 0; at < order.blocks.size(); ++at) {
    const std::size_t b = order.blocks[at], begin = b * size, end = std::min(n, begin + size);
    reads_.clear(), writes_.clear();
    for (const auto& t : touched)
      (t.written ? writes_ : reads_).push_back(static_cast<const char*>(t.data) + begin * t.bytes);
    // An array stands once, and as written if it is: a runtime need not take more.
    std::sort(writes_.begin(), writes_.end());
    writes_.erase(std::unique(writes_.begin(), writes_.end()), writes_.end());
    std::sort(reads_.begin(), reads_.end());
    reads_.erase(std::unique(reads_.begin(), reads_.end()), reads_.end());
    std::erase_if(reads_, [&](const void* p) { return std::binary_search(writes_.begin(), writes_.end(), p); });
    Record* const record = start_record(name, shared, begin, end, reads_, writes_, started || at < order.first);
    if (started) started->push_back(record);
  }
}

void Tasks::start(const char* name, std::size_t n, std::span<const Touched> touched, Body body) {
  if (in_order_) return finish(name, n, touched, std::move(body));
  blocks(name, n, touched, std::move(body), nullptr);
}

void Tasks::finish(const char* name, std::size_t n, std::span<const Touched> touched, Body body) {
  auto mine = std::exchange(started_, {});  // kept for the next time
  mine.clear();
  try {
    blocks(name, n, touched, std::move(body), &mine);
  } catch (...) {  // they may read what the caller is about to leave
    settle();
    throw;
  }
  wait_for_all(mine);
  started_ = std::move(mine);
}

void Tasks::wait_for_all(std::span<Record* const> records) {
  // Those first that nobody has begun: waiting for another thread's would leave them lying.
  for (auto* record : records)
    if (record->state.load(std::memory_order_acquire) == Record::waiting) backend_.wait(record);
  for (auto* record : records) backend_.wait(record);
  tell();
}

void Tasks::tell() {
  if (!caught_.any() || told_) return;
  told_ = true;  // once: the second time might be within a destructor, on the way out
  settle();
  caught_.rethrow();
}

void Tasks::start(const char* name, std::span<const void* const> reads, std::span<const void* const> writes, bool urgent,
                  std::function<void()> body) {
  Record* const record = start_record(
      name, std::make_shared<const Body>([body = std::move(body)](std::size_t, std::size_t) { body(); }), 0, 0, reads,
      writes, urgent);
  if (in_order_) wait(record);
}

void Tasks::wait_for(std::span<const void* const> addresses) {
  backend_.wait_for(addresses);
  tell();
}

void Tasks::each(std::size_t count, const std::function<void(std::size_t)>& f) {
  settle();
  auto mine = std::exchange(started_, {});
  mine.clear();
  // Few tasks of neighbouring pieces.
  const std::size_t pieces = std::min<std::size_t>(count, 32);
  const auto body = std::make_shared<const Body>([&](std::size_t begin, std::size_t end) {
    for (std::size_t c = begin; c < end; ++c) f(c);
  });
  try {
    for (std::size_t p = 0; p < pieces; ++p)
      mine.push_back(start_record("chunks", body, count * p / pieces, count * (p + 1) / pieces, {}, {}, false));
  } catch (...) {
    settle();
    throw;
  }
  wait_for_all(mine);
  started_ = std::move(mine);
}

void Tasks::wait(Record* record) {
  backend_.wait(record);
  tell();
}
void Tasks::settle() noexcept { backend_.settle(); }

bool Tasks::help() {
  Record* const record = backend_.oldest_waiting();
  if (!record) return false;
  backend_.wait(record);
  return true;
}

}  // namespace tacit::exec
