// What the driver promises whatever the method: norms, guesses, callbacks and cycles at the edges.
#include "support/communicators.hpp"
#include "support/methods.hpp"

#include <gtest/gtest.h>

namespace tacit::test {
namespace {

using krylov::Method;
using krylov::Norm;
using krylov::Options;
using krylov::Reason;

template <class T>
double largest(const std::vector<T>& v) {
  double most = 0;
  for (const T a : v) most = std::max(most, double(std::abs(a)));
  return most;
}

template <class T>
void stops_on_the_largest_element(double size, double rtol) {
  const auto a = grid<T>(20, 20);
  auto b = random_vector<T>(a.n, 3);
  for (T& v : b) v *= T(size);
  const auto A = a.on(comm::Communicator::self());
  for (const Method method : {Method::ca_cg, Method::ca_bicgstab}) {
    Options o;
    o.method = method, o.norm = Norm::max, o.rtol = rtol;
    const auto found = run(*A, b, o);
    ASSERT_EQ(found.report.reason, Reason::converged);
    auto r = a.times(found.x);
    double most = 0;
    for (std::size_t i = 0; i < r.size(); ++i) most = std::max(most, double(std::abs(widen(b[i]) - r[i])));
    EXPECT_LE(most, 1.01 * rtol * largest(b)) << to_string(method) << " " << size;
  }
}
TEST(Driver, MaxNormIsThatOfTheGivenSystem) {
  for (const double size : {1e-30, 1.0, 1e30}) stops_on_the_largest_element<double>(size, 1e-6);
  for (const double size : {1e-4, 1e4}) stops_on_the_largest_element<float>(size, 1e-3);
}

TEST(Driver, OneRankThatStopsStopsAll) {
  on_ranks([](const comm::Communicator& comm) {
    const auto a = grid<double>(9, 8);
    const auto A = a.on(comm);
    const auto b = random_vector<double>(a.n, 1);
    for (const auto& method : all_methods()) {
      Options o;
      method.choose(o);
      o.rtol = 1e-13, o.max_iterations = 40;
      o.callback = [&](const krylov::State& s) { return s.iteration >= 3 && comm.rank() == comm.size() - 1; };
      const auto report = run(*A, b, o).report;
      EXPECT_EQ(report.reason, Reason::stopped) << method.name;
      EXPECT_EQ(report.iterations, 3) << method.name;
    }
  });
}

template <class T>
void leaves_a_far_guess(double size, double guess) {
  const auto a = grid<T>(5, 4);
  const auto comm = comm::Communicator::self();
  const auto A = a.on(comm);
  for (const Method method : {Method::cg, Method::bicgstab, Method::gmres, Method::ca_gmres, Method::pipelined_cg}) {
    Options o;
    o.method = method, o.rtol = 1e-5;
    layout::Vector<T> b(A->range()), x(A->domain());
    layout::fill(b, T(size));
    layout::fill(x, T(guess));
    const auto report = krylov::solve<T, Host>(*A, nullptr, b, x, o);
    EXPECT_EQ(report.reason, Reason::converged) << to_string(method) << " " << report.detail;
    ASSERT_FALSE(report.warnings.empty());
    EXPECT_NE(report.warnings[0].find("x0 has a residual"), std::string::npos) << report.warnings[0];
  }
}
TEST(Driver, GuessesOutOfTheRangeAreLeft) {
  leaves_a_far_guess<float>(1e-20, 1);
  leaves_a_far_guess<double>(1e-160, 1);
  leaves_a_far_guess<double>(1e-300, 1e10);
}

TEST(Driver, CyclesAreNoLongerThanTheSpace) {
  const auto a = grid<double>(3, 2);
  const auto A = a.on(comm::Communicator::self());
  const auto b = random_vector<double>(a.n, 1);
  for (const Method method : {Method::gmres, Method::ca_gmres, Method::pipelined_gmres, Method::pipelined_ca_gmres}) {
    Options o;
    o.method = method, o.restart = std::numeric_limits<int>::max(), o.rtol = 1e-10;
    EXPECT_TRUE(run(*A, b, o).report.converged()) << to_string(method);
  }
  Options o;
  o.method = Method::pipelined_cg, o.depth = 900, o.rtol = 1e-10;
  EXPECT_TRUE(run(*A, b, o).report.converged());
  o.depth = 1001;
  EXPECT_THROW(run(*A, b, o), Error);
}

TEST(Driver, AdviceIsThatOfTheClassicalMethod) {
  const auto a = diagonal<double>({1, -1, 2, -3, 1, 4});
  const auto A = a.on(comm::Communicator::self());
  for (const Method method : {Method::cg, Method::ca_cg, Method::pipelined_cg}) {
    Options o;
    o.method = method, o.fallbacks = false;
    const auto report = run(*A, std::vector<double>(6, 1.0), o).report;
    if (report.reason == Reason::breakdown) {
      EXPECT_NE(report.advice.find("positive definite"), std::string::npos) << report.advice;
    }
  }
}

TEST(Driver, NothingLeftOfABlockIsNotNaN) {
  const auto A = diagonal<double>({3, 3, 3}).on(comm::Communicator::self());
  Options o;
  o.method = Method::ca_gmres, o.orthogonalisation = krylov::Orthogonalisation::bcgs2, o.block_qr = krylov::BlockQr::tsqr;
  layout::Vector<double> b(A->range()), x(A->domain());
  layout::fill(b, 1e-12);
  layout::fill(x, 1e10);
  const auto report = krylov::solve<double, Host>(*A, nullptr, b, x, o);
  EXPECT_NE(report.reason, Reason::non_finite) << report.detail;
}

}  // namespace
}  // namespace tacit::test
