#include "joint_sum.hpp"
#include "transport.hpp"

#include <tacit/base/virtual_clock.hpp>

#include <cmath>

namespace tacit::comm::simulated {
namespace {

constexpr double most_polls_apart = 1e-6;  // of a kernel's polls, so that a tiny interval causes no endless loop

double exponential(std::uint64_t& state) {  // SplitMix64, and -log of a number in (0, 1]
  std::uint64_t z = (state += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return -std::log(double(((z ^ (z >> 31)) >> 11) + 1) * 0x1p-53);
}

// The clock and rank of what happens meanwhile.
class As {
 public:
  explicit As(Rank& rank) : clock_(virtual_clock()), rank_(Trace::rank()) {
    Trace::use(&rank);
    Trace::set_rank(rank.rank);
  }
  As(const As&) = delete;
  ~As() {
    Trace::use(clock_);
    Trace::set_rank(rank_);
  }

 private:
  VirtualClock* const clock_;
  const int rank_;
};

}  // namespace

// ---- a rank ----

void Rank::work(const char* name, double bytes, double flops) {
  const MachineModel& m = world_.machine;
  if (bytes <= 0 && flops <= 0) return;
  send_unsent();
  if (recorder) recorder->work(name, bytes, flops);
  double seconds = m.kernel_seconds(bytes, flops);
  if (m.noise > 0) seconds += m.noise * exponential(random_);
  auto& account = phase(name, true);
  account.seconds += seconds;
  ++account.count;
  if (m.progress != MachineModel::Progress::poll) return compute(name, seconds);
  const double interval = std::max(m.poll_interval, most_polls_apart * seconds);
  while (seconds > 0) {
    const double piece = std::min(seconds, interval);
    compute(name, piece);
    seconds -= piece;
    poll();
  }
}

void Rank::compute(const char* name, double seconds) {
  const double end = clock + seconds, late = interrupted(clock, end);
  if (late > end) phase(name, true).seconds += late - end;
  clock = late;
}

// When work from `from` to `until` ends: later by what interruptions of this rank take of it.
double Rank::interrupted(double from, double until) {
  const MachineModel& m = world_.machine;
  while (interruption_ < until) {
    const double stop = interruption_ + m.noise_duration * exponential(interruptions_);
    if (stop > from) until += stop - std::max(interruption_, from);
    interruption_ = stop + m.noise_interval * exponential(interruptions_);
  }
  return until;
}

void Rank::restart() {
  clock = wire = 0;
  arrivals.clear();
  phases.clear();
  if (world_.machine.noise_interval > 0) interruption_ = world_.machine.noise_interval * exponential(interruptions_);
}

void Rank::keep_order() {
  if (world_.somebody_until(clock)) suspend(clock);
}

void Rank::poll() {
  if (poking_) return;
  if (receiving == 0 && !has_devices && !detail::look_on_own_stacks) return;  // there is nothing to find
  keep_order();
  poking_ = true;
  for (std::size_t i = 0; i < polls.size(); ++i) polls[i]();
  poking_ = false;
}

void Rank::suspend(double until) {
  world_.line_up(*this, until);
  let_run(world_.next());
}

void Rank::let_run(Rank* next) {
  if (next != this) world_.go_on_with(next);
}

void Rank::stop_if_stuck() const {
  if (world_.stuck)
    throw Error(ErrorKind::environment,
                "all simulated ranks wait for each other: no message is in flight (do all ranks call the same "
                "collectives, and the same exchanges?)");
}

bool Rank::wait(Check check) {
  send_unsent();
  stop_if_stuck();
  noticed = false;
  if (!awake) {
    blocked = true;
    // Where messages queue for wires, to send one lets other ranks run first, which needs the rank's own stack.
    if (!world_.scheduler && !world_.network.shared()) check_ = check;
    suspend(next_arrival());
    check_ = {};
    blocked = false;
    stop_if_stuck();
    if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
    if (const auto found = std::exchange(found_, {})) return *found == Check::Found::all;
  }
  take_arrivals();
  return false;
}

void Rank::take_arrivals() {
  if (std::exchange(awake, false)) return;
  if (arrivals.front() > clock) {
    const double back = interrupted(arrivals.front(), arrivals.front());
    phase(phase_ ? phase_ : "agree").seconds += back - clock;
    clock = back;
  }
  while (!arrivals.empty() && arrivals.front() <= clock) {
    std::pop_heap(arrivals.begin(), arrivals.end(), std::greater<>());
    arrivals.pop_back();
  }
}

bool Rank::waits_on() {
  if (!check_.call || noticed || world_.stuck || detail::look_on_own_stacks) return false;
  blocked = false;
  do {
    take_arrivals();
    try {
      const As context(*this);
      found_ = check_.call(check_.what);
    } catch (...) {
      thrown_ = std::current_exception();
      return false;
    }
    if (found_ != Check::Found::nothing) return false;
    found_.reset();
  } while (awake);
  blocked = true;
  world_.line_up(*this, next_arrival());
  return true;
}

void Rank::wake_at(double time) {
  arrivals.push_back(time);
  std::push_heap(arrivals.begin(), arrivals.end(), std::greater<>());
  if (blocked && std::max(clock, time) < key) world_.line_up(*this, std::max(clock, time));
}

void Rank::wake() {
  if (std::exchange(awake, true)) return;
  if (blocked) world_.line_up(*this, clock);
}

void Rank::let_others_catch_up() {
  send_unsent();
  stop_if_stuck();
  looks_ = last_look_ == clock ? looks_ + 1 : 0;
  last_look_ = clock;
  // A rank that polls in a loop would never end, since its clock does not advance: let others run.
  if (looks_ > 100) looks_ = 0, wait({});
  else if (world_.somebody_until(clock)) suspend(clock);
}

bool Rank::may_join() const {
  return receiving == 0 && !unsent.send && world_.joins();
}

double Rank::depart(Transport& over, int to, int tag, std::size_t bytes) {
  return static_cast<SimulatedTransport&>(over).leave(to, tag, bytes).left;
}

void Rank::deliver(Transport& over, int to, int tag, const void* data, std::size_t bytes, double left) {
  static_cast<SimulatedTransport&>(over).deliver(to, tag, data, bytes, {left, left, false});
}

void Rank::sum_by_messages(Transport& over, int tag) {
  if (!world_.joins()) return;
  auto& coming = static_cast<SimulatedTransport&>(over).room().coming;
  auto& sum = coming[tag];
  if (sum.jointly && sum.by_messages == 0) sum.jointly->break_up();
  if (++sum.by_messages == int(world_.list.size())) coming.erase(tag);
}

// Waits until another rank has made it so.
template <class Done>
void Rank::wait_for_others(Done done, const std::function<void()>& look) {
  struct Blocked {
    bool& flag;
    explicit Blocked(bool& f) : flag(f) { flag = true; }
    ~Blocked() { flag = false; }
  } const now(blocked);
  while (!done()) {
    stop_if_stuck();
    look();
    awake = false;
    suspend(never);
  }
}

bool Rank::wait_jointly(Transport& over, int tag, detail::SumSlot& slot, const std::function<void()>& look) {
  unsent = {};
  auto& transport = static_cast<SimulatedTransport&>(over);
  auto& coming = transport.room().coming;
  auto& entry = coming[tag];
  // Ranks that sum different things get the error of messages.
  if (entry.by_messages > 0 || (entry.jointly && !entry.jointly->fits(slot))) return false;
  if (!entry.jointly) entry.jointly = world_.joint_sum(), entry.jointly->begin(slot);
  const auto sum = entry.jointly;
  sum->join(*this, slot.left, slot.value.data(), &phase(phase_ ? phase_ : "agree").seconds);
  if (sum->complete()) {
    coming.erase(tag);
    sum->finish();
    let_run(world_.next());
  }
  try {
    wait_for_others([&] { return sum->done() || sum->broken_up(); }, look);
  } catch (...) {
    slot.left = -1;
    coming.erase(tag);
    throw;
  }
  if (sum->broken_up()) return false;
  slot.left = -1;
  std::memcpy(slot.value.data(), sum->result(), slot.value.size());
  return true;
}

void Rank::sum_started(const Transport& over, int channel) {
  if (world_.scheduler) return;  // nothing advances by itself
  const_cast<SimulatedTransport&>(static_cast<const SimulatedTransport&>(over)).sum_started(channel);
}

void Rank::sum_taken(const Transport& over, int channel) {
  if (world_.scheduler) return;
  const double there = static_cast<const SimulatedTransport&>(over).sum_is_there(channel);
  if (there > clock) spend(channel, there - clock);
}

const MachineModel& Rank::machine() const {
  return world_.machine;
}

void Rank::meet(const std::function<void()>& act, const std::function<void()>& look) {
  send_unsent();
  stop_if_stuck();
  if (!world_.all_have_come()) {
    try {
      return wait_for_others([&, before = world_.meetings] { return world_.meetings != before; }, look);
    } catch (...) {
      --world_.waiting;
      throw;
    }
  }
  act();
  for (auto& other : world_.list) world_.line_up(*other, other->clock);
  let_run(world_.next());  // all go on in the order of ranks, whoever came last
}

void Rank::on_outer_stack(const std::function<void()>& f) {
  std::exception_ptr thrown;
  const std::function<void()> quiet = [&] {
    try {
      f();
    } catch (...) {
      thrown = std::current_exception();
    }
  };
  world_.outside(*this, quiet);
  if (thrown) std::rethrow_exception(thrown);
}

void Rank::restart_clocks(const std::function<void()>& look) {
  meet(
      [&] {
        world_.restart();
        for (auto& recorder : world_.recorders) recorder->begin();
      },
      look);
}

SimulatedTimes Rank::read_clocks(const std::function<void()>& look) {
  meet(
      [&] {
        world_.times = std::make_unique<SimulatedTimes>(world_.read());
        for (auto& recorder : world_.recorders) recorder->end();
      },
      look);
  return *world_.times;
}

// ---- all of them ----

std::shared_ptr<JointSum> World::joint_sum() {
  for (const auto& known : joint_sums_)
    if (known.use_count() == 1) return known;
  return joint_sums_.emplace_back(std::make_shared<JointSum>(*this));
}

void World::restart() {
  messages = bytes = 0;
  network.restart();
  for (auto& rank : list) rank->restart();
  // Deliver what is in flight.
  std::erase_if(rooms, [](const auto& room) { return room.expired(); });
  for (const auto& weak : rooms)
    if (const auto room = weak.lock())
      for (auto& box : room->boxes)
        box.each([](std::uint64_t, Queue& queue) {
          for (auto& message : queue.waiting) message.left = message.begun = -never, message.announced = false;
          for (auto& posted : queue.posted) posted.at = -never;
        });
}

SimulatedTimes World::read() const {
  SimulatedTimes t;
  std::map<std::pair<bool, std::string>, SimulatedTimes::Phase> phases;
  const double share = 1.0 / double(list.size());
  for (const auto& rank : list) {
    t.finish = std::max(t.finish, rank->clock);
    for (const auto& p : rank->phases) {
      auto& phase = phases[{!p.kernel, p.name}];
      phase.name = p.name, phase.kernel = p.kernel;
      phase.seconds += p.seconds * share;
      phase.count += double(p.count) * share;
    }
  }
  for (auto& [key, phase] : phases) t.phases.push_back(std::move(phase));
  t.messages = messages;
  t.bytes = bytes;
  return t;
}

void Rank::has_seen(const Step::Id& id) {
  auto more = std::make_shared<std::vector<Step::Id>>(*seen);
  more->push_back(id);
  seen = std::move(more);
}

void World::delay(Step::What what, const Channel& channel, std::function<void(const Step::Id&)> arrive,
                  std::function<std::int64_t()> awaited) {
  const auto [room, from, to, tag] = channel;
  Rank& sender = *list[std::size_t(from)];
  const Step::Id id{from, ++sender.sent};
  const auto before = last_sent_.try_emplace(channel, Step::Id{from, 0}).first;
  in_flight_.push_back(
      {{what, to, id, std::exchange(before->second, id), 0, sender.seen}, std::move(arrive), std::move(awaited)});
}

// The rank that runs next, after delivering what arrives before.
Rank* World::chosen() {
  for (;;) {
    std::vector<Step> possible;
    for (const int r : ready_) possible.push_back({Step::What::turn, r, {r, list[std::size_t(r)]->turns + 1}});
    const std::size_t turns = possible.size();
    std::vector<std::size_t> place;  // in in_flight_
    for (std::size_t i = 0; i < in_flight_.size(); ++i) {
      Step step = in_flight_[i].step;
      if (list[std::size_t(step.rank)]->done) continue;
      const bool first = std::none_of(in_flight_.begin(), in_flight_.end(),
                                      [&](const auto& other) { return other.step.id == step.after; });
      step.awaited = in_flight_[i].awaited();
      if (!first || step.awaited < 0) continue;
      possible.push_back(std::move(step));
      place.push_back(i);
    }
    if (possible.empty()) return nullptr;
    const std::size_t next = (*scheduler)(possible);
    if (next < turns) {
      Rank& rank = *list[std::size_t(possible[next].rank)];
      ready_.erase(rank.rank);
      ++rank.turns;
      return &rank;
    }
    const auto it = in_flight_.begin() + std::ptrdiff_t(place[next - turns]);
    const auto arriving = std::move(*it);
    in_flight_.erase(it);
    arriving.arrive(arriving.step.id);
  }
}

void World::run(std::size_t stack_bytes, const OfRank& f) {
  static thread_local bool running = false;
  require(!running, "simulate was called on a simulated rank");
  struct Running {
    Running() { running = true; }
    ~Running() { running = false; }
  } const here;
  const auto room = std::make_shared<MessageQueues>(int(list.size()), 0);
  rooms.push_back(room);
  const auto one = [&](Rank& rank) noexcept {
    try {
      f(rank, room);
    } catch (...) {
      rank.error = std::current_exception();
      rank.failed_in_deadlock = stuck;
    }
  };
  // Stacks with guard pages take two mappings each, of the 65,530 that Linux allows a process by default.
  constexpr std::size_t most_guarded = 16384;
  if (list.size() > most_guarded) stacks_.emplace(list.size(), stack_bytes);
  for (auto& rank : list) {
    rank->restart();
    auto whole = [this, &one, r = rank.get()] {
      one(*r);
      r->send_unsent();
      r->polls.clear();
      r->done = true;
      ++finished;
      go_on_with(next());
    };
    rank->fiber = stacks_ ? std::make_unique<exec::Fiber>(*stacks_, std::size_t(rank->rank), std::move(whole))
                          : std::make_unique<exec::Fiber>(stack_bytes, std::move(whole));
    line_up(*rank, 0);
  }
  std::size_t first = 0;  // all lower ranks are done
  while (finished < int(list.size())) {
    Rank* rank = next();
    if (!rank) {
      stuck = true;
      while (list[first]->done) ++first;
      rank = list[first].get();
    }
    go_on_with(rank);
    while (const auto* const f = std::exchange(errand_.second, nullptr)) {
      (*f)();
      go_on_with(errand_.first);
    }
  }
  for (std::size_t r = 0; stacks_ && r < list.size(); ++r)
    if (!stacks_->intact(r))
      throw Error(ErrorKind::environment, message("the stack of simulated rank ", r, " has overrun its ", stack_bytes,
                                                  " bytes; simulate needs more stack_bytes for this"));
  const Rank* failed = nullptr;
  for (const auto& rank : list)
    if (rank->error && (!failed || (failed->failed_in_deadlock && !rank->failed_in_deadlock))) failed = rank.get();
  if (failed) std::rethrow_exception(failed->error);
}

}  // namespace tacit::comm::simulated

namespace tacit::comm {
namespace {

constexpr int most_ranks = 1 << 20;

detail::SimulatedRank& rank_of(const Communicator& comm, const char* what) {
  auto* const rank = comm.transport().simulated();
  require(rank != nullptr, what, " on ", comm.kind(), " ranks; only simulated ranks have clocks of their own");
  return *rank;
}

}  // namespace

namespace simulated {

void check(int ranks, const MachineModel& machine, std::size_t stack_bytes) {
  require(ranks >= 1 && ranks <= most_ranks, "simulate was asked for ", ranks, " ranks; 1 to ", most_ranks,
          " are possible");
  require(stack_bytes >= 32768, "a stack of ", stack_bytes, " bytes for a rank; at least 32768 are needed");
  machine.check();
}

SimulatedTimes run(World& world, std::size_t stack_bytes, const std::function<void(const Communicator&)>& f) {
  const int ranks = int(world.list.size());
  world.run(stack_bytes, [&](Rank& rank, const std::shared_ptr<MessageQueues>& room) {
    const Communicator comm(std::make_shared<SimulatedTransport>(world, room, rank.rank));
    if (!world.machine.levels.empty()) {
      std::vector<int> sizes;
      for (int inner = 1; const auto& level : world.machine.levels)
        sizes.push_back(level.ranks / inner), inner = level.ranks;
      comm.use(Topology::given(ranks, sizes));
    }
    collective(comm, [&] { f(comm); });
  });
  return world.times ? *world.times : world.read();
}

}  // namespace simulated

SimulatedTimes simulate(int ranks, const MachineModel& machine, const std::function<void(const Communicator&)>& f,
                        std::size_t stack_bytes) {
  simulated::check(ranks, machine, stack_bytes);
  simulated::World world(ranks, machine, nullptr);
  return simulated::run(world, stack_bytes, f);
}

void simulate_in_order(int ranks, const Scheduler& next, const std::function<void(const Communicator&)>& f) {
  MachineModel no_time;
  no_time.progress = MachineModel::Progress::in_wait;  // messages of sums are steps like all others
  constexpr std::size_t stack_bytes = 256 * 1024;
  simulated::check(ranks, no_time, stack_bytes);
  simulated::World world(ranks, no_time, &next);
  (void)simulated::run(world, stack_bytes, f);
}

void on_outer_stack(const Communicator& comm, const std::function<void()>& f) {
  auto* const rank = comm.transport().simulated();
  if (rank) rank->on_outer_stack(f);
  else f();
}
const MachineModel* simulated_machine(const Communicator& comm) {
  auto* const rank = comm.transport().simulated();
  return rank ? &rank->machine() : nullptr;
}
void restart_clocks(const Communicator& comm) {
  rank_of(comm, "restart_clocks").restart_clocks([&] { comm.check(); });
}
SimulatedTimes read_clocks(const Communicator& comm) {
  return rank_of(comm, "read_clocks").read_clocks([&] { comm.check(); });
}

}  // namespace tacit::comm
