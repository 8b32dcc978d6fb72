// Pipelined GMRES(l) and CA-GMRES(l, t): the history of GMRES, reductions overlapped with products, breakdowns that
// keep complete columns.
#include "support/communicators.hpp"
#include "support/methods.hpp"

#include <tacit/base/trace.hpp>
#include <tacit/comm/simulate.hpp>
#include <tacit/precond/block_jacobi.hpp>
#include <tacit/precond/jacobi.hpp>
#include "krylov/iteration.hpp"

#include <gtest/gtest.h>

namespace tacit::test {
namespace {

using krylov::Method;
using krylov::Options;
using krylov::Reason;
using krylov::Side;
using layout::Space;
using layout::Vector;

Options pipelined(int depth, int restart = 30) {
  Options o;
  o.method = Method::pipelined_gmres, o.depth = depth, o.restart = restart, o.fallbacks = false;
  return o;
}
Options pipelined_ca(int depth, int block, int restart = 30) {
  Options o;
  o.method = Method::pipelined_ca_gmres, o.depth = depth, o.block = block, o.restart = restart, o.fallbacks = false;
  return o;
}
std::string name(const Options& o) {
  auto text = std::string(to_string(o.method)) + "(" + std::to_string(o.depth.value_or(0));
  if (o.block) text += ", " + std::to_string(*o.block);
  return text + ")" + (o.tau ? " with tau" : "");
}
std::vector<Options> variants(int restart = 30) {
  std::vector<Options> all{pipelined(1, restart),       pipelined(2, restart),       pipelined(5, restart),
                           pipelined(10, restart),      pipelined_ca(2, 5, restart), pipelined_ca(3, 10, restart),
                           pipelined_ca(3, 3, restart), pipelined_ca(2, 5, restart), pipelined_ca(3, 10, restart)};
  all[7].tau = all[8].tau = 8e-3;
  return all;
}
double furthest(const std::vector<double>& history, const std::vector<double>& reference) {
  double most = 0;
  for (std::size_t k = 0; k < std::min(history.size(), reference.size()); ++k)
    most = std::max(most, std::abs(history[k] - reference[k]) / reference[k]);
  return most;
}

TEST(PipelinedGmres, FollowsGmres) {
  if (under_mpi()) GTEST_SKIP() << "the same as alone";
  for (const Global n : {32, 64})
    for (const double convection : {0.5, 0.0}) {
      const auto a = grid<double>(n, n, convection);
      const auto A = a.on(comm::Communicator::self());
      const auto b = random_vector<double>(a.n, 3);
      Options g;
      g.method = Method::gmres, g.orthogonalisation = krylov::Orthogonalisation::cgs2, g.fallbacks = false, g.rtol = 0;
      g.max_iterations = 120;
      const auto reference = run(*A, b, g);
      for (auto o : variants()) {
        o.rtol = 0, o.max_iterations = 120;
        const auto s = run(*A, b, o);
        const std::string what = name(o) + " on " + std::to_string(n) + (convection ? " nonsymmetric" : " symmetric");
        ASSERT_EQ(s.report.history.size(), reference.report.history.size()) << what;
        const double off = furthest(s.report.history, reference.report.history);
        if (std::getenv("TACIT_TEST_SHOW")) std::printf("%-40s %.1e\n", what.c_str(), off);
        EXPECT_LE(off, 1e-8) << what;
        EXPECT_TRUE(s.report.warnings.empty());
      }
    }
}

/// Norms by Pythagoras and another basis give the history of GMRES for any operator, preconditioner, space and number
/// of ranks.
template <Scalar T>
void follows_everywhere(double tolerance) {
  on_ranks(
      [&](const comm::Communicator& comm) {
        const auto a = grid<T>(20, 17, 0.4);
        const auto b = random_vector<T>(a.n, 3);
        const auto csr = a.on(comm);
        const precond::Jacobi<T> jacobi(*csr);
        // A preconditioner that is not diagonal. (I + A) / 8 about squares the spectrum: 17 vectors are then orthogonal
        // to 5e5 epsilon only, which is no accuracy in float. There it is (16 - A) / 16, which improves the spectrum.
        const bool narrow = std::same_as<real_t<T>, float>;
        const Custom<T> smoother(csr->range(), [&](const auto& x, auto& y) {
          csr->apply(x, y);
          if (narrow) layout::scale(T(-1), y);
          layout::axpy(T(narrow ? 16 : 1), x, y);
          layout::scale(T(real_t<T>(narrow ? 0.0625 : 0.125)), y);
        });
        const auto follow = [&](const op::Operator<T, Host>& A, const op::Operator<T, Host>* P, Side side,
                                const std::string& what) {
          Options g;
          g.method = Method::gmres, g.orthogonalisation = krylov::Orthogonalisation::cgs2, g.side = side;
          g.restart = 17, g.fallbacks = false, g.rtol = 0, g.max_iterations = 40;
          const auto reference = run(A, b, g, P);
          for (auto o : {pipelined(2, 17), pipelined(5, 17), pipelined_ca(2, 5, 17), pipelined_ca(3, 4, 17)}) {
            o.side = side, o.rtol = 0, o.max_iterations = 40;
            const auto s = run(A, b, o, P);
            const auto text = name(o) + ", " + what + ", " + std::to_string(comm.size()) + " ranks";
            EXPECT_EQ(s.report.iterations, 40) << text;
            EXPECT_LE(furthest(s.report.history, reference.report.history), tolerance) << text;
            EXPECT_NEAR(double(residual_of(a, b, s.x)), s.report.residual_norm, 10 * tolerance * s.report.residual_norm)
                << text;
          }
        };
        follow(*csr, nullptr, Side::right, "csr");
        follow(*csr, &jacobi, Side::right, "jacobi from the right");
        follow(*csr, &smoother, Side::right, "smoother from the right");
        follow(*csr, &smoother, Side::left, "smoother from the left");
        follow(Replicated<T>(Space::replicated(comm, a.n), a), nullptr, Side::right, "replicated");
        std::vector<Global> counts(comm.size(), 0);
        counts.front() = a.n / 2, counts.back() += a.n - a.n / 2;
        follow(*a.on(Space::distributed(comm, layout::Partition::of_counts(counts))), nullptr, Side::right,
               "ranks without rows");
      },
      {2, 4});
}
TEST(PipelinedGmres, FollowsGmresEverywhereReal) {
  follows_everywhere<double>(1e-8);
}
#if TACIT_SCALARS_Host & 8
TEST(PipelinedGmres, FollowsGmresEverywhereComplex) {
  follows_everywhere<std::complex<double>>(1e-8);
}
#endif
TEST(PipelinedGmres, FollowsGmresEverywhereFloat) {
  follows_everywhere<float>(2e-2);
}

TEST(PipelinedGmres, BasesOfOtherPolynomials) {
  const auto a = grid<double>(32, 32, 0.5);
  const auto A = a.on(comm::Communicator::self());
  const auto b = random_vector<double>(a.n, 3);
  Options g;
  g.method = Method::gmres, g.orthogonalisation = krylov::Orthogonalisation::cgs2, g.fallbacks = false, g.rtol = 0;
  g.max_iterations = 90;
  const auto reference = run(*A, b, g);
  for (const auto basis : {krylov::Basis::chebyshev, krylov::Basis::newton, krylov::Basis::monomial})
    for (auto o : {pipelined(2), pipelined(5), pipelined_ca(2, 5)}) {
      if (basis == krylov::Basis::monomial && o.method != Method::pipelined_gmres) continue;
      if (basis == krylov::Basis::monomial && *o.depth > 2) continue;
      o.basis = basis, o.rtol = 0, o.max_iterations = 90;
      const auto s = run(*A, b, o);
      EXPECT_LE(furthest(s.report.history, reference.report.history), basis == krylov::Basis::monomial ? 1e-3 : 1e-8)
          << name(o) << " " << to_string(basis);
    }
}

/// Counted over whole solves, as the driver does.
TEST(PipelinedGmres, OneReductionForEachBlock) {
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = grid<double>(30, 30, 0.3);
        const auto A = a.on(comm);
        const auto b = random_vector<double>(a.n, 3);
        for (auto o :
             {pipelined(1), pipelined(2), pipelined(5), pipelined_ca(2, 5), pipelined_ca(3, 10), pipelined_ca(2, 7)}) {
          o.rtol = 0;
          const auto counts = [&](int iterations) {
            o.max_iterations = iterations;
            const auto s = run(*A, b, o);
            EXPECT_EQ(s.report.iterations, iterations) << name(o);
            return s.report.counts;
          };
          const int t = o.block.value_or(1);
          // Three cycles minus two: the driver does two norms, together, and one product for each cycle.
          const auto two = counts(60), three = counts(90);
          EXPECT_EQ(three.reductions - two.reductions, (30 + t - 1) / t + 1) << name(o);
          EXPECT_EQ(three.operator_applies - two.operator_applies, 30 + 1) << name(o);
          EXPECT_EQ(three.exchanges - two.exchanges, comm.size() > 1 ? 31 : 0) << name(o);
        }
      },
      {3});
}

