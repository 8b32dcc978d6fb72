// Solves with factors by levels: as kernels, by teams of threads, and as an operator in every memory.
#include "precond/triangular_levels.hpp"

#include <tacit/layout/ordering.hpp>
#include <tacit/layout/partitioners.hpp>
#include <tacit/precond/make.hpp>
#include "precond/block_jacobi_on_device.hpp"
#include "precond/kernels/triangular.hpp"

#include "exec/team_fixtures.hpp"
#include "support/communicators.hpp"
#include "support/memory.hpp"
#include "support/methods.hpp"
#include "support/precond.hpp"
#include "support/reference.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

namespace tacit::test {
namespace {

using exec::Dice;
using exec::Way;
using exec::Wide;
using precond::Factorisation;
using precond::Incomplete;
using precond::LevelRun;
using precond::LevelSolve;
using precond::TriangularFactors;
using precond::TriangularLevels;
using precond::TriangularOnDevice;

/// What a factor is like: chains of this many rows that depend on each other, entries in a row.
struct Shape {
  Local rows, chain;
  int entries;
};

/// Row i has entries in columns of its own chain only, at most `entries` of them, |s_ij| small enough that solves do
/// not grow. The first rows have the longest.
template <class T>
op::LocalRows<T> strict_part(const Shape& shape, bool is_upper, Dice& dice) {
  op::LocalRows<T> s;
  s.columns = shape.rows;
  for (Local i = 0; i < shape.rows; ++i) {
    const Local first = i / shape.chain * shape.chain, end = std::min(shape.rows, first + shape.chain);
    std::vector<Local> column;
    for (int k = 0; k < shape.entries; ++k) {
      const Local below = is_upper ? end - i - 1 : i - first;
      if (below == 0 || k >= 1 + (i + 3) % shape.entries) break;
      column.push_back(is_upper ? i + 1 + dice.below(below) : i - 1 - dice.below(below));
    }
    if (!is_upper && i > first) column.push_back(i - 1);  // levels as long as chains
    std::sort(column.begin(), column.end());
    column.erase(std::unique(column.begin(), column.end()), column.end());
    for (const Local c : column)
      s.column.push_back(c), s.value.push_back(dice.value<T>() * T(real_t<T>(0.5 / shape.entries)));
    s.start.push_back(Global(s.column.size()));
  }
  return s;
}

template <class T>
TriangularFactors<T> random_factors(const Shape& shape, unsigned seed, bool scaled_lower, bool scaled_upper,
                                    bool with_powers) {
  Dice dice(seed);
  TriangularFactors<T> f;
  f.lower = strict_part<T>(shape, false, dice), f.upper = strict_part<T>(shape, true, dice);
  const auto n = std::size_t(shape.rows);
  const auto inverse = [&] {
    auto d = dice.values<T>(n);
    for (T& v : d) v = T(real_t<T>(0.75)) + v * T(real_t<T>(0.25));
    return d;
  };
  if (scaled_lower) f.lower_inverse = inverse();
  if (scaled_upper) f.upper_inverse = inverse();
  for (auto* to : {&f.row, &f.column}) {
    to->resize(n);
    std::iota(to->begin(), to->end(), 0);
    for (std::size_t i = n; i-- > 1;) std::swap((*to)[i], (*to)[std::size_t(dice.below(int(i) + 1))]);
  }
  if (with_powers) {
    for (std::size_t i = 0; i < n; ++i) f.row_exponent.push_back(dice.below(9) - 4);
    for (std::size_t i = 0; i < n; ++i) f.column_exponent.push_back(dice.below(9) - 4);
    f.negative = true;
  }
  return f;
}

/// y for x, row after row, in extended precision.
template <class T>
std::vector<Wide> solved(const TriangularFactors<T>& f, const std::vector<T>& x, int k) {
  const auto n = std::size_t(f.lower.count());
  std::vector<Wide> w(n * std::size_t(k)), y(w.size());
  const auto power = [](const std::vector<int>& exponent, Local i) {
    return exponent.empty() ? 1.0L : std::ldexp(1.0L, exponent[std::size_t(i)]);
  };
  for (int c = 0; c < k; ++c) {
    const auto at = [&](std::size_t i) { return i * std::size_t(k) + std::size_t(c); };
    const auto row = [&](const op::LocalRows<T>& s, const std::vector<T>& inverse, std::size_t i) {
      for (Global e = s.start[i]; e < s.start[i + 1]; ++e)
        w[at(i)] -= exec::wide(s.value[std::size_t(e)]) * w[at(std::size_t(s.column[std::size_t(e)]))];
      if (!inverse.empty()) w[at(i)] *= exec::wide(inverse[i]);
    };
    for (std::size_t i = 0; i < n; ++i)
      w[at(i)] = power(f.row_exponent, f.row[i]) * exec::wide(x[at(std::size_t(f.row[i]))]);
    for (std::size_t i = 0; i < n; ++i) row(f.lower, f.lower_inverse, i);
    for (std::size_t i = n; i-- > 0;) row(f.upper, f.upper_inverse, i);
    for (std::size_t i = 0; i < n; ++i)
      y[at(std::size_t(f.column[i]))] = (f.negative ? -1.0L : 1.0L) * power(f.column_exponent, f.column[i]) * w[at(i)];
  }
  return y;
}

constexpr Shape shapes[] = {{0, 1, 1}, {1, 1, 1}, {70, 70, 2}, {97, 7, 3}, {300, 2, 1}, {180, 60, 24}};

template <class T>
class TriangularKernels : public testing::Test {};
TYPED_TEST_SUITE(TriangularKernels, ScalarsInMemory);

/// Every team is one thread, or threads under the race checker.
template <class T, int Lanes, int K>
void expect_solved(const TriangularFactors<T>& f, int k, Way way) {
  using U = kernel_scalar_t<T>;
  using Kernel = LevelSolve<U, Lanes, K, 64>;
  const TriangularLevels<T> a(f);
  ASSERT_EQ(a.lanes, Lanes);
  const auto x = Dice(3).values<T>(std::size_t(a.rows) * std::size_t(k));
  exec::Array<T, Host> z(2 * x.size());
  for (T& v : std::span(z.data(), z.size())) v = exec::poison<T>();
  for (std::size_t p = 0; p < a.row.size(); ++p)
    for (int c = 0; c < k; ++c) {
      const auto e = a.before.empty() ? 0 : a.before[p];
      z[p * std::size_t(k) + std::size_t(c)] =
          x[std::size_t(a.row[p]) * std::size_t(k) + std::size_t(c)] * T(std::ldexp(real_t<T>(1), e));
    }
  for (const LevelRun& run : precond::level_runs(a.level_row, Kernel::rows_at_once))
    exec::launch_here(
        way, run.blocks,
        Kernel{run.first, run.last, run.blocks, k, a.rows, a.scaled_begin, a.scaled_end, a.level_row.data(),
               a.level_slice.data(), a.slice_begin.data(), a.column.data(), kernel_pointer(a.value.data()),
               kernel_pointer(a.inverse.data()), a.from.data(), kernel_pointer(z.data())});
  std::vector<T> y(x.size());
  for (std::size_t i = 0; i < a.place.size(); ++i)
    for (int c = 0; c < k; ++c) {
      const auto e = a.after.empty() ? 0 : a.after[i];
      const T v = z[std::size_t(a.place[i]) * std::size_t(k) + std::size_t(c)] * T(std::ldexp(real_t<T>(1), e));
      y[i * std::size_t(k) + std::size_t(c)] = f.negative ? -v : v;
    }
  exec::expect_close(y, solved(f, x, k), 60);
}

TYPED_TEST(TriangularKernels, SolveAsRowByRow) {
  using T = typename TypeParam::scalar;
  if (!on_host) GTEST_SKIP() << "teams of the host";
  unsigned seed = 0;
  for (const Shape& shape : shapes)
    for (const Way way : exec::ways) {
      if (way == Way::threads && shape.rows > 200) continue;  // teams of threads are slow
      SCOPED_TRACE(message(shape.rows, " rows in chains of ", shape.chain, way == Way::threads ? ", threads" : ""));
      ++seed;
      const auto f = random_factors<T>(shape, seed, seed % 3 == 0, seed % 3 != 1, seed % 2 == 0);
      if (shape.entries > 8) {
        expect_solved<T, 8, 1>(f, 1, way);
        if (way == Way::serial) expect_solved<T, 8, 4>(f, 4, way), expect_solved<T, 8, 2>(f, 6, way);
      } else {
        expect_solved<T, 1, 1>(f, 1, way);
        expect_solved<T, 1, 1>(f, 3, way);
        if (way == Way::serial) expect_solved<T, 1, 4>(f, 8, way), expect_solved<T, 1, 2>(f, 2, way);
      }
    }
}

TEST(TriangularLevels, HoldEachEntryOnceAfterWhatItNeeds) {
  for (const Shape& shape : shapes) {
    const auto f = random_factors<double>(shape, 5, false, true, false);
    const TriangularLevels<double> a(f);
    EXPECT_EQ(a.level_row.back(), 2 * shape.rows);
    EXPECT_EQ(a.slice_begin.size(), std::size_t(a.level_slice.back()) + 1);
    Global entries = 0;
    const Local slice_rows = 32 / a.lanes;
    for (Local level = 0; level < a.levels(); ++level) {
      EXPECT_LT(a.level_row[level], a.level_row[level + 1]);
      for (Local s = a.level_slice[level]; s < a.level_slice[level + 1]; ++s) {
        const Local first = a.level_row[level] + (s - a.level_slice[level]) * slice_rows;
        const Local rows = std::min(slice_rows, a.level_row[level + 1] - first);
        EXPECT_EQ((a.slice_begin[s + 1] - a.slice_begin[s]) % (rows * a.lanes), 0);
        for (Global e = a.slice_begin[s]; e < a.slice_begin[s + 1]; ++e) {
          const Local q = a.column[std::size_t(e)];
          if (q < 0) continue;
          ++entries;
          EXPECT_LT(q, a.level_row[level]);
          EXPECT_EQ(q < a.rows, first < a.rows) << "a row of one factor with a column of the other";
        }
      }
    }
    EXPECT_EQ(entries, Global(f.lower.column.size() + f.upper.column.size()));
    if (shape.rows == 70) {
      EXPECT_EQ(a.level_row[70], 70) << "one row a level";
    }
  }
}

TEST(TriangularLevels, NarrowOnesShareALaunch) {
  const std::vector<Local> level_row{0, 1, 9, 109, 309, 310, 320, 330, 2000};
  const auto runs = precond::level_runs(level_row, 50);
  const std::vector<LevelRun> expected{{0, 3, 1}, {3, 4, 4}, {4, 7, 1}, {7, 8, 34}};
  ASSERT_EQ(runs.size(), expected.size());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    EXPECT_EQ(runs[i].first, expected[i].first);
    EXPECT_EQ(runs[i].last, expected[i].last);
    EXPECT_EQ(runs[i].blocks, expected[i].blocks);
  }
  EXPECT_TRUE(precond::level_runs(std::vector<Local>{0}, 50).empty());
}

template <class Where>
class TriangularInMemory : public testing::Test {};
TYPED_TEST_SUITE(TriangularInMemory, ScalarsInMemory);

TYPED_TEST(TriangularInMemory, SolvesAsRowByRow) {
  using T = typename TypeParam::scalar;
  using M = typename TypeParam::memory;
  unsigned seed = 0;
  // The last two have levels of several teams, by one thread a row and by eight.
  for (const Shape& shape : {shapes[0], shapes[2], shapes[3], shapes[5], Shape{2900, 4, 2}, Shape{2720, 40, 48}}) {
    SCOPED_TRACE(message(shape.rows, " rows in chains of ", shape.chain));
    const auto f = random_factors<T>(shape, seed, seed % 2 == 0, true, seed % 3 == 0);
    ++seed;
    EXPECT_EQ(TriangularLevels<T>(f).lanes, shape.entries > 8 ? 8 : 1);
    TriangularOnDevice<T, M> solver(f);
    std::vector<std::vector<T>> first;
    for (const int k : {1, 2, 3, 4, 1}) {
      if (!on_host && shape.rows > 2000 && k > 1 && k < 4) continue;
      const auto space = layout::Space::distributed(comm::Communicator::self(), Global(shape.rows));
      const auto elements = Dice(9).values<T>(std::size_t(shape.rows) * std::size_t(k));
      const auto x = vector_from<T, M>(space, elements, k);
      auto y = filled<T, M>(space, exec::poison<T>(), k);
      for (int again = 0; again < 2; ++again) {
        solver.load(x.data(), k);
        solver.solve();
        solver.store(y.data());
        exec::expect_close(y.to_host(), solved(f, elements, k), 60);
      }
      if (k == 1) first.push_back(y.to_host());
    }
    EXPECT_EQ(first[0], first[1]);
  }
}

/// Of ranks, blocks, orders and scalings that are those of the host.
TYPED_TEST(TriangularInMemory, FactorsAreThoseOfTheHost) {
  using T = typename TypeParam::scalar;
  using M = typename TypeParam::memory;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto compare = [&](const Whole<T>& a, const Incomplete& how, int blocks) {
          const auto host_A = a.on(comm);
          const auto A = a.template on<M>(comm);
          const precond::BlockJacobi<T> host(*host_A, how, blocks);
          const precond::BlockJacobiOnDevice<T, M> P(*A, how, blocks);
          EXPECT_EQ(P.name(), host.name());
          EXPECT_EQ(P.note(), host.note());
          EXPECT_EQ(P.is_doubtful(), host.is_doubtful());
          const auto whole_x = random_vector<T>(a.n, 6);
          const auto x = spread(A->range(), whole_x);
          const auto in = spread<T, M>(A->range(), whole_x);
          layout::Vector<T> expected(A->range());
          layout::Vector<T, M> y(A->range());
          for (const bool adjoint : {false, true, false}) {
            if (adjoint) host.apply_adjoint(x, expected), P.apply_adjoint(in, y);
            else host.apply(x, expected), P.apply(in, y);
            auto difference = spread(A->range(), whole(y));
            const double size = layout::norm(expected);
            layout::axpy(T(-1), expected, difference);
            EXPECT_LE(layout::norm(difference), tolerance<T>(300) * size)
                << host.name() << ", " << blocks << " blocks" << (adjoint ? ", adjoint" : "");
          }
        };
        const auto hermitian = grid<T>(13, 9), convection = grid<T>(11, 10, 0.4), unlike = scattered<T>(90, 4, 2);
        // Without a diagonal on the first two thirds of the rows: pivots are replaced, a matching finds others.
        const auto holes = unlike.map([](Global r, Global c, T v) { return r == c && r < 60 ? T(0) : v; });
        const auto minus = hermitian.map([](Global, Global, T v) { return -v; });
        for (const int blocks : {1, 4}) {
          for (const auto kind : {Factorisation::ilu0, Factorisation::iluk, Factorisation::ilut})
            for (const auto* a : {&hermitian, &convection, &unlike, &holes}) {
              if (kind != Factorisation::ilut && a == &holes) continue;
              if (!on_host && kind == Factorisation::iluk && blocks > 1) continue;
              if (is_repeated() && blocks > 1) continue;
              for (const auto order : {precond::BlockOrder::none, precond::BlockOrder::rcm}) {
                Incomplete how(kind);
                how.ordering = order;
                how.matching = how.matching || a == &unlike;
                compare(*a, how, blocks);
              }
            }
          for (const auto kind : {Factorisation::ic0, Factorisation::ick})
            for (const auto* a : {&hermitian, &minus}) compare(*a, kind, blocks);
        }
        // The first block is inverted by its diagonal alone, the others are factorised.
        const auto broken = hermitian.map(
            [](Global r, Global c, T v) { return r + c == 1 ? T(std::numeric_limits<real_t<T>>::max() / 2) : v; });
        const auto A = broken.template on<M>(comm);
        const precond::BlockJacobiOnDevice<T, M> P(*A, Factorisation::ic0, 4);
        EXPECT_NE(P.note().find("diagonal alone"), std::string::npos) << P.note();
        for (const auto kind : {Factorisation::ilu0, Factorisation::ic0}) compare(broken, kind, 4);
        compare(tridiagonal<T>(40, -1, 2, -1), Factorisation::ic0, 1);  // as many levels as rows
        compare(diagonal<T>(std::vector<double>(9, 3.0)), Factorisation::ilu0, 1);
        compare(diagonal<T>({}), Factorisation::ilu0, 1);
      },
      ranks_of({1, 3}));
}

