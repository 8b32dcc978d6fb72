#include <tacit/comm/simulate.hpp>

#include "fiber.hpp"
#include "simulated.hpp"
#include "state.hpp"

#include <tacit/base/names.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <map>
#include <queue>
#include <unordered_map>

namespace tacit::comm {
namespace {

using detail::State;
constexpr double never = std::numeric_limits<double>::infinity();
constexpr double most_polls_apart = 1e-6;  // of a kernel: an interval far too small is no endless loop
constexpr int most_ranks = 1 << 20;

// Messages of one sender and tag to one rank: the k-th receive takes the k-th message.
struct Queue {
  struct Message {
    std::int64_t number;
    double left;
    std::vector<std::byte> bytes;
  };
  struct Posted {
    std::int64_t number;
    double at;
  };
  std::vector<Message> waiting;
  std::vector<Posted> posted;
  std::int64_t sent = 0, received = 0;
};

// Where the messages of one communicator wait, by receiver and by sender and tag.
struct Mailroom {
  explicit Mailroom(int ranks) : boxes(std::size_t(ranks)), notices(std::size_t(ranks)) {}
  std::vector<std::unordered_map<std::uint64_t, Queue>> boxes;
  std::vector<std::deque<Notice>> notices;
  std::map<int, std::pair<std::shared_ptr<Mailroom>, int>> children;  // by order of duplication: room, ranks to come
};

std::uint64_t key_of(int from, int tag) {
  return std::uint64_t(from) << 32 | std::uint32_t(tag);
}

class World;

class Rank final : public detail::SimulatedRank {
 public:
  Rank(World& world, int number, std::uint64_t seed) : rank(number), world_(world), random_(seed) {}

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

  const int rank;
  double clock = 0;
  double wire = 0;         // when the last message has left
  double key = 0;          // when it goes on, as far as is known
  std::uint64_t turn = 0;  // its entry among those that wait for their turn; others are out of date
  bool blocked = false, awake = false, done = false;
  std::vector<double> arrivals;  // a heap, the earliest first
  std::vector<Phase> phases;
  std::vector<std::function<void()>> polls;
  std::unique_ptr<detail::Fiber> fiber;
  detail::Call* call = nullptr;  // the innermost, while others run
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
  World& world_;
  std::uint64_t random_;
  bool poking_ = false;
  double last_look_ = -1;
  int looks_ = 0;
};

class World {
 public:
  World(int ranks, const MachineModel& m) : machine(m) {
    for (int r = 0; r < ranks; ++r)
      list.push_back(std::make_unique<Rank>(
          *this, r, (m.seed + 1) * 0x9E3779B97F4A7C15u + std::uint64_t(r) * 0xD1B54A32D192ED03u));
  }

  // A rank that goes on at `time`, after those whose turn came before for the same time.
  void line_up(Rank& rank, double time) {
    rank.key = time;
    rank.turn = ++turns_;
    if (time < never) queue_.push({time, turns_, &rank});
  }
  bool somebody_until(double time) {
    drop_outdated();
    return !queue_.empty() && queue_.top().time <= time;
  }
  Rank* next() {
    drop_outdated();
    if (queue_.empty()) return nullptr;
    Rank* const rank = queue_.top().rank;
    queue_.pop();
    return rank;
  }
  // Null: whoever called simulate().
  void go_on_with(Rank* to) {
    Rank* const from = std::exchange(current_, to);
    (from ? from->call : call_) = detail::Call::innermost();
    detail::Call::innermost() = to ? to->call : call_;
    Trace::use(to);
    Trace::set_rank(to ? to->rank : rank_outside_);
    (from ? *from->fiber : outside_).give_way(to ? *to->fiber : outside_);
  }

  void run(std::size_t stack_bytes, const std::function<void(const Communicator&)>& f);
  // Of a barrier that takes no time: true on the rank that comes last.
  bool all_have_come() {
    if (++met_ < int(list.size())) return false;
    met_ = 0;
    return true;
  }

