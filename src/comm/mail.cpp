#include <tacit/comm/mail.hpp>

#include "exchange/route.hpp"
#include "mailbox.hpp"
#include "messages.hpp"
#include "state.hpp"

#include <algorithm>
#include <cstring>

namespace tacit::comm {
namespace detail {

void Mailbox::collect(Transport& transport, int tag) {
  const auto done = [&](Arriving& message) {
    if (!transport.test(message.ticket)) return false;
    std::uint64_t serial = 0;
    std::int64_t label = 0;
    Bytes& bytes = *message.bytes;
    const std::size_t length = bytes.size() - sizeof serial - sizeof label;
    std::memcpy(&serial, bytes.data() + length, sizeof serial);
    std::memcpy(&label, bytes.data() + length + sizeof serial, sizeof label);
    bytes.resize(length);
    arrived.emplace(Label(serial, label), std::move(bytes));
    return true;
  };
  std::erase_if(arriving, done);
  while (const auto arrival = transport.probe(tag)) {
    auto& next = arriving.emplace_back();
    next.bytes = std::make_unique<Bytes>(arrival->bytes);
    next.ticket = transport.receive(arrival->from, tag, next.bytes->data(), next.bytes->size());
    if (done(next)) arriving.pop_back();  // else a long message, which is not found again
  }
}

void Mailbox::give_up(Transport& transport) {
  for (auto& message : arriving)
    if (message.ticket.active) transport.cancel(message.ticket, nullptr);
  arriving.clear(), arrived.clear();
  opened = 0;
}

}  // namespace detail

using detail::State;

Mail::Mail(const Communicator& comm)
    : comm_(comm),
      state_(detail::Route::state_of(comm)),
      serial_(state_.mailbox->opened++),
      sent_(std::make_unique<detail::PendingMessages>(state_)) {}

Mail::~Mail() = default;

void Mail::send(std::span<const int> to, Global label, Bytes bytes) {
  State& s = state_;
  if (s.simulated && s.simulated->recorder) s.simulated->recorder->refuse("sends mail");
  for (const int rank : to)
    require(rank != comm_.rank() && rank >= 0 && rank < comm_.size(), "mail of rank ", comm_.rank(), " to rank ", rank,
            "; other ranks, 0 to ", comm_.size() - 1, ", are needed");
  const std::size_t length = bytes.size();
  const auto add = [&](const auto& number) {
    const auto* const from = reinterpret_cast<const std::byte*>(&number);
    bytes.insert(bytes.end(), from, from + sizeof number);
  };
  add(serial_), add(std::int64_t(label));
  const auto shared = std::make_shared<Bytes>(std::move(bytes));
  for (const int rank : to) {
    sent_->share(rank, s.tag(State::mail_channel), shared);
    ++s.counters.messages, s.counters.bytes += std::int64_t(length);
  }
}

bool Mail::found(Global label) {
  State& s = state_;
  s.mailbox->collect(*s.transport, s.tag(State::mail_channel));
  return s.mailbox->arrived.contains({serial_, label});
}

bool Mail::has(Global label) {
  State& s = state_;
  if (s.size == 1) return false;
  comm_.poll();
  comm_.check();
  const auto lock = s.transport_lock->take();
  sent_->tidy();
  return found(label);
}

void Mail::wait_for_one(std::span<const Global> labels) {
  state_.begin();
  state_.wait_until([&] {
    sent_->tidy();
    return std::any_of(labels.begin(), labels.end(), [&](Global label) { return found(label); });
  });
}

Mail::Bytes Mail::take(Global label) {
  wait_for_one(std::span(&label, 1));
  return std::move(state_.mailbox->arrived.extract({serial_, label}).mapped());
}

void Mail::finish() {
  sent_->finish();
}

}  // namespace tacit::comm