TYPED_TEST(TriangularInMemory, SolvesConvergeAsOnTheHost) {
  using T = typename TypeParam::scalar;
  using M = typename TypeParam::memory;
  using krylov::Method;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto check = [&](const Whole<T>& a, Method method, const char* kind) {
          SCOPED_TRACE(message(to_string(method), " with ", kind, " on ", comm.size(), " ranks"));
          const auto host_A = a.on(comm);
          const auto A = a.template on<M>(comm);
          const auto P = precond::make<T, M>(kind, *A);
          const auto host_P = precond::make<T, Host>(kind, *host_A);
          const auto b = random_vector<T>(a.n, 7);
          auto o = with(method, is_wide<T> ? 1e-10 : 1e-5);
          o.fallbacks = false;
          const auto there = run(*A, b, o, P.get()), here = run(*host_A, b, o, host_P.get());
          EXPECT_TRUE(there.report.converged()) << there.report.detail;
          EXPECT_LE(residual_of(a, b, there.x), 1.1 * *o.rtol);
          EXPECT_NEAR(double(there.report.iterations), double(here.report.iterations), 1);
        };
        const auto hermitian = grid<T>(14, 9), convection = grid<T>(14, 9, 0.4);
        check(hermitian, Method::pipelined_cg, "ic0");
        check(convection, Method::bicgstab, "ilu0");
        if (on_host) {  // kernels are the same for all methods
          for (const Method method : {Method::cg, Method::minres}) check(hermitian, method, "ic0");
          for (const Method method : {Method::gmres, Method::idr}) check(convection, method, "ilu0");
        }
        check(scattered<T>(90, 4, 2), Method::gmres, "ilut");
      },
      ranks_of({1, 3}));
}

