// Route: how the messages of one exchange travel, and the buffers of the two that may be under way.
//
// Windows. An exchange has a number in its route, the same on all ranks. Each rank receives exchange k into one of its
// two slots; which one it tells its neighbours (a grant) as soon as the slot is free, so that nobody writes over what
// is still read: 0 and 1 are known, and each exchange that is closed frees its slot for the next one not yet granted. A
// sender that is ahead writes later, whenever it polls or waits. Of an exchange that is not closed in the order of
// opening, only the sender of the next but one waits. A neighbour reads grants by slot, not by number: that of a slot
// is replaced only when the exchange it was for is closed, hence after whoever needed it has read it.
//
// Gathers. The sender says where its vector stands (or what it has packed, where reading in place would not pay), in a
// place of the receiver's window for its own slot; the receiver reads it when it polls or waits, and says so. The
// sender's exchange is over when all its neighbours have.
#pragma once

#include <tacit/comm/exchange.hpp>

#include "segment.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tacit::comm::detail {

class Route {
 public:
  struct Slot {
    std::byte *own = nullptr, *ghost = nullptr;  // values of send_index; values of the ghosts
    std::vector<Ticket> sends, receives;
    std::vector<char> named, unread;  // of those that come; unread: to be fetched by this rank
    std::vector<char> unwritten;      // of those that go by a window
    Ticket whole;                     // of a neighbourhood
    std::uint64_t sequence = 0;
    bool open = false, forward = true, posted = false;
    bool abandoned = false, dropped = false;  // dropped: while an exception unwound
    int number = -1;                          // of the exchange under way
    int uncaught = 0;                         // exceptions on their way where it was opened
  };

  /// Messages and the like: local. Others: collective, and may say why they cannot be (on all ranks alike) in `why`.
  Route(const Communicator& comm, State& state, std::shared_ptr<const Pattern> pattern, std::size_t element_bytes,
        int tag, Path path, std::string& why);
  ~Route();
  Route(const Route&) = delete;

  Path path() const { return path_; }
  Slot slots[2];

  /// The next exchange's slot, which is free.
  Slot& open(bool forward);
  /// Of what was packed, or, with `owned`, of the elements that stand there.
  void post(Slot& slot, const std::byte* owned = nullptr);
  /// Neighbour i's part has come.
  bool arrived(Slot& slot, std::size_t i);
  bool arrived(Slot& slot);
  /// What was sent has been taken; writes on.
  bool sent(Slot& slot);
  void close(Slot& slot);
  /// True while something is under way.
  bool push_on();
  /// What neighbours wait for and could not be done yet.
  void help();
  void give_up(Slot& slot) noexcept;
  /// The caller's vector is not read any more: what neighbours have not read of it is packed.
  void let_go(Slot& slot) noexcept;
  std::byte* outgoing(Slot& slot) const { return slot.forward ? slot.own : slot.ghost; }
  std::byte* incoming(Slot& slot) const { return slot.forward ? slot.ghost : slot.own; }
  std::size_t incoming_bytes(const Slot& slot) const {
    return (slot.forward ? pattern_->ghosts.size() : pattern_->send_index.size()) * element_bytes_;
  }
  /// Bytes that travel by windows, of all that are sent forward: "shared" of mixed routes.
  int window_neighbours() const;

