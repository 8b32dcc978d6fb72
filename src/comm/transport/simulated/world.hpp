// The ranks of a simulation with their clocks.
#pragma once

#include "network.hpp"
#include "queues.hpp"
#include "rank.hpp"

#include "../../state.hpp"

#include "exec/fiber.hpp"

#include <array>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <queue>
#include <set>

namespace tacit::comm::simulated {

using detail::State;
constexpr double never = std::numeric_limits<double>::infinity();

class World;

class Rank final : public detail::SimulatedRank {
 public:
  Rank(World& world, int number, std::uint64_t seed)
      : rank(number), world_(world), random_(seed), interruptions_(~seed) {}

  double now() const noexcept override { return clock; }
  void work(const char* name, double bytes, double flops) override;
  bool wait(Check check) override;
  void let_others_catch_up() override;
  void sum_started(const Transport& over, int channel) override;
  void sum_taken(const Transport& over, int channel) override;
  bool may_poll() const override { return poking_; }
  bool may_join() const override;
  double depart(Transport& over, int to, int tag, std::size_t bytes) override;
  void deliver(Transport& over, int to, int tag, const void* data, std::size_t bytes, double left) override;
  void sum_by_messages(Transport& over, int tag) override;
  bool wait_jointly(Transport& over, int tag, detail::SumSlot& slot, const std::function<void()>& look) override;
  const MachineModel& machine() const override;
  void on_outer_stack(const std::function<void()>& f) override;
  void restart_clocks(const std::function<void()>& look) override;
  SimulatedTimes read_clocks(const std::function<void()>& look) override;

  struct Phase {
    const char* name;
    bool kernel;
    double seconds;
    std::int64_t count;
  };
  Phase& phase(const char* name, bool kernel = false) {
    for (auto& p : phases)
      if (p.name == name) return p;
    for (auto& p : phases)
      if (p.kernel == kernel && std::strcmp(p.name, name) == 0) return p;
    return phases.emplace_back(Phase{name, kernel, 0, 0});
  }
  void spend(int channel, double seconds) {
    clock += seconds;
    phase(phase_ ? phase_ : name_of(channel)).seconds += seconds;
  }
  void wake_at(double time);
  void wake();
  void poll();
  /// As at the beginning of a run.
  void restart();
  /// Lets ranks run whose clocks are behind, so that what follows happens in the order of time.
  void keep_order();
  /// Of a rank whose turn it is: goes on waiting, on the stack of another rank, where it has a check that finds
  /// nothing.
  bool waits_on();

  const int rank;
  double clock = 0;
  double wire = 0;         // departure of its last message
  double key = 0;          // the time when it continues, as far as known
  std::uint64_t turn = 0;  // its valid entry in the queue; others are outdated
  bool blocked = false, awake = false, done = false;
  bool noticed = false;              // a notice has come since it last waited
  int receiving = 0;                 // receives under way
  std::int64_t turns = 0, sent = 0;  // with a scheduler: counters, and what was received
  std::shared_ptr<const std::vector<Step::Id>> seen = std::make_shared<std::vector<Step::Id>>();
  void has_seen(const Step::Id& id);
  std::vector<double> arrivals;  // a heap, the earliest first
  std::vector<Phase> phases;
  std::vector<std::function<void()>> polls;
  std::unique_ptr<exec::Fiber> fiber;
  detail::Call* call = nullptr;  // the innermost open call, saved while others run
  std::exception_ptr error;
  bool failed_in_deadlock = false;  // the error may be no more than that

 protected:
  void begins(const char* name) override { ++phase(name).count; }

 private:
  static const char* name_of(int channel) {
    return channel < State::sum_channels ? "sum" : channel >= State::exchange_channel ? "halo" : "agree";
  }
  void meet(const std::function<void()>& act, const std::function<void()>& look);
  template <class Done>
  void wait_for_others(Done done, const std::function<void()>& look);
  void suspend(double until);
  void let_run(Rank* next);
  void take_arrivals();
  double next_arrival() const { return arrivals.empty() ? never : std::max(clock, arrivals.front()); }
  void stop_if_stuck() const;
  void compute(const char* name, double seconds);
  double interrupted(double from, double until);
  Check check_{};                      // of the wait that it is in
  std::optional<Check::Found> found_;  // by the check, on another stack
  std::exception_ptr thrown_;          // by it
  World& world_;
  std::uint64_t random_, interruptions_;
  double interruption_ = never;  // when the next one begins
  bool poking_ = false;
  double last_look_ = -1;
  int looks_ = 0;
};

class World {
 public:
  World(int ranks, const MachineModel& m, const Scheduler* s) : machine(m), scheduler(s), network(machine, ranks) {
    for (int r = 0; r < ranks; ++r)
      list.push_back(std::make_unique<Rank>(
          *this, r, (m.seed + 1) * 0x9E3779B97F4A7C15u + std::uint64_t(r) * 0xD1B54A32D192ED03u));
  }

