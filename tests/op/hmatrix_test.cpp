// H-matrices: the cluster trees, and the operator compared with the dense matrix.
#include <gtest/gtest.h>
#include <tacit/comm/simulate.hpp>
#include <tacit/op/hmatrix/hmatrix.hpp>

#include "hmatrix_cases.hpp"
#include "op/hmatrix/row_cost.hpp"
#include "support/communicators.hpp"
#include "support/reference.hpp"
#include "support/scalars.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <set>
#include <stdexcept>

#ifdef _OPENMP
#include <omp.h>
#endif

using namespace tacit;
using namespace tacit::op;
using comm::Communicator;
using layout::Vector;
using namespace tacit::test;
using Complex = test::ComplexScalar;

namespace {

// --- trees
// ------------------------------------------------------------------------------------------------------------

TEST(ClusterTree, HoldsEveryIndexOnceAndCutsEvenly) {
  for (const Bisection bisection : {Bisection::median, Bisection::midpoint})
    for (const Global n : {1, 5, 16, 17, 300}) {
      const Geometry g = sphere(n);
      const ClusterTree tree(g, leaves(16, bisection));
      EXPECT_EQ(std::set<Global>(tree.order().begin(), tree.order().end()).size(), std::size_t(n));
      Local covered = 0;
      for (const Cluster& c : tree.clusters()) {
        ASSERT_GT(c.size(), 0);
        for (Local p = c.begin; p < c.end; ++p)
          for (int d = 0; d < 3; ++d) {
            const double at = g.points[std::size_t(tree.order()[std::size_t(p)])][std::size_t(d)];
            const auto box = tree.box(int(&c - tree.clusters().data()));
            ASSERT_TRUE(box[std::size_t(d)] <= at && at <= box[std::size_t(d) + 3]);
          }
        if (c.is_leaf()) {
          EXPECT_LE(c.size(), 16);
          covered += c.size();
        } else {
          const auto &a = tree.clusters()[std::size_t(c.child[0])], &b = tree.clusters()[std::size_t(c.child[1])];
          EXPECT_EQ(a.begin, c.begin);
          EXPECT_EQ(a.end, b.begin);
          EXPECT_EQ(b.end, c.end);
          if (bisection == Bisection::median) {
            EXPECT_LE(std::abs(a.size() - b.size()), 1);
          }
        }
      }
      EXPECT_EQ(covered, n);
    }
}

TEST(ClusterTree, CutsAtMultiplesOfItsQuantum) {
  const ClusterTree tree(sphere(1000), {Bisection::median, 64, 16});
  for (const Cluster& c : tree.clusters()) EXPECT_EQ(c.begin % 16, 0);
}

TEST(ClusterTree, HasBoxesAroundElements) {
  Geometry g = sphere(100);
  for (const Point& p : g.points) g.boxes.push_back({{p[0] - 0.5, p[1], p[2]}, {p[0] + 0.5, p[1], p[2]}});
  const ClusterTree with(g), without(sphere(100));
  EXPECT_NEAR(with.box(0)[3], without.box(0)[3] + 0.5, 1e-14);
}

TEST(ClusterTree, RefusesWhatItCannotUse) {
  EXPECT_THROW(ClusterTree(Geometry{}), Error);
  EXPECT_THROW(ClusterTree(sphere(5), leaves(0)), Error);
  EXPECT_THROW(ClusterTree(sphere(5), {Bisection::median, 4, 8}), Error);
  Geometry g = sphere(5);
  g.boxes.resize(3);
  EXPECT_THROW(ClusterTree{g}, Error);
  g.boxes.clear();
  g.points[3][1] = NAN;
  try {
    const ClusterTree tree(g);
    ADD_FAILURE() << "a point that is nowhere was taken";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("point 3"), std::string::npos) << e.what();
  }
}

