// The kernels on pairs of vectors, run by one thread and by teams of threads, compared with sums in long double and
// with the host's kernels.
#include "exec/team_fixtures.hpp"

#include "exec/pair_kernels.hpp"

#include <memory>

namespace tacit::exec {
namespace {

template <class T>
class TeamPairs : public ::testing::Test {};
TYPED_TEST_SUITE(TeamPairs, KernelScalars);

template <class T>
struct HostScalar {
  using type = T;
};
template <class R>
struct HostScalar<Complex<R>> {
  using type = std::complex<R>;
};
template <class T>
using host_t = typename HostScalar<T>::type;
template <class T>
auto host_pointer(T* p) {
  if constexpr (std::is_const_v<T>) return reinterpret_cast<const host_t<std::remove_const_t<T>>*>(p);
  else return reinterpret_cast<host_t<T>*>(p);
}

/// Pairs of columns of n elements; for W = 0 they begin one element off the alignment of a pair. The unused second half
/// of an odd last pair is NaN.
template <class T>
struct Set {
  struct alignas(64) Line {
    unsigned char bytes[64];
  };
  int columns, n;
  std::size_t stride;
  std::vector<Line> memory;
  std::vector<T*> pair;
  Set(int columns, int n, bool aligned, unsigned seed) : columns(columns), n(n) {
    const int count = (columns + 1) / 2;
    const std::size_t lines = (std::size_t(2 * n + 2) * sizeof(T) + 63) / 64;
    stride = lines * 64 / sizeof(T);
    memory.resize(lines * std::size_t(count));
    Dice dice(seed);
    for (int k = 0; k < count; ++k) {
      pair.push_back(reinterpret_cast<T*>(memory.data() + std::size_t(k) * lines) + (aligned ? 0 : 1));
      for (int i = 0; i < 2 * n; ++i) pair[k][i] = dice.value<T>();
      if (2 * k + 1 == columns)
        for (int i = 0; i < n; ++i) pair[k][2 * i + 1] = poison<T>();
    }
  }
  T at(int column, int i) const { return pair[column / 2][2 * i + column % 2]; }
  std::vector<host_t<T>*> host() const {
    std::vector<host_t<T>*> p;
    for (T* a : pair) p.push_back(host_pointer(a));
    return p;
  }
};

template <class T, int W>
void check_gram(int n, int columns, bool same, bool with_shadow, Way way) {
  Dice dice(unsigned(n + columns));
  const Set<T> v(columns, n, W > 0, 3), other(columns, n, W > 0, 4);
  const Set<T>& z = same ? v : other;
  const auto shadow = dice.values<T>(std::size_t(n) + 1);
  // Few pairs and groups per launch, so that there are several launches, and teams that share a slice.
  PairGramPlan<T, 8, W, 2, 32> plan(n, columns, with_shadow ? shadow.data() : nullptr);
  using Wide_ = typename decltype(plan)::Wide;
  ASSERT_EQ(std::size_t(plan.count()), pair_gram_size(columns, with_shadow));
  std::vector<Wide_> partial(std::size_t(plan.partial_size()), poison<Wide_>()),
      sums(std::size_t(plan.count()), poison<Wide_>());
  plan(v.pair.data(), z.pair.data(), partial.data(), sums.data(),
       [&](Global blocks, const auto& kernel) { launch_here(way, blocks, kernel); });
  // For the short scalars, products of magnitudes up to 2 are exact in double; their sums are not.
  const long double allowed = 4 * (n + 1) * std::numeric_limits<double>::epsilon();
  std::vector<Wide> expected;
  const auto dot = [&](auto&& left, int b) {
    Wide sum(0);
    for (int i = 0; i < n; ++i) sum += std::conj(wide(left(i))) * wide(z.at(b, i));
    expected.push_back(sum);
  };
  for (int b = 0; b < columns; ++b)
    for (int a = 0; a <= b; ++a) dot([&](int i) { return v.at(a, i); }, b);
  if (with_shadow)
    for (int b = 0; b < columns; ++b) dot([&](int i) { return shadow[std::size_t(i)]; }, b);
  ASSERT_EQ(sums.size(), expected.size());
  for (std::size_t k = 0; k < sums.size(); ++k)
    ASSERT_LE(std::abs(wide(sums[k]) - expected[k]), allowed)
        << "sum " << k << " of " << columns << " columns, n = " << n;

  // The host's kernel, which accumulates short sums in T.
  std::vector<wide_t<host_t<T>>> of_host(sums.size());
  const auto hv = v.host(), hz = z.host();
  const host_t<T>* const* const left = hv.data();
  const host_t<T>* const* const right = same ? left : hz.data();
  pair_gram<host_t<T>, Host>(left, right, columns, host_pointer(shadow.data()), with_shadow, std::size_t(n),
                             of_host.data());
  const long double loose = 4 * (n + 1) * std::numeric_limits<real_t<T>>::epsilon();
  for (std::size_t k = 0; k < sums.size(); ++k)
    ASSERT_LE(std::abs(wide(sums[k]) - wide(of_host[k])), loose) << "sum " << k;
}

TYPED_TEST(TeamPairs, GramMatricesAreThoseOfTheColumns) {
  for (const Way way : ways)
    for (const int n : {0, 1, 31, 33, 300})
      for (const int columns : {1, 2, 5, 16, 17, 37}) {
        // With 17 columns the last one has a launch of its own.
        if (way == Way::threads && (n != 300 || (columns != 5 && columns != 17))) continue;
        for (const bool same : {true, false}) {
          check_gram<TypeParam, 2>(n, columns, same, !same, way);
          if (way == Way::serial) check_gram<TypeParam, 0>(n, columns, same, same, way);
        }
      }
}

template <class T, int W>
void check_combine(int n, int columns, Way way) {
  Dice dice(unsigned(2 * n + columns));
  const auto a = dice.values<T>(std::size_t(columns)), c = dice.values<T>(a.size()), e = dice.values<T>(a.size());
  const auto x_before = dice.values<T>(std::size_t(n) + 1);
  // The pairs are replaced, their combination is added to x, or both.
  for (const auto& [pair, add] : {std::pair{true, false}, std::pair{false, true}, std::pair{true, true}}) {
    Set<T> v(columns, n, W > 0, 5), of_host(columns, n, W > 0, 5);
    const Set<T> before(columns, n, W > 0, 5);
    auto x = x_before, x_of_host = x_before;
    launch_pair_combine<8, W, 64>(n, v.pair.data(), columns, pair ? a.data() : nullptr, pair ? c.data() : nullptr,
                                  add ? e.data() : nullptr, add ? x.data() : nullptr,
                                  [&](Global blocks, const auto& kernel) { launch_here(way, blocks, kernel); });
    pair_combine<host_t<T>, Host>(of_host.host().data(), columns, pair ? host_pointer(a.data()) : nullptr,
                                  pair ? host_pointer(c.data()) : nullptr, add ? host_pointer(e.data()) : nullptr,
                                  add ? host_pointer(x_of_host.data()) : nullptr, std::size_t(n));
    const long double allowed = 8 * (columns + 1) * std::numeric_limits<real_t<T>>::epsilon();
    const auto combined = [&](const std::vector<T>& by, int i) {
      Wide sum(0);
      for (int k = 0; k < columns; ++k) sum += wide(by[std::size_t(k)]) * wide(before.at(k, i));
      return sum;
    };
    for (int i = 0; i < n; ++i) {
      const Wide xi = wide(x_before[std::size_t(i)]) + (add ? combined(e, i) : Wide(0));
      ASSERT_LE(std::abs(wide(x[std::size_t(i)]) - xi), allowed) << columns << " columns, element " << i << " of " << n;
      ASSERT_LE(std::abs(wide(x[std::size_t(i)]) - wide(x_of_host[std::size_t(i)])), 2 * allowed);
      for (const int column : {0, 1}) {
        const T got = v.at(column, i);
        if (pair) {
          ASSERT_LE(std::abs(wide(got) - combined(column == 0 ? a : c, i)), allowed)
              << columns << " columns, element " << i;
          ASSERT_LE(std::abs(wide(got) - wide(of_host.at(column, i))), 2 * allowed);
        } else if (column < columns) {
          ASSERT_TRUE(got == before.at(column, i));
        }
      }
      for (int k = 2; k < columns; ++k) ASSERT_TRUE(v.at(k, i) == before.at(k, i)) << "column " << k << " is only read";
    }
    ASSERT_TRUE(x.back() == x_before.back()) << "written beyond the end";
  }
}

TYPED_TEST(TeamPairs, CombinationsReplaceTheFirstPairAndAddToX) {
  for (const Way way : ways)
    for (const int n : {0, 1, 63, 200})
      for (const int columns : {1, 2, 5, 16, 17, 37}) {
        if (way == Way::threads && (n != 200 || columns != 17)) continue;
        check_combine<TypeParam, 2>(n, columns, way);
        check_combine<TypeParam, 0>(n, columns, way);
      }
}

TYPED_TEST(TeamPairs, ColumnsAndMagnitudes) {
  using T = TypeParam;
  for (const Way way : ways)
    for (const int n : {0, 1, 65, 300}) {
      Dice dice(unsigned(n) + 1);
      auto x = dice.values<T>(std::size_t(n));
      Set<T> v(2, n, true, 7);
      const Set<T> before(2, n, true, 7);
      for (const int c : {1, 0}) {
        launch_here(way, (n + 63) / 64, PairPut<T, 64>{n, c, x.data(), v.pair.empty() ? nullptr : v.pair[0]});
        for (int i = 0; i < n; ++i) {
          ASSERT_TRUE(v.at(c, i) == x[std::size_t(i)]);
          if (c == 1) {
            ASSERT_TRUE(v.at(0, i) == before.at(0, i));
          }
        }
      }
      const auto largest = [&](const T* p, int count, int stride) {
        Largest partial[3], result;
        launch_here(way, 3, LargestMagnitude<T, 64>{count, stride, 3, p, partial});
        launch_here(way, 1, SumParts<Largest, 64>{3, 1, partial, &result});
        const double of_host =
            largest_magnitude<host_t<T>, Host>(host_pointer(p), std::size_t(count), std::size_t(stride));
        if (result.value != of_host) {  // both may be infinite, where the difference is NaN
          EXPECT_NEAR(result.value, of_host, 4 * std::numeric_limits<real_t<T>>::epsilon());
        }
        return result.value;
      };
      double most = 0;
      for (const T& a : x) most = std::max(most, double(std::abs(wide(a))));
      EXPECT_NEAR(largest(x.data(), n, 1), most, 4 * std::numeric_limits<real_t<T>>::epsilon());
      if (n == 0) continue;
      EXPECT_NEAR(largest(v.pair[0] + 1, n, 2), most, 4 * std::numeric_limits<real_t<T>>::epsilon());
      x[std::size_t(n / 2)] = poison<T>();
      EXPECT_EQ(largest(x.data(), n, 1), std::numeric_limits<double>::infinity());
    }
}

}  // namespace
}  // namespace tacit::exec