TYPED_TEST(TriangularInMemory, LevelsDependOnTheOrder) {
  using T = typename TypeParam::scalar;
  using M = typename TypeParam::memory;
  const auto A = grid<T>(64, 64).template on<M>(comm::Communicator::self());
  const precond::BlockJacobiOnDevice<T, M> natural(*A), of_blocks(*A, {}, 8);
  EXPECT_EQ(natural.levels(), 2 * (64 + 63));  // the diagonals of the grid, forth and back
  EXPECT_EQ(natural.launches(), 1);
  EXPECT_EQ(of_blocks.levels(), 2 * (64 + 7));
  for (const auto order :
       {precond::BlockOrder::rcm, precond::BlockOrder::dissection, precond::BlockOrder::minimum_degree}) {
    if (order == precond::BlockOrder::dissection && !layout::metis_built()) continue;
    if (order == precond::BlockOrder::minimum_degree && !layout::amd_built()) continue;
    Incomplete how;
    how.ordering = order;
    const precond::BlockJacobiOnDevice<T, M> P(*A, how);
    if (std::getenv("TACIT_TEST_SHOW")) std::printf("%s: %d levels\n", to_string(order), int(P.levels()));
    EXPECT_LE(P.levels(), natural.levels());
    if (order != precond::BlockOrder::rcm) {
      EXPECT_LT(3 * P.levels(), natural.levels());
    }
  }
}

TYPED_TEST(TriangularInMemory, RefusesWhatTheHostRefuses) {
  using T = typename TypeParam::scalar;
  using M = typename TypeParam::memory;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto A = grid<T>(6, 5, 0.4).template on<M>(comm);
        const auto says = [&](const Incomplete& how, int blocks, const char* words) {
          const auto text = usage_error([&] { precond::BlockJacobiOnDevice<T, M> P(*A, how, blocks); });
          EXPECT_NE(text.find(words), std::string::npos) << text;
        };
        says(Factorisation::ic0, 1, "needs a Hermitian matrix");
        says(Factorisation::ilu0, 0, "blocks");
      },
      ranks_of({1, 3}));
}

}  // namespace
}  // namespace tacit::test