TEST(BlockTree, CoversEveryEntryOnce) {
  const ClusterTree rows(sphere(210), leaves(16)), columns(sphere(130), leaves(10));
  for (const auto kind : {Admissibility::Kind::smaller, Admissibility::Kind::larger, Admissibility::Kind::weak,
                          Admissibility::Kind::none})
    for (const auto* other : {&rows, &columns}) {
      const auto blocks = block_tree(rows, *other, {kind, 2, 1});
      std::vector<int> count(std::size_t(rows.size()) * other->size());
      for (const Block& b : blocks)
        for (Local i = b.row_begin; i < b.row_end; ++i)
          for (Local j = b.column_begin; j < b.column_end; ++j) ++count[std::size_t(i) * other->size() + j];
      EXPECT_EQ(std::count(count.begin(), count.end(), 1), std::ptrdiff_t(count.size()));
      const auto far = std::count_if(blocks.begin(), blocks.end(), [](const Block& b) { return b.admissible; });
      EXPECT_EQ(far == 0, kind == Admissibility::Kind::none);
    }
  EXPECT_THROW(block_tree(rows, rows, {Admissibility::Kind::smaller, 0, 1}), Error);
}

// --- the operator
// -----------------------------------------------------------------------------------------------------

template <class T>
void keeps_its_tolerance() {
  const Geometry g = sphere(300);
  const auto entry = kernel<T>(g);
  const auto exact = dense(entry, 300, 300);
  const auto space = Space::distributed(Communicator::self(), 300);
  const auto tree = tree_of(g, leaves(20));
  for (const auto method : {Compression::aca_plus, Compression::aca, Compression::svd})
    for (const auto measure : {ErrorMeasure::matrix, ErrorMeasure::block})
      for (const auto storage : {StoragePrecision::automatic, StoragePrecision::full})
        for (const double tolerance : {1e-2, 1e-4, 1e-7}) {
          if (method != Compression::aca_plus && (storage == StoragePrecision::full || tolerance < 1e-5)) continue;
          HMatrixOptions options;
          options.tolerance = tolerance;
          options.measure = measure;
          options.storage = storage;
          options.compress.method = method;
          SCOPED_TRACE("method " + std::to_string(int(method)) + " measure " + std::to_string(int(measure)) +
                       " storage " + std::to_string(int(storage)) + " tolerance " + std::to_string(tolerance));
          const HMatrix<T> A(space, tree, entry, options);
          const auto a = entries_of<T>(A);
          const double error = relative_error(a, exact);
          EXPECT_LE(error, tolerance);
          const auto& r = A.report();
          EXPECT_LE(r.estimated_error, tolerance);
          EXPECT_GE(r.estimated_error, error / 3);
          EXPECT_LE(r.measured_error, 2 * tolerance);
          EXPECT_GE(r.measured_error, error / 4);
          EXPECT_NEAR(r.norm, norm_of(exact), 2 * tolerance * norm_of(exact));
          if (tolerance > 1e-5) {
            EXPECT_GT(r.low_rank_blocks, 0);
          }
          if (storage == StoragePrecision::full) {
            EXPECT_EQ(r.bytes, r.full_bytes);
          }
          if (measure == ErrorMeasure::block) {
            const auto order = tree->order();
            for (const Block& b : block_tree(*tree, *tree, options.admissibility)) {
              std::vector<T> ours, theirs;
              for (Local i = b.row_begin; i < b.row_end; ++i)
                for (Local j = b.column_begin; j < b.column_end; ++j) {
                  const auto at = std::size_t(order[std::size_t(i)] + 300 * order[std::size_t(j)]);
                  ours.push_back(a[at]), theirs.push_back(exact[at]);
                }
              ASSERT_LE(relative_error(ours, theirs), tolerance);
            }
          }
        }
}
TEST(HMatrix, KeepsItsTolerance) {
  if (under_mpi()) GTEST_SKIP() << "the same as alone";
  keeps_its_tolerance<double>();
#if TACIT_SCALARS_Host & 8
  keeps_its_tolerance<Complex>();
#endif
}

