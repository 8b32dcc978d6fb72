// Arithmetic of H-matrices beside that of dense matrices: shifts, sums, corrections, products, inverses, factors of
// shifts.
#include <gtest/gtest.h>
#include <tacit/base/lapack.hpp>
#include <tacit/op/hmatrix/algebra.hpp>
#include <tacit/precond/hmatrix/algebra.hpp>
#include <tacit/precond/hmatrix/hlu.hpp>

#include "op/hmatrix_cases.hpp"
#include "support/communicators.hpp"
#include "support/reference.hpp"

#include <complex>

using namespace tacit;
using namespace tacit::op;
using comm::Communicator;
using layout::Vector;
using namespace tacit::test;
using Complex = std::complex<double>;

namespace {

constexpr Global n = 500;
constexpr double tolerance = 1e-5;

template <class T>
EntryFunction<T> smooth(const Geometry& g, double length) {
  return [g, length](std::span<const Global> rows, std::span<const Global> columns, T* out) {
    for (const Global j : columns)
      for (const Global i : rows) {
        const double r = distance(g.points[std::size_t(i)], g.points[std::size_t(j)]);
        const double v = std::exp(-r / length) * (1 + 0.1 * double(i % 3)) + (i == j ? 2 : 0);
        if constexpr (is_complex<T>) *out++ = std::polar(v, 0.3 * double(j % 5));
        else *out++ = T(v);
      }
  };
}
template <class T>
EntryFunction<T> hermitian(const Geometry& g, double length) {
  return [g, length](std::span<const Global> rows, std::span<const Global> columns, T* out) {
    for (const Global j : columns)
      for (const Global i : rows) {
        const double r = distance(g.points[std::size_t(i)], g.points[std::size_t(j)]);
        const double v = std::exp(-r / length) + (i == j ? 0.5 : 0);
        if constexpr (is_complex<T>) *out++ = std::polar(v, 0.2 * double(i - j));
        else *out++ = T(v);
      }
  };
}

// The relative error of an operator's entries, and what its report says is not less.
template <class T>
void expect_near(const HMatrix<T>& a, std::vector<T> exact, double allowed) {
  const double size = norm_of(exact);
  const auto ours = entries_of(a);
  for (std::size_t i = 0; i < ours.size(); ++i) exact[i] -= ours[i];
  EXPECT_LE(norm_of(exact), allowed * size);
  EXPECT_NEAR(a.report().norm, size, 1e-5 * size);
  EXPECT_GT(a.report().estimated_error, 0);
  EXPECT_LE(a.report().estimated_error, allowed);
  const auto diagonal = a.own_diagonal();
  const auto order = a.row_tree()->order();
  for (std::size_t p = 0; p < diagonal.size(); ++p) {
    const auto i = std::size_t(order[p + std::size_t(a.rows().first())]);
    EXPECT_LE(std::abs(diagonal[p] - (ours[i * (std::size_t(n) + 1)])), 1e-6 * size);
  }
}
template <class T>
std::vector<T> times(const std::vector<T>& a, const std::vector<T>& b, char op = 'N') {
  std::vector<T> c(std::size_t(n * n), T(0));
  lapack::gemm('N', op, int(n), int(n), int(n), T(1), a.data(), int(n), b.data(), int(n), T(0), c.data(), int(n));
  return c;
}

template <class T>
void algebra_on_ranks(bool replicated, Symmetry symmetry) {
  const Geometry g = sphere(n);
  const bool any = symmetry == Symmetry::none;
  const auto first = any ? smooth<T>(g, 1.0) : hermitian<T>(g, 1.0),
             second = any ? smooth<T>(g, 0.3) : hermitian<T>(g, 0.3);
  const auto a = dense(first, n, n), b = dense(second, n, n);
  on_ranks(
      [&](const Communicator& comm) {
        HMatrixOptions options;
        options.tolerance = tolerance;
        options.symmetry = symmetry;
        const auto space = replicated ? Space::replicated(comm, n) : Space::distributed(comm, n);
        const HMatrix<T> A(space, tree_of(g, leaves(16)), first, options);
        options.admissibility.eta = 1;  // other blocks, and another division among ranks
        const HMatrix<T> B(space, tree_of(g, leaves(16)), second, options);
        ASSERT_GT(A.report().low_rank_blocks, 0);
        ASSERT_GT(B.report().low_rank_blocks, A.report().low_rank_blocks);

        T alpha(2), shift(-0.75);
        if constexpr (is_complex<T>)
          if (any) alpha = T(2, 1), shift = T(-0.75, 0.25);
        Vector<T> d(space);
        for (std::size_t i = 0; i < d.size(); ++i) d.data()[i] = T(double(std::size_t(space.begin()) + i) / double(n));
        auto expected = a;
        for (auto& v : expected) v *= alpha;
        for (std::size_t i = 0; i < std::size_t(n); ++i)
          expected[i * (std::size_t(n) + 1)] += shift + T(double(i) / double(n));
        const auto shifted_a = shifted(A, alpha, shift, &d);
        EXPECT_EQ(shifted_a->options().symmetry, symmetry);
        expect_near(*shifted_a, expected, 3 * tolerance);

        expected = a;
        for (std::size_t i = 0; i < a.size(); ++i) expected[i] = alpha * a[i] - T(3) * b[i];
        expect_near(*sum(alpha, A, T(-3), B, tolerance), expected, 10 * tolerance);
        expect_near(*sum(T(-3), B, alpha, A, tolerance), expected, 10 * tolerance);
        // Sums do not gather terms: A + A + .. has the ranks of A.
        auto many = sum(T(1), A, T(1), A, tolerance);
        for (int i = 0; i < 3; ++i) many = sum(T(1), *many, T(1), A, tolerance);
        EXPECT_LE(many->report().mean_rank, 1.3 * A.report().mean_rank + 1);
        // What cancels has no terms left.
        EXPECT_LE(sum(T(1), A, T(-1), A, tolerance)->report().norm, 1e-12 * A.report().norm);

        const auto U = test::vector_of<T>(space, 3, 2), W = any ? test::vector_of<T>(space, 4, 2) : U;
        const auto u = test::whole_vector<T>(2 * n, 3), w = any ? test::whole_vector<T>(2 * n, 4) : u;
        expected = a;
        for (std::size_t j = 0; j < std::size_t(n); ++j)
          for (std::size_t i = 0; i < std::size_t(n); ++i)
            for (std::size_t c = 0; c < 2; ++c) expected[i + j * std::size_t(n)] += u[i * 2 + c] * conj(w[j * 2 + c]);
        expect_near(*add_low_rank(A, U, W, tolerance), expected, 10 * tolerance);

        expect_near(*precond::product(A, B, tolerance), times(a, b), 100 * tolerance);

        // Factors of a multiple and a shift, made of the numbers of A.
        precond::HluOptions of_shift;
        of_shift.tolerance = 1e-8, of_shift.leaf_size = 16, of_shift.precision = precond::FactorPrecision::full;
        of_shift.scale = 2, of_shift.shift = 0.5;
        const precond::Hlu<T> F(A, of_shift);
        EXPECT_EQ(F.report().cholesky, symmetry == Symmetry::hermitian);
        const auto x = test::vector_of<T>(space, 1);
        Vector<T> right(space), y(space);
        A.apply(x, right);
        for (std::size_t i = 0; i < x.size(); ++i) right.data()[i] = T(2) * right.data()[i] + T(0.5) * x.data()[i];
        F.apply(right, y);
        for (std::size_t i = 0; i < x.size(); ++i) y.data()[i] -= x.data()[i];
        EXPECT_LE(layout::norm(y), 1e-3 * layout::norm(x));

        if (comm.size() > 1) {
          EXPECT_THROW(precond::inverse(A, tolerance), Error);
          return;
        }
        const auto inverse = precond::inverse(A, tolerance);
        auto one = times(a, entries_of(*inverse));
        for (std::size_t i = 0; i < std::size_t(n); ++i) one[i * (std::size_t(n) + 1)] -= T(1);
        EXPECT_LE(norm_of(one), 1e-2);
      },
      {3});
}

TEST(HMatrixAlgebra, IsThatOfDenseMatrices) {
  algebra_on_ranks<double>(false, Symmetry::none);
  algebra_on_ranks<double>(true, Symmetry::hermitian);
#if TACIT_SCALARS_Host & 8
  algebra_on_ranks<Complex>(true, Symmetry::none);
  algebra_on_ranks<Complex>(false, Symmetry::hermitian);
#endif
}

TEST(HMatrixAlgebra, RefusesWhatHasNoMeaning) {
  const Geometry g = sphere(100), other = sphere(101);
  on_ranks(
      [&](const Communicator& comm) {
        const auto space = Space::distributed(comm, 100);
        HMatrixOptions stored;
        stored.symmetry = Symmetry::hermitian;
        const HMatrix<double> A(space, tree_of(g, leaves(16)), kernel<double>(g)),
            coarser(space, tree_of(g, leaves(50)), kernel<double>(g)),
            two(space, space, tree_of(g), tree_of(g), kernel<double>(g)),
            H(space, tree_of(g, leaves(16)), kernel<double>(g), stored);
        const double nan = std::numeric_limits<double>::quiet_NaN();
        EXPECT_THROW(sum(1.0, A, 1.0, coarser, 1e-4), Error);
        EXPECT_THROW(sum(1.0, A, 1.0, H, 1e-4), Error);
        EXPECT_THROW(sum(1.0, A, 1.0, A, 0.0), Error);
        EXPECT_THROW(sum(nan, A, 1.0, A, 1e-4), Error);
        EXPECT_THROW(shifted(two, 1.0, 1.0), Error);
        EXPECT_THROW(shifted(A, 1.0, nan), Error);
        EXPECT_THROW(precond::product(A, coarser, 1e-4), Error);
        EXPECT_THROW(precond::product(A, A, 1.0), Error);
        const auto U = test::vector_of<double>(space, 1, 2), V = test::vector_of<double>(space, 1, 3);
        EXPECT_THROW(add_low_rank(A, U, V, 1e-4), Error);
        precond::HluOptions o;
        o.scale = 0;
        EXPECT_THROW(precond::Hlu<double>(A, o), Error);
        o.scale = 1, o.shift = Complex(0, 1);
        EXPECT_THROW(precond::Hlu<double>(A, o), Error);
      },
      {2});
}

TEST(HMatrixAlgebra, HasNoInverseOfASingularMatrix) {
  if (under_mpi()) GTEST_SKIP() << "the same as alone";
  const Geometry g = sphere(64);
  const auto space = Space::distributed(Communicator::self(), 64);
  const HMatrix<double> A(space, tree_of(g, leaves(16)), [](auto rows, auto columns, double* out) {
    std::fill_n(out, rows.size() * columns.size(), 1.0);
  });
  EXPECT_THROW(precond::inverse(A, 1e-6), Error);
}

}  // namespace
