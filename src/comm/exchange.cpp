#include <tacit/comm/exchange.hpp>

#include "state.hpp"

#include <tacit/base/trace.hpp>

#include <algorithm>

namespace tacit::comm {

Pattern Pattern::build(const Communicator& comm, std::span<const Global> offsets, std::vector<Global> needed) {
  Pattern p;
  p.ghosts = std::move(needed);
  for (std::size_t i = 1; i < p.ghosts.size(); ++i)
    require(p.ghosts[i - 1] < p.ghosts[i], "ghosts ascend, each once; ", p.ghosts[i], " comes after ", p.ghosts[i - 1]);
  std::vector<Communicator::Parcel> wanted;
  for (std::size_t i = 0; i < p.ghosts.size();) {
    const int owner = int(std::upper_bound(offsets.begin(), offsets.end(), p.ghosts[i]) - offsets.begin()) - 1;
    require(owner >= 0 && owner < comm.size() && owner != comm.rank(), "index ", p.ghosts[i],
            " is no ghost: it is owned here, or lies outside 0 to ", offsets.back());
    std::size_t end = i;
    while (end < p.ghosts.size() && p.ghosts[end] < offsets[owner + 1]) ++end;
    p.receive_ranks.push_back(owner);
    p.receive_offsets.push_back(Local(i));
    const auto bytes = std::as_bytes(std::span(p.ghosts).subspan(i, end - i));
    wanted.push_back({owner, {bytes.begin(), bytes.end()}});
    i = end;
  }
  p.receive_offsets.push_back(checked_cast<Local>(p.ghosts.size(), "the number of ghosts"));
  const auto asked = comm.sparse_exchange(wanted);
  for (const auto& parcel : asked) {
    p.send_ranks.push_back(parcel.rank);
    p.send_offsets.push_back(Local(p.send_index.size()));
    const auto* index = reinterpret_cast<const Global*>(parcel.bytes.data());
    for (std::size_t i = 0; i < parcel.bytes.size() / sizeof(Global); ++i)
      p.send_index.push_back(Local(index[i] - offsets[comm.rank()]));
  }
  p.send_offsets.push_back(checked_cast<Local>(p.send_index.size(), "the number of elements sent"));
  return p;
}

Exchange::Exchange(Communicator comm, std::shared_ptr<const Pattern> pattern, std::size_t element_bytes)
    : comm_(std::move(comm)), pattern_(std::move(pattern)), element_bytes_(element_bytes) {
  auto& s = *comm_.state_;
  channel_ = detail::State::exchange_channel + int(s.exchanges_made++ % detail::State::exchange_channels);
  for (Slot& slot : slots_) {
    slot.own = std::make_shared<Bytes>(pattern_->send_index.size() * element_bytes_);
    slot.ghost = std::make_shared<Bytes>(pattern_->ghosts.size() * element_bytes_);
  }
  const auto turn = s.turns->take();
  s.exchanges.push_back(this);
}

Exchange::~Exchange() {
  for (Slot& slot : slots_) {
    try {
      if (slot.open && !slot.abandoned) close(slot.number);
    } catch (...) {  // the communicator fails; what is still under way is given up below
      comm_.state_->swallow();
    }
  }
  const auto turn = comm_.state_->turns->take();
  give_up();
  std::erase(comm_.state_->exchanges, this);
}

bool Exchange::push_on() {
  bool pending = false;
  for (Slot& slot : slots_) {
    if (!slot.open) continue;
    for (auto* tickets : {&slot.receives, &slot.sends})
      for (auto& t : *tickets) pending = (t.active && !comm_.state_->transport->test(t)) || pending;
  }
  return pending;
}

void Exchange::give_up() noexcept {
  for (Slot& slot : slots_) give_up(slot);
}

void Exchange::give_up(Slot& slot) noexcept {
  const auto turn = comm_.state_->turns->take();
  if (!slot.open) return;
  auto& transport = *comm_.state_->transport;
  auto& out = slot.forward ? slot.own : slot.ghost;
  for (auto& t : slot.sends)
    if (t.active) transport.cancel(t, out);
  for (auto& t : slot.receives)
    if (t.active) transport.cancel(t, nullptr);
  out = std::make_shared<Bytes>(out->size());  // the old one may still be read by the transport
  slot.open = false;
  slot.number = -1;
}

void Exchange::refuse() const {
  if (comm_.state_->failed) throw PeerFailure(comm_.state_.get());
  throw Error(ErrorKind::usage, "this exchange is not under way: it was closed, or given up by an earlier failure");
}

int Exchange::open(bool forward) {
  auto& s = *comm_.state_;
  s.begin();
  const auto turn = s.turns->take();
  const auto free = [&] { return std::find_if(slots_, slots_ + 2, [](const Slot& slot) { return !slot.open; }); };
  Slot* slot = free();
  if (slot == slots_ + 2) {
    for (Slot& other : slots_)
      if (other.abandoned) finish(other);
    slot = free();
  }
  require(slot != slots_ + 2, "two products of one operator are already under way; wait for one of them first");
  slot->open = true;
  slot->forward = forward;
  slot->abandoned = false;
  slot->uncaught = std::uncaught_exceptions();
  slot->number = int(s.exchanges_opened++ & 0x7fffffff);
  slot->sends.clear();
  slot->receives.clear();
  return slot->number;
}

void Exchange::post(int number) {
  Slot& slot = find(number);
  auto& s = *comm_.state_;
  s.begin();
  const auto turn = s.turns->take();
  const auto& p = *pattern_;
  const auto& to = slot.forward ? p.send_ranks : p.receive_ranks;
  const auto& to_offsets = slot.forward ? p.send_offsets : p.receive_offsets;
  const auto& from = slot.forward ? p.receive_ranks : p.send_ranks;
  const auto& from_offsets = slot.forward ? p.receive_offsets : p.send_offsets;
  std::byte* const out = buffer(slot, slot.forward).data();
  std::byte* const in = buffer(slot, !slot.forward).data();
  slot.receives.resize(from.size());
  slot.sends.resize(to.size());
  slot.named.assign(from.size(), 0);
  const int tag = s.tag(channel_);
  try {
    for (std::size_t i = 0; i < from.size(); ++i)
      slot.receives[i] = s.transport->receive(from[i], tag, in + from_offsets[i] * element_bytes_,
                                              (from_offsets[i + 1] - from_offsets[i]) * element_bytes_);
    for (std::size_t i = 0; i < to.size(); ++i) {
      const std::size_t bytes = (to_offsets[i + 1] - to_offsets[i]) * element_bytes_;
      slot.sends[i] = s.transport->send(to[i], tag, out + to_offsets[i] * element_bytes_, bytes);
      s.counters.bytes += std::int64_t(bytes);
    }
  } catch (...) {
    give_up(slot);
    s.keep_error();
    throw;
  }
  s.post();
  ++s.counters.exchanges;
  s.counters.messages += std::int64_t(to.size());
}

bool Exchange::arrived(Slot& slot) {
  const auto turn = comm_.state_->turns->take();
  bool all = true;
  for (auto& t : slot.receives)
    if (t.active && !comm_.state_->transport->test(t)) all = false;
  return all;
}

bool Exchange::test(int number) { return arrived(find(number)); }

int Exchange::wait_any(int number) {
  Slot& slot = find(number);
  if (std::find(slot.named.begin(), slot.named.end(), 0) == slot.named.end()) return -1;
  int found = -1;
  comm_.state_->wait_until([&] {
    for (std::size_t i = 0; i < slot.receives.size(); ++i)
      if (!slot.named[i] && (!slot.receives[i].active || comm_.state_->transport->test(slot.receives[i]))) {
        found = int(i);
        return true;
      }
    return false;
  });
  slot.named[found] = 1;
  return found;
}

void Exchange::wait(int number) {
  Slot& slot = find(number);
  const Span span("wait for halo", "comm", std::int64_t(buffer(slot, !slot.forward).size()));
  comm_.state_->wait_until([&] { return arrived(slot); });
}

void Exchange::close(int number) {
  for (Slot& slot : slots_) {
    if (slot.number != number || !slot.open) continue;
    // While an exception unwinds past it the messages may never complete: Communicator::fail gives them up.
    if (std::uncaught_exceptions() > slot.uncaught) abandon(number);
    else finish(slot);
  }
}

void Exchange::finish(Slot& slot) {
  comm_.state_->wait_until([&] {
    bool all = arrived(slot);
    for (auto& t : slot.sends)
      if (t.active && !comm_.state_->transport->test(t)) all = false;
    return all;
  });
  const auto turn = comm_.state_->turns->take();
  slot.open = slot.abandoned = false;
  slot.number = -1;
}

void Exchange::abandon(int number) noexcept {
  for (Slot& slot : slots_)
    if (slot.number == number && slot.open) {
      slot.abandoned = true;
      if (std::uncaught_exceptions() > slot.uncaught) comm_.state_->drop_unfinished();
    }
}

}  // namespace tacit::comm
