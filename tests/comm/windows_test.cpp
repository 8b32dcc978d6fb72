// Windows when ranks are at different points of the program: awaited data arrive whatever the other ranks do.
#include <gtest/gtest.h>
#include <tacit/comm/communicator.hpp>
#include <tacit/comm/exchange.hpp>
#include <tacit/layout/space.hpp>

#include "support/communicators.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <thread>

#ifdef __linux__
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>
#endif

using namespace tacit;
using namespace std::chrono_literals;
using comm::Communicator;
using comm::Exchange;
using comm::Path;
using test::on_ranks;

namespace {

// Only rank 1 needs elements, of rank 0, so that rank 0 can run ahead as far as the windows' grants allow.
struct OneWay {
  Communicator comm, beside, other;  // `beside`, `other`: to synchronise without messages on `comm`
  std::shared_ptr<const comm::Pattern> pattern;
  std::unique_ptr<Exchange> exchange;
  int epoch = 0;

  OneWay(const Communicator& c, Path path) : comm(c.duplicate()), beside(c.duplicate()), other(c.duplicate()) {
    comm.use(path);
    const auto partition = layout::Partition::blocks(64 * c.size(), c.size());
    std::vector<Global> needed;
    for (Global i = 0; c.rank() == 1 && i < 40; ++i) needed.push_back(partition.begin(0) + i);
    pattern = std::make_shared<const comm::Pattern>(comm::Pattern::build(comm, partition.offsets(), needed));
    exchange = std::make_unique<Exchange>(comm, pattern, 8);
  }
  bool owner() const { return comm.rank() == 0; }
  bool reader() const { return comm.rank() == 1; }
  void meet() const { (void)beside.all_sum(Global(1)); }

