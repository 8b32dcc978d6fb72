#include "route.hpp"

#include "state.hpp"

#include <algorithm>
#include <cstring>
#include <new>

namespace tacit::comm::detail {
namespace {

constexpr std::size_t line = 128;
std::size_t rounded(std::size_t bytes) {
  return (bytes + line - 1) / line * line;
}

std::shared_ptr<std::byte> allocate(std::size_t bytes) {
  auto* const p = static_cast<std::byte*>(::operator new (bytes, std::align_val_t{line}));
  std::memset(p, 0, bytes);
  return {p, [](std::byte* q) { ::operator delete (q, std::align_val_t{line}); }};
}

}  // namespace

// A segment of each rank, mapped by its neighbours.
struct Route::SharedWindow final : Window {
  std::shared_ptr<Segment> mine;
  std::map<int, std::shared_ptr<Segment>> theirs;
  static std::atomic_ref<std::uint64_t> flag(std::byte* p) {
    return std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(p));
  }
  std::byte* data() override { return mine->data(); }
  void write(int to, std::size_t at, const void* data, std::size_t bytes, std::size_t place,
             std::uint64_t value) override {
    std::byte* const there = theirs.at(to)->data();
    if (bytes) std::memcpy(there + at, data, bytes);
    flag(there + place).store(value, std::memory_order_release);
  }
  std::uint64_t read(std::size_t place) override { return flag(mine->data() + place).load(std::memory_order_acquire); }
};

Route::Route(const Communicator& comm, State& state, std::shared_ptr<const Pattern> pattern, std::size_t element_bytes,
             int tag, Path path, std::string& why)
    : state_(state), pattern_(std::move(pattern)), element_bytes_(element_bytes), tag_(tag), path_(path) {
  if (path == Path::put || path == Path::shared) connect(comm, why);
  if (path == Path::neighbour) {
    comm.agree();  // the transport's own calls can wait for ever: nobody begins them before all are here
    const auto turn = state_.turns->take();
    const auto& p = *pattern_;
    neighbourhood_[1] = state_.transport->make_neighbourhood(p.receive_ranks, p.send_ranks, element_bytes_);
    neighbourhood_[0] = state_.transport->make_neighbourhood(p.send_ranks, p.receive_ranks, element_bytes_);
    if (!neighbourhood_[1])
      why = message("the ", state_.transport->kind(), " transport has no neighbourhood collectives");
  }
  if (!memory_ && why.empty()) {
    const auto own = rounded(pattern_->send_index.size() * element_bytes_),
               ghost = rounded(pattern_->ghosts.size() * element_bytes_);
    const auto memory = allocate(2 * (own + ghost));
    memory_ = memory;
    lay_out(memory.get());
  }
}

Route::~Route() {
  const auto turn = state_.turns->take();
  for (auto& slot : slots) give_up(slot);
  for (auto& slot : prepared_)
    for (auto& direction : slot)
      for (auto& out : direction)
        for (auto& p : out) state_.transport->release(p);
}

void Route::lay_out(std::byte* base) {
  const auto own = rounded(pattern_->send_index.size() * element_bytes_),
             ghost = rounded(pattern_->ghosts.size() * element_bytes_);
  for (auto& slot : slots) {
    slot.own = base;
    slot.ghost = base + own;
    base += own + ghost;
  }
}

