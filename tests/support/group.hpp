// A transport over some ranks of another one.
#pragma once

#include <tacit/comm/transport.hpp>

#include <memory>
#include <stdexcept>
#include <utility>

namespace tacit::test {

// The first ranks of a transport as a communicator.
class Group : public comm::Transport {
 public:
  Group(std::shared_ptr<comm::Transport> all, int size) : all_(std::move(all)), size_(size) {}
  int rank() const override { return all_->rank(); }
  int size() const override { return size_; }
  const char* kind() const override { return all_->kind(); }
  comm::Ticket send(int to, int tag, const void* data, std::size_t bytes) override {
    return all_->send(to, tag, data, bytes);
  }
  comm::Ticket receive(int from, int tag, void* data, std::size_t bytes) override {
    return all_->receive(from, tag, data, bytes);
  }
  bool test(comm::Ticket& ticket) override { return all_->test(ticket); }
  void cancel(comm::Ticket& ticket, std::shared_ptr<void> keep) override { all_->cancel(ticket, std::move(keep)); }
  std::optional<Arrival> probe(int tag) override { return all_->probe(tag); }
  void send_notice(const comm::Notice& notice) override { all_->send_notice(notice); }  // only the group polls
  std::optional<comm::Notice> poll_notice() override { return all_->poll_notice(); }
  std::shared_ptr<Transport> duplicate() override { throw std::logic_error("not in these tests"); }

 private:
  std::shared_ptr<comm::Transport> all_;
  int size_;
};

}  // namespace tacit::test
