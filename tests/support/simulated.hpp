// A network with latency, simulated: every rank has a clock of its own, which work and waiting move. What a method
// hides behind its work is then a number, and the same one on a busy machine.
#pragma once

#include <tacit/comm/transport.hpp>

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <vector>

namespace tacit::test {

/// Passes everything on to `inner`. A message arrives `latency` (of simulated time) after it was sent; a rank that
/// waits for one that has not arrived has its clock moved on to when it does.
class SimulatedTransport final : public comm::Transport {
 public:
  SimulatedTransport(std::shared_ptr<comm::Transport> inner, double latency)
      : inner_(std::move(inner)), latency_(latency) {}

  /// Simulated time on this rank.
  double now() const { return now_; }
  /// The rank has computed for so long.
  void work(double time) { now_ += time; }

  int largest_tag() const override { return inner_->largest_tag(); }
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  const char* kind() const override { return inner_->kind(); }
  comm::Ticket send(int to, int tag, const void* data, std::size_t bytes) override {
    auto& letter = letters_[++last_];
    letter.bytes.resize(sizeof(double) + bytes);
    const double due = now_ + latency_;
    std::memcpy(letter.bytes.data(), &due, sizeof due);
    if (bytes) std::memcpy(letter.bytes.data() + sizeof due, data, bytes);
    letter.inner = inner_->send(to, tag, letter.bytes.data(), letter.bytes.size());
    return ticket();
  }
  comm::Ticket receive(int from, int tag, void* data, std::size_t bytes) override {
    auto& letter = letters_[++last_];
    letter.bytes.resize(sizeof(double) + bytes);
    letter.into = data, letter.comes_in = true;
    letter.inner = inner_->receive(from, tag, letter.bytes.data(), letter.bytes.size());
    return ticket();
  }
  bool test(comm::Ticket& t) override {
    if (!t.active) return true;
    auto& letter = letters_.at(t.words[0]);
    if (!inner_->test(letter.inner)) return false;
    if (letter.comes_in) {
      double due;
      std::memcpy(&due, letter.bytes.data(), sizeof due);
      if (now_ < due) {
        next_ = std::min(next_, due);
        return false;
      }
      if (letter.bytes.size() > sizeof due)
        std::memcpy(letter.into, letter.bytes.data() + sizeof due, letter.bytes.size() - sizeof due);
    }
    letters_.erase(t.words[0]);
    t.active = false;
    return true;
  }
  void cancel(comm::Ticket& t, std::shared_ptr<void>) override {
    if (!t.active) return;
    auto& letter = letters_.at(t.words[0]);
    inner_->cancel(letter.inner, std::make_shared<std::vector<std::byte>>(std::move(letter.bytes)));
    letters_.erase(t.words[0]);
    t.active = false;
  }
  std::optional<Arrival> probe(int tag) override {
    auto arrival = inner_->probe(tag);
    if (arrival) arrival->bytes -= sizeof(double);
    return arrival;
  }
  void send_notice(const comm::Notice& notice) override { inner_->send_notice(notice); }
  std::optional<comm::Notice> poll_notice() override { return inner_->poll_notice(); }
  std::shared_ptr<comm::Transport> duplicate() override {
    return std::make_shared<SimulatedTransport>(inner_->duplicate(), latency_);
  }
  void relax() override {  // the rank has nothing to do but wait
    if (next_ < std::numeric_limits<double>::infinity()) now_ = std::max(now_, next_);
    next_ = std::numeric_limits<double>::infinity();
    inner_->relax();
  }

 private:
  struct Letter {
    std::vector<std::byte> bytes;  // when it is due, then what it says
    void* into = nullptr;          // of a message of no bytes, null
    bool comes_in = false;
    comm::Ticket inner;
  };
  comm::Ticket ticket() const {
    comm::Ticket t;
    t.words[0] = last_;
    t.active = true;
    return t;
  }
  std::shared_ptr<comm::Transport> inner_;
  double latency_, now_ = 0;
  double next_ = std::numeric_limits<double>::infinity();  // when the first message that was asked for arrives
  std::map<std::uintptr_t, Letter> letters_;
  std::uintptr_t last_ = 0;
};

}  // namespace tacit::test
