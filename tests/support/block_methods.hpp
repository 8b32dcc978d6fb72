// What the tests of block-cg and block-gmres share: columns of one search space.
#pragma once

#include "support/columns.hpp"
#include "support/wide.hpp"

#include <tacit/op/diagonal.hpp>
#include <tacit/op/function.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace tacit::test {

/// A block method, and that which a single column is solved by.
struct BlockMethod {
  krylov::Method method, alone;
  bool hermitian;

  template <Scalar T>
  SolvedColumns<T> solve(const op::Operator<T, Host>& A, const Columns<T>& b, const krylov::Options& o,
                         const std::type_identity_t<op::Operator<T, Host>>* P = nullptr,
                         const Columns<T>& guess = {}) const {
    return solve_all<T>(A, b, o, P, guess, nullptr, hermitian);
  }
};

template <class T>
double block_goal() {
  return is_wide<T> ? 1e-9 : 1e-4;
}

/// Every column has converged, by this method and without a warning, and b - A x says so, too.
template <Scalar T>
void expect_solved(BlockMethod by, const Whole<T>& a, const Columns<T>& b, const SolvedColumns<T>& s, double rtol) {
  for (std::size_t c = 0; c < b.size(); ++c) {
    const auto& r = s.reports.columns[c];
    EXPECT_TRUE(r.converged()) << c << " " << r.detail;
    EXPECT_EQ(r.method, krylov::to_string(by.method)) << c;
    EXPECT_TRUE(r.warnings.empty()) << c << r.warnings.front();
    if (norm2(b[c]) > 0) {
      EXPECT_LE(residual_of(a, b[c], s.x[c]), 1.01 * rtol) << c;
    }
  }
}

/// The diagonal of a preconditioner, of these numbers on all ranks.
template <Scalar T>
op::Diagonal<T, Host> diagonal_precond(const layout::Space& space, const std::vector<double>& m) {
  return op::Diagonal<T, Host>(spread(space, std::vector<T>(m.begin(), m.end())), "test");
}

/// Nine steps of three columns, with P and without: the residuals of `least(a, b, m, steps)`, for P = diag(m), to
/// relative `error`.
template <Scalar T, class Least>
void expect_least_in_the_space(BlockMethod by, const Whole<T>& a, const comm::Communicator& comm, Least least,
                               krylov::Options o, double error) {
  const auto b = random_columns<T>(a.n, 3);
  const auto A = a.on(comm);
  o.max_iterations = 9;
  for (const bool with_P : {false, true}) {
    std::vector<double> m(std::size_t(a.n), 1.0);
    if (with_P)
      for (Global i = 0; i < a.n; ++i) m[std::size_t(i)] = 1 + 0.8 * noise(5, std::uint64_t(i));
    const auto P = diagonal_precond<T>(A->range(), m);
    const auto expected = least(a, b, m, 9);
    const auto s = by.solve<T>(*A, b, o, with_P ? &P : nullptr);
    for (std::size_t c = 0; c < b.size(); ++c) {
      const auto& history = s.reports.columns[c].history;
      ASSERT_EQ(history.size(), 10u);
      for (std::size_t i = 0; i < history.size(); ++i)
        EXPECT_NEAR(history[i], expected[c][i], error * expected[c][i]) << c << " " << i << (with_P ? " with P" : "");
      EXPECT_NEAR(double(residual_of(a, b[c], s.x[c])), expected[c][9], is_wide<T> ? 1e-10 : 1e-3);
    }
  }
}

/// Six columns take at most `share` of the iterations of the method of one column, from zero and from a guess. The
/// iterations.
template <Scalar T>
int expect_fewer_iterations(BlockMethod by, const Whole<T>& a, const comm::Communicator& comm, krylov::Options o,
                            double share) {
  const auto b = random_columns<T>(a.n, 6);
  const auto A = a.on(comm);
  o.method = by.alone;
  const auto lockstep = by.solve<T>(*A, b, o);
  o.method = by.method;
  const auto block = by.solve<T>(*A, b, o);
  EXPECT_EQ(block.reports.together, 6);
  EXPECT_LE(block.most(), share * lockstep.most());
  const auto guessed = by.solve<T>(*A, b, o, nullptr, random_columns<T>(a.n, 6, 50));
  for (std::size_t c = 0; c < b.size(); ++c) {
    for (const auto* s : {&block, &guessed}) {
      EXPECT_TRUE(s->reports.columns[c].converged()) << s->reports.columns[c].detail;
      EXPECT_LE(s->reports.columns[c].residual_norm, 1.001 * *o.rtol);
      if (o.norm == krylov::Norm::two) {
        EXPECT_LE(residual_of(a, b[c], s->x[c]), 1.01 * *o.rtol);
      }
    }
    EXPECT_EQ(block.reports.columns[c].method, krylov::to_string(by.method));
    EXPECT_EQ(block.reports.columns[c].history.size(), std::size_t(block.reports.columns[c].iterations) + 1);
  }
  return block.most();
}

