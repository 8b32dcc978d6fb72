// Exchange: owners send, ranks that need receive. Built once from the list of needed indices, started many times.
#pragma once

#include <tacit/base/types.hpp>
#include <tacit/comm/communicator.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace tacit::comm {

/// Who needs which elements. Positions are local: `send_index` into the owned part, ghosts in the order of `ghosts`.
struct Pattern {
  std::vector<int> send_ranks, receive_ranks;           // neighbours, ascending
  std::vector<Local> send_offsets, receive_offsets;     // per neighbour, into send_index and into the ghosts
  std::vector<Local> send_index;                        // owned elements in the order they are packed
  std::vector<Global> ghosts;                           // global indices of the ghosts, ascending

  /// The pattern that brings every rank its `needed` elements (ascending, none of them owned here).
  /// `offsets`: rank r owns [offsets[r], offsets[r+1]). Collective; O(needed + neighbours) memory and messages.
  static Pattern build(const Communicator& comm, std::span<const Global> offsets, std::vector<Global> needed);

  Local ghost_count() const { return Local(ghosts.size()); }
};

/// The messages of a pattern, `element_bytes` an element, double-buffered: two exchanges may be under way at once.
/// forward: owned elements travel to the ranks that hold them as ghosts. reverse: ghost values travel to their owners.
class Exchange {
 public:
  Exchange(Communicator comm, std::shared_ptr<const Pattern> pattern, std::size_t element_bytes);
  Exchange(const Exchange&) = delete;
  ~Exchange();

  const Pattern& pattern() const { return *pattern_; }
  const Communicator& comm() const { return comm_; }

  /// Opens a forward (or reverse) exchange and gives its number, which no other exchange of this communicator has; the
  /// caller packs outgoing(number), then posts it. Error(usage) when two are under way. Waits for one that was
  /// abandoned. When a failure has been agreed upon since, what is asked of that number is Error(usage), on all ranks.
  int open(bool forward = true);
  /// To pack: forward, send_index.size() elements by neighbour; reverse, ghost_count() elements.
  std::byte* outgoing(int number) {
    Slot& slot = find(number);
    return buffer(slot, slot.forward).data();
  }
  /// Posts the messages. Counts one exchange, one message a neighbour.
  void post(int number);
  /// Some neighbour (position in receive_ranks / send_ranks) whose part has arrived and was not named yet; -1 after the
  /// last. Waits.
  int wait_any(int number);
  /// True once all has arrived; pushes on.
  bool test(int number);
  void wait(int number);
  /// What arrived: forward, ghost_count() elements; reverse, send_index.size() elements by neighbour.
  const std::byte* incoming(int number) {
    Slot& slot = find(number);
    return buffer(slot, !slot.forward).data();
  }
  /// Returns the buffers; waits until the neighbours have taken what was sent. Only abandons while an exception unwinds
  /// past the exchange. Nothing happens when it is closed already, or was given up.
  void close(int number);
  /// Nobody will wait for it: its messages go on, and a later open() takes its place when they have come. Sends
  /// nothing. Nothing happens when it is no exchange of this object.
  void abandon(int number) noexcept;

 private:
  friend class Communicator;
  friend struct detail::State;
  using Bytes = std::vector<std::byte>;
  struct Slot {
    std::shared_ptr<Bytes> own, ghost;  // values of send_index; values of the ghosts
    std::vector<Ticket> sends, receives;
    std::vector<char> named;
    bool open = false, forward = true, abandoned = false;
    int number = -1;   // of the exchange under way
    int uncaught = 0;  // exceptions on their way where it was opened
  };
  static Bytes& buffer(Slot& slot, bool own) { return own ? *slot.own : *slot.ghost; }
  Slot& find(int number) {
    for (Slot& slot : slots_)
      if (slot.number == number) [[likely]] return slot;
    refuse();
  }
  [[noreturn]] void refuse() const;
  bool arrived(Slot& slot);
  void finish(Slot& slot);
  void give_up() noexcept;  // the communicator has failed
  void give_up(Slot& slot) noexcept;
  bool push_on();           // true while a message is under way
  Communicator comm_;
  std::shared_ptr<const Pattern> pattern_;
  std::size_t element_bytes_;
  int channel_;
  Slot slots_[2];
};

}  // namespace tacit::comm
