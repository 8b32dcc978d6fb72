// Preconditioners of H-matrices: factors, block diagonals, inner solves.
#include <gtest/gtest.h>
#include <tacit/base/lapack.hpp>
#include <tacit/krylov/inner.hpp>
#include <tacit/precond/hmatrix/block_diagonal.hpp>
#include <tacit/precond/hmatrix/hlu.hpp>
#include <tacit/precond/jacobi.hpp>

#include "op/hmatrix_cases.hpp"
#include "support/communicators.hpp"
#include "support/reference.hpp"

#include <complex>

#ifdef _OPENMP
#include <omp.h>
#endif

using namespace tacit;
using namespace tacit::op;
using comm::Communicator;
using layout::Vector;
using namespace tacit::test;
using Complex = std::complex<double>;

namespace {

template <class T>
Vector<T> minus(const Vector<T>& a, const Vector<T>& b) {
  Vector<T> c(a.space(), a.columns());
  for (std::size_t i = 0; i < a.size(); ++i) c.data()[i] = a.data()[i] - b.data()[i];
  return c;
}

// An unsymmetric matrix: 1 / r with differently scaled rows.
template <class T>
EntryFunction<T> uneven(const Geometry& g) {
  return [plain = kernel<T>(g)](std::span<const Global> rows, std::span<const Global> columns, T* out) {
    plain(rows, columns, out);
    for (std::size_t j = 0; j < columns.size(); ++j)
      for (std::size_t i = 0; i < rows.size(); ++i)
        out[i + j * rows.size()] *= real_t<T>(1 + 0.3 * double(rows[i] % 7));
  };
}

// The adjoint identity (P x, y) = (x, P^H y).
template <class T>
double adjoint_gap(const Operator<T>& P) {
  const auto& space = P.range();
  const auto x = test::vector_of<T>(space, 1), y = test::vector_of<T>(space, 2);
  Vector<T> Px(space), Py(space);
  P.apply(x, Px);
  P.apply_adjoint(y, Py);
  return double(std::abs(layout::dot(y, Px) - layout::dot(Py, x))) / (layout::norm(Px) * layout::norm(y));
}

template <class T>
void columns_are_single_ones(const Operator<T>& P, double tolerance) {
  const auto& space = P.range();
  const auto X = test::vector_of<T>(space, 3, 3);
  Vector<T> Y(space, 3), one(space), y(space);
  P.apply(X, Y);
  for (std::size_t c = 0; c < 3; ++c) {
    for (std::size_t i = 0; i < one.size(); ++i) one.data()[i] = X.data()[i * 3 + c];
    const auto before = space.comm().counters();
    P.apply(one, y);
    const auto after = space.comm().counters();
    EXPECT_EQ(double(after.messages - before.messages), P.cost().messages);
    EXPECT_EQ(double(after.bytes - before.bytes), P.cost().message_bytes);
    const double size = layout::norm(y);
    for (std::size_t i = 0; i < y.size(); ++i) ASSERT_LE(std::abs(y.data()[i] - Y.data()[i * 3 + c]), tolerance * size);
  }
}

template <class T>
void factors_invert(Symmetry symmetry) {
  const Geometry g = sphere(500);
  const auto entry = symmetry == Symmetry::none ? uneven<T>(g) : kernel<T>(g);
  HMatrixOptions options;
  options.tolerance = 1e-5;
  options.symmetry = symmetry;
  const auto space = Space::distributed(Communicator::self(), 500);
  for (const auto bisection : {Bisection::median, Bisection::midpoint}) {
    const HMatrix<T> A(space, tree_of(g, leaves(16, bisection)), entry, options);
    ASSERT_GT(A.report().low_rank_blocks, 0);
    const auto x = test::vector_of<T>(space, 1);
    Vector<T> b(space), y(space);
    A.apply(x, b);
    double last = 1;
    for (const double tolerance : {1e-1, 1e-3, 1e-5, 1e-8}) {
      const precond::Hlu<T> P(A, {tolerance, 0, 16, precond::FactorPrecision::full});
      P.apply(b, y);
      const double error = layout::norm(minus(y, x)) / layout::norm(x);
      EXPECT_LE(error, std::min(300 * tolerance, 0.7)) << tolerance;
      EXPECT_LE(error, last);
      last = error;
      EXPECT_LE(adjoint_gap(P), 1e-11);
      EXPECT_EQ(P.note(), "");
      EXPECT_FALSE(P.report().single);
    }
    columns_are_single_ones(precond::Hlu<T>(A, {1e-3, 0, 16, precond::FactorPrecision::full}), 1e-10);
    // In single precision, to its accuracy.
    const precond::Hlu<T> single(A, {1e-5, 0, 40, precond::FactorPrecision::automatic});
    EXPECT_TRUE(single.report().single);
    single.apply(b, y);
    EXPECT_LE(layout::norm(minus(y, x)), 1e-2 * layout::norm(x));
    EXPECT_LE(adjoint_gap(single), 1e-4);
  }
}
TEST(Hlu, InvertsToItsTolerance) {
  if (under_mpi()) GTEST_SKIP() << "the same as alone";
  factors_invert<double>(Symmetry::none);
#if TACIT_SCALARS_Host & 8
  factors_invert<Complex>(Symmetry::symmetric);
#endif
}

// d_i exp(-r_ij) conj(d_j) with |d_i| = 1, and a number on the diagonal: Hermitian.
template <class T>
EntryFunction<T> covariance(const Geometry& g, double nugget) {
  return [g, nugget](std::span<const Global> rows, std::span<const Global> columns, T* out) {
    for (const Global j : columns)
      for (const Global i : rows) {
        const double r = distance(g.points[std::size_t(i)], g.points[std::size_t(j)]), angle = double(i - j);
        if constexpr (is_complex<T>) *out++ = T(std::polar(std::exp(-r), angle) + (i == j ? nugget : 0));
        else *out++ = T(std::exp(-r) + (i == j ? nugget : 0));
      }
  };
}

// The sum of the logarithms of the squares of the diagonal of L, A = L L^H.
template <class T>
double log_determinant(std::vector<T> a, int n) {
  EXPECT_TRUE(lapack::cholesky(a.data(), n, n));
  double sum = 0;
  for (int i = 0; i < n; ++i) sum += 2 * std::log(std::abs(a[std::size_t(i) * std::size_t(n + 1)]));
  return sum;
}

template <class T>
void cholesky_factors_invert() {
  constexpr Global n = 700;
  const Geometry g = sphere(n);
  const auto entry = covariance<T>(g, 0.1);
  const double exact = log_determinant(dense(entry, n, n), int(n));
  HMatrixOptions options;
  options.tolerance = 1e-9;
  options.symmetry = Symmetry::hermitian;
  const auto space = Space::distributed(Communicator::self(), n);
  const HMatrix<T> A(space, tree_of(g, leaves(16)), entry, options);
  ASSERT_GT(A.report().low_rank_blocks, 0);
  const auto x = test::vector_of<T>(space, 1);
  Vector<T> b(space), y(space);
  A.apply(x, b);
  for (const double tolerance : {1e-4, 1e-8}) {
    const auto full = precond::FactorPrecision::full;
    const precond::Hlu<T> P(A, {tolerance, 0, 16, full}), lu(A, {tolerance, 0, 16, full, precond::Factors::lu});
    EXPECT_TRUE(P.report().cholesky);
    EXPECT_FALSE(lu.report().cholesky);
    EXPECT_EQ(P.report().shift, 0);
    EXPECT_LE(P.report().bytes, 0.62 * lu.report().bytes);
    for (const auto* one : {&P, &lu}) {
      one->apply(b, y);
      EXPECT_LE(layout::norm(minus(y, x)), 3e3 * tolerance * layout::norm(x));
      EXPECT_LE(adjoint_gap(*one), 1e-11);
      EXPECT_NEAR(one->report().log_determinant, exact, 3e3 * tolerance);
      EXPECT_NEAR(std::abs(one->report().sign - 1.0), 0, 1e-6 + 1e2 * tolerance);
    }
    columns_are_single_ones(P, 1e-10);
  }
  // Blocks of several hundred points, where products and truncations are done in other ways.
  const precond::Hlu<T> large(A, {1e-8, 0, 128, precond::FactorPrecision::full});
  EXPECT_NEAR(large.report().log_determinant, exact, 3e-5);
}
TEST(Hlu, IsCholeskyForHermitianMatrices) {
  if (under_mpi()) GTEST_SKIP() << "the same as alone";
  cholesky_factors_invert<double>();
#if TACIT_SCALARS_Host & 8
  cholesky_factors_invert<Complex>();
#endif
}

TEST(Hlu, ShiftsWhatIsNotPositiveDefiniteToItsTolerance) {
  if (under_mpi()) GTEST_SKIP() << "the same as alone";
  constexpr Global n = 600;
  const Geometry g = sphere(n);
  HMatrixOptions options;
  options.tolerance = 1e-10;
  options.symmetry = Symmetry::hermitian;
  const auto space = Space::distributed(Communicator::self(), n);
  const auto full = precond::FactorPrecision::full;
  const auto with = [&](double nugget) {
    return HMatrix<double>(space, tree_of(g, leaves(16)), covariance<double>(g, nugget), options);
  };
  // The smallest eigenvalues of exp(-r) are 0.0614, 0.0614, 0.0617, ..
  const HMatrix<double> A = with(-0.065);
  const precond::Hlu<double> shifted(A, {1e-2, 0, 16, full});
  EXPECT_TRUE(shifted.report().cholesky);
  EXPECT_GT(shifted.report().shift, 0);
  EXPECT_LE(shifted.report().shift, 1e-2 * A.report().norm * 100 / std::sqrt(double(n)) * (1 + 1e-12));
  EXPECT_NE(shifted.note().find("was added to the diagonal"), std::string::npos);
  // A small tolerance says that it is indefinite: by itself LU, which needs no shift.
  const precond::Hlu<double> exact(A, {1e-9, 0, 16, full});
  EXPECT_FALSE(exact.report().cholesky);
  EXPECT_EQ(exact.report().shift, 0);
  EXPECT_EQ(exact.note(), "");
  const auto x = test::vector_of<double>(space, 1);
  Vector<double> b(space), y(space);
  A.apply(x, b);
  exact.apply(b, y);
  EXPECT_LE(layout::norm(minus(y, x)), 1e-3 * layout::norm(x));
  // One that is stored by both triangles is not taken for a Hermitian one.
  options.symmetry = Symmetry::none;
  EXPECT_THROW(precond::Hlu<double>(with(0.1), {1e-2, 0, 16, full, precond::Factors::cholesky}), Error);
}

#ifdef _OPENMP
TEST(Hlu, DoesNotDependOnTheNumberOfThreads) {
  const Geometry g = sphere(1000);
  const auto space = Space::distributed(Communicator::self(), 1000);
  const HMatrix<double> A(space, tree_of(g, leaves(24)), uneven<double>(g));
  HMatrixOptions hermitian;
  hermitian.symmetry = Symmetry::hermitian;
  const HMatrix<double> H(space, tree_of(g, leaves(24)), covariance<double>(g, 0.1), hermitian);
  const auto x = test::vector_of<double>(space, 5);
  const int before = omp_get_max_threads();
  std::vector<std::vector<double>> results;
  for (const int threads : {1, 2, 4}) {
    omp_set_num_threads(threads);
    const precond::Hlu<double> P(A, {1e-2, 0, 24, precond::FactorPrecision::automatic});
    const precond::BlockDiagonal<double> D(A, {100, precond::FactorPrecision::automatic});
    Vector<double> y(space);
    P.apply(x, y);
    results.push_back(y.to_host());
    D.apply(x, y);
    results.push_back(y.to_host());
    const precond::Hlu<double> C(H, {1e-4, 0, 24, precond::FactorPrecision::full});
    EXPECT_TRUE(C.report().cholesky);
    C.apply(x, y);
    results.push_back(y.to_host());
  }
  omp_set_num_threads(before);
  for (std::size_t i = 3; i < results.size(); ++i) EXPECT_EQ(results[i], results[i % 3]);
}
#endif

// log |det A| and its sign, by LU.
template <class T>
std::pair<double, std::complex<double>> exact_determinant(std::vector<T> a, int n) {
  std::vector<int> pivots(static_cast<std::size_t>(n));
  lapack::lu(a.data(), n, n, pivots.data());
  double sum = 0;
  std::complex<double> sign = 1;
  for (int i = 0; i < n; ++i) {
    const std::complex<double> pivot = a[std::size_t(i) * std::size_t(n + 1)];
    sum += std::log(std::abs(pivot));
    sign *= (pivots[std::size_t(i)] == i ? 1.0 : -1.0) * pivot / std::abs(pivot);
  }
  return {sum, sign};
}

// Factors on several ranks are those of the whole matrix, for any distribution of vectors.
template <class T>
void factors_on_ranks(bool replicated, Symmetry symmetry) {
  constexpr Global n = 600;
  const Geometry g = sphere(n);
  const auto entry = symmetry == Symmetry::none        ? uneven<T>(g)
                     : symmetry == Symmetry::hermitian ? covariance<T>(g, 0.1)
                                                       : kernel<T>(g);
  const auto [log, sign] = exact_determinant(dense(entry, n, n), int(n));
  on_ranks(
      [&, log = log, sign = sign](const Communicator& comm) {
        HMatrixOptions options;
        options.tolerance = 1e-6;
        options.symmetry = symmetry;
        const auto space = replicated ? Space::replicated(comm, n) : Space::distributed(comm, n);
        const HMatrix<T> A(space, tree_of(g, leaves(16)), entry, options);
        ASSERT_GT(A.report().low_rank_blocks, 0);
        const auto x = test::vector_of<T>(space, 1);
        Vector<T> b(space), y(space);
        A.apply(x, b);
        for (const double tolerance : {1e-3, 1e-6}) {
          const auto before = comm.counters();
          const precond::Hlu<T> P(A, {tolerance, 0, 16, precond::FactorPrecision::full});
          const auto sent = comm.counters() - before;
          EXPECT_EQ(P.report().cholesky,
                    symmetry == Symmetry::hermitian || (!is_complex<T> && symmetry == Symmetry::symmetric));
          EXPECT_EQ(P.note(), "");
          EXPECT_GE(P.report().messages, double(comm.all_sum(Global(sent.messages))));
          EXPECT_LE(P.report().most_bytes, P.report().bytes);
          if (comm.size() > 1) {
            EXPECT_GT(P.report().message_bytes, double(comm.all_sum(Global(sent.bytes))));
            EXPECT_LE(P.report().most_bytes, 0.85 * P.report().bytes);
          }
          P.apply(b, y);
          EXPECT_LE(layout::norm(minus(y, x)), 3e3 * tolerance * layout::norm(x));
          EXPECT_LE(adjoint_gap(P), 1e-11);
          EXPECT_NEAR(P.report().log_determinant, log, 3e3 * tolerance);
          EXPECT_LE(std::abs(P.report().sign - sign), 3e3 * tolerance);
          columns_are_single_ones(P, 1e-10);
          Vector<T> again(space);  // the same bits, whenever messages arrive
          precond::Hlu<T>(A, {tolerance, 0, 16, precond::FactorPrecision::full}).apply(b, again);
          EXPECT_EQ(again.to_host(), y.to_host());
        }
      },
      {2, 5, 6});
}
TEST(Hlu, FactorisesTheWholeMatrixOnRanks) {
  factors_on_ranks<double>(false, Symmetry::none);
  factors_on_ranks<double>(true, Symmetry::symmetric);
  factors_on_ranks<double>(false, Symmetry::hermitian);
#if TACIT_SCALARS_Host & 8
  factors_on_ranks<Complex>(false, Symmetry::symmetric);
  factors_on_ranks<Complex>(false, Symmetry::hermitian);
#endif
}

// What cannot be factorised on one rank is not on any.
TEST(Hlu, AgreesOnFailuresOnRanks) {
  constexpr Global n = 400;
  const Geometry g = sphere(n);
  on_ranks(
      [&](const Communicator& comm) {
        HMatrixOptions options;
        options.tolerance = 1e-6;
        options.symmetry = Symmetry::hermitian;
        const auto space = Space::distributed(comm, n);
        const HMatrix<double> A(space, tree_of(g, leaves(16)), covariance<double>(g, -0.3), options);
        const auto full = precond::FactorPrecision::full;
        Vector<double> x(space), y(space);
        layout::fill(x, 1.0);
        // Indefinite by far: no shift helps.
        const precond::Hlu<double> never(A, {1e-6, 0, 16, full, precond::Factors::cholesky});
        EXPECT_NE(never.note().find("inverted by its diagonal"), std::string::npos) << never.note();
        EXPECT_TRUE(std::isnan(never.report().log_determinant));
        never.apply(x, y);
        for (std::size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y.data()[i], 1 / 0.7, 1e-6);
        const precond::Hlu<double> lu(A, {1e-6, 0, 16, full});
        EXPECT_FALSE(lu.report().cholesky);
        EXPECT_EQ(lu.report().shift, 0);
        EXPECT_EQ(lu.note(), "");
      },
      {2, 5});
}

// On several ranks each inverts diagonal blocks, in the order of the cluster tree, for any distribution of vectors.
template <class T>
void inverts_blocks(bool replicated, Symmetry symmetry) {
  const Geometry g = sphere(270);
  const auto entry = symmetry == Symmetry::none ? uneven<T>(g) : kernel<T>(g);
  const auto exact = dense(entry, 270, 270);
  on_ranks(
      [&](const Communicator& comm) {
        HMatrixOptions options;
        options.tolerance = 1e-9;
        options.symmetry = symmetry;
        const auto space = replicated ? Space::replicated(comm, 270) : Space::distributed(comm, 270);
        const HMatrix<T> A(space, tree_of(g, leaves(16)), entry, options);
        const auto order = A.row_tree()->order();
        const auto cuts = A.rows().cuts();
        const precond::BlockDiagonal<T> D(A, {1000, precond::FactorPrecision::full}),
            small(A, {32, precond::FactorPrecision::full});
        EXPECT_GE(D.blocks(), comm.size() > 10 ? 1 : comm.size());
        EXPECT_GT(small.blocks(), D.blocks());
        // b = (block diagonal of A) x, computed from the entries.
        const auto whole = test::whole_vector<T>(270, 1);
        std::vector<T> b(270, T(0));
        for (int r = 0; r < comm.size(); ++r)
          for (Global p = cuts[std::size_t(r)]; p < cuts[std::size_t(r) + 1]; ++p)
            for (Global q = cuts[std::size_t(r)]; q < cuts[std::size_t(r) + 1]; ++q) {
              const auto i = std::size_t(order[std::size_t(p)]), j = std::size_t(order[std::size_t(q)]);
              b[i] += exact[i + 270 * j] * whole[j];
            }
        Vector<T> x(space), right(space), y(space);
        for (std::size_t i = 0; i < x.size(); ++i)
          x.data()[i] = whole[std::size_t(space.begin()) + i], right.data()[i] = b[std::size_t(space.begin()) + i];
        D.apply(right, y);
        EXPECT_LE(layout::norm(minus(y, x)), 1e-6 * layout::norm(x));
        for (const auto* one : {&D, &small}) {
          EXPECT_LE(adjoint_gap<T>(*one), 1e-10);
          columns_are_single_ones<T>(*one, 1e-10);
        }
      },
      {1, 2, 3, 5});
}
TEST(HMatrixPreconditioners, InvertDiagonalBlocksOnRanks) {
  inverts_blocks<double>(false, Symmetry::none);
  inverts_blocks<double>(true, Symmetry::symmetric);
#if TACIT_SCALARS_Host & 8
  inverts_blocks<Complex>(false, Symmetry::symmetric);
#endif
}

TEST(HMatrixPreconditioners, TakeOddMatrices) {
  on_ranks(
      [](const Communicator& comm) {
        for (const Global n : {1, 2, 7}) {  // fewer points than ranks
          const Geometry few = sphere(n);
          const auto space = Space::distributed(comm, n);
          const HMatrix<double> A(space, tree_of(few), kernel<double>(few));
          const precond::Hlu<double> P(A, {1e-6, 0, 4, precond::FactorPrecision::full});
          const precond::BlockDiagonal<double> D(A, {3, precond::FactorPrecision::full});
          Vector<double> x(space), b(space), y(space);
          layout::fill(x, 1.0);
          A.apply(x, b);
          P.apply(b, y);
          EXPECT_LE(layout::norm(minus(y, x)), 1e-10);
          D.apply(b, y);
          EXPECT_TRUE(std::isfinite(layout::norm(y)));
        }
        // A zero matrix, and one with two equal rows: pivots are replaced, and reported.
        const Geometry g = sphere(96);
        const EntryFunction<double> zero = [](auto r, auto c, double* out) {
          std::fill_n(out, r.size() * c.size(), 0.0);
        };
        const EntryFunction<double> twice = [&g, plain = kernel<double>(g)](auto r, auto c, double* out) {
          plain(r, c, out);
          for (std::size_t j = 0; j < c.size(); ++j)
            for (std::size_t i = 0; i < r.size(); ++i)
              if (r[i] == 40) {
                const Global other = 39;
                plain(std::span(&other, 1), c.subspan(j, 1), out + i + j * r.size());
              }
        };
        const auto space = Space::distributed(comm, 96);
        Vector<double> x(space), y(space);
        layout::fill(x, 1.0);
        for (const auto* entry : {&zero, &twice}) {
          const HMatrix<double> A(space, tree_of(g, {Bisection::median, 96, 0}), *entry);
          const precond::Hlu<double> P(A, {1e-3, 0, 96, precond::FactorPrecision::full});
          const precond::BlockDiagonal<double> D(A, {96, precond::FactorPrecision::full});
          EXPECT_NE(P.note().find("replaced"), std::string::npos) << P.note();
          if (comm.size() == 1 || entry == &zero) {
            EXPECT_NE(D.note().find("replaced"), std::string::npos) << D.note();
          }
          for (const Operator<double>* op :
               {static_cast<const Operator<double>*>(&P), static_cast<const Operator<double>*>(&D)}) {
            op->apply(x, y);
            EXPECT_TRUE(std::isfinite(layout::norm(y)));
          }
        }
      },
      {1, 4});
}

// Matrices and vectors out of range of single precision: P acts as on scaled ones.
TEST(HMatrixPreconditioners, TakeNumbersOfAnySize) {
  const Geometry g = sphere(200);
  const auto space = Space::distributed(Communicator::self(), 200);
  const auto x = test::vector_of<double>(space, 5);
  const auto apply = [&](double of_matrix, double of_vector, bool factors) {
    const EntryFunction<double> entry = [&, plain = kernel<double>(g)](auto r, auto c, double* out) {
      plain(r, c, out);
      for (std::size_t i = 0; i < r.size() * c.size(); ++i) out[i] *= of_matrix;
    };
    const HMatrix<double> A(space, tree_of(g, leaves(32)), entry);
    std::unique_ptr<Operator<double>> P;
    if (factors) P = std::make_unique<precond::Hlu<double>>(A, precond::HluOptions{1e-2});
    else P = std::make_unique<precond::BlockDiagonal<double>>(A, precond::BlockDiagonalOptions{50});
    Vector<double> in(space), out(space);
    for (std::size_t i = 0; i < in.size(); ++i) in.data()[i] = of_vector * x.data()[i];
    P->apply(in, out);
    for (std::size_t i = 0; i < out.size(); ++i) out.data()[i] *= of_matrix / of_vector;
    return out;
  };
  for (const bool factors : {false, true}) {
    const auto expected = apply(1, 1, factors);
    for (const double size : {0x1p-200, 0x1p160})
      for (const auto& other : {apply(size, 1, factors), apply(1, size, factors)})
        EXPECT_LE(layout::norm(minus(other, expected)), (factors ? 1e-2 : 1e-5) * layout::norm(expected))
            << size << (factors ? ", factors" : "");
  }
}

// Factors in a precision whose range squares of the matrix's numbers leave are those of a scaled matrix.
template <class T>
void factors_of_any_size() {
  const Geometry g = sphere(300);
  on_ranks(
      [&](const Communicator& comm) {
        const auto space = Space::distributed(comm, 300);
        const auto x = test::vector_of<T>(space, 5);
        HMatrixOptions options;
        options.tolerance = 1e-4;
        const HMatrix<T> A(space, tree_of(g, leaves(16)), kernel<T>(g), options);
        ASSERT_GT(A.report().low_rank_blocks, 0);
        precond::HluOptions o{1e-3, 0, 16, precond::FactorPrecision::single};
        const precond::Hlu<T> one(A, o);
        ASSERT_GT(one.report().low_rank_blocks, 0);
        Vector<T> expected(space), y(space);
        one.apply(x, expected);
        for (const double size : {0x1p-100, 0x1p-70, 0x1p60, 0x1p90}) {
          o.scale = size;
          const precond::Hlu<T> F(A, o);
          EXPECT_TRUE(F.report().single);
          EXPECT_EQ(F.note(), "");
          EXPECT_NEAR(F.report().log_determinant, one.report().log_determinant + 300 * std::log(size), 1e-2);
          for (const bool adjoint : {false, true}) {
            adjoint ? F.apply_adjoint(x, y) : F.apply(x, y);
            for (auto& v : std::span(y.data(), y.size())) v *= real_t<T>(size);
            adjoint ? one.apply_adjoint(x, expected) : one.apply(x, expected);
            EXPECT_LE(layout::norm(minus(y, expected)), 1e-4 * layout::norm(expected)) << size;
          }
        }
      },
      {1, 3});
}

TEST(Hlu, FactorisesNumbersOfAnySizeInAnyPrecision) {
  factors_of_any_size<double>();
#if TACIT_SCALARS_Host & 1
  factors_of_any_size<float>();
#endif
}

TEST(HMatrixPreconditioners, RefuseWhatTheyCannotUse) {
  on_ranks(
      [](const Communicator& comm) {
        const Geometry g = sphere(40), sources = sphere(40);
        const auto space = Space::distributed(comm, 40);
        const HMatrix<double> A(space, tree_of(g), kernel<double>(g)),
            two(space, space, tree_of(g), tree_of(sources), kernel<double>(g));
        using precond::Hlu, precond::BlockDiagonal;
        EXPECT_THROW(Hlu<double>(A, {0.0}), Error);
        EXPECT_THROW(Hlu<double>(A, {1.0}), Error);
        EXPECT_THROW(Hlu<double>(A, {1e-2, -1}), Error);
        EXPECT_THROW(Hlu<double>(A, {1e-2, 0, 0}), Error);
        EXPECT_THROW(Hlu<double>{two}, Error);
        EXPECT_THROW(BlockDiagonal<double>(A, {0}), Error);
        EXPECT_THROW(BlockDiagonal<double>{two}, Error);
      },
      {1, 2});
}

// Points of two very different densities: ill conditioned without a preconditioner.
Geometry clustered(Global n) {
  Geometry g = sphere(n);
  for (std::size_t i = 0; i < g.points.size(); i += 2)
    g.points[i] = {1.5 + 0.02 * g.points[i][0], 0.02 * g.points[i][1], 0.02 * g.points[i][2]};
  return g;
}
template <class T>
EntryFunction<T> charges(const Geometry& g) {
  return [points = g.points](std::span<const Global> rows, std::span<const Global> columns, T* out) {
    for (const Global j : columns)
      for (const Global i : rows) {
        const double size = i % 2 == 0 ? 1e-3 : 5e-2;
        *out++ = T(1 / std::hypot(distance(points[std::size_t(i)], points[std::size_t(j)]), i == j ? size : 0));
      }
  };
}

TEST(HMatrixPreconditioners, SaveIterations) {
  const Geometry g = clustered(700);
  const auto entry = charges<double>(g);
  on_ranks(
      [&](const Communicator& comm) {
        const auto space = Space::distributed(comm, 700);
        const auto A = std::make_shared<const HMatrix<double>>(space, tree_of(g, leaves(32)), entry);
        const auto b = test::vector_of<double>(space, 4);
        const auto iterations = [&](const Operator<double>* P, krylov::Method method = krylov::Method::bicgstab) {
          krylov::Options o;
          o.method = method;
          if (method == krylov::Method::gmres) o.side = krylov::Side::flexible;
          o.rtol = 1e-7;
          o.fallbacks = false;
          Vector<double> x(space), Ax(space);
          const auto report = krylov::solve<double, Host>(*A, P, b, x, o);
          EXPECT_TRUE(report.converged()) << report.detail;
          A->apply(x, Ax);
          EXPECT_LE(layout::norm(minus(Ax, b)), 1.01e-7 * layout::norm(b));
          return report.iterations;
        };
        const int plain = iterations(nullptr);
        const precond::BlockDiagonal<double> D(*A, {200, precond::FactorPrecision::automatic});
        const precond::Hlu<double> P(*A, {1e-2, 0, 32, precond::FactorPrecision::automatic});
        const int blocks = iterations(&D), factors = iterations(&P);
        EXPECT_LT(blocks, plain);
        EXPECT_LE(factors, 5);
        // As in the paper: a matrix of rank one and 20 inner iterations.
        const auto coarse = std::make_shared<const HMatrix<double>>(*A, CoarseOptions{1, 1e-2});
        const auto jacobi = std::make_shared<const precond::Jacobi<double, Host>>(*coarse, false);
        for (const auto outer : {krylov::Method::bicgstab, krylov::Method::gmres})
          for (const auto method : {krylov::Method::bicgstab, krylov::Method::gmres, krylov::Method::ca_gmres}) {
            if (comm.size() > 1 && outer != method) continue;
            auto inner = krylov::Inner<double>::defaults();
            inner.method = method;
            const krylov::Inner<double> Q(coarse, jacobi, inner);
            EXPECT_LE(iterations(&Q, outer), plain / 4) << Q.name();
            EXPECT_GT(Q.report().solves, 0);
            EXPECT_LE(Q.report().iterations, 20 * Q.report().solves);
            EXPECT_LT(Q.report().worst, 1);
          }
        // Several columns compared with single ones.
        const krylov::Inner<double> Q(coarse, jacobi);
        const auto X = test::vector_of<double>(space, 3, 2);
        Vector<double> Y(space, 2), one(space), y(space);
        Q.apply(X, Y);
        for (std::size_t c = 0; c < 2; ++c) {
          for (std::size_t i = 0; i < one.size(); ++i) one.data()[i] = X.data()[2 * i + c];
          Q.apply(one, y);
          for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y.data()[i], Y.data()[2 * i + c]);
        }
      },
      {3});
}

}  // namespace