  // Queues a rank to continue at `time`, after those queued earlier for the same time.
  void line_up(Rank& rank, double time) {
    rank.key = time;
    if (scheduler) [[unlikely]]
      return void(time < never && ready_.insert(rank.rank).second);
    rank.turn = ++turns_;
    if (time < never) queue_.push({time, turns_, &rank});
  }
  bool somebody_until(double time) {
    if (scheduler) [[unlikely]]
      return true;
    drop_outdated();
    return !queue_.empty() && queue_.top().time <= time;
  }
  /// The rank whose stack runs next; null where all wait.
  Rank* next() {
    if (scheduler) return chosen();
    for (;;) {
      drop_outdated();
      if (queue_.empty()) return nullptr;
      Rank* const rank = queue_.top().rank;
      queue_.pop();
      if (!rank->waits_on()) return rank;
    }
  }
  // Sends a message: arrive(id) is called at once (the message holds its time), or when the scheduler chooses.
  // awaited() is the turn since which the receiver waits for it, -1 where it does not.
  template <class Arrive, class Awaited>
  void send(Step::What what, const MessageQueues& room, int from, int to, int tag, Arrive arrive, Awaited awaited) {
    if (!scheduler) [[likely]]
      return arrive(Step::Id{});
    delay(what, {room.number, from, to, what == Step::What::notice ? -1 : tag}, std::move(arrive), std::move(awaited));
  }
  // Null: the caller of simulate().
  void go_on_with(Rank* to) {
    Rank* const from = std::exchange(current_, to);
    (from ? from->call : call_) = detail::Call::innermost();
    detail::Call::innermost() = to ? to->call : call_;
    Trace::use(to);
    Trace::set_rank(to ? to->rank : rank_outside_);
    (from ? *from->fiber : outside_).give_way(to ? *to->fiber : outside_);
  }

  /// f() on the stack of run(); it must not throw.
  void outside(Rank& rank, const std::function<void()>& f) {
    errand_ = {&rank, &f};
    go_on_with(nullptr);
  }
  /// f(rank, queues) on the stack of each rank. Rethrows the exception of the lowest rank that failed, before a
  /// deadlock if one has.
  using OfRank = std::function<void(Rank&, const std::shared_ptr<MessageQueues>&)>;
  void run(std::size_t stack_bytes, const OfRank& f);
  /// From now on.
  void record() {
    for (auto& rank : list) rank->recorder = recorders.emplace_back(std::make_unique<detail::Recorder>()).get();
  }
  // A barrier without cost: true on the last rank to arrive.
  bool all_have_come() {
    if (++waiting < int(list.size())) return false;
    waiting = 0;
    ++meetings;
    return true;
  }
  int waiting = 0, meetings = 0;

  void restart();
  SimulatedTimes read() const;

  const MachineModel machine;
  const Scheduler* const scheduler;  // decides the order of events; null: the clocks do
  Network network;
  std::vector<std::unique_ptr<Rank>> list;
  std::vector<std::weak_ptr<MessageQueues>> rooms;
  int rooms_made = 0;
  std::int64_t messages = 0, bytes = 0;
  int finished = 0;
  bool hollow = false;  // messages have sizes and no bytes
  std::vector<std::unique_ptr<detail::Recorder>> recorders;
  /// Whether sums that all ranks wait for are computed together: not where rounds advance by themselves, which begin
  /// when the sum does, nor where the times of messages depend on other messages, on noise or on a scheduler.
  bool joins() const {
    return machine.eager_limit == 0 && machine.noise_interval == 0 &&
           machine.progress != MachineModel::Progress::ideal && !network.shared() && !scheduler &&
           !detail::look_on_own_stacks;
  }
  /// A joint sum that nobody uses.
  std::shared_ptr<JointSum> joint_sum();
  bool stuck = false;                     // deadlock: every rank throws
  std::unique_ptr<SimulatedTimes> times;  // as last read

 private:
  std::vector<std::shared_ptr<JointSum>> joint_sums_;
  std::optional<exec::FiberStacks> stacks_;  // of very many ranks
  struct Entry {
    double time;
    std::uint64_t turn;
    Rank* rank;
    bool operator<(const Entry& other) const { return time != other.time ? time > other.time : turn > other.turn; }
  };
  void drop_outdated() {
    while (!queue_.empty() && (queue_.top().rank->turn != queue_.top().turn || queue_.top().rank->done)) queue_.pop();
  }
  // With a scheduler: the ranks that can run, what can arrive, and the last step sent over each channel (communicator,
  // sender, receiver, tag).
  using Channel = std::array<int, 4>;
  Rank* chosen();
  struct InFlight {
    Step step;
    std::function<void(const Step::Id&)> arrive;
    std::function<std::int64_t()> awaited;
  };
  void delay(Step::What what, const Channel& channel, std::function<void(const Step::Id&)> arrive,
             std::function<std::int64_t()> awaited);
  std::set<int> ready_;
  std::vector<InFlight> in_flight_;
  std::map<Channel, Step::Id> last_sent_;

  std::priority_queue<Entry> queue_;
  std::uint64_t turns_ = 0;
  Rank* current_ = nullptr;
  std::pair<Rank*, const std::function<void()>*> errand_{};
  exec::Fiber outside_;
  detail::Call* call_ = nullptr;
  int rank_outside_ = Trace::rank();
};

/// Error(usage) for what no simulation can have.
void check(int ranks, const MachineModel& machine, std::size_t stack_bytes);
/// The times that f read last, or those of the whole run.
SimulatedTimes run(World& world, std::size_t stack_bytes, const std::function<void(const Communicator&)>& f);

}  // namespace tacit::comm::simulated