void Route::connect(const Communicator& comm, std::string& why) {
  const auto& p = *pattern_;
  const bool shared = path_ == Path::shared;
  const auto* const topology = shared ? &comm.topology() : nullptr;
  const auto peer_of = [&](int rank) {
    if (shared && !topology->same_node(rank, comm.rank())) return -1;
    const auto found = std::find_if(peers_.begin(), peers_.end(), [&](const Peer& peer) { return peer.rank == rank; });
    if (found != peers_.end()) return int(found - peers_.begin());
    peers_.push_back({rank, -1, -1, 0, {}});
    return int(peers_.size()) - 1;
  };
  const auto place = [&](const std::vector<int>& ranks, std::vector<int>& peers, int Peer::*here) {
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      peers.push_back(peer_of(ranks[i]));
      if (peers.back() >= 0) peers_[std::size_t(peers.back())].*here = int(i);
    }
  };
  place(p.send_ranks, peer_of_send_, &Peer::send);
  place(p.receive_ranks, peer_of_receive_, &Peer::receive);
  std::size_t flags = 0;
  for (auto& peer : peers_) peer.flags = flags, flags += flags_step;
  const auto own = rounded(p.send_index.size() * element_bytes_), ghost = rounded(p.ghosts.size() * element_bytes_);
  const std::size_t bytes = rounded(flags + 2 * (own + ghost) + line);

  std::string mine;  // what goes wrong on this rank
  std::shared_ptr<SharedWindow> segments;
  if (shared) {
    segments = std::make_shared<SharedWindow>();
    try {
      segments->mine = Segment::create(bytes, !state_.transport->one_process());
    } catch (const std::exception& e) {
      mine = e.what();
    }
    window_ = segments;
  } else {
    comm.agree();  // the transport's own call can wait for ever: nobody begins it before all are here
    const auto turn = state_.turns->take();
    window_ = state_.transport->make_window(bytes);
    if (!window_) mine = message("the ", state_.transport->kind(), " transport has no one-sided communication");
  }
  // Where everything stands in this rank's window.
  std::vector<std::shared_ptr<Mail::Bytes>> hellos;
  {
    Mail mail(state_);
    for (const auto& peer : peers_) {
      Hello hello;
      if (mine.empty()) {
        if (shared) std::strncpy(hello.name, segments->mine->name().c_str(), sizeof hello.name - 1);
        hello.bytes = bytes;
        hello.flags = peer.flags;
        for (std::size_t s = 0; s < 2; ++s) {
          const std::size_t base = flags + s * (own + ghost);
          if (peer.send >= 0)
            hello.own[s] = base + std::size_t(p.send_offsets[std::size_t(peer.send)]) * element_bytes_;
          if (peer.receive >= 0)
            hello.ghost[s] = base + own + std::size_t(p.receive_offsets[std::size_t(peer.receive)]) * element_bytes_;
        }
      }
      const auto* const raw = reinterpret_cast<const std::byte*>(&hello);
      mail.send(peer.rank, tag_, {raw, raw + sizeof hello});
      hellos.push_back(mail.receive(peer.rank, tag_, sizeof hello));
    }
    mail.finish();
  }
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    auto& peer = peers_[i];
    std::memcpy(&peer.there, hellos[i]->data(), sizeof peer.there);
    if (!shared || !mine.empty() || peer.there.bytes == 0) continue;  // bytes 0: that rank says why
    try {
      segments->theirs[peer.rank] =
          Segment::open(peer.there.name, std::size_t(peer.there.bytes), !state_.transport->one_process());
    } catch (const std::exception& e) {
      mine = e.what();
    }
  }
  // One rank's trouble is everybody's: neighbours must agree on how they talk.
  const int first = int(comm.all_min(Global(mine.empty() ? comm.size() : comm.rank())));
  if (shared && segments->mine) segments->mine->forget();
  if (first < comm.size()) {
    why = comm.broadcast(mine, first);
    return;
  }
  memory_ = window_;
  lay_out(window_->data() + flags);
}

int Route::window_neighbours() const {
  return int(std::count_if(peer_of_send_.begin(), peer_of_send_.end(), [](int peer) { return peer >= 0; }));
}

Route::Slot& Route::open(bool forward) {
  Slot& slot = slots[granted_slot_[opened_ % 2]];
  slot.sequence = opened_++;
  slot.open = true;
  slot.forward = forward;
  slot.abandoned = slot.posted = false;
  slot.sends.assign(to(slot).size(), {});
  slot.receives.assign(from(slot).size(), {});
  slot.unwritten.assign(to(slot).size(), 0);
  slot.named.assign(from(slot).size(), 0);
  return slot;
}

Ticket Route::start(Slot& slot, bool out, std::size_t i) {
  auto& transport = *state_.transport;
  const auto& ranks = out ? to(slot) : from(slot);
  const auto& offsets = out ? to_offsets(slot) : from_offsets(slot);
  std::byte* const data = (out ? outgoing(slot) : incoming(slot)) + std::size_t(offsets[i]) * element_bytes_;
  const std::size_t bytes = std::size_t(offsets[i + 1] - offsets[i]) * element_bytes_;
  if (path_ != Path::persistent)
    return out ? transport.send(ranks[i], tag_, data, bytes) : transport.receive(ranks[i], tag_, data, bytes);
  auto& prepared = prepared_[&slot - slots][slot.forward][out];
  if (prepared.size() <= i) prepared.push_back(transport.prepare(out, ranks[i], tag_, data, bytes));
  return transport.start(prepared[i]);
}

void Route::post(Slot& slot) {
  slot.posted = true;
  ++state_.under_way;
  if (neighbourhood_[1]) {
    slot.whole =
        neighbourhood_[slot.forward]->start(outgoing(slot), to_offsets(slot), incoming(slot), from_offsets(slot));
    return;
  }
  for (std::size_t i = 0; i < slot.receives.size(); ++i)
    if (peer_from(slot, i) < 0) slot.receives[i] = start(slot, false, i);
  for (std::size_t i = 0; i < slot.sends.size(); ++i) {
    if (peer_to(slot, i) < 0) slot.sends[i] = start(slot, true, i);
    else if (!write(slot, i)) slot.unwritten[i] = 1, ++state_.unwritten;
  }
}

