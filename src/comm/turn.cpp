#include <tacit/comm/turn.hpp>

#include "agreement/interrupt.hpp"

#include <tacit/base/error.hpp>
#include <tacit/exec/parallel.hpp>
#include "base/forks.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>

#include <pthread.h>

namespace tacit::comm {
namespace {

std::mutex around_mutex;
[[maybe_unused]] const int held_over_forks = hold_over_forks<+[]() -> std::mutex& { return around_mutex; }>();
std::function<void(const std::function<void()>&)> around_waits;

// Of all waits of the process, which are rare. Held while the process forks, so that a child finds it free.
std::mutex& waits_mutex() {
  static std::mutex& one = *new std::mutex;
  return one;
}
std::atomic<unsigned> forks{0};
}  // namespace

void set_around_waits(std::function<void(const std::function<void()>&)> around) {
  const std::lock_guard lock(around_mutex);
  around_waits = std::move(around);
}

namespace detail {

void wait_around(const std::function<void()>& wait) {
  std::function<void(const std::function<void()>&)> around;
  {
    const std::lock_guard lock(around_mutex);
    around = around_waits;
  }
  around ? around(wait) : wait();
}

// A thread. What another one reads of it changes under waits_mutex().
struct ThreadWithTurns {
  int held = 0;  // turns that this thread has
  bool has_end = false;
  Turns* waits_for = nullptr;
  static ThreadWithTurns& here() {
    static constinit thread_local ThreadWithTurns one;
    return one;
  }
  // When it ends, another thread may be looking at this one, which it knew as an owner a moment ago. Apart, so that
  // here() has nothing to check.
  struct End {
    ~End() { const std::lock_guard lock(waits_mutex()); }
  };
  void add_end() {
    static thread_local const End end;
    (void)&end;
    has_end = true;
  }
};

// The waiting threads of all turns, in the order of their arrival.
struct Waiting {
  ThreadWithTurns* thread;
  Turns* turns;
  std::condition_variable changed;

