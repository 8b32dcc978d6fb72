#include <tacit/comm/replay.hpp>

#include "transport.hpp"

#include "../../agreement/interrupt.hpp"
#include "../../collective/sums.hpp"
#include "../../exchange/exchanges.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <deque>

namespace tacit::comm {
namespace detail {

/// What each rank did.
struct Recorded {
  std::vector<Recorder> ranks;
  std::vector<std::vector<std::size_t>> marks;     // by rank: the ops that are ends of iterations
  std::vector<std::vector<std::int64_t>> gathers;  // bytes of each rank, all different
};

}  // namespace detail

namespace simulated {
namespace {

using detail::Halo;
using detail::Op;
using detail::Recorded;
using detail::SimulatedRank;
using detail::State;
using detail::SumSlot;

/// Which iterations are played how often.
class Script {
 public:
  Script(const Recorded& recorded, std::optional<int> wanted) : recorded_(recorded) {
    const int have = iterations();
    played_ = have;
    if (!wanted || *wanted == have) return;
    require(*wanted >= 1, "a replay of ", *wanted, " iterations; at least 1 is needed");
    find_period();
    require(period_ > 0, "a replay of ", *wanted, " iterations where ", have,
            " were recorded, of which no two successive ones (or groups of up to ", most_period,
            ") did the same; record more of them, or leave the number out");
    const double periods = double(*wanted - have) / period_;
    repeats_ = std::max<std::int64_t>(std::llround(periods), 1 - std::int64_t(alike_));
    played_ = have + int(repeats_) * period_;
  }
  int iterations() const { return int(recorded_.marks[0].size()); }
  int played() const { return played_; }
  int period() const { return repeats_ == 0 ? 0 : period_; }
  /// f(op) of the ops of a recorded rank, one after the other.
  template <class F>
  void each(int rank, F&& f) const {
    const auto& ops = recorded_.ranks[std::size_t(rank)].ops();
    const auto range = [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) f(ops[i]);
    };
    if (repeats_ == 0) return range(0, ops.size());
    // Iterations first_ .. first_ + alike_ * period_ repeat themselves.
    const auto& marks = recorded_.marks[std::size_t(rank)];
    const std::size_t begin = marks[first_], end = marks[first_ + std::size_t(period_)],
                      last = marks[first_ + alike_ * std::size_t(period_)];
    range(0, begin);
    for (std::int64_t k = 0; k < std::int64_t(alike_) + repeats_; ++k) range(begin, end);
    range(last, ops.size());
  }
  std::size_t ops(int rank) const {
    std::size_t n = 0;
    each(rank, [&](const Op&) { ++n; });
    return n;
  }

