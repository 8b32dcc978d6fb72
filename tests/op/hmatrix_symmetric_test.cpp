// H-matrices that store one triangle, and coarser copies.
#include <gtest/gtest.h>
#include <tacit/op/hmatrix/hmatrix.hpp>

#include "hmatrix_cases.hpp"
#include "support/communicators.hpp"
#include "support/reference.hpp"
#include "support/scalars.hpp"

#include <complex>

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

// 1 / r, times a phase that is antisymmetric, so that the matrix is Hermitian.
template <class T>
EntryFunction<T> hermitian_kernel(const Geometry& g) {
  return [points = g.points](std::span<const Global> rows, std::span<const Global> columns, T* out) {
    for (const Global j : columns)
      for (const Global i : rows) {
        const auto &p = points[std::size_t(i)], &q = points[std::size_t(j)];
        const double r = std::max(distance(p, q), 0.05);
        if constexpr (is_complex<T>) *out++ = T(std::polar(1 / r, 0.5 * (p[0] - q[0])));
        else *out++ = T(1 / r);
      }
  };
}

template <class T>
void keeps_one_triangle(Symmetry symmetry, std::initializer_list<int> ranks) {
  const Geometry g = sphere(263);
  const auto entry = symmetry == Symmetry::hermitian ? hermitian_kernel<T>(g) : kernel<T>(g);
  const auto exact = dense(entry, 263, 263);
  std::vector<T> adjoint(exact.size());
  for (std::size_t i = 0; i < 263; ++i)
    for (std::size_t j = 0; j < 263; ++j) adjoint[j + i * 263] = conj(exact[i + j * 263]);
  on_ranks(
      [&](const Communicator& comm) {
        HMatrixOptions options;
        options.tolerance = 1e-6;
        options.symmetry = symmetry;
        const auto tree = tree_of(g, leaves(16));
        for (const bool replicated : {false, true}) {
          const auto space = replicated ? Space::replicated(comm, 263) : Space::distributed(comm, 263);
          const HMatrix<T> A(space, tree, entry, options);
          EXPECT_LE(relative_error(entries_of<T>(A), exact), 1e-6);
          EXPECT_LE(relative_error(entries_of<T>(A, true), adjoint), 1e-6);
          EXPECT_LE(A.report().estimated_error, 1e-6);
          EXPECT_LE(A.report().measured_error, 3e-6);
          EXPECT_NEAR(A.report().norm, norm_of(exact), 1e-5 * norm_of(exact));
          options.symmetry = Symmetry::none;
          const HMatrix<T> whole(space, tree, entry, options);
          options.symmetry = symmetry;
          EXPECT_LE(A.report().bytes, 0.6 * whole.report().bytes);
          const auto d = A.diagonal();
          for (std::size_t i = 0; i < d.size(); ++i)
            EXPECT_LE(std::abs(d[i] - exact[std::size_t(A.range().begin() + Global(i)) * 264]), 1e-6 * std::abs(d[i]));
          // Single columns agree with several at once; messages are as cost() states.
          const auto X = test::vector_of<T>(space, 3, 5);
          Vector<T> Y(space, 5), one(space), y(space);
          A.apply(X, Y);
          for (std::size_t c = 0; c < 5; ++c) {
            for (std::size_t i = 0; i < one.size(); ++i) one.data()[i] = X.data()[i * 5 + c];
            const auto before = comm.counters();
            A.apply(one, y);
            const auto after = comm.counters();
            EXPECT_EQ(double(after.messages - before.messages), A.cost().messages);
            EXPECT_EQ(double(after.bytes - before.bytes), A.cost().message_bytes);
            for (std::size_t i = 0; i < y.size(); ++i)
              ASSERT_LE(std::abs(y.data()[i] - Y.data()[i * 5 + c]), 1e-12 * norm_of(exact));
          }
          if (!replicated) continue;
          const auto all = comm.all_gather_bytes(std::as_bytes(std::span<const T>(y.data(), y.size())));
          for (const auto& bytes : all) EXPECT_EQ(bytes, all.front());
        }
      },
      ranks);
}
TEST(SymmetricHMatrix, KeepsOneTriangle) {
  keeps_one_triangle<double>(Symmetry::symmetric, {2, 3, 5});
#if TACIT_SCALARS_Host & 8
  keeps_one_triangle<Complex>(Symmetry::symmetric, {3});
  keeps_one_triangle<Complex>(Symmetry::hermitian, {2});
#endif
}

#ifdef _OPENMP
TEST(SymmetricHMatrix, DoesNotDependOnTheNumberOfThreads) {
  const Geometry g = sphere(700);
  const auto space = Space::distributed(Communicator::self(), 700);
  HMatrixOptions options;
  options.symmetry = Symmetry::symmetric;
  const HMatrix<Complex> A(space, tree_of(g, leaves(24)), kernel<Complex>(g), options);
  const auto x = test::vector_of<Complex>(space, 5);
  Vector<Complex> y(space);
  const int before = omp_get_max_threads();
  std::vector<std::vector<Complex>> products;
  for (const int threads : {1, 2, 5}) {
    omp_set_num_threads(threads);
    A.apply(x, y);
    products.push_back(y.to_host());
    A.apply_adjoint(x, y);
    products.push_back(y.to_host());
  }
  omp_set_num_threads(before);
  for (std::size_t i = 2; i < products.size(); ++i) EXPECT_EQ(products[i], products[i % 2]);
}
#endif

