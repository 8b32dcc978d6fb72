#include "state.hpp"

#include <tacit/base/trace.hpp>

#include <atomic>
#include <chrono>
#include <mutex>

namespace tacit::comm {

namespace {

// The lower rank's values become those of both: partners do the same with the same operands, and where these are equal
// but for their bits (zeros, NaNs), both take the lower one's.
template <class T>
void combine(T* lower, const T* upper, std::size_t n, Operation operation) {
  // A NaN on one rank must not vanish: it wins.
  const auto first_nan = [](T a, T b) { return b != b && a == a; };
  switch (operation) {
    case Operation::sum:
      for (std::size_t i = 0; i < n; ++i) lower[i] += upper[i];
      break;
    case Operation::min:
      for (std::size_t i = 0; i < n; ++i)
        lower[i] = upper[i] < lower[i] || first_nan(lower[i], upper[i]) ? upper[i] : lower[i];
      break;
    case Operation::max:
      for (std::size_t i = 0; i < n; ++i)
        lower[i] = upper[i] > lower[i] || first_nan(lower[i], upper[i]) ? upper[i] : lower[i];
      break;
  }
}

void combine(std::byte* lower, const std::byte* upper, std::size_t n, Number number, Operation operation) {
  switch (number) {
    case Number::float32:
      return combine(reinterpret_cast<float*>(lower), reinterpret_cast<const float*>(upper), n, operation);
    case Number::float64:
      return combine(reinterpret_cast<double*>(lower), reinterpret_cast<const double*>(upper), n, operation);
    case Number::int64:
      return combine(reinterpret_cast<Global*>(lower), reinterpret_cast<const Global*>(upper), n, operation);
  }
}

std::mutex interrupt_mutex;
std::function<bool()> interrupt_check;

bool time_to_ask() {
  using clock = std::chrono::steady_clock;
  static thread_local clock::time_point last{};
  const auto now = clock::now();
  if (now - last < std::chrono::milliseconds(50)) return false;
  last = now;
  return true;
}

void ask_user() {
  std::function<bool()> ask;
  {
    std::lock_guard lock(interrupt_mutex);
    ask = interrupt_check;
  }
  if (ask && ask()) throw Error(ErrorKind::interrupted, "interrupted by the user");
}

// Of a notice that is heard in any epoch.
constexpr int any_epoch = -1;

}  // namespace

namespace detail {

Call*& Call::innermost() noexcept {
  static thread_local Call* call = nullptr;
  return call;
}

const Call* Call::of(const void* state) noexcept {
  const Call* call = innermost();
  while (call && call->state != state) call = call->outer;
  return call;
}

Call::Call(State& s) noexcept : outer(innermost()), state(&s), began(++s.position) {
  if (const Call* const before = of(state)) level = before->level + 1;
  else s.settled_within = 0;
  s.agreement = 0;
  innermost() = this;
}

State::~State() {
  const auto lock = transport_lock->take();
  for (auto& slot : slots) {
    if (slot->send.active)
      transport->cancel(slot->send, std::make_shared<std::vector<std::byte>>(std::move(slot->value)));
    if (slot->receive.active) transport->cancel(slot->receive, nullptr);
  }
}

SumSlot& State::start(const void* values, std::size_t n, Number number, Operation operation, bool counted) {
  begin();
  const int channel = int(sums_started % sum_channels);
  // Messages of two sums with one tag must not meet.
  if (SumSlot* const before = of_channel[channel]; before && before->busy && before->channel == channel) [[unlikely]]
    wait_until([&] { return !before->busy; });
  ++sums_started;
  const auto lock = transport_lock->take();
  SumSlot* slot = nullptr;
  for (auto& s : slots)
    if (!s->busy && !s->owned) {
      slot = s.get();
      break;
    }
  if (!slot) {
    slot = slots.emplace_back(std::make_unique<SumSlot>()).get();
    slot->number_of = int(slots.size());
  }
  slot->began = Trace::on() ? wall_time() : -1;
  const std::size_t bytes = n * (number == Number::float32 ? 4 : 8);
  slot->value.resize(bytes);
  slot->incoming.resize(bytes);
  if (bytes) std::memcpy(slot->value.data(), values, bytes);
  slot->count = n;
  slot->number = number;
  slot->operation = operation;
  slot->channel = channel;
  slot->counted = counted;
  slot->busy = true;
  slot->done = slot->given_up = false;
  slot->native = algorithm == SumAlgorithm::native && counted && operation == Operation::sum && !native_lost &&
                 transport->has_native_sum();
  of_channel[channel] = slot;
  if (size == 1) {
    slot->finish();
    return *slot;
  }
  slot->uncaught = std::uncaught_exceptions();
  const SimulatedRank::For phase(simulated, counted ? "sum" : "agree", true);
  if (simulated) simulated->sum_started(*transport, channel);
  try {
    if (slot->native) {
      slot->send = transport->start_native_sum(slot->value.data(), n, number, operation);
    } else {
      slot->round = -1;
      begin_round(*slot);
    }
  } catch (...) {
    slot->give_up();
    keep_error();
    throw;
  }
  if (slot->busy) post();
  return *slot;
}

Global State::reduce(Global value, Operation operation) {
  SumSlot& slot = start(&value, 1, Number::int64, operation, false);
  struct Owner {
    SumSlot& slot;
    explicit Owner(SumSlot& s) : slot(s) { slot.owned = true; }
    ~Owner() { slot.owned = false; }
  } const owner(slot);
  const SimulatedRank::For phase(simulated, "agree");
  wait_until([&] { return slot.done; });
  if (simulated) simulated->sum_taken(*transport, slot.channel);
  std::memcpy(&value, slot.value.data(), sizeof value);
  return value;
}

void State::begin_round(SumSlot& s) {
  const int surplus = size - power;
  const bool folds = rank < 2 * surplus;
  const int t = tag(s.channel);
  if (s.round == -1) {
    if (folds && rank % 2 == 1) {
      s.send = transport->send(rank - 1, t, s.value.data(), s.value.size());
      return;
    }
    if (folds) {
      s.receive = transport->receive(rank + 1, t, s.incoming.data(), s.incoming.size());
      return;
    }
    s.round = 0;
  }
  if ((1 << s.round) < power) {
    const int me = folds ? rank / 2 : rank - surplus, other = me ^ (1 << s.round);
    const int partner = other < surplus ? 2 * other : other + surplus;
    s.send = transport->send(partner, t, s.value.data(), s.value.size());
    s.receive = transport->receive(partner, t, s.incoming.data(), s.incoming.size());
    return;
  }
  if (folds) {  // told to the odd neighbour, which is the last thing
    s.send = transport->send(rank + 1, t, s.value.data(), s.value.size());
    return;
  }
  s.finish();
}

void State::advance(SumSlot& s) try {
  const int surplus = size - power;
  const bool folds = rank < 2 * surplus, odd = folds && rank % 2 == 1;
  while (s.busy) {
    if (s.send.active && !transport->test(s.send)) return;
    if (s.receive.active && !transport->test(s.receive)) return;
    if (s.native) {
      s.finish();
    } else if (odd) {
      if (s.round == -1) {  // my values are folded; wait for the result
        s.round = 0;
        s.receive = transport->receive(rank - 1, tag(s.channel), s.value.data(), s.value.size());
      } else {
        s.finish();
      }
    } else if (s.round == -1 || (1 << s.round) < power) {
      const int me = folds ? rank / 2 : rank - surplus;
      const bool lower = s.round == -1 || (me & (1 << s.round)) == 0;
      if (!lower) s.value.swap(s.incoming);
      combine(s.value.data(), s.incoming.data(), s.count, s.number, s.operation);
      ++s.round;
      begin_round(s);
    } else {
      s.finish();
    }
  }
} catch (...) {  // or it would go on without what it has missed
  s.give_up();
  throw;
}

void State::progress() {
  const auto lock = transport_lock->take();
  if (in_progress_) return;
  struct Guard {  // also when a message fails
    bool& flag;
    explicit Guard(bool& f) : flag(f) { flag = true; }
    ~Guard() { flag = false; }
  } guard(in_progress_);
  for (auto& s : slots)
    if (s->busy) advance(*s);
  if (deferred > 0) [[unlikely]]
    for (Exchange* exchange : exchanges) exchange->help();
}

bool State::push_on() {
  const auto lock = transport_lock->take();
  bool pending = false;
  try {
    progress();
    for (Exchange* exchange : exchanges) pending = exchange->push_on() || pending;
  } catch (...) {  // thrown by the next wait
    swallow();
    return false;
  }
  for (auto& slot : slots) pending = pending || slot->busy;
  return pending;
}

void State::listen() {
  while (auto notice = transport->poll_notice()) {
    if (notice->epoch == any_epoch) lost = failed = true;
    else if (notice->epoch >= epoch - int(settling)) notices[{notice->epoch, notice->rank}] = *notice;
  }
}

bool State::has_failure() {
  if (size == 1) return false;
  listen();
  if (settling) return lost;
  for (auto n = notices.lower_bound({epoch, 0}); n != notices.end() && n->first.first == epoch; ++n)
    failed = failed || concerns(n->second);
  return failed;
}

int depth_of(const Call* call) {
  int depth = 0;
  for (; call; call = call->outer) ++depth;
  return depth;
}

bool State::concerns(const Notice& notice) const {
  if (notice.depth == 0 || notice.position > position) return notice.position <= position;
  // Whoever is in the call that has failed will hear of that failure itself, and settles that one first.
  const Call* call = Call::innermost();
  for (int above = depth_of(call) - notice.depth; above > 0; --above) call = call->outer;
  return depth_of(call) < notice.depth || call->state == this || call->state->failures > notice.settled;
}

bool State::cuts_short() const {
  bool all_had_settled = false;
  for (auto n = notices.lower_bound({epoch, 0}); n != notices.end() && n->first.first == epoch; ++n) {
    if (n->second.depth != 0 || n->second.settled <= settled_within) return true;
    all_had_settled = true;
  }
  return lost || !all_had_settled;
}

bool State::can_settle() const {
  for (auto n = notices.lower_bound({epoch, 0}); n != notices.end() && n->first.first == epoch; ++n)
    if (concerns(n->second)) return true;
  return false;
}

void State::check() {
  const auto has_failed = [](State& s) {
    const auto lock = s.transport_lock->take();
    return s.has_failure();
  };
  const State* failed_one = has_failed(*this) ? this : nullptr;
  // A rank that has failed in a call around will not come to this one: the outermost failure counts.
  for (const Call* call = firm ? nullptr : Call::innermost(); call; call = call->outer)
    if (call->state != this && has_failed(*call->state) && (!settling || call->state->cuts_short()))
      failed_one = call->state;
  if (failed_one) throw PeerFailure(failed_one);
}

thread_local std::vector<std::weak_ptr<State>> helping;

void State::defer(int parts) {
  if (parts <= 0) return;
  if (deferred == 0 &&
      std::none_of(helping.begin(), helping.end(), [&](const auto& w) { return w.lock().get() == this; }))
    helping.push_back(weak_from_this());
  deferred += parts;
}

void State::help_others() {
  if (helping.empty()) [[likely]]
    return;
  std::erase_if(helping, [](const auto& w) {
    const auto s = w.lock();
    return !s || s->deferred == 0;
  });
  for (std::size_t i = 0; i < helping.size(); ++i)
    if (const auto s = helping[i].lock(); s && s.get() != this && !s->failed) s->push_on();
}

void State::look_around() {
  check();
  if (!settling && !agreeing && Call::innermost() && time_to_ask()) ask_user();
}

void State::broken_off() {
  if (settling) return;
  try {
    throw;
  } catch (const PeerFailure& failure) {
    if (failure.on != this) leave_unfinished(failure.on);
  } catch (...) {
    const Call* const around = Call::innermost();
    if (around && !Call::of(this)) leave_unfinished(around->state);  // whose call will fail
    else keep_error();
  }
}

void State::keep_error() noexcept {
  // Where no call is open, nothing will be settled: then it is thrown once.
  if (const auto lock = transport_lock->take(); !error && Call::of(this)) error = std::current_exception();
}

void State::swallow() noexcept {
  try {
    throw;
  } catch (const PeerFailure&) {  // is heard of again
  } catch (...) {
    const auto lock = transport_lock->take();
    if (!error) error = std::current_exception();
  }
}

void State::rethrow() {
  const auto thrown = error;
  if (!Call::of(this)) error = nullptr;
  std::rethrow_exception(thrown);
}

void State::leave_unfinished(const void* failed_one) {
  const auto lock = transport_lock->take();
  const Call* const call = Call::of(failed_one);
  if (failed || size == 1 || !call) return;
  failed = true;
  // The place: where the outermost call began that is left. A rank behind it can still finish what it is in, and who
  // has not come to that call is there in the next one.
  std::int64_t place = position;
  for (const Call* left = Call::innermost(); left != call; left = left->outer)
    if (left->state == this) place = left->began;
  Notice notice{rank,
                epoch,
                place,
                ErrorKind::environment,
                message("rank ", rank, ": a failure on another communicator has left this one in the middle of a call"),
                depth_of(call),
                call->state->failures};
  transport->send_notice(notice);
  notices[{epoch, rank}] = std::move(notice);
}

namespace {
struct Dropped {
  const Call* call;
  std::int64_t began;
  std::weak_ptr<State> state;
};
thread_local std::vector<Dropped> dropped;
}  // namespace

void State::drop_unfinished() noexcept try {
  if (size == 1 || Call::of(this)) return;
  const Call* call = Call::innermost();
  while (call && call->state->size == 1) call = call->outer;
  if (call) dropped.push_back({call, call->began, weak_from_this()});
} catch (const std::bad_alloc&) {  // an error is on its way already
}

void leave_dropped(const Call& failing) {  // on its failure
  for (const auto& d : dropped)
    if (d.call == &failing && d.began == failing.began)
      if (const auto state = d.state.lock()) state->leave_unfinished(failing.state);
  // Those of calls that have ended are over.
  std::erase_if(dropped, [&](const Dropped& d) {
    const Call* call = failing.outer;
    while (call && !(call == d.call && call->began == d.began)) call = call->outer;
    return !call;
  });
}

void State::lose() {
  const auto lock = transport_lock->take();
  settling = false;
  failed = true;
  if (!std::exchange(lost, true)) transport->send_notice({rank, any_epoch, 0, ErrorKind::environment, "", 0, 0});
}

void State::settle(const Notice* own) {
  const auto lock = transport_lock->take();
  const int old_epoch = epoch;
  if (own && !notices.contains({old_epoch, rank})) {
    transport->send_notice(*own);
    notices[{old_epoch, rank}] = *own;
  }
  failed = settling = true;
  for (auto& slot : slots) {
    if (slot->send.active)
      transport->cancel(slot->send, std::make_shared<std::vector<std::byte>>(std::move(slot->value)));
    if (slot->receive.active) transport->cancel(slot->receive, nullptr);
    // Also what is complete here: it may not be on other ranks, and all throw alike.
    slot->give_up();
  }
  for (Exchange* exchange : exchanges) exchange->give_up();
  // What ranks find out together, some may have found when others had not.
  fastest.clear();
  if (!topology_given) topology = nullptr;

  // The sums below carry the next epoch's tags: nothing left over from this one can match them.
  ++epoch;
  sums_started = sparse_started = 0;
  error = nullptr;
  native_lost = true;
  const Global lowest = reduce(notices.contains({old_epoch, rank}) ? Global(rank) : Global(size), Operation::min);
  const auto collect = [&] {
    listen();
    return notices.contains({old_epoch, int(lowest)});
  };
  wait_until(collect);
  // The calls that are open everywhere are those that the hindmost rank has begun, less those that others have left.
  const Global hindmost = reduce(position, Operation::min);
  Global common = 0;
  for (const Call* call = Call::innermost(); call; call = call->outer)
    common += call->state == this && call->began <= hindmost;
  leaving = int(std::max<Global>(reduce(common, Operation::min), 1));
  // Everybody holds the text before anybody goes on, so that no notice of this epoch is late for its reader; and ranks
  // that had come to different places go on with the same numbers.
  position = reduce(position, Operation::max);
  exchanges_made = std::uint32_t(reduce(Global(exchanges_made), Operation::max));
  chosen = notices[{old_epoch, int(lowest)}];
  notices.erase(notices.begin(), notices.lower_bound({epoch, 0}));
  if (epoch + 1 >= epochs) {            // the last tags: fresh ones
    const Firm none_turns_back(*this);  // the transport's own call cannot be left
    reduce(Global(0), Operation::min);
    transport = transport->duplicate();
    notices.clear();
    epoch = 0;
    epochs = transport->largest_tag() / channels;
  }
  ++failures;
  settled_within = 0;
  for (const Call* call = Call::innermost(); call; call = call->outer)
    if (call == Call::of(call->state) && call->state != this) ++call->state->settled_within;
  settling = false;
}

}  // namespace detail

using detail::State;

PendingSum& PendingSum::operator=(PendingSum&& other) noexcept {
  std::swap(state_, other.state_);
  std::swap(slot_, other.slot_);
  std::swap(ready_, other.ready_);
  return *this;
}

PendingSum::~PendingSum() {
  if (!slot_) return;
  try {
    // While an exception unwinds past it, the sum may never complete: it is given up by Communicator::fail.
    if (std::uncaught_exceptions() > slot_->uncaught) {
      const auto lock = state_->transport_lock->take();
      if (!slot_->done) state_->drop_unfinished();
    } else if (!state_->failed) {
      state_->wait_until([&] { return slot_->done; });
    }
  } catch (...) {
    state_->swallow();
  }
  slot_->owned = false;
}

namespace {
void refuse_given_up(const State& state, const detail::SumSlot& slot) {
  if (!slot.given_up) [[likely]]
    return;
  if (state.failed) throw PeerFailure(&state);
  throw Error(ErrorKind::usage, "this sum was given up by an earlier failure");
}
}  // namespace

bool PendingSum::test() {
  if (!slot_) return true;
  const auto lock = state_->transport_lock->take();
  state_->progress();
  if (state_->simulated && !slot_->done) state_->simulated->let_others_catch_up();
  refuse_given_up(*state_, *slot_);
  return slot_->done;
}

void PendingSum::wait(void* values) {
  if (!slot_) {
    if (!ready_.empty()) std::memcpy(values, ready_.data(), ready_.size());
    return;
  }
  const Span span("wait for sum", "comm", std::int64_t(slot_->bytes()));  // an engine swaps the buffers
  const detail::SimulatedRank::For phase(state_->simulated, slot_->counted ? "sum" : "agree");
  state_->wait_until([&] { return slot_->done; });
  refuse_given_up(*state_, *slot_);
  if (state_->simulated) state_->simulated->sum_taken(*state_->transport, slot_->channel);
  // Sums overlap each other and what the rank computes: each has a line of its own.
  if (slot_->began >= 0)
    Trace::record({"sum in flight", "comm", slot_->began, slot_->ended, Trace::rank(), 1000 + slot_->number_of,
                   std::int64_t(slot_->value.size())});
  if (!slot_->value.empty()) std::memcpy(values, slot_->value.data(), slot_->value.size());
  slot_->owned = false;
  slot_ = nullptr;
}

Communicator::Communicator(std::shared_ptr<Transport> transport)
    : state_(std::make_shared<State>(std::move(transport))), rank_(state_->rank), size_(state_->size) {
  if (!state_->simulated) return;
  state_->path = Path::messages;
  state_->transport->polls([weak = std::weak_ptr<State>(state_)] {
    if (const auto state = weak.lock()) Communicator(state).progress();
  });
}

Communicator::Communicator(std::shared_ptr<State> state)
    : state_(std::move(state)), rank_(state_->rank), size_(state_->size) {}

const char* Communicator::kind() const {
  return state_->transport->kind();
}
bool Communicator::is_simulated() const noexcept {
  return state_->simulated != nullptr;
}
Communicator Communicator::duplicate() const {
  // The transport's own call can wait for ever: nobody begins it before all are here.
  meet();
  const auto lock = state_->transport_lock->take();
  Communicator copy(state_->transport->duplicate());
  copy.state_->algorithm = state_->algorithm;
  copy.state_->path = state_->path;
  copy.state_->topology = state_->topology;
  copy.state_->topology_given = state_->topology_given;
  return copy;
}
void Communicator::use(SumAlgorithm algorithm) const {
  state_->algorithm = algorithm;
}
void Communicator::use(Path path) const {
  state_->path = path;
}
Path Communicator::path() const {
  return state_->path;
}
void Communicator::use(const Topology& topology) const {
  require(topology.ranks() == size_, "a topology of ", topology.ranks(), " ranks for ", size_);
  state_->topology = std::make_shared<const Topology>(topology);
  state_->topology_given = true;
}
const Topology& Communicator::topology() const {
  if (!state_->topology) state_->topology = std::make_shared<const Topology>(Topology::detect(*this));
  return *state_->topology;
}
Counters Communicator::counters() const {
  return state_->counters;
}
Transport& Communicator::transport() const {
  return *state_->transport;
}
void Communicator::progress() const {
  if (state_->owner.load(std::memory_order_relaxed) != State::this_thread()) return;
  if (state_->simulated && !state_->simulated->may_poll()) return;
  const auto lock = state_->transport_lock->take();
  try {
    state_->progress();
    // Long messages go on only while MPI is called.
    if (state_->under_way > 0)
      for (Exchange* exchange : state_->exchanges) exchange->push_on();
  } catch (...) {  // thrown by the next wait: here we may be inside a parallel loop
    state_->swallow();
  }
}
void Communicator::leave() const {
  ++state_->position;
}
void Communicator::check() const {
  state_->check();
}

void Communicator::count_local_sum(std::size_t values) const {
  ++state_->counters.reductions;
  state_->counters.reduction_values += std::int64_t(values);
}

PendingSum Communicator::start(const void* values, std::size_t n, Number number, Operation operation,
                               bool counted) const {
  if (counted) count_local_sum(n);
  PendingSum pending;
  pending.slot_ = &state_->start(values, n, number, operation, counted);
  pending.slot_->owned = true;
  pending.state_ = state_;
  return pending;
}

Global Communicator::reduce(Global value, Operation operation) const {
  start(&value, 1, Number::int64, operation, false).wait(&value);
  return value;
}
double Communicator::reduce(double value, Operation operation) const {
  start(&value, 1, Number::float64, operation, false).wait(&value);
  return value;
}

std::shared_ptr<void> Communicator::start_engine() const {
  if (size_ == 1) return nullptr;
  if (auto running = state_->engine.lock()) return running;
  state_->transport->allow_engine();
  struct Engine {
    explicit Engine(std::shared_ptr<State> s) : state(std::move(s)) {
      ++state->transport_lock->engines;
      thread = std::thread([this] {
        Trace::set_rank(state->rank);
        while (!stop) {
          exec::Backoff idle;
          const auto seen = state->posted.load(std::memory_order_acquire);
          while (!stop && state->push_on()) idle.pause();
          if (!stop) state->posted.wait(seen, std::memory_order_acquire);
        }
      });
    }
    ~Engine() {
      stop = true;
      state->post();
      thread.join();
      --state->transport_lock->engines;
    }
    std::shared_ptr<State> state;
    std::atomic<bool> stop = false;
    std::thread thread;
  };
  const auto engine = std::make_shared<Engine>(state_);
  state_->engine = engine;
  return engine;
}

void set_interrupt_check(std::function<bool()> check) {
  std::lock_guard lock(interrupt_mutex);
  interrupt_check = std::move(check);
}

void Communicator::check_interrupt() const {
  if (!time_to_ask()) return;
  check();
  ask_user();
}

void Communicator::agree() const {
  if (size_ == 1) return;
  // Whoever breaks off here has told the others already that all is well: not for a wish of the user's.
  struct Agreeing {
    bool& flag;
    const bool before;
    explicit Agreeing(bool& f) : flag(f), before(std::exchange(f, true)) {}
    ~Agreeing() { flag = before; }
  } const agreeing(state_->agreeing);
  reduce(Global(0), Operation::max);
}

void Communicator::all_least(std::span<std::int64_t> values) const {
  if (size_ == 1) return;
  state_->wait_until([] { return true; });  // who is in trouble turns back now
  const State::Firm none_turns_back(*state_);
  start(values.data(), values.size(), Number::int64, Operation::min, false).wait(values.data());
}

void Communicator::meet() const {
  std::int64_t nothing = 0;
  all_least({&nothing, 1});
}

void Communicator::fail(std::exception_ptr error) const {
  State& s = *state_;
  if (size_ == 1) std::rethrow_exception(error);
  const detail::Call* const call = detail::Call::of(&s);
  const int level = call ? call->level : 1;
  if (call) leave_dropped(*call);
  static std::atomic<std::uint64_t> agreements = 0;
  // The rank is named where the error is thrown first.
  const auto mine = [&](ErrorKind kind, std::string text, bool named = false) {
    text.resize(std::min<std::size_t>(text.size(), 4000));
    if (!named) text = message("rank ", rank_, ": ", text);
    return Notice{rank_, s.epoch, s.position, kind, text, 0, s.settled_within};
  };
  if (s.leaving == 0) {
    std::optional<Notice> own;
    try {
      std::rethrow_exception(error);
    } catch (const PeerFailure& e) {
      if (e.on != &s || !s.failed) {
        if (e.on != &s && detail::Call::of(e.on)) {
          s.leave_unfinished(e.on);
          throw;
        }
        own = mine(ErrorKind::environment, e.what());
      }
    } catch (const Error& e) {
      if (e.agreed() && e.agreement() == s.agreement) throw;  // by all ranks of this communicator, just now
      own = mine(e.kind(), e.what(), e.agreed());
    } catch (const std::bad_alloc&) {
      own = mine(ErrorKind::environment, "out of memory");
    } catch (const std::exception& e) {
      own = mine(ErrorKind::environment, e.what());
    } catch (...) {
      own = mine(ErrorKind::environment, "an exception of unknown type");
    }
    if (!s.lost) {
      if ((!own || s.notices.contains({s.epoch, rank_})) && !s.can_settle()) throw PeerFailure(&s);
      try {
        s.settle(own ? &*own : nullptr);
      } catch (const PeerFailure& e) {
        s.lose();
        if (e.on != &s) throw;
      } catch (...) {
        s.lose();
        throw;
      }
    }
    if (s.lost) {
      if (level > 1) throw PeerFailure(&s);
      throw Error(ErrorKind::environment,
                  "the communicator is lost: the ranks were cut off while they agreed on an error; make another one")
          .as_agreed(++agreements);
    }
  }
  if (level > s.leaving) throw PeerFailure(&s);
  s.failed = false;
  s.leaving = 0;
  s.agreement = ++agreements;
  throw Error(s.chosen.kind, s.chosen.text).as_agreed(s.agreement);
}

}  // namespace tacit::comm
