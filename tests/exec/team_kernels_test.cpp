// The kernels of sweeps and Gram-Schmidt, run by one thread and by teams of threads, compared with plain loops.
#include "exec/team_fixtures.hpp"

#include <tacit/exec/kernels.hpp>
#include "exec/block_kernels.hpp"

#include <numeric>

namespace tacit::exec {
namespace {

constexpr int sizes[] = {0, 1, 2, 3, 31, 63, 64, 65, 127, 128, 257, 1000};
/// Teams of threads are slow: they run some of the sizes only.
bool takes(Way way, int n) {
  return way == Way::serial || n == 0 || n == 65 || n == 257;
}

template <class T>
class TeamKernels : public ::testing::Test {};
TYPED_TEST_SUITE(TeamKernels, KernelScalars);

/// x += alpha r; y = beta (s - r), and the sums of conj(r) x and |y|^2.
template <class T>
struct Formula {
  T alpha;
  real_t<T> beta;
  TACIT_HD Sums<2, T> operator()(T r, T s, T& x, T& y) const {
    x = x + alpha * r;
    y = beta * (s - r);
    return {{conj(r) * x, T(abs2(y))}};
  }
};
template <class T>
struct Halve {
  TACIT_HD void operator()(T& x) const { x = real_t<T>(0.5) * x; }
};

template <class T, int W, int Threads>
void check_pass(int n, Way way) {
  Dice dice(n + 1);
  // W = 0 needs no alignment: arrays begin at their second element.
  const int skip = W == 0 ? 1 : 0;
  struct alignas(16) Aligned {
    T v[1024];
  };
  auto mem = std::make_unique<Aligned[]>(4);
  T *r = mem[0].v + skip, *s = mem[1].v + skip, *x = mem[2].v + skip, *y = mem[3].v + skip;
  for (int i = 0; i < n; ++i)
    r[i] = dice.value<T>(), s[i] = dice.value<T>(), x[i] = dice.value<T>(), y[i] = poison<T>();
  y[n] = T(7);
  const Formula<T> f{dice.value<T>(), real_t<T>(0.75)};
  std::vector<Wide> expected_x(n), expected_y(n), expected_sums(2);
  for (int i = 0; i < n; ++i) {
    expected_x[i] = wide(x[i]) + wide(f.alpha) * wide(r[i]);
    expected_y[i] = 0.75l * (wide(s[i]) - wide(r[i]));
    expected_sums[0] += std::conj(wide(r[i])) * expected_x[i];
    expected_sums[1] += std::norm(expected_y[i]);
  }
  using Pass = SweepPass<Formula<T>, Types<T, T>, Types<T>, Types<T>, W, Threads>;
  static_assert(Pass::has_sums && Pass::width == std::max(W, 1));
  const Global blocks = std::min<Global>(blocks_for(n, Pass::width * Threads), 3);  // some process several parts
  std::vector<Sums<2, T>> partial(blocks);
  Sums<2, T> total{};
  Pass pass{n, blocks, f, {}, {}, {}, partial.data()};
  get<0>(pass.in) = r, get<1>(pass.in) = s, get<0>(pass.io) = x, get<0>(pass.out) = y;
  launch_here(way, blocks, pass);
  launch_here(way, 1, SumParts<Sums<2, T>, Threads>{blocks, 1, partial.data(), &total});
  expect_close(std::vector<T>(x, x + n), expected_x, 4);
  expect_close(std::vector<T>(y, y + n), expected_y, 4);
  expect_close(std::vector<T>{total[0], total[1]}, expected_sums, 20);
  EXPECT_TRUE(y[n] == T(7)) << "written beyond the end";

  using Second = SweepPass<Halve<T>, Types<>, Types<T>, Types<>, W, Threads>;
  Second second{n, blocks, {}, {}, {}, {}, nullptr};
  get<0>(second.io) = x;
  launch_here(way, blocks, second);
  for (Wide& a : expected_x) a *= 0.5l;
  expect_close(std::vector<T>(x, x + n), expected_x, 4);
}

TYPED_TEST(TeamKernels, SweepDoesEveryElementOnce) {
  for (const Way way : ways)
    for (const int n : sizes) {
      if (!takes(way, n)) continue;
      check_pass<TypeParam, 0, 32>(n, way);
      check_pass<TypeParam, packet_width<TypeParam>, 64>(n, way);
    }
}

template <class T>
struct Mixed {
  TACIT_HD Sums<1, double> operator()(float w, T& x) const {
    x = real_t<T>(w) * x;
    return {{double(w)}};
  }
};

TEST(TeamKernelsMixed, ASweepMayMixScalars) {
  for (const Way way : ways) {
    using T = std::complex<float>;
    using Pass = SweepPass<Mixed<T>, Types<float>, Types<T>, Types<>, 2, 32>;
    std::vector<float> w(101);
    std::vector<T> x(101, T(2, 1));
    std::iota(w.begin(), w.end(), 0.f);
    Sums<1, double> partial[2];
    Pass pass{101, 2, {}, {}, {}, {}, partial};
    get<0>(pass.in) = w.data(), get<0>(pass.io) = x.data();
    launch_here(way, 2, pass);
    EXPECT_EQ(partial[0][0] + partial[1][0], 5050);
    for (int i = 0; i < 101; ++i) EXPECT_EQ(x[i], T(2 * i, i));
  }
}

template <class T, int W>
void check_basis(int n, int columns, Way way) {
  constexpr int threads = 32;
  Dice dice(n + 10 * columns);
  const Global stride = (n + 3) / 4 * 4;
  struct alignas(16) Aligned {
    T v[4];
  };
  std::vector<Aligned> basis(stride / 4 * columns + 1), vector(stride / 4 + 1);
  T *q = basis[0].v, *v = vector[0].v;
  for (Global i = 0; i < stride * columns; ++i) q[i] = dice.value<T>();
  for (int i = 0; i < n; ++i) v[i] = dice.value<T>();
  std::vector<Wide> expected(columns);
  for (int c = 0; c < columns; ++c)
    for (int i = 0; i < n; ++i) expected[c] += std::conj(wide(q[c * stride + i])) * wide(v[i]);
  using Dots = BasisDots<T, 12, 4, W, threads>;
  const Global slices = 3;
  std::vector<T> partial(slices * columns, poison<T>()), h(columns, poison<T>());
  Dots dots{n, columns, slices, v, partial.data(), {}};
  for (int c = 0; c < columns; ++c) dots.q[c] = q + c * stride;
  launch_here(way, slices * dots.groups(), dots);
  launch_here(way, columns, SumParts<T, threads>{slices, columns, partial.data(), h.data()});
  expect_close(h, expected, 30);

  const T scale = dice.value<T>();
  std::vector<Wide> updated(n), norm(1);
  for (int i = 0; i < n; ++i) {
    updated[i] = wide(v[i]);
    for (int c = 0; c < columns; ++c) updated[i] -= wide(h[c]) * wide(q[c * stride + i]);
    updated[i] *= wide(scale);
    norm[0] += std::norm(updated[i]);
  }
  std::vector<T> squares(2, poison<T>()), square(1);
  BasisUpdate<T, 12, W, threads> update{n, columns, 2, scale, v, squares.data(), {}, {}};
  for (int c = 0; c < columns; ++c) update.q[c] = q + c * stride, update.a[c] = -h[c];
  launch_here(way, 2, update);
  launch_here(way, 1, SumParts<T, threads>{2, 1, squares.data(), square.data()});
  expect_close(std::vector<T>(v, v + n), updated, 30);
  expect_close(square, norm, 60);
}

TYPED_TEST(TeamKernels, BasisDotsAndUpdateAreGramSchmidt) {
  for (const Way way : ways)
    for (const int n : {0, 1, 5, 63, 64, 65, 200})
      for (const int columns : {1, 3, 4, 9}) {
        if (way == Way::threads && (n != 65 || columns == 3)) continue;
        check_basis<TypeParam, 0>(n, columns, way);
        check_basis<TypeParam, packet_width<TypeParam>>(n, columns, way);
      }
}

template <class T, class S, int W>
void check_block(int n, int rows, int columns, Way way) {
  Dice dice(n + rows);
  constexpr int stride = 256;
  struct alignas(16) Column {
    T v[stride];
  };
  struct alignas(16) Row {
    S v[stride];
  };
  std::vector<Row> q(rows);
  std::vector<Column> v(columns);
  for (auto& x : q)
    for (auto& a : x.v) a = narrowed<S>(dice.value<T>());
  for (auto& x : v)
    for (auto& a : x.v) a = dice.value<T>();
  constexpr Global slices = 2;
  using Dots = BlockDots<T, S, 16, 8, 4, 4, W, 2>;
  std::vector<T> partial(slices * rows * columns, poison<T>()), sums(rows * columns, poison<T>());
  Dots dots{n, rows, columns, slices, partial.data(), {}, {}};
  for (int r = 0; r < rows; ++r) dots.q[r] = q[r].v;
  for (int c = 0; c < columns; ++c) dots.v[c] = v[c].v;
  launch_here(way, slices * dots.teams(), dots);
  launch_here(way, rows * columns, SumParts<T, 64>{slices, rows * columns, partial.data(), sums.data()});
  std::vector<Wide> expected(rows * columns);
  for (int c = 0; c < columns; ++c)
    for (int r = 0; r < rows; ++r)
      for (int i = 0; i < n; ++i) expected[c * rows + r] += std::conj(wide(widened<T>(q[r].v[i]))) * wide(v[c].v[i]);
  expect_close(sums, expected, 40);

  // V := (V - Q C) W in place, W upper triangular; the last column is also written to a second array.
  constexpr int C = 4;
  const int count = std::min(columns, C);
  const auto a = dice.values<T>(std::size_t(rows + count) * C);
  const auto before = v;
  std::vector<Row> stored(C);
  BlockCombine<T, S, 16, 8, C, W, 64> combine{n, 2, rows, count, false, a.data(), {}, {}, {}, {}};
  for (int r = 0; r < rows; ++r) combine.q[r] = q[r].v;
  for (int c = 0; c < count; ++c) combine.v[c] = v[c].v, combine.out[c] = v[c].v;
  combine.stored[count - 1] = stored[0].v;
  launch_here(way, 2, combine);
  for (int c = 0; c < count; ++c) {
    std::vector<Wide> sum(n);
    for (int i = 0; i < n; ++i) {
      for (int r = 0; r < rows; ++r) sum[i] += wide(a[r * C + c]) * wide(widened<T>(q[r].v[i]));
      for (int l = 0; l < count; ++l) sum[i] += wide(a[(rows + l) * C + c]) * wide(before[l].v[i]);
    }
    expect_close(std::vector<T>(v[c].v, v[c].v + n), sum, 40);
    for (int i = n; i < stride; ++i) ASSERT_TRUE(v[c].v[i] == before[c].v[i]);
    if (c == count - 1)
      for (int i = 0; i < n; ++i) {
        const S rounded = narrowed<S>(v[c].v[i]);
        ASSERT_EQ(std::memcmp(&stored[0].v[i], &rounded, sizeof(S)), 0);
      }
  }
}

TYPED_TEST(TeamKernels, BlocksAreSumsAndCombinations) {
  using T = TypeParam;
  using Narrow = std::conditional_t<is_complex<T>, ComplexBfloat16, Bfloat16>;
  for (const Way way : ways)
    for (const int n : {0, 1, 31, 64, 65, 200})
      for (const auto& [rows, columns] : {std::pair{1, 1}, std::pair{5, 3}, std::pair{11, 6}}) {
        if (way == Way::threads && (n != 65 || rows == 5)) continue;
        check_block<T, T, 0>(n, rows, columns, way);
        check_block<T, T, packet_width<T>>(n, rows, columns, way);
        check_block<T, Narrow, packet_width<T>>(n, rows, columns, way);
      }
}

TYPED_TEST(TeamKernels, GatherAndScatterAddAreTransposed) {
  using T = TypeParam;
  for (const Way way : ways)
    for (const int k : {1, 3})
      for (const int n : {0, 1, 33, 100}) {
        Dice dice(n + k);
        std::vector<Local> index(n), distinct(n);
        for (Local& i : index) i = dice.below(20);
        std::iota(distinct.rbegin(), distinct.rend(), 7);
        const auto x = dice.values<T>((n + 20) * k);
        std::vector<T> out(n * k, poison<T>());
        const Global blocks = (n * k + 31) / 32;
        launch_here(way, blocks, Gather<T, 32>{n, k, index.data(), x.data(), out.data()});
        for (int i = 0; i < n; ++i)
          for (int c = 0; c < k; ++c) ASSERT_TRUE(out[i * k + c] == x[index[i] * k + c]);
        const auto check = [&](const auto& kernel, const std::vector<T>& y, const std::vector<Local>& to) {
          std::vector<Wide> expected;
          for (const T& a : x) expected.push_back(wide(a));
          for (int i = 0; i < n; ++i)
            for (int c = 0; c < k; ++c) expected[to[i] * k + c] += wide(out[i * k + c]);
          launch_here(way, blocks, kernel);
          expect_close(y, expected, 20);
        };
        auto y = x, z = x;
        check(ScatterAdd<T, false, 32>{n, k, index.data(), out.data(), y.data()}, y, index);
        check(ScatterAdd<T, true, 32>{n, k, distinct.data(), out.data(), z.data()}, z, distinct);
      }
}

}  // namespace
}  // namespace tacit::exec