template <class T>
void works_on_ranks(std::initializer_list<int> ranks) {
  const Geometry g = sphere(233), sources = sphere(130);
  const auto entry = kernel<T>(g), wide = kernel<T>(g.points, sources.points);
  const auto exact = dense(entry, 233, 233), wide_exact = dense(wide, 233, 130);
  std::vector<T> wide_adjoint(wide_exact.size());
  for (Global i = 0; i < 233; ++i)
    for (Global j = 0; j < 130; ++j)
      wide_adjoint[std::size_t(j + i * 130)] = conj(wide_exact[std::size_t(i + j * 233)]);
  on_ranks(
      [&](const Communicator& comm) {
        const auto tree = tree_of(g, leaves(16)), other = tree_of(sources, leaves(16));
        HMatrixOptions options;
        options.tolerance = 1e-6;
        for (const bool replicated : {false, true}) {
          const auto space = [&](Global n) {
            return replicated ? Space::replicated(comm, n) : Space::distributed(comm, n);
          };
          const HMatrix<T> A(space(233), tree, entry, options), B(space(233), space(130), tree, other, wide, options);
          EXPECT_LE(relative_error(entries_of<T>(A), exact), 1e-6);
          EXPECT_LE(relative_error(entries_of<T>(B), wide_exact), 1e-6);
          EXPECT_LE(relative_error(entries_of<T>(B, true), wide_adjoint), 1e-6);
          EXPECT_LE(A.report().estimated_error, 1e-6);
          EXPECT_EQ(A.report().rows, 233);
          // (B x, y) = (x, B^H y) to rounding, for any compression.
          Vector<T> x = test::vector_of<T>(B.domain(), 1, 3), y = test::vector_of<T>(B.range(), 2, 3), Bx(B.range(), 3),
                    By(B.domain(), 3);
          B.apply(x, Bx);
          B.apply_adjoint(y, By);
          for (int c = 0; c < 3; ++c) {
            T left(0), right(0);
            for (std::size_t i = std::size_t(c); i < y.size(); i += 3) left += conj(y.data()[i]) * Bx.data()[i];
            for (std::size_t i = std::size_t(c); i < x.size(); i += 3) right += conj(By.data()[i]) * x.data()[i];
            space(1).sum(&left, 1);
            space(1).sum(&right, 1);
            EXPECT_LE(std::abs(left - right), 1e-6 * std::abs(left));
          }
          // The diagonal, and k columns at once compared with single ones.
          const auto d = A.diagonal();
          for (std::size_t i = 0; i < d.size(); ++i)
            EXPECT_LE(std::abs(d[i] - exact[std::size_t(A.range().begin() + Global(i)) * 234]), 1e-6 * std::abs(d[i]));
          EXPECT_GE(A.largest() * (1 + 1e-6), std::abs(exact[0]));
          const auto X = test::vector_of<T>(A.domain(), 3, 7);
          Vector<T> Y(A.range(), 7), one(A.domain()), result(A.range());
          A.apply(X, Y);
          for (int c = 0; c < 7; ++c) {
            for (std::size_t i = 0; i < one.size(); ++i) one.data()[i] = X.data()[i * 7 + std::size_t(c)];
            A.apply(one, result);
            for (std::size_t i = 0; i < result.size(); ++i)
              ASSERT_LE(std::abs(result.data()[i] - Y.data()[i * 7 + std::size_t(c)]), 1e-5 * norm_of(exact) / 233);
          }
          if (!replicated) continue;
          // All ranks have the same bits.
          const auto all = comm.all_gather_bytes(std::as_bytes(std::span<const T>(result.data(), result.size())));
          for (const auto& bytes : all) EXPECT_EQ(bytes, all.front());
          const auto adjoint = comm.all_gather_bytes(std::as_bytes(std::span<const T>(By.data(), By.size())));
          for (const auto& bytes : adjoint) EXPECT_EQ(bytes, adjoint.front());
        }
      },
      ranks);
}
TEST(HMatrix, IsTheSameMatrixOnAnyNumberOfRanks) {
  works_on_ranks<double>({2, 3, 5});
#if TACIT_SCALARS_Host & 8
  works_on_ranks<Complex>({3});
#endif
}

#if TACIT_SCALARS_Host & 8
// The operator is linear to rounding for any storage of its numbers: a solve can go far below the tolerance of A.
TEST(HMatrix, IsLinearToRounding) {
  const Geometry g = sphere(300);
  const auto space = Space::distributed(Communicator::self(), 300);
  HMatrixOptions options;
  options.tolerance = 1e-2;
  const HMatrix<Complex> A(space, tree_of(g, leaves(16)), kernel<Complex>(g), options);
  EXPECT_GT(A.report().fixed_bytes, 0);
  for (const bool adjoint : {false, true}) {
    const auto x = test::vector_of<Complex>(space, 1), z = test::vector_of<Complex>(space, 2);
    Vector<Complex> sum(space), ax(space), az(space), y(space);
    for (std::size_t i = 0; i < sum.size(); ++i) sum.data()[i] = x.data()[i] + 1e-6 * z.data()[i];
    const auto multiply = [&](const auto& from, auto& to) { adjoint ? A.apply_adjoint(from, to) : A.apply(from, to); };
    multiply(x, ax);
    multiply(z, az);
    multiply(sum, y);
    for (std::size_t i = 0; i < y.size(); ++i)
      ASSERT_LE(std::abs(y.data()[i] - ax.data()[i] - 1e-6 * az.data()[i]), 1e-13 * layout::norm(ax));
  }
}
#endif

