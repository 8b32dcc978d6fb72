// The path gaspi, over a GASPI library made of shared memory that delays and reorders what the standard lets it
// (gaspi/rig.cpp): halos and solves are those of messages, and a library that breaks the standard is noticed.
#include <gtest/gtest.h>
#include <tacit/comm/communicator.hpp>
#include <tacit/comm/exchange.hpp>
#include <tacit/krylov/solve.hpp>
#include <tacit/layout/space.hpp>
#include <tacit/op/csr.hpp>
#include <tacit/op/stencil.hpp>

#include "comm/transport/gaspi.hpp"
#include "gaspi/rig.hpp"
#include "support/communicators.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

using namespace tacit;
using comm::Communicator;
using comm::Exchange;
using comm::Path;
using gaspi_rig::Fault;

namespace {

// Every rank needs elements of both neighbours, those at the ends of one.
struct Halo {
  Communicator comm;
  std::shared_ptr<const comm::Pattern> pattern;
  std::unique_ptr<Exchange> exchange;

  Halo(const Communicator& c, Path path, Global wide) : comm(c.duplicate()) {
    comm.use(path);
    const auto partition = layout::Partition::blocks(2 * wide * c.size(), c.size());
    std::vector<Global> needed;
    const Global begin = partition.begin(c.rank()), end = begin + 2 * wide;
    for (Global i = std::max<Global>(0, begin - wide); i < begin; ++i) needed.push_back(i);
    for (Global i = end; i < std::min(end + wide, 2 * wide * c.size()); ++i) needed.push_back(i);
    pattern = std::make_shared<const comm::Pattern>(comm::Pattern::build(comm, partition.offsets(), needed));
    exchange = std::make_unique<Exchange>(comm, pattern, 8);
  }
  /// Exchanges values that depend on the epoch; how many that came are wrong.
  int wrong(int epoch) {
    const int number = exchange->open(true);
    auto* const out = reinterpret_cast<double*>(exchange->outgoing(number));
    const auto first = double(comm.rank()) * 1000;
    for (std::size_t i = 0; i < pattern->send_index.size(); ++i)
      out[i] = first + double(pattern->send_index[i]) + epoch;
    exchange->post(number);
    exchange->wait(number);
    const auto* const in = reinterpret_cast<const double*>(exchange->incoming(number));
    int found = 0;
    for (std::size_t p = 0; p < pattern->receive_ranks.size(); ++p) {
      const int from = pattern->receive_ranks[p];
      for (auto i = std::size_t(pattern->receive_offsets[p]); i < std::size_t(pattern->receive_offsets[p + 1]); ++i) {
        const Global wide = Global(pattern->ghosts.size()) / Global(pattern->receive_ranks.size());
        const double local = double(pattern->ghosts[i] - 2 * wide * from);
        found += in[i] != double(from) * 1000 + local + epoch;
      }
    }
    exchange->close(number);
    return found;
  }
};

bool skipped() {
  return !test::under_mpi();
}

TEST(Gaspi, BringsHalosInAnyOrderThatTheStandardAllows) {
  if (skipped()) GTEST_SKIP() << "GASPI works between processes";
  const auto c = comm::mpi_world();
  gaspi_rig::set(1);
  Halo halo(c, Path::gaspi, 100);
  ASSERT_EQ(halo.wrong(0), 0);
  EXPECT_EQ(halo.exchange->path(), c.size() > 1 ? Path::gaspi : Path::messages);
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    gaspi_rig::set(seed);
    for (int epoch = 0; epoch < 20; ++epoch) ASSERT_EQ(halo.wrong(int(seed) * 100 + epoch), 0) << "seed " << seed;
  }
  EXPECT_TRUE(c.size() == 1 || gaspi_rig::counts().done > 0);
}

TEST(Gaspi, SolvesLikeMessages) {
  if (skipped()) GTEST_SKIP() << "GASPI works between processes";
  const auto world = comm::mpi_world();
  const op::Grid grid({18, 14, 10});
  const auto solve = [&](Path path, krylov::Method method) {
    const auto c = world.duplicate();
    c.use(path);
    const auto space = layout::Space::distributed(c, grid.size());
    const op::Csr<double> A(space, space, op::stencil_rows(grid, op::laplacian<double>(3), space.begin(), space.end()));
    layout::Vector<double> b(space), x(space);
    layout::fill(b, 1.0);
    krylov::Options options;
    options.method = method;
    options.rtol = 1e-9;
    options.history = true;
    return krylov::solve<double, Host>(A, nullptr, b, x, options);
  };
  for (const auto method : {krylov::Method::cg, krylov::Method::pipelined_bicgstab}) {
    const auto with_messages = solve(Path::messages, method);
    EXPECT_TRUE(with_messages.converged());
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      gaspi_rig::set(seed);
      const auto with_gaspi = solve(Path::gaspi, method);
      EXPECT_EQ(with_gaspi.iterations, with_messages.iterations);
      EXPECT_EQ(with_gaspi.history, with_messages.history) << "seed " << seed;
      EXPECT_EQ(with_gaspi.residual_norm, with_messages.residual_norm);
      EXPECT_TRUE(world.size() == 1 || gaspi_rig::counts().done > with_gaspi.iterations);
    }
  }
}

