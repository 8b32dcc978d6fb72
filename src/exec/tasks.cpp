#include <tacit/exec/tasks.hpp>

#include <tacit/base/trace.hpp>

#include "crew.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <unordered_map>

namespace tacit::exec {

struct Tasks::Record {
  enum State { waiting, done };
  std::atomic<int> state = done;
  const char* name = "";
  std::shared_ptr<const Body> body;
  std::size_t begin = 0, end = 0;
  bool urgent = false;
  int rank = 0;
  std::uint64_t serial = 0;  // used by the calling thread, since records are reused
  // Under the lock.
  std::size_t missing = 0;  // number of tasks that it waits for
  std::vector<Record*> followers;
  Record* next = nullptr;  // that is ready
};

// Reads and writes of addresses are known to the calling thread only; the ready list and dependences are protected by
// the lock.
class Tasks::Graph {
  using Lock = detail::Crew::Lock;

 public:
  Graph(const std::function<void()>& poll, Caught& caught) : poll_(poll), caught_(caught) {}

  /// Runs f() while the other threads of the team execute tasks.
  template <class F>
  void run(F&& f) {
    crew_.run(f, [this](Lock& lock) { return run_one(lock, false); });
  }

  Record* spawn(const char* name, std::shared_ptr<const Body> body, std::size_t begin, std::size_t end,
                std::span<const void* const> reads, std::span<const void* const> writes, bool urgent) {
    Record* const record = make();
    record->name = name, record->body = std::move(body), record->begin = begin, record->end = end,
    record->urgent = urgent;
    record->rank = Trace::rank();
    record->missing = 1;  // held back until its dependences are known
    try {
      before_.clear();
      const Ref self{record, record->serial};
      for (const void* p : reads) {
        auto& place = places_[p];
        after(place.writer);
        auto& readers = place.readers;
        if (readers.size() == readers.capacity()) std::erase_if(readers, [](const Ref& r) { return !r.is_open(); });
        readers.push_back(self);
      }
      for (const void* p : writes) {
        auto& place = places_[p];
        after(place.writer);
        for (const Ref& reader : place.readers) after(reader);
        place.readers.clear();
        place.writer = self;
      }
    } catch (...) {  // out of memory: the dependences are incomplete
      record->body.reset();
      record->state.store(Record::done, std::memory_order_release);
      settle();
      throw;
    }
    Lock lock(crew_.mutex);
    ++open_;
    for (Record* other : before_) {
      if (other == record || other->state.load(std::memory_order_relaxed) == Record::done) continue;
      try {
        other->followers.push_back(record);
        ++record->missing;
      } catch (...) {
        wait(lock, *other);
      }
    }
    release(record);
    return record;
  }
  /// Waits until a task is done; executes others meanwhile.
  void wait(const Record* record) {
    if (record->state.load(std::memory_order_acquire) == Record::done) return;
    Lock lock(crew_.mutex);
    wait(lock, *record);
  }
  /// Waits for the tasks that write these addresses.
  void wait_for(std::span<const void* const> addresses) {
    for (const void* p : addresses)
      if (const auto place = places_.find(p); place != places_.end() && place->second.writer.is_open())
        wait(place->second.writer.record);
  }
  void settle() noexcept {
    Lock lock(crew_.mutex);
    until(lock, nullptr, [&] { return open_ == 0; });
    if (places_.size() > 4096) places_.clear();  // drops addresses of freed memory
  }
  bool help() {
    if (ready_.load(std::memory_order_relaxed) == 0) return false;
    Lock lock(crew_.mutex);
    return run_one(lock, true);
  }

 private:
  struct Ref {
    Record* record = nullptr;
    std::uint64_t serial = 0;
    bool is_open() const {
      return record && record->serial == serial && record->state.load(std::memory_order_acquire) != Record::done;
    }
  };
  struct Place {
    Ref writer;
    std::vector<Ref> readers;  // since then
  };

  Record* make() {
    while (!unfinished_.empty() && unfinished_.front()->state.load(std::memory_order_acquire) == Record::done) {
      free_.push_back(unfinished_.front());
      unfinished_.pop_front();
    }
    if (free_.empty()) free_.push_back(&all_.emplace_back());
    Record* const record = free_.front();
    unfinished_.push_back(record);
    free_.pop_front();
    ++record->serial;
    record->state.store(Record::waiting, std::memory_order_relaxed);
    return record;
  }
  void after(const Ref& other) {
    if (other.is_open()) before_.push_back(other.record);
  }

