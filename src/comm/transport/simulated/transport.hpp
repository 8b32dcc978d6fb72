// The transport of simulated ranks, with the times of sending and arrival.
#pragma once

#include "world.hpp"

#include <algorithm>

namespace tacit::comm::simulated {

inline std::uint64_t key_of(int from, int tag) {
  return std::uint64_t(from) << 32 | std::uint32_t(tag);
}

template <class List>
auto find(List& list, std::int64_t number) {
  return std::find_if(list.begin(), list.end(), [&](const auto& item) { return item.number == number; });
}

class SimulatedTransport final : public Transport {
 public:
  SimulatedTransport(World& world, std::shared_ptr<MessageQueues> room, int rank)
      : world_(world), me_(*world.list[std::size_t(rank)]), room_(std::move(room)) {
    if (world_.machine.progress == MachineModel::Progress::ideal) lanes_.assign(State::sum_channels, -never);
  }
  int rank() const override { return me_.rank; }
  int size() const override { return int(world_.list.size()); }
  const char* kind() const override { return "simulated"; }

  Ticket send(int to, int tag, const void* data, std::size_t bytes) override {
    me_.send_unsent();
    deliver(to, tag, data, bytes, leave(to, tag, bytes));
    return {};
  }
  /// When a message leaves.
  struct Leaving {
    double left, begun;
    bool announced;
  };
  /// Charges a message.
  Leaving leave(int to, int tag, std::size_t bytes) {
    const int channel = tag % State::channels;
    const auto link = world_.network.link(me_.rank, to);
    const double sending = link.overhead + link.gap * double(bytes);
    ++world_.messages;
    world_.bytes += std::int64_t(bytes);
    if (double* const lane = lane_of(channel)) {  // it takes no shared wires, which messages pass in the order of time
      const double left = *lane + sending;
      *lane += link.overhead;
      return {left, left, false};
    }
    if (world_.network.shared() && !world_.scheduler) me_.keep_order();
    const double left = std::max(me_.wire, me_.clock) + sending, begun = left - link.gap * double(bytes);
    me_.wire = left;
    me_.spend(channel, link.overhead);
    return {world_.network.past_wires(me_.rank, to, bytes, begun, left), begun, world_.network.by_rendezvous(bytes)};
  }
  void deliver(int to, int tag, const void* data, std::size_t bytes, const Leaving& leaving) {
    double* const lane = lane_of(tag % State::channels);
    Queue::Message message;
    message.left = leaving.left, message.begun = leaving.begun, message.announced = leaving.announced;
    message.bytes = {world_.hollow ? nullptr : data, bytes};
    Queue& queue = room_->boxes[std::size_t(to)].at(key_of(me_.rank, tag));
    message.number = queue.sent++;
    if (!world_.scheduler) [[likely]]
      return arrive(world_, queue, me_.rank, to, tag, lane != nullptr, std::move(message));
    const std::int64_t number = message.number;
    world_.send(
        Step::What::message, *room_, me_.rank, to, tag,
        [&world = world_, room = room_, from = me_.rank, to, tag, by_itself = lane != nullptr,
         message = std::move(message)](const Step::Id& id) mutable {
          message.id = id;
          Queue& there = room->boxes[std::size_t(to)].at(key_of(from, tag));
          arrive(world, there, from, to, tag, by_itself, std::move(message));
        },
        [&queue, number, probed = may_be_probed(tag)] {
          const auto posted = find(queue.posted, number);
          if (posted == queue.posted.end()) return std::int64_t(probed ? 0 : -1);
          return posted->given_up ? -1 : posted->turn;
        });
  }

