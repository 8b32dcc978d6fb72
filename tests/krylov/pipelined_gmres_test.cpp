// Pipelined GMRES(l) and CA-GMRES(l, t): the history of GMRES, sums that travel behind products, breakdowns that end well.
#include "support/communicators.hpp"
#include "support/methods.hpp"

#include <tacit/base/trace.hpp>
#include <tacit/krylov/iteration.hpp>
#include <tacit/precond/block_jacobi.hpp>
#include <tacit/precond/jacobi.hpp>

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
  std::vector<Options> all{pipelined(1, restart), pipelined(2, restart), pipelined(5, restart), pipelined(10, restart),
                           pipelined_ca(2, 5, restart), pipelined_ca(3, 10, restart), pipelined_ca(3, 3, restart),
                           pipelined_ca(2, 5, restart), pipelined_ca(3, 10, restart)};
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


/// Sums by Pythagoras and a basis in another form: GMRES' history on any operator, preconditioner, space and rank.
template <Scalar T>
void follows_everywhere(double tolerance) {
  on_ranks(
      [&](const comm::Communicator& comm) {
        const auto a = grid<T>(20, 17, 0.4);
        const auto b = random_vector<T>(a.n, 3);
        const auto csr = a.on(comm);
        const precond::Jacobi<T> jacobi(*csr);
        const Custom<T> smoother(csr->range(), [&](const auto& x, auto& y) {  // (I + A) / 8: not diagonal
          csr->apply(x, y);
          layout::axpy(T(1), x, y);
          layout::scale(T(real_t<T>(0.125)), y);
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
TEST(PipelinedGmres, FollowsGmresEverywhereReal) { follows_everywhere<double>(1e-8); }
TEST(PipelinedGmres, FollowsGmresEverywhereComplex) { follows_everywhere<std::complex<double>>(1e-8); }
TEST(PipelinedGmres, FollowsGmresEverywhereFloat) { follows_everywhere<float>(2e-2); }

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

/// Runs the iteration itself: cycle after cycle on the residual, counting as the driver does.
TEST(PipelinedGmres, OneSumABlock) {
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = grid<double>(30, 30, 0.3);
        const auto A = a.on(comm);
        const auto b = random_vector<double>(a.n, 3);
        for (auto o : {pipelined(1), pipelined(2), pipelined(5), pipelined_ca(2, 5), pipelined_ca(3, 10), pipelined_ca(2, 7)}) {
          o.rtol = 0;
          const auto counts = [&](int iterations) {
            o.max_iterations = iterations;
            const auto s = run(*A, b, o);
            EXPECT_EQ(s.report.iterations, iterations) << name(o);
            return s.report.counts;
          };
          const int t = o.block.value_or(1);
          // Cycles two and three against cycle two; the driver takes two norms and one product for each.
          const auto two = counts(60), three = counts(90);
          EXPECT_EQ(three.reductions - two.reductions, (30 + t - 1) / t + 2) << name(o);
          EXPECT_EQ(three.operator_applies - two.operator_applies, 30 + 1) << name(o);
          EXPECT_EQ(three.exchanges - two.exchanges, comm.size() > 1 ? 31 : 0) << name(o);
        }
      },
      {3});
}

/// The trace tells when a sum was started and when the rank came to wait for it; the operator, when products began.
TEST(PipelinedGmres, SumsTravelBehindProducts) {
  // Trace spans tell: product k of a cycle, sum i started, sum i waited for.
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
    // A rank waits for its sums in the order in which it has started them.
    std::vector<std::pair<double, double>> sums;  // started, needed
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
    // The last 31 products: 30 of the second cycle, one of the driver, which recomputes the residual.
    ASSERT_GE(products.size(), 61u);
    products.erase(products.begin(), products.end() - 31);
    std::erase_if(sums, [&](auto& sum) { return sum.first < products.front() || sum.first > products.back(); });
    products.pop_back();
    const int blocks = 30 / t;
    ASSERT_EQ(int(sums.size()), blocks + 1) << name(o);  // and the norm of the driver's correction
    for (int i = 0; i < blocks; ++i) {
      const auto hidden = std::count_if(products.begin(), products.end(),
                                        [&](double at) { return at > sums[i].first && at < sums[i].second; });
      // The last sums of a cycle have fewer products left to travel behind.
      EXPECT_EQ(hidden, std::min(behind, 30 - (i + 1) * t)) << name(o) << ", sum " << i;
    }
  }
}

}  // namespace
}  // namespace tacit::test
