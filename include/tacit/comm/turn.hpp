// Turns: which thread of this process uses a communicator.
//
// Communicators, and the operators and vectors on them, are used by one thread at a time. A thread takes its turn in
// every collective call and for every product, and may take it again while it has it. On one rank other threads wait,
// in the order of their arrival. On several ranks no order of waiting threads would be the same on all ranks, so a
// second thread gets an error.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <utility>

namespace tacit::comm {

class Communicator;

/// Sets the function that is called for each wait for another thread's turn; it calls its argument, once. Python's
/// releases the interpreter lock meanwhile, which the other thread may need to end its turn.
void set_around_waits(std::function<void(const std::function<void()>&)> around);

namespace detail {

struct Waiting;

/// Calls wait() by the function that set_around_waits() has set.
void wait_around(const std::function<void()>& wait);

// The turns at one or more communicators. Those of one rank that are used together have one turn: a thread that uses
// the product of two matrices uses both. They are then joined for good, as a chain to the one whose lock counts.
class Turns {
 public:
  /// Waits until no other thread has its turn; returns where leave() is to be called. Null on a helper of a loop, which
  /// works for the thread that began the loop. Error(usage) where threads would wait for each other for ever, or where
  /// the process is a fork and the turn is of a thread that exists in its parent only, and, if `ask`,
  /// Error(interrupted).
  Turns* enter(bool ask = true);
  /// The same without waiting; false if another thread has its turn.
  bool try_enter(Turns*& entered);
  void leave() noexcept;
  /// False in the child of a fork(), of turns made before it.
  bool of_this_process() const;
  /// A turn that is waited for in a destructor; goes without where that is impossible.
  class Waited {
   public:
    explicit Waited(Turns& turns) noexcept;
    Waited(const Waited&) = delete;
    ~Waited() {
      if (turns_) turns_->leave();
    }

   private:
    Turns* turns_ = nullptr;
  };
  /// Gives both one turn, after waiting for it.
  static void join(const std::shared_ptr<Turns>& a, const std::shared_ptr<Turns>& b);

  // On several ranks: a second thread has asked for its turn, so that the call of the first one fails, too.
  std::atomic<bool> contested = false;

 private:
  friend struct Waiting;
  using Thread = struct ThreadWithTurns;
  static unsigned forks_so_far() noexcept;
  static const std::shared_ptr<Turns>& last_of(const std::shared_ptr<Turns>& one);
  bool held_by(const Thread& thread) const { return owner_.load(std::memory_order_relaxed) == &thread; }
  bool grab(Thread& me);
  void wait_for(Thread& me, bool ask);

  std::atomic<Thread*> owner_ = nullptr;
  std::atomic<int> waiting_ = 0;
  int depth_ = 0;                    // of the owner, as the next one
  int place_ = 0;                    // the number of turns that the owner had before this one
  std::atomic<unsigned> forks_ = 0;  // of the process, when the owner took it
  const unsigned made_after_ = forks_so_far();
  std::atomic<Turns*> next_ = nullptr;
  std::shared_ptr<Turns> joined_;  // owns *next_
};

}  // namespace detail

/// The calling thread's turn at a communicator, for as long as this object exists; destroyed on the thread that made
/// it. On one rank waits for other threads. On several: Error(usage) on this rank if another thread has its turn; the
/// call of that thread then fails on all ranks, and the communicator cannot be used any more.
class [[nodiscard]] Turn {
 public:
  explicit Turn(const Communicator& comm);
  Turn(Turn&& other) noexcept : turns_(std::exchange(other.turns_, nullptr)) {}
  Turn& operator=(Turn&&) = delete;
  ~Turn() { end(); }
  void end() noexcept {
    if (auto* const turns = std::exchange(turns_, nullptr)) turns->leave();
  }

 private:
  detail::Turns* turns_;
};

}  // namespace tacit::comm
