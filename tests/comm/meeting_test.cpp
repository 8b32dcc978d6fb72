// Transport calls that cannot be cancelled: either all ranks enter them or none.
#include <gtest/gtest.h>
#include <tacit/comm/communicator.hpp>
#include <tacit/comm/exchange.hpp>

#include "support/communicators.hpp"
#include "support/group.hpp"

#include <atomic>
#include <chrono>
#include <thread>

using namespace tacit;
using namespace std::chrono_literals;
using comm::Communicator;
using test::on_ranks;

namespace {

// A transport that delays messages to one rank.
class Late final : public test::Group {
 public:
  Late(std::shared_ptr<comm::Transport> all, int size, bool late) : Group(std::move(all), size), late_(late) {}
  bool test(comm::Ticket& ticket) override {
    if (late_ && armed && std::chrono::steady_clock::now() < until) return false;
    return Group::test(ticket);
  }
  void arm() { armed = true, until = std::chrono::steady_clock::now() + 400ms; }

 private:
  bool late_, armed = false;
  std::chrono::steady_clock::time_point until;
};

// Ranks 0 and 1 agree to enter a call that cannot be cancelled: rank 0 at once, rank 1 late, after a notice that rank 2
// has failed in the enclosing call. As rank 0 has already entered, rank 1 has to enter as well.
TEST(Meeting, IgnoresFailuresOfOtherCommunicators) {
  on_ranks(
      [](const Communicator& c) {
        if (c.size() != 3) return;
        const auto transport = std::make_shared<Late>(c.transport().duplicate(), 2, c.rank() == 1);
        const Communicator around = c.duplicate();
        const auto aside = c.transport().duplicate();
        std::byte word{1};
        const auto tell = [&] {
          for (auto sent = aside->send(2, 1, &word, 1); !aside->test(sent);) std::this_thread::yield();
        };
        const auto hear = [&](int rank) {
          for (auto heard = aside->receive(rank, 1, &word, 1); !aside->test(heard);) std::this_thread::yield();
        };
        bool came = c.rank() == 2;
        std::string text;
        {
          const Communicator two(transport);
          try {
            comm::collective(around, [&] {
              if (c.rank() == 2) {
                for (const int rank : {0, 1}) hear(rank);  // both have begun to agree
                std::this_thread::sleep_for(100ms);
                throw Error(ErrorKind::input, "rank 2 has had enough");
              }
              comm::collective(two, [&] {
                transport->arm();
                tell();
                two.meet();
                came = true;
              });
              (void)around.all_sum(Global(1));
            });
          } catch (const Error& e) {
            text = e.what();
          }
        }
        EXPECT_TRUE(came);
        EXPECT_NE(text.find("rank 2 has had enough"), std::string::npos) << text;
        (void)c.all_sum(Global(1));
      },
      {3});
}

}  // namespace
