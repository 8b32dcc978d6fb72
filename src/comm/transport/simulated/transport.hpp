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
    const int channel = tag % State::channels;
    const auto link = world_.network.link(me_.rank, to);
    const double sending = link.overhead + link.gap * double(bytes);
    double* const lane = lane_of(channel);
    Queue::Message message;
    if (lane) {  // it takes no shared wires, which messages pass in the order of time
      message.left = *lane + sending;
      *lane += link.overhead;
    } else {
      if (world_.network.shared() && !world_.scheduler) me_.keep_order();
      const double left = std::max(me_.wire, me_.clock) + sending;
      message.begun = left - link.gap * double(bytes);
      message.left = world_.network.past_wires(me_.rank, to, bytes, message.begun, left);
      message.announced = world_.network.by_rendezvous(bytes);
      me_.wire = left;
      me_.spend(channel, link.overhead);
    }
    message.bytes.resize(bytes);
    if (bytes) std::memcpy(message.bytes.data(), data, bytes);
    ++world_.messages;
    world_.bytes += std::int64_t(bytes);
    Queue& queue = room_->boxes[std::size_t(to)][key_of(me_.rank, tag)];
    message.number = queue.sent++;
    const std::int64_t number = message.number;
    world_.send(
        Step::What::message, *room_, me_.rank, to, tag,
        [&world = world_, room = room_, from = me_.rank, to, tag, by_itself = lane != nullptr,
         message = std::move(message)](const Step::Id& id) mutable {
          message.id = id;
          arrive(world, *room, from, to, tag, by_itself, std::move(message));
        },
        [&queue, number, probed = may_be_probed(tag)] {
          const auto posted = find(queue.posted, number);
          if (posted == queue.posted.end()) return std::int64_t(probed ? 0 : -1);
          return posted->given_up ? -1 : posted->turn;
        });
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
    const auto entry = box.find(key_of(t.numbers[0], t.numbers[1]));
    if (entry == box.end()) return false;
    Queue& queue = entry->second;
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
    if (!message->bytes.empty())
      std::memcpy(reinterpret_cast<void*>(t.words[0]), message->bytes.data(), message->bytes.size());
    if (world_.scheduler) [[unlikely]]
      me_.has_seen(message->id);
    queue.waiting.erase(message);
    queue.posted.erase(posted);
    if (queue.waiting.empty() && queue.posted.empty() && queue.sent == queue.received) box.erase(entry);
    t.active = false;
    return true;
  }
  void cancel(Ticket& t, std::shared_ptr<void>) override {
    t.active = false;
    if (!world_.scheduler) return;
    auto& posted = room_->boxes[std::size_t(me_.rank)][key_of(t.numbers[0], t.numbers[1])].posted;
    if (const auto it = find(posted, std::int64_t(t.words[2])); it != posted.end()) it->given_up = true;
  }

  std::optional<Arrival> probe(int tag) override {
    for (const auto& [key, queue] : room_->boxes[std::size_t(me_.rank)]) {
      if (int(std::uint32_t(key)) != tag || queue.waiting.empty()) continue;
      const int from = int(key >> 32);
      const auto& message = queue.waiting.front();
      if (message.left + world_.network.link(from, me_.rank).latency <= me_.clock)
        return Arrival{from, message.bytes.size()};
    }
    return {};
  }

  void send_notice(const Notice& notice) override {
    for (int r = 0; r < size(); ++r)
      if (r != me_.rank)
        world_.send(
            Step::What::notice, *room_, me_.rank, r, 0,
            [&world = world_, room = room_, r, notice](const Step::Id& id) {
              room->notices[std::size_t(r)].emplace_back(notice, id);
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
  double sum_is_there(int channel) const { return lanes_.empty() ? -never : lanes_[std::size_t(channel)]; }

 private:
  static bool may_be_probed(int tag) {
    const int channel = tag % State::channels;
    return channel >= State::sum_channels && channel < State::exchange_channel;
  }
  /// `by_itself`: the rounds of its sum advance without the ranks.
  static void arrive(World& world, MessageQueues& room, int from, int to, int tag, bool by_itself,
                     Queue::Message message) {
    Rank& there = *world.list[std::size_t(to)];
    Queue& queue = room.boxes[std::size_t(to)][key_of(from, tag)];
    const double latency = world.network.link(from, to).latency;
    const auto asked = find(queue.posted, message.number);
    if (asked != queue.posted.end()) {
      if (by_itself) there.wake();
      else there.wake_at(arrival(world, message, asked->at, latency));
    } else if (may_be_probed(tag)) {
      there.wake_at(message.left + latency);
    }
    queue.waiting.push_back(std::move(message));
  }
  static double arrival(const World& world, const Queue::Message& message, double posted, double latency) {
    if (message.announced && message.fetched < 0) return message.begun + latency;
    if (message.announced) return message.fetched + 2 * latency + (message.left - message.begun);
    const bool meeting = world.machine.delivery == MachineModel::Delivery::meeting;
    return (meeting ? std::max(message.left, posted) : message.left) + latency;
  }
  double* lane_of(int channel) { return channel < int(lanes_.size()) ? &lanes_[std::size_t(channel)] : nullptr; }
  World& world_;
  Rank& me_;
  std::shared_ptr<MessageQueues> room_;
  std::vector<double> lanes_;  // by channel: the clock of a sum whose rounds advance by themselves
  int duplicated_ = 0;
};

}  // namespace tacit::comm::simulated
