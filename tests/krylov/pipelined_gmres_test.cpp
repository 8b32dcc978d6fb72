// Pipelined GMRES(l) and CA-GMRES(l, t): the history of GMRES, sums that travel behind products, breakdowns that end well.
#include "support/communicators.hpp"
#include "support/methods.hpp"

#include <tacit/krylov/iteration.hpp>
#include <tacit/precond/block_jacobi.hpp>
#include <tacit/precond/jacobi.hpp>

#include <gtest/gtest.h>

#include <deque>

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
Whole<double> convection_diffusion(Global n) { return grid<double>(n, n, 0.5); }

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

}  // namespace
}  // namespace tacit::test
