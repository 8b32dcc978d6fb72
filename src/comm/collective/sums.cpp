#include "sums.hpp"
#include "../state.hpp"

#include <cstring>
#include <exception>

namespace tacit::comm {
namespace {

// Both partners use the same operand order, the lower rank's first, so that they get the same bits also for signed
// zeros and NaNs.
template <class T>
void combine(T* lower, const T* upper, std::size_t n, Operation operation) {
  // A NaN on one rank makes the result NaN.
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
    case Operation::sum_and_max:
      if (n == 0) break;
      combine(lower, upper, n - 1, Operation::sum);
      combine(lower + n - 1, upper + n - 1, 1, Operation::max);
      break;
  }
}

}  // namespace

void detail::combine(std::byte* lower, const std::byte* upper, std::size_t n, Number number, Operation operation) {
  switch (number) {
    case Number::float32:
      return tacit::comm::combine(reinterpret_cast<float*>(lower), reinterpret_cast<const float*>(upper), n, operation);
    case Number::float64:
      return tacit::comm::combine(reinterpret_cast<double*>(lower), reinterpret_cast<const double*>(upper), n,
                                  operation);
    case Number::int64:
      return tacit::comm::combine(reinterpret_cast<Global*>(lower), reinterpret_cast<const Global*>(upper), n,
                                  operation);
  }
}

