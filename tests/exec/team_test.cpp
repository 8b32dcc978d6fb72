// Teams: sums, lanes, barriers and per-thread items behave alike with one thread and with many.
#include "exec/team_fixtures.hpp"

#include <tacit/exec/gang.hpp>

#include <new>
#include <numeric>

namespace tacit::exec {
namespace {

static_assert(Team<SerialTeam> && Team<ThreadTeam<1>> && Team<ThreadTeam<64>> && Team<ThreadTeam<96>>);

static_assert(Gang<SerialGang> && Gang<ThreadGang<8>> && !Gang<SerialTeam>);

/// out[block] = the sum of the block's Items numbers, by team.sum().
template <int Threads, int Items>
struct BlockSum {
  static constexpr int threads = Threads;
  struct Shared {};
  const double* in;
  double* out;
  template <Team T>
  void operator()(const T& team, Shared&) const {
    double part = 0;
    for_items<Items>(team, [&](int i) { part += in[team.block() * Items + i]; });
    part = team.sum(part);
    if (team.rank() == T::threads - 1) out[team.block()] = part;
  }
};

template <int Threads, int Items>
void check_block_sum() {
  for (const Global blocks : {0, 1, 2, 3, 5})
    for (const Way way : ways) {
      const auto in = Dice(7).values<double>(blocks * Items);
      std::vector<double> out(blocks, poison<double>());
      launch_here(way, blocks, BlockSum<Threads, Items>{in.data(), out.data()});
      std::vector<Wide> expected(blocks);
      for (Global b = 0; b < blocks; ++b)
        for (int i = 0; i < Items; ++i) expected[b] += wide(in[b * Items + i]);
      expect_close(out, expected, Items);
    }
}

TEST(Team, SumOfAllMembersAtAwkwardSizes) {
  check_block_sum<1, 1>();
  check_block_sum<2, 7>();
  check_block_sum<16, 16>();
  check_block_sum<32, 31>();
  check_block_sum<64, 1>();
  check_block_sum<64, 129>();
  check_block_sum<96, 100>();
}

TEST(Team, SumHasTheSameBitsEveryTime) {
  const auto in = Dice(3).values<double>(5 * 129);
  std::vector<double> first(5), again(5);
  launch_threads(5, BlockSum<64, 129>{in.data(), first.data()});
  for (int i = 0; i < 5; ++i) {
    launch_threads(5, BlockSum<64, 129>{in.data(), again.data()});
    ASSERT_EQ(first, again);
  }
}

/// Groups of W lanes sum W numbers, twice in a row, several scalars at once.
template <int W, int Threads>
struct GroupSums {
  static constexpr int threads = Threads;
  static constexpr int groups = Threads / W;
  struct Shared {};
  const float* in;  // [2, groups, W]
  Sums<3, float>* out;
  template <Team T>
  void operator()(const T& team, Shared&) const {
    const auto lanes = team.template lanes<W>();
    using L = Lanes<W, T>;
    for (int round = 0; round < 2; ++round)
      for (int g = lanes.group(); g < groups; g += L::groups) {
        Sums<3, float> s{};
        for (int i = lanes.lane(); i < W; i += L::width) {
          const float a = in[(round * groups + g) * W + i];
          add_to(s, Sums<3, float>{{a, 2 * a, 1}});
        }
        s = lanes.sum(s);
        if (lanes.lane() == L::width - 1) out[round * groups + g] = s;
      }
  }
};

template <int W, int Threads>
void check_groups() {
  constexpr int n = 2 * Threads / W;
  std::vector<float> in(2 * Threads);
  std::iota(in.begin(), in.end(), 1.f);
  for (const Way way : ways) {
    std::vector<Sums<3, float>> out(n);
    launch_here(way, 1, GroupSums<W, Threads>{in.data(), out.data()});
    for (int g = 0; g < n; ++g) {
      const float expected = W * (g * W + (W + 1) / 2.f);
      EXPECT_EQ(out[g][0], expected);
      EXPECT_EQ(out[g][1], 2 * expected);
      EXPECT_EQ(out[g][2], W);
    }
  }
}

TEST(Team, LanesAddUpWithinTheirGroup) {
  check_groups<1, 8>();
  check_groups<2, 32>();
  check_groups<4, 64>();
  check_groups<8, 8>();
  check_groups<16, 64>();
  check_groups<32, 64>();
}

/// Transposes a tile through shared memory while every thread keeps its own part: barriers, Shared and PerItem.
template <int Side, int Threads>
struct Transpose {
  static constexpr int threads = Threads;
  struct Shared {
    int tile[Side][Side];
  };
  const int* in;
  int* out;
  template <Team T>
  void operator()(const T& team, Shared& shared) const {
    const Global begin = team.block() * Side * Side;
    PerItem<int, Side * Side, T> kept;
    int own = 0;
    for_items<Side * Side>(team, [&](int i) {
      kept[own++] = in[begin + i];
      shared.tile[i / Side][i % Side] = in[begin + i];
    });
    team.barrier();
    own = 0;
    for_items<Side * Side>(team, [&](int i) { out[begin + i] = 1000 * kept[own++] + shared.tile[i % Side][i / Side]; });
  }
};

TEST(Team, MembersKeepTheirItemsAcrossBarriers) {
  constexpr int side = 7;
  for (const Way way : ways)
    for (const Global blocks : {1, 2, 5}) {
      std::vector<int> in(blocks * side * side), out(in.size());
      std::iota(in.begin(), in.end(), 0);
      launch_here(way, blocks, Transpose<side, 16>{in.data(), out.data()});
      for (Global b = 0; b < blocks; ++b)
        for (int i = 0; i < side * side; ++i) {
          const Global base = b * side * side;
          ASSERT_EQ(out[base + i], 1000 * (base + i) + base + i % side * side + i / side);
        }
    }
}

template <class T>
struct Pile {
  static constexpr int threads = 32;
  struct Shared {};
  T* x;
  template <Team U>
  void operator()(const U& team, Shared&) const {
    for_items<32>(team, [&](int i) { atomic_add(x + i % 3, T(i)); });
  }
};

/// out = in through shared memory, with two groups of asynchronous copies in flight; `waits`: for the older one, as
/// required.
struct CopyThrough {
  static constexpr int threads = 32, pieces = 4;
  struct Shared {
    double x[2][threads];
  };
  const double* in;
  double* out;
  bool waits;
  template <Team T>
  void operator()(const T& team, Shared& shared) const {
    const double* const from = in + team.block() * pieces * threads;
    const auto start = [&](int p) {
      for_items<threads>(team, [&](int i) { team.template copy<8>(&shared.x[p % 2][i], from + p * threads + i); });
      team.close_copies();
    };
    start(0);
    for (int p = 0; p < pieces; ++p) {
      if (p + 1 < pieces) start(p + 1);
      else team.close_copies();
      if (waits) team.template await_copies<1>();
      team.barrier();
      // Reads what other threads have copied, in reverse order.
      for_items<threads>(
          team, [&](int i) { out[(team.block() * pieces + p) * threads + i] = shared.x[p % 2][threads - 1 - i]; });
      team.barrier();
    }
  }
};

TEST(Team, CopiesArriveWhenTheyAreWaitedForAndNotBefore) {
  const Global blocks = 3, n = blocks * CopyThrough::pieces * CopyThrough::threads;
  const auto in = Dice(5).values<double>(n);
  for (const Way way : ways) {
    std::vector<double> out(n, 0.0);
    launch_here(way, blocks, CopyThrough{in.data(), out.data(), true});
    for (Global i = 0; i < n; ++i) {
      const Global first = i / CopyThrough::threads * CopyThrough::threads;
      ASSERT_EQ(out[i], in[first + CopyThrough::threads - 1 - (i - first)]);
    }
  }
  std::vector<double> early(n, 0.0);
  launch_threads(blocks, CopyThrough{in.data(), early.data(), false});
  for (const double v : early) ASSERT_TRUE(std::isnan(v));
}

/// One thread of one team throws between two barriers.
struct Breaks {
  static constexpr int threads = 8;
  struct Shared {};
  Global block;
  int* done;
  template <Team T>
  void operator()(const T& team, Shared&) const {
    team.barrier();
    if (team.block() == block && team.rank() == T::threads - 1) throw std::bad_alloc();
    (void)team.sum(1.0);
    if (team.rank() == 0) done[team.block()] = 1;
  }
};

TEST(Team, RethrowsTheErrorOfAMember) {
  for (const Way way : ways) {
    std::vector<int> done(9);
    EXPECT_THROW(launch_here(way, 9, Breaks{4, done.data()}), std::bad_alloc);
    launch_here(way, 9, Breaks{-1, done.data()});
    EXPECT_EQ(done, std::vector<int>(9, 1));
  }
  std::vector<int> done(3);
  EXPECT_THROW(launch_gang_threads(3, Breaks{1, done.data()}), std::bad_alloc);
  launch_gang_threads(3, Breaks{-1, done.data()});
  EXPECT_EQ(done, std::vector<int>(3, 1));
}

TEST(Team, AtomicAddsLoseNothing) {
  for (const Way way : ways) {
    std::complex<double> z[3] = {};
    float a[3] = {};
    launch_here(way, 20, Pile<std::complex<double>>{z});
    launch_here(way, 20, Pile<float>{a});
    EXPECT_EQ(z[0] + z[1] + z[2], 20. * 31 * 16);
    EXPECT_EQ(a[0] + a[1] + a[2], 20. * 31 * 16);
  }
}

TEST(Complex, EqualsStdComplex) {
  static_assert(sizeof(Complex<double>) == 16 && alignof(Complex<double>) == 8 && std::is_trivial_v<Complex<float>>);
  Dice dice(1);
  for (int i = 0; i < 100; ++i) {
    const auto a = dice.value<std::complex<double>>(), b = dice.value<std::complex<double>>();
    const Complex<double> p(a), q(b);
    const double s = dice.value<double>();
    const auto same = [](Complex<double> x, std::complex<double> y) {
      return std::abs(std::complex<double>(x) - y) < 1e-12 * (1 + std::abs(y));
    };
    EXPECT_TRUE(same(p + q, a + b) && same(p - q, a - b) && same(p * q, a * b) && same(p / q, a / b));
    EXPECT_TRUE(same(p + s, a + s) && same(p - s, a - s) && same(p * s, a * s) && same(p / s, a / s));
    EXPECT_TRUE(same(s + p, s + a) && same(s - p, s - a) && same(s * p, s * a) && same(s / p, s / a));
    EXPECT_TRUE(same(conj(p), std::conj(a)) && same(-p, -a));
    EXPECT_DOUBLE_EQ(abs2(p), std::norm(a));
    EXPECT_DOUBLE_EQ(abs(p), std::abs(a));
    auto r = p;
    auto t = a;
    r += q, t += b, r *= q, t *= b, r -= q, t -= b, r /= q, t /= b, r *= s, t *= s, r /= s, t /= s, r += s, t += s,
        r -= s, t -= s;
    EXPECT_TRUE(same(r, t));
  }
}

/// Rounds of x_i := x_(i - 1) + x_(i + 1) on a ring that all teams share, alternating between two arrays, with the sum
/// of all elements after each round.
template <int Threads>
struct Rounds {
  static constexpr int threads = Threads;
  struct Shared {};
  int n, rounds;
  double* x[2];
  double *partial, *sums;
  template <Gang G>
  void operator()(const G& gang, Shared&) const {
    GangSum<double> add(partial);
    for (int round = 0; round < rounds; ++round) {
      const double* const from = x[round % 2];
      double* const to = x[1 - round % 2];
      double part = 0;
      for_items<Threads>(gang, [&](int t) {
        for (Global i = gang.block() * Threads + t; i < n; i += gang.teams() * Threads)
          part += to[i] = from[(i + n - 1) % n] + from[(i + 1) % n];
      });
      const double sum = add(gang, part);  // synchronises all teams
      if (gang.block() == gang.teams() - 1 && gang.rank() == G::threads - 1) sums[round] = sum;
    }
  }
};

TEST(Gang, TeamsMeetAndAddUp) {
  constexpr int rounds = 9;
  for (const int n : {1, 3, 50}) {
    std::vector<double> first(n, 0.0);
    first[n / 2] = 1;
    for (const Global teams : {0, 1, 2, 4}) {  // 0: the gang is one host thread
      std::vector<double> a = first, b(n, poison<double>()), partial(2 * std::max<Global>(1, teams)), sums(rounds);
      const Rounds<4> kernel{n, rounds, {a.data(), b.data()}, partial.data(), sums.data()};
      if (teams == 0) launch_gang_serial(kernel);
      else launch_gang_threads(teams, kernel);
      for (int round = 0; round < rounds; ++round) EXPECT_EQ(sums[round], std::ldexp(1.0, round + 1)) << n << teams;
      std::vector<double> x = first, y(n);
      for (int round = 0; round < rounds; ++round, x.swap(y))
        for (int i = 0; i < n; ++i) y[i] = x[(i + n - 1) % n] + x[(i + 1) % n];
      EXPECT_EQ(b, x);
    }
  }
}

}  // namespace
}  // namespace tacit::exec
