// H-matrices with nested bases: compared with the dense matrix, on one and several ranks and threads.
#include <gtest/gtest.h>
#include <tacit/exec/parallel.hpp>
#include <tacit/op/hmatrix/hmatrix.hpp>

#include "hmatrix_cases.hpp"
#include "support/communicators.hpp"
#include "support/scalars.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

using namespace tacit;
using namespace tacit::op;
using comm::Communicator;
using layout::Space;
using layout::Vector;
using namespace tacit::test;

namespace {

HMatrixOptions nested(double tolerance) {
  HMatrixOptions options;
  options.tolerance = tolerance;
  options.nested = true;
  return options;
}

template <class T>
class NestedBases : public testing::Test {};
TYPED_TEST_SUITE(NestedBases, AllScalars);

// The error of all entries is below the tolerance and near what the report says; A^H is the conjugate transpose.
TYPED_TEST(NestedBases, KeepTheTolerance) {
  using T = TypeParam;
  constexpr Global n = 600;
  const auto g = sphere(n);
  const auto entry = kernel<T>(g);
  const auto exact = dense<T>(entry, n, n);
  for (const double tolerance : {1e-2, 1e-4}) {
    const HMatrix<T> a(Space::distributed(Communicator::self(), n), tree_of(g, leaves(32)), entry, nested(tolerance));
    const auto& report = a.report();
    const auto found = entries_of(a), back = entries_of(a, true);
    const double error = relative_error(found, exact);
    EXPECT_LE(error, tolerance);
    EXPECT_NEAR(report.measured_error, error, 0.5 * error);
    EXPECT_GE(report.error_bound, report.measured_error);
    EXPECT_TRUE(report.warnings.empty());
    EXPECT_GT(report.low_rank_blocks, 50);
    double worst = 0;
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j)
        worst = std::max(worst, double(std::abs(found[i + j * n] - conj(back[j + i * n]))));
    EXPECT_LE(worst, 1e3 * double(std::numeric_limits<real_t<T>>::epsilon()));
  }
}

// Targets and sources of two point sets, more of one than of the other.
TEST(NestedMatrix, HasTwoTrees) {
  const auto to = sphere(350);
  auto from = sphere(220);
  for (auto& p : from.points) p[0] = 1.5 * p[0] + 0.3;
  const auto entry = kernel<double>(to.points, from.points);
  const auto exact = dense<double>(entry, 350, 220);
  const auto run = [&](const Communicator& comm, bool replicated) {
    const auto space = [&](Global n) { return replicated ? Space::replicated(comm, n) : Space::distributed(comm, n); };
    const HMatrix<double> a(space(350), space(220), tree_of(to, leaves(16)), tree_of(from, leaves(16)), entry,
                            nested(1e-5));
    EXPECT_LE(relative_error(entries_of(a), exact), 1e-5);
    EXPECT_NEAR(a.report().norm, norm_of(exact), 1e-5 * norm_of(exact));
    const auto back = entries_of(a, true);
    double worst = 0;
    for (std::size_t i = 0; i < 350; ++i)
      for (std::size_t j = 0; j < 220; ++j) worst = std::max(worst, std::abs(back[j + i * 220] - exact[i + j * 350]));
    EXPECT_LE(worst, 1e-3);
  };
  run(Communicator::self(), false);
  comm::run_threads(3, [&](const Communicator& comm) {
    run(comm, false);
    run(comm, true);
  });
}