namespace detail {

Sums::Sums(State& state) : state_(state) {
  while (2 * power_ <= state.size) power_ *= 2;
}

SumSlot& Sums::free_slot() {
  for (auto& s : slots_)
    if (!s->busy && !s->owned) return *s;
  SumSlot& slot = *slots_.emplace_back(std::make_unique<SumSlot>());
  slot.number_of = int(slots_.size());
  return slot;
}

SumSlot* Sums::busy_on(int channel) {
  for (auto& s : slots_)
    if (s->busy && s->channel == channel) return s.get();
  return nullptr;
}

SumSlot& Sums::open(std::size_t n, Number number, Operation operation, bool counted) {
  State& s = state_;
  s.begin();
  const int channel = int(started_ % channels);
  // Two sums with one tag must not be in flight together.
  if (SumSlot* const before = busy_on(channel)) [[unlikely]] {
    await(*before);
    s.wait_until<State::Condition::looks>([&] { return !before->busy; });
  }
  ++started_;
  const auto lock = s.transport_lock->take();
  SumSlot& slot = free_slot();
  slot.began = Trace::on() ? wall_time() : -1;
  const std::size_t bytes = n * (number == Number::float32 ? 4 : 8);
  slot.value.resize(bytes);
  slot.incoming.resize(bytes);
  slot.count = n;
  slot.number = number;
  slot.operation = operation;
  slot.channel = channel;
  slot.counted = counted;
  slot.done = slot.given_up = false;
  slot.native = algorithm == SumAlgorithm::native && counted && operation == Operation::sum && !native_lost_ &&
                s.transport->has_native_sum();
  slot.uncaught = std::uncaught_exceptions();
  if (s.simulated && s.simulated->recorder) slot.recorded = s.simulated->recorder->sum(n, number, counted);
  return slot;
}

SumSlot& Sums::start(const void* values, std::size_t n, Number number, Operation operation, bool counted) {
  SumSlot& slot = open(n, number, operation, counted);
  if (!slot.value.empty()) std::memcpy(slot.value.data(), values, slot.value.size());
  if (state_.size == 1) {
    slot.finish();
    return slot;
  }
  const auto lock = state_.transport_lock->take();
  slot.busy = true;
  if (slot.native && !awaited_.empty()) {
    slot.awaited = true;
    awaited_.push_back(&slot);
  } else {
    try {
      begin(slot);
    } catch (...) {
      state_.agreement.keep_error();
      throw;
    }
  }
  if (slot.busy) state_.post();
  return slot;
}

SumSlot& Sums::start(std::shared_ptr<PendingValues> values, std::size_t n, Number number, Operation operation) {
  if (state_.size == 1) {
    values->wait();
    std::vector<std::byte> there(n * (number == Number::float32 ? 4 : 8));
    values->write(there.data());
    return start(there.data(), n, number, operation, true);
  }
  SumSlot& slot = open(n, number, operation, true);
  if (state_.simulated) state_.simulated->has_devices = true;
  if (state_.simulated && state_.simulated->recorder) state_.simulated->recorder->refuse("starts sums of devices");
  const auto lock = state_.transport_lock->take();
  slot.values = std::move(values);
  slot.busy = slot.awaited = true;
  awaited_.push_back(&slot);
  state_.post();
  return slot;
}

void Sums::begin(SumSlot& slot) try {
  State& s = state_;
  const SimulatedRank::For phase(s.simulated, slot.counted ? "sum" : "agree", true);
  if (s.simulated) s.simulated->sum_started(*s.transport, slot.channel);
  if (slot.native) {
    slot.send = s.transport->start_native_sum(slot.value.data(), slot.count, slot.number, slot.operation);
  } else {
    slot.round = -1;
    const bool alone = s.simulated && std::none_of(slots_.begin(), slots_.end(), [&](const auto& other) {
                         return other->busy && other.get() != &slot;
                       });
    if (alone && s.simulated->may_join()) charge_first(slot);
    else send_first(slot);
  }
} catch (...) {
  slot.give_up();
  throw;
}

void Sums::begin_awaited(SumSlot& slot) {
  std::erase(awaited_, &slot);
  slot.awaited = slot.waited_for = false;
  const auto values = std::exchange(slot.values, nullptr);
  try {
    if (values) values->write(slot.value.data());
  } catch (...) {
    slot.give_up();
    throw;
  }
  if (slot.began >= 0) slot.began = wall_time();
  begin(slot);
}

void Sums::await(SumSlot& slot) {
  SumSlot* next = nullptr;
  try {
    for (;;) {
      std::shared_ptr<PendingValues> values;
      {
        const auto lock = state_.transport_lock->take();
        if (!slot.awaited) return;
        next = slot.native ? awaited_.front() : &slot;
        values = next->values;
        next->waited_for = true;
      }
      if (values) values->wait();  // without the lock, so that a progress thread can go on with the others
      const auto lock = state_.transport_lock->take();
      begin_awaited(*next);
    }
  } catch (...) {
    {
      const auto lock = state_.transport_lock->take();
      std::erase(awaited_, next);
      next->give_up();
    }
    state_.agreement.wait_ended_by_error();
    throw;
  }
}

void Sums::begin_all() {
  for (;;) {
    SumSlot* last = nullptr;
    {
      const auto lock = state_.transport_lock->take();
      if (!awaited_.empty()) last = awaited_.front();
    }
    if (!last) return;
    await(*last);
  }
}

void Sums::begin_round(SumSlot& s) {
  const int surplus = state_.size - power_, rank = state_.rank;
  const auto send = [&](int to) {
    if (s.left < 0) return state_.transport->send(to, state_.tag(s.channel), s.value.data(), s.value.size());
    state_.simulated->deliver(*state_.transport, to, state_.tag(s.channel), s.value.data(), s.value.size(),
                              std::exchange(s.left, -1));
    return Ticket{};
  };
  const bool folds = rank < 2 * surplus;
  const int t = state_.tag(s.channel);
  if (s.round == -1) {
    if (folds && rank % 2 == 1) {
      s.send = send(rank - 1);
      if (!s.send.active) receive_result(s);
      return;
    }
    if (folds) {
      s.receive = state_.transport->receive(rank + 1, t, s.incoming.data(), s.incoming.size());
      return;
    }
    s.round = 0;
  }
  if ((1 << s.round) < power_) {
    const int me = folds ? rank / 2 : rank - surplus, other = me ^ (1 << s.round);
    const int partner = other < surplus ? 2 * other : other + surplus;
    s.send = send(partner);
    s.receive = state_.transport->receive(partner, t, s.incoming.data(), s.incoming.size());
    return;
  }
  if (folds) {  // send the result to the odd neighbour, the last step
    s.send = send(rank + 1);
    return;
  }
  s.finish();
}

// Of a rank that has given its values to a neighbour.
void Sums::receive_result(SumSlot& s) {
  s.round = 0;
  s.receive = state_.transport->receive(state_.rank - 1, state_.tag(s.channel), s.value.data(), s.value.size());
}

// What begin_round() does first, as far as it concerns this rank alone.
void Sums::charge_first(SumSlot& s) {
  const int surplus = state_.size - power_, rank = state_.rank;
  const bool folds = rank < 2 * surplus;
  int to = -1;
  if (folds && rank % 2 == 1) to = rank - 1;
  if (!folds) to = ((rank - surplus) ^ 1) < surplus ? 2 * ((rank - surplus) ^ 1) : ((rank - surplus) ^ 1) + surplus;
  if (to >= 0) s.left = state_.simulated->depart(*state_.transport, to, state_.tag(s.channel), s.value.size());
  s.unsent = true;
  state_.simulated->unsent = {[](void* sums, SumSlot& slot) { static_cast<Sums*>(sums)->send_first(slot); }, this, &s};
}

void Sums::send_first(SumSlot& s) {
  s.unsent = false;
  if (state_.simulated) state_.simulated->sum_by_messages(*state_.transport, state_.tag(s.channel));
  begin_round(s);
}

bool Sums::wait_jointly(SumSlot& s) {
  if (!s.unsent) return false;
  const auto look = [&] { state_.agreement.look_around(); };
  if (!state_.simulated->wait_jointly(*state_.transport, state_.tag(s.channel), s, look)) {
    send_first(s);
    return false;
  }
  s.unsent = false;
  s.finish();
  return true;
}

void Sums::advance(SumSlot& s) try {
  if (s.unsent) [[unlikely]]
    state_.simulated->send_unsent();
  const int surplus = state_.size - power_, rank = state_.rank;
  const bool folds = rank < 2 * surplus, odd = folds && rank % 2 == 1;
  while (s.busy) {
    if (s.send.active && !state_.transport->test(s.send)) return;
    if (s.receive.active && !state_.transport->test(s.receive)) return;
    if (s.native) {
      s.finish();
    } else if (odd) {
      if (s.round == -1) receive_result(s);
      else s.finish();
    } else if (s.round == -1 || (1 << s.round) < power_) {
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
} catch (...) {  // the round is incomplete and must not be continued
  s.give_up();
  throw;
}

void Sums::progress() {
  // The first whose values are missing ends the look: those of later sums mostly come after them.
  while (!awaited_.empty()) {
    SumSlot& slot = *awaited_.front();
    try {
      if (slot.waited_for || (slot.values && !slot.values->ready())) break;
    } catch (...) {
      awaited_.pop_front();
      slot.give_up();
      throw;
    }
    begin_awaited(slot);
  }
  for (auto& slot : slots_)
    if (slot->busy && !slot->awaited) advance(*slot);
}

bool Sums::pending() const {
  return std::any_of(slots_.begin(), slots_.end(), [](const auto& slot) { return slot->busy; });
}

void Sums::give_up() {
  if (state_.simulated && state_.simulated->unsent.sums == this) state_.simulated->unsent = {};
  for (auto& slot : slots_) {
    if (slot->send.active)
      state_.transport->cancel(slot->send, std::make_shared<std::vector<std::byte>>(std::move(slot->value)));
    if (slot->receive.active) state_.transport->cancel(slot->receive, nullptr);
    slot->give_up();
  }
  awaited_.clear();
  started_ = 0;
  native_lost_ = true;
}

}  // namespace detail

using detail::State;

PendingSum& PendingSum::operator=(PendingSum&& other) noexcept {
  std::swap(state_, other.state_);
  std::swap(slot_, other.slot_);
  std::swap(ready_, other.ready_);
  std::swap(merged_, other.merged_);
  std::swap(ticket_, other.ticket_);
  return *this;
}

PendingSum::~PendingSum() {
  if (merged_) merged_->drop(ticket_);
  if (!slot_) return;
  try {
    // While an exception unwinds the sum may never complete: Communicator::fail gives it up.
    if (std::uncaught_exceptions() > slot_->uncaught) {
      const auto lock = state_->transport_lock->take();
      if (!slot_->done) state_->agreement.drop_unfinished();
    } else if (!state_->agreement.failed()) {
      if (state_->simulated && state_->simulated->recorder && slot_->recorded >= 0)
        state_->simulated->recorder->drop(slot_->recorded);
      state_->sums->await(*slot_);
      state_->wait_until<State::Condition::looks>([&] { return slot_->done; });
    }
  } catch (...) {
    state_->agreement.swallow();
  }
  slot_->owned = false;
}

namespace {
void refuse_given_up(const State& state, const detail::SumSlot& slot) {
  if (!slot.given_up) [[likely]]
    return;
  if (state.agreement.failed()) throw PeerFailure(&state.agreement);
  throw Error(ErrorKind::usage, "this sum was given up by an earlier failure");
}
}  // namespace

bool PendingSum::test() {
  if (merged_) return merged_->test(ticket_);
  if (!slot_) return true;
  if (state_->simulated && state_->simulated->recorder && slot_->recorded >= 0)
    state_->simulated->recorder->refuse("tests a sum");
  const auto lock = state_->transport_lock->take();
  state_->progress();
  if (state_->simulated && !slot_->done) state_->simulated->let_others_catch_up();
  refuse_given_up(*state_, *slot_);
  return slot_->done;
}

void PendingSum::wait(void* values) {
  if (auto* const merged = std::exchange(merged_, nullptr)) return merged->wait(ticket_, values);
  if (!slot_) {
    if (!ready_.empty()) std::memcpy(values, ready_.data(), ready_.size());
    return;
  }
  const Span span("wait for sum", "comm",
                  std::int64_t(slot_->bytes()));  // taken first: a progress thread swaps the buffers
  if (state_->simulated && state_->simulated->recorder) state_->simulated->recorder->wait(slot_->recorded);
  const detail::SimulatedRank::For phase(state_->simulated, slot_->counted ? "sum" : "agree");
  state_->sums->await(*slot_);
  if (!state_->sums->wait_jointly(*slot_)) state_->wait_until<State::Condition::looks>([&] { return slot_->done; });
  refuse_given_up(*state_, *slot_);
  if (state_->simulated) state_->simulated->sum_taken(*state_->transport, slot_->channel);
  // Sums overlap each other and computation, so each has its own line in the trace.
  if (slot_->began >= 0)
    Trace::record({"sum in flight", "comm", slot_->began, slot_->ended, Trace::rank(), 1000 + slot_->number_of,
                   std::int64_t(slot_->value.size())});
  if (!slot_->value.empty()) std::memcpy(values, slot_->value.data(), slot_->value.size());
  slot_->owned = false;
  slot_ = nullptr;
}

}  // namespace tacit::comm
