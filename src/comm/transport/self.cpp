// One rank alone.
#include <tacit/comm/communicator.hpp>

namespace tacit::comm {
namespace {

class SelfTransport final : public Transport {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  const char* kind() const override { return "self"; }
  Ticket send(int, int, const void*, std::size_t) override { return no_partner(); }
  Ticket receive(int, int, void*, std::size_t) override { return no_partner(); }
  bool test(Ticket&) override { return true; }
  void cancel(Ticket&, std::shared_ptr<void>) override {}
  std::optional<Arrival> probe(int) override { return {}; }
  void send_notice(const Notice&) override {}
  std::optional<Notice> poll_notice() override { return {}; }
  std::shared_ptr<Transport> duplicate() override { return std::make_shared<SelfTransport>(); }

 private:
  static Ticket no_partner() {
    throw Error(ErrorKind::usage, "a communicator of one rank has no partner for messages");
  }
};

}  // namespace

Communicator Communicator::self() {
  return Communicator(std::make_shared<SelfTransport>());
}

}  // namespace tacit::comm
