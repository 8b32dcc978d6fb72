// Exchange: the halo exchange. Its pattern is built once from the needed indices and used for many exchanges.
#pragma once

#include <tacit/base/types.hpp>
#include <tacit/comm/communicator.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tacit::comm {

/// Which elements travel between which ranks. Positions are local: `send_index` counts from the rank's first element,
/// and ghosts are numbered in the order of `ghosts`.
struct Pattern {
  std::vector<int> send_ranks, receive_ranks;        // neighbours, ascending
  std::vector<Local> send_offsets, receive_offsets;  // per neighbour, into send_index and into the ghosts
  std::vector<Local> send_index;                     // owned elements in the order they are packed
  std::vector<Global> ghosts;                        // global indices of the ghosts, ascending

  /// The pattern that brings every rank its `needed` elements (ascending, none of them owned here).
  /// `offsets`: rank r owns [offsets[r], offsets[r+1]). Collective; O(needed + neighbours) memory and messages.
  static Pattern build(const Communicator& comm, std::span<const Global> offsets, std::vector<Global> needed);

  Local ghost_count() const { return Local(ghosts.size()); }
};

namespace detail {
class Route;
}

/// The exchanges of a pattern, with `element_bytes` bytes for each element. Double-buffered: two may be in flight.
/// Forward: owned elements travel to the ranks that hold them as ghosts. Reverse: ghost values travel to their owners.
/// The path is the communicator's, or the one given here.
class Exchange {
 public:
  /// Local: the first open() makes the buffers and sets up the path.
  Exchange(Communicator comm, std::shared_ptr<const Pattern> pattern, std::size_t element_bytes,
           std::optional<Path> path = std::nullopt);
  Exchange(const Exchange&) = delete;
  ~Exchange();

  const Pattern& pattern() const { return *pattern_; }
  const Communicator& comm() const { return comm_; }
  /// The path in use, never automatic; `messages` before the first exchange.
  Path path() const;
  /// The number of neighbours that this rank sends to through a window.
  int window_neighbours() const;

  /// Opens a forward (or reverse) exchange and returns its number, unique in this communicator; the caller packs
  /// outgoing(number), then posts it. Error(usage) when two are in flight. Waits for an abandoned exchange. After an
  /// agreed failure, calls with an older number are Error(usage) on all ranks. Collective when the path is set up: at
  /// the first exchange, after a failure, after a change of path, and, with Path::automatic, when paths are measured
  /// (by a few exchanges each, not counted). Error(environment) where the path is not available.
  int open(bool forward = true);
  /// The send buffer to pack: forward, send_index.size() elements grouped by neighbour; reverse, ghost_count()
  /// elements.
  std::byte* outgoing(int number);
  /// Posts the messages. Counts one exchange and one message for each neighbour, whatever the path.
  void post(int number);
  /// Packs and posts a forward exchange of the owned elements at `owned` (host memory), in place of filling outgoing().
  /// Faster, since contiguous elements are copied once. The elements must not change until close() (with Path::gather
  /// the neighbours read them in place).
  void post(int number, const void* owned);
  /// Waits for the part of any neighbour and returns its position in receive_ranks (reverse: send_ranks), each once; -1
  /// after the last.
  int wait_any(int number);
  /// The same without waiting: -1 also when none has arrived yet.
  int test_any(int number);
  /// True once all parts have arrived. Advances the messages.
  bool test(int number);
  void wait(int number);
  /// The received elements: forward, ghost_count(); reverse, send_index.size(), grouped by neighbour.
  const std::byte* incoming(int number);
  /// Frees the buffers, after waiting until the neighbours have received what was sent. While an exception unwinds it
  /// abandons the exchange instead. Does nothing for an exchange that is closed or given up.
  void close(int number);
  /// Marks an exchange that will not be waited for: its messages complete by themselves, and a later open() reuses its
  /// buffers. Sends nothing. Does nothing for a number that is not of this object.
  void abandon(int number) noexcept;

 private:
  friend class Communicator;
  friend struct detail::State;
  [[noreturn]] void refuse() const;
  void make_route(Path path, std::string& why);
  void choose_route();
  Path fastest();
  bool in_use() const;
  void finish(int slot);
  void clear_abandoned();
  void agree_on(Path path) const;
  void give_up() noexcept;  // after a failure of the communicator
  bool push_on();           // true while a message is in flight
  void help();              // serves what neighbours wait for
  void send(int number, const std::byte* owned);
  Communicator comm_;
  std::shared_ptr<const Pattern> pattern_;
  std::size_t element_bytes_;
  int channel_;
  std::optional<Path> own_path_, found_;  // found_: the fastest, by measurement
  std::int64_t opened_ = 0;               // exchanges since the last failure
  std::unique_ptr<detail::Route> route_;
};

}  // namespace tacit::comm
