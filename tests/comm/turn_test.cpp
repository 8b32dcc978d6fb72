// Several threads of one rank at one communicator, or at several that are used together.
#include "support/communicators.hpp"

#include <tacit/comm/communicator.hpp>
#include <tacit/exec/parallel.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <latch>
#include <string>
#include <thread>
#include <vector>

namespace tacit::test {
namespace {

using comm::Communicator;
using comm::Turn;
using namespace std::chrono_literals;

void in_threads(int n, const std::function<void(int)>& f) {
  std::latch all(n);  // they begin together
  std::vector<std::jthread> threads;
  for (int i = 0; i < n; ++i)
    threads.emplace_back([&, i] {
      all.arrive_and_wait();
      f(i);
    });
}
/// Lets other threads run in between, whose result is then lost unless they wait.
void add_one(int& count) {
  const int before = count;
  std::this_thread::yield();
  count = before + 1;
}
std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return {};
}

TEST(Turn, one_thread_at_a_time_has_it_and_may_take_it_again) {
  const auto comm = Communicator::self();
  int count = 0;  // plain: the turn is its lock
  std::atomic<int> inside = 0, most = 0;
  in_threads(4, [&](int) {
    for (int i = 0; i < 1'000; ++i) {
      const Turn outer(comm);
      most = std::max(most.load(), ++inside);
      const Turn inner(comm);
      comm::collective(comm, [&] { add_one(count); });
      --inside;
    }
  });
  EXPECT_EQ(count, 4'000);
  EXPECT_EQ(most.load(), 1);
}

TEST(Turn, separate_communicators_of_one_rank_do_not_wait_for_each_other) {
  const auto one = Communicator::self(), other = Communicator::self();
  EXPECT_EQ(one, other);  // the same ranks
  const Turn turn(one);
  std::atomic<bool> done = false;
  in_threads(1, [&](int) { comm::collective(other, [&] { done = true; }); });  // ends while this thread has its turn
  EXPECT_TRUE(done);
}

TEST(Turn, a_communicator_that_nobody_has_any_more_is_given_again_as_a_new_one) {
  const auto first = Communicator::self();
  auto second = Communicator::self();
  const auto* const state = &second.transport();
  EXPECT_NE(state, &first.transport()) << "the first is in use";
  second.all_sum(Global(1));
  second.count_local_sum(1);
  second = first;
  in_threads(1, [&](int) { EXPECT_NE(&Communicator::self().transport(), state) << "that is another thread's"; });
  second = Communicator::self();
  EXPECT_EQ(&second.transport(), state);
  EXPECT_EQ(second.counters().reductions, 0);
  second.join(first);
  second = first;
  EXPECT_NE(&Communicator::self().transport(), state) << "its turn is that of the first, too";
}

TEST(Turn, communicators_used_together_have_one) {
  const auto a = Communicator::self(), b = Communicator::self(), c = Communicator::self();
  a.join(b);
  b.join(c);
  int count = 0;
  in_threads(6, [&](int i) {
    const auto& comm = i % 3 == 0 ? a : i % 3 == 1 ? b : c;
    for (int k = 0; k < 1'000; ++k) comm::collective(comm, [&] { add_one(count); });
  });
  EXPECT_EQ(count, 6'000);
}

TEST(Turn, communicators_may_be_joined_while_threads_use_them) {
  for (int round = 0; round < 20; ++round) {
    std::vector<Communicator> all;
    for (int i = 0; i < 4; ++i) all.push_back(Communicator::self());
    std::vector<int> counts(4, 0);
    int common = 0;
    std::latch joined(4);
    in_threads(4, [&](int i) {
      const auto& mine = all[std::size_t(i)];
      for (int k = 0; k < 20; ++k) comm::collective(mine, [&] { ++counts[std::size_t(i)]; });
      // Both orders, and within a turn.
      if (i % 2 == 0) mine.join(all[std::size_t(i + 1) % 4]);
      else comm::collective(mine, [&] { mine.join(mine); });
      if (i == 1) all[1].join(all[2]);
      joined.arrive_and_wait();
      for (int k = 0; k < 20; ++k) comm::collective(mine, [&] { add_one(common); });
    });
    EXPECT_EQ(common, 80) << "all four are joined";
    EXPECT_EQ(counts, std::vector<int>(4, 20));
  }
}

TEST(Turn, joined_within_a_turn_stays_with_the_thread_until_its_end) {
  const auto a = Communicator::self(), b = Communicator::self();
  std::atomic<bool> entered = false;
  std::jthread other;
  {
    const Turn outer(a);
    {
      const Turn inner(b);
      a.join(b);
    }
    other = std::jthread([&] {
      const Turn turn(b);
      entered = true;
    });
    std::this_thread::sleep_for(20ms);
    EXPECT_FALSE(entered) << "b is part of a's turn, which has not ended";
  }
  other.join();
  EXPECT_TRUE(entered);
}

TEST(Turn, threads_that_would_wait_for_each_other_get_an_error) {
  const auto a = Communicator::self(), b = Communicator::self();
  std::latch both(2);
  std::string errors[2];
  in_threads(2, [&](int i) {
    const Turn first(i == 0 ? a : b);
    both.arrive_and_wait();
    errors[i] = error_of([&] { const Turn second(i == 0 ? b : a); });
  });
  const int failed = int(!errors[0].empty()) + int(!errors[1].empty());
  EXPECT_EQ(failed, 1) << "one gives way, the other goes on: " << errors[0] << " / " << errors[1];
  EXPECT_NE((errors[0] + errors[1]).find("two threads wait for each other"), std::string::npos);
}

TEST(Turn, helpers_of_a_loop_work_in_the_turn_of_its_thread) {
  const auto comm = Communicator::self();
  const int before = exec::threads();
  exec::set_threads(3);
  exec::detail::heed_load(false);
  std::atomic<int> done = 0;
  {
    const Turn turn(comm);
    exec::parallel_for(
        64, true,
        [&](std::size_t) {
          const Turn same(comm);
          ++done;
        },
        1);
  }
  exec::detail::heed_load(true);
  exec::set_threads(before);
  EXPECT_EQ(done.load(), 64);
}

TEST(Turn, waits_are_done_by_the_function_that_is_set_for_them) {
  const auto comm = Communicator::self();
  std::atomic<int> waits = 0;
  comm::set_around_waits([&](const std::function<void()>& wait) {
    ++waits;
    wait();
  });
  {
    std::jthread other;
    const Turn turn(comm);
    other = std::jthread([&] { const Turn second(comm); });
    while (waits == 0) std::this_thread::yield();
  }
  comm::set_around_waits(nullptr);
  EXPECT_EQ(waits.load(), 1);
}

TEST(Turn, a_second_thread_on_several_ranks_gets_an_error_and_no_rank_hangs) {
  if (under_mpi()) GTEST_SKIP() << "ends the use of the communicator";
  for (const int ranks : {2, 3}) {
    std::atomic<int> told = 0;
    comm::run_threads(ranks, [&](const Communicator& world) {
      const auto comm = comm::collective(world, [&] { return world.duplicate(); });
      const auto call = [&] { comm::collective(comm, [&] { comm.all_sum(Global(1)); }); };
      const auto tells = [&](const std::string& text) {
        EXPECT_NE(text.find("two threads of rank"), std::string::npos) << text;
        EXPECT_NE(text.find("comm=tacit.comm.self_()"), std::string::npos) << text;
        ++told;
      };
      if (world.rank() > 0) {
        tells(error_of(call));  // waits for rank 0, where two threads come
        return;
      }
      std::latch inside(2);
      std::atomic<bool> waits = false;
      std::jthread first([&] {
        tells(error_of([&] {
          comm::collective(comm, [&] {
            inside.arrive_and_wait();
            std::this_thread::sleep_for(5ms);
            waits = true;
            comm.all_sum(Global(1));
          });
        }));
      });
      inside.arrive_and_wait();
      tells(error_of(call));
      EXPECT_TRUE(waits) << "the second thread did not wait for a turn";
      first.join();
      tells(error_of(call));  // and every later call
    });
    EXPECT_EQ(told.load(), ranks - 1 + 3);
  }
}

TEST(Turn, threads_may_use_one_communicator_of_several_ranks_one_after_another) {
  on_ranks([](const Communicator& world) {
    const auto comm = comm::collective(world, [&] { return world.duplicate(); });
    for (int k = 0; k < 5; ++k)
      in_threads(
          1, [&](int) { EXPECT_EQ(comm::collective(comm, [&] { return comm.all_sum(Global(1)); }), world.size()); });
  });
}

TEST(Turn, each_thread_may_have_a_duplicate_of_several_ranks) {
  on_ranks([](const Communicator& world) {
    std::vector<Communicator> own;
    for (int i = 0; i < 2; ++i) own.push_back(comm::collective(world, [&] { return world.duplicate(); }));
    in_threads(2, [&](int i) {
      const auto& comm = own[std::size_t(i)];
      for (int k = 0; k < 50; ++k)
        EXPECT_EQ(comm::collective(comm, [&] { return comm.all_sum(Global(k + i)); }), world.size() * Global(k + i));
    });
  });
}

}  // namespace
}  // namespace tacit::test