  struct Link {
    double latency, overhead, gap;
  };
  Link link(int a, int b) const {
    for (const auto& level : machine.levels)
      if (a / level.ranks == b / level.ranks) return {level.latency, level.overhead, level.gap};
    return {machine.latency, machine.overhead, machine.gap};
  }
  void restart();
  SimulatedTimes read() const;

  const MachineModel machine;
  std::vector<std::unique_ptr<Rank>> list;
  std::vector<std::weak_ptr<Mailroom>> rooms;
  std::int64_t messages = 0, bytes = 0;
  int finished = 0;
  bool stuck = false;                     // all wait for each other, and are told
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
  std::priority_queue<Entry> queue_;
  std::uint64_t turns_ = 0;
  int met_ = 0;
  Rank* current_ = nullptr;
  detail::Fiber outside_;
  detail::Call* call_ = nullptr;
  int rank_outside_ = Trace::rank();
};

template <class List>
auto find(List& list, std::int64_t number) {
  return std::find_if(list.begin(), list.end(), [&](const auto& item) { return item.number == number; });
}

class SimulatedTransport final : public Transport {
 public:
  SimulatedTransport(World& world, std::shared_ptr<Mailroom> room, int rank)
      : world_(world), me_(*world.list[std::size_t(rank)]), room_(std::move(room)) {
    if (world_.machine.progress == MachineModel::Progress::ideal) lanes_.assign(State::sum_channels, -never);
  }
  int rank() const override { return me_.rank; }
  int size() const override { return int(world_.list.size()); }
  const char* kind() const override { return "simulated"; }

  Ticket send(int to, int tag, const void* data, std::size_t bytes) override {
    const int channel = tag % State::channels;
    const auto link = world_.link(me_.rank, to);
    const double sending = link.overhead + link.gap * double(bytes);
    double* const lane = lane_of(channel);
    Queue::Message message;
    if (lane) {
      message.left = *lane + sending;
      *lane += link.overhead;
    } else {
      message.left = me_.wire = std::max(me_.wire, me_.clock) + sending;
      me_.spend(channel, link.overhead);
    }
    message.bytes.resize(bytes);
    if (bytes) std::memcpy(message.bytes.data(), data, bytes);
    ++world_.messages;
    world_.bytes += std::int64_t(bytes);
    Queue& queue = room_->boxes[std::size_t(to)][key_of(me_.rank, tag)];
    message.number = queue.sent++;
    Rank& there = *world_.list[std::size_t(to)];
    const auto asked = find(queue.posted, message.number);
    if (asked != queue.posted.end()) {
      if (lane) there.wake();
      else there.wake_at(arrival(message, asked->at, link.latency));
    } else if (channel >= State::sum_channels && channel < State::exchange_channel) {  // may be looked for by probe()
      there.wake_at(message.left + link.latency);
    }
    queue.waiting.push_back(std::move(message));
    return {};
  }

  Ticket receive(int from, int tag, void* data, std::size_t bytes) override {
    Queue& queue = room_->boxes[std::size_t(me_.rank)][key_of(from, tag)];
    Ticket t;
    t.words[0] = reinterpret_cast<std::uintptr_t>(data);
    t.words[1] = bytes;
    t.words[2] = std::uintptr_t(queue.received++);
    t.numbers[0] = from;
    t.numbers[1] = tag;
    t.active = true;
    double* const lane = lane_of(tag % State::channels);
    const Queue::Posted posted{std::int64_t(t.words[2]), lane ? *lane : me_.clock};
    queue.posted.push_back(posted);
    if (const auto there = find(queue.waiting, posted.number); there != queue.waiting.end()) {
      if (lane) me_.wake();
      else me_.wake_at(arrival(*there, posted.at, world_.link(from, me_.rank).latency));
    }
    return t;
  }

