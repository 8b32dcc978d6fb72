// Solves in several threads of one rank, on their own systems and on common ones.
#include "support/methods.hpp"

#include <tacit/op/compose.hpp>
#include <tacit/precond/automatic.hpp>
#include <tacit/precond/make.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace tacit::test {
namespace {

using comm::Communicator;
using layout::Vector;
using System = Whole<double>;

void in_threads(int n, const std::function<void(int)>& f) {
  std::latch all(n);  // they begin together
  std::vector<std::jthread> threads;
  for (int i = 0; i < n; ++i)
    threads.emplace_back([&, i] {
      all.arrive_and_wait();
      f(i);
    });
}

/// ||b - A x|| / ||b|| in extended precision.
double residual(const System& a, const std::vector<double>& b, const std::vector<double>& x) {
  const auto y = a.times(x);
  long double r = 0, s = 0;
  for (std::size_t i = 0; i < b.size(); ++i) r += (b[i] - y[i]) * (b[i] - y[i]), s += b[i] * b[i];
  return double(std::sqrt(r / s));
}

/// Solves with the n-th method; the answer and what the report says of it are checked.
void solve_and_check(const op::Operator<double>& A, const op::Operator<double>* P, const System& whole, int n,
                     int seed) {
  static const auto methods = all_methods();
  const auto& method = methods[std::size_t(n) % methods.size()];
  krylov::Options o;
  method.choose(o);
  o.rtol = 1e-8;
  o.callback = [](const krylov::State&) {
    std::this_thread::yield();  // solves overlap also on one processor
    return false;
  };
  if (method.name == "richardson" && P) o.relaxation = 0.5;
  if (method.name == "chebyshev" && P) o.lambda_min.reset(), o.lambda_max.reset();
  const auto b = random_vector<double>(whole.n, std::uint64_t(seed));
  const auto right = spread(A.range(), b);
  Vector<double> x(A.domain());
  const auto report = krylov::solve<double, Host>(A, P, right, x, o, true);
  ASSERT_TRUE(report.converged()) << method.name << ": " << report.detail;
  EXPECT_LE(residual(whole, b, x.to_host()), 1.1e-8) << method.name;
}

constexpr int threads = 4;

TEST(Threads, solve_systems_of_their_own) {
  in_threads(threads, [](int t) {
    for (int k = 0; k < 40; ++k) {
      const auto whole = shifted_grid<double>(5 + t, 6 + k % 3);
      const auto A = whole.on(Communicator::self());
      solve_and_check(*A, nullptr, whole, t * 7 + k, k);
    }
  });
}

TEST(Threads, solve_with_one_matrix_and_its_preconditioners) {
  const auto whole = shifted_grid<double>(12, 11);
  const auto A = whole.on(Communicator::self());
  precond::Options options;
  std::vector<std::unique_ptr<op::Operator<double>>> P;
  for (const char* name : {"jacobi", "ic0", "amg", "polynomial", "spai"})
    P.push_back(precond::make<double, Host>(name, *A, options));
  in_threads(threads, [&](int t) {
    for (int k = 0; k < 40; ++k) {
      const auto* const p = k % 2 ? P[std::size_t(t + k) % P.size()].get() : nullptr;
      solve_and_check(*A, p, whole, p ? 0 : t * 5 + k, k);
      Vector<double> x(A->domain()), y(A->range());  // and a product without a solve
      layout::fill(x, 1.0);
      A->apply(x, y);
      const auto sums = whole.times(std::vector<double>(std::size_t(whole.n), 1.0));
      for (Global i = 0; i < whole.n; ++i) EXPECT_NEAR(y.data()[i], double(sums[std::size_t(i)]), 1e-12);
    }
  });
}

TEST(Threads, solve_with_operators_composed_of_others_matrices) {
  const auto whole = shifted_grid<double>(9, 8);
  const std::shared_ptr<const op::Operator<double>> one = whole.on(Communicator::self()),
                                                    other = whole.on(Communicator::self());
  in_threads(threads, [&](int t) {
    const auto twice = whole.map([](Global, Global, double v) { return 2 * v; });
    for (int k = 0; k < 40; ++k) {
      if (t % 2 == 0) {
        const op::Sum<double> both(1.0, t == 0 ? one : other, 1.0, t == 0 ? other : one);
        solve_and_check(both, nullptr, twice, 0, k);
      } else {
        solve_and_check(t == 1 ? *one : *other, nullptr, whole, 0, k);
      }
    }
  });
}

TEST(Threads, choose_preconditioners_for_one_matrix) {
  const auto whole = grid<double>(20, 20);
  const auto A = whole.on(Communicator::self());
  in_threads(threads, [&](int) {
    const auto b = random_vector<double>(whole.n, 3);
    for (int k = 0; k < 10; ++k) {
      const comm::Turn turn(A->range().comm());
      precond::Automatic<double> chosen(*A);
      Vector<double> x(A->domain());
      const auto report = chosen.solve(spread(A->range(), b), x, {});
      ASSERT_TRUE(report.converged()) << report.detail;
      EXPECT_LE(residual(whole, b, x.to_host()), 1.1e-8);
    }
  });
}

}  // namespace
}  // namespace tacit::test
