#include "agreement.hpp"

#include "interrupt.hpp"

#include <tacit/base/free_memory.hpp>

#include <algorithm>
#include <atomic>
#include <vector>

namespace tacit::comm::detail {
namespace {

// The epoch of a notice that the communicator is lost.
constexpr int any_epoch = -1;
// The depth of a notice that its sender has ended.
constexpr int ended = -1;
// The position of a notice that the communicator is lost is the epoch of the error that was not agreed on; or this.
constexpr std::int64_t no_error = -1;

int depth_of(const Call* call) {
  int depth = 0;
  for (; call; call = call->outer) ++depth;
  return depth;
}

// An operation begun on a communicator without an open call, and dropped within a call on another one.
struct Dropped {
  const Call* call;
  std::int64_t began;
  std::weak_ptr<Agreement> what;
};
thread_local std::vector<Dropped> dropped;

}  // namespace

Call*& Call::innermost() noexcept {
  static thread_local Call* call = nullptr;
  return call;
}

const Call* Call::of(const void* communicator) noexcept {
  const Call* call = innermost();
  while (call && call->on != communicator) call = call->outer;
  return call;
}

Call::Call(Agreement& agreement) noexcept : outer(innermost()), on(&agreement) {
  agreement.enter(*this);
  innermost() = this;
}

void Agreement::enter(Call& call) noexcept {
  call.began = ++position_;
  if (const Call* const around = Call::of(this)) call.level = around->level + 1;
  else settled_within_ = 0;
  agreed_ = 0;
}

// ---- notices ----

void Agreement::listen() {
  while (auto notice = services_.receive_notice()) {
    if (notice->epoch == any_epoch) become_lost(*notice);
    else if (notice->depth == ended) departed_[notice->rank] = {notice->epoch, notice->position};
    else if (notice->epoch >= epoch_ - int(settling())) notices_[{notice->epoch, notice->rank}] = *notice;
  }
}

bool Agreement::has_failed() {
  if (size_ == 1) return false;
  listen();
  if (settling()) return false;
  for (auto n = notices_.lower_bound({epoch_, 0});
       state_ == State::working && n != notices_.end() && n->first.first == epoch_; ++n)
    if (concerns(n->second)) state_ = State::failed;
  return failed();
}

bool Agreement::concerns(const Notice& notice) const {
  if (notice.depth == 0 || notice.position > position_) return notice.position <= position_;
  // A rank that is itself in the failed call receives that failure's notice, and settles that failure first.
  const Call* call = Call::innermost();
  for (int above = depth_of(call) - notice.depth; above > 0; --above) call = call->outer;
  return depth_of(call) < notice.depth || call->on == this || call->on->settled_ > notice.settled;
}

bool Agreement::can_settle() const {
  for (auto n = notices_.lower_bound({epoch_, 0}); n != notices_.end() && n->first.first == epoch_; ++n)
    if (concerns(n->second)) return true;
  return false;
}

bool Agreement::cuts_short() const {
  bool all_had_settled = false;
  for (auto n = notices_.lower_bound({epoch_, 0}); n != notices_.end() && n->first.first == epoch_; ++n) {
    if (n->second.depth != 0 || n->second.settled <= settled_within_) return true;
    all_had_settled = true;
  }
  return state_ == State::lost || !all_had_settled;
}

void Agreement::check() {
  const auto looks_failed = [](Agreement& agreement) {
    const auto lock = agreement.services_.lock();
    return agreement.has_failed();
  };
  const bool was_settling = settling();
  const Agreement* failed_one = looks_failed(*this) ? this : nullptr;
  // A rank that has failed in an enclosing call will not enter this one, so the outermost failure decides.
  const bool alone = ignores_ == Ignores::user_and_others;
  for (const Call* call = alone ? nullptr : Call::innermost(); call; call = call->outer)
    if (call->on != this && looks_failed(*call->on) && (!was_settling || call->on->cuts_short())) failed_one = call->on;
  if (failed_one) throw PeerFailure(failed_one);
  refuse_departed();
  for (const Call* call = alone ? nullptr : Call::innermost(); call; call = call->outer)
    if (call->on != this) call->on->refuse_departed();
}

void Agreement::refuse_departed() {
  if (departed_.empty() || departing_ || state_ != State::working) [[likely]]
    return;
  for (const auto& [rank, at] : departed_)
    if (at.epoch == epoch_ && at.position < position_)
      throw Error(ErrorKind::environment, message("rank ", rank, " has ended, and takes no part in a call that rank ",
                                                  rank_, " is in: collective calls are made by all ranks"));
}

void Agreement::depart(std::int64_t position) {
  const auto lock = services_.lock();
  Notice notice{rank_, epoch_, position, ErrorKind::environment, "", ended, 0};
  services_.send(notice);
  departing_ = true;
  position_ += std::int64_t(1) << 40;  // whatever notice comes concerns this rank
}

bool Agreement::all_departed() {
  const auto lock = services_.lock();
  listen();
  return std::count_if(departed_.begin(), departed_.end(), [&](const auto& d) { return d.second.epoch == epoch_; }) ==
         size_ - 1;
}

void Agreement::look_around() {
  check();
  if (!settling() && ignores_ == Ignores::nothing && Call::innermost() && time_to_ask()) ask_user();
}

// ---- errors of this rank that are not thrown yet, and operations that it leaves unfinished ----

void Agreement::wait_ended_by_error() {
  if (settling()) return;
  try {
    throw;
  } catch (const PeerFailure& failure) {
    if (failure.on != this) leave_unfinished(failure.on);
  } catch (...) {
    const Call* const around = Call::innermost();
    if (around && !Call::of(this)) leave_unfinished(around->on);  // the call on that communicator will fail
    else keep_error();
  }
}

void Agreement::keep_error() noexcept {
  // Without an open call there is no agreement to come: the error is then thrown once and not kept.
  if (const auto lock = services_.lock(); !error_ && Call::of(this)) error_ = std::current_exception();
}

void Agreement::swallow() noexcept {
  try {
    throw;
  } catch (const PeerFailure&) {  // its notice is found again
  } catch (...) {
    const auto lock = services_.lock();
    if (!error_) error_ = std::current_exception();
  }
}

void Agreement::throw_error() {
  const auto thrown = error_;
  if (!Call::of(this)) error_ = nullptr;
  std::rethrow_exception(thrown);
}

void Agreement::leave_unfinished(const void* failed_one) {
  const auto lock = services_.lock();
  const Call* const call = Call::of(failed_one);
  if (failed() || size_ == 1 || !call) return;
  state_ = State::failed;
  // The position where the outermost call that is left began. Ranks at earlier positions can still finish their
  // operations, and meet the failure when they reach that call.
  std::int64_t place = position_;
  for (const Call* left = Call::innermost(); left != call; left = left->outer)
    if (left->on == this) place = left->began;
  Notice notice = notice_of(ErrorKind::environment,
                            "a call on this communicator was left because of a failure on another one", false);
  notice.position = place, notice.depth = depth_of(call), notice.settled = call->on->settled_;
  services_.send(notice);
  notices_[{epoch_, rank_}] = std::move(notice);
}

void Agreement::drop_unfinished() noexcept try {
  if (size_ == 1 || Call::of(this)) return;
  const Call* call = Call::innermost();
  while (call && call->on->size_ == 1) call = call->outer;
  if (call) dropped.push_back({call, call->began, services_.shared()});
} catch (const std::bad_alloc&) {  // an exception is unwinding already
}

void Agreement::leave_dropped(const Call& failing) {
  for (const auto& d : dropped)
    if (d.call == &failing && d.began == failing.began)
      if (const auto what = d.what.lock()) what->leave_unfinished(failing.on);
  // Forget those of calls that have ended.
  std::erase_if(dropped, [&](const Dropped& d) {
    const Call* call = failing.outer;
    while (call && !(call == d.call && call->began == d.began)) call = call->outer;
    return !call;
  });
}

// ---- the agreement ----

Notice Agreement::notice_of(ErrorKind kind, std::string text, bool names_its_rank) const {
  text.resize(std::min<std::size_t>(text.size(), 4000));
  if (!names_its_rank) text = message("rank ", rank_, ": ", text);
  return {rank_, epoch_, position_, kind, std::move(text), 0, settled_within_};
}

std::optional<Notice> Agreement::own_notice(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const PeerFailure& e) {
    if (e.on == this && failed()) return {};
    if (e.on != this && Call::of(e.on)) {
      leave_unfinished(e.on);
      throw;
    }
    return notice_of(ErrorKind::environment, e.what(), false);
  } catch (const Error& e) {
    if (e.agreed() && e.agreement() == agreed_) throw;  // agreed by all ranks of this communicator just now
    return notice_of(e.kind(), e.what(), e.agreed());   // the text names the rank where the error was thrown first
  } catch (const std::bad_alloc&) {
    return notice_of(ErrorKind::memory, out_of_memory(), false);
  } catch (const std::exception& e) {
    return notice_of(ErrorKind::environment, e.what(), false);
  } catch (...) {
    return notice_of(ErrorKind::environment, "an exception of unknown type", false);
  }
}

