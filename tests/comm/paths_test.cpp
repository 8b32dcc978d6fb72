// The paths of an exchange: equal bits and counts for any assignment to nodes, with late ranks, and after failures.
#include <gtest/gtest.h>
#include <tacit/comm/communicator.hpp>
#include <tacit/comm/exchange.hpp>
#include <tacit/layout/space.hpp>

#include "support/communicators.hpp"
#include "support/faulty.hpp"

#include <chrono>
#include <cstdlib>
#include <random>
#include <set>
#include <thread>

using namespace tacit;
using namespace std::chrono_literals;
using comm::Communicator;
using comm::Exchange;
using comm::Path;
using test::on_ranks;

namespace {

std::vector<Path> all_paths(const Communicator& c) {
  std::vector<Path> all{Path::automatic, Path::messages, Path::persistent, Path::put, Path::shared, Path::gather};
  if (std::string(c.kind()) == "mpi") all.push_back(Path::neighbour);
  return all;
}

// Each rank needs a few elements of some other ranks: an unsymmetric pattern in which some ranks send or receive
// nothing.
struct Some {
  layout::Partition partition;
  std::shared_ptr<const comm::Pattern> pattern;
  Some(const Communicator& c, unsigned seed, Global each = 40)
      : partition(layout::Partition::blocks(each * c.size(), c.size())) {
    std::minstd_rand random(seed + 31u * unsigned(c.rank()));
    std::set<Global> needed;
    for (int r = 0; r < c.size(); ++r) {
      if (r == c.rank() || (r + 2 * c.rank() + int(seed)) % 3 == 0) continue;
      for (int i = 0; i < 7 + r; ++i) needed.insert(partition.begin(r) + Global(random() % std::uint64_t(each)));
    }
    pattern = std::make_shared<const comm::Pattern>(
        comm::Pattern::build(c, partition.offsets(), {needed.begin(), needed.end()}));
  }
};

double value(Global index, int epoch) {
  return double(index) + 0.37 * epoch;
}

// Packs k values per element.
void pack(Exchange& e, int number, bool forward, Global first, int epoch, int k) {
  auto* out = reinterpret_cast<double*>(e.outgoing(number));
  const auto& p = e.pattern();
  if (forward) {
    for (Local i : p.send_index)
      for (int c = 0; c < k; ++c) *out++ = value(first + i, epoch) + c;
  } else {
    for (Global g : p.ghosts)
      for (int c = 0; c < k; ++c) *out++ = value(g, epoch) + e.comm().rank() + c;
  }
}

void check(Exchange& e, int number, bool forward, Global first, int epoch, int k) {
  const auto* in = reinterpret_cast<const double*>(e.incoming(number));
  const auto& p = e.pattern();
  if (forward) {
    for (Global g : p.ghosts)
      for (int c = 0; c < k; ++c) ASSERT_EQ(*in++, value(g, epoch) + c);
    return;
  }
  for (std::size_t n = 0; n < p.send_ranks.size(); ++n)
    for (Local i = p.send_offsets[n]; i < p.send_offsets[n + 1]; ++i)
      for (int c = 0; c < k; ++c)
        ASSERT_EQ(*in++, value(first + p.send_index[std::size_t(i)], epoch) + p.send_ranks[n] + c);
}

void once(Exchange& e, bool forward, Global first, int epoch, int k, bool by_neighbour = false) {
  const int number = e.open(forward);
  pack(e, number, forward, first, epoch, k);
  e.post(number);
  if (by_neighbour) {
    std::set<int> seen;
    for (int n; (n = e.wait_any(number)) >= 0;) EXPECT_TRUE(seen.insert(n).second);
    EXPECT_EQ(seen.size(), (forward ? e.pattern().receive_ranks : e.pattern().send_ranks).size());
  } else {
    e.wait(number);
  }
  check(e, number, forward, first, epoch, k);
  e.close(number);
}

// Packed by the exchange itself, from a vector with new values each time.
void in_one_go(Exchange& e, const Some& some, Global first, int epoch, int k) {
  static thread_local std::vector<double> x;
  x.resize(std::size_t(some.partition.end(e.comm().rank()) - first) * std::size_t(k));
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = value(first + Global(i / std::size_t(k)), epoch) + double(i % std::size_t(k));
  const int number = e.open();
  e.post(number, x.data());
  e.wait(number);
  check(e, number, true, first, epoch, k);
  e.close(number);
}

const std::initializer_list<int> many = {1, 2, 3, 4, 6, 8};

TEST(Paths, DeliverTheSameBitsInBothDirections) {
  on_ranks(
      [](const Communicator& c) {
        for (const std::vector<int>& levels : {std::vector<int>{}, {1}, {2}, {2, 2}, {3}})
          for (const Path path : all_paths(c)) {
            if (!levels.empty() && path != Path::shared && path != Path::gather) continue;
            SCOPED_TRACE(to_string(path));
            const Communicator d = c.duplicate();
            d.use(comm::Topology::given(d.size(), levels));
            d.use(path);
            for (unsigned seed = 1; seed <= 3; ++seed) {
              const Some some(d, seed);
              const Global first = some.partition.begin(d.rank());
              const int k = int(seed);
              Exchange e(d, some.pattern, 8 * std::size_t(k));
              const auto before = d.counters();
              for (int epoch = 0; epoch < 12; ++epoch) once(e, epoch % 3 != 2, first, epoch, k, epoch % 2 == 1);
              for (int epoch = 0; epoch < 6; ++epoch) in_one_go(e, some, first, epoch, k);
              const auto spent = d.counters() - before;
              const auto& p = *some.pattern;
              EXPECT_EQ(spent.exchanges, 18);
              EXPECT_EQ(spent.messages, std::int64_t(14 * p.send_ranks.size() + 4 * p.receive_ranks.size()));
              EXPECT_EQ(spent.bytes,
                        std::int64_t((14 * p.send_index.size() + 4 * p.ghosts.size()) * 8 * std::size_t(k)));
              if (path != Path::automatic && d.size() > 1) {
                EXPECT_EQ(e.path(), path);
              }
              if ((path == Path::shared || path == Path::gather) && d.size() > 1) {
                int inside = 0;
                for (int r : p.send_ranks) inside += d.topology().same_node(r, d.rank());
                EXPECT_EQ(e.window_neighbours(), inside);
              }
            }
          }
      },
      many);
}

TEST(Paths, LetTwoExchangesEndInAnyOrder) {
  on_ranks(
      [](const Communicator& c) {
        for (const Path path : all_paths(c)) {
          SCOPED_TRACE(to_string(path));
          const Communicator d = c.duplicate();
          d.use(path);
          const Some some(d, 1);
          const Global first = some.partition.begin(d.rank());
          Exchange e(d, some.pattern, 8);
          int epoch = 0;
          const auto start = [&] {
            const int number = e.open();
            pack(e, number, true, first, epoch, 1);
            e.post(number);
            return std::pair(number, epoch++);
          };
          const auto end = [&](std::pair<int, int> one) {
            e.wait(one.first);
            check(e, one.first, true, first, one.second, 1);
            e.close(one.first);
          };
          // The first stays open while three others are opened and closed; then two overlap, which odd and even ranks
          // close in different orders.
          auto a = start();
          for (int i = 0; i < 3; ++i) end(start());
          end(a);
          auto b = start(), f = start();
          if (d.rank() % 2) end(b), end(f);
          else end(f), end(b);
          for (int i = 0; i < 4; ++i) {
            auto g = start(), h = start();
            end(h);
            auto m = start();
            end(g), end(m);
          }
        }
      },
      many);
}

// Ranks close two exchanges in different orders, not that of posting: a later grant of a slot may arrive before an
// earlier one.
TEST(Paths, SurviveManyAlternatingExchanges) {
  on_ranks(
      [](const Communicator& c) {
        for (const Path path : all_paths(c)) {
          SCOPED_TRACE(to_string(path));
          const Communicator d = c.duplicate();
          d.use(path);
          const Some some(d, 1);
          const Global first = some.partition.begin(d.rank());
          Exchange e(d, some.pattern, 8);
          int epoch = 0;
          for (int i = 0; i < 100; ++i) {
            int number[2], at[2];
            for (const int k : {0, 1}) {
              number[k] = e.open(), at[k] = epoch++;
              pack(e, number[k], true, first, at[k], 1);
              e.post(number[k]);
            }
            const int before = (d.rank() + i) % 2;
            for (const int k : {before, 1 - before}) {
              e.wait(number[k]);
              check(e, number[k], true, first, at[k], 1);
              e.close(number[k]);
            }
          }
        }
      },
      many);
}

TEST(Paths, DoNotOverwriteDataOfSlowNeighbours) {
  on_ranks(
      [](const Communicator& c) {
        if (c.size() == 1) return;
        for (const Path path : all_paths(c)) {
          SCOPED_TRACE(to_string(path));
          const Communicator d = c.duplicate();
          d.use(path);
          const Some some(d, 2);
          const Global first = some.partition.begin(d.rank());
          Exchange e(d, some.pattern, 8);
          std::minstd_rand random(5u + unsigned(d.rank()));
          for (int epoch = 0; epoch < 60; ++epoch) {
            if (random() % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 400));
            once(e, true, first, epoch, 1, random() % 2);
            if (random() % 3 == 0) d.poll();
          }
          // One rank abandons its exchange while others wait for theirs.
          for (int epoch = 0; epoch < 6; ++epoch) {
            const int number = e.open();
            pack(e, number, true, first, epoch, 1);
            e.post(number);
            if (d.rank() == epoch % d.size()) e.abandon(number);
            else e.wait(number), check(e, number, true, first, epoch, 1), e.close(number);
          }
          once(e, true, first, 99, 1);
        }
      },
      {2, 3, 5});
}