TEST(HMatrix, WorksInSinglePrecision) {
  const Geometry g = sphere(200);
  const auto space = Space::distributed(Communicator::self(), 200);
  const auto run = [&]<class T>(T) {
    const auto entry = kernel<T>(g);
    HMatrixOptions options;
    options.tolerance = 1e-5;
    const HMatrix<T> A(space, tree_of(g, leaves(16)), entry, options);
    EXPECT_LE(relative_error(entries_of<T>(A), dense(entry, 200, 200)), 1e-5);
    options.tolerance = 1e-8;
    EXPECT_THROW(HMatrix<T>(space, tree_of(g), entry, options), Error);
  };
  run(float{});
  run(std::complex<float>{});
}

#ifdef _OPENMP
TEST(HMatrix, DoesNotDependOnTheNumberOfThreads) {
  const Geometry g = sphere(500);
  const auto space = Space::distributed(Communicator::self(), 500);
  const int before = omp_get_max_threads();
  std::vector<std::vector<Complex>> products, adjoints;
  std::vector<double> bytes;
  for (const int threads : {1, 2, 5}) {
    omp_set_num_threads(threads);
    const HMatrix<Complex> A(space, tree_of(g, leaves(24)), kernel<Complex>(g));
    const auto x = test::vector_of<Complex>(space, 5);
    Vector<Complex> y(space);
    A.apply(x, y);
    products.push_back(y.to_host());
    A.apply_adjoint(x, y);
    adjoints.push_back(y.to_host());
    bytes.push_back(A.report().bytes);
  }
  omp_set_num_threads(before);
  for (std::size_t i = 1; i < products.size(); ++i) {
    EXPECT_EQ(bytes[i], bytes[0]);
    EXPECT_EQ(products[i], products[0]);
    EXPECT_EQ(adjoints[i], adjoints[0]);
  }
}
#endif

// Where the entry function is called from one thread, a call is for rows or columns of many blocks; the matrix has the
// same bits as by blocks.
template <class T>
void is_the_same_in_waves(const Communicator& comm) {
  const Geometry g = sphere(2100);
  const auto plain = kernel<T>(g);
  const EntryFunction<T> jumps = [&](std::span<const Global> rows, std::span<const Global> columns, T* out) {
    plain(rows, columns, out);
    for (const Global j : columns)
      for (const Global i : rows)
        if (T& a = *out++; distance(g.points[std::size_t(i)], g.points[std::size_t(j)]) > 1.2) a = T(0);
  };
  for (const bool smooth : {true, false})
    for (const auto method : {Compression::aca_plus, Compression::aca}) {
      HMatrixOptions options;
      options.compress.method = method;
      options.compress.verify = smooth;  // otherwise small blocks are compared with all entries
      std::vector<std::vector<T>> products;
      std::vector<HMatrixReport> reports;
      std::atomic<int> calls = 0;
      std::vector<int> counts;
      const EntryFunction<T> counted = [&](auto rows, auto columns, T* out) {
        ++calls;
        (smooth ? plain : jumps)(rows, columns, out);
      };
      for (const bool concurrent : {true, false}) {
        options.concurrent = concurrent;
        const HMatrix<T> A(Space::distributed(comm, 2100), tree_of(g, leaves(48)), counted, options);
        const auto x = test::vector_of<T>(A.domain(), 5);
        Vector<T> y(A.range());
        A.apply(x, y);
        products.push_back(y.to_host());
        reports.push_back(A.report());
        counts.push_back(calls.exchange(0));
      }
      EXPECT_EQ(products[1], products[0]);
      EXPECT_EQ(reports[1].ranks, reports[0].ranks);
      EXPECT_EQ(reports[1].estimated_error, reports[0].estimated_error);
      EXPECT_NEAR(reports[1].entries_evaluated, reports[0].entries_evaluated, 0.2 * reports[0].entries_evaluated);
      if (smooth && comm.size() == 1) {
        EXPECT_LE(3 * counts[1], counts[0]);
      }
    }
}
TEST(HMatrix, IsTheSameInWaves) {
  on_ranks([](const Communicator& comm) { is_the_same_in_waves<double>(comm); }, {1, 3});
#if TACIT_SCALARS_Host & 8
  is_the_same_in_waves<Complex>(Communicator::self());
#endif
}

