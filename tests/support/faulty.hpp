// A transport that fails, delays or reports wrong results on command, for tests of failures.
#pragma once

#include <tacit/comm/transport.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <thread>

namespace tacit::test {

/// Forwards everything to `inner`; from the `countdown`-th message call on this rank on it throws `Error(environment)`.
/// Each call may first sleep up to `delay`.
class FaultyTransport : public comm::Transport {
 public:
  FaultyTransport(std::shared_ptr<comm::Transport> inner, int countdown, std::chrono::microseconds delay = {},
                  unsigned seed = 1)
      : inner_(std::move(inner)),
        countdown_(countdown),
        delay_(delay),
        random_(seed + 77u * unsigned(inner_->rank())) {}

  /// No more faults from here on.
  void disarm() { countdown_ = 0; }
  /// The next fault comes at the countdown-th message call from now on.
  void strike_at(int countdown) { countdown_ = countdown; }
  int largest_tag() const override { return inner_->largest_tag(); }
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  const char* kind() const override { return inner_->kind(); }
  comm::Ticket send(int to, int tag, const void* data, std::size_t bytes) override {
    strike();
    return inner_->send(to, tag, data, bytes);
  }
  comm::Ticket receive(int from, int tag, void* data, std::size_t bytes) override {
    strike();
    return inner_->receive(from, tag, data, bytes);
  }
  bool test(comm::Ticket& ticket) override { return inner_->test(ticket); }
  void cancel(comm::Ticket& ticket, std::shared_ptr<void> keep) override { inner_->cancel(ticket, std::move(keep)); }
  std::optional<Arrival> probe(int tag) override { return inner_->probe(tag); }
  void send_notice(const comm::Notice& notice) override { inner_->send_notice(notice); }
  std::optional<comm::Notice> poll_notice() override { return inner_->poll_notice(); }
  std::shared_ptr<comm::Transport> duplicate() override { return inner_->duplicate(); }
  std::vector<int> node() override { return inner_->node(); }
  bool one_process() const override { return inner_->one_process(); }
  std::shared_ptr<comm::Window> make_window(std::size_t bytes, const comm::AllLeast& all_least) override {
    return inner_->make_window(bytes, all_least);
  }

 protected:
  comm::Transport& inner() { return *inner_; }

 private:
  void strike() {
    if (delay_.count() > 0) std::this_thread::sleep_for(delay_ * (random_() % 1000) / 1000);
    if (countdown_ > 0 && --countdown_ == 0) throw Error(ErrorKind::environment, "injected fault");
  }
  std::shared_ptr<comm::Transport> inner_;
  int countdown_;  // 0: never
  std::chrono::microseconds delay_;
  std::minstd_rand random_;
};

}  // namespace tacit::test
