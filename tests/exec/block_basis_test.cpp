// Kernels on blocks of vectors compared with explicit sums, for every storage of the basis.
#include "support/scalars.hpp"
#include "support/systems.hpp"
#include "support/threads.hpp"

#include <tacit/exec/basis.hpp>

#include <gtest/gtest.h>

#include <bit>
#include <cstring>

namespace tacit::test {
namespace {

using exec::Bfloat16;

double widened(Bfloat16 a) {
  return std::bit_cast<float>(std::uint32_t(a.bits) << 16);
}
std::complex<double> widened(exec::ComplexBfloat16 a) {
  return {widened(a.re), widened(a.im)};
}
template <Scalar T>
auto widened(T a) {
  return widen(a);
}

template <class T, class S>
struct Sample {
  Sample(int j, int s, std::size_t n, int seed = 1) : j(j), s(s), n(n) {
    for (int i = 0; i < j; ++i) {
      const auto from = random_vector<T>(Global(n), seed + i);
      stored.emplace_back(n);
      exec::store<T, Host, S>(from.data(), stored.back().data(), n);
      q.push_back(stored.back().data());
    }
    for (int c = 0; c < s; ++c) block.push_back(random_vector<T>(Global(n), seed + 100 + c));
    for (auto& column : block) v.push_back(column.data());
  }
  wide_t<T> dot(int i, int c) const {
    wide_t<T> sum(0);
    for (std::size_t e = 0; e < n; ++e)
      sum += wide_conj(i < j ? wide_t<T>(widened(stored[i][e])) : wide_t<T>(widened(block[i - j][e]))) *
             wide_t<T>(widened(block[c][e]));
    return sum;
  }
  int j, s;
  std::size_t n;
  std::vector<std::vector<S>> stored;
  std::vector<std::vector<T>> block;
  std::vector<const S*> q;
  std::vector<T*> v;
};

template <class T>
struct Arithmetic {
  static constexpr double epsilon = double(std::numeric_limits<real_t<T>>::epsilon());
};

template <class Pair>
class BlockBasis : public testing::Test {};
template <class T, class S>
struct Stored {
  using scalar = T;
  using storage = S;
};
#define TACIT_AND_STORED(T) , Stored<T, T>, Stored<T, exec::Short<T>>
#if TACIT_SCALARS_Host & 8
#define TACIT_AND_SINGLE , Stored<double, float>, Stored<std::complex<double>, std::complex<float>>
#else
#define TACIT_AND_SINGLE , Stored<double, float>
#endif
using Kinds = AfterFirst<void TACIT_EACH_SCALAR(Host, TACIT_AND_STORED) TACIT_AND_SINGLE>::types;
TYPED_TEST_SUITE(BlockBasis, Kinds);

const std::vector<std::array<std::size_t, 3>> shapes{{0, 1, 1},    {1, 1, 0},    {3, 2, 7},     {4, 5, 256},
                                                     {5, 10, 257}, {7, 6, 1000}, {2, 11, 8191}, {11, 10, 8200},
                                                     {31, 4, 515}, {6, 3, 20001}};

TYPED_TEST(BlockBasis, GramEqualsTheInnerProducts) {
  using T = typename TypeParam::scalar;
  using S = typename TypeParam::storage;
  for (const auto& [j, s, n] : shapes) {
    const Sample<T, S> a(int(j), int(s), n);
    std::vector<T> G((j + s) * s, T(-7));
    exec::block_gram<T, Host, S>(a.q.data(), a.j, a.v.data(), a.s, n, G.data());
    for (int c = 0; c < a.s; ++c)
      for (int i = 0; i < a.j + a.s; ++i)
        EXPECT_LE(std::abs(widen(G[c * (j + s) + i]) - a.dot(i, c)),
                  Arithmetic<T>::epsilon * (20 * std::sqrt(double(n)) + 2 * double(std::abs(a.dot(i, c)))))
            << j << " " << s << " " << n << ": " << i << ", " << c;
    for (int c = 0; c < a.s; ++c)
      for (int i = 0; i <= c; ++i)
        EXPECT_EQ(G[c * (j + s) + j + i], conj(G[i * (j + s) + j + c])) << "Hermitian to the last bit";
  }
}

TYPED_TEST(BlockBasis, UpdateEqualsTheLinearCombination) {
  using T = typename TypeParam::scalar;
  using S = typename TypeParam::storage;
  for (const auto& [j, s, n] : shapes)
    for (const bool scaled : {false, true})
      for (const bool narrow : {false, true}) {
        Sample<T, S> a(int(j), int(s), n);
        const auto C = random_vector<T>(Global(j * s), 3);
        const auto W = random_vector<T>(Global(s * s), 4);  // upper triangular: entries below the diagonal are not read
        const auto before = a.block;
        std::vector<std::vector<S>> out(s, std::vector<S>(n));
        std::vector<S*> to;
        for (auto& o : out) to.push_back(o.data());
        exec::block_update_stored<T, Host, S>(a.q.data(), a.j, C.data(), a.v.data(), a.s, scaled ? W.data() : nullptr,
                                              narrow ? to.data() : nullptr, n);
        const double rounding = std::same_as<real_t<T>, float> ? 1e-5 : 1e-13;
        for (int c = 0; c < a.s; ++c)
          for (std::size_t e = 0; e < n; e += 1 + n / 50) {
            wide_t<T> sum(0);
            for (int l = 0; l < a.s; ++l) {
              if (scaled ? l > c : l != c) continue;
              wide_t<T> left(widen(before[l][e]));
              for (int i = 0; i < a.j; ++i) left -= wide_t<T>(widened(a.stored[i][e])) * wide_t<T>(widen(C[l * j + i]));
              sum += scaled ? left * wide_t<T>(widen(W[c * s + l])) : left;
            }
            if (narrow) {
              const double step = sizeof(S) == sizeof(T)                                 ? 0
                                  : sizeof(S) * 2 == sizeof(T) && sizeof(real_t<T>) == 8 ? 6e-8
                                                                                         : 4e-3;
              EXPECT_LE(std::abs(wide_t<T>(widened(out[c][e])) - sum),
                        rounding * double(j + s) + step * double(std::abs(sum)));
            }
            if (!narrow || c == a.s - 1) {
              EXPECT_LE(std::abs(widen(a.block[c][e]) - sum), rounding * double(j + s));
            } else EXPECT_EQ(a.block[c][e], before[c][e]);
          }
      }
}

TYPED_TEST(BlockBasis, UpdateAndGramEqualsUpdateThenGram) {
  using T = typename TypeParam::scalar;
  using S = typename TypeParam::storage;
  for (const auto& [j, s, n] : shapes) {
    Sample<T, S> a(int(j), int(s), n), b(int(j), int(s), n);
    const auto C = random_vector<T>(Global(j * s), 3);
    const auto W = random_vector<T>(Global(s * s), 4);
    std::vector<T> G((j + s) * s), H((j + s) * s);
    exec::block_update_gram<T, Host, S>(a.q.data(), a.j, C.data(), a.v.data(), a.s, W.data(), n, G.data());
    exec::block_update_stored<T, Host, S>(b.q.data(), b.j, C.data(), b.v.data(), b.s, W.data(), nullptr, n);
    exec::block_gram<T, Host, S>(b.q.data(), b.j, b.v.data(), b.s, n, H.data());
    EXPECT_EQ(a.block, b.block);
    EXPECT_EQ(G, H);
  }
}

TYPED_TEST(BlockBasis, CombineEqualsTheLinearCombination) {
  using T = typename TypeParam::scalar;
  using S = typename TypeParam::storage;
  for (const auto& [j, s, n] : shapes) {
    Sample<T, S> a(int(j), int(s), n);
    const auto C = random_vector<T>(Global(j * s), 3);
    const auto before = a.block;
    exec::block_combine_stored<T, Host, S>(a.q.data(), a.j, C.data(), a.v.data(), a.s, n);
    for (int c = 0; c < a.s; ++c)
      for (std::size_t e = 0; e < n; e += 1 + n / 50) {
        wide_t<T> sum(widen(before[c][e]));
        for (int i = 0; i < a.j; ++i) sum += wide_t<T>(widened(a.stored[i][e])) * wide_t<T>(widen(C[c * j + i]));
        EXPECT_LE(std::abs(widen(a.block[c][e]) - sum),
                  (std::same_as<real_t<T>, float> ? 1e-5 : 1e-13) * double(j + 1));
      }
  }
}

TYPED_TEST(BlockBasis, SameBitsForAnyNumberOfThreads) {
  using T = typename TypeParam::scalar;
  using S = typename TypeParam::storage;
  const std::size_t n = 40003;
  std::vector<T> G(17 * 6), first;
  std::vector<std::vector<T>> block;
  const auto C = random_vector<T>(11 * 6, 3);
  const auto W = random_vector<T>(36, 4);
  for (const int threads : {1, 2, 3, 5}) {
    const Threads team(threads);
    Sample<T, S> a(11, 6, n);
    exec::block_update_gram<T, Host, S>(a.q.data(), 11, C.data(), a.v.data(), 6, W.data(), n, G.data());
    if (threads == 1) first = G, block = a.block;
    EXPECT_EQ(G, first) << threads;
    EXPECT_EQ(a.block, block) << threads;
  }
}

TEST(BlockBasis, BlockMayBeTheLastVectorsOfTheBasis) {
  using T = double;
  Sample<T, T> a(5, 3, 900);
  auto q = a.q;
  q.insert(q.end(), a.v.begin(), a.v.end());
  std::vector<T> G(24), H(24);
  exec::block_gram<T, Host, T>(a.q.data(), 5, a.v.data(), 3, 900, G.data());
  exec::block_dots<T, Host>(q.data(), 8, a.v.data(), 3, 900, H.data());
  EXPECT_EQ(G, H);
  // In another order the vectors are not recognised as the block: sums are equal to rounding only.
  std::swap(q[6], q[7]);
  exec::block_dots<T, Host>(q.data(), 8, a.v.data(), 3, 900, H.data());
  for (int c = 0; c < 3; ++c)
    for (int i = 0; i < 8; ++i) EXPECT_LE(std::abs(H[c * 8 + i] - G[c * 8 + (i == 6 ? 7 : i == 7 ? 6 : i)]), 1e-12);
}

#if TACIT_SCALARS_Host & 1
TEST(BlockBasis, StoringRoundsToNearest) {
  const std::vector<float> a{1.0f,      1.00390625f, 1.01171875f, -3.1415926f, INFINITY,
                             -INFINITY, NAN,         0.0f,        3.4e38f,     1e-40f};
  std::vector<Bfloat16> b(a.size());
  exec::store<float, Host, Bfloat16>(a.data(), b.data(), a.size());
  EXPECT_EQ(widened(b[0]), 1);
  EXPECT_EQ(widened(b[1]), 1);         // a tie: to even
  EXPECT_EQ(widened(b[2]), 1.015625);  // a tie: to even
  EXPECT_EQ(widened(b[3]), -3.140625);
  EXPECT_EQ(widened(b[4]), INFINITY);
  EXPECT_EQ(widened(b[5]), -INFINITY);
  EXPECT_TRUE(std::isnan(widened(b[6])));
  EXPECT_EQ(widened(b[7]), 0);
}
#endif

}  // namespace
}  // namespace tacit::test
