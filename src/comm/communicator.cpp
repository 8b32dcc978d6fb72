#include "state.hpp"

#include <tacit/base/trace.hpp>

#include <atomic>
#include <chrono>
#include <mutex>

namespace tacit::comm {

void Transport::relax() { std::this_thread::yield(); }

namespace {

class SelfTransport final : public Transport {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  const char* kind() const override { return "self"; }
  Ticket send(int, int, const void*, std::size_t) override { return nobody(); }
  Ticket receive(int, int, void*, std::size_t) override { return nobody(); }
  bool test(Ticket&) override { return true; }
  void cancel(Ticket&, std::shared_ptr<void>) override {}
  std::optional<Arrival> probe(int) override { return {}; }
  void send_notice(const Notice&) override {}
  std::optional<Notice> poll_notice() override { return {}; }
  std::shared_ptr<Transport> duplicate() override { return std::make_shared<SelfTransport>(); }

 private:
  static Ticket nobody() { throw Error(ErrorKind::usage, "one rank alone has nobody to exchange messages with"); }
};

template <class T>
void combine(T* into, const T* other, std::size_t n, Operation operation) {
  switch (operation) {
    case Operation::sum:
      for (std::size_t i = 0; i < n; ++i) into[i] += other[i];
      break;
    // A NaN on one rank must not vanish: it wins.
    case Operation::min:
      for (std::size_t i = 0; i < n; ++i) into[i] = other[i] < into[i] || other[i] != other[i] ? other[i] : into[i];
      break;
    case Operation::max:
      for (std::size_t i = 0; i < n; ++i) into[i] = other[i] > into[i] || other[i] != other[i] ? other[i] : into[i];
      break;
  }
}

void combine(std::byte* into, const std::byte* other, std::size_t n, Number number, Operation operation) {
  switch (number) {
    case Number::float32:
      return combine(reinterpret_cast<float*>(into), reinterpret_cast<const float*>(other), n, operation);
    case Number::float64:
      return combine(reinterpret_cast<double*>(into), reinterpret_cast<const double*>(other), n, operation);
    case Number::int64:
      return combine(reinterpret_cast<Global*>(into), reinterpret_cast<const Global*>(other), n, operation);
  }
}

std::mutex interrupt_mutex;
std::function<bool()> interrupt_check;

}  // namespace

namespace detail {

State::~State() {
  const auto turn = turns->take();
  for (auto& slot : slots) {
    if (slot->send.active)
      transport->cancel(slot->send, std::make_shared<std::vector<std::byte>>(std::move(slot->value)));
    if (slot->receive.active) transport->cancel(slot->receive, nullptr);
  }
}

SumSlot& State::start(const void* values, std::size_t n, Number number, Operation operation) {
  const auto turn = turns->take();
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
  slot->channel = int(sums_started++ % sum_channels);
  slot->busy = true;
  slot->done = false;
  slot->native = algorithm == SumAlgorithm::native && !settling && transport->has_native_sum();
  if (size == 1) {
    slot->finish();
  } else if (slot->native) {
    slot->send = transport->start_native_sum(slot->value.data(), n, number, operation);
  } else {
    slot->round = -1;
    begin_round(*slot);
  }
  if (slot->busy) post();
  return *slot;
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

void State::advance(SumSlot& s) {
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
      combine(s.value.data(), s.incoming.data(), s.count, s.number, s.operation);
      ++s.round;
      begin_round(s);
    } else {
      s.finish();
    }
  }
}

void State::progress() {
  const auto turn = turns->take();
  if (in_progress_) return;
  struct Guard {  // also when a message fails
    bool& flag;
    explicit Guard(bool& f) : flag(f) { flag = true; }
    ~Guard() { flag = false; }
  } guard(in_progress_);
  for (auto& s : slots)
    if (s->busy) advance(*s);
}

bool State::push_on() {
  const auto turn = turns->take();
  bool pending = false;
  try {
    progress();
    for (Exchange* exchange : exchanges) pending = exchange->push_on() || pending;
  } catch (...) {  // thrown by the next wait
    if (!poll_error) poll_error = std::current_exception();
    return false;
  }
  for (auto& slot : slots) pending = pending || slot->busy;
  return pending;
}

bool State::hears_of_failure() {
  if (settling) return false;
  while (auto notice = transport->poll_notice()) {
    if (notice->epoch != epoch) continue;
    notices[notice->rank] = *notice;
  }
  for (const auto& [rank, notice] : notices) failed = failed || notice.position <= position;
  return failed;
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
    // While an exception unwinds, the sum may never complete: it is given up by Communicator::fail.
    if (!state_->failed && std::uncaught_exceptions() == 0) state_->wait_until([&] { return slot_->done; });
  } catch (...) {
  }
  slot_->owned = false;
}

bool PendingSum::test() {
  if (!slot_) return true;
  const auto turn = state_->turns->take();
  state_->progress();
  return slot_->done;
}

