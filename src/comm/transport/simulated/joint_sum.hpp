// A sum that all ranks wait for at once, with nothing else under way: its rounds are computed together, without
// messages.
#pragma once

#include "../../collective/sums.hpp"
#include "world.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

namespace tacit::comm::simulated {

/// The same clocks, numbers and counts as recursive doubling by messages (Sums::begin_round), where each rank has sent
/// its first message and waits.
class JointSum {
 public:
  explicit JointSum(World& world) : world_(world), ranks_(world.list.size()) {
    while (2 * power_ <= int(ranks_.size())) power_ *= 2;
    surplus_ = int(ranks_.size()) - power_;
  }
  /// Begins another one like this rank's.
  void begin(const detail::SumSlot& like) {
    count_ = like.count, number_ = like.number, operation_ = like.operation, bytes_ = like.bytes();
    values_.resize(ranks_.size() * bytes_);
    joined_.clear();
    done_ = broken_up_ = false;
  }

  bool fits(const detail::SumSlot& other) const {
    return count_ == other.count && number_ == other.number && operation_ == other.operation;
  }
  /// `left`: when its first message left.
  void join(const Rank& rank, double left, const void* value, double* seconds) {
    ranks_[std::size_t(rank.rank)] = {rank.clock, rank.wire, left, rank.clock, seconds};
    std::memcpy(value_of(rank.rank), value, bytes_);
    joined_.push_back(rank.rank);
  }
  bool complete() const { return joined_.size() == ranks_.size(); }
  /// Makes those that have joined continue: by messages, as another rank does.
  void break_up() {
    broken_up_ = true;
    for (const int r : std::exchange(joined_, {}))
      world_.line_up(*world_.list[std::size_t(r)], world_.list[std::size_t(r)]->clock);
  }
  bool broken_up() const { return broken_up_; }
  bool done() const { return done_; }
  const void* result() const { return values_.data(); }

  /// Once all have joined: sets the clocks of all ranks and makes them continue.
  void finish() {
    // Ranks beyond a power of two give their values to a neighbour, and get the result at the end.
    for (int i = 0; i < surplus_; ++i) {
      receive(2 * i, 2 * i + 1);
      add(2 * i, 2 * i + 1);
      if (power_ > 1) send(2 * i, rank_of(i ^ 1));
    }
    for (int step = 1; step < power_; step *= 2) {
      for (int me = 0; me < power_; ++me) receive(rank_of(me), rank_of(me ^ step));
      for (int me = 0; me < power_; me += 2 * step) add(rank_of(me), rank_of(me + step));
      if (2 * step < power_)
        for (int me = 0; me < power_; ++me) send(rank_of(me), rank_of(me ^ (2 * step)));
    }
    for (int i = 0; i < surplus_; ++i) {
      send(2 * i, 2 * i + 1);
      receive(2 * i + 1, 2 * i);
    }
    done_ = true;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      Rank& rank = *world_.list[r];
      const auto& one = ranks_[r];
      rank.clock = std::max(rank.clock, one.time), rank.wire = one.wire;
      world_.line_up(rank, rank.clock);
    }
  }

 private:
  struct OfRank {
    double time, wire, left, posted;
    double* seconds;  // of the phase that waits
  };
  int rank_of(int me) const { return me < surplus_ ? 2 * me : me + surplus_; }
  std::byte* value_of(int rank) { return values_.data() + std::size_t(rank) * bytes_; }
  void add(int rank, int other) { detail::combine(value_of(rank), value_of(other), count_, number_, operation_); }
  void send(int rank, int to) {
    auto& r = ranks_[std::size_t(rank)];
    const auto link = world_.network.link(rank, to);
    const double sending = link.overhead + link.gap * double(bytes_);
    r.left = r.wire = std::max(r.wire, r.time) + sending;
    *r.seconds += link.overhead;
    r.time += link.overhead;
    r.posted = r.time;
    ++world_.messages;
    world_.bytes += std::int64_t(bytes_);
  }
  void receive(int rank, int from) {
    auto& r = ranks_[std::size_t(rank)];
    const auto link = world_.network.link(from, rank);
    const bool meeting = world_.machine.delivery == MachineModel::Delivery::meeting;
    const double left = ranks_[std::size_t(from)].left;
    const double arrival = (meeting ? std::max(left, r.posted) : left) + link.latency;
    if (arrival > r.time) {
      *r.seconds += arrival - r.time;
      r.time = arrival;
    }
    r.time += link.overhead;
    *r.seconds += link.overhead;
  }

  World& world_;
  std::size_t bytes_ = 0, count_ = 0;
  Number number_{};
  Operation operation_{};
  int power_ = 1, surplus_ = 0;
  bool done_ = false, broken_up_ = false;
  std::vector<int> joined_;
  std::vector<OfRank> ranks_;
  std::vector<std::byte> values_;  // of each rank, then of its group
};

}  // namespace tacit::comm::simulated
