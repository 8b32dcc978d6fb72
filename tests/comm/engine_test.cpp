// The progress thread: sums complete while the rank is idle; results and failures are unchanged.
#include "support/communicators.hpp"
#include "support/methods.hpp"

#include <tacit/base/trace.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace tacit::test {
namespace {

TEST(Engine, CompletesSumsWhileTheRankSleeps) {
  const auto ended_asleep = [](bool with, std::chrono::milliseconds sleep) {
    int asleep = 0;
    if (!under_mpi()) Trace::start();
    on_ranks(
        [&](const comm::Communicator& comm) {
          if (under_mpi() && comm.rank() == 0) Trace::start();
          const auto engine = with ? comm.start_engine() : nullptr;
          EXPECT_EQ(engine != nullptr, with && comm.size() > 1);
          if (comm.size() == 1) return;
          for (int k = 1; k <= 5; ++k) {
            const double mine[2] = {double(comm.rank() + k), 1};
            double sum[2];
            auto pending = comm.start_sum(mine, 2);
            std::this_thread::sleep_for(sleep);
            pending.wait(sum);
            EXPECT_EQ(sum[0], comm.size() * (comm.size() - 1) / 2 + k * comm.size());
            EXPECT_EQ(sum[1], comm.size());
          }
        },
        {4});  // two rounds: a rank sends again after the first message has arrived
    Trace::stop();
    std::vector<Trace::Event> flights, waits;
    for (const auto& e : Trace::take()) {
      if (e.rank != 0 || e.bytes != 16) continue;
      if (std::string(e.name) == "sum in flight") flights.push_back(e);
      if (std::string(e.name) == "wait for sum") waits.push_back(e);
    }
    for (std::size_t i = 0; i < flights.size(); ++i) asleep += flights[i].end < waits[i].begin;
    return asleep;
  };
  using namespace std::chrono_literals;
  EXPECT_EQ(ended_asleep(false, 100ms), 0);
  // On a busy machine the progress threads may run late.
  int asleep = 0;
  const int most = under_mpi() ? 0 : 3;
  for (const auto sleep : {100ms, 1000ms, 10000ms})
    if ((asleep = ended_asleep(true, sleep)) >= most) break;
  EXPECT_GE(asleep, most);
}

TEST(Engine, GivesTheSameBits) {
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = shifted_grid<double>(12, 11, 0.3);
        const auto A = a.on(comm);
        const auto b = random_vector<double>(a.n, 4);
        for (const auto method : {krylov::Method::gmres, krylov::Method::bicgstab, krylov::Method::pipelined_gmres,
                                  krylov::Method::pipelined_ca_gmres}) {
          krylov::Options o;
          o.method = method;
          if (krylov::takes(method, "restart")) o.restart = 10;
          const auto polled = run(*A, b, o);
          o.engine = krylov::Engine::thread;
          const auto pushed = run(*A, b, o);
          EXPECT_TRUE(pushed.report.converged());
          EXPECT_EQ(polled.x, pushed.x) << to_string(method);
          EXPECT_EQ(polled.report.history, pushed.report.history) << to_string(method);
          EXPECT_EQ(polled.report.counts.reductions, pushed.report.counts.reductions);
        }
      },
      {2, 3});
}

TEST(Engine, SurvivesFailures) {
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = shifted_grid<double>(12, 11, 0.3);
        const auto A = a.on(comm);
        const auto b = random_vector<double>(a.n, 4);
        krylov::Options o;
        o.method = krylov::Method::pipelined_gmres, o.engine = krylov::Engine::thread;
        for (const int at : {1, 2, 5, 9}) {
          int products = 0;
          const Custom<double> broken(A->range(), [&](const auto& x, auto& y) {
            if (++products == at && comm.rank() == comm.size() - 1) throw std::runtime_error("broken operator");
            A->apply(x, y);
          });
          try {
            run(broken, b, o);
            ADD_FAILURE() << "nothing was thrown";
          } catch (const std::exception& e) {
            EXPECT_NE(std::string(e.what()).find("broken operator"), std::string::npos) << e.what();
          }
          EXPECT_TRUE(run(*A, b, o).report.converged());
        }
        const auto one = comm.start_engine(), two = comm.start_engine();
        EXPECT_EQ(one, two);
      },
      {2, 3});
}

}  // namespace
}  // namespace tacit::test
