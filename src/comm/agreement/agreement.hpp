// Agreement: the protocol by which an error on one rank of a communicator is thrown on all, as the same Error, out of
// the same collective call, and which restores the communicator afterwards.
//
// Terms. All ranks enter and leave collective calls (comm::collective) in the same order; a rank's *position* counts
// both, so that equal positions are the same place in the program. A *notice* informs the other ranks that one has
// failed, and at which position. An *epoch* ends with each failure; message tags carry it, so that nothing sent before
// an agreement is received after it.
//
// States of a rank, for each of its communicators:
//
//   working    all operations are allowed
//   failed     this rank has an error, or has received a notice that concerns it: operations throw PeerFailure, which
//              unwinds to the next collective call
//   settling   this rank has sent its notice, given up what was pending, and takes part in the agreement
//   leaving    agreed: PeerFailure unwinds to the call that all ranks leave, which throws the Error
//   lost       an agreement was interrupted: every call throws from now on, the first one the error that was not agreed
//              on, if this rank has not thrown it
//
//   working  -> failed     own error, or a notice that concerns this rank (concerns())
//   failed   -> settling   in fail(), which ends every collective call that an exception leaves
//   settling -> leaving    all ranks have entered the agreement and completed its reductions
//   leaving  -> working    fail() of the call that all leave
//   settling -> lost       the transport has failed again, or an outer call's communicator has (PeerFailure of that)
//   any      -> lost       the notice of another rank that it is, or two threads of this rank in calls at once
//
// Invariants (tests/comm/protocol_test.cpp goes through all orders of events):
//
//   1. No rank waits for ever. A failing rank sends a notice to all, and every wait checks for notices on this
//      communicator and on those with enclosing calls. A rank that has not reached the position of a failure ignores
//      it, since the failed rank has done its part of everything before that position.
//   2. No result of an ended epoch is used: pending operations are given up, complete or not, and throw when they are
//      waited for.
//   3. All ranks throw the same Error: that of the lowest rank that had failed when it entered the agreement. Every
//      rank holds it before any rank goes on.
//   4. All ranks throw it out of the same call: the innermost that is open on every rank.
//   5. No rank reports success where another has failed: a call ends with a reduction (agree()) that a failed rank
//      never starts. This cannot hold for the agreement's last messages (the two generals' problem): a transport that
//      breaks there is an error of one rank.
//   6. After an agreement all ranks have the same epoch, position and operation numbers, and the communicator works on.
//
// A rank that ends (its program, or its thread's function) makes a last call, in which it informs the others and waits
// until all have come to theirs (Communicator::depart). A rank that waits within a later call than the last one of a
// rank that has ended has an error. The ended rank is in its last call, so it takes part in the agreement, and then
// makes its last call again.
//
// Nested calls on several communicators. A rank that leaves a call on one communicator because another has failed sends
// a notice there (leave_unfinished); the next call on it fails on all ranks and settles. The same holds for an
// operation that a rank drops while an exception unwinds (drop_unfinished). An agreement that waits for ranks which
// have left because of a failure in an enclosing call is interrupted: the communicator is lost.
#pragma once

#include <tacit/base/types.hpp>
#include <tacit/comm/agreement/failure.hpp>
#include <tacit/comm/transport.hpp>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace tacit::comm::detail {

class Agreement {
 public:
  /// The services of the communicator that the agreement uses.
  class Services {
   public:
    virtual std::unique_lock<std::recursive_mutex> lock() = 0;
    virtual void send(const Notice& notice) = 0;
    virtual std::optional<Notice> receive_notice() = 0;
    /// Gives up pending sums, messages and exchanges, and measurements shared by the ranks.
    virtual void give_up() = 0;
    /// A reduction over all ranks, in the current epoch.
    virtual Global reduce(Global value, Operation operation) = 0;
    virtual void wait_for(const std::function<bool()>& condition) = 0;
    /// Makes the operation numbers of all ranks equal. Collective.
    virtual void renumber() = 0;
    /// Replaces the transport by a fresh one with unused tags; returns the number of its epochs. Collective; cannot be
    /// cancelled.
    virtual int renew() = 0;
    virtual std::weak_ptr<Agreement> shared() = 0;

   protected:
    ~Services() = default;
  };

  Agreement(Services& services, int rank, int size, int epochs)
      : services_(services), rank_(rank), size_(size), epochs_(epochs) {}
  Agreement(const Agreement&) = delete;

  int epoch() const { return epoch_; }
  /// Whether an agreement is pending, or a call is being left.
  bool failed() const { return state_ != State::working; }
  bool settling() const { return state_ == State::settling; }

  // ---- called by operations ----

