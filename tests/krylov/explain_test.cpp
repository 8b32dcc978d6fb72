// What a look into the cause of a failure costs, in products, and that ranks agree on it.
#include "support/communicators.hpp"
#include "support/methods.hpp"

#include <tacit/krylov/columns.hpp>
#include <tacit/op/function.hpp>
#include <tacit/precond/automatic.hpp>

#include <gtest/gtest.h>

#include <algorithm>

namespace tacit::test {
namespace {

using krylov::Method;
using krylov::Options;
using krylov::Reason;
using layout::Vector;

/// -Laplace by 5 points whose rows add up to zero: inconsistent with most b.
Whole<double> neumann(Global nx, Global ny) {
  auto a = grid<double>(nx, ny);
  for (Global r = 0; r < a.n; ++r) {
    const auto others = double(a.start[r + 1] - a.start[r] - 1);
    for (Global k = a.start[r]; k < a.start[r + 1]; ++k)
      if (a.column[k] == r) a.value[k] = others;
  }
  return a;
}

struct Counted {
  krylov::Report report;
  std::int64_t after;  // products that the report does not count
};
Counted counted(const op::Operator<double>& A, const std::vector<double>& b, const Options& o) {
  const auto before = A.applies();
  auto report = run(A, b, o).report;
  const auto products = A.applies() - before - report.counts.operator_applies;
  return {std::move(report), products};
}

TEST(Explain, CostsNoMoreThanTheSolve) {
  const auto a = neumann(300, 300);
  const auto A = a.on(comm::Communicator::self());
  const auto b = random_vector<double>(a.n, 1);
  for (const Method method : {Method::cg, Method::gmres, Method::bicgstab}) {
    Options o = with(method, 1e-8);
    o.max_iterations = 120;
    const auto found = counted(*A, b, o);
    EXPECT_EQ(found.report.reason, Reason::max_iterations) << to_string(method);
    EXPECT_GT(found.after, 0);
    EXPECT_LE(found.after, found.report.counts.operator_applies + 20) << to_string(method);
    EXPECT_GT(found.report.explain_seconds, 0);
    o.explain = false;
    const auto none = counted(*A, b, o);
    EXPECT_EQ(none.after, 0);
    EXPECT_EQ(none.report.explain_seconds, 0);
    EXPECT_EQ(none.report.counts.operator_applies, found.report.counts.operator_applies);
  }
}

TEST(Explain, NothingWhereTheLimitEndsASolveEarly) {
  on_ranks([](const comm::Communicator& comm) {
    const auto a = grid<double>(30, 30);
    const auto A = a.on(comm);
    const std::vector<double> b(std::size_t(a.n), 1.0);
    Options o;
    o.max_iterations = 5;
    EXPECT_EQ(counted(*A, b, o).after, 0);
    o.explain = true;
    EXPECT_GT(counted(*A, b, o).after, 0);
    for (const bool asked : {false, true}) {
      precond::Automatic<double> automatic(*A);
      Vector<double> x(A->range());
      if (!asked) o.explain.reset();
      else o.explain = true;
      const auto before = A->applies();
      const auto report = automatic.solve(spread(A->range(), b), x, o);
      EXPECT_EQ(report.reason, Reason::max_iterations);
      EXPECT_EQ(A->applies() - before > report.counts.operator_applies, asked) << report.choice;
      EXPECT_EQ(report.explain_seconds > 0, asked);
    }
  });
}

TEST(Explain, ColumnsShareWhatIsAllowed) {
  const auto a = neumann(60, 60);
  const auto A = a.on(comm::Communicator::self());
  constexpr int k = 16;
  Vector<double> B(A->range(), k), X(A->range(), k);
  for (std::size_t i = 0; i < B.size(); ++i) B.data()[i] = noise(3, i);
  Options o = with(Method::cg, 1e-8);
  o.max_iterations = 110;
  const auto before = A->applies();
  const auto found = krylov::solve_columns<double>(*A, nullptr, B, X, o);
  std::int64_t allowed = 0;
  for (const auto& column : found.columns) {
    EXPECT_FALSE(column.converged());
    allowed += column.counts.operator_applies + 10;
  }
  EXPECT_LE(A->applies() - before - found.counts.operator_applies, allowed);
  EXPECT_GT(found.explain_seconds, 0);
}

/// A function that does not tell its cost and is slow: as often as the solve called it.
TEST(Explain, ASlowFunctionIsCalledNoMoreOftenThanByTheSolve) {
  const auto space = layout::Space::distributed(comm::Communicator::self(), 600);
  int calls = 0;
  const op::Function<double> A(space, space, [&](const double* x, double* y, int) {
    ++calls;
    for (const double from = wall_time(); wall_time() - from < 0.02;) {
    }
    for (int i = 0; i < 600; ++i) y[i] = (i % 2 ? 1 : -1) * x[i];
  });
  Options o = with(Method::cg, 1e-8);
  o.fallbacks = false;
  const auto report = run(A, std::vector<double>(600, 1.0), o).report;
  EXPECT_FALSE(report.converged());
  EXPECT_LE(calls, 2 * report.counts.operator_applies + 1);
}

/// The hook comes on all ranks, after the solve and before the products of the explanation.
TEST(Explain, RanksAgree) {
  on_ranks([](const comm::Communicator& comm) {
    const auto a = neumann(24, 20);
    const auto A = a.on(comm);
    const auto b = random_vector<double>(a.n, 5);
    for (const Method method : {Method::cg, Method::gmres, Method::idr}) {
      Options o = with(method, 1e-10);
      std::int64_t at_end = 0;
      const auto before = A->applies();
      o.before_explaining = [&] { at_end = A->applies() - before; };
      const auto found = counted(*A, b, o);
      EXPECT_FALSE(found.report.converged());
      EXPECT_EQ(at_end, found.report.counts.operator_applies);
      // Reductions are part of what is counted: many ranks may look less far.
      if (comm.size() == 1) {
        EXPECT_NE(found.report.detail.find("inconsistent"), std::string::npos) << found.report.detail;
      }
      EXPECT_EQ(comm.broadcast(found.report.detail, 0), found.report.detail);
      EXPECT_EQ(double(found.after), comm.all_max(double(found.after)));
    }
  });
}

}  // namespace
}  // namespace tacit::test