void PendingSum::wait(void* values) {
  if (!slot_) {
    if (!ready_.empty()) std::memcpy(values, ready_.data(), ready_.size());
    return;
  }
  const Span span("wait for sum", "comm", std::int64_t(slot_->value.size()));
  state_->wait_until([&] { return slot_->done; });
  // Sums overlap each other and what the rank computes: each has a line of its own.
  if (slot_->began >= 0)
    Trace::record({"sum in flight", "comm", slot_->began, slot_->ended, Trace::rank(), 1000 + slot_->number_of,
                   std::int64_t(slot_->value.size())});
  if (!slot_->value.empty()) std::memcpy(values, slot_->value.data(), slot_->value.size());
  slot_->owned = false;
  slot_ = nullptr;
}

Communicator Communicator::self() { return Communicator(std::make_shared<SelfTransport>()); }

Communicator::Communicator(std::shared_ptr<Transport> transport)
    : state_(std::make_shared<State>(std::move(transport))), rank_(state_->rank), size_(state_->size) {}

const char* Communicator::kind() const { return state_->transport->kind(); }
Communicator Communicator::duplicate() const {
  const auto turn = state_->turns->take();
  Communicator copy(state_->transport->duplicate());
  copy.state_->algorithm = state_->algorithm;
  return copy;
}
void Communicator::use(SumAlgorithm algorithm) const { state_->algorithm = algorithm; }
Counters Communicator::counters() const { return state_->counters; }
Transport& Communicator::transport() const { return *state_->transport; }
void Communicator::progress() const {
  const auto turn = state_->turns->take();
  try {
    state_->progress();
  } catch (...) {  // thrown by the next wait: here we may be inside a parallel loop
    if (!state_->poll_error) state_->poll_error = std::current_exception();
  }
}
void Communicator::enter() const { ++state_->position; }
void Communicator::leave() const { ++state_->position; }
void Communicator::check() const {
  const auto turn = state_->turns->take();
  if (size_ > 1) state_->check();
}

void Communicator::count_local_sum(std::size_t values) const {
  ++state_->counters.reductions;
  state_->counters.reduction_values += std::int64_t(values);
}

PendingSum Communicator::start(const void* values, std::size_t n, Number number, Operation operation,
                               bool counted) const {
  if (counted) count_local_sum(n);
  PendingSum pending;
  pending.slot_ = &state_->start(values, n, number, operation);
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
      ++state->turns->engines;
      thread = std::thread([this] {
        Trace::set_rank(state->rank);
        while (!stop) {
          const auto seen = state->posted.load(std::memory_order_acquire);
          if (state->push_on()) std::this_thread::yield();
          else if (!stop) state->posted.wait(seen, std::memory_order_acquire);
        }
      });
    }
    ~Engine() {
      stop = true;
      state->post();
      thread.join();
      --state->turns->engines;
    }
    std::shared_ptr<State> state;
    std::atomic<bool> stop = false;
    std::thread thread;
  };
  const auto engine = std::make_shared<Engine>(state_);
  state_->engine = engine;
  return engine;
}

std::vector<std::vector<std::byte>> Communicator::all_gather_bytes(std::span<const std::byte> mine) const {
  State& s = *state_;
  std::vector<std::vector<std::byte>> all(size_);
  all[rank_].assign(mine.begin(), mine.end());
  // Dissemination: after round k a rank holds the items of 2^k ranks from itself upwards.
  for (int have = 1, round = 0; have < size_; have *= 2, ++round) {
    const int take = std::min(have, size_ - have);
    const int to = (rank_ - have + size_) % size_, from = (rank_ + have) % size_;
    std::vector<Global> sizes(take), sizes_in(take);
    std::vector<std::byte> data;
    for (int i = 0; i < take; ++i) {
      const auto& item = all[(rank_ + i) % size_];
      sizes[i] = Global(item.size());
      data.insert(data.end(), item.begin(), item.end());
    }
    const int tag = s.tag(State::gather_channel + round);
    const auto swap = [&](std::span<const std::byte> out, std::size_t in_bytes) {
      detail::Mail mail(s);
      mail.send(to, tag, {out.begin(), out.end()});
      const auto in = mail.receive(from, tag, in_bytes);
      mail.finish();
      return std::move(*in);
    };
    const auto sizes_bytes = swap(std::as_bytes(std::span<const Global>(sizes)), take * sizeof(Global));
    std::memcpy(sizes_in.data(), sizes_bytes.data(), sizes_bytes.size());
    Global total = 0;
    for (Global n : sizes_in) total += n;
    const auto data_in = swap(data, std::size_t(total));
    auto next = data_in.begin();
    for (int i = 0; i < take; ++i) {
      all[(from + i) % size_].assign(next, next + sizes_in[i]);
      next += sizes_in[i];
    }
  }
  return all;
}

std::string Communicator::broadcast(const std::string& text, int root) const {
  const std::string mine = rank_ == root ? text : std::string();
  const auto all = all_gather_bytes(std::as_bytes(std::span(mine)));
  return {reinterpret_cast<const char*>(all[root].data()), all[root].size()};
}