TEST(Paths, MayChangeAtAnyTime) {
  on_ranks(
      [](const Communicator& c) {
        const Communicator d = c.duplicate();
        const Some some(d, 3);
        const Global first = some.partition.begin(d.rank());
        Exchange e(d, some.pattern, 8), own(d, some.pattern, 8, Path::messages);
        int epoch = 0;
        for (int round = 0; round < 2; ++round)
          for (const Path path : all_paths(c)) {
            d.use(path);
            for (int i = 0; i < 3; ++i) once(e, true, first, ++epoch, 1), once(own, true, first, epoch, 1);
            EXPECT_EQ(own.path(), Path::messages);
            const int number = e.open();
            pack(e, number, true, first, epoch, 1);
            e.post(number);
            d.use(Path::messages);  // while an exchange is open
            once(e, true, first, epoch + 1, 1);
            e.wait(number);
            check(e, number, true, first, epoch, 1);
            e.close(number);
          }
      },
      {1, 2, 4});
}

TEST(Paths, AreMeasuredAndAgreedUpon) {
  on_ranks(
      [](const Communicator& c) {
        if (c.size() == 1) return;
        const Communicator d = c.duplicate();
        const Some some(d, 1, 4000);
        const Global first = some.partition.begin(d.rank());
        Exchange e(d, some.pattern, 8);
        const auto before = d.counters();
        for (int epoch = 0; epoch < 150; ++epoch) once(e, true, first, epoch, 1);
        EXPECT_EQ((d.counters() - before).exchanges, 150);
        const auto all = d.all_gather(int(e.path()));
        for (int p : all) EXPECT_EQ(p, all[0]);
        Exchange next(d, some.pattern, 8);
        for (int epoch = 0; epoch < 70; ++epoch) once(next, true, first, epoch, 1);
        EXPECT_EQ(next.path(), e.path());
      },
      {2, 3});
}

