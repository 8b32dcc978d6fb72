#include "state.hpp"
#include "collective/sums.hpp"
#include "exchange/exchanges.hpp"
#include "mailbox.hpp"

#include <algorithm>
#include <cstring>

namespace tacit::comm::detail {

State::State(std::shared_ptr<Transport> t)
    : transport(std::move(t)),
      simulated(transport->simulated()),
      transport_lock(transport->lock()),
      rank(transport->rank()),
      size(transport->size()),
      agreement(*this, rank, size, transport->largest_tag() / channels),
      sums(std::make_unique<Sums>(*this)),
      exchanges(std::make_unique<Exchanges>()),
      mailbox(std::make_unique<Mailbox>()) {}

State::~State() = default;

std::string State::two_threads() const {
  return message(
      "two threads of rank ", rank, " are in calls of one communicator of ", size,
      " ranks: ranks could not know which call comes first. Use it from one thread at a time, or give each thread a "
      "communicator of its own: comm=tacit.comm.self_() where the threads' systems are independent, else duplicates "
      "that are made before. This communicator cannot be used any more");
}

void State::refuse_two_threads() {
  const std::string text = two_threads();
  if (turns->contested.exchange(false)) agreement.lose(text);
  throw Error(ErrorKind::usage, text);
}

void State::progress() {
  const auto lock = transport_lock->take();
  if (in_progress_) return;
  struct Guard {  // also after an exception
    bool& flag;
    explicit Guard(bool& f) : flag(f) { flag = true; }
    ~Guard() { flag = false; }
  } guard(in_progress_);
  sums->progress();
  if (exchanges->deferred > 0) [[unlikely]] {
    const std::lock_guard in_use(exchanges->in_use);
    for (Exchange* exchange : exchanges->all) exchange->help();
  }
}

bool State::is_simple() const {
  return !agreement.has_error() && !turns->contested.load(std::memory_order_relaxed) && !sums->awaits_values() &&
         exchanges->deferred == 0;
}

bool State::push_on() {
  const auto lock = transport_lock->take();
  bool pending = false;
  try {
    progress();
    const std::lock_guard in_use(exchanges->in_use);
    for (Exchange* exchange : exchanges->all) pending = exchange->push_on() || pending;
  } catch (...) {  // thrown by the next wait
    agreement.swallow();
    return false;
  }
  return pending || sums->pending();
}

namespace {
thread_local std::vector<std::weak_ptr<State>> helping;
}

void State::defer(int parts) {
  if (parts <= 0) return;
  if (exchanges->deferred == 0 &&
      std::none_of(helping.begin(), helping.end(), [&](const auto& w) { return w.lock().get() == this; }))
    helping.push_back(weak_from_this());
  exchanges->deferred += parts;
}

void State::help_others() {
  if (helping.empty()) [[likely]]
    return;
  std::erase_if(helping, [](const auto& w) {
    const auto s = w.lock();
    return !s || s->exchanges->deferred == 0;
  });
  for (std::size_t i = 0; i < helping.size(); ++i)
    if (const auto s = helping[i].lock(); s && s.get() != this && !s->agreement.failed()) s->push_on();
}

Global State::reduce(Global value, Operation operation) {
  SumSlot& slot = sums->start(&value, 1, Number::int64, operation, false);
  struct Owner {
    SumSlot& slot;
    explicit Owner(SumSlot& s) : slot(s) { slot.owned = true; }
    ~Owner() { slot.owned = false; }
  } const owner(slot);
  if (simulated && simulated->recorder) simulated->recorder->wait(slot.recorded);
  const SimulatedRank::For phase(simulated, "agree");
  if (!sums->wait_jointly(slot)) wait_until<Condition::looks>([&] { return slot.done; });
  if (simulated) simulated->sum_taken(*transport, slot.channel);
  std::memcpy(&value, slot.value.data(), sizeof value);
  return value;
}

void State::give_up() {
  sums->give_up();
  const std::lock_guard in_use(exchanges->in_use);
  for (Exchange* exchange : exchanges->all) exchange->give_up();
  sparse_started = 0;
  mailbox->give_up(*transport);
  // Measurements may have been completed on some ranks only.
  exchanges->fastest.clear();
  if (!topology_given) topology = nullptr;
}

void State::renumber() {
  exchanges->numbered = std::uint32_t(reduce(Global(exchanges->numbered), Operation::max));
}

int State::renew() {
  transport = transport->duplicate();
  return transport->largest_tag() / channels;
}

}  // namespace tacit::comm::detail
