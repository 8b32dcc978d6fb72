// The queued messages of simulated ranks. Memory of empty queues is kept for others: most hold one message for a
// moment.
#pragma once

#include <tacit/comm/simulate.hpp>
#include <tacit/comm/transport.hpp>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace tacit::comm::simulated {

/// The bytes of a message; short ones without memory of their own.
class Payload {
 public:
  Payload() = default;
  /// data null: a size only.
  Payload(const void* data, std::size_t bytes) : size_(bytes) {
    if (!data) return;
    const auto* const from = static_cast<const std::byte*>(data);
    if (bytes > sizeof short_) long_.assign(from, from + bytes);
    else if (bytes) std::memcpy(short_, from, bytes);
  }
  std::size_t size() const { return size_; }
  void copy_to(void* data) const {
    if (size_) std::memcpy(data, long_.empty() ? short_ : long_.data(), size_);
  }

 private:
  std::size_t size_ = 0;
  std::vector<std::byte> long_;
  std::byte short_[128];
};

/// Messages of one sender and tag to one rank: the k-th receive takes the k-th message.
struct Queue {
  struct Message {
    std::int64_t number = 0;
    double left = 0;
    double begun = 0;        // when its first byte leaves
    bool announced = false;  // by rendezvous: fetched by the receiver, from `fetched` on
    double fetched = -1;
    Step::Id id{};  // where there is a scheduler
    Payload bytes;
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
  bool empty() const { return waiting.empty() && posted.empty() && sent == received; }
};

/// The queues of one receiver by sender and tag: a hash table with open addressing.
class Queues {
 public:
  Queue& at(std::uint64_t key) {
    if (Queue* const known = find(key)) return *known;
    if (2 * (used_ + 1) > table_.size()) grow();
    if (free_.empty()) free_.push_back(&made_.emplace_back());
    Queue* const queue = free_.back();
    free_.pop_back();
    queue->sent = queue->received = 0;
    insert(key, queue);
    return *queue;
  }
  Queue* find(std::uint64_t key) {
    if (table_.empty()) return nullptr;
    for (std::size_t i = place(key);; i = next(i)) {
      if (!table_[i].queue) return nullptr;
      if (table_[i].key == key) return table_[i].queue;
    }
  }
  /// Of one that is there.
  void drop(std::uint64_t key) {
    std::size_t hole = place(key);
    while (table_[hole].key != key || !table_[hole].queue) hole = next(hole);
    free_.push_back(table_[hole].queue);
    --used_;
    // Later entries of the same run move up, so that none is cut off from its place.
    for (std::size_t i = next(hole); table_[i].queue; i = next(i)) {
      const std::size_t home = place(table_[i].key);
      const bool reaches = hole < i ? home <= hole || home > i : home <= hole && home > i;
      if (!reaches) continue;
      table_[hole] = table_[i];
      hole = i;
    }
    table_[hole] = {};
  }
  /// f(key, queue) of all.
  template <class F>
  void each(F&& f) {
    for (auto& entry : table_)
      if (entry.queue) f(entry.key, *entry.queue);
  }

 private:
  struct Entry {
    std::uint64_t key = 0;
    Queue* queue = nullptr;
  };
  std::size_t place(std::uint64_t key) const { return std::size_t((key * 0x9E3779B97F4A7C15u) >> shift_); }
  std::size_t next(std::size_t i) const { return (i + 1) & (table_.size() - 1); }
  void insert(std::uint64_t key, Queue* queue) {
    std::size_t i = place(key);
    while (table_[i].queue) i = next(i);
    table_[i] = {key, queue};
    ++used_;
  }
  void grow() {
    const auto before = std::exchange(table_, std::vector<Entry>(std::max<std::size_t>(8, 2 * table_.size())));
    shift_ = 64;
    for (std::size_t n = table_.size(); n > 1; n /= 2) --shift_;
    used_ = 0;
    for (const auto& entry : before)
      if (entry.queue) insert(entry.key, entry.queue);
  }
  std::vector<Entry> table_;  // a power of two, at most half of it in use
  std::size_t used_ = 0;
  int shift_ = 64;
  std::deque<Queue> made_;
  std::vector<Queue*> free_;
};

class JointSum;

/// The queued messages of one communicator, by receiver and by sender and tag.
struct MessageQueues {
  MessageQueues(int ranks, int n)
      : number(n), looks(std::size_t(ranks)), boxes(std::size_t(ranks)), notices(std::size_t(ranks)) {}
  const int number;
  // With a scheduler: the contiguous range of turns in which a rank has checked for notices here.
  struct Looks {
    std::int64_t first = 0, last = -1;
  };
  std::vector<Looks> looks;
  std::vector<Queues> boxes;
  /// A sum that not all ranks have come to yet. Once one has sent messages for it, all do.
  struct ComingSum {
    std::shared_ptr<JointSum> jointly;  // null: nobody has waited yet
    int by_messages = 0;                // ranks
  };
  std::map<int, ComingSum> coming;  // by tag
  std::vector<std::deque<std::pair<Notice, Step::Id>>> notices;
  std::map<int, std::pair<std::shared_ptr<MessageQueues>, int>>
      children;  // by order of duplication, with the number of ranks still to come
};

}  // namespace tacit::comm::simulated