  static std::deque<Waiting*>& all() {
    static auto& queue = *new std::deque<Waiting*>;
    return queue;
  }
  /// In the child of a fork(), where no other thread exists.
  static void forget_others() {
    for (const Waiting* const w : all()) w->turns->waiting_.store(0);
    all().clear();
  }
  static Waiting* first_of(const Turns* turns) {
    for (Waiting* const w : all())
      if (w->turns == turns) return w;
    return nullptr;
  }
  Waiting(ThreadWithTurns& t, Turns* of) : thread(&t), turns(of) {
    all().push_back(this);
    ++turns->waiting_;
    thread->waits_for = turns;
  }
  ~Waiting() {
    thread->waits_for = nullptr;
    if (std::erase(all(), this) > 0) --turns->waiting_;
    if (Waiting* const w = first_of(turns)) w->changed.notify_one();
  }
  /// Whether the owner of what this thread waits for waits for a turn of this thread, perhaps through others. None of
  /// the threads looked at can go on meanwhile.
  bool in_a_circle() const {
    const Turns* of = turns;
    for (;;) {
      const ThreadWithTurns* const owner = of->owner_.load();
      if (!owner) return false;
      if (owner == thread) return true;
      const Turns* const next = owner->waits_for;
      if (!next || of->owner_.load() != owner) return false;
      of = next;
    }
  }
};

namespace {
[[maybe_unused]] const int holds_over_forks =
    pthread_atfork([] { waits_mutex().lock(); }, [] { waits_mutex().unlock(); },
                   [] {
                     forks.fetch_add(1);
                     Waiting::forget_others();
                     waits_mutex().unlock();
                   });
}  // namespace

unsigned Turns::forks_so_far() noexcept {
  return forks.load(std::memory_order_relaxed);
}
bool Turns::of_this_process() const {
  return made_after_ == forks_so_far();
}

bool Turns::grab(Thread& me) {
  if (!me.has_end) [[unlikely]]
    me.add_end();
  Thread* none = nullptr;
  if (!owner_.compare_exchange_strong(none, &me)) return false;
  forks_.store(forks_so_far(), std::memory_order_relaxed);
  depth_ = 1;
  place_ = me.held++;
  return true;
}

void Turns::wait_for(Thread& me, bool ask) {
  std::unique_lock lock(waits_mutex());
  Waiting mine(me, this);
  if (me.held > 0 && mine.in_a_circle())
    throw Error(ErrorKind::usage,
                "two threads wait for each other: each uses an operator and needs the other one's in a callback or a "
                "function; solve with both in one thread, or give each thread operators of its own");
  while (Waiting::first_of(this) != &mine || !grab(me)) {
    if (mine.changed.wait_for(lock, std::chrono::milliseconds(50)) != std::cv_status::timeout) continue;
    if (owner_.load() && forks_.load(std::memory_order_relaxed) != forks_so_far())
      throw Error(ErrorKind::usage,
                  "this operator or communicator was in use by another thread when the process was forked, and no "
                  "thread of this process can end that; make it anew here, or start processes by \"spawn\"");
    const struct Unlocked {
      std::unique_lock<std::mutex>& lock;
      explicit Unlocked(std::unique_lock<std::mutex>& l) : lock(l) { lock.unlock(); }
      ~Unlocked() { lock.lock(); }
    } unlocked(lock);
    if (ask && time_to_ask()) ask_user();
  }
}

Turns* Turns::enter(bool ask) {
  Thread& me = Thread::here();
  for (Turns* t = this;;) {
    if (t->held_by(me)) {
      ++t->depth_;
      return t;
    }
    if (Turns* const next = t->next_.load(std::memory_order_acquire)) {
      t = next;
      continue;
    }
    if (exec::detail::is_helper()) return nullptr;
    if (t->waiting_.load() > 0 || !t->grab(me)) wait_around([&] { t->wait_for(me, ask); });
    if (!t->next_.load(std::memory_order_acquire)) return t;
    t->leave();  // joined to others while this thread waited
  }
}

bool Turns::try_enter(Turns*& entered) {
  Thread& me = Thread::here();
  entered = nullptr;
  if (held_by(me)) ++depth_;
  else if (exec::detail::is_helper()) return true;
  else if (!grab(me)) return false;
  entered = this;
  return true;
}

void Turns::leave() noexcept {
  if (--depth_ > 0) return;
  --Thread::here().held;
  owner_.store(nullptr);
  if (waiting_.load() == 0) return;
  const std::lock_guard lock(waits_mutex());
  if (Waiting* const w = Waiting::first_of(this)) w->changed.notify_one();
}

Turns::Waited::Waited(Turns& turns) noexcept {
  try {
    turns_ = turns.enter(false);
  } catch (...) {  // no thread can end the other turn
  }
}

const std::shared_ptr<Turns>& Turns::last_of(const std::shared_ptr<Turns>& one) {
  const std::shared_ptr<Turns>* last = &one;
  while ((*last)->next_.load(std::memory_order_acquire)) last = &(*last)->joined_;
  return *last;
}

void Turns::join(const std::shared_ptr<Turns>& a, const std::shared_ptr<Turns>& b) {
  if (exec::detail::is_helper()) return;
  const Thread& me = Thread::here();
  for (;;) {
    std::shared_ptr<Turns> one = last_of(a), other = last_of(b);
    if (one == other) return;
    if (other < one) std::swap(one, other);  // all threads take two turns in one order
    struct Entered {
      Turns* turns;
      ~Entered() { turns->leave(); }
    };
    const bool had_one = one->held_by(me), had_other = other->held_by(me);
    const Entered first{one->enter()}, second{other->enter()};
    if (first.turns != one.get() || second.turns != other.get()) continue;  // joined by another thread meanwhile
    // The last of the chain is the one that this thread keeps longer.
    if (had_other && (!had_one || other->place_ < one->place_)) std::swap(one, other);
    other->joined_ = one;
    other->next_.store(one.get(), std::memory_order_release);
    return;
  }
}

}  // namespace detail
}  // namespace tacit::comm