std::vector<Communicator::Parcel> Communicator::sparse_exchange(const std::vector<Parcel>& parcels) const {
  State& s = *state_;
  std::vector<Parcel> arrived;
  // Non-blocking consensus (Hoefler, Siebert, Lumsdaine 2010, doi 10.1145/1693453.1693476): everyone acknowledges what
  // it got; a rank whose parcels are all acknowledged joins a barrier; when the barrier is through, nothing is on its way.
  const int channel = State::sparse_channel + 2 * int(s.sparse_started++ % 64);
  const int tag = s.tag(channel), acknowledge = s.tag(channel + 1);
  detail::Mail sent(s), acknowledgements(s);
  for (const auto& p : parcels) {
    if (p.rank == rank_) {
      arrived.push_back(p);
      continue;
    }
    sent.send(p.rank, tag, p.bytes);
    sent.receive(p.rank, acknowledge, 0);
  }
  PendingSum barrier;
  bool in_barrier = false;
  s.wait_until([&] {
    while (auto arrival = s.transport->probe(tag)) {
      detail::Mail mail(s);
      const auto bytes = mail.receive(arrival->from, tag, arrival->bytes);
      mail.finish();
      arrived.push_back({arrival->from, std::move(*bytes)});
      acknowledgements.send(arrival->from, acknowledge, {});
    }
    if (!in_barrier) {
      if (!sent.done()) return false;
      const Global nothing = 0;
      barrier = start(&nothing, 1, Number::int64, Operation::sum, false);
      in_barrier = true;
    }
    return barrier.test();
  });
  acknowledgements.finish();
  std::sort(arrived.begin(), arrived.end(), [](const Parcel& a, const Parcel& b) { return a.rank < b.rank; });
  return arrived;
}

void set_interrupt_check(std::function<bool()> check) {
  std::lock_guard lock(interrupt_mutex);
  interrupt_check = std::move(check);
}

void Communicator::check_interrupt() const {
  using clock = std::chrono::steady_clock;
  static thread_local clock::time_point last{};
  const auto now = clock::now();
  if (now - last < std::chrono::milliseconds(50)) return;
  last = now;
  check();
  std::function<bool()> ask;
  {
    std::lock_guard lock(interrupt_mutex);
    ask = interrupt_check;
  }
  if (ask && ask()) throw Error(ErrorKind::interrupted, "interrupted by the user");
}

void Communicator::agree() const {
  if (size_ > 1) reduce(Global(0), Operation::max);
}

void Communicator::fail(std::exception_ptr error) const {
  State& s = *state_;
  Notice mine;
  bool own = true;
  try {
    std::rethrow_exception(error);
  } catch (const PeerFailure&) {
    own = false;
  } catch (const Error& e) {
    if (e.agreed() || size_ == 1) throw;
    mine = {rank_, s.epoch, s.position, e.kind(), e.what()};
  } catch (const std::bad_alloc&) {
    if (size_ == 1) throw;
    mine = {rank_, s.epoch, s.position, ErrorKind::environment, "out of memory"};
  } catch (const std::exception& e) {
    if (size_ == 1) throw;
    mine = {rank_, s.epoch, s.position, ErrorKind::environment, e.what()};
  } catch (...) {
    if (size_ == 1) throw;
    mine = {rank_, s.epoch, s.position, ErrorKind::environment, "an exception of unknown type"};
  }
  const auto turn = s.turns->take();
  if (own) {
    // Input checked alike on all ranks fails alike on all; the rank is named only where it tells something.
    mine.text.resize(std::min<std::size_t>(mine.text.size(), 4000));
    s.transport->send_notice(mine);
    s.notices[rank_] = mine;
  }
  s.failed = s.settling = true;
  for (auto& slot : s.slots) {
    if (slot->send.active) s.transport->cancel(slot->send, std::make_shared<std::vector<std::byte>>(std::move(slot->value)));
    if (slot->receive.active) s.transport->cancel(slot->receive, nullptr);
    slot->busy = false;
    slot->done = true;
  }
  for (Exchange* exchange : s.exchanges) exchange->give_up();

  // The sums below carry the next epoch's tags: nothing left over from this one can match them.
  const int old_epoch = s.epoch++;
  s.sums_started = s.sparse_started = 0;
  s.poll_error = nullptr;
  // Native all-reduces match by order, which the failure has disturbed for good.
  s.algorithm = SumAlgorithm::doubling;
  const Global lowest = reduce(own ? Global(rank_) : Global(size_), Operation::min);
  const auto collect = [&] {
    while (auto notice = s.transport->poll_notice())
      if (notice->epoch == old_epoch) s.notices[notice->rank] = *notice;
    return s.notices.contains(int(lowest));
  };
  s.wait_until(collect);
  // Everybody holds the text before anybody goes on, so that no notice of this epoch is late for its reader; and ranks that
  // had come to different places go on with the same numbers.
  s.position = reduce(s.position, Operation::max);
  s.exchanges_made = std::uint32_t(reduce(Global(s.exchanges_made), Operation::max));
  const Notice chosen = s.notices[int(lowest)];
  s.notices.clear();
  s.failed = s.settling = false;
  throw Error(chosen.kind, message("rank ", chosen.rank, ": ", chosen.text)).as_agreed();
}

}  // namespace tacit::comm
