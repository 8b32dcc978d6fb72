#include "route.hpp"

#include "remote_memory.hpp"
#include "shared_window.hpp"

#include "../state.hpp"
#include "exchanges.hpp"

#include <algorithm>
#include <cstring>

namespace tacit::comm::detail {
namespace {

// The size of the pieces that are packed and then copied to another rank's memory: they fit the first-level cache.
constexpr std::size_t piece_bytes = 16384;
constexpr std::uint64_t claimed = std::uint64_t(1) << 63;

// Gathers elements of `bytes` bytes contiguously.
template <class Word>
void take_words(const std::byte* from, const Local* index, std::size_t n, std::byte* out) {
  typedef Word Any __attribute__((may_alias));
  const auto* const x = reinterpret_cast<const Any*>(from);
  auto* const y = reinterpret_cast<Any*>(out);
  for (std::size_t i = 0; i < n; ++i) y[i] = x[index[i]];
}

}  // namespace

Route::~Route() {
  const auto lock = state_.transport_lock->take();
  for (auto& slot : slots) give_up(slot);
  for (auto& slot : prepared_)
    for (auto& direction : slot)
      for (auto& out : direction)
        for (auto& p : out) state_.transport->release(p);
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
  // Single stores would move each cache line of the neighbour's memory between processors while it is filled.
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
  ++state_.exchanges->under_way;
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
  // The neighbour is reading or has read. The limit of a second is for a process that has ended meanwhile.
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
  // The sender may withdraw the announcement until this flag is set.
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
  } catch (...) {  // the part never arrives; the sender may go on
    say_so();
    throw;
  }
  say_so();
  slot.unread[i] = 0;
  --state_.exchanges->deferred;
  return true;
}

void Route::help() {
  for (auto& slot : slots) {
    if (!slot.open) continue;
    for (std::size_t i = 0; i < slot.unwritten.size(); ++i)
      if (slot.unwritten[i] && write(slot, i)) slot.unwritten[i] = 0, --state_.exchanges->deferred;
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
  if (slot.posted && neighbourhood_[1] && slot.receives.empty())  // also ranks that receive nothing take part
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
    if (slot.unwritten[i] && write(slot, i)) slot.unwritten[i] = 0, --state_.exchanges->deferred;
    all = all && !slot.unwritten[i];
    if (const int peer = peer_to(slot, i); gathers() && slot.posted && peer >= 0)
      all = all && window_->read(peers_[std::size_t(peer)].flags + (2 + std::size_t(&slot - slots)) * flag_step) ==
                       slot.sequence + 1;
  }
  return all;
}

void Route::close(Slot& slot) {
  if (slot.posted) --state_.exchanges->under_way;
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
  if (slot.posted) --state_.exchanges->under_way;
  auto& transport = *state_.transport;
  if (slot.posted && gathers())
    for (std::size_t i = 0; i < slot.sends.size(); ++i)
      if (peer_to(slot, i) >= 0) (void)withdraw(slot, i);
  // The library may still be transferring: neither the buffers nor the neighbourhood may be freed.
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
      if (std::exchange(part, 0)) --state_.exchanges->deferred;
  slot.open = false;
  slot.number = -1;
}

}  // namespace tacit::comm::detail