  bool test(Ticket& t) override {
    if (!t.active) return true;
    auto& box = room_->boxes[std::size_t(me_.rank)];
    const auto entry = box.find(key_of(t.numbers[0], t.numbers[1]));
    if (entry == box.end()) return false;
    Queue& queue = entry->second;
    const auto message = find(queue.waiting, std::int64_t(t.words[2]));
    if (message == queue.waiting.end()) return false;
    const auto posted = find(queue.posted, message->number);
    const auto link = world_.link(t.numbers[0], me_.rank);
    const double arrives = arrival(*message, posted->at, link.latency);
    const int channel = t.numbers[1] % State::channels;
    if (double* const lane = lane_of(channel)) *lane = std::max(*lane, arrives) + link.overhead;
    else if (arrives > me_.clock) return false;
    else me_.spend(channel, link.overhead);
    if (message->bytes.size() != t.words[1])
      throw Error(ErrorKind::environment, tacit::message("a message of ", message->bytes.size(), " bytes from rank ",
                                                         t.numbers[0], " where ", t.words[1], " were expected"));
    if (!message->bytes.empty())
      std::memcpy(reinterpret_cast<void*>(t.words[0]), message->bytes.data(), message->bytes.size());
    queue.waiting.erase(message);
    queue.posted.erase(posted);
    if (queue.waiting.empty() && queue.posted.empty() && queue.sent == queue.received) box.erase(entry);
    t.active = false;
    return true;
  }
  void cancel(Ticket& t, std::shared_ptr<void>) override { t.active = false; }

  std::optional<Arrival> probe(int tag) override {
    for (const auto& [key, queue] : room_->boxes[std::size_t(me_.rank)]) {
      if (int(std::uint32_t(key)) != tag || queue.waiting.empty()) continue;
      const int from = int(key >> 32);
      const auto& message = queue.waiting.front();
      if (message.left + world_.link(from, me_.rank).latency <= me_.clock) return Arrival{from, message.bytes.size()};
    }
    return {};
  }

  void send_notice(const Notice& notice) override {
    for (int r = 0; r < size(); ++r)
      if (r != me_.rank) {
        room_->notices[std::size_t(r)].push_back(notice);
        world_.list[std::size_t(r)]->wake();
      }
  }
  std::optional<Notice> poll_notice() override {
    auto& notices = room_->notices[std::size_t(me_.rank)];
    if (notices.empty()) return {};
    Notice notice = std::move(notices.front());
    notices.pop_front();
    return notice;
  }
  std::shared_ptr<Transport> duplicate() override {
    const int order = duplicated_++;
    auto& [child, left] = room_->children[order];
    if (!child) {
      child = std::make_shared<Mailroom>(size()), left = size();
      world_.rooms.push_back(child);
    }
    auto mine = std::make_shared<SimulatedTransport>(world_, child, me_.rank);
    if (--left == 0) room_->children.erase(order);
    return mine;
  }
  void allow_engine() override {
    throw Error(ErrorKind::environment,
                "a simulated rank has no thread for an engine; MachineModel::progress says how pending sums go on");
  }
  detail::SimulatedRank* simulated() override { return &me_; }
  void polls(std::function<void()> push_on) override { me_.polls.push_back(std::move(push_on)); }

  void sum_started(int channel) {
    if (lanes_.empty()) return;
    lanes_[std::size_t(channel)] = me_.clock;
    me_.spend(channel, world_.machine.overhead);
  }
  double sum_is_there(int channel) const { return lanes_.empty() ? -never : lanes_[std::size_t(channel)]; }

