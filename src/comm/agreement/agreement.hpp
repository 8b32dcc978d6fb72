// Agreement: what the ranks of a communicator do so that an error on one of them is thrown on all, as the same Error,
// out of the same collective call; and what becomes of the communicator.
//
// Terms. All ranks enter and leave collective calls (comm::collective) in the same order; a rank's *position* counts
// both, so that equal positions are the same place of the program. A *notice* tells the other ranks that one cannot go
// on, and at which position. An *epoch* ends with each failure; message tags carry it, so that nothing sent before an
// agreement is received after it.
//
// States of a rank, for each of its communicators:
//
//   working    all operations are allowed
//   failed     this rank has an error, or has received a notice that concerns it: operations throw PeerFailure, which
//              unwinds to the next collective call
//   settling   this rank has told the others, given up what was pending, and takes part in the agreement
//   leaving    agreed: PeerFailure unwinds to the call that all ranks leave, which throws the Error
//   lost       ranks were cut off while they agreed: every call says so, for good
//
//   working  -> failed     own error, or a notice that concerns this rank (concerns())
//   failed   -> settling   in fail(), which ends every collective call that an exception leaves
//   settling -> leaving    all ranks have come, and have made the same reductions
//   leaving  -> working    fail() of the call that all leave
//   settling -> lost       the transport has failed again, or an outer call's communicator has (PeerFailure of that)
//   any      -> lost       another rank says that it is
//
// Invariants (tests/comm/protocol_test.cpp goes through all orders of events):
//
//   1. No rank waits for one that will not come. Whoever fails sends a notice to all, and every wait looks for notices,
//      on this communicator and on those with calls open around. A rank that has not yet come to the position of a
//      failure does not heed it: the failed one has done its part of what is waited for there.
//   2. No result of an epoch that has ended is used: what is pending is given up, complete or not, and says so.
//   3. All throw the same: the notice of the lowest rank that had failed when it came to the agreement. Each rank holds
//      that notice before any rank goes on.
//   4. All throw out of the same call: the innermost that is open on every rank.
//   5. Nobody reports success where a rank has failed: a call ends with a reduction (agree()) that a failed rank never
//      starts. Its last messages are the two generals' problem: a transport that breaks there is an error of one rank.
//   6. After an agreement, ranks have the same epoch, position and numbers of operations: the communicator is as new.
//
// Communicators whose calls are nested. A rank that leaves a call of one communicator because another has failed says
// so by a notice there (leave_unfinished), and the next call on it fails on all ranks and settles. So it is with what a
// rank had begun and drops while an exception unwinds (drop_unfinished). An agreement that waits for ranks which have
// left for a failure further out is cut short: the communicator is lost.
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
  /// What the agreement needs of the communicator that it belongs to.
  class Services {
   public:
    virtual std::unique_lock<std::recursive_mutex> lock() = 0;
    virtual void send(const Notice& notice) = 0;
    virtual std::optional<Notice> receive_notice() = 0;
    /// Sums, messages and exchanges that are pending; and what ranks have found out together.
    virtual void give_up() = 0;
    /// Reduction over all ranks, in the present epoch.
    virtual Global reduce(Global value, Operation operation) = 0;
    virtual void wait_for(const std::function<bool()>& condition) = 0;
    /// Numbers of operations that ranks have reached differently become the same. Collective.
    virtual void renumber() = 0;
    /// A fresh transport, whose tags have not been used; gives the number of its epochs. Collective; cannot be left.
    virtual int renew() = 0;
    virtual std::weak_ptr<Agreement> shared() = 0;

   protected:
    ~Services() = default;
  };

  Agreement(Services& services, int rank, int size, int epochs)
      : services_(services), rank_(rank), size_(size), epochs_(epochs) {}
  Agreement(const Agreement&) = delete;

  int epoch() const { return epoch_; }
  /// An agreement is to come, or a call to be left.
  bool failed() const { return state_ != State::working; }
  bool settling() const { return state_ == State::settling; }

  // ---- what operations call ----

  /// Before an operation begins. PeerFailure where none is allowed.
  void begin() {
    if (failed() && !settling()) [[unlikely]]
      throw PeerFailure(this);
    agreed_ = 0;
  }
  /// PeerFailure if another rank has failed, at or before the place in the program where this rank is, here or on a
  /// communicator with a call open around.
  void check();
  /// The same, and asks the user; of waits.
  void look_around();
  /// In a catch block of a wait: notes what it leaves behind.
  void wait_ended_by_error();
  /// This rank's own error, met where nothing may be thrown (poll(), destructors) or not yet agreed upon: what waits
  /// throws it until the ranks have settled, for what was under way cannot be completed.
  bool has_error() const { return error_ != nullptr; }
  [[noreturn]] void throw_error();
  /// Keeps the error that is being handled, where a call is open that will settle it.
  void keep_error() noexcept;
  /// In a catch block of what nothing may be thrown from.
  void swallow() noexcept;
  /// Something unfinished is dropped while an exception unwinds. Where no call is open here, the call on another
  /// communicator that it unwinds may fail, and leaves this one unfinished then.
  void drop_unfinished() noexcept;

  // ---- what collective calls call ----

  /// A call is entered.
  void enter(Call& call) noexcept;
  /// A call is left without an error.
  void leave() { ++position_; }
  /// A call is left by `error`: Communicator::fail.
  [[noreturn]] void fail(std::exception_ptr error);

  /// Who is not heeded while a rank waits: in the reduction that ends a call the user is not (whoever breaks off there
  /// has told the others already that all is well), and in one before a call of the transport that cannot be left,
  /// other communicators are not, either.
  enum class Ignores { nobody, user, user_and_others };
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

  /// Takes in the notices that have come.
  void listen();
  bool has_failed();
  /// Has a failure at the notice's place to be heeded here and now?
  bool concerns(const Notice& notice) const;
  /// Others hear of this failure where they are, so that all can settle now.
  bool can_settle() const;
  /// This communicator has a call open around one on another that settles, and has failed: is that one to be cut short?
  /// Not if those who failed here had settled it first: then all ranks have come to it.
  bool cuts_short() const;
  /// This rank leaves something unfinished and unsettled, because another communicator has failed that has a call open
  /// around. Ranks that are not in that call, or use this communicator after it, learn of it.
  void leave_unfinished(const void* failed_one);
  /// On the failure of a call: what was dropped in it.
  static void leave_dropped(const Call& failing);
  Notice notice_of(ErrorKind kind, std::string text, bool names_its_rank) const;
  /// What this rank tells the others; nothing where it only has heard of their failure. Throws where this failure is
  /// not one of this communicator's.
  std::optional<Notice> own_notice(const std::exception_ptr& error);
  /// All ranks come here and agree on what they throw, and out of which call.
  void settle(const std::optional<Notice>& own);
  void lose();

  Services& services_;
  const int rank_, size_;
  State state_ = State::working;
  int epoch_ = 0, epochs_;
  std::int64_t position_ = 0;
  std::map<std::pair<int, int>, Notice> notices_;  // by epoch and rank
  Ignores ignores_ = Ignores::nobody;
  std::exception_ptr error_;
  // Of the last agreement.
  int level_left_ = 0;        // not 0 on the way out: level of the call that all ranks leave
  Notice chosen_;             // what they throw there
  std::uint64_t agreed_ = 0;  // its number, while nothing has been done since
  int settled_ = 0;           // failures so far
  int settled_within_ = 0;    // failures of other communicators since, while a call was open here
};

}  // namespace tacit::comm::detail