  Ticket receive(int from, int tag, void* data, std::size_t bytes) override {
    me_.send_unsent();
    ++me_.receiving;
    Queue& queue = room_->boxes[std::size_t(me_.rank)].at(key_of(from, tag));
    Ticket t;
    t.words[0] = reinterpret_cast<std::uintptr_t>(data);
    t.words[1] = bytes;
    t.words[2] = std::uintptr_t(queue.received++);
    t.numbers[0] = from;
    t.numbers[1] = tag;
    t.active = true;
    double* const lane = lane_of(tag % State::channels);
    const Queue::Posted posted{std::int64_t(t.words[2]), lane ? *lane : me_.clock, me_.turns};
    queue.posted.push_back(posted);
    if (const auto there = find(queue.waiting, posted.number); there != queue.waiting.end()) {
      if (lane) me_.wake();
      else me_.wake_at(arrival(world_, *there, posted.at, world_.network.link(from, me_.rank).latency));
    }
    return t;
  }

  bool test(Ticket& t) override {
    if (!t.active) return true;
    auto& box = room_->boxes[std::size_t(me_.rank)];
    const std::uint64_t key = key_of(t.numbers[0], t.numbers[1]);
    Queue* const found = box.find(key);
    if (!found) return false;
    Queue& queue = *found;
    const auto message = find(queue.waiting, std::int64_t(t.words[2]));
    if (message == queue.waiting.end()) return false;
    const auto posted = find(queue.posted, message->number);
    const auto link = world_.network.link(t.numbers[0], me_.rank);
    const double arrives = arrival(world_, *message, posted->at, link.latency);
    if (message->announced && message->fetched < 0) {  // what has arrived is the announcement
      if (arrives > me_.clock) return false;
      message->fetched = me_.clock;
      me_.wake_at(arrival(world_, *message, posted->at, link.latency));
      return false;
    }
    const int channel = t.numbers[1] % State::channels;
    if (double* const lane = lane_of(channel)) *lane = std::max(*lane, arrives) + link.overhead;
    else if (arrives > me_.clock) return false;
    else me_.spend(channel, link.overhead);
    if (message->bytes.size() != t.words[1])
      throw Error(ErrorKind::environment, tacit::message("a message of ", message->bytes.size(), " bytes from rank ",
                                                         t.numbers[0], " where ", t.words[1], " were expected"));
    if (!world_.hollow) message->bytes.copy_to(reinterpret_cast<void*>(t.words[0]));
    if (world_.scheduler) [[unlikely]]
      me_.has_seen(message->id);
    queue.waiting.erase(message);
    queue.posted.erase(posted);
    if (queue.empty()) box.drop(key);
    t.active = false;
    --me_.receiving;
    return true;
  }
  void cancel(Ticket& t, std::shared_ptr<void>) override {
    if (std::exchange(t.active, false)) --me_.receiving;
    if (!world_.scheduler) return;
    auto& posted = room_->boxes[std::size_t(me_.rank)].at(key_of(t.numbers[0], t.numbers[1])).posted;
    if (const auto it = find(posted, std::int64_t(t.words[2])); it != posted.end()) it->given_up = true;
  }

  std::optional<Arrival> probe(int tag) override {
    std::optional<Arrival> found;
    std::pair<double, int> earliest;
    room_->boxes[std::size_t(me_.rank)].each([&](std::uint64_t key, Queue& queue) {
      if (int(std::uint32_t(key)) != tag) return;
      const int from = int(key >> 32);
      const auto message = find(queue.waiting, queue.received);  // earlier ones are being received
      if (message == queue.waiting.end()) return;
      const double arrives = shows(*message, world_.network.link(from, me_.rank).latency);
      if (arrives > me_.clock) return;
      const std::pair<double, int> one{arrives, from};
      if (!found || one < earliest) earliest = one, found = Arrival{from, message->bytes.size()};
    });
    return found;
  }

