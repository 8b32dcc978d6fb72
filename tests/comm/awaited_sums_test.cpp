// Reductions of values that come later than the reduction is started, as those of a device: at other times on other
// ranks, or not at all.
#include "support/communicators.hpp"

#include <tacit/comm/communicator.hpp>
#include <tacit/comm/simulate.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

using namespace tacit;
using comm::Communicator;
using comm::SumAlgorithm;
using test::on_ranks;

namespace {

constexpr int never = -1;
enum class Fails { nowhere, always, in_wait, in_write };

/// Values that are there when ready() has been called `polls` times (never: only in wait()).
class Later final : public comm::PendingValues {
 public:
  Later(std::vector<double> values, int polls, Fails fails = Fails::nowhere)
      : values_(std::move(values)), polls_(polls), fails_(fails) {}
  bool ready() override {
    fail_in(Fails::always);
    return waited_ || (polls_ != never && polls_-- <= 0);
  }
  void wait() override {
    fail_in(Fails::always), fail_in(Fails::in_wait);
    waited_ = true;
  }
  void write(void* to) override {
    fail_in(Fails::in_write);
    EXPECT_FALSE(written.exchange(true)) << "values are written once";
    std::copy(values_.begin(), values_.end(), static_cast<double*>(to));
  }
  std::atomic<bool> written = false;

 private:
  void fail_in(Fails where) const {
    if (fails_ == where) throw Error(ErrorKind::environment, "the device is lost");
  }
  std::vector<double> values_;
  std::atomic<int> polls_;
  Fails fails_;
  std::atomic<bool> waited_ = false;
};

std::vector<double> values_of(int rank, int which) {
  return {std::sin(1.0 + rank + 10.0 * which), std::ldexp(1.0, 3 * which) / (3 + rank)};
}

/// The text of the error that f throws inside a collective call.
std::string thrown(const Communicator& c, const std::function<void()>& f) {
  try {
    comm::collective(c, f);
  } catch (const Error& e) {
    EXPECT_TRUE(e.agreed() || c.size() == 1);
    return e.what();
  }
  return "nothing";
}

/// Many in flight, of values that come in another order on each rank, and some that are there; ended in another order.
void expect_bits_of_others(const Communicator& c) {
  constexpr int n = 40;
  std::vector<std::vector<double>> expected(n, std::vector<double>(2));
  for (int i = 0; i < n; ++i) c.start_sum(values_of(c.rank(), i).data(), 2).wait(expected[std::size_t(i)].data());
  const auto before = c.counters();
  std::vector<comm::PendingSum> sums;
  for (int i = 0; i < n; ++i) {
    const auto mine = values_of(c.rank(), i);
    const int polls = (i + c.rank()) % 3 == 0 ? never : (7 * i + 5 * c.rank()) % 11;
    if (i % 5 == 4) sums.push_back(c.start_sum(mine.data(), 2));
    else sums.push_back(c.start_sum<double>(std::make_shared<Later>(mine, polls), 2));
    if (i % 9 == 0) c.poll();
  }
  const auto used = c.counters() - before;
  EXPECT_EQ(used.reductions, n);
  EXPECT_EQ(used.reduction_values, 2 * n);
  for (int k = 0; k < n; ++k) {
    const int i = 17 * k % n;
    std::vector<double> sum(2);
    sums[std::size_t(i)].wait(sum.data());
    EXPECT_EQ(sum, expected[std::size_t(i)]) << "reduction " << i;
  }
}

TEST(AwaitedSum, HasTheBitsOfOneThatIsThere) {
  on_ranks(expect_bits_of_others);
}

TEST(AwaitedSum, HasThemWithTheAlgorithmOfTheTransport) {
  on_ranks([](const Communicator& c) {
    const Communicator d = c.duplicate();
    d.use(SumAlgorithm::native);
    expect_bits_of_others(d);
  });
}

TEST(AwaitedSum, HasThemBesideAProgressThread) {
  on_ranks([](const Communicator& c) {
    const auto engine = c.start_engine();
    expect_bits_of_others(c);
  });
}

TEST(AwaitedSum, HasThemOnSimulatedRanks) {
  for (const auto progress : {comm::MachineModel::Progress::in_wait, comm::MachineModel::Progress::poll}) {
    comm::MachineModel machine;
    machine.progress = progress;
    comm::simulate(3, machine, expect_bits_of_others);
  }
}

TEST(AwaitedSum, TravelsWhereTheRankPollsOrWaitsForOthers) {
  on_ranks([](const Communicator& c) {
    if (c.size() == 1) return;
    const auto polled = std::make_shared<Later>(std::vector{1.0}, 5),
               waited = std::make_shared<Later>(std::vector{2.0}, 1);
    auto first = c.start_sum<double>(polled, 1);
    for (int k = 0; k < 5; ++k) {
      c.poll();
      EXPECT_FALSE(polled->written);
    }
    c.poll();
    EXPECT_TRUE(polled->written);
    auto second = c.start_sum<double>(waited, 1);
    EXPECT_FALSE(waited->written);
    for (int k = 0; k < 3; ++k) (void)c.all_sum(Global(1));  // a wait for one reduction advances all
    EXPECT_TRUE(waited->written);
    double sum = 0;
    second.wait(&sum);
    EXPECT_EQ(sum, 2 * c.size());
    first.wait(&sum);
    EXPECT_EQ(sum, c.size());
    // test() is a poll.
    auto third = c.start_sum<double>(std::make_shared<Later>(std::vector{3.0}, 4), 1);
    while (!third.test()) std::this_thread::yield();
    third.wait(&sum);
    EXPECT_EQ(sum, 3 * c.size());
  });
}

TEST(AwaitedSum, IsStartedByAProgressThreadWhileTheRankSleeps) {
  on_ranks([](const Communicator& c) {
    if (c.size() == 1) return;
    const auto engine = c.start_engine();
    const auto values = std::make_shared<Later>(std::vector{1.0}, 10);
    auto sum = c.start_sum<double>(values, 1);
    const auto last = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!values->written && std::chrono::steady_clock::now() < last)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_TRUE(values->written);
    double total = 0;
    sum.wait(&total);
    EXPECT_EQ(total, c.size());
  });
}

