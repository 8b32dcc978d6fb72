#include "route.hpp"

#include "gaspi.hpp"

#include "state.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#ifdef __linux__
#include <sys/uio.h>
#endif
#ifdef __unix__
#include <unistd.h>
#endif

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

std::int64_t this_process() {
#ifdef __unix__
  return getpid();
#else
  return 0;
#endif
}

// Memory of another process.
struct Stretch {
  std::uint64_t address;
  std::size_t bytes;
};

void require_reading() {
#ifndef __linux__
  throw Error(ErrorKind::environment, "processes cannot read each other's memory on this system");
#endif
}

// Stretches one after the other to `into`, which has room for `bytes`.
void read_memory(std::int64_t process, std::span<const Stretch> stretches, std::byte* into, std::size_t bytes,
                 int rank) {
#ifdef __linux__
  constexpr std::size_t most = 512, most_bytes = std::size_t(1) << 30;  // the kernel takes 1024, and below 2 GiB
  std::size_t s = 0, skipped = 0;                                       // of stretch s
  while (bytes > 0) {
    iovec there[most];
    std::size_t n = 0, asked = 0;
    for (std::size_t i = s, skip = skipped; i < stretches.size() && n < most && asked < most_bytes; ++i, skip = 0) {
      const std::size_t size = std::min(stretches[i].bytes - skip, most_bytes - asked);
      there[n++] = {reinterpret_cast<void*>(std::uintptr_t(stretches[i].address + skip)), size};
      asked += size;
    }
    const iovec here{into, asked};
    const auto got = process_vm_readv(pid_t(process), &here, 1, there, n, 0);
    if (got <= 0)
      throw Error(ErrorKind::environment,
                  message("the memory of rank ", rank, " (process ", process,
                          ") cannot be read: process_vm_readv: ", got < 0 ? std::strerror(errno) : "nothing came"));
    into += got;
    bytes -= std::size_t(got);
    for (std::size_t left = std::size_t(got); left > 0;) {
      const std::size_t rest = stretches[s].bytes - skipped;
      if (left < rest) {
        skipped += left;
        break;
      }
      left -= rest, skipped = 0, ++s;
    }
  }
#else
  (void)process, (void)stretches, (void)into, (void)bytes, (void)rank;
  require_reading();
#endif
}

void read_memory(std::int64_t process, std::uint64_t address, void* into, std::size_t bytes, int rank) {
  const Stretch one{address, bytes};
  read_memory(process, {&one, 1}, static_cast<std::byte*>(into), bytes, rank);
}

// Runs at least so long are copied one by one; shorter ones are packed.
constexpr std::size_t run_bytes = 64, read_bytes = 512;
// What is packed before it is copied into another rank's memory: it stays in the first cache.
constexpr std::size_t piece_bytes = 16384;
constexpr std::uint64_t legible = 0x7ac17, claimed = std::uint64_t(1) << 63;

// Elements of `bytes` bytes to the places after each other.
template <class Word>
void take_words(const std::byte* from, const Local* index, std::size_t n, std::byte* out) {
  typedef Word Any __attribute__((may_alias));
  const auto* const x = reinterpret_cast<const Any*>(from);
  auto* const y = reinterpret_cast<Any*>(out);
  for (std::size_t i = 0; i < n; ++i) y[i] = x[index[i]];
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
  std::byte* data_of(int rank) { return theirs.at(rank)->data(); }
  void raise(int to, std::size_t place, std::uint64_t value) {
    flag(data_of(to) + place).store(value, std::memory_order_release);
  }
  void write(int to, std::size_t at, const void* data, std::size_t bytes, std::size_t place,
             std::uint64_t value) override {
    if (bytes) std::memcpy(data_of(to) + at, data, bytes);
    raise(to, place, value);
  }
  std::uint64_t read(std::size_t place) override { return flag(mine->data() + place).load(std::memory_order_acquire); }
};

