// A transport whose messages arrive only after a given number of products have begun since their receive was posted. A
// method that waits for a reduction before it has begun those products would wait for ever, which is detected and
// reported.
#pragma once

#include "support/methods.hpp"

#include <tacit/comm/transport.hpp>
#include <tacit/op/operator.hpp>

#include <algorithm>
#include <deque>
#include <memory>

namespace tacit::test {

class LateTransport final : public comm::Transport {
 public:
  explicit LateTransport(std::shared_ptr<comm::Transport> inner) : inner_(std::move(inner)) {}

  /// From now on a message that is received outside of a product arrives once `products` have begun; 0: without delay.
  void delay(int products) { delay_ = products; }
  void begin_product() { ++products_, inside_ = true; }
  void end_product() { inside_ = false; }
  /// Messages that were waited for before enough products had begun.
  int early() const { return early_; }

  int largest_tag() const override { return inner_->largest_tag(); }
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  const char* kind() const override { return inner_->kind(); }
  comm::Ticket send(int to, int tag, const void* data, std::size_t bytes) override {
    return inner_->send(to, tag, data, bytes);
  }
  comm::Ticket receive(int from, int tag, void* data, std::size_t bytes) override {
    const auto ticket = inner_->receive(from, tag, data, bytes);
    if (delay_ > 0 && !inside_) late_.push_back({ticket, products_ + delay_});
    return ticket;
  }
  bool test(comm::Ticket& ticket) override {
    for (auto& l : late_)
      if (l.is(ticket) && products_ < l.due) {
        // No early wait: a poll inside a product, or while the method waits for another message that is due but not
        // sent yet.
        const bool on_the_way =
            inside_ || std::any_of(late_.begin(), late_.end(), [&](const Late& o) { return products_ >= o.due; });
        if (on_the_way || ++l.tries < 300) return false;
        ++early_;
        l.due = 0;
      }
    if (!inner_->test(ticket)) return false;
    std::erase_if(late_, [&](const Late& l) { return l.is(ticket); });
    return true;
  }
  void cancel(comm::Ticket& ticket, std::shared_ptr<void> keep) override { inner_->cancel(ticket, std::move(keep)); }
  std::optional<Arrival> probe(int tag) override { return inner_->probe(tag); }
  void send_notice(const comm::Notice& notice) override { inner_->send_notice(notice); }
  std::optional<comm::Notice> poll_notice() override { return inner_->poll_notice(); }
  std::shared_ptr<comm::Transport> duplicate() override { return inner_->duplicate(); }

 private:
  struct Late {
    comm::Ticket ticket;
    long due;
    int tries = 0;
    bool is(const comm::Ticket& t) const {
      return std::equal(ticket.words, ticket.words + 3, t.words) &&
             std::equal(ticket.numbers, ticket.numbers + 2, t.numbers);
    }
  };
  std::shared_ptr<comm::Transport> inner_;
  std::deque<Late> late_;
  int delay_ = 0, early_ = 0;
  long products_ = 0;
  bool inside_ = false;
};

/// An operator that reports each product with `inner` to the transport.
template <Scalar T>
class Announced final : public op::Operator<T, Host> {
 public:
  Announced(const op::Operator<T, Host>& inner, LateTransport& transport)
      : op::Operator<T, Host>(inner.range(), inner.domain()), inner_(inner), transport_(transport) {}
  std::string name() const override { return "announced"; }

 protected:
  int begin(const layout::Vector<T>&, layout::Vector<T>&, bool) const override { return 0; }
  void finish(const layout::Vector<T>& x, layout::Vector<T>& y, bool, int) const override {
    transport_.begin_product();
    inner_.apply(x, y);
    transport_.end_product();
  }

 private:
  const op::Operator<T, Host>& inner_;
  LateTransport& transport_;
};

/// The number of messages that a method waited for before `products` products had begun, over iterations 3 .. 12 on two
/// ranks. More than 0 for a method that overlaps its reductions with fewer products. Collective.
template <Scalar T, class Build>
int waits_too_early(const comm::Communicator& c, Build&& matrix, const krylov::Options& options, int products) {
  const auto transport = std::make_shared<LateTransport>(c.transport().duplicate());
  int early = 0;
  {
    const comm::Communicator late(transport);
    const auto a = matrix();
    const auto inner = a.on(late);
    const Announced<T> A(*inner, *transport);
    auto o = options;
    o.rtol = 0;
    o.max_iterations = 20;
    o.callback_stops = false;
    o.callback = [&](const krylov::State& s) {
      if (s.iteration == 3) transport->delay(products);
      if (s.iteration == 12) transport->delay(0);
      return false;
    };
    run(A, random_vector<T>(a.n, 3), o);
    early = transport->early();
  }
  return early;
}

}  // namespace tacit::test
