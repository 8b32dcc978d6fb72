// Exchange: owners send, ranks that need receive. Built once from the list of needed indices, started many times.
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

/// Who needs which elements. Positions are local: `send_index` into the owned part, ghosts in the order of `ghosts`.
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

/// The messages of a pattern, `element_bytes` an element, double-buffered: two exchanges may be under way at once.
/// forward: owned elements travel to the ranks that hold them as ghosts. reverse: ghost values travel to their owners.
/// How they travel (Path) is the communicator's choice, or this exchange's own.
class Exchange {
 public:
  /// Local; the buffers are made, and windows agreed upon, by the first open().
  Exchange(Communicator comm, std::shared_ptr<const Pattern> pattern, std::size_t element_bytes,
           std::optional<Path> path = std::nullopt);
  Exchange(const Exchange&) = delete;
  ~Exchange();

  const Pattern& pattern() const { return *pattern_; }
  const Communicator& comm() const { return comm_; }
  /// How the exchanges of this object travel now; never automatic. Before the first one: messages.
  Path path() const;
  /// Neighbours that are sent to through a window.
  int window_neighbours() const;

  /// Opens a forward (or reverse) exchange and gives its number, which no other exchange of this communicator has; the
  /// caller packs outgoing(number), then posts it. Error(usage) when two are under way. Waits for one that was
  /// abandoned. When a failure has been agreed upon since, what is asked of that number is Error(usage), on all ranks.
  /// Collective where the path is set up: at the first exchange, after a failure, when it was changed (and, automatic,
  /// at the one where paths are tried: a few exchanges by each, not counted). Error(environment) where the path does
  /// not exist.
  int open(bool forward = true);
  /// To pack: forward, send_index.size() elements by neighbour; reverse, ghost_count() elements.
  std::byte* outgoing(int number);
  /// Posts the messages. Counts one exchange, one message a neighbour, whatever the path.
  void post(int number);
  /// Packs and posts a forward exchange of the owned elements that stand at `owned`, in host memory: outgoing() is not
  /// to be filled. Faster than packing first: what is next to each other is copied once. They must stay as they are
  /// until close() (path gather: neighbours read them where they stand).
  void post(int number, const void* owned);
  /// Some neighbour (position in receive_ranks / send_ranks) whose part has arrived and was not named yet; -1 after the
  /// last. Waits.
  int wait_any(int number);
  /// The same without waiting: -1 also when none has arrived yet.
  int test_any(int number);
  /// True once all has arrived; pushes on.
  bool test(int number);
  void wait(int number);
  /// What arrived: forward, ghost_count() elements; reverse, send_index.size() elements by neighbour.
  const std::byte* incoming(int number);
  /// Returns the buffers; waits until the neighbours have taken what was sent. Only abandons while an exception unwinds
  /// past the exchange. Nothing happens when it is closed already, or was given up.
  void close(int number);
  /// Nobody will wait for it: its messages go on, and a later open() takes its place when they have come. Sends
  /// nothing. Nothing happens when it is no exchange of this object.
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
  void give_up() noexcept;  // the communicator has failed
  bool push_on();           // true while a message is under way
  void help();              // with what neighbours wait for
  void send(int number, const std::byte* owned);
  Communicator comm_;
  std::shared_ptr<const Pattern> pattern_;
  std::size_t element_bytes_;
  int channel_;
  std::optional<Path> own_path_, found_;  // found_: by trying
  std::int64_t opened_ = 0;               // since the last failure
  std::unique_ptr<detail::Route> route_;
};

}  // namespace tacit::comm
