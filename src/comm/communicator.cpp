#include "agreement/interrupt.hpp"
#include "collective/sums.hpp"
#include "exchange/exchanges.hpp"
#include "state.hpp"

#include <tacit/base/trace.hpp>

#include <atomic>
#include <chrono>
#include <thread>

namespace tacit::comm {

using detail::State;

Communicator::Communicator(std::shared_ptr<Transport> transport)
    : state_(std::make_shared<State>(std::move(transport))), rank_(state_->rank), size_(state_->size) {
  if (!state_->simulated) return;
  state_->exchanges->path = Path::messages;
  state_->transport->polls([weak = std::weak_ptr<State>(state_)] {
    if (const auto state = weak.lock()) Communicator(state).progress();
  });
}

Communicator::Communicator(std::shared_ptr<State> state)
    : state_(std::move(state)), rank_(state_->rank), size_(state_->size) {}

const char* Communicator::kind() const {
  return state_->transport->kind();
}
bool Communicator::has_threads() const noexcept {
  return state_->simulated == nullptr;
}
const VirtualClock* Communicator::clock() const noexcept {
  return state_->simulated;
}
Communicator Communicator::duplicate() const {
  // The transport's own call may block for ever, so ranks first agree that all will enter it.
  meet();
  const auto lock = state_->transport_lock->take();
  Communicator copy(state_->transport->duplicate());
  copy.state_->sums->algorithm = state_->sums->algorithm;
  copy.state_->exchanges->path = state_->exchanges->path;
  copy.state_->topology = state_->topology;
  copy.state_->topology_given = state_->topology_given;
  return copy;
}
void Communicator::use(SumAlgorithm algorithm) const {
  state_->sums->algorithm = algorithm;
}
void Communicator::use(Path path) const {
  state_->exchanges->path = path;
}
Path Communicator::path() const {
  return state_->exchanges->path;
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
    // Long messages progress only while MPI is called.
    if (state_->exchanges->under_way > 0) {
      const std::lock_guard in_use(state_->exchanges->in_use);
      for (Exchange* exchange : state_->exchanges->all) exchange->push_on();
    }
  } catch (...) {  // kept for the next wait: this may be inside a parallel loop
    state_->agreement.swallow();
  }
}
void Communicator::join(const Communicator& other) const {
  if (state_ == other.state_ || *this != other) return;
  state_->joined = other.state_->joined = true;
  detail::Turns::join(state_->turns, other.state_->turns);
}

detail::Turns* Communicator::take_turn() const {
  detail::Turns& turns = *state_->turns;
  if (size_ == 1) return turns.enter();
  if (!turns.of_this_process()) [[unlikely]]
    throw Error(ErrorKind::environment,
                message("a communicator of ", size_,
                        " ranks was made by the process of which this one is a fork, and cannot be used here: "
                        "comm=tacit.comm.self_() (in C++ comm::Communicator::self()) is one rank"));
  detail::Turns* entered = nullptr;
  if (turns.try_enter(entered) && !turns.contested.load(std::memory_order_relaxed)) [[likely]]
    return entered;
  // The call of the thread that has its turn must fail, too: on another rank this thread's call may be the first, and
  // would wait for this rank. That thread sees to it in its next wait; here, where there is none.
  turns.contested.store(true);
  for (int ms = 0; !entered && turns.contested.load() && ms < 5000; ++ms) {
    detail::wait_around([] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); });
    turns.try_enter(entered);
  }
  struct Leaves {
    detail::Turns* turns;
    ~Leaves() {
      if (turns) turns->leave();
    }
  } const leaves{entered};
  if (entered) state_->refuse_two_threads();
  throw Error(ErrorKind::usage, state_->two_threads());
}

Turn::Turn(const Communicator& comm) : turns_(comm.take_turn()) {}

detail::Agreement& Communicator::agreement() const {
  return state_->agreement;
}
bool Communicator::in_call() const {
  return detail::Call::of(&state_->agreement) != nullptr;
}
void Communicator::leave() const {
  state_->agreement.leave();
}
void Communicator::check() const {
  state_->agreement.check();
}

void Communicator::count_local_sum(std::size_t values) const {
  ++state_->counters.reductions;
  state_->counters.reduction_values += std::int64_t(values);
}

PendingSum Communicator::start(const void* values, std::size_t n, Number number, Operation operation,
                               bool counted) const {
  if (counted) count_local_sum(n);
  return hold(state_->sums->start(values, n, number, operation, counted));
}

PendingSum Communicator::start(std::shared_ptr<PendingValues> values, std::size_t n, Number number,
                               Operation operation) const {
  count_local_sum(n);
  return hold(state_->sums->start(std::move(values), n, number, operation));
}

PendingSum Communicator::hold(detail::SumSlot& slot) const {
  PendingSum pending;
  pending.slot_ = &slot;
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

void Communicator::all_max(std::span<double> values) const {
  start(values.data(), values.size(), Number::float64, Operation::max, false).wait(values.data());
}
void Communicator::all_sum_and_max(std::span<double> values) const {
  start(values.data(), values.size(), Number::float64, Operation::sum_and_max, false).wait(values.data());
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

void Communicator::check_interrupt() const {
  if (!detail::time_to_ask()) return;
  check();
  detail::ask_user();
}

void Communicator::agree() const {
  if (size_ == 1) return;
  const detail::Agreement::While ending(state_->agreement, detail::Agreement::Ignores::user);
  reduce(Global(0), Operation::max);
}

std::array<Global, 4> Communicator::agree(const std::array<Global, 4>& values) const {
  if (size_ == 1) return values;
  const detail::Agreement::While ending(state_->agreement, detail::Agreement::Ignores::user);
  auto least = values;
  start(least.data(), least.size(), Number::int64, Operation::min, false).wait(least.data());
  return least;
}

void Communicator::agree(std::span<double> closing) const {
  if (closing.empty() || size_ == 1) return agree();
  const detail::Agreement::While ending(state_->agreement, detail::Agreement::Ignores::user);
  all_sum_and_max(closing);
}

void Communicator::all_least(std::span<std::int64_t> values) const {
  if (size_ == 1) return;
  state_->wait_until([] { return true; });  // throws here if some rank has failed
  state_->sums->begin_all();                // native reductions and what follows match by order
  const detail::Agreement::While committed(state_->agreement, detail::Agreement::Ignores::user_and_others);
  start(values.data(), values.size(), Number::int64, Operation::min, false).wait(values.data());
}

void Communicator::meet() const {
  std::int64_t nothing = 0;
  all_least({&nothing, 1});
}

void Communicator::depart() const {
  if (size_ == 1 || state_->simulated) return;
  for (bool again = true; again;) {
    try {
      const auto before = state_->agreement.position();
      collective(*this, [&] {
        const detail::Agreement::While ending(state_->agreement, detail::Agreement::Ignores::user);
        state_->agreement.depart(before);
        state_->wait_until([&] { return state_->agreement.all_departed(); });
      });
      again = false;
    } catch (const Error&) {  // of a rank that goes on; the others may be in further calls
      again = !state_->agreement.lost();
    }
  }
}

void Communicator::fail(std::exception_ptr error) const {
  state_->agreement.fail(std::move(error));
}

}  // namespace tacit::comm
