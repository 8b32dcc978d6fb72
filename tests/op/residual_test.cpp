// b - A x in twice the precision, where a plain product leaves nothing but rounding errors.
#include <tacit/op/residual.hpp>
#include "base/double_double.hpp"

#include <gtest/gtest.h>

#include "support/communicators.hpp"
#include "support/reference.hpp"
#include "support/scalars.hpp"
#include "support/systems.hpp"

#include <cmath>
#include <limits>
#include <string>

using namespace tacit;
using comm::Communicator;
using layout::Vector;

namespace {

template <class T>
class Residual : public testing::Test {};
using test::Scalars;
TYPED_TEST_SUITE(Residual, Scalars);

/// Re (b - a x), with all products and sums in 32 digits.
template <class T>
double real_part(T b, const std::vector<std::pair<T, T>>& products) {
  DoubleDouble sum(double(std::real(b)));
  for (const auto& [a, x] : products)
    sum = sum - DoubleDouble(double(std::real(a))) * DoubleDouble(double(std::real(x))) +
          DoubleDouble(double(std::imag(a))) * DoubleDouble(double(std::imag(x)));
  return sum.high;
}

TYPED_TEST(Residual, HasTheDigitsThatAPlainProductLoses) {
  using T = TypeParam;
  using R = real_t<T>;
  test::on_ranks([](const Communicator& comm) {
    const Global n = 60;
    const auto matrix = test::random_matrix<T>(n, n, 3, [](Global i, Global j) { return (i * 7 + j * 5) % 11 < 4; });
    const auto space = layout::Space::distributed(comm, n);
    const op::Csr<T> A(space, space, matrix.rows_of(space));
    std::vector<T> x(n);
    for (Global i = 0; i < n; ++i) x[std::size_t(i)] = test::number<T>(5, std::uint64_t(i)) * R(1 << 20);
    const auto b = matrix.times(x);  // rounded: b - A x is of the size of epsilon |A| |x|
    const auto size = matrix.size(x);
    Vector<T> r(space);
    for (const R factor : {R(1), R(-0.25)}) {
      std::vector<T> given = b;
      for (T& value : given) value *= factor;
      const auto B = test::spread(space, given), X = test::spread(space, x);
      const auto applies = A.applies();
      ASSERT_TRUE(op::precise_residual<T>(A, factor, B, X, r));
      EXPECT_EQ(A.applies() - applies, 1);
      bool any = false;
      for (Global i = space.begin(); i < space.end(); ++i) {
        std::vector<std::pair<T, T>> products;
        for (auto e = matrix.entry.lower_bound({i, 0}); e != matrix.entry.end() && e->first.first == i; ++e)
          products.push_back({e->second * factor, x[std::size_t(e->first.second)]});
        const double expected = real_part(given[std::size_t(i)], products);
        const double found = double(std::real(r.data()[i - space.begin()]));
        const double epsilon = test::epsilon<T>();
        EXPECT_NEAR(
            found, expected,
            2 * epsilon * std::abs(expected) + (std::same_as<real_t<T>, float> ? 1e-14 : 1e-30) * size[std::size_t(i)])
            << "row " << i;
        any |= expected != 0;
      }
      EXPECT_TRUE(any || space.local_size() < 5);
    }
  });
}

/// A 2^-e with the factor 2^e is A, to the bit, also where 2^e x would leave the range.
TYPED_TEST(Residual, TakesFactorsFarFromOne) {
  using T = TypeParam;
  constexpr int most = std::same_as<real_t<T>, float> ? 100 : 990;
  test::on_ranks([](const Communicator& comm) {
    const Global n = 40;
    const auto matrix = test::random_matrix<T>(n, n, 3, [](Global i, Global j) { return (i * 7 + j * 5) % 11 < 4; });
    const auto space = layout::Space::distributed(comm, n);
    std::vector<T> x(n);
    for (Global i = 0; i < n; ++i) x[std::size_t(i)] = test::number<T>(5, std::uint64_t(i)) * real_t<T>(0x1p60);
    const auto B = test::spread(space, matrix.times(x)), X = test::spread(space, x);
    Vector<T> expected(space), r(space);
    const op::Csr<T> plain(space, space, matrix.rows_of(space));
    ASSERT_TRUE(op::precise_residual<T>(plain, 1, B, X, expected));
    for (const int e : {-most, most}) {
      auto rows = matrix.rows_of(space);
      for (T& v : rows.value) v *= real_t<T>(std::ldexp(1.0, -e));
      const op::Csr<T> scaled(space, space, std::move(rows));
      ASSERT_TRUE(op::precise_residual<T>(scaled, std::ldexp(1.0, e), B, X, r));
      for (std::size_t i = 0; i < r.size(); ++i) EXPECT_EQ(r.data()[i], expected.data()[i]) << "2^" << e;
    }
  });
}

TYPED_TEST(Residual, IsRefusedWhereThereAreSeveralColumns) {
  using T = TypeParam;
  test::on_ranks([](const Communicator& comm) {
    const auto space = layout::Space::distributed(comm, 7);
    const op::Csr<T> A(space, space, test::Reference<T>::diagonal(7, [](Global) { return T(2); }).rows_of(space));
    Vector<T> b(space, 2), x(space, 2), r(space, 2);
    layout::fill(r, T(3));
    EXPECT_FALSE(op::precise_residual<T>(A, 1, b, x, r));
    for (std::size_t i = 0; i < r.size(); ++i) EXPECT_EQ(r.data()[i], T(3));
  });
}

/// Rows and columns spread otherwise, rows without entries, ranks without rows or columns; r is b.
TYPED_TEST(Residual, OfMatricesThatAreNotSquare) {
  using T = TypeParam;
  test::on_ranks([](const Communicator& comm) {
    const auto matrix =
        test::random_matrix<T>(23, 41, 3, [](Global i, Global j) { return i % 5 != 2 && (i * 7 + j * 5) % 11 < 4; });
    std::vector<Global> all_last(std::size_t(comm.size()) + 1, 0);
    all_last.back() = 41;
    const auto range = layout::Space::distributed(comm, 23);
    for (const auto& domain :
         {layout::Space::distributed(comm, 41), layout::Space::distributed(comm, layout::Partition(all_last))}) {
      const op::Csr<T> A(range, domain, matrix.rows_of(range));
      std::vector<T> x;
      for (std::size_t i = 0; i < 41; ++i) x.push_back(test::number<T>(5, i));
      const auto product = matrix.times(x);
      const auto X = test::spread(domain, x);
      Vector<T> r(range);
      layout::fill(r, T(1));
      ASSERT_TRUE(op::precise_residual<T>(A, 1, r, X, r));
      for (Global i = range.begin(); i < range.end(); ++i)
        EXPECT_LE(std::abs(r.data()[i - range.begin()] - (T(1) - product[std::size_t(i)])), 60 * test::epsilon<T>());
    }
  });
}

TEST(ResidualUse, NamesWhatDoesNotFit) {
  test::on_ranks([](const Communicator& comm) {
    const auto range = layout::Space::distributed(comm, 7), domain = layout::Space::distributed(comm, 9);
    const auto matrix = test::random_matrix<double>(7, 9, 3, [](Global, Global) { return true; });
    const op::Csr<double> A(range, domain, matrix.rows_of(range));
    Vector<double> x(domain), b(range), r(range), two(range, 2);
    const auto said = [&](double factor, const auto& right, const auto& from, auto& to) -> std::string {
      try {
        op::precise_residual<double>(A, factor, right, from, to);
      } catch (const Error& e) {
        EXPECT_EQ(e.kind(), ErrorKind::usage);
        return e.what();
      }
      return "nothing";
    };
    const auto expect = [](const std::string& found, const char* text) {
      EXPECT_NE(found.find(text), std::string::npos) << found;
    };
    expect(said(0.1, b, x, r), "factor of a precise residual is 0.1");
    expect(said(0, b, x, r), "factor of a precise residual is 0;");
    expect(said(std::numeric_limits<double>::quiet_NaN(), b, x, r), "is nan");
    expect(said(1, b, b, r), "7 by 9 matrix, with x of 7 elements");
    expect(said(1, x, x, r), "b of 9");
    expect(said(1, two, x, r), "2 columns of b");
    expect(said(1, b, x, two), "2 of r");
    EXPECT_EQ(said(-0.5, b, x, r), "nothing");
  });
}

}  // namespace
