// Route: one path of an exchange, with the buffers of the two exchanges that may be in flight.
//
// Windows. An exchange has a number in its route, the same on all ranks. A rank receives exchange k into one of its two
// slots, and grants that slot to its neighbours as soon as it is free, so that no data in use are overwritten.
// Exchanges 0 and 1 are granted from the start; closing an exchange grants its slot to the next one. A sender without a
// grant writes later, when it polls or waits. If exchanges are closed in another order, only the sender of the next but
// one waits. Grants are stored by slot, not by number: a grant is replaced only after its exchange was closed, hence
// after the neighbour has read it.
//
// Gathers. The sender writes the address of its vector (or of a packed copy, where reading in place would be slower) to
// the receiver's window; the receiver reads the data when it polls or waits, and sets a flag. The sender's exchange is
// complete when all neighbours have read.
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
    std::vector<char> named, unread;  // by incoming part; unread: to be fetched by this rank
    std::vector<char> unwritten;      // by outgoing part that goes through a window
    Ticket whole;                     // of a neighbourhood collective
    std::uint64_t sequence = 0;
    bool open = false, forward = true, posted = false;
    bool abandoned = false, dropped = false;  // dropped: while an exception unwound
    int number = -1;                          // of the exchange in flight
    int uncaught = 0;                         // exceptions unwinding when it was opened
    int recorded = -1;                        // its number in a recording
  };

  /// Local for messages and persistent requests. Otherwise collective; `why` gets the reason, on all ranks alike, where
  /// the path is not available.
  Route(const Communicator& comm, State& state, std::shared_ptr<const Pattern> pattern, std::size_t element_bytes,
        int tag, Path path, std::string& why);
  ~Route();
  Route(const Route&) = delete;
  /// The state of a communicator, for what sends messages.
  static State& state_of(const Communicator& comm) { return *comm.state_; }

  Path path() const { return path_; }
  Slot slots[2];

  /// Takes a free slot for the next exchange.
  Slot& open(bool forward);
  /// Posts the packed elements or, with `owned`, the elements there.
  void post(Slot& slot, const std::byte* owned = nullptr);
  /// Whether the part of neighbour i has arrived.
  bool arrived(Slot& slot, std::size_t i);
  bool arrived(Slot& slot);
  /// Whether everything sent has been received; continues deferred writes.
  bool sent(Slot& slot);
  void close(Slot& slot);
  /// Advances all exchanges; true while one is in flight.
  bool push_on();
  /// Does deferred work that neighbours wait for.
  void help();
  void give_up(Slot& slot) noexcept;
  /// Ends the neighbours' access to the caller's vector: packs what they have not read yet.
  void let_go(Slot& slot) noexcept;
  std::byte* outgoing(Slot& slot) const { return slot.forward ? slot.own : slot.ghost; }
  std::byte* incoming(Slot& slot) const { return slot.forward ? slot.ghost : slot.own; }
  std::size_t incoming_bytes(const Slot& slot) const {
    return (slot.forward ? pattern_->ghosts.size() : pattern_->send_index.size()) * element_bytes_;
  }
  /// The number of neighbours that this rank sends to through a window.
  int window_neighbours() const;

 private:
  // The description of a window that a rank sends to a neighbour that writes into it.
  struct Description {
    char name[64] = "";
    std::uint64_t bytes = 0, flags = 0, own[2] = {}, ghost[2] = {};
    // For gathers.
    std::int64_t process = 0;
    std::uint64_t runs = 0, probe = 0;  // number of runs that follow; address of a word with the value `legible`
  };
  // Contiguous elements: the first position, and their number.
  struct Run {
    Local first = 0, count = 0;
  };
  struct Part {             // the elements sent forward to one neighbour
    std::vector<Run> runs;  // empty where runs are too short to be copied one by one
  };
  struct Peer {
    int rank;
    int send = -1, receive = -1;  // its positions in send_ranks and receive_ranks
    // Position of its flags in this rank's window, a cache line each: arrivals in slots 0 and 1, then its grants for
    // slots 0 and 1. For gathers: announcements of its slots 0 and 1, then what it has read of this rank's.
    std::size_t flags = 0;
    Description there;
    std::vector<Run> runs;  // for gathers: those of its part for this rank
  };
  struct SharedWindow;
  static constexpr std::size_t flag_step = 64, flags_step = 4 * flag_step;
  bool shares_memory() const { return path_ == Path::shared || gathers(); }  // within the node
  /// Makes windows and exchanges their descriptions with neighbours. Collective.
  void connect(const Communicator& comm, std::string& why);
  /// Finds the neighbours reached through windows; returns the bytes of their flags.
  std::size_t find_peers(const Communicator& comm);
  void make_window(const Communicator& comm, std::size_t bytes, std::string& trouble);
  /// Exchanges the descriptions of windows with neighbours.
  void exchange_descriptions(std::size_t bytes, std::size_t flags, bool in_trouble);
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
  /// Writes to a neighbour's window. False where the slot is not granted yet.
  bool write(Slot& slot, std::size_t i, const std::byte* owned = nullptr);
  void announce(Slot& slot, std::size_t i, const std::byte* from, bool in_place);
  /// Withdraws an announcement. False where the neighbour has taken it; it has then finished reading.
  bool withdraw(Slot& slot, std::size_t i) noexcept;
  /// Reads a neighbour's data. False where the neighbour has not announced them yet.
  bool fetch(Slot& slot, std::size_t i);
  void pack(std::size_t i, const std::byte* owned, std::byte* out) const;
  void pack_elements(std::size_t begin, std::size_t end, const std::byte* owned, std::byte* out) const;
  /// Packs directly into another rank's memory.
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
  const std::byte* in_place_[2] = {};  // by slot: the caller's vector, where neighbours read it in place
  std::vector<Part> parts_;            // of forward sends
  std::vector<Peer> peers_;
  std::vector<int> peer_of_send_, peer_of_receive_;
  std::uint64_t opened_ = 0, granted_ = 2;           // numbers of exchanges opened, and granted to neighbours
  int granted_slot_[2] = {0, 1};                     // of even and odd numbers
  std::vector<Prepared> prepared_[2][2][2];          // slot, forward, out
  std::shared_ptr<Neighbourhood> neighbourhood_[2];  // reverse, forward
};

}  // namespace tacit::comm::detail
