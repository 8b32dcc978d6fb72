// Messages of collective operations, with their buffers.
#pragma once

#include "state.hpp"

#include <cstddef>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

namespace tacit::comm::detail {

// Messages still in flight at destruction (while an exception unwinds) are given up
// together with their buffers, which the transport may still read or write.
class PendingMessages {
 public:
  using Bytes = std::vector<std::byte>;
  explicit PendingMessages(State& state) : state_(state) {}
  PendingMessages(const PendingMessages&) = delete;
  ~PendingMessages() {
    const auto lock = state_.transport_lock->take();
    for (auto& item : items_)
      if (item.ticket.active) state_.transport->cancel(item.ticket, item.out ? item.buffer : nullptr);
  }
  void send(int to, int tag, Bytes bytes) { share(to, tag, std::make_shared<Bytes>(std::move(bytes))); }
  void share(int to, int tag, std::shared_ptr<Bytes> bytes) {
    const auto lock = state_.transport_lock->take();
    state_.begin();
    auto& item = items_.emplace_back(std::move(bytes), true);
    item.ticket = state_.transport->send(to, tag, item.buffer->data(), item.buffer->size());
  }
  /// The buffer that will hold the message once done() is true or finish() returned.
  std::shared_ptr<Bytes> receive(int from, int tag, std::size_t bytes) {
    const auto lock = state_.transport_lock->take();
    auto& item = items_.emplace_back(std::make_shared<Bytes>(bytes), false);
    item.ticket = state_.transport->receive(from, tag, item.buffer->data(), bytes);
    return item.buffer;
  }
  bool done() {
    for (auto& item : items_)
      if (item.ticket.active && !state_.transport->test(item.ticket)) return false;
    return true;
  }
  /// Frees the buffers of the messages that are done.
  void tidy() {
    std::erase_if(items_, [&](Item& item) { return !item.ticket.active || state_.transport->test(item.ticket); });
  }
  void finish() {
    state_.wait_until<State::Condition::looks>([&] { return done(); });
    items_.clear();
  }

 private:
  struct Item {
    Item(std::shared_ptr<Bytes> b, bool o) : buffer(std::move(b)), out(o) {}
    std::shared_ptr<Bytes> buffer;
    bool out;
    Ticket ticket;
  };
  State& state_;
  std::deque<Item> items_;
};

}  // namespace tacit::comm::detail
