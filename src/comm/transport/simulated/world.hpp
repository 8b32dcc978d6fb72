// The ranks of a simulation with their clocks, and their message queues.
#pragma once

#include "network.hpp"
#include "rank.hpp"

#include "../../state.hpp"

#include "exec/fiber.hpp"

#include <array>
#include <cstring>
#include <deque>
#include <limits>
#include <map>
#include <queue>
#include <set>
#include <unordered_map>

namespace tacit::comm::simulated {

using detail::State;
constexpr double never = std::numeric_limits<double>::infinity();

// Messages of one sender and tag to one rank: the k-th receive takes the k-th message.
struct Queue {
  struct Message {
    std::int64_t number;
    double left;
    double begun = 0;        // when its first byte leaves
    bool announced = false;  // by rendezvous: fetched by the receiver, from `fetched` on
    double fetched = -1;
    std::vector<std::byte> bytes;
    Step::Id id{};  // where there is a scheduler
  };
  struct Posted {
    std::int64_t number;
    double at;
    std::int64_t turn = 0;  // with a scheduler: the turn when it was posted
    bool given_up = false;
  };
  std::vector<Message> waiting;
  std::vector<Posted> posted;
  std::int64_t sent = 0, received = 0;
};

// The queued messages of one communicator, by receiver and by sender and tag.
struct MessageQueues {
  MessageQueues(int ranks, int n)
      : number(n), looks(std::size_t(ranks)), boxes(std::size_t(ranks)), notices(std::size_t(ranks)) {}
  const int number;
  // With a scheduler: the contiguous range of turns in which a rank has checked for notices here.
  struct Looks {
    std::int64_t first = 0, last = -1;
  };
  std::vector<Looks> looks;
  std::vector<std::unordered_map<std::uint64_t, Queue>> boxes;
  std::vector<std::deque<std::pair<Notice, Step::Id>>> notices;
  std::map<int, std::pair<std::shared_ptr<MessageQueues>, int>>
      children;  // by order of duplication, with the number of ranks still to come
};

class World;

class Rank final : public detail::SimulatedRank {
 public:
  Rank(World& world, int number, std::uint64_t seed)
      : rank(number), world_(world), random_(seed), interruptions_(~seed) {}

  double now() const noexcept override { return clock; }
  void work(const char* name, double bytes, double flops) override;
  void wait() override;
  void let_others_catch_up() override;
  void sum_started(const Transport& over, int channel) override;
  void sum_taken(const Transport& over, int channel) override;
  bool may_poll() const override { return poking_; }
  const MachineModel& machine() const override;
  void restart_clocks() override;
  SimulatedTimes read_clocks() override;

  struct Phase {
    const char* name;
    bool kernel;
    double seconds;
    std::int64_t count;
  };
  Phase& phase(const char* name, bool kernel = false) {
    for (auto& p : phases)
      if (p.name == name || (p.kernel == kernel && std::strcmp(p.name, name) == 0)) return p;
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

  const int rank;
  double clock = 0;
  double wire = 0;         // departure of its last message
  double key = 0;          // the time when it continues, as far as known
  std::uint64_t turn = 0;  // its valid entry in the queue; others are outdated
  bool blocked = false, awake = false, done = false;
  std::int64_t turns = 0, sent = 0;  // with a scheduler: counters, and what was received
  std::shared_ptr<const std::vector<Step::Id>> seen = std::make_shared<std::vector<Step::Id>>();
  void has_seen(const Step::Id& id);
  std::vector<double> arrivals;  // a heap, the earliest first
  std::vector<Phase> phases;
  std::vector<std::function<void()>> polls;
  std::unique_ptr<exec::Fiber> fiber;
  detail::Call* call = nullptr;  // the innermost open call, saved while others run
  std::exception_ptr error;

 protected:
  void begins(const char* name) override { ++phase(name).count; }

 private:
  static const char* name_of(int channel) {
    return channel < State::sum_channels ? "sum" : channel >= State::exchange_channel ? "halo" : "agree";
  }
  void meet(const std::function<void()>& act);
  void suspend(double until);
  void stop_if_stuck() const;
  void compute(const char* name, double seconds);
  double interrupted(double from, double until);
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
  Rank* next() {
    if (scheduler) return chosen();
    drop_outdated();
    if (queue_.empty()) return nullptr;
    Rank* const rank = queue_.top().rank;
    queue_.pop();
    return rank;
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

  void run(std::size_t stack_bytes, const std::function<void(const Communicator&)>& f);
  // A barrier without cost: true on the last rank to arrive.
  bool all_have_come() {
    if (++met_ < int(list.size())) return false;
    met_ = 0;
    return true;
  }

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
  bool stuck = false;                     // deadlock: every rank throws
  std::unique_ptr<SimulatedTimes> times;  // as last read

 private:
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
  int met_ = 0;
  Rank* current_ = nullptr;
  exec::Fiber outside_;
  detail::Call* call_ = nullptr;
  int rank_outside_ = Trace::rank();
};

}  // namespace tacit::comm::simulated