// The bases do not depend on the ranks, so that neither does the matrix, but for rounding; each rank has its share.
TEST(NestedMatrix, IsTheSameOnAnyNumberOfRanks) {
  constexpr Global n = 400;
  const auto g = sphere(n);
  const auto entry = kernel<double>(g);
  const HMatrix<double> alone(Space::distributed(Communicator::self(), n), tree_of(g, leaves(16)), entry, nested(1e-4));
  const auto expected = entries_of(alone);
  for (const int ranks : {2, 5, 40})
    comm::run_threads(ranks, [&](const Communicator& comm) {
      for (const bool replicated : {false, true}) {
        if (ranks == 40 && replicated) continue;
        const auto space = replicated ? Space::replicated(comm, n) : Space::distributed(comm, n);
        const HMatrix<double> a(space, tree_of(g, leaves(16)), entry, nested(1e-4));
        EXPECT_LE(relative_error(entries_of(a), expected), 1e-13);
        EXPECT_NEAR(a.report().norm, alone.report().norm, 1e-12 * alone.report().norm);
        EXPECT_NEAR(a.report().estimated_error, alone.report().estimated_error, 0.05 * alone.report().estimated_error);
        // Far blocks of clusters that ranks share are stored by each; with a leaf or none for a rank these are many.
        if (ranks <= 5) {
          EXPECT_LE(std::abs(a.report().bytes / alone.report().bytes - 1), 0.1);
        }
        if (ranks == 2) {
          EXPECT_GT(a.report().least_bytes, 0.8 * a.report().most_bytes);
        }
      }
    });
}

// Sums have one order, whatever the number of threads and of columns at once in a product of four.
TEST(NestedMatrix, HasTheSameBitsForAnyNumberOfThreads) {
  constexpr Global n = 600;
  const auto g = sphere(n);
  const auto space = Space::distributed(Communicator::self(), n);
  std::vector<std::vector<double>> found;
  const int before = exec::threads();
  for (const int threads : {1, 2, 3}) {
    exec::set_threads(threads);
    const HMatrix<double> a(space, tree_of(g, leaves(16)), kernel<double>(g), nested(1e-4));
    Vector<double> x(space, 3), y(space, 3), z(space, 3);
    for (std::size_t i = 0; i < x.size(); ++i) x.data()[i] = std::sin(double(i));
    a.apply(x, y);
    a.apply_adjoint(x, z);
    found.emplace_back(y.data(), y.data() + y.size());
    found.back().insert(found.back().end(), z.data(), z.data() + z.size());
  }
  exec::set_threads(before);
  EXPECT_EQ(found[0], found[1]);
  EXPECT_EQ(found[0], found[2]);
}

// Far fewer numbers than blocks of low rank have, and a number of entries that grows like n.
TEST(NestedMatrix, IsSmallerThanBlocksOfLowRank) {
  constexpr Global n = 3000;
  const auto g = sphere(n);
  const auto space = Space::distributed(Communicator::self(), n);
  HMatrixOptions blocks;
  const HMatrix<double> a(space, tree_of(g), kernel<double>(g), blocks);
  const HMatrix<double> b(space, tree_of(g, leaves(32)), kernel<double>(g), nested(blocks.tolerance));
  EXPECT_LE(b.report().bytes, 0.7 * a.report().bytes);
  EXPECT_LE(b.report().measured_error, blocks.tolerance);
}

// Entries whose squares leave the range of their type are divided by a power of two.
TEST(NestedMatrix, TakesEntriesOfAnySize) {
  constexpr Global n = 500;
  const auto g = sphere(n);
  const auto plain = kernel<double>(g);
  const HMatrix<double> a(Space::distributed(Communicator::self(), n), tree_of(g, leaves(16)), plain, nested(1e-4));
  const auto expected = entries_of(a);
  for (const int exponent : {700, -700}) {
    const EntryFunction<double> entry = [&](auto i, auto j, double* out) {
      plain(i, j, out);
      for (std::size_t k = 0; k < i.size() * j.size(); ++k) out[k] = std::ldexp(out[k], exponent);
    };
    const HMatrix<double> b(Space::distributed(Communicator::self(), n), tree_of(g, leaves(16)), entry, nested(1e-4));
    auto found = entries_of(b);
    for (double& v : found) v = std::ldexp(v, -exponent);
    EXPECT_LE(relative_error(found, expected), 1e-4);
    EXPECT_LE(b.report().measured_error, 1e-4);
  }
}

// A matrix of a far field alone, which every rank has a part of: the clusters of its roots are far from each other.
TEST(NestedMatrix, CountsBlocksOfSharedClustersOnce) {
  const auto to = sphere(200);
  auto from = sphere(150);
  for (auto& p : from.points) p[0] += 20;
  const auto entry = kernel<double>(to.points, from.points);
  const double norm = norm_of(dense<double>(entry, 200, 150));
  for (const int ranks : {1, 3})
    comm::run_threads(ranks, [&](const Communicator& comm) {
      const HMatrix<double> a(Space::distributed(comm, 200), Space::distributed(comm, 150), tree_of(to, leaves(16)),
                              tree_of(from, leaves(16)), entry, nested(1e-6));
      EXPECT_NEAR(a.report().norm, norm, 1e-6 * norm) << ranks;
      EXPECT_EQ(a.report().dense_blocks, 0);
    });
}