  // The functions below need the lock.
  void release(Record* record) {
    if (--record->missing > 0) return;
    record->next = nullptr;
    if (!first_) {
      first_ = last_ = record;
    } else if (record->urgent) {
      record->next = first_, first_ = record;
    } else {
      last_->next = record, last_ = record;
    }
    ready_.fetch_add(1, std::memory_order_relaxed);
    crew_.work.announce(false);
    if (caller_waits_) caller_.announce(false);
  }
  bool run_one(Lock& lock, bool on_caller) {
    Record* const record = first_;
    if (!record) return false;
    first_ = record->next;
    ready_.fetch_sub(1, std::memory_order_relaxed);
    lock.unlock();
    caught_([&] {
      // Kernels called within a task must not start tasks.
      Tasks* const before = std::exchange(current_, nullptr);
      struct Restore {
        Tasks* before;
        ~Restore() { current_ = before; }
      } const restore{before};
      if (Trace::on()) Trace::set_rank(record->rank);
      const Span span(record->name, "task");
      (*record->body)(record->begin, record->end);
    });
    record->body.reset();
    lock.lock();
    for (Record* follower : record->followers) release(follower);
    record->followers.clear();
    --open_;
    if (caller_waits_ && (record == awaited_ || open_ == 0)) caller_.announce(false);
    record->state.store(Record::done, std::memory_order_release);  // from here on the record may be reused
    if (on_caller && poll_) {
      lock.unlock();
      caught_(poll_);
      lock.lock();
    }
    return true;
  }
  void wait(Lock& lock, const Record& record) {
    until(lock, &record, [&] { return record.state.load(std::memory_order_relaxed) == Record::done; });
  }
  template <class Condition>
  void until(Lock& lock, const Record* awaited, Condition&& condition) {
    while (!condition()) {
      if (run_one(lock, true)) continue;
      caller_waits_ = true, awaited_ = awaited;
      caller_.wait(lock);
      caller_waits_ = false;
    }
  }

  const std::function<void()>& poll_;
  Caught& caught_;
  std::deque<Record> all_;
  std::deque<Record*> unfinished_, free_;  // in order of starting
  std::unordered_map<const void*, Place> places_;
  std::vector<Record*> before_;
  detail::Crew crew_;
  detail::Gate caller_;
  bool caller_waits_ = false;
  const Record* awaited_ = nullptr;
  std::size_t open_ = 0;
  Record *first_ = nullptr, *last_ = nullptr;  // list of ready tasks
  std::atomic<std::size_t> ready_ = 0;
};

bool may_poll() noexcept {
  return !detail::is_helper();
}

Tasks::Tasks(std::function<void()> poll) : poll_(std::move(poll)), graph_(std::make_unique<Graph>(poll_, caught_)) {}
Tasks::~Tasks() = default;

void Tasks::run(const std::function<void()>& f, std::function<void()> poll) {
  Tasks tasks(std::move(poll));
  tasks.graph_->run([&] {
    Tasks* const before = std::exchange(current_, &tasks);
    Caught by_caller;
    by_caller(f);
    tasks.settle();
    current_ = before;
    by_caller.rethrow();
  });
  tasks.caught_.rethrow();
}

std::size_t Tasks::block_of(std::size_t n) noexcept {
  // Vector kernels have chunks of 2048 and 8192 elements; those of block kernels grow once there are 256 of 8192
  // numbers (a complex element has two). About 32 blocks of at least 16384 elements.
  constexpr std::size_t run = 8192, most = 256, wanted = 32;
  const auto parts = [](std::size_t numbers) {
    return std::max<std::size_t>(((numbers + run - 1) / run + most - 1) / most, 1);
  };
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
  order.first = std::size_t(
      std::stable_partition(order.blocks.begin(), order.blocks.end(),
                            [&](std::size_t b) { return std::find(blocks.begin(), blocks.end(), b) != blocks.end(); }) -
      order.blocks.begin());
}

Tasks::Record* Tasks::start_record(const char* name, std::shared_ptr<const Body> body, std::size_t begin,
                                   std::size_t end, std::span<const void* const> reads,
                                   std::span<const void* const> writes, bool urgent) {
  rethrow_caught();
  return graph_->spawn(name, std::move(body), begin, end, reads, writes, urgent);
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
    // List each array once, as written if it is.
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
  auto mine = std::exchange(started_, {});  // keeps the allocation
  mine.clear();
  try {
    blocks(name, n, touched, std::move(body), &mine);
  } catch (...) {  // they may read memory that the caller is about to free
    settle();
    throw;
  }
  wait_for_all(mine);
  started_ = std::move(mine);
}

void Tasks::wait_for_all(std::span<Record* const> records) {
  for (const auto* record : records) graph_->wait(record);
  rethrow_caught();
}

void Tasks::rethrow_caught() {
  if (!caught_.any() || rethrown_) return;
  rethrown_ = true;  // once: a second throw might come from a destructor during unwinding
  settle();
  caught_.rethrow();
}

void Tasks::start(const char* name, std::span<const void* const> reads, std::span<const void* const> writes,
                  bool urgent, std::function<void()> body) {
  Record* const record =
      start_record(name, std::make_shared<const Body>([body = std::move(body)](std::size_t, std::size_t) { body(); }),
                   0, 0, reads, writes, urgent);
  if (in_order_) wait(record);
}

void Tasks::wait_for(std::span<const void* const> addresses) {
  graph_->wait_for(addresses);
  rethrow_caught();
}

void Tasks::each(std::size_t count, const std::function<void(std::size_t)>& f) {
  settle();
  auto mine = std::exchange(started_, {});
  mine.clear();
  // A few tasks, each of consecutive pieces.
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
  graph_->wait(record);
  rethrow_caught();
}
void Tasks::settle() noexcept {
  graph_->settle();
}

bool Tasks::help() {
  return graph_->help();
}

}  // namespace tacit::exec