// Zero far blocks, a zero matrix; all points at one place; fewer points than a leaf has, or than there are ranks.
TEST(HMatrix, TakesOddMatrices) {
  on_ranks(
      [](const Communicator& comm) {
        const EntryFunction<double> zero = [](auto r, auto c, double* out) {
          std::fill_n(out, r.size() * c.size(), 0.0);
        };
        const Geometry g = sphere(120);
        for (const bool replicated : {false, true}) {
          const auto space = [&](Global n) {
            return replicated ? Space::replicated(comm, n) : Space::distributed(comm, n);
          };
          const HMatrix<double> none(space(120), tree_of(g, leaves(8)), zero);
          EXPECT_EQ(norm_of(entries_of<double>(none)), 0);
          EXPECT_EQ(none.report().max_rank, 0);

          const EntryFunction<double> screened = [&](auto rows, auto columns, double* out) {
            for (const Global j : columns)
              for (const Global i : rows) {
                const double r = distance(g.points[std::size_t(i)], g.points[std::size_t(j)]);
                *out++ = r < 0.2 ? 1 - r : 0;
              }
          };
          const HMatrix<double> near(space(120), tree_of(g, leaves(8)), screened);
          EXPECT_LE(relative_error(entries_of<double>(near), dense(screened, 120, 120)), 1e-4);

          Geometry same = sphere(60);
          for (std::size_t i = 20; i < 60; ++i) same.points[i] = same.points[i % 2];
          const HMatrix<double> heaped(space(60), tree_of(same, leaves(4)), kernel<double>(same));
          EXPECT_LE(relative_error(entries_of<double>(heaped), dense(kernel<double>(same), 60, 60)), 1e-4);

          for (const Global n : {1, 2, 7}) {
            const Geometry few = sphere(n);
            const HMatrix<double> A(space(n), tree_of(few), kernel<double>(few));
            EXPECT_LE(relative_error(entries_of<double>(A), dense(kernel<double>(few), n, n)), 1e-4);
            EXPECT_EQ(A.report().low_rank_blocks, 0);
          }
        }
      },
      {1, 3});
}

TEST(HMatrix, SharesItsBytesEvenly) {
  for (const int ranks : {4, 9})
    comm::run_threads(ranks, [](const Communicator& comm) {
      // Half of the points on a line, half on a sphere: rows differ in their memory.
      Geometry g = sphere(2000);
      for (std::size_t i = 0; i < 1000; ++i) g.points[i] = {2 + double(i) / 300, 0, 0};
      const HMatrix<double> A(Space::replicated(comm, 2000), tree_of(g, leaves(32)), kernel<double>(g));
      const auto& r = A.report();
      EXPECT_GE(r.least_bytes, 0.95 * r.most_bytes) << r.least_bytes << " to " << r.most_bytes;
      const auto rows = A.own_rows();
      EXPECT_EQ(comm.all_sum(Global(rows.second - rows.first)), 2000);
    });
}

TEST(HMatrix, SaysWhichEntryIsNoNumber) {
  on_ranks([](const Communicator& comm) {
    const Geometry g = sphere(100);
    const auto plain = kernel<double>(g);
    const EntryFunction<double> bad = [&](std::span<const Global> rows, std::span<const Global> columns, double* out) {
      plain(rows, columns, out);
      for (std::size_t j = 0; j < columns.size(); ++j)
        for (std::size_t i = 0; i < rows.size(); ++i)
          if (rows[i] == 41 && columns[j] == 41) out[i + j * rows.size()] = NAN;
    };
    for (const bool concurrent : {true, false}) try {
        HMatrixOptions options;
        options.concurrent = concurrent;
        const HMatrix<double> A(Space::distributed(comm, 100), tree_of(g, leaves(16)), bad, options);
        ADD_FAILURE() << "a NaN was taken";
      } catch (const Error& e) {
        EXPECT_EQ(e.kind(), ErrorKind::input);
        EXPECT_NE(std::string(e.what()).find("row 41, column 41"), std::string::npos) << e.what();
      }
  });
}

