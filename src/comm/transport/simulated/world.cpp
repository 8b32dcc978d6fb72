#include "transport.hpp"

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

}  // namespace

// ---- a rank ----

void Rank::work(const char* name, double bytes, double flops) {
  const MachineModel& m = world_.machine;
  if (bytes <= 0 && flops <= 0) return;
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
  keep_order();
  poking_ = true;
  for (std::size_t i = 0; i < polls.size(); ++i) polls[i]();
  poking_ = false;
}

void Rank::suspend(double until) {
  world_.line_up(*this, until);
  Rank* const next = world_.next();
  if (next != this) world_.go_on_with(next);
}

void Rank::stop_if_stuck() const {
  if (world_.stuck)
    throw Error(ErrorKind::environment,
                "all simulated ranks wait for each other: no message is in flight (do all ranks call the same "
                "collectives, and the same exchanges?)");
}

void Rank::wait() {
  stop_if_stuck();
  if (!awake) {
    blocked = true;
    suspend(arrivals.empty() ? never : std::max(clock, arrivals.front()));
    blocked = false;
    stop_if_stuck();
  }
  if (std::exchange(awake, false)) return;
  const auto pop = [&] {
    std::pop_heap(arrivals.begin(), arrivals.end(), std::greater<>());
    arrivals.pop_back();
  };
  if (arrivals.front() > clock) {
    const double back = interrupted(arrivals.front(), arrivals.front());
    phase(phase_ ? phase_ : "agree").seconds += back - clock;
    clock = back;
  }
  while (!arrivals.empty() && arrivals.front() <= clock) pop();
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
  stop_if_stuck();
  looks_ = last_look_ == clock ? looks_ + 1 : 0;
  last_look_ = clock;
  // A rank that polls in a loop would never end, since its clock does not advance: let others run.
  if (looks_ > 100) looks_ = 0, wait();
  else if (world_.somebody_until(clock)) suspend(clock);
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

void Rank::meet(const std::function<void()>& act) {
  stop_if_stuck();
  if (!world_.all_have_come()) return suspend(never), stop_if_stuck();
  act();
  for (auto& other : world_.list)
    if (other.get() != this) world_.line_up(*other, other->clock);
}

void Rank::restart_clocks() {
  meet([&] { world_.restart(); });
}

SimulatedTimes Rank::read_clocks() {
  meet([&] { world_.times = std::make_unique<SimulatedTimes>(world_.read()); });
  return *world_.times;
}

// ---- all of them ----

void World::restart() {
  messages = bytes = 0;
  network.restart();
  for (auto& rank : list) rank->restart();
  // Deliver what is in flight.
  std::erase_if(rooms, [](const auto& room) { return room.expired(); });
  for (const auto& weak : rooms)
    if (const auto room = weak.lock())
      for (auto& box : room->boxes)
        for (auto& [key, queue] : box) {
          for (auto& message : queue.waiting) message.left = message.begun = -never, message.announced = false;
          for (auto& posted : queue.posted) posted.at = -never;
        }
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

void World::run(std::size_t stack_bytes, const std::function<void(const Communicator&)>& f) {
  const auto room = std::make_shared<MessageQueues>(int(list.size()), 0);
  rooms.push_back(room);
  const auto one = [&](Rank& rank) noexcept {
    try {
      const Communicator comm(std::make_shared<SimulatedTransport>(*this, room, rank.rank));
      if (!machine.levels.empty()) {
        std::vector<int> sizes;
        for (int inner = 1; const auto& level : machine.levels)
          sizes.push_back(level.ranks / inner), inner = level.ranks;
        comm.use(Topology::given(int(list.size()), sizes));
      }
      collective(comm, [&] { f(comm); });
    } catch (...) {
      rank.error = std::current_exception();
    }
  };
  for (auto& rank : list) {
    rank->restart();
    rank->fiber = std::make_unique<exec::Fiber>(stack_bytes, [this, &one, r = rank.get()] {
      one(*r);
      r->polls.clear();
      r->done = true;
      ++finished;
      go_on_with(next());
    });
    line_up(*rank, 0);
  }
  while (finished < int(list.size())) {
    Rank* rank = next();
    if (!rank) {
      stuck = true;
      rank = std::find_if(list.begin(), list.end(), [](const auto& r) { return !r->done; })->get();
    }
    go_on_with(rank);
  }
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

namespace {
SimulatedTimes run(int ranks, const MachineModel& machine, const std::function<void(const Communicator&)>& f,
                   std::size_t stack_bytes, const Scheduler* scheduler) {
  require(ranks >= 1 && ranks <= most_ranks, "simulate was asked for ", ranks, " ranks; 1 to ", most_ranks,
          " are possible");
  require(stack_bytes >= 32768, "a stack of ", stack_bytes, " bytes for a rank; at least 32768 are needed");
  static thread_local bool running = false;
  require(!running, "simulate was called on a simulated rank");
  machine.check();
  struct Running {
    Running() { running = true; }
    ~Running() { running = false; }
  } const here;
  simulated::World world(ranks, machine, scheduler);
  world.run(stack_bytes, f);
  for (const auto& rank : world.list)
    if (rank->error) std::rethrow_exception(rank->error);
  return world.times ? *world.times : world.read();
}
}  // namespace

SimulatedTimes simulate(int ranks, const MachineModel& machine, const std::function<void(const Communicator&)>& f,
                        std::size_t stack_bytes) {
  return run(ranks, machine, f, stack_bytes, nullptr);
}

void simulate_in_order(int ranks, const Scheduler& next, const std::function<void(const Communicator&)>& f) {
  MachineModel no_time;
  no_time.progress = MachineModel::Progress::in_wait;  // messages of sums are steps like all others
  (void)run(ranks, no_time, f, 256 * 1024, &next);
}

const MachineModel* simulated_machine(const Communicator& comm) {
  auto* const rank = comm.transport().simulated();
  return rank ? &rank->machine() : nullptr;
}
void restart_clocks(const Communicator& comm) {
  rank_of(comm, "restart_clocks").restart_clocks();
}
SimulatedTimes read_clocks(const Communicator& comm) {
  return rank_of(comm, "read_clocks").read_clocks();
}

}  // namespace tacit::comm