TEST(AwaitedSum, MayBeDropped) {
  on_ranks([](const Communicator& c) {
    for (int k = 0; k < 20; ++k) {
      const auto values = std::make_shared<Later>(std::vector{1.0}, k % 2 ? never : k + c.rank());
      { auto dropped = c.start_sum<double>(values, 1); }
      EXPECT_EQ(values.use_count(), 1) << "nothing refers to the values of a reduction that has ended";
      EXPECT_EQ(c.all_sum(Global(1)), c.size());
    }
  });
}

// More than there are tags, in the order of starting.
TEST(AwaitedSum, WaitsForTheOneWithItsTag) {
  on_ranks([](const Communicator& c) {
    std::vector<comm::PendingSum> sums;
    for (int i = 0; i < 600; ++i)
      sums.push_back(c.start_sum<double>(std::make_shared<Later>(std::vector{double(i)}, never), 1));
    for (int i = 599; i >= 0; --i) {
      double sum = 0;
      sums[std::size_t(i)].wait(&sum);
      EXPECT_EQ(sum, double(i) * c.size());
    }
  });
}

// Transports match their own reductions, and the making of communicators, by order.
TEST(AwaitedSum, KeepsTheOrderOfCallsThatAreMatchedByIt) {
  on_ranks([](const Communicator& c) {
    const Communicator d = c.duplicate();
    d.use(SumAlgorithm::native);
    for (int k = 0; k < 10; ++k) {
      const bool mine_is_late = (k + c.rank()) % 2 == 0;
      auto late = d.start_sum<double>(std::make_shared<Later>(std::vector{1.0}, mine_is_late ? never : 0), 1);
      const double three[3] = {1, 2, 3};
      auto there = d.start_sum(three, 3);
      d.poll();
      const Communicator e = d.duplicate();
      EXPECT_EQ(e.all_sum(Global(1)), c.size());
      double sum[3];
      there.wait(sum);
      EXPECT_EQ(sum[2], 3 * c.size());
      late.wait(sum);
      EXPECT_EQ(sum[0], c.size());
    }
  });
}

TEST(AwaitedSum, FailsOnAllRanksWhereItsValuesFailOnOne) {
  on_ranks([](const Communicator& c) {
    if (c.size() == 1) return;
    for (const bool with_engine : {false, true})
      for (const auto algorithm : {SumAlgorithm::doubling, SumAlgorithm::native})
        for (const auto where : {Fails::always, Fails::in_wait, Fails::in_write})
          for (const bool waits : {true, false}) {  // for it, or for another one
            SCOPED_TRACE(testing::Message()
                         << "progress thread " << with_engine << ", native " << (algorithm == SumAlgorithm::native)
                         << ", fails " << int(where) << ", waits for it " << waits);
            const Communicator d = c.duplicate();
            d.use(algorithm);
            const auto engine = with_engine ? d.start_engine() : nullptr;
            const bool mine = d.rank() == d.size() - 1;
            std::weak_ptr<Later> left;
            comm::PendingSum outlives;
            const std::string text = thrown(d, [&] {
              const double there = 1;
              double sum = 0;
              outlives = d.start_sum<double>(std::make_shared<Later>(std::vector{1.0}, 2), 1);
              auto before = d.start_sum(&there, 1);
              auto values = std::make_shared<Later>(std::vector{1.0}, where == Fails::in_wait ? never : d.rank(),
                                                    mine ? where : Fails::nowhere);
              left = values;
              auto failing = d.start_sum<double>(std::move(values), 1);
              auto after = d.start_sum<double>(std::make_shared<Later>(std::vector{1.0}, never), 1);
              if (waits) failing.wait(&sum);
              else after.wait(&sum), failing.wait(&sum);
              before.wait(&sum);
            });
            EXPECT_NE(text.find("the device is lost"), std::string::npos) << text;
            EXPECT_NE(text.find("rank " + std::to_string(d.size() - 1)), std::string::npos) << text;
            EXPECT_TRUE(left.expired()) << "values of a reduction that was given up are released";
            double sum = 0;
            EXPECT_THROW(outlives.wait(&sum), Error);
            EXPECT_EQ(thrown(d, [&] { expect_bits_of_others(d); }), "nothing");
          }
  });
}

// A rank fails elsewhere while reductions wait for their values.
TEST(AwaitedSum, IsGivenUpWithTheOthers) {
  on_ranks([](const Communicator& c) {
    if (c.size() == 1) return;
    const Communicator d = c.duplicate();
    for (int round = 0; round < 3; ++round) {
      std::weak_ptr<Later> left;
      const std::string text = thrown(d, [&] {
        auto values = std::make_shared<Later>(std::vector{1.0}, never);
        left = values;
        auto sum = d.start_sum<double>(std::move(values), 1);
        if (d.rank() == round % d.size()) throw Error(ErrorKind::input, "no such file");
        double total = 0;
        sum.wait(&total);
      });
      EXPECT_NE(text.find("no such file"), std::string::npos) << text;
      EXPECT_TRUE(left.expired());
      expect_bits_of_others(d);
    }
  });
}

}  // namespace