/// The trace has the times when a reduction was started and waited for; the operator records when products began.
TEST(PipelinedGmres, ReductionsOverlapWithProducts) {
  const auto a = grid<double>(30, 30, 0.3);
  const auto b = random_vector<double>(a.n, 3);
  if (under_mpi()) GTEST_SKIP();
  for (auto o : {pipelined(1), pipelined(2), pipelined(5), pipelined_ca(2, 5), pipelined_ca(3, 10)}) {
    const int t = o.block.value_or(1), behind = o.block ? (*o.depth - 1) * t : *o.depth;
    o.rtol = 0, o.max_iterations = 60;
    std::vector<Trace::Event> events;
    std::vector<double> products;
    comm::run_threads(2, [&](const comm::Communicator& comm) {
      const auto A = a.on(comm);
      const Custom<double> watched(A->range(), [&](const auto& x, auto& y) {
        if (comm.rank() == 0) products.push_back(wall_time());
        A->apply(x, y);
      });
      if (comm.rank() == 0) Trace::start();
      run(watched, b, o);
    });
    Trace::stop();
    events = Trace::take();
    // A rank waits for its reductions in the order in which they were started.
    std::vector<std::pair<double, double>> sums;  // started, waited for
    std::vector<double> needed;
    for (const auto& e : events) {
      if (e.rank != 0) continue;
      if (std::string(e.name) == "sum in flight") sums.emplace_back(e.begin, 0);
      if (std::string(e.name) == "wait for sum") needed.push_back(e.begin);
    }
    std::sort(sums.begin(), sums.end());
    std::sort(needed.begin(), needed.end());
    ASSERT_EQ(sums.size(), needed.size());
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i].second = needed[i];
    // The last 31 products: 30 of the second cycle, and one by which the driver recomputes the residual.
    ASSERT_GE(products.size(), 61u);
    products.erase(products.begin(), products.end() - 31);
    std::erase_if(sums, [&](auto& sum) { return sum.first < products.front() || sum.first > products.back(); });
    products.pop_back();
    const int blocks = 30 / t;
    ASSERT_EQ(int(sums.size()), blocks) << name(o);  // the driver's follows its product
    for (int i = 0; i < blocks; ++i) {
      const auto hidden = std::count_if(products.begin(), products.end(),
                                        [&](double at) { return at > sums[i].first && at < sums[i].second; });
      // The last reductions of a cycle overlap with the remaining products only.
      EXPECT_EQ(hidden, std::min(behind, 30 - (i + 1) * t)) << name(o) << ", sum " << i;
    }
  }
}