/// Three columns, then others that they make dependent: equal, proportional, a sum, zero (column 6), and copies that
/// differ by these parts.
template <Scalar T>
Columns<T> dependent_columns(Global n, const std::vector<double>& nearly) {
  auto b = random_columns<T>(n, 3);
  b.push_back(b[1]);
  b.push_back(b[0]);
  for (T& v : b.back()) v *= T(real_t<T>(-1e-3));
  b.push_back(b[0]);
  for (std::size_t i = 0; i < b[0].size(); ++i) b.back()[i] += real_t<T>(0.7) * b[2][i];
  b.emplace_back(std::size_t(n), T(0));
  for (const double by : nearly) {
    b.push_back(b[2]);
    for (std::size_t i = 0; i < b[0].size(); ++i) b.back()[i] *= T(real_t<T>(1 + by * noise(9, i)));
  }
  return b;
}

/// More columns than unknowns of `small`, as many as make the block Krylov space whole, and an eigenvector among others
/// of diag(d), which has three eigenvalues.
template <Scalar T>
void expect_exhausted(BlockMethod by, const Whole<T>& small, const std::vector<double>& d, int wide,
                      const comm::Communicator& comm) {
  const auto o = with(by.method, is_wide<T> ? 1e-10 : 1e-4);
  for (const int k : {int(small.n), wide}) {
    const auto b = random_columns<T>(small.n, k);
    const auto s = by.solve<T>(*small.on(comm), b, o);
    expect_solved(by, small, b, s, *o.rtol);
    EXPECT_LE(s.most(), 2) << k;
  }
  auto b = random_columns<T>(Global(d.size()), 5);
  b.emplace_back(d.size(), T(0));
  b.back()[4] = T(1);  // an eigenvector
  const auto s = by.solve<T>(*diagonal<T>(d).on(comm), b, o);
  expect_solved(by, diagonal<T>(d), b, s, *o.rtol);
  EXPECT_EQ(s.most(), 3);
  EXPECT_LE(s.reports.columns[5].iterations, 2);
}

/// The reductions, exchanges, products and applies of P between two numbers of iterations, of four columns.
inline krylov::Report::Counts counts_between(BlockMethod by, int first, int last, const Whole<double>& a,
                                             const comm::Communicator& comm, bool with_P) {
  const auto b = random_columns<double>(a.n, 4);
  const auto A = a.on(comm);
  const auto P = diagonal_precond<double>(A->range(), std::vector<double>(std::size_t(a.n), 0.2));
  auto o = with(by.method, 1e-30);
  const auto counts = [&](int iterations) {
    o.max_iterations = iterations;
    return by.solve<double>(*A, b, o, with_P ? &P : nullptr).reports.counts;
  };
  auto n = counts(last);
  const auto before = counts(first);
  n.reductions -= before.reductions, n.exchanges -= before.exchanges;
  n.operator_applies -= before.operator_applies, n.preconditioner_applies -= before.preconditioner_applies;
  return n;
}