// Longer than anything here takes on a busy machine, unless ranks wait for something that never comes.
constexpr auto very_long = 60s;

// Each rank fails in turn at several places of a job; all ranks throw the same error, and the next job works.
TEST(Paths, OutliveFailures) {
  on_ranks(
      [](const Communicator& c) {
        if (c.size() == 1) return;
        for (const Path path : all_paths(c)) {
          SCOPED_TRACE(to_string(path));
          const Communicator d = c.duplicate();
          d.use(path);
          const Some some(d, 1);
          const Global first = some.partition.begin(d.rank());
          Exchange e(d, some.pattern, 8);
          for (int place = 0; place < 6; ++place) {
            const int culprit = place % d.size();
            const auto from = std::chrono::steady_clock::now();
            std::string text;
            try {
              comm::collective(d, [&] {
                const auto fail = [&](int here) {
                  if (place == here && d.rank() == culprit) throw Error(ErrorKind::input, message("place ", here));
                };
                fail(0);
                for (int epoch = 0; epoch < 3 + place; ++epoch) {
                  const int number = e.open();
                  fail(1);
                  pack(e, number, true, first, epoch, 1);
                  e.post(number);
                  fail(2);
                  e.wait(number);
                  if (epoch == 2) fail(3);
                  check(e, number, true, first, epoch, 1);
                  e.close(number);
                  if (epoch == 1) fail(4);
                }
                fail(5);
              });
            } catch (const Error& error) {
              text = error.what();
            }
            EXPECT_LT(std::chrono::steady_clock::now() - from, very_long);
            EXPECT_NE(text.find(message("place ", place)), std::string::npos) << text;
            for (int epoch = 0; epoch < 4; ++epoch) once(e, true, first, 10 * place + epoch, 1);
          }
        }
      },
      {2, 3, 4});
}