 private:
  // What a rank tells a neighbour that writes into its window.
  struct Hello {
    char name[64] = "";
    std::uint64_t bytes = 0, flags = 0, own[2] = {}, ghost[2] = {};
    // Of gathers.
    std::int64_t process = 0;
    std::uint64_t runs = 0, probe = 0;  // numbers of runs that follow; address of a word that says `legible`
  };
  // Elements next to each other: the first one's place, and how many.
  struct Run {
    Local first = 0, count = 0;
  };
  struct Part {             // of what is sent forward, by neighbour
    std::vector<Run> runs;  // empty where they are too short to be worth it
  };
  struct Peer {
    int rank;
    int send = -1, receive = -1;  // its places in send_ranks and receive_ranks
    // In this rank's window, a line each. Arrivals in slots 0 and 1, then grants of its own slots 0 and 1. Of gathers:
    // what stands in its slots 0 and 1, then what it has read of this rank's.
    std::size_t flags = 0;
    Hello there;
    std::vector<Run> runs;  // of gathers: those of its part for this rank
  };
  struct SharedWindow;
  static constexpr std::size_t flag_step = 64, flags_step = 4 * flag_step;
  bool shares_memory() const { return path_ == Path::shared || gathers(); }  // of the node
  /// Windows that neighbours know of each other. Collective.
  void connect(const Communicator& comm, std::string& why);
  /// The neighbours that are written to, or read from. Gives the bytes of their flags.
  std::size_t find_peers(const Communicator& comm);
  void make_window(const Communicator& comm, std::size_t bytes, std::string& trouble);
  /// Tells neighbours where everything stands in this rank's window, and is told of theirs.
  void swap_hellos(std::size_t bytes, std::size_t flags, bool in_trouble);
  void open_segment(const Peer& peer);
  void swap_runs();
  const std::vector<Run>& runs_to(const Peer& peer) const;
  void lay_out(std::byte* base);
  const std::vector<int>& to(const Slot& slot) const {
    return slot.forward ? pattern_->send_ranks : pattern_->receive_ranks;
  }
  const std::vector<int>& from(const Slot& slot) const {
    return slot.forward ? pattern_->receive_ranks : pattern_->send_ranks;
  }
  const std::vector<Local>& to_offsets(const Slot& slot) const {
    return slot.forward ? pattern_->send_offsets : pattern_->receive_offsets;
  }
  const std::vector<Local>& from_offsets(const Slot& slot) const {
    return slot.forward ? pattern_->receive_offsets : pattern_->send_offsets;
  }
  std::byte* packed(Slot& slot, std::size_t i) const {
    return outgoing(slot) + std::size_t(to_offsets(slot)[i]) * element_bytes_;
  }
  int peer_to(const Slot& slot, std::size_t i) const {
    return peers_.empty() ? -1 : (slot.forward ? peer_of_send_ : peer_of_receive_)[i];
  }
  int peer_from(const Slot& slot, std::size_t i) const {
    return peers_.empty() ? -1 : (slot.forward ? peer_of_receive_ : peer_of_send_)[i];
  }
  /// False where the neighbour's slot is not free yet.
  bool write(Slot& slot, std::size_t i, const std::byte* owned = nullptr);
  void announce(Slot& slot, std::size_t i, const std::byte* from, bool in_place);
  /// Takes back what was announced. False where the neighbour has it; then it has read it, too.
  bool withdraw(Slot& slot, std::size_t i) noexcept;
  /// False where the neighbour has not said yet what it sends.
  bool fetch(Slot& slot, std::size_t i);
  void pack(std::size_t i, const std::byte* owned, std::byte* out) const;
  void pack_elements(std::size_t begin, std::size_t end, const std::byte* owned, std::byte* out) const;
  /// The same into another rank's memory.
  void pack_into(std::size_t i, const std::byte* owned, std::byte* out) const;
  bool gathers() const { return path_ == Path::gather; }
  Ticket start(Slot& slot, bool out, std::size_t i);

  State& state_;
  std::shared_ptr<const Pattern> pattern_;
  std::size_t element_bytes_;
  int tag_;
  Path path_;
  std::shared_ptr<void> memory_;  // of the buffers
  std::shared_ptr<Window> window_;
  SharedWindow* segments_ = nullptr;   // window_, where it is one
  const std::byte* in_place_[2] = {};  // by slot: the caller's vector, where neighbours read it
  std::vector<Part> parts_;            // of forward sends
  std::vector<Peer> peers_;
  std::vector<int> peer_of_send_, peer_of_receive_;
  std::uint64_t opened_ = 0, granted_ = 2;           // numbers given away; and promised to neighbours
  int granted_slot_[2] = {0, 1};                     // of even and odd numbers
  std::vector<Prepared> prepared_[2][2][2];          // slot, forward, out
  std::shared_ptr<Neighbourhood> neighbourhood_[2];  // reverse, forward
};

}  // namespace tacit::comm::detail