 private:
  static constexpr int most_period = 128;
  bool same(std::size_t i, std::size_t j) const {
    for (std::size_t r = 0; r < recorded_.ranks.size(); ++r) {
      const auto& ops = recorded_.ranks[r].ops();
      const auto& m = recorded_.marks[r];
      if (!std::equal(ops.begin() + std::ptrdiff_t(m[i]), ops.begin() + std::ptrdiff_t(m[i + 1]),
                      ops.begin() + std::ptrdiff_t(m[j]), ops.begin() + std::ptrdiff_t(m[j + 1])))
        return false;
    }
    return true;
  }
  /// The shortest period of the longest stretch of iterations that repeat themselves.
  void find_period() {
    const std::size_t n = std::size_t(std::max(0, iterations() - 1));  // between two marks each
    for (int p = 1; p <= most_period && 2 * std::size_t(p) <= n; ++p) {
      const auto step = std::size_t(p);
      for (std::size_t begin = 0, i = 0; i + step <= n; ++i) {
        if (i + step < n && same(i, i + step)) continue;
        const std::size_t alike = (i + step - begin) / step;
        if (alike >= 2 && alike * step > alike_ * std::size_t(period_) + std::size_t(period_))
          first_ = begin, alike_ = alike, period_ = p;
        begin = i + 1;
      }
    }
  }
  const Recorded& recorded_;
  int played_ = 0, period_ = 0;
  std::size_t first_ = 0, alike_ = 0;
  std::int64_t repeats_ = 0;
};

/// Which recorded rank each played one follows, and who its neighbours are.
class Places {
 public:
  Places(const Recorded& recorded, const ReplayOptions& o)
      : from_(o.recorded), to_(o.played), periodic_(o.periodic), gathers_(recorded.gathers), before_(gathers_.size()) {
    for (const auto& rank : recorded.ranks)
      for (const auto& halo : rank.halos())
        for (const auto* list : {&halo.to, &halo.from})
          for (const auto& [peer, bytes] : *list) reach(int(&rank - recorded.ranks.data()), peer);
    for (std::size_t a = 0; a < 3; ++a)
      require(to_[a] == from_[a] || from_[a] >= 2 * margin_[a] + 1, "a replay of ", to_[a], " ranks along axis ", a,
              " from ", from_[a], ": messages go over ", margin_[a], " ranks there, for which at least ",
              2 * margin_[a] + 1, " have to be recorded");
  }
  int ranks() const { return to_[0] * to_[1] * to_[2]; }
  /// The bytes that `take` ranks from `first` on, around the end, give to a gather.
  std::int64_t gathered(int gather, int first, int take) const {
    auto& before = before_[std::size_t(gather)];
    if (before.empty()) {
      before.push_back(0);
      for (int r = 0; r < ranks(); ++r)
        before.push_back(before.back() + gathers_[std::size_t(gather)][std::size_t(model(r))]);
    }
    const int last = first + take, n = ranks();
    const auto at = [&](int r) { return before[std::size_t(r)]; };
    return last <= n ? at(last) - at(first) : at(n) - at(first) + at(last - n);
  }
  /// The recorded rank that a played one follows.
  int model(int rank) const {
    auto at = place(rank, to_);
    for (std::size_t a = 0; a < 3; ++a) {
      const int n = to_[a], m = from_[a], edge = margin_[a];
      if (n == m) continue;
      // Also on a ring: the order of a rank's messages is that of its neighbours' numbers, which is another at its
      // ends.
      if (at[a] >= n - edge) at[a] -= n - m;
      else if (at[a] >= edge) at[a] = edge + (at[a] - edge) % (m - 2 * edge);
    }
    return number(at, from_);
  }
  /// The played rank that is for `rank` what `peer` is for the one that it follows.
  int peer(int rank, int model, int peer) const {
    auto at = place(rank, to_);
    const auto steps = between(model, peer);
    for (std::size_t a = 0; a < 3; ++a) at[a] = (at[a] + steps[a] + to_[a]) % to_[a];
    return number(at, to_);
  }

 private:
  using Grid = std::array<int, 3>;
  static Grid place(int rank, const Grid& grid) {
    return {rank % grid[0], rank / grid[0] % grid[1], rank / grid[0] / grid[1]};
  }
  static int number(const Grid& at, const Grid& grid) { return at[0] + grid[0] * (at[1] + grid[1] * at[2]); }
  Grid between(int rank, int peer) const {
    const Grid a = place(rank, from_), b = place(peer, from_);
    Grid steps;
    for (std::size_t i = 0; i < 3; ++i) {
      steps[i] = b[i] - a[i];
      if (!periodic_ || to_[i] == from_[i]) continue;
      if (2 * steps[i] > from_[i]) steps[i] -= from_[i];
      if (2 * steps[i] < -from_[i]) steps[i] += from_[i];
    }
    return steps;
  }
  void reach(int rank, int peer) {
    const Grid steps = between(rank, peer);
    for (std::size_t a = 0; a < 3; ++a) margin_[a] = std::max(margin_[a], std::abs(steps[a]));
  }
  const Grid from_, to_;
  const bool periodic_;
  const std::vector<std::vector<std::int64_t>>& gathers_;
  mutable std::vector<std::vector<std::int64_t>> before_;  // of each gather the bytes of all lower ranks
  Grid margin_{};
};

/// A rank that does what another one did.
class Player {
 public:
  Player(World& world, Rank& rank, const std::shared_ptr<MessageQueues>& room, const Recorded& recorded,
         const Places& places)
      : me_(rank),
        model_(places.model(rank.rank)),
        places_(places),
        halos_(recorded.ranks[std::size_t(model_)].halos()),
        mine_(halos_.size()),
        state_(std::make_shared<State>(std::make_shared<SimulatedTransport>(world, room, rank.rank))) {
    state_->transport->polls([this] { poll(); });
  }
  Player(const Player&) = delete;
  ~Player() { me_.polls.clear(); }
  int model() const { return model_; }

  void play(const Op& op) {
    switch (op.what) {
      case Op::What::work:
        return me_.work(op.name, op.bytes, op.flops);
      case Op::What::sum:
        return start(op);
      case Op::What::sum_wait:
        return wait(sums_[sums_.size() - std::size_t(op.back)]);
      case Op::What::sum_drop:
        return drop(sums_[sums_.size() - std::size_t(op.back)]);
      case Op::What::post:
        return post(op.back);
      case Op::What::arrive:
        return arrive(flights_[flights_.size() - std::size_t(op.back)], false);
      case Op::What::close:
        return arrive(flights_[flights_.size() - std::size_t(op.back)], true);
      case Op::What::gather:
        return gather(op.back);
      case Op::What::iteration:
        return;
    }
  }