// One entry has most of the norm, or all but a few rows or columns have nearly nothing of it: the error that is
// reported is relative to the norm of the matrix, whether or not the sampled rows and columns have met these.
TEST(NestedMatrix, MeasuresTheErrorAgainstTheWholeNorm) {
  constexpr Global n = 600;
  const auto g = sphere(n);
  const auto plain = kernel<double>(g);
  for (const Global at : {0, 7, 300})
    for (const int which : {0, 1, 2}) {
      const EntryFunction<double> entry = [&](auto i, auto j, double* out) {
        plain(i, j, out);
        for (std::size_t b = 0; b < j.size(); ++b)
          for (std::size_t a = 0; a < i.size(); ++a) {
            const bool heavy = which == 0 ? i[a] == at && j[b] == at : (which == 1 ? i[a] : j[b]) == at;
            if (heavy) out[a + b * i.size()] *= 1e3;
          }
      };
      // Without comparing all columns a single one is not met.
      for (const Global compared : {Global(0), n * n}) {
        if (compared == 0 && which > 0) continue;
        auto options = nested(1e-4);
        options.compared = compared;
        const HMatrix<double> a(Space::distributed(Communicator::self(), n), tree_of(g, leaves(16)), entry, options);
        const double error = relative_error(entries_of(a), dense<double>(entry, n, n));
        EXPECT_LE(error, 3e-4);
        EXPECT_LE(error, 3 * a.report().measured_error) << at << ' ' << which << ' ' << compared;
        EXPECT_LE(a.report().measured_error, 10 * error) << at << ' ' << which << ' ' << compared;
      }
    }
}

// Entries jump far from the diagonal. Of a small matrix all columns are compared: the error that is reported is true.
TEST(NestedMatrix, ComparesAllColumnsOfASmallMatrix) {
  constexpr Global n = 500;
  const auto g = sphere(n);
  const EntryFunction<double> entry = [&](auto i, auto j, double* out) {
    for (const Global b : j)
      for (const Global a : i) {
        const double r = distance(g.points[std::size_t(a)], g.points[std::size_t(b)]);
        *out++ = r < 1.1 ? 1 / (r + 0.1) : 0;
      }
  };
  const HMatrix<double> a(Space::distributed(Communicator::self(), n), tree_of(g, leaves(16)), entry, nested(1e-3));
  const double error = relative_error(entries_of(a), dense<double>(entry, n, n));
  EXPECT_NEAR(a.report().measured_error, error, 1e-3 * error);
  EXPECT_EQ(a.report().confidence, 1);
  EXPECT_TRUE(error <= 3e-3 || !a.report().warnings.empty());
}

// Points at very different distances from each other (three Cauchy numbers each): a few columns of a far block matter
// more than all the others. Bases keep the tolerance where no columns but the sampled ones are compared.
TEST(NestedMatrix, MeetsTheColumnsThatMatter) {
  constexpr Global n = 1200;
  std::uint64_t state = 1;
  const auto uniform = [&] {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double(state >> 11) + 0.5) * 0x1p-53;
  };
  for (int set = 0; set < 9; ++set) {
    Geometry g;
    for (Global i = 0; i < n; ++i) {
      Point p;
      for (double& x : p) x = std::tan(3.141592653589793 * (uniform() - 0.5));
      g.points.push_back(p);
    }
    for (const bool grows : {false, true}) {
      const EntryFunction<double> entry = [&](auto i, auto j, double* out) {
        for (const Global b : j)
          for (const Global a : i) {
            const double r = distance(g.points[std::size_t(a)], g.points[std::size_t(b)]) / 0.3;
            *out++ = grows ? (r > 0 ? r * r * std::log(r) : 0) : std::exp(-r * r / 2);
          }
      };
      auto options = nested(1e-6);
      options.compared = 0, options.mirrors = set % 2 == 0;
      const HMatrix<double> a(Space::distributed(Communicator::self(), n), tree_of(g, leaves(32)), entry, options);
      const double error = relative_error(entries_of(a), dense<double>(entry, n, n));
      EXPECT_LE(error, 1e-6) << set << ' ' << grows;
    }
  }
}