/// Each of six columns has its own scale, goal, limit, reason and callback.
template <Scalar T>
void expect_own_reports(BlockMethod by, const Whole<T>& a, const comm::Communicator& comm, krylov::Options o,
                        const op::Operator<T, Host>* P) {
  const auto A = a.on(comm);
  auto b = random_columns<T>(a.n, 6);
  for (T& v : b[1]) v *= T(real_t<T>(is_wide<T> ? 1e-200 : 1e-25));
  b[2][5] = T(std::numeric_limits<real_t<T>>::quiet_NaN());
  for (T& v : b[3]) v *= T(real_t<T>(1e-6));
  o.atol = 1e-8;  // at once for column 1, early for column 3
  std::vector<std::vector<double>> seen(b.size());
  std::vector<T> third(A->domain().local_size());
  o.callback = [&](const krylov::State& s) {
    seen[std::size_t(s.column)].push_back(s.residual_norm);
    if (s.column != 4 || s.iteration != 3) return false;
    s.solution(third.data());
    return true;
  };
  const auto s = by.solve<T>(*A, b, o, P);
  const auto& r = s.reports.columns;
  EXPECT_TRUE(r[0].converged());
  EXPECT_TRUE(r[1].converged());
  EXPECT_EQ(r[1].iterations, 0);
  EXPECT_EQ(r[2].reason, krylov::Reason::non_finite);
  EXPECT_TRUE(r[3].converged());
  EXPECT_LT(r[3].iterations, r[0].iterations);
  EXPECT_EQ(r[4].reason, krylov::Reason::stopped);
  EXPECT_EQ(r[4].iterations, 3);
  EXPECT_TRUE(r[5].converged());
  for (std::size_t c = 0; c < b.size(); ++c) EXPECT_EQ(int(seen[c].size()), r[c].iterations) << c;
  for (std::size_t i = 0; i < third.size(); ++i)
    EXPECT_NEAR(std::abs(third[i] - s.x[4][std::size_t(A->domain().begin()) + i]), 0, is_wide<T> ? 1e-13 : 1e-5);
  EXPECT_NEAR(double(residual_of(a, b[4], s.x[4])), seen[4].back(), (is_wide<T> ? 1e-9 : 1e-3));
  EXPECT_LE(residual_of(a, b[0], s.x[0]), 1.01 * std::max(*o.rtol, o.atol / double(norm2(b[0]))));

  o.callback = nullptr, o.max_iterations = 4, o.atol = 0;
  for (const auto& one : by.solve<T>(*A, {b[0], b[4]}, o, P).reports.columns) {
    EXPECT_EQ(one.reason, krylov::Reason::max_iterations);
    EXPECT_EQ(one.iterations, 4);
  }
}

/// One column has the bits of the other method; so have columns whose products cannot be shared, and that is told. The
/// iterations of one column.
template <Scalar T>
int expect_one_column_is_alone(BlockMethod by, const Whole<T>& a, const comm::Communicator& comm, krylov::Options o) {
  const auto A = a.on(comm);
  const auto b = random_columns<T>(a.n, 3);
  const auto block = by.solve<T>(*A, {b[0]}, o);
  EXPECT_TRUE(block.reports.columns[0].warnings.empty());
  const auto vector = run<T>(*A, b[0], o);
  o.method = by.alone;
  const auto alone = run<T>(*A, b[0], o);
  EXPECT_EQ(block.x[0], alone.x);
  EXPECT_EQ(vector.x, alone.x);
  EXPECT_EQ(block.reports.columns[0].history, alone.report.history);

  o.method = by.method, o.engine = krylov::Engine::tasks;
  const auto tasks = by.solve<T>(*A, b, o);
  EXPECT_EQ(tasks.x[0], alone.x);
  const auto& warnings = tasks.reports.columns[0].warnings;
  EXPECT_FALSE(warnings.empty());
  if (!warnings.empty()) {
    EXPECT_NE(warnings.front().find("solved by " + std::string(krylov::to_string(by.alone))), std::string::npos);
  }
  return alone.report.iterations;
}

/// Four columns for grid(9, 8), two of them equal, and a smooth one, which A makes shorter than the others; it leads
/// the search, and leaves first.
template <Scalar T>
Columns<T> columns_of_many_scales() {
  auto b = random_columns<T>(72, 4);
  for (std::size_t i = 0; i < b[0].size(); ++i)
    b[0][i] =
        T(real_t<T>(0.01)) * b[0][i] +
        phase<T>(Global(i)) * T(real_t<T>(std::sin(0.314 * double(i % 9 + 1)) * std::sin(0.349 * double(i / 9 + 1))));
  b[3] = b[1];
  return b;
}

/// x -> 1e20 A x, of no known size.
template <Scalar T>
Custom<T> huge(const op::Operator<T, Host>& A) {
  return Custom<T>(A.domain(), [&A](const layout::Vector<T>& x, layout::Vector<T>& y) {
    A.apply(x, y);
    layout::scale(T(real_t<T>(1e20)), y);
  });
}

}  // namespace tacit::test