 private:
  using Looks = State::Condition;
  struct Flight {
    std::vector<Ticket> receives, sends;
    bool closed = false;
  };

  // As Communicator::progress().
  void poll() {
    state_->progress();
    for (auto& flight : flights_)
      if (!flight.closed) (void)all_there(flight.receives), (void)all_there(flight.sends);
  }
  bool all_there(std::vector<Ticket>& tickets) {
    bool all = true;
    for (auto& t : tickets) all = (!t.active || state_->transport->test(t)) && all;
    return all;
  }
  void start(const Op& op) {
    const auto n = std::size_t(op.bytes);
    if (values_.size() < n) values_.resize(n);
    SumSlot& slot =
        state_->sums->start(values_.data(), n, op.wide ? Number::float64 : Number::float32, Operation::sum, op.counted);
    slot.owned = true;
    while (!sums_.empty() && !sums_.front()) sums_.pop_front();
    sums_.push_back(&slot);
  }
  void wait(SumSlot*& waited) {
    SumSlot& slot = *std::exchange(waited, nullptr);
    const SimulatedRank::For phase(&me_, slot.counted ? "sum" : "agree");
    if (!state_->sums->wait_jointly(slot)) state_->wait_until<Looks::looks>([&] { return slot.done; });
    me_.sum_taken(*state_->transport, slot.channel);
    slot.owned = false;
  }
  void drop(SumSlot*& dropped) {
    SumSlot& slot = *std::exchange(dropped, nullptr);
    state_->wait_until<Looks::looks>([&] { return slot.done; });
    slot.owned = false;
  }
  void post(int halo) {
    const SimulatedRank::For phase(&me_, "halo", true);
    const Halo& with = neighbours(halo);
    while (!flights_.empty() && flights_.front().closed) flights_.pop_front();
    auto& flight = flights_.emplace_back();
    const int tag = state_->tag(State::exchange_channel);
    for (const auto& [from, bytes] : with.from)
      flight.receives.push_back(state_->transport->receive(from, tag, nullptr, std::size_t(bytes)));
    for (const auto& [to, bytes] : with.to)
      flight.sends.push_back(state_->transport->send(to, tag, nullptr, std::size_t(bytes)));
  }
  void arrive(Flight& flight, bool sent) {
    const SimulatedRank::For phase(&me_, "halo");
    if (sent)
      state_->wait_until<Looks::looks>([&] { return int(all_there(flight.receives)) & int(all_there(flight.sends)); });
    else state_->wait_until<Looks::looks>([&] { return all_there(flight.receives); });
    flight.closed = flight.closed || sent;
  }
  /// As Communicator::all_gather_bytes().
  void gather(int number) {
    const int ranks = state_->size, rank = state_->rank;
    for (int have = 1, round = 0; have < ranks; have *= 2, ++round) {
      const int take = std::min(have, ranks - have);
      const int to = (rank - have + ranks) % ranks, from = (rank + have) % ranks;
      const int tag = state_->tag(State::gather_channel + round);
      const auto swap = [&](std::int64_t out, std::int64_t in) {
        std::vector<Ticket> both{state_->transport->send(to, tag, nullptr, std::size_t(out)),
                                 state_->transport->receive(from, tag, nullptr, std::size_t(in))};
        state_->wait_until<Looks::looks>([&] { return all_there(both); });
      };
      const auto sizes = std::int64_t(take) * std::int64_t(sizeof(Global));
      swap(sizes, sizes);
      swap(places_.gathered(number, rank, take), places_.gathered(number, from, take));
    }
  }
  const Halo& neighbours(int halo) {
    Halo& known = mine_[std::size_t(halo)];
    const Halo& recorded = halos_[std::size_t(halo)];
    if (known.to.empty() && known.from.empty()) {
      known = recorded;
      for (auto* list : {&known.to, &known.from})
        for (auto& [peer, bytes] : *list) peer = places_.peer(me_.rank, model_, peer);
    }
    return known;
  }

  Rank& me_;
  const int model_;
  const Places& places_;
  const std::vector<Halo>& halos_;
  std::vector<Halo> mine_;     // the same halos of this rank's neighbours
  std::deque<SumSlot*> sums_;  // in the order of starting; null: waited for
  std::deque<Flight> flights_;
  std::vector<double> values_;
  std::shared_ptr<State> state_;
};

}  // namespace
}  // namespace simulated

