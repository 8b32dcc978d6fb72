// Sweeps and basis kernels compared with plain loops; sums that do not depend on the number of threads.
#include <gtest/gtest.h>
#include <tacit/exec/basis.hpp>
#include <tacit/exec/sweep.hpp>
#include <tacit/layout/vector.hpp>

#include <algorithm>
#include <cmath>
#include <new>
#include <random>
#include "support/scalars.hpp"
#include "support/threads.hpp"

using namespace tacit;
using exec::Array, exec::reads, exec::sweep, exec::updates, exec::writes;

namespace {

template <class T>
struct Step {
  T alpha;
  exec::Sums<2, T> operator()(T v, T& x, T& y) const {
    x = x + alpha * v;
    y = v - x;
    return {{conj(v) * x, y}};
  }
};

template <class T>
T random_scalar(std::mt19937& g) {
  std::uniform_real_distribution<double> u(-1, 1);
  if constexpr (is_complex<T>) return T(real_t<T>(u(g)), real_t<T>(u(g)));
  else return T(u(g));
}
template <class T>
Array<T> random_array(std::size_t n, unsigned seed) {
  std::mt19937 g(seed);
  Array<T> a(n);
  for (std::size_t i = 0; i < n; ++i) a[i] = random_scalar<T>(g);
  return a;
}

template <class T>
class Sweep : public testing::Test {};
using test::Scalars;
TYPED_TEST_SUITE(Sweep, Scalars);

TYPED_TEST(Sweep, EqualsAPlainLoopAtOddSizes) {
  using T = TypeParam;
  const double tolerance = 50 * double(std::numeric_limits<real_t<T>>::epsilon());
  for (std::size_t n : {0, 1, 7, 8, 9, 2047, 2048, 2049, 40001}) {
    const auto v = random_array<T>(n, 1);
    auto x = random_array<T>(n, 2), y = random_array<T>(n, 3), expected = x;
    const auto [vx, sum] = sweep(reads(v), updates(x), writes(y), Step<T>{T(2)});
    std::complex<double> vx_expected = 0, sum_expected = 0;
    for (std::size_t i = 0; i < n; ++i) {
      expected[i] = expected[i] + T(2) * v[i];
      ASSERT_EQ(x[i], expected[i]);
      ASSERT_EQ(y[i], v[i] - expected[i]);
      vx_expected += std::complex<double>(conj(v[i]) * x[i]);
      sum_expected += std::complex<double>(y[i]);
    }
    EXPECT_NEAR(std::abs(std::complex<double>(vx) - vx_expected), 0, tolerance * (1.0 + double(n)));
    EXPECT_NEAR(std::abs(std::complex<double>(sum) - sum_expected), 0, tolerance * (1.0 + double(n)));
  }
}

/// Throws where v is negative.
struct Refuses {
  void operator()(double v, double& x) const {
    if (v < 0) throw std::bad_alloc();
    x += v;
  }
};
struct RefusesToAdd {
  exec::Sums<1, double> operator()(double v) const {
    if (v < 0) throw std::bad_alloc();
    return {{v}};
  }
};

TEST(SweepErrors, ReachTheCallerFromAnyThread) {
  for (const int team : {1, 2, 4}) {
    const test::Threads threads(team);
    for (const std::size_t n : {3ul, 100003ul})
      for (const std::size_t at : {0ul, n / 2, n - 1}) {
        Array<double> v(n), x(n);
        std::fill_n(v.data(), n, 1.0);
        v[at] = -1;
        EXPECT_THROW(sweep(reads(v), updates(x), writes(), Refuses{}), std::bad_alloc) << team << " " << at;
        EXPECT_THROW(sweep(reads(v), updates(), writes(), RefusesToAdd{}), std::bad_alloc) << team << " " << at;
        EXPECT_THROW(exec::each(n, true, [&](std::size_t i) { v[i] < 0 ? throw std::bad_alloc() : void(); }),
                     std::bad_alloc);
        // The team works afterwards.
        v[at] = 1;
        sweep(reads(v), updates(x), writes(), Refuses{});
        EXPECT_EQ(x[at], 1.0);
        EXPECT_EQ(sweep(reads(v), updates(), writes(), RefusesToAdd{})[0], double(n));
      }
  }
}

TYPED_TEST(Sweep, GivesTheSameBitsForAnyNumberOfThreads) {
  using T = TypeParam;
  const auto a = random_array<T>(100003, 4), b = random_array<T>(100003, 5);
  std::vector<const T*> q{a.data(), b.data(), a.data(), b.data(), a.data()};
  T first{}, coefficients[6] = {};
  for (int threads : {1, 2, 3, 7}) {
    const test::Threads these(threads);
    const auto [d] = sweep(reads(a, b), updates(), writes(), layout::formula::Dot<T>{});
    T c[6];
    exec::basis_dots<T, Host>(q.data(), 5, b.data(), b.size(), c, true);
    if (threads == 1) {
      first = d;
      std::copy_n(c, 6, coefficients);
    }
    EXPECT_EQ(d, first) << threads << " threads";
    for (int i = 0; i < 6; ++i) EXPECT_EQ(c[i], coefficients[i]) << threads << " threads";
  }
}

TYPED_TEST(Sweep, BasisDotsAndSubtractEqualPlainLoops) {
  using T = TypeParam;
  const double tolerance = 2e3 * double(std::numeric_limits<real_t<T>>::epsilon());
  for (std::size_t n : {0, 1, 9, 5000})
    for (int j : {0, 1, 2, 3, 4, 5, 11}) {
      std::vector<Array<T>> basis;
      std::vector<const T*> q;
      for (int i = 0; i < j; ++i) basis.push_back(random_array<T>(n, 10u + unsigned(i)));
      for (const auto& b : basis) q.push_back(b.data());
      auto v = random_array<T>(n, 99);
      std::vector<T> sums(j + 1), h(j);
      exec::basis_dots<T, Host>(q.data(), j, v.data(), n, sums.data(), true);
      for (int i = 0; i <= j; ++i) {
        std::complex<double> expected = 0;
        for (std::size_t e = 0; e < n; ++e)
          expected += std::complex<double>(conj(i < j ? basis[i][e] : v[e])) * std::complex<double>(v[e]);
        EXPECT_NEAR(std::abs(std::complex<double>(sums[i]) - expected), 0, tolerance * std::sqrt(1.0 + double(n)));
        if (i < j) h[i] = T(real_t<T>(0.1 * (i + 1)));
      }
      auto expected = v;
      for (std::size_t e = 0; e < n; ++e) {
        for (int i = 0; i < j; ++i) expected[e] -= h[i] * basis[i][e];
        expected[e] *= T(3);
      }
      const T square = exec::basis_subtract<T, Host>(q.data(), j, h.data(), T(3), v.data(), n, true);
      double norm = 0;
      for (std::size_t e = 0; e < n; ++e) {
        ASSERT_NEAR(std::abs(v[e] - expected[e]), 0, tolerance);
        norm += double(abs2(v[e]));
      }
      EXPECT_NEAR(double(real(square)), norm, tolerance * (1 + norm));
    }
}

TYPED_TEST(Sweep, BasisDotsOfRealNumbersAreSumsOfEightLanes) {
  using T = TypeParam;
  if constexpr (!is_complex<T>) {
    for (std::size_t n : {1, 8, 100, 5003})
      for (int j : {1, 2, 3, 4, 9}) {
        std::vector<Array<T>> basis;
        std::vector<const T*> q;
        for (int i = 0; i < j; ++i) basis.push_back(random_array<T>(n, 10u + unsigned(i)));
        for (const auto& b : basis) q.push_back(b.data());
        const auto v = random_array<T>(n, 99);
        std::vector<T> sums(j);
        exec::basis_dots<T, Host>(q.data(), j, v.data(), n, sums.data(), false);
        for (int i = 0; i < j; ++i) {
          T lanes[8] = {}, expected{};
          for (std::size_t e = 0; e < n; ++e) {
            const volatile T product = basis[i][e] * v[e];  // rounded before it is added
            lanes[e % 8] += product;
          }
          for (const T lane : lanes) expected += lane;
          EXPECT_EQ(sums[i], expected) << n << " elements, vector " << i << " of " << j;
        }
      }
  }
}

TYPED_TEST(Sweep, NormSurvivesTheWholeRange) {
  using T = TypeParam;
  using R = real_t<T>;
  const auto space = layout::Space::distributed(comm::Communicator::self(), 1000);
  layout::Vector<T> x(space);
  const auto expect = [&](double size) {
    layout::fill(x, T(R(size)));
    EXPECT_NEAR(layout::norm(x) / (double(R(size)) * std::sqrt(1000.0)), 1, 1e-4) << size;
  };
  expect(1);
  if constexpr (std::same_as<R, double>) {
    for (double e : {-307.0, -300.0, -200.0, -160.0, -150.0, 150.0, 160.0, 200.0, 300.0, 305.0})
      expect(std::pow(10.0, e));
  } else {
    for (double e : {-37.0, -30.0, -20.0, 15.0, 20.0, 30.0, 36.0}) expect(std::pow(10.0, e));
  }
  layout::fill(x, T(0));
  EXPECT_EQ(layout::norm(x), 0);
  layout::fill(x, T(std::numeric_limits<R>::quiet_NaN()));
  EXPECT_TRUE(std::isnan(layout::norm(x)));
  layout::fill(x, T(std::numeric_limits<R>::infinity()));
  EXPECT_FALSE(std::isfinite(layout::norm(x)));
}

TEST(SweepUse, RefusesVectorsOfDifferentSizes) {
  Array<double> a(3), b(4);
  EXPECT_THROW(sweep(reads(a), updates(b), writes(), layout::formula::Axpy<double>{1.0}), Error);
}

TEST(Memory, ArraysCopyAndStartAtZero) {
  Array<double> a(1000);
  for (double x : a.view()) EXPECT_EQ(x, 0);
  a[3] = 5;
  Array<double> b = a;
  b[3] = 6;
  EXPECT_EQ(a[3], 5);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a.data()) % 64, 0u);
  EXPECT_THROW(exec::host_allocate(std::size_t(1) << 60), Error);
}

}  // namespace