/// The 2D Laplacian of the paper, on which the only other implementation of deeply pipelined GMRES throws in its first
/// iteration.
TEST(PipelinedGmres, FinishesTheLaplacian) {
  if (under_mpi()) GTEST_SKIP() << "the same as alone";
  for (const Global n : {64, 128, 256}) {
    const auto a = grid<double>(n, n);
    const auto A = a.on(comm::Communicator::self());
    const std::vector<double> b(a.n, 1.0);
    Options g;
    g.method = Method::gmres, g.orthogonalisation = krylov::Orthogonalisation::cgs2, g.rtol = 0;
    g.fallbacks = false, g.restart = 60, g.max_iterations = 240;
    const auto reference = run(*A, b, g);
    for (const int l : {2, 5, 10}) {
      auto o = pipelined(l, 60);
      o.rtol = 0, o.max_iterations = 240;
      const auto s = run(*A, b, o);
      EXPECT_EQ(s.report.iterations, 240);
      EXPECT_EQ(s.report.restarts, 0) << "no breakdown";
      const double off = furthest(s.report.history, reference.report.history);
      if (std::getenv("TACIT_TEST_SHOW")) std::printf("Laplacian %ld, l = %d: %.1e\n", long(n), l, off);
      EXPECT_LE(off, 1e-6) << name(o) << " on " << n;
    }
  }
}

