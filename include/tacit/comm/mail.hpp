// Mail: messages of any size between single ranks, under numbers that sender and receiver know. For algorithms in which
// each rank works on what has arrived, such as factorisations by blocks.
#pragma once

#include <tacit/base/types.hpp>
#include <tacit/comm/communicator.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace tacit::comm {

namespace detail {
class PendingMessages;
struct State;
}  // namespace detail

/// The messages of one algorithm. Every rank of the communicator makes its own, all in the same order among the
/// communicator's mails; making one sends nothing. To be used within comm::collective(): when a rank fails, waits of
/// all others throw.
class Mail {
 public:
  using Bytes = std::vector<std::byte>;
  explicit Mail(const Communicator& comm);
  Mail(const Mail&) = delete;
  /// Gives up what is in flight, unless finish() came before.
  ~Mail();

  /// Starts sending `bytes` to each of the ranks, of which this one is none, and returns. Counts a message and its
  /// bytes for each. A label is used once between two ranks.
  void send(std::span<const int> to, Global label, Bytes bytes);
  /// Whether the message with this label has arrived. Advances messages, does not wait.
  bool has(Global label);
  /// The message with this label; waits for it. It can be taken once.
  Bytes take(Global label);
  /// Waits until one of these has arrived.
  void wait_for_one(std::span<const Global> labels);
  /// Waits until all messages of this rank have been received or buffered.
  void finish();

 private:
  bool found(Global label);
  Communicator comm_;
  detail::State& state_;
  std::uint64_t serial_;
  std::unique_ptr<detail::PendingMessages> sent_;
};

}  // namespace tacit::comm