Route::Route(const Communicator& comm, State& state, std::shared_ptr<const Pattern> pattern, std::size_t element_bytes,
             int tag, Path path, std::string& why)
    : state_(state), pattern_(std::move(pattern)), element_bytes_(element_bytes), tag_(tag), path_(path) {
  const auto& p = *pattern_;
  parts_.resize(p.send_ranks.size());
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const auto begin = std::size_t(p.send_offsets[i]), end = std::size_t(p.send_offsets[i + 1]);
    const std::size_t least = path == Path::gather ? read_bytes : run_bytes;
    std::size_t runs = 0;
    for (std::size_t e = begin; e < end; ++e) runs += e == begin || p.send_index[e] != p.send_index[e - 1] + 1;
    if (runs == 0 || (end - begin) * element_bytes_ < least * runs) continue;
    parts_[i].runs.reserve(runs);
    for (std::size_t e = begin; e < end; ++e) {
      if (e > begin && p.send_index[e] == p.send_index[e - 1] + 1) ++parts_[i].runs.back().count;
      else parts_[i].runs.push_back({p.send_index[e], 1});
    }
  }
  if (path == Path::put || path == Path::gaspi || path == Path::shared || path == Path::gather) connect(comm, why);
  if (path == Path::neighbour) {
    for (const int forward : {1, 0}) {
      comm.meet();  // the transport's own calls can wait for ever: nobody begins one before all are here
      const auto lock = state_.transport_lock->take();
      neighbourhood_[forward] =
          forward ? state_.transport->make_neighbourhood(p.receive_ranks, p.send_ranks, element_bytes_)
                  : state_.transport->make_neighbourhood(p.send_ranks, p.receive_ranks, element_bytes_);
    }
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
  const auto lock = state_.transport_lock->take();
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
  const bool shared = path_ == Path::shared || gathers();  // memory of the node
  const auto* const topology = shared ? &comm.topology() : nullptr;
  const auto peer_of = [&](int rank) {
    if (shared && !topology->same_node(rank, comm.rank())) return -1;
    const auto found = std::find_if(peers_.begin(), peers_.end(), [&](const Peer& peer) { return peer.rank == rank; });
    if (found != peers_.end()) return int(found - peers_.begin());
    peers_.push_back({rank, -1, -1, 0, {}, {}});
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
  const std::size_t bytes = rounded(flags + (gathers() ? 0 : 2 * (own + ghost)) + line);
  const bool one_process = state_.transport->one_process();

  std::string mine;  // what goes wrong on this rank
  std::shared_ptr<SharedWindow> segments;
  if (shared) {
    segments = std::make_shared<SharedWindow>();
    try {
      if (gathers() && !one_process) require_reading();
      segments->mine = Segment::create(bytes, !one_process);
    } catch (const std::exception& e) {
      mine = e.what();
    }
    window_ = segments;
    segments_ = segments.get();
  } else {
    const AllLeast all_least = [&](std::span<std::int64_t> values) { comm.all_least(values); };
    std::vector<int> ranks;
    for (const auto& peer : peers_) ranks.push_back(peer.rank);
    window_ = path_ == Path::gaspi ? make_gaspi_window(comm, all_least, ranks, bytes, mine)
                                   : state_.transport->make_window(bytes, all_least);
    if (!window_ && mine.empty())
      mine = message("the ", state_.transport->kind(), " transport has no one-sided communication");
  }
  // Where everything stands in this rank's window.
  std::vector<std::shared_ptr<PendingMessages::Bytes>> hellos;
  static const std::uint64_t probe = legible;
  const auto runs_to = [&](const Peer& peer) -> const std::vector<Run>& {
    static const std::vector<Run> none;
    return gathers() && peer.send >= 0 ? parts_[std::size_t(peer.send)].runs : none;
  };
  {
    PendingMessages messages(state_);
    for (const auto& peer : peers_) {
      Hello hello;
      if (mine.empty()) {
        if (shared) std::strncpy(hello.name, segments->mine->name().c_str(), sizeof hello.name - 1);
        hello.bytes = bytes;
        hello.flags = peer.flags;
        hello.process = this_process();
        hello.runs = runs_to(peer).size();
        hello.probe = reinterpret_cast<std::uintptr_t>(&probe);
        for (std::size_t s = 0; s < 2; ++s) {
          const std::size_t base = flags + s * (own + ghost);
          if (peer.send >= 0)
            hello.own[s] = base + std::size_t(p.send_offsets[std::size_t(peer.send)]) * element_bytes_;
          if (peer.receive >= 0)
            hello.ghost[s] = base + own + std::size_t(p.receive_offsets[std::size_t(peer.receive)]) * element_bytes_;
        }
      }
      const auto* const raw = reinterpret_cast<const std::byte*>(&hello);
      messages.send(peer.rank, tag_, {raw, raw + sizeof hello});
      hellos.push_back(messages.receive(peer.rank, tag_, sizeof hello));
    }
    messages.finish();
  }
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    auto& peer = peers_[i];
    std::memcpy(&peer.there, hellos[i]->data(), sizeof peer.there);
    if (!shared || !mine.empty() || peer.there.bytes == 0) continue;  // bytes 0: that rank says why
    try {
      segments->theirs[peer.rank] = Segment::open(peer.there.name, std::size_t(peer.there.bytes), !one_process);
      std::uint64_t word = one_process ? legible : 0;
      if (gathers() && !one_process) read_memory(peer.there.process, peer.there.probe, &word, sizeof word, peer.rank);
      if (gathers() && word != legible)
        throw Error(ErrorKind::environment,
                    message("process ", peer.there.process, " of rank ", peer.rank, " is another one here"));
    } catch (const std::exception& e) {
      mine = e.what();
    }
  }
  if (gathers()) {
    PendingMessages messages(state_);
    std::vector<std::shared_ptr<PendingMessages::Bytes>> runs;
    for (const auto& peer : peers_) {
      const auto bytes_of = std::as_bytes(std::span(runs_to(peer)));
      messages.send(peer.rank, tag_, {bytes_of.begin(), bytes_of.end()});
      runs.push_back(
          messages.receive(peer.rank, tag_, std::size_t(peer.there.bytes ? peer.there.runs : 0) * sizeof(Run)));
    }
    messages.finish();
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      peers_[i].runs.resize(runs[i]->size() / sizeof(Run));
      if (!runs[i]->empty()) std::memcpy(peers_[i].runs.data(), runs[i]->data(), runs[i]->size());
    }
  }
  // One rank's trouble is everybody's: neighbours must agree on how they talk.
  const int first = int(comm.all_min(Global(mine.empty() ? comm.size() : comm.rank())));
  if (shared && segments->mine) segments->mine->forget();
  if (first < comm.size()) {
    why = comm.broadcast(mine, first);
    return;
  }
  if (gathers()) return;
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
  slot.abandoned = slot.dropped = slot.posted = false;
  slot.sends.assign(to(slot).size(), {});
  slot.receives.assign(from(slot).size(), {});
  slot.unwritten.assign(to(slot).size(), 0);
  slot.unread.assign(from(slot).size(), 0);
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

