// The kernels on pairs of vectors, compared with sums in long double.
#include <tacit/exec/pairs.hpp>

#include "support/scalars.hpp"
#include "support/systems.hpp"
#include "support/threads.hpp"

#include <gtest/gtest.h>

namespace tacit::test {
namespace {

template <class T>
class Pairs : public testing::Test {};
TYPED_TEST_SUITE(Pairs, Scalars);

template <class T>
struct Set {
  std::vector<std::vector<T>> v;
  std::vector<T*> data;
  Set(int pairs, std::size_t n, std::uint64_t seed) {
    for (int k = 0; k < pairs; ++k) v.push_back(random_vector<T>(Global(2 * n), seed + std::uint64_t(k)));
    for (auto& x : v) data.push_back(x.data());
  }
  T at(int column, std::size_t i) const { return v[column / 2][2 * i + column % 2]; }
};

TYPED_TEST(Pairs, GramMatricesAreThoseOfTheColumns) {
  using T = TypeParam;
  for (const std::size_t n : {0, 1, 7, 63, 64, 65, 500, 9001})
    for (const int columns : {1, 2, 3, 5, 9, 17, 33}) {
      if (n > 1000 && columns > 9) continue;
      const Set<T> y((columns + 1) / 2, n, 1), z((columns + 1) / 2, n, 50);
      const auto shadow = random_vector<T>(Global(n), 99);
      for (const bool same : {true, false}) {
        const auto& right = same ? y : z;
        std::vector<exec::wide_t<T>> sums(exec::pair_gram_size(columns, true), exec::wide_t<T>(-7));
        exec::pair_gram<T, Host>(y.data.data(), right.data.data(), columns, shadow.data(), true, n, sums.data());
        // Relative to the sum of magnitudes, about n; the order of summation keeps partial sums small.
        const double allowed = std::numeric_limits<real_t<T>>::epsilon() * double(n + 1);
        for (int b = 0; b < columns; ++b) {
          wide_t<T> with_shadow(0);
          for (std::size_t i = 0; i < n; ++i) with_shadow += wide_conj(widen(shadow[i])) * widen(right.at(b, i));
          const auto found = sums[exec::pair_gram_size(columns, false) + b];
          ASSERT_LE(std::abs(widen(found) - with_shadow), allowed) << n << " " << columns << " shadow " << b;
          for (int a = 0; a <= b; ++a) {
            wide_t<T> sum(0);
            for (std::size_t i = 0; i < n; ++i) sum += wide_conj(widen(y.at(a, i))) * widen(right.at(b, i));
            ASSERT_LE(std::abs(widen(sums[std::size_t(b) * (b + 1) / 2 + a]) - sum), allowed)
                << n << " " << columns << ": " << a << ", " << b;
          }
        }
      }
    }
}

TYPED_TEST(Pairs, CombinationsReplaceTheFirstPair) {
  using T = TypeParam;
  for (const std::size_t n : {0, 1, 511, 512, 513, 2000})
    for (const int columns : {1, 2, 5, 8, 17}) {
      Set<T> y((columns + 1) / 2, n, 1);
      const Set<T> before = y;
      const auto a = random_vector<T>(columns, 5), c = random_vector<T>(columns, 6), e = random_vector<T>(columns, 7);
      auto x = random_vector<T>(Global(n), 8);
      const auto x_before = x;
      const double allowed = 4 * columns * std::numeric_limits<real_t<T>>::epsilon();
      const auto combine = [&](const std::vector<T>& by, std::size_t i) {
        wide_t<T> sum(0);
        for (int k = 0; k < columns; ++k) sum += widen(by[k]) * widen(before.at(k, i));
        return sum;
      };
      exec::pair_combine<T, Host>(y.data.data(), columns, nullptr, nullptr, e.data(), x.data(), n);
      EXPECT_EQ(y.v, before.v);
      for (std::size_t i = 0; i < n; ++i)
        ASSERT_LE(std::abs(widen(x[i]) - widen(x_before[i]) - combine(e, i)), allowed) << n << " " << columns;
      exec::pair_combine<T, Host>(y.data.data(), columns, a.data(), c.data(), nullptr, nullptr, n);
      for (std::size_t i = 0; i < n; ++i) {
        ASSERT_LE(std::abs(widen(y.at(0, i)) - combine(a, i)), allowed) << n << " " << columns;
        ASSERT_LE(std::abs(widen(y.at(1, i)) - combine(c, i)), allowed) << n << " " << columns;
      }
      for (std::size_t k = 1; k < y.v.size(); ++k) EXPECT_EQ(y.v[k], before.v[k]);
    }
}

TYPED_TEST(Pairs, ColumnsAndMagnitudes) {
  using T = TypeParam;
  Set<T> y(1, 100, 1);
  const auto x = random_vector<T>(100, 3);
  exec::pair_put<T, Host>(x.data(), 1, y.data[0], 100);
  double most = 0;
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(y.at(1, i), x[i]);
    most = std::max(most, double(std::abs(x[i])));
  }
  EXPECT_EQ((exec::largest_magnitude<T, Host>(x.data(), 100)), most);
  EXPECT_EQ((exec::largest_magnitude<T, Host>(y.data[0] + 1, 100, 2)), most);
  EXPECT_EQ((exec::largest_magnitude<T, Host>(nullptr, 0)), 0);
  auto broken = x;
  broken[40] = T(std::numeric_limits<real_t<T>>::quiet_NaN());
  EXPECT_EQ((exec::largest_magnitude<T, Host>(broken.data(), 100)), std::numeric_limits<double>::infinity());
}

TYPED_TEST(Pairs, SameBitsForAnyNumberOfThreads) {
  using T = TypeParam;
  const std::size_t n = 40000;
  const Set<T> y(3, n, 1);
  std::vector<exec::wide_t<T>> first;
  for (const int threads : {1, 2, 3}) {
    const Threads team(threads);
    std::vector<exec::wide_t<T>> sums(exec::pair_gram_size(5, false));
    exec::pair_gram<T, Host>(y.data.data(), y.data.data(), 5, nullptr, false, n, sums.data());
    if (threads == 1) first = sums;
    EXPECT_EQ(first, sums) << threads;
  }
}

}  // namespace
}  // namespace tacit::test
