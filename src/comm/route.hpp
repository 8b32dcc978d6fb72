// Route: how the messages of one exchange travel, and the buffers of the two that may be under way.
//
// Windows. An exchange has a number in its route, the same on all ranks. Each rank receives exchange k into one of its
// two slots; which one it tells its neighbours (`granted`) as soon as the slot is free, so that nobody writes over what
// is still read: 0 and 1 are known, and each exchange that is closed frees its slot for the next one not yet granted. A
// sender that is ahead writes later, whenever it polls or waits. Of an exchange that is not closed in the order of
// opening, only the sender of the next but one waits.
#pragma once

#include <tacit/comm/exchange.hpp>

#include "segment.hpp"

#include <memory>
#include <string>
#include <vector>

namespace tacit::comm::detail {

class Route {
 public:
  struct Slot {
    std::byte *own = nullptr, *ghost = nullptr;  // values of send_index; values of the ghosts
    std::vector<Ticket> sends, receives;
    std::vector<char> named, unwritten;  // of those that come; of those that go by a window
    Ticket whole;                        // of a neighbourhood
    std::uint64_t sequence = 0;
    bool open = false, forward = true, abandoned = false, posted = false;
    int number = -1;   // of the exchange under way
    int uncaught = 0;  // exceptions on their way where it was opened
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
  void post(Slot& slot);
  /// Neighbour i's part has come.
  bool arrived(Slot& slot, std::size_t i);
  bool arrived(Slot& slot);
  /// What was sent has been taken; writes on.
  bool sent(Slot& slot);
  void close(Slot& slot);
  /// True while something is under way.
  bool push_on();
  /// What could not be written yet.
  void write_on();
  void give_up(Slot& slot) noexcept;
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
  };
  struct Peer {
    int rank;
    int send = -1, receive = -1;  // its places in send_ranks and receive_ranks
    std::size_t flags = 0;        // in this rank's window: arrivals in slots 0 and 1, grants of even and odd numbers
    Hello there;
  };
  struct SharedWindow;
  static constexpr std::size_t flag_step = 64, flags_step = 4 * flag_step;
  void connect(const Communicator& comm, std::string& why);
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
  int peer_to(const Slot& slot, std::size_t i) const {
    return peers_.empty() ? -1 : (slot.forward ? peer_of_send_ : peer_of_receive_)[i];
  }
  int peer_from(const Slot& slot, std::size_t i) const {
    return peers_.empty() ? -1 : (slot.forward ? peer_of_receive_ : peer_of_send_)[i];
  }
  /// False where the neighbour's slot is not free yet.
  bool write(Slot& slot, std::size_t i);
  Ticket start(Slot& slot, bool out, std::size_t i);

  State& state_;
  std::shared_ptr<const Pattern> pattern_;
  std::size_t element_bytes_;
  int tag_;
  Path path_;
  std::shared_ptr<void> memory_;  // of the buffers
  std::shared_ptr<Window> window_;
  std::vector<Peer> peers_;
  std::vector<int> peer_of_send_, peer_of_receive_;
  std::uint64_t opened_ = 0, granted_ = 2;           // numbers given away; and promised to neighbours
  int granted_slot_[2] = {0, 1};                     // of even and odd numbers
  std::vector<Prepared> prepared_[2][2][2];          // slot, forward, out
  std::shared_ptr<Neighbourhood> neighbourhood_[2];  // reverse, forward
};

}  // namespace tacit::comm::detail