void Route::pack_elements(std::size_t begin, std::size_t end, const std::byte* owned, std::byte* out) const {
  const Local* const index = pattern_->send_index.data() + begin;
  const std::size_t n = end - begin, bytes = element_bytes_;
  if (bytes == 8) take_words<std::uint64_t>(owned, index, n, out);
  else if (bytes == 4) take_words<std::uint32_t>(owned, index, n, out);
  else
    for (std::size_t e = 0; e < n; ++e) std::memcpy(out + e * bytes, owned + std::size_t(index[e]) * bytes, bytes);
}

void Route::pack(std::size_t i, const std::byte* owned, std::byte* out) const {
  if (parts_[i].runs.empty())
    return pack_elements(std::size_t(pattern_->send_offsets[i]), std::size_t(pattern_->send_offsets[i + 1]), owned,
                         out);
  for (const auto& [first, count] : parts_[i].runs) {
    const std::size_t bytes = std::size_t(count) * element_bytes_;
    std::memcpy(out, owned + std::size_t(first) * element_bytes_, bytes);
    out += bytes;
  }
}

void Route::pack_into(std::size_t i, const std::byte* owned, std::byte* out) const {
  if (!parts_[i].runs.empty() || element_bytes_ > piece_bytes) return pack(i, owned, out);
  // Element by element, each line of the neighbour's memory would change hands while it is filled.
  alignas(64) std::byte piece[piece_bytes];
  const std::size_t elements = piece_bytes / element_bytes_, end = std::size_t(pattern_->send_offsets[i + 1]);
  for (std::size_t e = std::size_t(pattern_->send_offsets[i]); e < end;) {
    const std::size_t next = std::min(end, e + elements), bytes = (next - e) * element_bytes_;
    pack_elements(e, next, owned, piece);
    std::memcpy(out, piece, bytes);
    out += bytes;
    e = next;
  }
}

void Route::post(Slot& slot, const std::byte* owned) {
  slot.posted = true;
  ++state_.under_way;
  in_place_[&slot - slots] = gathers() ? owned : nullptr;
  const auto pack_part = [&](std::size_t i) {
    if (owned) pack(i, owned, packed(slot, i));
  };
  if (neighbourhood_[1]) {
    for (std::size_t i = 0; i < parts_.size(); ++i) pack_part(i);
    slot.whole =
        neighbourhood_[slot.forward]->start(outgoing(slot), to_offsets(slot), incoming(slot), from_offsets(slot));
    return;
  }
  for (std::size_t i = 0; i < slot.receives.size(); ++i) {
    if (peer_from(slot, i) < 0) slot.receives[i] = start(slot, false, i);
    else if (gathers()) slot.unread[i] = 1, state_.defer(1);
  }
  for (std::size_t i = 0; i < slot.sends.size(); ++i) {
    if (peer_to(slot, i) < 0) {
      pack_part(i);
      slot.sends[i] = start(slot, true, i);
    } else if (gathers()) {
      const bool in_place = owned && !parts_[i].runs.empty();
      if (!in_place) pack_part(i);
      announce(slot, i, in_place ? owned : packed(slot, i), in_place);
    } else if (!write(slot, i, owned)) {
      pack_part(i);
      slot.unwritten[i] = 1, state_.defer(1);
    }
  }
}