 private:
  double arrival(const Queue::Message& message, double posted, double latency) const {
    const bool meeting = world_.machine.delivery == MachineModel::Delivery::meeting;
    return (meeting ? std::max(message.left, posted) : message.left) + latency;
  }
  double* lane_of(int channel) { return channel < int(lanes_.size()) ? &lanes_[std::size_t(channel)] : nullptr; }
  World& world_;
  Rank& me_;
  std::shared_ptr<Mailroom> room_;
  std::vector<double> lanes_;  // by channel: how far a sum has come whose rounds go on by themselves
  int duplicated_ = 0;
};

// ---- a rank's clock ----

double exponential(std::uint64_t& state) {  // SplitMix64, and -log of a number in (0, 1]
  std::uint64_t z = (state += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return -std::log(double(((z ^ (z >> 31)) >> 11) + 1) * 0x1p-53);
}

void Rank::work(const char* name, double bytes, double flops) {
  const MachineModel& m = world_.machine;
  if (bytes <= 0 && flops <= 0) return;
  const double rate = m.cache > 0 && bytes <= m.cache ? m.cache_bandwidth : m.bandwidth;
  double seconds = m.kernel + std::max(rate > 0 ? bytes / rate : 0, m.flop_rate > 0 ? flops / m.flop_rate : 0);
  if (m.noise > 0) seconds += m.noise * exponential(random_);
  auto& account = phase(name, true);
  account.seconds += seconds;
  ++account.count;
  if (m.progress != MachineModel::Progress::poll) {
    clock += seconds;
    return;
  }
  const double interval = std::max(m.poll_interval, most_polls_apart * seconds);
  while (seconds > 0) {
    const double piece = std::min(seconds, interval);
    clock += piece;
    seconds -= piece;
    poll();
  }
}

void Rank::poll() {
  if (poking_) return;
  if (world_.somebody_until(clock)) suspend(clock);
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
                "all simulated ranks wait for each other: no message is on its way (do all ranks call the same "
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
    phase(phase_ ? phase_ : "agree").seconds += arrivals.front() - clock;
    clock = arrivals.front();
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
  // Whoever only looks, again and again, would look for ever: its time stands still.
  if (looks_ > 100) looks_ = 0, wait();
  else if (world_.somebody_until(clock)) suspend(clock);
}

void Rank::sum_started(const Transport& over, int channel) {
  const_cast<SimulatedTransport&>(static_cast<const SimulatedTransport&>(over)).sum_started(channel);
}

void Rank::sum_taken(const Transport& over, int channel) {
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
  for (auto& rank : list) {
    rank->clock = rank->wire = 0;
    rank->arrivals.clear();
    rank->phases.clear();
  }
  // What is on its way has come.
  std::erase_if(rooms, [](const auto& room) { return room.expired(); });
  for (const auto& weak : rooms)
    if (const auto room = weak.lock())
      for (auto& box : room->boxes)
        for (auto& [key, queue] : box) {
          for (auto& message : queue.waiting) message.left = -never;
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

void World::run(std::size_t stack_bytes, const std::function<void(const Communicator&)>& f) {
  const auto room = std::make_shared<Mailroom>(int(list.size()));
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
    rank->fiber = std::make_unique<detail::Fiber>(stack_bytes, [this, &one, r = rank.get()] {
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

constexpr Names<MachineModel::Delivery, 2> deliveries{
    {{{MachineModel::Delivery::eager, "eager"}, {MachineModel::Delivery::meeting, "meeting"}}}};
constexpr Names<MachineModel::Progress, 3> progresses{{{{MachineModel::Progress::ideal, "ideal"},
                                                        {MachineModel::Progress::in_wait, "in_wait"},
                                                        {MachineModel::Progress::poll, "poll"}}}};
enum class Known { hopper, fitted, modern, tsubame };
constexpr Names<Known, 4> machines{
    {{{Known::hopper, "hopper"}, {Known::fitted, "fitted"}, {Known::modern, "modern"}, {Known::tsubame, "tsubame"}}}};

detail::SimulatedRank& rank_of(const Communicator& comm, const char* what) {
  auto* const rank = comm.transport().simulated();
  require(rank != nullptr, what, " on ", comm.kind(), " ranks; only simulated ranks have clocks of their own");
  return *rank;
}

}  // namespace

MachineModel MachineModel::named(std::string_view name) {
  MachineModel m;
  m.bandwidth = 12e9;
  m.flop_rate = 12e9;
  m.cache = 512 * 1024;
  m.cache_bandwidth = 50e9;
  switch (machines.value(name, "machine")) {
    case Known::hopper:
      m.latency = 1.5e-6, m.overhead = 0.5e-6, m.gap = 0.33e-9, m.noise = 2e-6;
      break;
    case Known::fitted:
      m.latency = 1.5e-6, m.overhead = 0.85e-6, m.gap = 1.4e-9;
      break;
    case Known::modern:
      m.latency = 1e-6, m.overhead = 0.2e-6, m.gap = 0.1e-9, m.noise = 0.5e-6;
      break;
    case Known::tsubame:
      m.latency = 21.5e-6, m.overhead = 2e-6, m.gap = 1e-9;
      m.bandwidth = 2.1e9, m.cache = 1 << 20, m.cache_bandwidth = 8e9, m.flop_rate = 5e9;
      break;
  }
  return m;
}

std::vector<std::string> MachineModel::names() {
  return machines.all();
}
MachineModel::Delivery MachineModel::delivery_of(std::string_view name) {
  return deliveries.value(name, "delivery");
}
MachineModel::Progress MachineModel::progress_of(std::string_view name) {
  return progresses.value(name, "progress");
}

const char* to_string(MachineModel::Delivery delivery) {
  return deliveries.name(delivery);
}
const char* to_string(MachineModel::Progress progress) {
  return progresses.name(progress);
}

std::string MachineModel::describe() const {
  char text[400];
  std::snprintf(text, sizeof text,
                "L %g us, o %g us, G %g ns/B, noise %g us, %g GB/s (%g GB/s up to %g KB), %g Gflop/s, %g us a kernel, "
                "delivery %s, progress %s",
                1e6 * latency, 1e6 * overhead, 1e9 * gap, 1e6 * noise, 1e-9 * bandwidth, 1e-9 * cache_bandwidth,
                cache / 1024, 1e-9 * flop_rate, 1e6 * kernel, to_string(delivery), to_string(progress));
  std::string all = text;
  if (progress == Progress::poll) all += message(" every ", 1e6 * poll_interval, " us");
  for (const auto& l : levels)
    all += message(", within ", l.ranks, " ranks: L ", 1e6 * l.latency, " us, o ", 1e6 * l.overhead, " us, G ",
                   1e9 * l.gap, " ns/B");
  if (noise > 0) all += message(", seed ", seed);
  return all;
}

void MachineModel::check() const {
  const auto time = [](const char* name, double value) {
    require(value >= 0 && value <= 1e15, "a machine's ", name, " of ", value, "; a number from 0 to 1e15 is needed");
  };
  // Clocks stay finite.
  const auto rate = [](const char* name, double value) {
    require(value == 0 || (value >= 1e-15 && std::isfinite(value)), "a machine's ", name, " of ", value,
            "; 0, or a number above 1e-15 is needed");
  };
  time("latency", latency), time("overhead", overhead), time("gap", gap), time("noise", noise);
  time("kernel", kernel), time("cache", cache);
  rate("bandwidth", bandwidth), rate("flop_rate", flop_rate), rate("cache_bandwidth", cache_bandwidth);
  require(cache == 0 || bandwidth == 0 || cache_bandwidth > 0, "a machine with a cache of ", cache,
          " bytes and no cache_bandwidth: what runs from it would cost nothing");
  require(progress != Progress::poll || (poll_interval > 0 && std::isfinite(poll_interval)), "a machine polls every ",
          poll_interval, " s; a number > 0 is needed");
  for (int inner = 1; const auto& level : levels) {
    time("latency within a level", level.latency), time("overhead within a level", level.overhead);
    time("gap within a level", level.gap);
    require(level.ranks >= inner && level.ranks % inner == 0, "a level of ", level.ranks, " ranks around groups of ",
            inner, "; levels go from the inside out, each a multiple of the one before");
    inner = level.ranks;
  }
  require(levels.size() <= 3, "a machine of ", levels.size(), " levels; at most 3");
}

double SimulatedTimes::seconds(std::string_view name) const {
  for (const auto& phase : phases)
    if (phase.name == name) return phase.seconds;
  return 0;
}
double SimulatedTimes::kernel_seconds() const {
  double all = 0;
  for (const auto& phase : phases)
    if (phase.kernel) all += phase.seconds;
  return all;
}

SimulatedTimes simulate(int ranks, const MachineModel& machine, const std::function<void(const Communicator&)>& f,
                        std::size_t stack_bytes) {
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
  World world(ranks, machine);
  world.run(stack_bytes, f);
  for (const auto& rank : world.list)
    if (rank->error) std::rethrow_exception(rank->error);
  return world.times ? *world.times : world.read();
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
