// Properties of all communicators: self, threads and MPI give the same results.
#include <gtest/gtest.h>
#include <tacit/comm/communicator.hpp>
#include <tacit/comm/exchange.hpp>
#include <tacit/comm/mail.hpp>
#include <tacit/layout/space.hpp>

#include "support/communicators.hpp"
#include "support/faulty.hpp"

#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>
#include <thread>

using namespace tacit;
using comm::Communicator;
using test::on_ranks;

namespace {

TEST(Sum, AddsOverRanks) {
  on_ranks([](const Communicator& c) {
    const double p = c.size();
    const auto [a, b] = c.sum(exec::Sums<2, double>{{double(c.rank()), 1.0}}).wait();
    EXPECT_EQ(a, p * (p - 1) / 2);
    EXPECT_EQ(b, p);
    const auto [z] = c.sum(exec::Sums<1, std::complex<float>>{{std::complex<float>(1, float(c.rank()))}}).wait();
    EXPECT_EQ(z, std::complex<float>(float(p), float(p * (p - 1) / 2)));
  });
}

TEST(Sum, HasTheSameBitsOnEveryRankAndEveryRun) {
  on_ranks([](const Communicator& c) {
    std::vector<double> first;
    for (int run = 0; run < 3; ++run) {
      std::vector<double> v(17);
      for (std::size_t i = 0; i < v.size(); ++i)
        v[i] = std::sin(1.0 + 100.0 * c.rank() + double(i)) * std::pow(10.0, double(i));
      auto pending = c.start_sum(v.data(), v.size());
      pending.wait(v.data());
      if (run == 0) first = v;
      EXPECT_EQ(first, v);
      for (const auto& other : c.all_gather(std::span<const double>(v)))
        EXPECT_NE(std::find(v.begin(), v.end(), other), v.end());
    }
  });
}

TEST(Sum, ManyAreInFlightAndEndInAnyOrder) {
  on_ranks([](const Communicator& c) {
    constexpr int n = 100;
    std::vector<comm::PendingSum> pending;
    for (int i = 0; i < n; ++i) {
      const double v[2] = {double(i), double(c.rank() * i)};
      pending.push_back(c.start_sum(v, 2));
    }
    const double p = c.size();
    for (int i = n - 1; i >= 0; --i) {
      double v[2];
      pending[i].wait(v);
      EXPECT_EQ(v[0], i * p);
      EXPECT_EQ(v[1], i * p * (p - 1) / 2);
    }
  });
}

TEST(Sum, DroppedOnesDoNotAffectLaterOnes) {
  on_ranks([](const Communicator& c) {
    for (int i = 0; i < 20; ++i) {
      const double v = i;
      { auto dropped = c.start_sum(&v, 1); }
      EXPECT_EQ(c.sum(exec::Sums<1, double>{{1.0}}).wait()[0], c.size());
    }
  });
}

TEST(Sum, NativeAlgorithmAgrees) {
  on_ranks([](const Communicator& c) {
    const Communicator d = c.duplicate();
    d.use(comm::SumAlgorithm::native);
    EXPECT_EQ(d.sum(exec::Sums<1, double>{{double(c.rank() + 1)}}).wait()[0], c.size() * (c.size() + 1) / 2.0);
  });
}

TEST(Reduce, MinAndMaxDoNotLoseANaN) {
  on_ranks([](const Communicator& c) {
    EXPECT_EQ(c.all_max(Global(c.rank())), c.size() - 1);
    EXPECT_EQ(c.all_min(Global(c.rank() - 5)), -5);
    const double nan = std::numeric_limits<double>::quiet_NaN();
    EXPECT_TRUE(std::isnan(c.all_max(c.rank() == c.size() - 1 ? nan : 1.0)));
    EXPECT_FALSE(c.all(c.rank() != 0));
    EXPECT_TRUE(c.all(true));
  });
}

TEST(Gather, BringsEveryRanksBytesInOrder) {
  on_ranks([](const Communicator& c) {
    std::vector<Global> mine(std::size_t(c.rank() % 3), Global(c.rank()));  // some ranks contribute nothing
    std::vector<Global> expected;
    for (int r = 0; r < c.size(); ++r) expected.insert(expected.end(), std::size_t(r % 3), Global(r));
    EXPECT_EQ(c.all_gather(std::span<const Global>(mine)), expected);
    EXPECT_EQ(c.broadcast(c.rank() == c.size() - 1 ? "hello" : "", c.size() - 1), "hello");
  });
}

TEST(SparseExchange, DeliversWithoutKnowingTheSenders) {
  on_ranks([](const Communicator& c) {
    for (int round = 0; round < 5; ++round) {
      // Rank r writes to r + 1, r + 2 (when they exist) and to itself.
      std::vector<Communicator::Parcel> out;
      for (int to : {c.rank(), c.rank() + 1, c.rank() + 2})
        if (to < c.size())
          out.push_back({to, std::vector<std::byte>(std::size_t(c.rank() * 10 + round), std::byte(to))});
      const auto in = c.sparse_exchange(out);
      std::vector<int> senders;
      for (const auto& p : in) {
        senders.push_back(p.rank);
        EXPECT_EQ(p.bytes.size(), std::size_t(p.rank * 10 + round));
        for (auto b : p.bytes) EXPECT_EQ(b, std::byte(c.rank()));
      }
      std::vector<int> expected;
      for (int r = std::max(0, c.rank() - 2); r <= c.rank(); ++r) expected.push_back(r);
      EXPECT_EQ(senders, expected);
    }
  });
}

TEST(Mail, BringsMessagesOfAnySizeByLabel) {
  on_ranks([](const Communicator& c) {
    const auto bytes = [](int from, int to, int which) {
      return comm::Mail::Bytes(std::size_t(which == 1 ? 100000 : 3 * from + which), std::byte(16 * from + to + which));
    };
    const auto before = c.counters();
    std::int64_t sent = 0;
    for (int round = 0; round < 3; ++round) {
      comm::collective(c, [&] {
        comm::Mail first(c), second(c);
        for (int which = 0; which < 3; ++which)
          for (int to = 0; to < c.size(); ++to) {
            if (to == c.rank()) continue;
            const int ranks[] = {to};
            first.send(ranks, 10 * c.rank() + which, bytes(c.rank(), to, which));
            sent += std::int64_t(bytes(c.rank(), to, which).size());
          }
        std::vector<int> others;
        for (int r = 0; r < c.size(); ++r)
          if (r != c.rank()) others.push_back(r);
        second.send(others, c.rank(), bytes(c.rank(), 0, 2));
        sent += std::int64_t(bytes(c.rank(), 0, 2).size() * others.size());
        // In another order than they were sent, and those of the second mail first.
        for (int which = 2; which >= 0; --which)
          for (const int from : others) {
            if (which == 2) {
              EXPECT_EQ(second.take(from), bytes(from, 0, 2));
            }
            const Global label[] = {10 * from + which};
            first.wait_for_one(label);
            EXPECT_TRUE(first.has(label[0]));
            EXPECT_EQ(first.take(label[0]), bytes(from, c.rank(), which));
            EXPECT_FALSE(first.has(label[0]));
          }
        first.finish(), second.finish();
      });
    }
    const auto counted = c.counters() - before;
    EXPECT_EQ(counted.messages, 3 * 4 * (c.size() - 1));
    EXPECT_EQ(counted.bytes, sent);
  });
}

TEST(Mail, EndsOnAllRanksWhenOneFails) {
  on_ranks([](const Communicator& c) {
    if (c.size() == 1) return;
    for (int failing : {0, c.size() - 1}) {
      EXPECT_THROW(comm::collective(c,
                                    [&] {
                                      comm::Mail mail(c);
                                      require(c.rank() != failing, "rank ", failing, " fails");
                                      mail.take(7);  // which nobody sends
                                    }),
                   Error);
      // What was on its way has gone: a label means a new message.
      comm::collective(c, [&] {
        comm::Mail mail(c);
        const int next[] = {(c.rank() + 1) % c.size()};
        mail.send(next, 7, comm::Mail::Bytes(5, std::byte(c.rank())));
        EXPECT_EQ(mail.take(7), comm::Mail::Bytes(5, std::byte((c.rank() + c.size() - 1) % c.size())));
        mail.finish();
      });
    }
  });
}

TEST(Mail, SendsNothingWhereARankIsWrong) {
  on_ranks([](const Communicator& c) {
    if (c.size() == 1) return;
    const int next = (c.rank() + 1) % c.size(), last = (c.rank() + c.size() - 1) % c.size();
    comm::collective(c, [&] {
      comm::Mail mail(c);
      for (const int wrong : {c.rank(), -1, c.size()}) {
        const auto before = c.counters();
        const int to[] = {next, wrong};
        EXPECT_THROW(mail.send(to, 7, comm::Mail::Bytes(5, std::byte(1))), Error);
        EXPECT_EQ((c.counters() - before).messages, 0);
      }
      const int to[] = {next};
      mail.send(to, 7, comm::Mail::Bytes(3, std::byte(c.rank())));
      mail.send(to, 8, {});
      EXPECT_EQ(mail.take(8), comm::Mail::Bytes());
      EXPECT_EQ(mail.take(7), comm::Mail::Bytes(3, std::byte(last)));
      mail.finish();
    });
  });
}

// Every rank owns `own` indices (rank 1 none) and needs some of every other rank's.
struct Ring {
  layout::Partition partition;
  std::vector<Global> needed;
  Ring(const Communicator& c, Global own) {
    std::vector<Global> counts(std::size_t(c.size()), own);
    if (c.size() > 2) counts[1] = 0;
    partition = layout::Partition::of_counts(counts);
    for (Global i = 0; i < partition.size(); i += 3)
      if (partition.owner(i) != c.rank()) needed.push_back(i);
  }
};

TEST(Exchange, FetchesGhostsAndAddsThemInReverse) {
  on_ranks([](const Communicator& c) {
    const Ring ring(c, 7);
    const auto pattern =
        std::make_shared<const comm::Pattern>(comm::Pattern::build(c, ring.partition.offsets(), ring.needed));
    comm::Exchange exchange(c, pattern, sizeof(double));
    const Global first = ring.partition.begin(c.rank());
    const auto before = c.counters();
    int slots[2];
    for (int which : {0, 1}) {  // both buffers in use at once
      slots[which] = exchange.open();
      auto* out = reinterpret_cast<double*>(exchange.outgoing(slots[which]));
      for (std::size_t i = 0; i < pattern->send_index.size(); ++i)
        out[i] = double(first + pattern->send_index[i]) + 1000.0 * which;
      exchange.post(slots[which]);
    }
    EXPECT_THROW((void)exchange.open(), Error);
    for (int which : {1, 0}) {
      std::vector<int> arrived;
      for (int n; (n = exchange.wait_any(slots[which])) >= 0;) arrived.push_back(n);
      std::sort(arrived.begin(), arrived.end());
      std::vector<int> all(pattern->receive_ranks.size());
      std::iota(all.begin(), all.end(), 0);
      EXPECT_EQ(arrived, all);
      const auto* in = reinterpret_cast<const double*>(exchange.incoming(slots[which]));
      for (Local g = 0; g < pattern->ghost_count(); ++g) EXPECT_EQ(in[g], double(pattern->ghosts[g]) + 1000.0 * which);
      exchange.close(slots[which]);
    }
    // The counters agree with the pattern.
    const auto spent = c.counters() - before;
    EXPECT_EQ(spent.exchanges, 2);
    EXPECT_EQ(spent.messages, 2 * std::int64_t(pattern->send_ranks.size()));
    EXPECT_EQ(spent.bytes, 2 * std::int64_t(pattern->send_index.size() * sizeof(double)));

    const int slot = exchange.open(false);  // in reverse: each ghost contributes 1 to its owner
    auto* out = reinterpret_cast<double*>(exchange.outgoing(slot));
    std::fill_n(out, pattern->ghost_count(), 1.0);
    exchange.post(slot);
    exchange.wait(slot);
    const auto* in = reinterpret_cast<const double*>(exchange.incoming(slot));
    double total = std::accumulate(in, in + pattern->send_index.size(), 0.0);
    exchange.close(slot);
    EXPECT_EQ(c.all_sum(total), double(c.all_sum(Global(ring.needed.size()))));
  });
}

TEST(Exchange, LosesNoEpochUnderRandomDelays) {
  on_ranks(
      [](const Communicator& c) {
        const Communicator slow(
            std::make_shared<test::FaultyTransport>(c.transport().duplicate(), 0, std::chrono::microseconds(20)));
        const Ring ring(slow, 4);
        const auto pattern =
            std::make_shared<const comm::Pattern>(comm::Pattern::build(slow, ring.partition.offsets(), ring.needed));
        comm::Exchange exchange(slow, pattern, sizeof(Global));
        for (Global epoch = 0; epoch < 300; ++epoch) {
          const int slot = exchange.open();
          auto* out = reinterpret_cast<Global*>(exchange.outgoing(slot));
          std::fill_n(out, pattern->send_index.size(), epoch);
          exchange.post(slot);
          exchange.wait(slot);
          const auto* in = reinterpret_cast<const Global*>(exchange.incoming(slot));
          for (Local g = 0; g < pattern->ghost_count(); ++g) ASSERT_EQ(in[g], epoch);
          exchange.close(slot);
        }
      },
      {2, 3});
}

TEST(Pattern, RefusesOwnAndForeignIndices) {
  on_ranks([](const Communicator& c) {
    const auto partition = layout::Partition::blocks(10 * c.size(), c.size());
    EXPECT_THROW(
        comm::collective(c, [&] { comm::Pattern::build(c, partition.offsets(), {partition.begin(c.rank())}); }), Error);
    EXPECT_THROW(comm::collective(c, [&] { comm::Pattern::build(c, partition.offsets(), {Global(10 * c.size())}); }),
                 Error);
    EXPECT_EQ(c.sum(exec::Sums<1, double>{{1.0}}).wait()[0], c.size());  // the communicator works afterwards
  });
}

// Longer than anything here takes on a busy machine, unless ranks wait for something that never comes.
constexpr std::chrono::seconds very_long{60};

// One rank fails: every rank throws the same error, no rank goes on waiting, and the communicator works afterwards.
void expect_agreed_failure(const Communicator& c, int culprit, const std::function<void(bool)>& work,
                           const std::string& expected) {
  const auto from = std::chrono::steady_clock::now();
  std::string text;
  try {
    comm::collective(c, [&] { work(c.rank() == culprit); });
    ADD_FAILURE() << "no error on rank " << c.rank();
  } catch (const std::exception& e) {
    text = e.what();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - from, very_long);
  EXPECT_NE(text.find(expected), std::string::npos) << text;
  const auto texts = c.all_gather_bytes(std::as_bytes(std::span(text)));
  for (const auto& t : texts) EXPECT_EQ(std::string(reinterpret_cast<const char*>(t.data()), t.size()), text);
  EXPECT_EQ(c.sum(exec::Sums<1, double>{{1.0}}).wait()[0], c.size());
}

TEST(Failure, OfOneRankReachesAll) {
  on_ranks([](const Communicator& c) {
    for (int culprit = 0; culprit < c.size(); ++culprit) {
      expect_agreed_failure(
          c, culprit,
          [&](bool me) {
            if (me) throw Error(ErrorKind::input, "bad row 17");
            (void)c.sum(exec::Sums<1, double>{{1.0}}).wait();
          },
          "bad row 17");
      expect_agreed_failure(
          c, culprit,
          [&](bool me) {
            (void)c.all_sum(Global(1));
            if (me) throw std::runtime_error("from a user's callback");
            for (int i = 0; i < 10; ++i) (void)c.all_gather(c.rank());
          },
          "from a user's callback");
      expect_agreed_failure(
          c, culprit,
          [&](bool me) {  // while sums are in flight
            const double one = 1;
            auto a = c.start_sum(&one, 1), b = c.start_sum(&one, 1);
            if (me) throw std::bad_alloc();
            double x;
            a.wait(&x);
            b.wait(&x);
          },
          c.size() == 1 ? "bad_alloc" : "out of memory");
    }
  });
}

TEST(Failure, OfALaterCallDoesNotAffectAnEarlierOne) {
  on_ranks([](const Communicator& c) {
    if (c.size() < 2) return;
    const Communicator d = c.duplicate();
    for (int round = 0; round < 20; ++round) {
      // The last rank leaves the first call early and fails in the second while other ranks are still in the first.
      std::string first = "ended", second = "ended";
      try {
        comm::collective(d, [&] {
          if (d.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(3));
          const auto all = d.all_gather(Global(d.rank()));
          EXPECT_EQ(Global(all.size()), d.size());
        });
      } catch (const Error& e) {
        first = e.what();
      }
      try {
        comm::collective(d, [&] {
          if (d.rank() == d.size() - 1) throw Error(ErrorKind::usage, "in the second call");
          (void)d.all_sum(Global(1));
        });
      } catch (const Error& e) {
        second = e.what();
      }
      EXPECT_EQ(first, "ended");
      EXPECT_NE(second.find("in the second call"), std::string::npos) << second;
    }
  });
}

TEST(Failure, LeavesGathersAndNativeSumsUsable) {
  on_ranks([](const Communicator& c) {
    for (const auto algorithm : {comm::SumAlgorithm::doubling, comm::SumAlgorithm::native}) {
      const Communicator d = c.duplicate();
      d.use(algorithm);
      expect_agreed_failure(
          d, 0,
          [&](bool me) {
            double x = 1;
            auto sum = d.start_sum(&x, 1);
            if (me) throw Error(ErrorKind::usage, "before the sum is waited for");
            sum.wait(&x);
            std::vector<Global> many(1000, d.rank());
            (void)d.all_gather(std::span<const Global>(many));
          },
          "before the sum is waited for");
    }
  });
}

TEST(Failure, LeavesNewExchangesConsistent) {
  on_ranks([](const Communicator& c) {
    const Communicator d = c.duplicate();
    const Ring ring(d, 6);
    const auto pattern =
        std::make_shared<const comm::Pattern>(comm::Pattern::build(d, ring.partition.offsets(), ring.needed));
    EXPECT_THROW(comm::collective(d,
                                  [&] {
                                    if (d.rank() == d.size() - 1)
                                      throw Error(ErrorKind::usage, "before it made its exchange");
                                    comm::Exchange exchange(d, pattern, 8);
                                    (void)d.all_sum(Global(1));
                                  }),
                 Error);
    comm::Exchange exchange(d, pattern, 8);
    const int slot = exchange.open();
    exchange.post(slot);
    exchange.wait(slot);
    exchange.close(slot);
  });
}

TEST(Failure, OfSeveralRanksThrowsTheLowestRanksError) {
  on_ranks([](const Communicator& c) {
    std::string text;
    try {
      comm::collective(c, [&] { throw Error(ErrorKind::usage, message("from rank ", c.rank())); });
    } catch (const Error& e) {
      text = e.what();
      EXPECT_EQ(e.kind(), ErrorKind::usage);
    }
    EXPECT_NE(text.find("from rank 0"), std::string::npos) << text;
  });
}

TEST(Failure, PassesThroughNestedCollectives) {
  on_ranks([](const Communicator& c) {
    expect_agreed_failure(
        c, c.size() - 1,
        [&](bool me) {
          comm::collective(c, [&] {
            comm::collective(c, [&] {
              if (me) throw Error(ErrorKind::usage, "deep inside");
              (void)c.all_sum(Global(1));
            });
          });
        },
        "deep inside");
  });
}

// 200 injected faults at different message calls of a job with sums, gathers and exchanges.
TEST(Failure, InjectedAnywhereNeverHangs) {
  int fired = 0;
  on_ranks(
      [&](const Communicator& c) {
        if (c.size() == 1) return;
        for (int trial = 0; trial < (test::under_mpi() ? 200 : 50); ++trial) {
          const int culprit = trial % c.size(), countdown = 1 + (trial * 7) % 60;
          const auto transport =
              std::make_shared<test::FaultyTransport>(c.transport().duplicate(), c.rank() == culprit ? countdown : 0);
          const Communicator faulty(transport);
          const auto from = std::chrono::steady_clock::now();
          bool failed = false;
          try {
            comm::collective(faulty, [&] {
              const Ring ring(faulty, 5);
              const auto pattern = std::make_shared<const comm::Pattern>(
                  comm::Pattern::build(faulty, ring.partition.offsets(), ring.needed));
              comm::Exchange exchange(faulty, pattern, 8);
              for (int i = 0; i < 6; ++i) {
                const int slot = exchange.open();
                exchange.post(slot);
                auto sum = faulty.sum(exec::Sums<1, double>{{1.0}});
                exchange.wait(slot);
                (void)sum.wait();
                exchange.close(slot);
              }
              // Ranks cannot agree on an error of the agreement that ends the job.
              transport->disarm();
            });
          } catch (const Error& e) {
            failed = true;
            EXPECT_NE(std::string(e.what()).find("injected fault"), std::string::npos) << e.what();
          }
          EXPECT_LT(std::chrono::steady_clock::now() - from, very_long);
          const bool any = c.all_sum(Global(failed)) > 0;
          EXPECT_EQ(any, failed) << "the ranks do not agree whether trial " << trial << " failed";
          if (c.rank() == 0) fired += failed;
        }
      },
      {2, 3, 4, 5});
  if (!test::under_mpi()) {
    EXPECT_GT(fired, 50);
  }
}

}  // namespace
