// Compression of single blocks, and the accuracy of H-matrices in difficult cases.
#include <gtest/gtest.h>
#include <tacit/op/hmatrix/hmatrix.hpp>
#include <tacit/op/hmatrix/point_kernels.hpp>

#include "hmatrix_cases.hpp"
#include "support/communicators.hpp"
#include "support/reference.hpp"

#include <algorithm>
#include <limits>
#include <random>

using namespace tacit;
using namespace tacit::op;
using namespace tacit::test;
using comm::Communicator;
using Complex = std::complex<double>;

namespace {

template <class T>
std::vector<T> expand(const Compressed<T>& b) {
  if (b.dense) return b.u;
  std::vector<T> a(std::size_t(b.rows) * b.columns);
  for (Local l = 0; l < b.rank; ++l)
    for (Local j = 0; j < b.columns; ++j)
      for (Local i = 0; i < b.rows; ++i)
        a[i + std::size_t(j) * b.rows] +=
            b.u[i + std::size_t(l) * b.rows] * b.sigma[std::size_t(l)] * conj(b.v[j + std::size_t(l) * b.columns]);
  return a;
}

template <class T>
void compresses_far_blocks() {
  Geometry to = sphere(190), from = sphere(170);
  for (Point& p : from.points) p[0] += 5;
  const auto entry = kernel<T>(to.points, from.points, 1);
  const auto exact = dense(entry, 190, 170);
  for (const double tolerance : {1e-2, 1e-4, 1e-8}) {
    CompressOptions options;
    options.method = Compression::svd;
    const Local best = compress(entry, numbers(190), numbers(170), {tolerance, 0}, options).rank;
    for (const auto method : {Compression::aca_plus, Compression::aca, Compression::svd})
      for (const bool again : {true, false}) {
        options.method = method;
        options.recompress = again;
        const auto b = compress(entry, numbers(190), numbers(170), {tolerance, 0}, options);
        EXPECT_LE(relative_error(expand(b), exact), tolerance);
        EXPECT_FALSE(b.dense);
        EXPECT_LE(b.rank, again ? best + 1 : 2 * best);
        EXPECT_NEAR(b.norm, norm_of(exact), 2 * tolerance * norm_of(exact));
        if (method != Compression::svd) {
          EXPECT_LT(b.entries, 190 * 170);
        }
      }
  }
}
TEST(Compress, FarBlocksToTheTolerance) {
  compresses_far_blocks<double>();
#if TACIT_SCALARS_Host & 8
  compresses_far_blocks<Complex>();
#endif
}

// Of high ranks, which are truncated by pivoted orthogonalisations; V is orthonormal, and U nearly.
template <class T>
void truncates_high_ranks() {
  Geometry to = sphere(400), from = sphere(380);
  for (Point& p : from.points) p[0] += 3;
  const auto entry = kernel<T>(to.points, from.points, 1);
  const auto exact = dense(entry, 400, 380);
  for (const double tolerance : {1e-8, 1e-10}) {
    CompressOptions options;
    options.method = Compression::svd;
    const Local best = compress(entry, numbers(400), numbers(380), {tolerance, 0}, options).rank;
    ASSERT_GT(best, 48);
    options.method = Compression::aca_plus;
    const auto b = compress(entry, numbers(400), numbers(380), {tolerance, 0}, options);
    EXPECT_FALSE(b.dense);
    EXPECT_LE(b.rank, 1.03 * best);  // whose tolerance is a ninth larger
    EXPECT_LE(relative_error(expand(b), exact), tolerance);
    EXPECT_GE(1.5 * b.error, relative_error(expand(b), exact) * b.norm);
    EXPECT_TRUE(std::is_sorted(b.sigma.rbegin(), b.sigma.rend()));
    for (Local l = 0; l < b.rank; ++l)
      for (Local k = 0; k <= l; ++k) {
        const auto product = [&](const std::vector<T>& a, Local n) {
          T sum(0);
          for (Local i = 0; i < n; ++i) sum += conj(a[i + std::size_t(l) * n]) * a[i + std::size_t(k) * n];
          return double(std::abs(sum));
        };
        ASSERT_NEAR(product(b.v, b.columns), k == l ? 1 : 0, 1e-4);
        ASSERT_NEAR(product(b.u, b.rows), k == l ? 1 : 0, k == l ? 1e-4 : 0.7);
      }
  }
}
TEST(Compress, TruncatesHighRanks) {
  truncates_high_ranks<double>();
#if TACIT_SCALARS_Host & 8
  truncates_high_ranks<Complex>();
#endif
}

// Two uncoupled parts: crosses that start in one of them never lead to the other.
TEST(Compress, SamplesWherePartialPivotingStops) {
  const EntryFunction<double> entry = [](std::span<const Global> rows, std::span<const Global> columns, double* out) {
    for (const Global j : columns)
      for (const Global i : rows) *out++ = (i < 40) == (j < 40) ? 1.0 / (1.0 + double(i + j)) : 0.0;
  };
  const auto exact = dense(entry, 80, 80);
  for (const auto method : {Compression::aca_plus, Compression::aca}) {
    CompressOptions options;
    options.method = method;
    const auto b = compress(entry, numbers(80), numbers(80), {1e-6, 0}, options);
    EXPECT_LE(relative_error(expand(b), exact), 1e-6);
  }
}

TEST(Compress, KeepsDenseWhatHasNoLowRank) {
  const EntryFunction<double> entry = [](std::span<const Global> rows, std::span<const Global> columns, double* out) {
    for (const Global j : columns)
      for (const Global i : rows) *out++ = test::number<double>(1, std::uint64_t(i * 1000 + j));
  };
  for (const auto method : {Compression::aca_plus, Compression::aca, Compression::svd}) {
    CompressOptions options;
    options.method = method;
    const auto b = compress(entry, numbers(30), numbers(40), {1e-6, 0}, options);
    EXPECT_TRUE(b.dense);
    EXPECT_EQ(expand(b), dense(entry, 30, 40));
    const EntryFunction<double> zero = [](auto r, auto c, double* out) { std::fill_n(out, r.size() * c.size(), 0.0); };
    const auto nothing = compress(zero, numbers(30), numbers(40), {1e-6, 0}, options);
    EXPECT_EQ(nothing.rank, 0);
    EXPECT_FALSE(nothing.dense);
  }
}

// Every row and column occurs three times: after the distinct ones only rounding errors are left, which are no pivots.
// Both pivot searches, with and without recompression and verification.
template <class T>
void leaves_rounding_alone() {
  Geometry to = sphere(20), from = sphere(20);
  for (Point& p : from.points) p[0] += 2.5;
  const auto entry = kernel<T>(to.points, from.points, 3);
  const EntryFunction<T> repeated = [&](std::span<const Global> rows, std::span<const Global> columns, T* out) {
    for (const Global j : columns)
      for (const Global i : rows) {
        const Global a = i / 3, b = j / 3;
        entry({&a, 1}, {&b, 1}, out);
        *out++ *= real_t<T>(1.3);
      }
  };
  const auto exact = dense(repeated, 60, 60);
  for (const auto method : {Compression::aca_plus, Compression::aca})
    for (const bool recompress : {true, false})
      for (const bool verify : {true, false}) {
        CompressOptions options;
        options.method = method, options.recompress = recompress, options.verify = verify;
        const auto b = compress(repeated, numbers(60), numbers(60), {1e-15, 0}, options);
        // Without verification it may stop early, but the error does not grow.
        EXPECT_LE(relative_error(expand(b), exact), verify ? 1e-12 : 1e-2) << int(method) << recompress << verify;
        EXPECT_LE(b.rank, 21);
      }
}
TEST(Compress, TakesNoPivotFromRounding) {
  leaves_rounding_alone<double>();
#if TACIT_SCALARS_Host & 8
  leaves_rounding_alone<Complex>();
#endif
}

// Most of the remaining rows repeat rows that are done, while a few new ones are still to come.
TEST(Compress, SkipsRepeatedRows) {
  for (int seed = 0; seed < 20; ++seed) {
    const EntryFunction<double> entry = [&](std::span<const Global> rows, std::span<const Global> columns,
                                            double* out) {
      for (const Global j : columns)
        for (const Global i : rows) *out++ = number<double>(seed, std::uint64_t(i / 4 * 1000 + j / 4));
    };
    const auto exact = dense(entry, 72, 72);
    for (const auto method : {Compression::aca_plus, Compression::aca}) {
      CompressOptions options;
      options.method = method;
      EXPECT_LE(relative_error(expand(compress(entry, numbers(72), numbers(72), {1e-7, 0}, options)), exact), 1e-7)
          << seed << int(method);
    }
  }
}

// One entry in 2500 that no cross leads to: only a comparison with all entries finds it.
TEST(Compress, ComparesSmallBlocksWithAllEntries) {
  const EntryFunction<double> entry = [](std::span<const Global> rows, std::span<const Global> columns, double* out) {
    for (const Global j : columns)
      for (const Global i : rows) *out++ = 1 / (60 + double(i + j)) + (i == 33 && j == 17 ? 1.0 : 0.0);
  };
  const auto exact = dense(entry, 50, 50);
  CompressOptions options;
  const auto seen = compress(entry, numbers(50), numbers(50), {1e-4, 0}, options);
  EXPECT_GT(relative_error(expand(seen), exact), 1e-2);  // otherwise nothing is tested
  options.settled = 2500;
  const auto b = compress(entry, numbers(50), numbers(50), {1e-4, 0}, options);
  EXPECT_LE(relative_error(expand(b), exact), 1e-4);
  EXPECT_FALSE(b.dense);
  EXPECT_LE(b.error, 1e-4 * b.norm);
}

TEST(HMatrixAccuracy, HasNumbersOfAnySize) {
  const Geometry g = sphere(300);
  const auto space = Space::distributed(Communicator::self(), 300);
  for (const double scale : {1e-140, 1e-30, 1e30, 1e140}) {
    const auto plain = kernel<double>(g);
    const EntryFunction<double> entry = [&](auto rows, auto columns, double* out) {
      plain(rows, columns, out);
      for (std::size_t i = 0; i < rows.size() * columns.size(); ++i) out[i] *= scale;
    };
    const HMatrix<double> A(space, tree_of(g, leaves(16)), entry);
    auto a = entries_of<double>(A);
    for (double& v : a) v /= scale;
    EXPECT_LE(relative_error(a, dense(plain, 300, 300)), 1e-4) << scale;
  }
}

// The squares of entries overflow or underflow, and yet no digit is lost: the H-matrix of 2^e A is 2^e times that of A.
template <class T>
void scales_exactly(std::initializer_list<int> exponents, bool near_the_end, std::initializer_list<int> ranks) {
  const Geometry g = sphere(200);
  const auto plain = kernel<T>(g);
  on_ranks(
      [&](const Communicator& comm) {
        const auto space = Space::distributed(comm, 200);
        const auto tree = tree_of(g, leaves(16));
        const HMatrix<T> A(space, tree, plain);
        const auto unscaled = entries_of<T>(A);
        for (const int e : exponents) {
          const auto factor = std::ldexp(real_t<T>(1), e);
          const EntryFunction<T> entry = [&](auto rows, auto columns, T* out) {
            plain(rows, columns, out);
            for (std::size_t i = 0; i < rows.size() * columns.size(); ++i) out[i] *= factor;
          };
          const HMatrix<T> B(space, tree, entry);
          for (const bool adjoint : {false, true}) {
            auto b = entries_of<T>(B, adjoint);
            for (T& v : b) v /= factor;
            EXPECT_LE(relative_error(b, adjoint ? entries_of<T>(A, true) : unscaled), near_the_end ? 1e-4 : 1e-6) << e;
          }
          EXPECT_NEAR(std::ldexp(B.report().norm, -e), A.report().norm, 1e-5 * A.report().norm) << e;
          EXPECT_NEAR(B.report().measured_error, A.report().measured_error, near_the_end ? 1e-4 : 1e-5) << e;
          if (!near_the_end) {
            EXPECT_EQ(B.report().bytes, A.report().bytes) << e;
          }
          EXPECT_NEAR(std::ldexp(B.largest(), -e), A.largest(), 1e-5 * A.largest()) << e;
          const auto d = B.diagonal(), unit = A.diagonal();
          for (std::size_t i = 0; i < d.size(); ++i)
            ASSERT_LE(std::abs(d[i] / factor - unit[i]), 1e-5 * std::abs(unit[i])) << e;
        }
      },
      ranks);
}
TEST(HMatrixAccuracy, ScalesExactly) {
  scales_exactly<double>({-980, -565, 980}, false, {1});
  scales_exactly<float>({-92, 60}, false, {1});
  scales_exactly<float>({-113}, true, {1});
#if TACIT_SCALARS_Host & 8
  scales_exactly<Complex>({-565}, false, {2});
#endif
}

// The first rows that are evaluated do not show how large other rows are.
TEST(HMatrixAccuracy, HandlesLargeRowsThatSamplesMiss) {
  const Geometry g = sphere(300);
  const auto plain = kernel<double>(g);
  const auto space = Space::distributed(Communicator::self(), 300);
  for (const double large : {1e-20, 1e100, 1e280}) {
    const EntryFunction<double> entry = [&](std::span<const Global> rows, std::span<const Global> columns,
                                            double* out) {
      plain(rows, columns, out);
      for (std::size_t j = 0; j < columns.size(); ++j)
        for (std::size_t i = 0; i < rows.size(); ++i) out[i + j * rows.size()] *= rows[i] == 7 ? large : 1e-200;
    };
    HMatrixOptions options;
    options.sampled_rows = 1;
    const HMatrix<double> A(space, tree_of(g, leaves(16)), entry, options);
    auto a = entries_of<double>(A), exact = dense(entry, 300, 300);
    for (std::size_t i = 0; i < a.size(); ++i) a[i] /= large, exact[i] /= large;
    EXPECT_LE(relative_error(a, exact), 1e-4) << large;
    EXPECT_NEAR(A.report().norm / large, norm_of(exact), 1e-3 * norm_of(exact));
  }
}

// A kernel that jumps with the index: verification repairs the error; without it the measured error is known to a
// solve.
TEST(HMatrixAccuracy, RepairsTheMeasuredError) {
  const Geometry g = sphere(900);
  const EntryFunction<double> entry = [](std::span<const Global> rows, std::span<const Global> columns, double* out) {
    for (const Global j : columns)
      for (const Global i : rows) *out++ = i == j ? 50.0 : (i * 7919 + j * 104729) % 1009 == 0 ? 3.0 : 1e-3;
  };
  const auto exact = dense(entry, 900, 900);
  on_ranks(
      [&](const Communicator& comm) {
        const auto space = Space::distributed(comm, 900);
        HMatrixOptions options;
        const HMatrix<double> A(space, tree_of(g), entry, options);
        EXPECT_LE(relative_error(entries_of<double>(A), exact), 1e-4);
        EXPECT_LE(A.accuracy(), 3e-4);
        EXPECT_TRUE(A.report().warnings.empty());
        options.compress.verify = false;
        const HMatrix<double> B(space, tree_of(g), entry, options);
        EXPECT_GT(B.report().measured_error, 1e-3);
        EXPECT_GE(B.accuracy(), B.report().measured_error);
        ASSERT_EQ(B.report().warnings.size(), 1u);
        EXPECT_NE(B.report().warnings[0].find("the tolerance is 0.0001"), std::string::npos);
      },
      {1, 2});
}

// Cut-off radii: the corner of a far block that is within the radius may be missed by all its crosses and by random
// entries. That other far blocks are zero, or have no low rank, shows that blocks have to be compared with all entries.
// A smooth kernel in a volume at a tight tolerance: most blocks have nearly full rank, which is no sign of a jump, and
// those of a class that gains nothing are made from their entries.
TEST(HMatrixAccuracy, MakesBlocksOfFullRankOnce) {
  if (under_mpi()) GTEST_SKIP() << "the same as alone";
  const Local n = 6000;
  Geometry g;
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> coordinate(0, 5);
  for (Local i = 0; i < n; ++i) g.points.push_back({coordinate(random), coordinate(random), coordinate(random)});
  const auto tree = std::make_shared<const ClusterTree>(g);
  PointKernel kernel;
  kernel.kernel = KernelName::matern32;
  HMatrixOptions options;
  options.tolerance = 1e-8;
  options.mirrors = true;
  const auto entry = kernel_entries<double>(kernel, tree);
  const HMatrix<double> A(Space::distributed(Communicator::self(), n), tree, entry, options);
  const auto& r = A.report();
  EXPECT_TRUE(r.warnings.empty());
  EXPECT_GT(r.low_rank_blocks, 0);
  EXPECT_LE(r.error_bound, options.tolerance);
  EXPECT_LT(r.entries_evaluated, 0.7);  // half of them, and those of lines and crosses
  const auto x = test::vector_of<double>(A.domain(), 5);
  Vector<double> y(A.range());
  A.apply(x, y);
  const auto ours = y.to_host(), at = x.to_host();
  std::vector<double> row(static_cast<std::size_t>(n));
  const auto all = numbers(n);
  for (Global i = 0; i < n; i += 997) {
    entry({&i, 1}, all, row.data());
    double exact = 0, size = 0;
    for (std::size_t j = 0; j < row.size(); ++j) exact += row[j] * at[j], size += row[j] * row[j];
    EXPECT_NEAR(ours[std::size_t(i)], exact, 1e-7 * std::sqrt(size));
  }
}

TEST(HMatrixAccuracy, FindsWhatCrossesMissBeyondACutOff) {
  if (under_mpi()) GTEST_SKIP() << "the same as alone";
  constexpr Global n = 500;
  std::mt19937 random(3);
  Geometry g;
  for (Global i = 0; i < n; ++i) {
    const double x = random() * 0x1p-32, y = random() * 0x1p-32;
    g.points.push_back({x, y, 0});
  }
  const auto space = Space::distributed(Communicator::self(), n);
  for (const double radius : {0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1}) {
    const EntryFunction<double> entry = [&](std::span<const Global> rows, std::span<const Global> columns,
                                            double* out) {
      for (const Global j : columns)
        for (const Global i : rows) {
          const double r = distance(g.points[std::size_t(i)], g.points[std::size_t(j)]);
          *out++ = r < radius ? std::exp(-r) : 0;
        }
    };
    const auto exact = dense(entry, n, n);
    for (const bool concurrent : {true, false}) {
      SCOPED_TRACE("radius " + std::to_string(radius) + " concurrent " + std::to_string(int(concurrent)));
      HMatrixOptions options;
      options.tolerance = 1e-6;
      options.concurrent = concurrent;
      options.smooth = false;
      const HMatrix<double> A(space, tree_of(g, leaves(32)), entry, options);
      EXPECT_LE(relative_error(entries_of<double>(A), exact), 1e-6);
    }
  }
}

}  // namespace