// More windows than segments: those of exchanges that have ended are used again.
TEST(Gaspi, UsesSegmentsAgain) {
  if (skipped()) GTEST_SKIP() << "GASPI works between processes";
  const auto c = comm::mpi_world();
  for (int k = 0; k < 30; ++k) {
    gaspi_rig::set(std::uint64_t(k) + 1);
    Halo halo(c, Path::gaspi, 50);
    for (int epoch = 0; epoch < 4; ++epoch) ASSERT_EQ(halo.wrong(10 * k + epoch), 0) << k;
  }
}

// Each rank writes to the next one and reuses its source at once.
struct Ring {
  Communicator comm;
  std::shared_ptr<comm::Window> window;
  std::uint64_t epoch = 0;
  static constexpr std::size_t values = 4096, bytes = values * sizeof(double), flag = 0, source = 64,
                               target = source + bytes;

  explicit Ring(const Communicator& c) : comm(c.duplicate()) {
    const std::vector<int> peers{before(), after()};
    std::string why;
    const comm::AllLeast all_least = [&](std::span<std::int64_t> v) {
      for (auto& one : v) one = comm.all_min(Global(one));
    };
    window = comm::detail::make_gaspi_window(comm, all_least, peers, target + bytes, why);
    require(window != nullptr, why);
  }
  int before() const { return (comm.rank() + comm.size() - 1) % comm.size(); }
  int after() const { return (comm.rank() + 1) % comm.size(); }
  double* at(std::size_t offset) const { return reinterpret_cast<double*>(window->data() + offset); }
  static double value(int rank, std::uint64_t epoch, std::size_t i) {
    return rank + 10.0 * double(epoch) + 1e-4 * double(i);
  }
  /// Writes once, and returns how many of the values that came are wrong.
  int wrong() {
    ++epoch;
    for (std::size_t i = 0; i < values; ++i) at(source)[i] = value(comm.rank(), epoch, i);
    window->write(after(), target, window->data() + source, bytes, flag, epoch);
    std::fill_n(at(source), values, -1.0);
    const auto from = std::chrono::steady_clock::now();
    while (window->read(flag) != epoch) {
      if (std::chrono::steady_clock::now() - from > std::chrono::seconds(20)) return -1;
      std::this_thread::yield();
    }
    int found = 0;
    for (std::size_t i = 0; i < values; ++i) found += at(target)[i] != value(before(), epoch, i);
    comm.meet();
    return found;
  }
};

TEST(Gaspi, WritesMayReuseTheirSource) {
  if (skipped()) GTEST_SKIP() << "GASPI works between processes";
  gaspi_rig::set(1);
  Ring ring(comm::mpi_world());
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    gaspi_rig::set(seed);
    ASSERT_EQ(ring.wrong(), 0) << "seed " << seed;
  }
}

// Flags of one use that are still on their way are none of the next.
TEST(Gaspi, FormerUsesOfASegmentLeaveNothingBehind) {
  if (skipped()) GTEST_SKIP() << "GASPI works between processes";
  const auto c = comm::mpi_world();
  gaspi_rig::set(1);
  for (int use = 0; use < 5; ++use) {
    Ring ring(c);
    ASSERT_EQ(ring.wrong(), 0) << use;
    gaspi_rig::set(1, Fault::slow);
    for (int k = 0; k < 3; ++k) ring.window->write(ring.after(), 0, nullptr, 0, Ring::flag, 70 + std::uint64_t(k));
  }
  gaspi_rig::set(1);
}

// The tests above notice a library that breaks the standard.
TEST(Gaspi, WrongLibrariesAreNoticed) {
  if (skipped()) GTEST_SKIP() << "GASPI works between processes";
  const auto c = comm::mpi_world();
  if (c.size() == 1) GTEST_SKIP() << "no neighbours";
  for (const Fault fault : {Fault::flag_before_data, Fault::wait_at_once}) {
    gaspi_rig::set(1);
    Ring ring(c);
    int found = ring.wrong();
    ASSERT_EQ(found, 0);
    gaspi_rig::set(1, fault);
    for (int k = 0; k < 10; ++k) found += ring.wrong();
    EXPECT_GT(c.all_sum(Global(found)), 0) << int(fault);
    gaspi_rig::set(1);
    c.meet();
  }
}

// Nothing that is posted is ever done: the wait ends with an error on all ranks.
TEST(Gaspi, SaysThatAQueueDoesNotEnd) {
  if (skipped()) GTEST_SKIP() << "GASPI works between processes";
  const auto c = comm::mpi_world();
  if (c.size() == 1) GTEST_SKIP() << "no neighbours";
  gaspi_rig::set(1);
  Halo halo(c, Path::gaspi, 30);
  ASSERT_EQ(halo.wrong(0), 0);
  gaspi_rig::set(1, Fault::stuck);
  std::string said;
  try {
    comm::collective(c, [&] { (void)halo.wrong(1); });
  } catch (const Error& e) {
    said = e.what();
  }
  EXPECT_NE(said.find("gaspi_wait has not ended within 30 s"), said.npos) << said;
  gaspi_rig::set(1);
}

}  // namespace