// One entry that no sampled row has met is too large for the squares of doubles, or for the scale of the others.
TEST(NestedMatrix, ScalesAgainWhereEntriesLeaveTheRange) {
  constexpr Global n = 400;
  const auto g = sphere(n);
  const auto plain = kernel<double>(g);
  for (const auto& [small, large] : {std::pair(0, 830), std::pair(-830, 830), std::pair(-830, 0)}) {
    const EntryFunction<double> entry = [&](auto i, auto j, double* out) {
      plain(i, j, out);
      for (std::size_t b = 0; b < j.size(); ++b)
        for (std::size_t a = 0; a < i.size(); ++a) {
          double& v = out[a + b * i.size()];
          v = std::ldexp(v, i[a] == 201 && j[b] == 201 ? large : small);
        }
    };
    comm::run_threads(2, [&](const Communicator& comm) {
      const HMatrix<double> a(Space::distributed(comm, n), tree_of(g, leaves(16)), entry, nested(1e-4));
      auto found = entries_of(a), exact = dense<double>(entry, n, n);
      for (auto* all : {&found, &exact})
        for (double& v : *all) v = std::ldexp(v, -large);
      EXPECT_LE(relative_error(found, exact), 1e-4) << small << ' ' << large;
      EXPECT_LE(a.report().measured_error, 1e-4) << small << ' ' << large;
    });
  }
}

// Far blocks that are zero do not keep others from the lowest precision.
TEST(NestedMatrix, StoresZerosInTheLowestPrecision) {
  constexpr Global n = 800;
  const auto g = sphere(n);
  const EntryFunction<double> entry = [&](auto i, auto j, double* out) {
    for (const Global b : j)
      for (const Global a : i) {
        const double r = distance(g.points[std::size_t(a)], g.points[std::size_t(b)]) / 0.8,
                     left = std::max(1 - r, 0.0);
        *out++ = left * left * left * left * (4 * r + 1);
      }
  };
  const HMatrix<double> a(Space::distributed(Communicator::self(), n), tree_of(g, leaves(16)), entry, nested(1e-3));
  EXPECT_GT(a.report().low_rank_blocks, 50);
  EXPECT_GE(a.report().fixed_bytes, 0.95 * a.report().bytes) << a.report().fixed_bytes / a.report().bytes;
}

// A far field without smoothness: the error that is reported is that of the entries, with a warning.
TEST(NestedMatrix, SaysWhereEntriesAreNotSmooth) {
  constexpr Global n = 500;
  const auto g = sphere(n);
  const EntryFunction<double> entry = [](auto i, auto j, double* out) {
    for (const Global b : j)
      for (const Global a : i) *out++ = std::sin(double(a * a % 977) * double(b + 3)) + (a == b ? 30.0 : 0.0);
  };
  const HMatrix<double> a(Space::distributed(Communicator::self(), n), tree_of(g, leaves(16)), entry, nested(1e-3));
  const double error = relative_error(entries_of(a), dense<double>(entry, n, n));
  EXPECT_LE(error, 2 * a.report().error_bound);
  if (error > 3e-3) {
    EXPECT_FALSE(a.report().warnings.empty());
  }
}

// Repeated points, one point, a matrix of zeros, a matrix without far blocks.
TEST(NestedMatrix, TakesOddMatrices) {
  for (const Global n : {1, 2, 40, 300}) {
    auto g = sphere(n);
    for (std::size_t i = 0; i < g.points.size(); i += 2) g.points[i] = g.points[0];
    const auto space = Space::distributed(Communicator::self(), n);
    const auto entry = kernel<double>(g);
    const HMatrix<double> a(space, tree_of(g, leaves(8)), entry, nested(1e-6));
    EXPECT_LE(relative_error(entries_of(a), dense<double>(entry, n, n)), 1e-6) << n;
    const EntryFunction<double> zero = [](auto i, auto j, double* out) { std::fill_n(out, i.size() * j.size(), 0.0); };
    const HMatrix<double> b(space, tree_of(g, leaves(8)), zero, nested(1e-6));
    EXPECT_EQ(norm_of(entries_of(b)), 0);
  }
}