TEST(SymmetricHMatrix, RefusesWhatIsNotSymmetric) {
  on_ranks(
      [](const Communicator& comm) {
        const Geometry g = sphere(150);
        const auto space = Space::distributed(comm, 150);
        const auto plain = kernel<Complex>(g);
        HMatrixOptions options;
        options.symmetry = Symmetry::hermitian;  // but the matrix is complex symmetric
        try {
          const HMatrix<Complex> A(space, tree_of(g, leaves(16)), plain, options);
          ADD_FAILURE() << "a symmetric complex matrix passed for a hermitian one";
        } catch (const Error& e) {
          EXPECT_EQ(e.kind(), ErrorKind::usage);
          EXPECT_NE(std::string(e.what()).find("not hermitian: row and column"), std::string::npos) << e.what();
        }
        options.symmetry = Symmetry::symmetric;
        EXPECT_THROW(HMatrix<Complex>(space, space, tree_of(g, leaves(16)), tree_of(g, leaves(16)), plain, options),
                     Error);
      },
      {1, 3});
}

// --- coarse ones

template <class T>
void has_coarse_copies(Symmetry symmetry) {
  const Geometry g = sphere(300);
  const auto entry = kernel<T>(g.points, g.points, 0.5);
  const auto exact = dense(entry, 300, 300);
  on_ranks(
      [&](const Communicator& comm) {
        HMatrixOptions options;
        options.tolerance = 1e-4;
        options.symmetry = symmetry;
        const auto space = Space::distributed(comm, 300);
        const HMatrix<T> A(space, tree_of(g, leaves(24)), entry, options);
        ASSERT_GE(A.report().max_rank, 4);
        // With a tolerance below A's own: the same matrix.
        const HMatrix<T> same(A, {0, 1e-6});
        EXPECT_LE(relative_error(entries_of<T>(same), exact), 1.1e-4);
        EXPECT_EQ(same.report().low_rank_blocks, A.report().low_rank_blocks);
        double last = 1;
        for (const Local rank : {1, 2, 3}) {
          const HMatrix<T> B(A, {rank, 1e-4});
          const double error = relative_error(entries_of<T>(B), exact);
          EXPECT_LE(B.report().max_rank, rank);
          EXPECT_LE(B.report().bytes, A.report().bytes);
          EXPECT_LE(error, 1.1 * B.report().estimated_error);
          EXPECT_GE(error, 0.5 * B.report().estimated_error);
          EXPECT_LT(error, last);
          last = error;
          EXPECT_EQ(B.diagonal(), A.diagonal());
          // Assembled from the entries with the same limit of the rank, it is about as accurate (ACA adds an error).
          options.compress.cut_rank = rank;
          const HMatrix<T> made(space, tree_of(g, leaves(24)), entry, options);
          options.compress.cut_rank = 0;
          EXPECT_LE(made.report().max_rank, rank);
          EXPECT_LE(relative_error(entries_of<T>(made), exact), 2 * error);
          EXPECT_LE(made.report().entries_evaluated, A.report().entries_evaluated);
        }
        EXPECT_THROW(HMatrix<T>(A, {-1, 1e-2}), Error);
        EXPECT_THROW(HMatrix<T>(A, {1, 0}), Error);
      },
      {1, 3});
}
TEST(HMatrix, HasCoarseCopies) {
  has_coarse_copies<double>(Symmetry::none);
#if TACIT_SCALARS_Host & 8
  has_coarse_copies<Complex>(Symmetry::symmetric);
#endif
}

// The blocks of the diagonal square of a rank's own rows agree with products, for every storage.
TEST(HMatrix, UnpacksItsOwnSquare) {
  const Geometry g = sphere(211);
  for (const auto symmetry : {Symmetry::none, Symmetry::symmetric, Symmetry::hermitian}) {
    const auto entry = symmetry == Symmetry::hermitian ? hermitian_kernel<Complex>(g) : kernel<Complex>(g);
    const auto exact = dense(entry, 211, 211);
    on_ranks(
        [&](const Communicator& comm) {
          HMatrixOptions options;
          options.tolerance = 1e-4;
          options.symmetry = symmetry;
          const HMatrix<Complex> A(Space::distributed(comm, 211), tree_of(g, leaves(16)), entry, options);
          const auto [first, last] = A.own_rows();
          const auto order = A.row_tree()->order();
          std::vector<Complex> ours, theirs;
          std::vector<int> count(std::size_t(last - first) * std::size_t(last - first));
          for (const auto& m : A.own_square()) {
            const std::size_t rows = std::size_t(m.block.rows()), columns = std::size_t(m.block.columns());
            for (std::size_t j = 0; j < columns; ++j)
              for (std::size_t i = 0; i < rows; ++i) {
                const Local r = m.block.row_begin + Local(i), c = m.block.column_begin + Local(j);
                ASSERT_TRUE(r >= first && r < last && c >= first && c < last);
                ++count[std::size_t(r - first) + std::size_t(c - first) * std::size_t(last - first)];
                Complex value(0);
                if (m.dense) value = m.u[i + j * rows];
                else
                  for (std::size_t k = 0; k < std::size_t(m.rank); ++k)
                    value += m.u[i + k * rows] * std::conj(m.v[j + k * columns]);
                ours.push_back(value);
                theirs.push_back(exact[std::size_t(order[std::size_t(r)] + 211 * order[std::size_t(c)])]);
              }
          }
          EXPECT_EQ(std::size_t(std::count(count.begin(), count.end(), 1)), count.size());
          if (!ours.empty()) {
            EXPECT_LE(relative_error(ours, theirs), 3e-4);
          }
        },
        {1, 2, 5});
  }
}

}  // namespace
