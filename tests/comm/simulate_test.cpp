#include "comm/transport/simulated/rank.hpp"
#include "support/communicators.hpp"

#include <tacit/base/trace.hpp>
#include <tacit/comm/exchange.hpp>
#include <tacit/comm/mail.hpp>
#include <tacit/comm/simulate.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <vector>

namespace tacit::comm {
namespace {

class Simulate : public testing::Test {
 protected:
  void SetUp() override {
    if (test::under_mpi()) GTEST_SKIP() << "one process simulates all ranks";
  }
};

using Progress = MachineModel::Progress;
using Delivery = MachineModel::Delivery;

// Parameters whose multiples differ, so that a wrong number of terms shows.
MachineModel machine() {
  MachineModel m;
  m.latency = 10, m.overhead = 1.25, m.gap = 0.0625;
  m.bandwidth = 1;
  return m;
}

/// Runs f on simulated ranks and returns its times, without those of the end of the simulation.
SimulatedTimes timed(int ranks, const MachineModel& m, const std::function<void(const Communicator&)>& f) {
  return simulate(ranks, m, [&](const Communicator& comm) {
    restart_clocks(comm);
    f(comm);
    (void)read_clocks(comm);
  });
}

void sum_behind(const Communicator& comm, double seconds) {
  const double one = 1;
  double total = 0;
  auto sum = comm.start_sum(&one, 1);
  Trace::work("work", seconds, 0);
  sum.wait(&total);
  EXPECT_EQ(total, comm.size());
}

// A pattern in which every rank sends n doubles to every other one.
struct Ring {
  Ring(const Communicator& comm, Global n) {
    std::vector<Global> offsets, needed;
    for (int r = 0; r <= comm.size(); ++r) offsets.push_back(r * n);
    for (Global i = 0; i < comm.size() * n; ++i)
      if (i / n != comm.rank()) needed.push_back(i);
    exchange = std::make_unique<Exchange>(
        comm, std::make_shared<const Pattern>(Pattern::build(comm, offsets, std::move(needed))), sizeof(double));
    (void)exchange->open(), exchange->close(0);  // the path is made at the first use
  }
  std::unique_ptr<Exchange> exchange;
};

TEST_F(Simulate, SumTakesItsRounds) {
  for (const auto delivery : {Delivery::eager, Delivery::meeting})
    for (const auto progress : {Progress::ideal, Progress::in_wait, Progress::poll}) {
      auto m = machine();
      m.delivery = delivery, m.progress = progress;
      const double round = m.latency + 2 * m.overhead + 8 * m.gap;
      EXPECT_DOUBLE_EQ(timed(2, m, [](const Communicator& c) { sum_behind(c, 0); }).finish, round);
      const auto t = timed(16, m, [](const Communicator& c) { sum_behind(c, 0); });
      EXPECT_DOUBLE_EQ(t.finish, 4 * round);
      EXPECT_DOUBLE_EQ(t.seconds("sum"), 4 * round);
      EXPECT_EQ(t.messages, 4 * 16);
      EXPECT_EQ(t.bytes, 4 * 16 * 8);
      // Three ranks: rank 2's value is added on another rank, two ranks exchange sums, and rank 2 gets the result.
      EXPECT_DOUBLE_EQ(timed(3, m, [](const Communicator& c) { sum_behind(c, 0); }).finish,
                       delivery == Delivery::eager ? 2 * round + 2 * m.overhead : 3 * round - 8 * m.gap);
    }
}

TEST_F(Simulate, SumOverlapsWithAKernelByProgress) {
  auto m = machine();
  const double L = m.latency, o = m.overhead, G8 = 8 * m.gap, round = L + 2 * o + G8;
  const auto takes = [&](double seconds) {
    return timed(4, m, [&](const Communicator& c) { sum_behind(c, seconds); }).finish;
  };
  m.progress = Progress::ideal;
  EXPECT_DOUBLE_EQ(takes(7), 2 * round);
  EXPECT_DOUBLE_EQ(takes(100), 100 + o);
  m.progress = Progress::in_wait;  // the second round begins when the first is polled
  EXPECT_DOUBLE_EQ(takes(7), 2 * round);
  EXPECT_DOUBLE_EQ(takes(100), 100 + 4 * o + G8 + L);
  m.progress = Progress::poll;
  m.poll_interval = 4;
  m.gap = 0;
  // Polls at 5.25, 9.25, 13.25 (the first round arrived at 11.25), ..., all within the kernel.
  EXPECT_DOUBLE_EQ(takes(40), 40 + 4 * o);
}

TEST_F(Simulate, MessagesOfAnExchangeLeaveOneAfterTheOther) {
  const auto m = machine();
  const double L = m.latency, o = m.overhead, Gb = 5 * 8 * m.gap;
  const auto t = timed(3, m, [&](const Communicator& comm) {
    Ring ring(comm, 5);
    restart_clocks(comm);
    auto& e = *ring.exchange;
    const std::vector<double> x(5, comm.rank() + 1.0);
    const int number = e.open();
    e.post(number, x.data());
    EXPECT_DOUBLE_EQ(wall_time(), 2 * o);
    e.wait(number);
    // Messages leave in the order of ranks: both to rank 0 leave first, those to rank 1 first and second.
    const double first = o + Gb + L, second = 2 * (o + Gb) + L;
    const double expected[] = {first + 2 * o, std::max(first + o, second) + o, second + 2 * o};
    EXPECT_DOUBLE_EQ(wall_time(), expected[comm.rank()]);
    e.close(number);
  });
  EXPECT_DOUBLE_EQ(t.finish, 2 * (o + Gb) + L + 2 * o);
  EXPECT_EQ(t.messages, 6);
  EXPECT_EQ(t.bytes, 6 * 40);
}

TEST_F(Simulate, KernelsTakeWhatTheyDeclare) {
  auto m = machine();
  m.bandwidth = 4, m.flop_rate = 2, m.kernel = 0.5, m.cache = 10, m.cache_bandwidth = 8;
  const auto t = timed(2, m, [](const Communicator&) {
    Trace::work("bytes", 40, 4);   // 10 s
    Trace::work("flops", 40, 60);  // 30 s
    Trace::work("cached", 8, 0);   // 1 s
    Trace::work("nothing", 0, 0);
    { const Span span("inside", "exec", 20); }  // 5 s
    const Span other("not a kernel", "op", 1000);
  });
  EXPECT_DOUBLE_EQ(t.finish, 10 + 30 + 1 + 5 + 4 * 0.5);
  EXPECT_DOUBLE_EQ(t.seconds("flops"), 30.5);
  EXPECT_DOUBLE_EQ(t.kernel_seconds(), t.finish);
  m = MachineModel();
  m.noise = 3, m.bandwidth = 1;
  const auto mean = [&](std::uint64_t seed) {
    m.seed = seed;
    return timed(8, m,
                 [](const Communicator&) {
                   for (int i = 0; i < 1000; ++i) Trace::work("noisy", 1, 0);
                 })
               .seconds("noisy") /
           1000;
  };
  EXPECT_NEAR(mean(1), 1 + 3, 0.2);
  EXPECT_EQ(mean(1), mean(1));
  EXPECT_NE(mean(1), mean(2));
}

TEST_F(Simulate, RanksOfANodeAreNear) {
  auto m = machine();
  m.levels = {{2, 1, 0.25, 0}};
  const double far = m.latency + 2 * m.overhead + 8 * m.gap, near = 1 + 2 * 0.25;
  m.progress = Progress::in_wait;
  EXPECT_DOUBLE_EQ(timed(4, m, [](const Communicator& c) { sum_behind(c, 0); }).finish, near + far);
  timed(4, m, [](const Communicator& c) { EXPECT_EQ(c.topology().groups(0), 2); });
}

/// The results of sums, gathers and exchanges on a rank, and their counts.
std::vector<double> numbers(const Communicator& comm) {
  std::vector<double> all;
  Ring ring(comm, 3);
  auto& e = *ring.exchange;
  std::vector<double> x{1.0 / (comm.rank() + 3), std::sin(comm.rank()), 1e16 * (comm.rank() % 2)};
  for (int i = 0; i < 5; ++i) {
    const int number = e.open();
    e.post(number, x.data());
    std::vector<double> sums(x);
    auto one = comm.start_sum(sums.data(), 3);
    auto other = comm.start_sum(x.data(), 2, Operation::max);
    Trace::work("work", 7 + comm.rank() % 3, 0);
    e.wait(number);
    const auto* in = reinterpret_cast<const double*>(e.incoming(number));
    all.insert(all.end(), in, in + e.pattern().ghost_count());
    e.close(number);
    one.wait(sums.data()), other.wait(x.data());
    for (std::size_t k = 0; k < 3; ++k) x[k] += 1e-3 * sums[k];
    all.insert(all.end(), x.begin(), x.end());
  }
  for (const double v : comm.all_gather(x[1])) all.push_back(v);
  const auto copy = comm.duplicate();
  all.push_back(double(copy.all_sum(Global(comm.rank()))));
  const auto c = comm.counters();
  for (const auto n : {c.reductions, c.reduction_values, c.exchanges, c.messages, c.bytes}) all.push_back(double(n));
  return all;
}

TEST_F(Simulate, NumbersAndCountsAreThoseOfRealRanks) {
  for (const int ranks : {1, 2, 3, 5, 8, 13}) {
    std::vector<std::vector<double>> real(static_cast<std::size_t>(ranks)), made = real;
    run_threads(ranks, [&](const Communicator& comm) { real[std::size_t(comm.rank())] = numbers(comm); });
    for (const auto progress : {Progress::ideal, Progress::in_wait, Progress::poll})
      for (const auto delivery : {Delivery::eager, Delivery::meeting}) {
        auto m = machine();
        m.progress = progress, m.delivery = delivery, m.noise = 2, m.poll_interval = 3;
        const auto run = [&] {
          return simulate(ranks, m, [&](const Communicator& comm) { made[std::size_t(comm.rank())] = numbers(comm); });
        };
        const auto t = run();
        EXPECT_EQ(made, real);
        const auto again = run();
        EXPECT_EQ(t.finish, again.finish);
        EXPECT_EQ(t.messages, again.messages);
      }
  }
}

// Where some ranks work between the start of a sum and its wait, or still have another one under way, and some have
// not.
TEST_F(Simulate, SumsThatOnlySomeRanksWaitForAtOnceTakeTheTimeOfMessages) {
  for (const int ranks : {2, 3, 5, 8, 13})
    for (const auto progress : {Progress::in_wait, Progress::poll})
      for (const auto delivery : {Delivery::eager, Delivery::meeting}) {
        auto m = machine();
        m.progress = progress, m.delivery = delivery, m.poll_interval = 3;
        const auto run = [&](bool of_messages) {
          comm::detail::look_on_own_stacks = of_messages;
          const auto t = timed(ranks, m, [&](const Communicator& comm) {
            for (int i = 0; i < 12; ++i) {
              const double own = comm.rank() + i;
              double first = 0, second = 0;
              auto one = comm.start_sum(&own, 1);
              if ((comm.rank() + i) % 4 == 0) Trace::work("work", i % 3 ? 60 : 3, 0);
              auto other = comm.start_sum(&own, 1);
              if (i % 2) one.wait(&first), other.wait(&second);
              else other.wait(&second), one.wait(&first);
              EXPECT_EQ(first, ranks * (ranks - 1) / 2 + i * ranks);
              EXPECT_EQ(first, second);
            }
          });
          comm::detail::look_on_own_stacks = false;
          return t;
        };
        const auto jointly = run(false), messages = run(true);
        EXPECT_DOUBLE_EQ(jointly.finish, messages.finish);
        EXPECT_EQ(jointly.messages, messages.messages);
      }
}

TEST_F(Simulate, FailuresAreAgreedOn) {
  const auto refused = [&](int ranks, const std::function<void(const Communicator&)>& f) {
    std::string what;
    try {
      simulate(ranks, machine(), f);
    } catch (const Error& e) {
      what = e.what();
    }
    return what;
  };
  const auto thrown = refused(5, [](const Communicator& comm) {
    const auto inner = [&] {
      collective(comm, [&] {
        sum_behind(comm, 1);
        if (comm.rank() == 3) throw Error(ErrorKind::usage, "no");
        sum_behind(comm, 1);
      });
    };
    EXPECT_THROW(inner(), Error);
    sum_behind(comm, 3);  // the communicator works afterwards
    inner();
  });
  EXPECT_NE(thrown.find("rank 3: no"), std::string::npos) << thrown;
  const auto stuck = refused(3, [](const Communicator& comm) {
    if (comm.rank() == 1) {
      Ring ring(comm, 2);
    } else {
      restart_clocks(comm);
    }
  });
  EXPECT_NE(stuck.find("wait for each other"), std::string::npos) << stuck;
  const auto different = refused(2, [](const Communicator& comm) {
    const std::vector<double> values(std::size_t(1 + comm.rank()), 1.0);
    std::vector<double> total(values.size());
    comm.start_sum(values.data(), values.size()).wait(total.data());
  });
  EXPECT_NE(different.find("were expected"), std::string::npos) << different;
  const auto path = refused(2, [](const Communicator& comm) {
    comm.use(Path::shared);
    Ring ring(comm, 2);
  });
  EXPECT_NE(path.find("\"shared\""), std::string::npos) << path;
  EXPECT_NE(refused(2, [](const Communicator& comm) { (void)comm.start_engine(); }).find("engine"), std::string::npos);
  EXPECT_NE(refused(2, [](const Communicator&) { simulate(2, machine(), [](const Communicator&) {}); })
                .find("simulated rank"),
            std::string::npos);
  EXPECT_THROW(restart_clocks(Communicator::self()), Error);
  EXPECT_EQ(simulated_machine(Communicator::self()), nullptr);
  auto m = machine();
  m.latency = -1;
  EXPECT_THROW(simulate(2, m, [](const Communicator&) {}), Error);
  EXPECT_THROW(MachineModel::named("hoper"), Error);
}

// Long messages are announced, and found once: while one is fetched the next one is another.
TEST_F(Simulate, MailOfAnySizeArrives) {
  for (const double eager_limit : {0.0, 100.0})
    for (const double nic_gap : {0.0, 0.125}) {
      auto m = machine();
      m.eager_limit = eager_limit;
      if (nic_gap > 0) m.ranks_per_node = 2, m.nic_gap = nic_gap;
      const auto bytes_of = [](int from, int k) { return std::vector<std::byte>(std::size_t(40 + 60 * k + from)); };
      simulate(4, m, [&](const Communicator& comm) {
        collective(comm, [&] {
          Mail mail(comm);
          std::vector<int> others;
          for (int r = 0; r < comm.size(); ++r)
            if (r != comm.rank()) others.push_back(r);
          constexpr int several = 5;
          for (int k = 0; k < several; ++k) mail.send(others, comm.rank() * several + k, bytes_of(comm.rank(), k));
          for (const int r : others)
            for (int k = several; k-- > 0;) EXPECT_EQ(mail.take(r * several + k).size(), bytes_of(r, k).size());
          mail.finish();
        });
      });
    }
  // Announced when its first byte would leave, at o, found at o + L, and fetched then: there and back and the bytes.
  auto m = machine();
  m.eager_limit = 100;
  const auto t = timed(2, m, [](const Communicator& comm) {
    Mail mail(comm);
    const int other = 1 - comm.rank();
    if (comm.rank() == 0) mail.send({&other, 1}, 0, std::vector<std::byte>(1000));
    else EXPECT_EQ(mail.take(0).size(), 1000u);
    mail.finish();
  });
  const double sent = 1000 + 2 * sizeof(std::int64_t);
  EXPECT_DOUBLE_EQ(t.finish, m.overhead + 3 * m.latency + m.gap * sent + m.overhead);
}

/// What reaches the caller: (text, kind).
std::pair<std::string, ErrorKind> thrown_to_caller(int ranks, const std::function<void(const Communicator&)>& f) {
  try {
    simulate(ranks, machine(), f);
  } catch (const Error& e) {
    return {e.what(), e.kind()};
  }
  return {"nothing was thrown", ErrorKind::usage};
}

// While others wait where clocks meet, or in a deadlock that comes of it.
TEST_F(Simulate, TheFirstErrorIsThatOfTheCaller) {
  const auto fails = [](const Communicator& comm) {
    if (comm.rank() == 2) throw Error(ErrorKind::memory, "no room");
  };
  const auto before = thrown_to_caller(5, [&](const Communicator& comm) {
    const auto in_call = [&] {
      collective(comm, [&] {
        fails(comm);
        restart_clocks(comm);
      });
    };
    EXPECT_THROW(in_call(), Error);
    sum_behind(comm, 1);  // ranks and clocks meet again afterwards
    restart_clocks(comm);
    EXPECT_EQ(read_clocks(comm).finish, 0);
    in_call();
  });
  EXPECT_EQ(before, std::pair(std::string("rank 2: no room"), ErrorKind::memory));
  const auto at_the_end = thrown_to_caller(4, [&](const Communicator& comm) {
    restart_clocks(comm);
    fails(comm);
    (void)read_clocks(comm);
  });
  EXPECT_EQ(at_the_end, std::pair(std::string("rank 2: no room"), ErrorKind::memory));
  // Rank 0 waits for a sum that the others do not take part in, two calls deep.
  const auto stuck = thrown_to_caller(3, [](const Communicator& comm) {
    const auto other = comm.duplicate();
    collective(comm, [&] {
      collective(comm, [&] {
        if (comm.rank() == 0) return (void)other.all_sum(Global(1));
        (void)comm.all_sum(Global(1));
      });
    });
  });
  EXPECT_NE(stuck.first.find("all simulated ranks wait for each other"), std::string::npos) << stuck.first;
}

TEST_F(Simulate, ThousandsOfRanks) {
  const auto m = MachineModel::named("fitted");
  const auto t = timed(4096, m, [](const Communicator& comm) {
    for (int i = 0; i < 3; ++i) sum_behind(comm, 0);
  });
  EXPECT_NEAR(t.finish, 36 * (m.latency + 2 * m.overhead + 8 * m.gap), 1e-12) << m.describe();
}

}  // namespace
}  // namespace tacit::comm