/// Column c of B repeats column c - L of H; the terms that tau drops are missing in the memory traffic of the
/// recurrence.
TEST(PipelinedGmres, TauLeavesOutMostOfTheRecurrence) {
  if (under_mpi()) GTEST_SKIP();
  for (const double convection : {0.5, 0.0})
    for (const double size : {1.0, 1000.0}) {
      const auto a = grid<double>(64, 64, convection).map([&](Global, Global, double v) { return size * v; });
      const auto A = a.on(comm::Communicator::self());
      const std::vector<double> b(a.n, 1.0);
      auto o = pipelined_ca(2, 5, 60);
      o.rtol = 0;
      // Vectors subtracted in the second cycle: those of 120 iterations minus those of 60.
      const auto terms = [&](double tau) {
        o.tau = tau;
        std::int64_t sum = 0;
        for (const int iterations : {60, 120}) {
          o.max_iterations = iterations;
          Trace::start();
          run(*A, b, o);
          Trace::stop();
          for (const auto& e : Trace::take())
            if (std::string(e.name) == "basis subtract")
              sum += (iterations == 120 ? 1 : -1) * (e.bytes / std::int64_t(a.n * sizeof(double)) - 2);
        }
        return double(sum);
      };
      // Columns 9 .. 59 of B repeat columns 0 .. 50 of H, which have c + 1 entries that may be dropped.
      const double all = 51 * 52 / 2, dropped = (terms(0) - terms(8e-3)) / all;
      if (std::getenv("TACIT_TEST_SHOW"))
        std::printf("dropped (convection %g, A times %g): %.3f\n", convection, size, dropped);
      // On average over columns, 79 % (nonsymmetric) and 84 % of the entries are dropped; the share of all entries is
      // higher, because long columns drop more.
      EXPECT_NEAR(dropped, convection != 0 ? 0.876 : 0.924, 0.01);
    }
}

TEST(PipelinedGmres, ScaledMatricesBehaveAlike) {
  const auto a = grid<double>(32, 32, 0.5);
  const auto b = random_vector<double>(a.n, 3);
  for (auto o : {pipelined(5), pipelined_ca(2, 5)}) {
    o.tau = 8e-3, o.rtol = 0, o.max_iterations = 120;
    const auto plain = run(*a.on(comm::Communicator::self()), b, o);
    const auto scaled =
        run(*a.map([](Global, Global, double v) { return 1000 * v; }).on(comm::Communicator::self()), b, o);
    EXPECT_EQ(plain.report.restarts, scaled.report.restarts);
    EXPECT_LE(furthest(scaled.report.history, plain.report.history), 1e-8) << name(o);
  }
}

TEST(PipelinedGmres, CyclesOfAnyLength) {
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = grid<double>(20, 20, 0.3);
        const auto A = a.on(comm);
        const auto b = random_vector<double>(a.n, 3);
        for (const int restart : {1, 2, 3, 7, 11, 29}) {
          Options g;
          g.method = Method::gmres, g.orthogonalisation = krylov::Orthogonalisation::cgs2, g.restart = restart;
          g.rtol = 0, g.fallbacks = false, g.max_iterations = 61;
          const auto reference = run(*A, b, g);
          for (auto o : variants(restart)) {
            o.rtol = 0, o.max_iterations = 61;
            const auto s = run(*A, b, o);
            EXPECT_EQ(s.report.iterations, 61) << name(o) << ", restart " << restart;
            // A cycle of eleven vectors has too few Ritz values, and thus shifts, for a depth of thirty.
            const int L = o.block ? *o.depth * *o.block - 1 : *o.depth;
            if (L < restart) {
              EXPECT_LE(furthest(s.report.history, reference.report.history), 1e-6)
                  << name(o) << ", restart " << restart;
            }
          }
        }
      },
      {3});
}