TEST(Paths, InjectedFaultsNeverHang) {
  on_ranks(
      [](const Communicator& c) {
        if (c.size() == 1) return;
        for (const Path path : {Path::shared, Path::gather, Path::put, Path::persistent}) {
          // MPI creates windows in a call that cannot be cancelled, so a fault in the agreement before it cannot be
          // agreed on.
          if (path == Path::put && test::under_mpi()) continue;
          for (int trial = 0; trial < 24; ++trial) {
            const int culprit = trial % c.size(), countdown = 1 + (trial * 5) % 40;
            const auto transport =
                std::make_shared<test::FaultyTransport>(c.transport().duplicate(), c.rank() == culprit ? countdown : 0);
            const Communicator faulty(transport);
            faulty.use(path);
            const auto from = std::chrono::steady_clock::now();
            bool failed = false;
            try {
              comm::collective(faulty, [&] {
                if (trial % 2) faulty.use(comm::Topology::given(faulty.size(), "2"));
                const Some some(faulty, 1);
                Exchange e(faulty, some.pattern, 8);
                for (int epoch = 0; epoch < 5; ++epoch) {
                  auto sum = faulty.sum(exec::Sums<1, double>{{1.0}});
                  once(e, true, some.partition.begin(faulty.rank()), epoch, 1);
                  (void)sum.wait();
                }
                transport->disarm();
              });
            } catch (const Error& e) {
              failed = true;
              EXPECT_NE(std::string(e.what()).find("injected fault"), std::string::npos) << e.what();
            }
            EXPECT_LT(std::chrono::steady_clock::now() - from, very_long);
            EXPECT_EQ(c.all_sum(Global(failed)) > 0, failed);
          }
        }
      },
      {2, 3, 4});
}