  /// Called before an operation begins. PeerFailure in a state that allows none.
  void begin() {
    if (failed() && !settling()) [[unlikely]]
      throw PeerFailure(this);
    agreed_ = 0;
  }
  /// PeerFailure if another rank has failed at or before this rank's position, on this communicator or on one with an
  /// enclosing call.
  void check();
  /// The same, and checks for an interrupt by the user; called by waits.
  void look_around();
  /// Called in the catch block of a wait: records an operation that stays unfinished.
  void wait_ended_by_error();
  /// Whether this rank has an error that occurred where nothing may be thrown (poll(), destructors) or is not agreed
  /// upon yet. Waits throw it until the ranks have settled, since pending operations cannot complete.
  bool has_error() const { return error_ != nullptr; }
  [[noreturn]] void throw_error();
  /// Keeps the error being handled, where an open call will settle it.
  void keep_error() noexcept;
  /// Called in the catch block of functions that must not throw.
  void swallow() noexcept;
  /// Of this rank's last call, before which it was at `position`: informs the others.
  void depart(std::int64_t position);
  /// Whether all other ranks are in their last call.
  bool all_departed();
  std::int64_t position() const { return position_; }
  bool lost() const { return state_ == State::lost; }
  /// Called when an unfinished operation is dropped while an exception unwinds. Without an open call here, the
  /// enclosing call on another communicator may fail, and then leaves this communicator unfinished.
  void drop_unfinished() noexcept;

  // ---- called by collective calls ----

  /// Enters a call.
  void enter(Call& call) noexcept;
  /// Leaves a call without an error.
  void leave() { ++position_; }
  /// Ends the use of this communicator on all ranks: their calls throw, with `why` as the text.
  void lose(const std::string& why);
  /// Leaves a call by `error`; implements Communicator::fail.
  [[noreturn]] void fail(std::exception_ptr error);

  /// What waits ignore: in the reduction that ends a call, interrupts by the user (the rank has already contributed
  /// that it succeeded); in a reduction before a transport call that cannot be cancelled, also failures of other
  /// communicators.
  enum class Ignores { nothing, user, user_and_others };
  class While {
   public:
    While(Agreement& agreement, Ignores who)
        : ignores_(agreement.ignores_), before_(std::exchange(ignores_, std::max(ignores_, who))) {}
    While(const While&) = delete;
    ~While() { ignores_ = before_; }

   private:
    Ignores& ignores_;
    const Ignores before_;
  };

 private:
  enum class State { working, failed, settling, leaving, lost };

  /// Receives the notices that have arrived.
  void listen();
  bool has_failed();
  /// Error where a rank has ended before the call that this rank is in.
  void refuse_departed();
  /// Whether a notice concerns this rank at its present position.
  bool concerns(const Notice& notice) const;
  /// Whether the failure concerns all ranks at their positions, so that all can settle now.
  bool can_settle() const;
  /// Whether a failure of this communicator, which has an open call enclosing one on another communicator that is
  /// settling, interrupts that agreement. Not if the ranks that failed here had settled the inner failure before: then
  /// all ranks take part in it.
  bool cuts_short() const;
  /// Called when this rank leaves a call or an operation unfinished because a communicator with an enclosing call has
  /// failed. Sends a notice for ranks that are not in that call, or use this communicator afterwards.
  void leave_unfinished(const void* failed_one);
  /// When a call fails: leaves the communicators unfinished whose operations were dropped in it.
  static void leave_dropped(const Call& failing);
  Notice notice_of(ErrorKind kind, std::string text, bool names_its_rank) const;
  /// The notice that this rank sends for its error; nothing where it only follows another rank's failure. Rethrows
  /// where the failure is not one of this communicator's.
  std::optional<Notice> own_notice(const std::exception_ptr& error);
  /// All ranks enter this and agree on the Error that they throw, and out of which call.
  void settle(const std::optional<Notice>& own);
  /// settle(), or the communicator is lost.
  void settle_or_lose(const std::optional<Notice>& own);
  /// The end of this communicator, of which this rank informs the others unless another one has.
  void lose(const Notice& last);
  void become_lost(const Notice& last);
  [[noreturn]] void throw_as_lost(std::uint64_t agreement);

  Services& services_;
  const int rank_, size_;
  State state_ = State::working;
  int epoch_ = 0, epochs_;
  std::int64_t position_ = 0;
  std::map<std::pair<int, int>, Notice> notices_;  // by epoch and rank
  Ignores ignores_ = Ignores::nothing;
  struct Departure {
    int epoch = 0;
    std::int64_t position = 0;
  };
  std::map<int, Departure> departed_;  // ranks that have ended
  bool departing_ = false;             // this rank is in its last call
  std::exception_ptr error_;
  std::string lost_because_;
  std::optional<Notice> unsettled_;  // the error whose agreement was interrupted, until this rank throws it
  // Of the last agreement.
  int level_left_ = 0;        // not 0 while unwinding: level of the call that all ranks leave
  Notice chosen_;             // the error that they throw there
  std::uint64_t agreed_ = 0;  // its number, until the next call
  int settled_ = 0;           // failures so far
  int settled_within_ = 0;    // failures of other communicators within this one's open calls
};

}  // namespace tacit::comm::detail