bool Route::write(Slot& slot, std::size_t i) {
  const Peer& peer = peers_[std::size_t(peer_to(slot, i))];
  std::uint64_t there = slot.sequence;
  if (slot.sequence >= 2) {
    const auto granted = window_->read(peer.flags + (2 + slot.sequence % 2) * flag_step);
    if (granted / 2 < slot.sequence + 1) return false;
    // A later number's grant has come over this one's: the neighbour holds its slot for this exchange, and gave the other.
    there = granted / 2 == slot.sequence + 1 ? granted % 2 : 1 - granted % 2;
  }
  const auto& offsets = to_offsets(slot);
  window_->write(peer.rank, std::size_t((slot.forward ? peer.there.ghost : peer.there.own)[there]),
                 outgoing(slot) + std::size_t(offsets[i]) * element_bytes_,
                 std::size_t(offsets[i + 1] - offsets[i]) * element_bytes_,
                 std::size_t(peer.there.flags) + std::size_t(there) * flag_step, slot.sequence + 1);
  return true;
}

void Route::write_on() {
  for (auto& slot : slots)
    for (std::size_t i = 0; slot.open && i < slot.unwritten.size(); ++i)
      if (slot.unwritten[i] && write(slot, i)) slot.unwritten[i] = 0, --state_.unwritten;
}

bool Route::arrived(Slot& slot, std::size_t i) {
  if (!slot.posted) return true;
  if (neighbourhood_[1]) return !slot.whole.active || state_.transport->test(slot.whole);
  const int peer = peer_from(slot, i);
  if (peer >= 0)
    return window_->read(peers_[std::size_t(peer)].flags + std::size_t(&slot - slots) * flag_step) == slot.sequence + 1;
  return !slot.receives[i].active || state_.transport->test(slot.receives[i]);
}

bool Route::arrived(Slot& slot) {
  if (slot.posted && neighbourhood_[1] && slot.receives.empty())  // also who receives nothing takes part
    return !slot.whole.active || state_.transport->test(slot.whole);
  bool all = true;
  for (std::size_t i = 0; i < slot.receives.size(); ++i) all = arrived(slot, i) && all;
  return all;
}

bool Route::sent(Slot& slot) {
  bool all = true;
  for (auto& t : slot.sends)
    if (t.active && !state_.transport->test(t)) all = false;
  for (std::size_t i = 0; i < slot.unwritten.size(); ++i) {
    if (slot.unwritten[i] && write(slot, i)) slot.unwritten[i] = 0, --state_.unwritten;
    all = all && !slot.unwritten[i];
  }
  return all;
}

void Route::close(Slot& slot) {
  if (slot.posted) --state_.under_way;
  slot.open = slot.abandoned = false;
  slot.number = -1;
  const std::uint64_t next = granted_++;
  granted_slot_[next % 2] = int(&slot - slots);
  for (const auto& peer : peers_)
    window_->write(peer.rank, 0, nullptr, 0, std::size_t(peer.there.flags) + (2 + next % 2) * flag_step,
                   (next + 1) * 2 + std::uint64_t(&slot - slots));
}

bool Route::push_on() {
  bool pending = false;
  for (auto& slot : slots) {
    if (!slot.open || !slot.posted) continue;
    if (slot.whole.active) pending = !state_.transport->test(slot.whole) || pending;
    for (auto* tickets : {&slot.receives, &slot.sends})
      for (auto& t : *tickets) pending = (t.active && !state_.transport->test(t)) || pending;
    for (std::size_t i = 0; i < slot.unwritten.size(); ++i) {
      if (slot.unwritten[i] && write(slot, i)) slot.unwritten[i] = 0, --state_.unwritten;
      pending = pending || slot.unwritten[i];
    }
  }
  return pending;
}

void Route::give_up(Slot& slot) noexcept {
  if (!slot.open) return;
  if (slot.posted) --state_.under_way;
  auto& transport = *state_.transport;
  if (slot.whole.active) transport.cancel(slot.whole, memory_);
  for (auto& t : slot.sends)
    if (t.active) transport.cancel(t, memory_);
  for (auto& t : slot.receives)
    if (t.active) transport.cancel(t, nullptr);
  for (auto& u : slot.unwritten)
    if (std::exchange(u, 0)) --state_.unwritten;
  slot.open = false;
  slot.number = -1;
}

}  // namespace tacit::comm::detail