/// A deep pipeline needs shifts: without fallbacks the method restarts where its basis breaks down; with fallbacks its
/// depth is reduced.
TEST(PipelinedGmres, StepsDownTheLadderAndSaysSo) {
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = grid<double>(64, 64, 0.5);
        const auto A = a.on(comm);
        const auto b = random_vector<double>(a.n, 3);
        Options g;
        g.method = Method::gmres, g.restart = 60, g.max_iterations = 2000;
        const auto gmres = run(*A, b, g).report;
        EXPECT_TRUE(gmres.converged());
        for (auto o : {pipelined(20, 60), pipelined_ca(2, 12, 60)}) {
          o.basis = krylov::Basis::monomial, o.max_iterations = 2000, o.fallbacks = true;
          const auto s = run(*A, b, o);
          EXPECT_TRUE(s.report.converged()) << name(o) << " " << s.report.detail;
          EXPECT_LE(residual_of(a, b, s.x), 1.0001e-8L);
          ASSERT_FALSE(s.report.warnings.empty()) << name(o);
          if (std::getenv("TACIT_TEST_SHOW")) {
            std::printf("%s: %d iterations (gmres %d)\n", name(o).c_str(), s.report.iterations, gmres.iterations);
            for (const auto& w : s.report.warnings) std::printf("  %s\n", w.c_str());
          }
          EXPECT_NE(s.report.warnings[0].find(o.block ? "block is now" : "depth is now 10"), std::string::npos)
              << s.report.warnings[0];
          EXPECT_LE(s.report.iterations, 1.3 * gmres.iterations) << name(o);
          o.fallbacks = false;
          EXPECT_TRUE(run(*A, b, o).report.warnings.empty());
        }
      },
      {2});
}

/// Invariant subspaces of every size, singular matrices, zero matrices: no NaN, and no false report of convergence.
TEST(PipelinedGmres, BreakdownsKeepCompleteColumns) {
  on_ranks(
      [](const comm::Communicator& comm) {
        for (int distinct = 1; distinct <= 12; ++distinct) {
          std::vector<double> d(60);
          for (int i = 0; i < 60; ++i) d[i] = 1 + i % distinct;
          const auto a = diagonal<double>(d);
          const auto b = random_vector<double>(a.n, 5);
          for (auto o : {pipelined(1), pipelined(2), pipelined(5), pipelined_ca(2, 5)}) {
            for (const bool fallbacks : {false, true}) {
              o.fallbacks = fallbacks;
              const auto s = run(*a.on(comm), b, o);
              EXPECT_TRUE(s.report.converged()) << name(o) << ", " << distinct << " eigenvalues: " << s.report.detail;
              EXPECT_LE(s.report.iterations, 2 * distinct + 2) << name(o) << ", " << distinct;
              EXPECT_LE(residual_of(a, b, s.x), 1.0001e-8L);
            }
          }
        }
        for (const auto& a : {diagonal<double>(std::vector<double>(8, 0.0)), diagonal<double>({1, 2, 3, 0, 5, 6, 7, 8}),
                              tridiagonal<double>(8, 0, 0, 1)})
          for (auto o : {pipelined(1), pipelined(3), pipelined_ca(2, 3)})
            for (const bool fallbacks : {false, true}) {
              o.fallbacks = fallbacks;
              const auto s = run(*a.on(comm), std::vector<double>(8, 1.0), o);
              EXPECT_FALSE(s.report.converged()) << name(o);
              EXPECT_NE(s.report.detail, "");
              EXPECT_LE(s.report.iterations, 1000);
              EXPECT_LE(s.report.residual_norm, 1 + 1e-12);
              for (const double v : s.x) EXPECT_TRUE(std::isfinite(v));
            }
      },
      {3});
}