int Recording::ranks() const {
  return int(of_->ranks.size());
}
int Recording::iterations() const {
  return int(of_->marks[0].size());
}

Recording record(int ranks, const MachineModel& machine, const std::function<void(const Communicator&)>& f,
                 std::size_t stack_bytes) {
  simulated::check(ranks, machine, stack_bytes);
  require(ranks >= 2, "a recording on ", ranks, " rank; it has no messages, and needs at least 2");
  simulated::World world(ranks, machine, nullptr);
  world.record();
  (void)simulated::run(world, stack_bytes, f);
  auto made = std::make_shared<detail::Recorded>();
  for (int r = 0; r < ranks; ++r) {
    auto& recorder = *world.recorders[std::size_t(r)];
    require(recorder.fault().empty(), "rank ", r, " ", recorder.fault(),
            " while it is recorded: what follows depends on the order of arrival, and cannot be replayed");
    std::vector<std::size_t> marks;
    for (std::size_t i = 0; i < recorder.ops().size(); ++i)
      if (recorder.ops()[i].what == detail::Op::What::iteration) marks.push_back(i + 1);
    made->marks.push_back(std::move(marks));
    const std::size_t first = made->marks[0].size(), own = made->marks.back().size();
    require(own == first, "ranks 0 and ", r, " recorded ", first, " and ", own, " iterations");
    made->ranks.push_back(std::move(recorder));
  }
  // Gathers are the same calls on all ranks; each gets the number of what all of them give.
  std::vector<std::vector<detail::Op*>> calls;
  for (auto& recorder : made->ranks) calls.push_back(recorder.gathers());
  for (std::size_t k = 0; k < calls[0].size(); ++k) {
    std::vector<std::int64_t> bytes;
    for (const auto& own : calls) {
      require(own.size() == calls[0].size(), "ranks recorded ", calls[0].size(), " and ", own.size(), " gathers");
      bytes.push_back(std::int64_t(own[k]->bytes));
    }
    auto& known = made->gathers;
    const auto number = std::find(known.begin(), known.end(), bytes) - known.begin();
    if (number == std::ptrdiff_t(known.size())) known.push_back(std::move(bytes));
    for (const auto& own : calls) own[k]->back = std::int32_t(number);
  }
  return Recording(std::move(made));
}

Replayed replay(const Recording& recording, const MachineModel& machine, const ReplayOptions& options) {
  using namespace simulated;
  const auto& recorded = recording.of();
  const auto ranks_of = [](const std::array<int, 3>& grid, const char* what) {
    std::int64_t ranks = 1;
    for (const int n : grid) {
      require(n >= 1 && n <= 1 << 20, what, " is a grid of ", grid[0], " x ", grid[1], " x ", grid[2], " ranks");
      ranks *= n;
    }
    require(ranks <= 1 << 20, what, " is a grid of ", ranks, " ranks; at most ", 1 << 20, " are possible");
    return int(ranks);
  };
  require(ranks_of(options.recorded, "recorded") == recording.ranks(), "recorded is a grid of ",
          ranks_of(options.recorded, "recorded"), " ranks, and the recording has ", recording.ranks());
  const int ranks = ranks_of(options.played, "played");
  constexpr std::size_t stack_bytes = 32768;
  check(ranks, machine, stack_bytes);
  const Places places(recorded, options);
  const Script script(recorded, options.iterations);
  World world(ranks, machine, nullptr);
  world.hollow = true;
  world.run(stack_bytes, [&](Rank& rank, const std::shared_ptr<MessageQueues>& room) {
    Player player(world, rank, room, recorded, places);
    const auto look = [] {};  // ranks fail alone
    rank.restart_clocks(look);
    const std::size_t all = rank.rank == 0 && options.progress ? script.ops(player.model()) : 0;
    std::size_t done = 0, shown = 0;
    script.each(player.model(), [&](const Op& op) {
      player.play(op);
      if (rank.rank == 0 && detail::time_to_ask()) rank.on_outer_stack(detail::ask_user);
      if (all > 0 && ++done >= shown + std::max<std::size_t>(1, all / 200)) {
        shown = done;
        rank.on_outer_stack([&] { options.progress(double(done) / double(all)); });
      }
    });
    (void)rank.read_clocks(look);
  });
  Replayed made;
  made.times = *world.times;
  made.ranks = ranks, made.iterations = script.played(), made.period = script.period();
  made.set_ups = recorded.ranks[0].set_ups();
  return made;
}

}  // namespace tacit::comm