// A fault while paths are measured: only some ranks may have finished the measurement.
TEST(Paths, FaultsDuringMeasurementKeepRanksConsistent) {
  on_ranks(
      [](const Communicator& c) {
        if (c.size() == 1) return;
        for (int trial = 0; trial < 24; ++trial) {
          const Communicator d = c.duplicate();
          const Some some(d, 1);
          const auto transport = std::make_shared<test::FaultyTransport>(d.transport().duplicate(), 0);
          const Communicator faulty(transport);
          const Global first = some.partition.begin(faulty.rank());
          Exchange e(faulty, some.pattern, 8);
          for (int epoch = 0; epoch < 63; ++epoch) once(e, true, first, epoch, 1);
          if (c.rank() == trial % c.size()) transport->strike_at(1 + trial * 9);
          bool failed = false;
          try {
            comm::collective(faulty, [&] {
              for (int epoch = 0; epoch < 5; ++epoch) once(e, true, first, epoch, 1);
              transport->disarm();
            });
          } catch (const Error& error) {
            failed = true;
          }
          transport->disarm();
          EXPECT_EQ(c.all_sum(Global(failed)) > 0, failed);
          for (int epoch = 0; epoch < 70; ++epoch) once(e, true, first, epoch, 1);
          Exchange next(faulty, some.pattern, 8);
          for (int epoch = 0; epoch < 70; ++epoch) once(next, true, first, epoch, 1);
        }
      },
      {2, 3});
}

TEST(Paths, ThrowWhereUnavailable) {
  on_ranks(
      [](const Communicator& c) {
        if (c.size() == 1) return;
        if (std::string(c.kind()) == "threads") {
          const Some some(c, 1);
          Exchange e(c, some.pattern, 8, Path::neighbour);
          EXPECT_THROW((void)e.open(), Error);
        }
        EXPECT_THROW((void)comm::path_of("sharde"), Error);
      },
      {2});
}

TEST(Paths, LeakNothing) {
  on_ranks(
      [](const Communicator& c) {
        for (const Path path : all_paths(c)) {
          const Communicator d = c.duplicate();
          d.use(path);
          const Some some(d, 1);
          for (int i = 0; i < (test::under_mpi() ? 40 : 10); ++i) {
            Exchange e(d, some.pattern, 8);
            once(e, true, some.partition.begin(d.rank()), i, 1);
          }
        }
      },
      {3});
}

TEST(Topology, GivenLevelsGroupRanks) {
  const auto t = comm::Topology::given(12, std::vector<int>{3, 2});
  ASSERT_EQ(t.levels(), 3);
  EXPECT_EQ(t.name(0), "numa");
  EXPECT_EQ(t.name(1), "node");
  EXPECT_EQ(t.name(2), "global");
  EXPECT_EQ(t.groups(0), 4);
  EXPECT_EQ(t.groups(1), 2);
  EXPECT_TRUE(t.same(3, 5, 0));
  EXPECT_FALSE(t.same(2, 3, 0));
  EXPECT_TRUE(t.same_node(2, 3));
  EXPECT_FALSE(t.same_node(5, 6));
  EXPECT_TRUE(t.same(0, 11, 2));
  const auto odd = comm::Topology::given(5, "2");  // the last node has one rank
  EXPECT_EQ(odd.groups(0), 3);
  EXPECT_EQ(odd.group(4, 0), 2);
  for (const char* wrong : {"", "0", "2,", "a", "2,x", "-1", "1,1,1,1", "2 3"})
    EXPECT_THROW((void)comm::Topology::given(4, wrong), Error) << wrong;
}

TEST(Topology, DetectedIsTheSameEverywhere) {
  on_ranks([](const Communicator& c) {
    const auto& t = c.topology();
    EXPECT_EQ(t.ranks(), c.size());
    const int node = t.levels() - 2;
    EXPECT_EQ(t.name(node), "node");
    for (int r = 0; r < c.size(); ++r) {
      const auto groups = c.all_gather(t.group(r, node));
      for (int g : groups) EXPECT_EQ(g, groups[0]);
    }
    if (!test::under_mpi()) {
      EXPECT_EQ(t.groups(node), 1);
    }
    EXPECT_THROW(c.use(comm::Topology::given(c.size() + 1, std::vector<int>{})), Error);
  });
}

}  // namespace