TEST(NestedMatrix, RefusesWhatItCannotDo) {
  const auto g = sphere(200);
  const auto space = Space::distributed(Communicator::self(), 200);
  const auto make = [&](const std::function<void(HMatrixOptions&)>& change) {
    auto options = nested(1e-4);
    change(options);
    return HMatrix<double>(space, tree_of(g, leaves(16)), kernel<double>(g), options).report().bytes;
  };
  const std::vector<std::function<void(HMatrixOptions&)>> wrong{[](auto& o) { o.symmetry = Symmetry::symmetric; },
                                                                [](auto& o) { o.measure = ErrorMeasure::block; },
                                                                [](auto& o) { o.compress.method = Compression::aca; },
                                                                [](auto& o) { o.compress.method = Compression::svd; },
                                                                [](auto& o) { o.compress.recompress = false; },
                                                                [](auto& o) { o.compress.max_rank = 5; },
                                                                [](auto& o) { o.compress.cut_rank = 1; }};
  for (const auto& change : wrong) EXPECT_THROW(make(change), Error);
  HMatrix<double> a(space, tree_of(g, leaves(16)), kernel<double>(g), nested(1e-4));
  EXPECT_THROW(a.own_square(), Error);
  EXPECT_THROW(a.storage(), Error);
  EXPECT_THROW(a.use_batches({}), Error);
  EXPECT_THROW(HMatrix<double>(a, CoarseOptions{}), Error);
  EXPECT_EQ(a.diagonal().size(), 200u);
  EXPECT_TRUE(a.intact());
}

// Saved and loaded: the same bits.
TEST(NestedMatrix, ComesBackFromItsParts) {
  const auto g = sphere(150);
  comm::run_threads(2, [&](const Communicator& comm) {
    const auto space = Space::distributed(comm, 150);
    const HMatrix<ComplexScalar> a(space, tree_of(g, leaves(16)), kernel<ComplexScalar>(g), nested(1e-4));
    const HMatrix<ComplexScalar> b(space, space, a.saved());
    Vector<ComplexScalar> x(space), y(space), z(space);
    for (std::size_t i = 0; i < x.size(); ++i) x.data()[i] = ComplexScalar(real_t<ComplexScalar>(i % 7), 1);
    for (const bool adjoint : {false, true}) {
      if (adjoint) a.apply_adjoint(x, y), b.apply_adjoint(x, z);
      else a.apply(x, y), b.apply(x, z);
      EXPECT_EQ(y.to_host(), z.to_host());
    }
    EXPECT_TRUE(b.intact());
    EXPECT_TRUE(b.options().nested);
    EXPECT_EQ(a.report().measured_error, b.report().measured_error);
  });
}

// An entry that is not finite is named, on all ranks, wherever it is.
TEST(NestedMatrix, NamesAnEntryThatIsNotFinite) {
  const auto g = sphere(300);
  const auto plain = kernel<double>(g);
  for (const auto& [row, column] : {std::pair<Global, Global>{17, 17}, {3, 250}, {299, 0}, {120, 160}}) {
    const EntryFunction<double> entry = [&](auto i, auto j, double* out) {
      plain(i, j, out);
      for (std::size_t b = 0; b < j.size(); ++b)
        for (std::size_t a = 0; a < i.size(); ++a)
          if (i[a] == row && j[b] == column) out[a + b * i.size()] = std::numeric_limits<double>::quiet_NaN();
    };
    comm::run_threads(2, [&](const Communicator& comm) {
      try {
        const HMatrix<double> a(Space::distributed(comm, 300), tree_of(g, leaves(16)), entry, nested(1e-4));
        ADD_FAILURE();
      } catch (const Error& e) {
        EXPECT_NE(std::string(e.what()).find(message("row ", row, ", column ", column)), std::string::npos) << e.what();
      }
    });
  }
}

}  // namespace