  int start(bool forward = true) {
    const int number = exchange->open(forward);
    auto* const out = reinterpret_cast<double*>(exchange->outgoing(number));
    const std::size_t n = forward ? pattern->send_index.size() : pattern->ghosts.size();
    for (std::size_t i = 0; i < n; ++i) out[i] = double(i) + epoch;
    exchange->post(number);
    ++epoch;
    return number;
  }
  void check(int number, int epoch_of_it) const {
    const auto* const in = reinterpret_cast<const double*>(exchange->incoming(number));
    for (std::size_t i = 0; reader() && i < pattern->ghosts.size(); ++i) ASSERT_EQ(in[i], double(i) + epoch_of_it);
  }
  // Whether it completes within a time that suffices on any busy machine.
  bool comes(int number) const {
    for (const auto from = std::chrono::steady_clock::now(); std::chrono::steady_clock::now() - from < 60s;) {
      if (exchange->test(number)) return true;
      comm.poll();
      std::this_thread::yield();
    }
    return false;
  }
  // Uses both slots that are granted at the beginning, without closing them on the reader.
  void use_up_what_is_granted(int (&first)[2]) {
    for (int& number : first) number = start();
    if (owner())
      for (const int number : first) exchange->close(number);
  }
};

std::vector<Path> windows() {
  return {Path::put, Path::shared, Path::gather};
}

// While exchange 2 waits for its grant, the reader closes exchange 3, which grants 4.
TEST(Windows, LoseNoGrantWhenExchangesEndInAnotherOrder) {
  on_ranks(
      [](const Communicator& c) {
        if (c.size() == 1) return;
        for (const Path path : {Path::put, Path::shared}) {
          SCOPED_TRACE(to_string(path));
          OneWay way(c, path);
          auto& e = *way.exchange;
          int first[2], second = -1, third = -1;
          way.use_up_what_is_granted(first);
          if (way.owner()) second = way.start();  // has to wait for a grant
          way.meet();
          if (!way.owner()) {
            for (const int number : first) e.wait(number), e.close(number);
            second = way.start();
            third = way.start(false);
            e.close(third);
          }
          way.meet();
          if (way.owner()) {
            third = way.start(false);
            EXPECT_TRUE(way.comes(third));
            e.close(third);
            for (int i = 0; i < 100; ++i) way.comm.poll(), std::this_thread::sleep_for(1ms);
          }
          const bool came = !way.reader() || way.comes(second);
          if (!way.other.all(came)) throw Error(ErrorKind::environment, "a part was never sent");
          way.check(second, 2);
          e.close(second);
        }
      },
      {2, 3});
}

TEST(Windows, AreWrittenWhileARankWaitsOnAnotherCommunicator) {
  on_ranks(
      [](const Communicator& c) {
        if (c.size() == 1) return;
        for (const Path path : windows()) {
          SCOPED_TRACE(to_string(path));
          OneWay way(c, path);
          auto& e = *way.exchange;
          int first[2] = {-1, -1}, second = -1;
          if (path == Path::gather) {
            // With path gather it is the owner that waits: for the reader, which is in a call of another communicator.
            second = way.start();
            if (way.owner()) e.close(second);
            (void)way.other.all_sum(Global(1));
            if (!way.owner()) e.wait(second), way.check(second, 0), e.close(second);
            continue;
          }
          way.use_up_what_is_granted(first);
          if (way.owner()) second = way.start();
          way.meet();
          bool came = true;
          if (!way.owner()) {
            for (const int number : first) e.wait(number), e.close(number);
            second = way.start();
            came = way.comes(second);
          }
          EXPECT_TRUE(way.other.all(came));
          if (way.reader()) e.wait(second);
          way.check(second, 2);
          e.close(second);
        }
      },
      {2, 3});
}

TEST(Windows, DeliverAbandonedExchanges) {
  on_ranks(
      [](const Communicator& c) {
        if (c.size() == 1) return;
        for (const Path path : windows()) {
          SCOPED_TRACE(to_string(path));
          OneWay way(c, path);
          int first[2];
          if (path == Path::gather) {
            const int number = way.start();
            if (way.owner()) {
              way.exchange->abandon(number);
              way.exchange.reset();
            }
            if (!way.owner()) way.exchange->wait(number), way.check(number, 0), way.exchange->close(number);
            continue;
          }
          way.use_up_what_is_granted(first);
          int second = -1;
          if (way.owner()) second = way.start();
          way.meet();
          bool came = true;
          if (way.owner()) {
            way.exchange->abandon(second);
            way.exchange.reset();
          } else {
            for (const int number : first) way.exchange->wait(number), way.exchange->close(number);
            second = way.start();
            came = way.comes(second);
          }
          if (!way.other.all(came)) throw Error(ErrorKind::environment, "a part was never sent");
          if (!way.owner()) way.check(second, 2), way.exchange->close(second);
        }
      },
      {2, 3});
}

TEST(Windows, DoNotWaitForWhatWasAbandonedToChangeThePath) {
  on_ranks(
      [](const Communicator& c) {
        if (c.size() == 1) return;
        OneWay way(c, Path::messages);
        auto& e = *way.exchange;
        e.abandon(way.start());
        way.comm.use(Path::shared);
        const int number = way.start();
        EXPECT_EQ(e.path(), Path::shared);
        e.wait(number);
        way.check(number, 1);
        e.close(number);
      },
      {2, 3});
}

// Long contiguous ranges of elements of the next rank, which path gather reads in place.
struct Runs {
  static constexpr Global each = 3000;
  layout::Partition partition;
  std::shared_ptr<const comm::Pattern> pattern;
  explicit Runs(const Communicator& c) : partition(layout::Partition::blocks(each * c.size(), c.size())) {
    std::vector<Global> needed;
    const Global first = partition.begin((c.rank() + 1) % c.size());
    for (Global i = 0; i < each && c.size() > 1; ++i)
      if (i < 1000 || (i >= 2000 && i < 2700)) needed.push_back(first + i);
    pattern = std::make_shared<const comm::Pattern>(comm::Pattern::build(c, partition.offsets(), needed));
  }
  std::vector<double> vector(const Communicator& c, int epoch) const {
    std::vector<double> x(static_cast<std::size_t>(each));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = double(partition.begin(c.rank()) + Global(i)) + 0.5 * epoch;
    return x;
  }
  void check(const Exchange& e, const std::byte* incoming, int epoch) const {
    const auto* const in = reinterpret_cast<const double*>(incoming);
    const auto& ghosts = e.pattern().ghosts;
    for (std::size_t i = 0; i < ghosts.size(); ++i) ASSERT_EQ(in[i], double(ghosts[i]) + 0.5 * epoch);
  }
};

TEST(Paths, PackRunsOfElementsThemselves) {
  on_ranks(
      [](const Communicator& c) {
        for (const Path path : {Path::messages, Path::persistent, Path::put, Path::shared, Path::gather}) {
          SCOPED_TRACE(to_string(path));
          const Communicator d = c.duplicate();
          d.use(path);
          const Runs runs(d);
          Exchange e(d, runs.pattern, 8);
          const auto before = d.counters();
          for (int epoch = 0; epoch < 30; ++epoch) {
            auto x = runs.vector(d, epoch);
            const auto y = runs.vector(d, epoch + 1000);
            const int one = e.open();
            e.post(one, x.data());
            const int two = e.open();
            e.post(two, y.data());
            if (epoch % 3 == 1) e.wait(two), runs.check(e, e.incoming(two), epoch + 1000), e.close(two);
            e.wait(one);
            runs.check(e, e.incoming(one), epoch);
            e.close(one);
            std::fill(x.begin(), x.end(), -1.0);  // allowed after close()
            if (epoch % 3 != 1) e.wait(two), runs.check(e, e.incoming(two), epoch + 1000), e.close(two);
          }
          const auto spent = d.counters() - before;
          EXPECT_EQ(spent.exchanges, 60);
          EXPECT_EQ(spent.messages, d.size() > 1 ? 60 : 0);
          EXPECT_EQ(spent.bytes, d.size() > 1 ? 60 * 1700 * 8 : 0);
          EXPECT_THROW(
              {
                const int number = e.open(false);
                e.post(number, spent.bytes ? &spent : nullptr);
              },
              Error);
        }
      },
      {1, 2, 3, 4});
}

// A vector may be destroyed after its exchange is abandoned or a rank has failed: no rank reads it any more.
TEST(Gather, ReleasesVectorsOnClose) {
  on_ranks(
      [](const Communicator& c) {
        if (c.size() == 1) return;
        const Communicator d = c.duplicate();
        d.use(Path::gather);
        const Runs runs(d);
        Exchange e(d, runs.pattern, 8);
        for (int epoch = 0; epoch < 10; ++epoch) {
          int number = -1;
          if (d.rank() == 0) {
            auto x = runs.vector(d, epoch);
            number = e.open();
            e.post(number, x.data());
            e.abandon(number);
            std::fill(x.begin(), x.end(), -1.0);
          }
          if (epoch > 0) (void)c.all_sum(Global(1));
          if (d.rank() == 0) continue;
          const auto x = runs.vector(d, epoch);
          number = e.open();
          e.post(number, x.data());
          e.wait(number);
          runs.check(e, e.incoming(number), epoch);
          e.close(number);
        }
        for (int trial = 0; trial < 20; ++trial) {
          EXPECT_THROW(comm::collective(d,
                                        [&] {
                                          const auto x = runs.vector(d, trial);
                                          const int number = e.open();
                                          e.post(number, x.data());
                                          if (d.rank() == trial % d.size()) {
                                            e.abandon(number);
                                            throw Error(ErrorKind::input, "enough");
                                          }
                                          try {
                                            e.wait(number);
                                            runs.check(e, e.incoming(number), trial);
                                            e.close(number);
                                            (void)d.all_sum(Global(1));
                                          } catch (...) {
                                            e.abandon(number);
                                            throw;
                                          }
                                        }),
                       Error);
          const auto x = runs.vector(d, trial);
          const int number = e.open();
          e.post(number, x.data());
          e.wait(number);
          runs.check(e, e.incoming(number), trial);
          e.close(number);
        }
      },
      {2, 3});
}

TEST(Paths, ChosenDifferentlyAreRefused) {
  on_ranks(
      [](const Communicator& c) {
        if (c.size() == 1) return;
        for (const bool levels : {false, true}) {
          OneWay way(c, Path::shared);
          if (levels) way.comm.use(comm::Topology::given(c.size(), std::vector<int>{c.rank() == 0 ? 1 : c.size()}));
          else way.comm.use(c.rank() == 0 ? Path::shared : Path::messages);
          std::string text;
          try {
            comm::collective(way.comm, [&] { (void)way.start(); });
          } catch (const Error& error) {
            text = error.what();
            EXPECT_EQ(error.kind(), ErrorKind::usage);
          }
          EXPECT_NE(text.find(levels ? "shared, shared" : "shared, messages"), std::string::npos) << text;
        }
      },
      {2, 3});
}

#ifdef __linux__
// Environment variables may differ between processes: those of rank 0 count.
TEST(Topology, OfTheEnvironmentIsTheFirstRanks) {
  if (!test::under_mpi()) return;
  const auto c = comm::mpi_world();
  setenv("TACIT_LEVELS", c.rank() == 0 ? "1" : "2", 1);
  const auto& t = c.topology();
  unsetenv("TACIT_LEVELS");
  EXPECT_EQ(t.groups(0), c.size());
}

TEST(Windows, OfKilledProcessesAreRemoved) {
  if (!test::under_mpi()) return;
  const auto c = comm::mpi_world();
  if (c.size() == 1) return;
  const std::string left = "/tacit_1-left-" + std::to_string(c.rank()),
                    held = "/tacit_1-held-" + std::to_string(c.rank());
  for (const auto& name : {left, held}) {
    const int file = shm_open(name.c_str(), O_CREAT | O_RDWR, 0600);
    ASSERT_GE(file, 0);
    if (name == held) ASSERT_EQ(flock(file, LOCK_EX), 0);  // a process holds this lock until it has unlinked the name
    else close(file);
  }
  OneWay way(c, Path::shared);
  const int number = way.start();
  way.exchange->wait(number);
  way.exchange->close(number);
  EXPECT_LT(shm_open(left.c_str(), O_RDWR, 0600), 0);
  EXPECT_GE(shm_open(held.c_str(), O_RDWR, 0600), 0);
  shm_unlink(held.c_str());
}
#endif

}  // namespace