bool Route::write(Slot& slot, std::size_t i, const std::byte* owned) {
  const Peer& peer = peers_[std::size_t(peer_to(slot, i))];
  const std::uint64_t granted = slot.sequence + 1;
  std::uint64_t there = slot.sequence;
  if (slot.sequence >= 2) {
    there = 0;
    while (window_->read(peer.flags + (2 + there) * flag_step) != granted)
      if (++there == 2) return false;
  }
  const auto& offsets = to_offsets(slot);
  std::byte* const packs = packed(slot, i);
  const std::byte* data = packs;
  const std::size_t at = std::size_t((slot.forward ? peer.there.ghost : peer.there.own)[there]),
                    flag = std::size_t(peer.there.flags) + std::size_t(there) * flag_step;
  if (owned && segments_) {
    pack_into(i, owned, segments_->data_of(peer.rank) + at);
    segments_->raise(peer.rank, flag, granted);
    return true;
  }
  if (owned) {
    if (parts_[i].runs.size() == 1 && window_->sends_from_anywhere())
      data = owned + std::size_t(parts_[i].runs[0].first) * element_bytes_;
    else pack(i, owned, packs);
  }
  window_->write(peer.rank, at, data, std::size_t(offsets[i + 1] - offsets[i]) * element_bytes_, flag, granted);
  return true;
}

void Route::announce(Slot& slot, std::size_t i, const std::byte* from, bool in_place) {
  const Peer& peer = peers_[std::size_t(peer_to(slot, i))];
  const std::uint64_t words[2] = {reinterpret_cast<std::uintptr_t>(from), in_place};
  const std::size_t at = std::size_t(peer.there.flags) + std::size_t(&slot - slots) * flag_step;
  window_->write(peer.rank, at + 8, words, sizeof words, at, slot.sequence + 1);
}

bool Route::withdraw(Slot& slot, std::size_t i) noexcept {
  const Peer& peer = peers_[std::size_t(peer_to(slot, i))];
  const std::size_t which = std::size_t(&slot - slots), at = std::size_t(peer.there.flags) + which * flag_step;
  const std::uint64_t announced = slot.sequence + 1;
  std::uint64_t found = announced;
  if (SharedWindow::flag(segments_->data_of(peer.rank) + at).compare_exchange_strong(found, 0)) return true;
  // It is reading now, or has. A second is for who has been ended meanwhile.
  exec::Backoff idle;
  for (const double from = wall_time(); wall_time() - from < 1; idle.pause())
    if (window_->read(peer.flags + (2 + which) * flag_step) == announced) break;
  return false;
}

void Route::let_go(Slot& slot) noexcept {
  const std::byte* const owned = std::exchange(in_place_[&slot - slots], nullptr);
  if (!owned || !slot.open || !slot.posted) return;
  for (std::size_t i = 0; i < slot.sends.size(); ++i) {
    if (peer_to(slot, i) < 0 || parts_[i].runs.empty() || !withdraw(slot, i)) continue;
    pack(i, owned, packed(slot, i));
    announce(slot, i, packed(slot, i), false);
  }
}