void Agreement::settle(const std::optional<Notice>& own) {
  const auto lock = services_.lock();
  const int failed_epoch = epoch_;
  if (own && !notices_.contains({failed_epoch, rank_})) {
    services_.send(*own);
    notices_[{failed_epoch, rank_}] = *own;
  }
  state_ = State::settling;
  services_.give_up();
  // The reductions below use the tags of the next epoch, which no message of this one can match.
  ++epoch_;
  error_ = nullptr;

  const bool fails = notices_.contains({failed_epoch, rank_});
  const Global lowest = services_.reduce(fails ? Global(rank_) : Global(size_), Operation::min);
  services_.wait_for([&] {
    listen();
    return notices_.contains({failed_epoch, int(lowest)});
  });
  // The calls that are open on every rank: those that the rank at the least position has begun, without those that
  // others have left.
  const Global least = services_.reduce(position_, Operation::min);
  Global common = 0;
  for (const Call* call = Call::innermost(); call; call = call->outer)
    common += call->on == this && call->began <= least;
  const Global level = services_.reduce(common, Operation::min);
  // All ranks hold the text before any goes on, so that no notice of this epoch is missed; and ranks that failed at
  // different positions continue with the same numbers.
  position_ = services_.reduce(position_, Operation::max);
  services_.renumber();
  chosen_ = notices_[{failed_epoch, int(lowest)}];
  notices_.erase(notices_.begin(), notices_.lower_bound({epoch_, 0}));
  if (epoch_ + 1 >= epochs_) {  // the last tags
    const While committed(*this, Ignores::user_and_others);
    services_.reduce(0, Operation::min);
    epochs_ = services_.renew();
    notices_.clear();
    departed_.clear();
    epoch_ = 0;
  }
  ++settled_;
  departing_ = false;
  settled_within_ = 0;
  for (const Call* call = Call::innermost(); call; call = call->outer)
    if (call == Call::of(call->on) && call->on != this) ++call->on->settled_within_;
  if (!settling()) return;  // another rank has sent notice that it is lost
  level_left_ = int(std::max<Global>(level, 1));
  state_ = State::leaving;
}

