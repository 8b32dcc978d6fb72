// The protocol by which ranks agree on errors: every position where a rank can fail, up to two failures on two of three
// ranks, and every order in which messages and notices of failures can arrive (tests/support/interleavings.hpp).
#include <gtest/gtest.h>
#include <tacit/comm/communicator.hpp>
#include <tacit/comm/exchange.hpp>
#include <tacit/comm/simulate.hpp>

#include "support/communicators.hpp"
#include "support/faulty.hpp"
#include "support/interleavings.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

using namespace tacit;
using comm::Communicator;

namespace {

constexpr int ranks = 3;
constexpr const char* nothing = "nothing was thrown";

struct Failure {
  int rank, place;
};

std::string text_of(int rank, int place) {
  return message("at place ", place, " of rank ", rank);
}

// What a rank does, and the results.
struct Rank {
  std::optional<int> fails;         // the place
  std::optional<bool> fails_again;  // in a later call, if that is tested
  int failed_at = -1, passed = 0;   // places
  std::string thrown;               // out of the program's call
  bool within = false;              // an inner call has thrown
  std::vector<std::string> after;   // out of the calls that follow
  void at(int place, const Communicator& c) {
    ++passed;
    if (fails != place) return;
    failed_at = place;
    throw Error(ErrorKind::usage, text_of(c.rank(), place));
  }
};

std::string outcome(const Communicator& c, const std::function<void()>& f) {
  try {
    comm::collective(c, f);
  } catch (const Error& e) {
    return e.agreed() ? e.what() : message("not agreed: ", e.what());
  } catch (const std::exception& e) {
    return message("no Error: ", e.what());
  }
  return nothing;
}

// A pattern in which each rank needs an element of the next one.
std::shared_ptr<const comm::Pattern> ring(const Communicator& c) {
  const int next = (c.rank() + 1) % ranks, before = (c.rank() + ranks - 1) % ranks;
  auto p = std::make_shared<comm::Pattern>();
  p->send_ranks = {before}, p->receive_ranks = {next};
  p->send_offsets = p->receive_offsets = {0, 1};
  p->send_index = {0};
  p->ghosts = {next};
  return p;
}

void halo(comm::Exchange& e, Rank& rank) {
  const Communicator& c = e.comm();
  rank.at(0, c);
  const int number = e.open();
  struct Close {
    comm::Exchange& e;
    int number;
    ~Close() { e.close(number); }
  } const close{e, number};
  *reinterpret_cast<double*>(e.outgoing(number)) = c.rank();
  rank.at(1, c);
  e.post(number);
  rank.at(2, c);
  e.wait(number);
  EXPECT_EQ(*reinterpret_cast<const double*>(e.incoming(number)), (c.rank() + 1) % ranks);
  rank.at(3, c);
}

using Ranks = std::array<Rank, ranks>;
void expect_agreed(const Ranks& all);

struct Program {
  const char* name;
  int places;
  std::function<void(const Communicator&, Rank&)> run;
  void (*expect)(const Ranks&) = expect_agreed;
};

// A call with a sum; where a second failure is tested, a call that fails and another one with a sum.
void go_on(const Communicator& c, Rank& rank) {
  for (const bool fails : {false, true, false}) {
    rank.after.push_back(outcome(c, [&] {
      EXPECT_EQ(c.all_sum(Global(1)), ranks);
      if (!fails) return;
      if (*rank.fails_again) throw Error(ErrorKind::usage, "again");
      (void)c.all_sum(Global(1));
    }));
    if (!rank.fails_again) return;
  }
}

// Every run ends (if all ranks wait for each other, the simulation throws); no rank reports success where one has
// failed; all throw the error of the lowest rank that failed; the communicator works afterwards, and later errors are
// agreed on.
void expect_agreed(const Ranks& all) {
  std::string expected = nothing, again = nothing;
  for (int r = ranks; r-- > 0;) {
    const auto& rank = all[std::size_t(r)];
    if (rank.failed_at >= 0) expected = message("rank ", r, ": ", text_of(r, rank.failed_at));
    if (rank.fails_again && *rank.fails_again) again = message("rank ", r, ": again");
  }
  for (const auto& rank : all) {
    EXPECT_EQ(rank.thrown, expected);
    EXPECT_EQ(rank.within, all[0].within);
    for (std::size_t call = 0; call < rank.after.size(); ++call)
      EXPECT_EQ(rank.after[call], call == 1 ? again : nothing);
  }
}

// All scenarios of up to two failures: both in the program, or one in it and one in a later call. A scenario with more
// than `most` orders is cut after that many of the search, followed by as many random orders.
#ifdef TACIT_SHORT_TESTS
constexpr std::int64_t most_orders = 20;
#else
constexpr std::int64_t most_orders = 1000000;
#endif
void go_through(const Program& program, bool again_later = false, std::int64_t most = most_orders) {
  if (test::under_mpi()) GTEST_SKIP() << "one process simulates all ranks";
  const auto from = std::chrono::steady_clock::now();
  most = std::min(most, most_orders);
  test::Interleavings orders(most);
  int scenarios = 0, bounded = 0;
  const auto scenario = [&](const std::vector<Failure>& failures, int again = -1) {
    std::string name = program.name;
    for (const auto& f : failures) name += message(", ", text_of(f.rank, f.place));
    const testing::ScopedTrace trace(__FILE__, __LINE__, message(name, ", again on rank ", again));
    if (testing::Test::HasFailure()) return;
    ++scenarios;
    bounded += !orders.explore([&](const comm::Scheduler& next) {
      if (testing::Test::HasFailure()) return;
      Ranks all;
      for (const auto& f : failures) all[std::size_t(f.rank)].fails = f.place;
      for (int r = 0; again >= 0 && r < ranks; ++r) all[std::size_t(r)].fails_again = r == again;
      comm::simulate_in_order(ranks, next, [&](const Communicator& c) { program.run(c, all[std::size_t(c.rank())]); });
      program.expect(all);
    });
  };
  scenario({});
  for (int a = 0; a < ranks; ++a)
    for (int p = 0; p < program.places; ++p) {
      scenario({{a, p}});
      if (again_later) scenario({{a, p}}, (a + 1) % ranks);
      for (int b = a + 1; b < ranks; ++b)
        for (int q = 0; q < program.places; ++q) scenario({{a, p}, {b, q}});
    }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
  std::printf("%s: %d scenarios, %lld interleavings (%lld of them redundant) of at most %lld arrivals, ", program.name,
              scenarios, (long long)orders.runs(), (long long)orders.redundant(), (long long)orders.longest());
  std::printf("%d scenarios cut at %lld, %.1f s\n", bounded, (long long)(2 * most), seconds);
  EXPECT_EQ(orders.strays(), 0);
}

void two_sums(const Communicator& c, Rank& rank) {
  rank.thrown = outcome(c, [&] {
    rank.at(0, c);
    (void)c.all_sum(Global(1));
    rank.at(1, c);
    (void)c.all_sum(Global(1));
    rank.at(2, c);
  });
  go_on(c, rank);
}

TEST(Protocol, BeforeWithinAndAfterASum) {
  go_through({"a sum", 3, two_sums}, true);
}

// Equivalent orders bring ranks to the same places. On two ranks, where all orders can be run.
TEST(Interleavings, PrunedOnesAreEquivalentToTestedOnes) {
  if (test::under_mpi()) GTEST_SKIP() << "one process simulates all ranks";
  for (const auto& failures : {std::vector<Failure>{{0, 1}}, {{1, 1}}, {{0, 0}, {1, 1}}, {{0, 1}, {1, 1}}}) {
    std::set<std::pair<int, int>> places[2];
    std::int64_t runs[2] = {};
    for (const bool all_orders : {false, true}) {
      test::Interleavings orders(1000000, !all_orders);
      orders.explore([&](const comm::Scheduler& next) {
        Ranks all;
        for (const auto& f : failures) all[std::size_t(f.rank)].fails = f.place;
        comm::simulate_in_order(2, next, [&](const Communicator& c) {
          Rank& rank = all[std::size_t(c.rank())];
          rank.thrown = outcome(c, [&] {
            rank.at(0, c);
            (void)c.all_sum(Global(1));
            rank.at(1, c);
            (void)c.all_sum(Global(1));
            rank.at(2, c);
          });
        });
        places[all_orders].emplace(all[0].passed, all[1].passed);
      });
      runs[all_orders] = orders.runs();
    }
    EXPECT_EQ(places[0], places[1]);
    EXPECT_GT(runs[1], runs[0]);
    std::printf("%d outcomes, %lld orders, %lld that differ\n", int(places[1].size()), (long long)runs[1],
                (long long)runs[0]);
  }
}

TEST(Protocol, OfAHaloExchange) {
  go_through({"a halo exchange", 4, [](const Communicator& c, Rank& rank) {
                comm::Exchange e(c, ring(c), sizeof(double));
                rank.thrown = outcome(c, [&] { halo(e, rank); });
                rank.fails = {};
                rank.after = {outcome(c, [&] { halo(e, rank); })};
              }});
}

TEST(Protocol, OfACallWithinACall) {
  go_through({"a call within a call", 4,
              [](const Communicator& c, Rank& rank) {
                rank.thrown = outcome(c, [&] {
                  rank.at(0, c);
                  try {
                    comm::collective(c, [&] {
                      rank.at(1, c);
                      (void)c.all_sum(Global(1));
                      rank.at(2, c);
                    });
                  } catch (const Error&) {
                    rank.within = true;
                    throw;
                  }
                  rank.at(3, c);
                });
                go_on(c, rank);
              }},
             true);
}

// Places are sends. A send of the agreement that ends the inner call may fail on a rank when others have left the call;
// the second of two failures may occur within the agreement on the first: then the communicator is lost.
TEST(Protocol, OfTheTransport) {
  class Breaking final : public test::FaultyTransport {
   public:
    Breaking(const Communicator& c, int at) : FaultyTransport(c.transport().duplicate(), at), c_(c) {}
    comm::detail::SimulatedRank* simulated() override { return c_.transport().simulated(); }
    comm::Ticket receive(int from, int tag, void* data, std::size_t bytes) override {
      return inner().receive(from, tag, data, bytes);
    }

   private:
    const Communicator c_;
  };
  go_through({"the transport", 5,
              [](const Communicator& c, Rank& rank) {
                const auto transport = std::make_shared<Breaking>(c, rank.fails ? *rank.fails + 1 : 0);
                const Communicator d(transport);
                rank.thrown = outcome(d, [&] {
                  try {
                    comm::collective(d, [&] { (void)d.all_sum(Global(1)); });
                  } catch (const Error&) {
                    rank.within = true;
                    throw;
                  }
                  (void)d.all_sum(Global(1));
                  transport->disarm();
                });
                transport->disarm();
                go_on(d, rank);
              },
              [](const Ranks& all) {
                const bool lost = all[0].after[0].find("the communicator is lost") == 0;
                EXPECT_TRUE(lost || all[0].after[0] == nothing) << all[0].after[0];
                for (const auto& rank : all) {
                  EXPECT_EQ(rank.after, all[0].after);
                  if (lost) EXPECT_NE(rank.thrown, nothing);
                  else EXPECT_EQ(std::tie(rank.thrown, rank.within), std::tie(all[0].thrown, all[0].within));
                }
              }});
}

// It is open which of two failures on two communicators is noticed first; a failure in the outer call may be noticed
// before one in the inner. All ranks throw the same error: that of one of them or, where a rank found the inner
// communicator lost before it noticed the failure on the outer one, that error. The outer communicator works
// afterwards. The inner one may have been abandoned in the middle of a call: then the next call on it throws on all
// ranks. Or it is lost, and all later calls throw.
void expect_alike(const Ranks& all) {
  bool one = false, any = false;
  for (int r = 0; r < ranks; ++r) {
    const auto& rank = all[std::size_t(r)];
    any = any || rank.failed_at >= 0;
    one = one || (rank.failed_at >= 0 && rank.thrown == message("rank ", r, ": ", text_of(r, rank.failed_at)));
    EXPECT_EQ(rank.thrown, all[0].thrown);
    EXPECT_EQ(rank.after, all[0].after);
  }
  const auto has = [&](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  EXPECT_TRUE(one || (any ? has(all[0].thrown, "is lost") : all[0].thrown == nothing)) << all[0].thrown;
  const auto& after = all[0].after;
  EXPECT_EQ(after[0], nothing);
  EXPECT_TRUE(after[1] == nothing || has(after[1], "because of a failure on another one") || has(after[1], "is lost"))
      << after[1];
  EXPECT_EQ(after[2], has(after[1], "is lost") ? after[1] : nothing);
}

TEST(Protocol, OnTwoCommunicators) {
  go_through({"two communicators", 4,
              [](const Communicator& c, Rank& rank) {
                const Communicator d = c.duplicate();
                rank.thrown = outcome(c, [&] {
                  rank.at(0, c);
                  comm::collective(d, [&] {
                    rank.at(1, c);
                    (void)d.all_sum(Global(1));
                    rank.at(2, c);
                  });
                  rank.at(3, c);
                });
                for (const auto* next : {&c, &d, &d})
                  rank.after.push_back(outcome(*next, [&] { EXPECT_EQ(next->all_sum(Global(1)), ranks); }));
              },
              expect_alike},
             false, 100);
}

}  // namespace