bool Route::fetch(Slot& slot, std::size_t i) {
  const Peer& peer = peers_[std::size_t(peer_from(slot, i))];
  std::size_t s = 0;
  while (window_->read(peer.flags + s * flag_step) != slot.sequence + 1)
    if (++s == 2) return false;
  std::uint64_t announced = slot.sequence + 1;
  // Whoever has announced may take it back until now.
  if (!SharedWindow::flag(window_->data() + peer.flags + s * flag_step)
           .compare_exchange_strong(announced, announced | claimed))
    return false;
  std::uint64_t words[2];
  std::memcpy(words, window_->data() + peer.flags + s * flag_step + 8, sizeof words);
  std::byte* const into = incoming(slot) + std::size_t(from_offsets(slot)[i]) * element_bytes_;
  const std::size_t bytes = std::size_t(from_offsets(slot)[i + 1] - from_offsets(slot)[i]) * element_bytes_;
  const auto say_so = [&] {
    window_->write(peer.rank, 0, nullptr, 0, std::size_t(peer.there.flags) + (2 + s) * flag_step, slot.sequence + 1);
  };
  try {
    const Run whole{0, Local(from_offsets(slot)[i + 1] - from_offsets(slot)[i])};
    const auto runs = words[1] ? std::span<const Run>(peer.runs) : std::span(&whole, 1);
    if (state_.transport->one_process()) {
      std::byte* to = into;
      for (const auto& [first, count] : runs) {
        const auto* const from = reinterpret_cast<const std::byte*>(std::uintptr_t(words[0]));
        std::memcpy(to, from + std::size_t(first) * element_bytes_, std::size_t(count) * element_bytes_);
        to += std::size_t(count) * element_bytes_;
      }
    } else {
      std::vector<Stretch> stretches;
      stretches.reserve(runs.size());
      for (const auto& [first, count] : runs)
        stretches.push_back({words[0] + std::size_t(first) * element_bytes_, std::size_t(count) * element_bytes_});
      read_memory(peer.there.process, stretches, into, bytes, peer.rank);
    }
  } catch (...) {  // it never arrives; who has announced it may go on
    say_so();
    throw;
  }
  say_so();
  slot.unread[i] = 0;
  --state_.deferred;
  return true;
}

void Route::help() {
  for (auto& slot : slots) {
    if (!slot.open) continue;
    for (std::size_t i = 0; i < slot.unwritten.size(); ++i)
      if (slot.unwritten[i] && write(slot, i)) slot.unwritten[i] = 0, --state_.deferred;
    for (std::size_t i = 0; i < slot.unread.size(); ++i)
      if (slot.unread[i]) (void)fetch(slot, i);
  }
}

bool Route::arrived(Slot& slot, std::size_t i) {
  if (!slot.posted) return true;
  if (neighbourhood_[1]) return !slot.whole.active || state_.transport->test(slot.whole);
  const int peer = peer_from(slot, i);
  if (peer >= 0 && gathers()) return !slot.unread[i] || fetch(slot, i);
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
    if (slot.unwritten[i] && write(slot, i)) slot.unwritten[i] = 0, --state_.deferred;
    all = all && !slot.unwritten[i];
    if (const int peer = peer_to(slot, i); gathers() && slot.posted && peer >= 0)
      all = all && window_->read(peers_[std::size_t(peer)].flags + (2 + std::size_t(&slot - slots)) * flag_step) ==
                       slot.sequence + 1;
  }
  return all;
}

void Route::close(Slot& slot) {
  if (slot.posted) --state_.under_way;
  slot.open = slot.abandoned = false;
  slot.number = -1;
  const std::uint64_t next = granted_++;
  const std::size_t which = std::size_t(&slot - slots);
  granted_slot_[next % 2] = int(which);
  for (const auto& peer : peers_)
    if (!gathers())
      window_->write(peer.rank, 0, nullptr, 0, std::size_t(peer.there.flags) + (2 + which) * flag_step, next + 1);
}

bool Route::push_on() {
  bool pending = false;
  help();
  for (auto& slot : slots) {
    if (!slot.open || !slot.posted) continue;
    if (slot.whole.active) pending = !state_.transport->test(slot.whole) || pending;
    for (auto* tickets : {&slot.receives, &slot.sends})
      for (auto& t : *tickets) pending = (t.active && !state_.transport->test(t)) || pending;
    for (const auto* parts : {&slot.unwritten, &slot.unread})
      pending = pending || std::find(parts->begin(), parts->end(), 1) != parts->end();
  }
  return pending;
}

void Route::give_up(Slot& slot) noexcept {
  if (!slot.open) return;
  if (slot.posted) --state_.under_way;
  auto& transport = *state_.transport;
  if (slot.posted && gathers())
    for (std::size_t i = 0; i < slot.sends.size(); ++i)
      if (peer_to(slot, i) >= 0) (void)withdraw(slot, i);
  // The library below may still move it: neither the buffers nor what it belongs to may go.
  if (slot.whole.active) {
    auto keep = std::make_shared<std::pair<std::shared_ptr<void>, std::shared_ptr<Neighbourhood>>>();
    keep->first = memory_, keep->second = neighbourhood_[slot.forward];
    transport.cancel(slot.whole, std::move(keep));
  }
  for (auto& t : slot.sends)
    if (t.active) transport.cancel(t, memory_);
  for (auto& t : slot.receives)
    if (t.active) transport.cancel(t, nullptr);
  for (auto* parts : {&slot.unwritten, &slot.unread})
    for (auto& part : *parts)
      if (std::exchange(part, 0)) --state_.deferred;
  slot.open = false;
  slot.number = -1;
}

}  // namespace tacit::comm::detail