TEST(HMatrix, ThrowsTheErrorOfOneRankOnAll) {
  on_ranks([](const Communicator& comm) {
    const Geometry g = sphere(100);
    const auto plain = kernel<double>(g);
    std::atomic<int> calls = 0;
    for (const int last : {0, 20, 120}) {  // sampling; blocks, on one thread those of one wave after the other
      HMatrixOptions options;
      options.concurrent = last == 20;
      calls = 0;
      const EntryFunction<double> breaks = [&](auto rows, auto columns, double* out) {
        if (comm.rank() == comm.size() - 1 && calls++ >= last) throw std::runtime_error("no entries today");
        plain(rows, columns, out);
      };
      try {
        const HMatrix<double> A(Space::distributed(comm, 100), tree_of(g, leaves(8)), breaks, options);
        ADD_FAILURE() << "nothing was thrown";
      } catch (const std::exception& e) {
        EXPECT_NE(std::string(e.what()).find("no entries today"), std::string::npos) << e.what();
      }
    }
    const HMatrix<double> A(Space::distributed(comm, 100), tree_of(g, leaves(8)), plain);  // works after the error
    EXPECT_LE(relative_error(entries_of<double>(A), dense(plain, 100, 100)), 1e-4);
  });
}

TEST(HMatrix, RefusesWhatItCannotUse) {
  on_ranks(
      [](const Communicator& comm) {
        const Geometry g = sphere(20);
        const auto space = Space::distributed(comm, 20);
        const auto entry = kernel<double>(g);
        const auto options = [](auto&& change) {
          HMatrixOptions o;
          change(o);
          return o;
        };
        const auto refused = [&](const HMatrixOptions& o) {
          EXPECT_THROW(HMatrix<double>(space, tree_of(g), entry, o), Error);
        };
        refused(options([](auto& o) { o.tolerance = 0; }));
        refused(options([](auto& o) { o.tolerance = 1; }));
        refused(options([](auto& o) { o.tolerance = NAN; }));
        refused(options([](auto& o) { o.sampled_rows = 0; }));
        refused(options([](auto& o) { o.compress.max_rank = -1; }));
        refused(options([](auto& o) { o.admissibility.eta = -1; }));
        EXPECT_THROW(HMatrix<double>(space, tree_of(sphere(21)), entry), Error);
        EXPECT_THROW(HMatrix<double>(space, tree_of(g), {}), Error);
        EXPECT_THROW(HMatrix<double>(space, nullptr, entry), Error);
        EXPECT_THROW(HMatrix<double>(space, Space::replicated(comm, 20), tree_of(g), tree_of(g), entry), Error);
      },
      {1, 2});
}

// What assembly on many ranks takes: messages of a reduction, and not what all ranks have on each.
TEST(HMatrix, NumbersOfAllRanksAreSummedByReductions) {
  if (under_mpi()) GTEST_SKIP() << "one process simulates all ranks";
  constexpr int ranks = 64, rounds = 6;
  constexpr std::size_t n = 300;
  const auto times = comm::simulate(ranks, {}, [&](const Communicator& comm) {
    comm::restart_clocks(comm);
    std::vector<double> own(n);
    for (std::size_t i = 0; i < n; ++i) own[i] = double(i) / (comm.rank() + 1);
    const auto sums = op::detail::sum_over_ranks(comm, own);
    const auto read = comm::read_clocks(comm);
    double harmonic = 0;
    for (int r = 1; r <= ranks; ++r) harmonic += 1.0 / r;
    for (std::size_t i = 0; i < n; ++i) EXPECT_NEAR(sums[i], double(i) * harmonic, 1e-13 * double(i) * harmonic);
    EXPECT_EQ(op::detail::sum_over_ranks(comm, std::vector<Global>{comm.rank(), -1}),
              (std::vector<Global>{ranks * (ranks - 1) / 2, -ranks}));
    EXPECT_EQ(op::detail::sum_over_ranks(comm, std::vector<Complex>{{1.0, double(comm.rank())}}),
              (std::vector<Complex>{{double(ranks), ranks * (ranks - 1) / 2.0}}));
    EXPECT_EQ(op::detail::sum_over_ranks(comm, std::vector<float>{0.5f}), std::vector<float>{ranks / 2.0f});
    (void)comm::read_clocks(comm);
    EXPECT_LE(read.bytes, std::int64_t(ranks * rounds * (n + 1) * sizeof(double)));
  });
  EXPECT_GT(times.bytes, 0);
}

}  // namespace