  void send_notice(const Notice& notice) override {
    for (int r = 0; r < size(); ++r)
      if (r != me_.rank)
        world_.send(
            Step::What::notice, *room_, me_.rank, r, 0,
            [&world = world_, room = room_, r, notice](const Step::Id& id) {
              room->notices[std::size_t(r)].emplace_back(notice, id);
              world.list[std::size_t(r)]->noticed = true;
              world.list[std::size_t(r)]->wake();
            },
            [&world = world_, room = room_, r] {
              const auto& looks = room->looks[std::size_t(r)];
              return looks.last == world.list[std::size_t(r)]->turns ? looks.first : -1;
            });
  }
  std::optional<Notice> poll_notice() override {
    auto& notices = room_->notices[std::size_t(me_.rank)];
    if (world_.scheduler) [[unlikely]] {
      auto& looks = room_->looks[std::size_t(me_.rank)];
      if (looks.last < me_.turns - 1) looks.first = me_.turns;
      looks.last = me_.turns;
    }
    if (notices.empty()) return {};
    auto [notice, id] = std::move(notices.front());
    notices.pop_front();
    if (world_.scheduler) me_.has_seen(id);
    return notice;
  }
  std::shared_ptr<Transport> duplicate() override {
    const int order = duplicated_++;
    auto& [child, left] = room_->children[order];
    if (!child) {
      child = std::make_shared<MessageQueues>(size(), ++world_.rooms_made), left = size();
      world_.rooms.push_back(child);
    }
    auto mine = std::make_shared<SimulatedTransport>(world_, child, me_.rank);
    if (--left == 0) room_->children.erase(order);
    return mine;
  }
  void allow_engine() override {
    throw Error(ErrorKind::environment,
                "a simulated rank has no thread for an engine; MachineModel::progress says how pending sums advance");
  }
  detail::SimulatedRank* simulated() override { return &me_; }
  void polls(std::function<void()> push_on) override { me_.polls.push_back(std::move(push_on)); }

  void sum_started(int channel) {
    if (lanes_.empty()) return;
    lanes_[std::size_t(channel)] = me_.clock;
    me_.spend(channel, world_.machine.overhead);
  }
  MessageQueues& room() { return *room_; }
  double* lane_of(int channel) { return channel < int(lanes_.size()) ? &lanes_[std::size_t(channel)] : nullptr; }
  double sum_is_there(int channel) const { return lanes_.empty() ? -never : lanes_[std::size_t(channel)]; }

 private:
  static bool may_be_probed(int tag) {
    const int channel = tag % State::channels;
    return (channel >= State::sum_channels && channel < State::exchange_channel) || channel == State::mail_channel;
  }
  /// `by_itself`: the rounds of its sum advance without the ranks.
  static void arrive(World& world, Queue& queue, int from, int to, int tag, bool by_itself, Queue::Message message) {
    Rank& there = *world.list[std::size_t(to)];
    const double latency = world.network.link(from, to).latency;
    const auto asked = find(queue.posted, message.number);
    if (asked != queue.posted.end()) {
      if (by_itself) there.wake();
      else there.wake_at(arrival(world, message, asked->at, latency));
    } else if (may_be_probed(tag)) {
      there.wake_at(shows(message, latency));
    }
    queue.waiting.push_back(std::move(message));
  }
  /// When a message that nobody receives yet can be found: it or its announcement is there.
  static double shows(const Queue::Message& message, double latency) {
    return (message.announced ? message.begun : message.left) + latency;
  }
  static double arrival(const World& world, const Queue::Message& message, double posted, double latency) {
    if (message.announced && message.fetched < 0) return message.begun + latency;
    if (message.announced) return message.fetched + 2 * latency + (message.left - message.begun);
    const bool meeting = world.machine.delivery == MachineModel::Delivery::meeting;
    return (meeting ? std::max(message.left, posted) : message.left) + latency;
  }
  World& world_;
  Rank& me_;
  std::shared_ptr<MessageQueues> room_;
  std::vector<double> lanes_;  // by channel: the clock of a sum whose rounds advance by themselves
  int duplicated_ = 0;
};

}  // namespace tacit::comm::simulated