TEST(PipelinedGmres, SlowCyclesGrow) {
  const auto a = grid<double>(40, 40);
  const auto A = a.on(comm::Communicator::self());
  const auto b = random_vector<double>(a.n, 4);
  for (auto o : {pipelined(3), pipelined_ca(2, 3)}) {
    o.restart.reset();
    o.fallbacks = true, o.max_iterations = 200;
    const auto s = run(*A, b, o);
    EXPECT_TRUE(s.report.converged()) << name(o) << " " << s.report.detail;
    ASSERT_FALSE(s.report.warnings.empty());
    EXPECT_NE(s.report.warnings[0].find("its cycles are of 60 vectors"), std::string::npos) << s.report.warnings[0];
    EXPECT_EQ(s.report.warnings[0].find(to_string(o.method)), 0u) << s.report.warnings[0];
  }
}

TEST(PipelinedGmres, WrongDepthsAreRefused) {
  const auto a = grid<double>(4, 4);
  const auto A = a.on(comm::Communicator::self());
  auto o = pipelined_ca(1, 5);
  EXPECT_THROW(run(*A, std::vector<double>(16, 1.0), o), Error);
  o = pipelined(2);
  o.side = Side::flexible;
  EXPECT_THROW(run(*A, std::vector<double>(16, 1.0), o), Error);
}

/// Simulated ranks: a message takes one second, a product another two, everything else nothing. Measures the time that
/// reductions add to a cycle.
TEST(PipelinedGmres, LatencyIsHidden) {
  if (under_mpi()) GTEST_SKIP();
  const auto a = grid<double>(24, 24, 0.3);
  const auto b = random_vector<double>(a.n, 3);
  comm::MachineModel machine;
  machine.latency = 1, machine.bandwidth = 1e30;
  struct Cost {
    double time = 0;
    std::int64_t sums = 0;
  };
  const auto solve = [&](const Options& o) {
    Cost cost;
    comm::simulate(2, machine, [&](const comm::Communicator& comm) {
      const auto A = a.on(comm);
      Vector<double> x(A->domain()), y(A->range());
      const Custom<double> slow(A->range(), [&](const auto& from, auto& to) {
        std::copy_n(from.data(), from.size(), x.data());
        A->apply(x, y);
        std::copy_n(y.data(), y.size(), to.data());
        Trace::work("product", 2e30);
      });
      const auto s = run(slow, b, o);
      if (comm.rank() == 0)
        cost = {wall_time() - 3.0 * double(s.report.counts.operator_applies), s.report.counts.reductions};
    });
    return cost;
  };
  // Times of the third cycle.
  const auto cycle = [&](Options o, const std::string& what) {
    o.restart = 40, o.rtol = 0;
    o.explain = false;  // takes products of its own
    o.max_iterations = 80;
    const auto two = solve(o);
    o.max_iterations = 120;
    const auto three = solve(o);
    const Cost c{three.time - two.time, three.sums - two.sums};
    if (std::getenv("TACIT_TEST_SHOW"))
      std::printf("simulated latency, %-24s %3d sums a cycle of 40, %5.1f latencies exposed, %3.0f %% hidden\n",
                  what.c_str(), int(c.sums), c.time, 100 * (1 - c.time / double(c.sums)));
    return c;
  };
  Options g;
  g.method = Method::gmres, g.fallbacks = false;
  const auto gmres = cycle(g, "gmres, one-reduction");
  EXPECT_NEAR(gmres.time, double(gmres.sums), 1e-9);
  for (const int depth : {1, 2, 5}) {
    const auto c = cycle(pipelined(depth), "pipelined-gmres(" + std::to_string(depth) + ")");
    EXPECT_EQ(c.sums, 41);
    EXPECT_LE(c.time, 2.001) << "the last sum of a cycle, and that of the driver";
    EXPECT_LE(c.time, 0.1 * double(c.sums)) << depth;
  }
  for (auto o : {pipelined_ca(2, 5), pipelined_ca(3, 4)}) {
    const auto c = cycle(o, name(o));
    EXPECT_EQ(c.sums, 40 / *o.block + 1);
    EXPECT_LE(c.time, 2.001) << name(o);
    EXPECT_LE(c.time, 0.1 * double(gmres.sums)) << name(o);
  }
}

}  // namespace
}  // namespace tacit::test