void Agreement::settle_or_lose(const std::optional<Notice>& own) {
  const int failed_epoch = epoch_;
  const auto lose_silently = [&] { lose({rank_, any_epoch, no_error, ErrorKind::environment, "", 0, 0}); };
  // By the error of the lowest rank that is known here to have failed.
  const auto lose_by = [&](std::string why) {
    try {
      const auto known = notices_.lower_bound({failed_epoch, 0});
      const bool of_own = known == notices_.end() || (own && known->first > std::pair(failed_epoch, rank_));
      Notice first = of_own ? own.value() : known->second;
      why.resize(std::min<std::size_t>(why.size(), 800));
      first.text.resize(std::min<std::size_t>(first.text.size(), 3000));
      const bool another = first.text.find(why) == std::string::npos;
      first.text += " (the communicator is lost: the agreement on this error was interrupted";
      first.text += another ? ": " + why + ")" : ")";
      lose({rank_, any_epoch, first.epoch, first.kind, first.text, 0, 0});
    } catch (const std::exception&) {  // out of memory, above all; the others must not wait
      lose_silently();
    }
  };
  try {
    settle(own);
  } catch (const PeerFailure& e) {
    lose_silently();
    if (e.on != this) throw;
  } catch (const std::exception& e) {
    lose_by(e.what());
  } catch (...) {
    lose_by("an exception of unknown type");
  }
}

void Agreement::lose(const std::string& why) {
  lose({rank_, any_epoch, no_error, ErrorKind::usage, why, 0, 0});
}

void Agreement::lose(const Notice& last) {
  const auto lock = services_.lock();
  if (state_ == State::lost) return;
  become_lost(last);
  services_.send(last);
}

void Agreement::become_lost(const Notice& last) {
  // An error that this rank has thrown is not thrown again.
  const bool thrown = last.position < epoch_ - int(settling());
  if (last.position == no_error && lost_because_.empty()) lost_because_ = last.text;
  if (!thrown && state_ != State::lost) unsettled_ = last;
  state_ = State::lost;
}

void Agreement::throw_as_lost(std::uint64_t agreement) {
  if (const auto first = std::exchange(unsettled_, {})) throw Error(first->kind, first->text).as_agreed(agreement);
  if (!lost_because_.empty()) throw Error(ErrorKind::usage, lost_because_).as_agreed(agreement);
  throw Error(ErrorKind::environment,
              "the communicator is lost: the agreement on an error was interrupted; make another communicator")
      .as_agreed(agreement);
}

void Agreement::fail(std::exception_ptr error) {
  if (size_ == 1) std::rethrow_exception(error);
  const Call* const call = Call::of(this);
  const int level = call ? call->level : 1;
  if (call) leave_dropped(*call);
  static std::atomic<std::uint64_t> agreements = 0;
  if (level_left_ == 0) {
    const auto own = own_notice(error);
    if (state_ != State::lost) {
      // This rank has sent its notice already, or has none to send; the others may not have reached the position where
      // it concerns them.
      if ((!own || notices_.contains({epoch_, rank_})) && !can_settle()) throw PeerFailure(this);
      settle_or_lose(own);
    }
  }
  if (level_left_ == 0) {
    if (level > 1) throw PeerFailure(this);
    throw_as_lost(++agreements);
  }
  if (level > level_left_) throw PeerFailure(this);
  level_left_ = 0;
  if (state_ == State::leaving) state_ = State::working;  // unless another rank has sent notice that it is lost
  agreed_ = ++agreements;
  throw Error(chosen_.kind, chosen_.text).as_agreed(agreed_);
}

}  // namespace tacit::comm::detail
