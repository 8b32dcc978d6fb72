// Rows of matrices of several kinds, and what a stored matrix has to do with them.
#pragma once

#include <gtest/gtest.h>
#include <tacit/op/csr.hpp>

#include "base/lanes.hpp"
#include "support/reference.hpp"

#include <cstring>
#include <limits>
#include <vector>

namespace tacit::op::stored {

/// Rows suited to every storage: column offsets of 16 bits or more, rows of different lengths.
template <class T>
Rows<T> rows_reaching(Global n, Global begin, Global end, Global reach) {
  Rows<T> rows;
  for (Global i = begin; i < end; ++i) {
    if (i % 11 != 5)
      for (Global j : {i - reach, i - 2, i, i + 1 + i % 3, i + reach})
        if (j >= 0 && j < n && (rows.start.back() == Global(rows.column.size()) || rows.column.back() < j)) {
          rows.column.push_back(j);
          rows.value.push_back(tacit::test::number<T>(1, std::uint64_t(i * 7 + j)));
        }
    rows.start.push_back(Global(rows.column.size()));
  }
  return rows;
}

/// A 5-point matrix on nx x ny points with the coefficients of f(point), symmetric if these are equal and `north` is
/// -1.
template <class T, class F>
Rows<T> grid_rows(Global nx, Global ny, F&& f, double north = -0.5) {
  Rows<T> rows;
  for (Global i = 0; i < nx * ny; ++i) {
    const auto add = [&](bool there, Global j, double weight) {
      if (there) rows.column.push_back(j), rows.value.push_back(T(real_t<T>(weight * f(i))));
    };
    add(i >= nx, i - nx, -1), add(i % nx > 0, i - 1, -1), add(true, i, 4.25);
    add(i % nx + 1 < nx, i + 1, -1), add(i + nx < nx * ny, i + nx, north);
    rows.start.push_back(Global(rows.column.size()));
  }
  return rows;
}

/// Compares A's product with sums over its rows, within a bound of their rounding errors.
template <class T>
void expect_product(const Csr<T>& A, const Rows<T>& rows, int k) {
  const auto x = tacit::test::vector_of<T>(A.domain(), 2, k);
  const auto whole = tacit::test::whole_vector<T>(A.domain().size() * k, 2);
  layout::Vector<T> y(A.range(), k);
  layout::fill(y, T(std::numeric_limits<real_t<T>>::quiet_NaN()));
  A.apply(x, y);
  for (Local i = 0; i < rows.count(); ++i)
    for (int c = 0; c < k; ++c) {
      T sum{};
      for (Global e = rows.start[i]; e < rows.start[i + 1]; ++e) sum += rows.value[e] * whole[rows.column[e] * k + c];
      ASSERT_LE(std::abs(sum - y.data()[i * k + c]), 64 * tacit::test::epsilon<T>())
          << A.storage() << ", row " << A.range().begin() + i << ", column " << c << " of " << k;
    }
}

/// The bits of a product with k columns are those of sums by rows in the order of columns, with products that are not
/// rounded before they are added where the processor can do that. No test of complex scalars,
/// whose products and sums the compiler may fuse.
template <class T>
void expect_same_bits(const Csr<T>& A, const Rows<T>& rows, int k) {
  const auto x = tacit::test::vector_of<T>(A.domain(), 2, k);
  layout::Vector<T> y(A.range(), k), expected(A.range(), k);
  A.apply(x, y);
  for (Local i = 0; i < rows.count(); ++i)
    for (int c = 0; c < k; ++c) {
      T sum{};
      for (Global e = rows.start[i]; e < rows.start[i + 1]; ++e)
        sum = mul_add(rows.value[e], x.data()[rows.column[e] * k + c], sum);
      expected.data()[i * k + c] = sum;
    }
  EXPECT_EQ(std::memcmp(y.data(), expected.data(), y.size() * sizeof(T)), 0) << A.storage() << ", " << k << " columns";
}

template <class T>
void expect_same_values(const Csr<T>& A, const Rows<T>& rows) {
  const auto back = A.rows();
  EXPECT_EQ(back.start, rows.start);
  EXPECT_EQ(back.column, rows.column);
  ASSERT_EQ(back.value.size(), rows.value.size());
  std::vector<T> copy(rows.value.size());
  A.copy_values(copy.data());
  for (const T* const values : {back.value.data(), static_cast<const T*>(copy.data())})
    EXPECT_EQ(std::memcmp(values, rows.value.data(), copy.size() * sizeof(T)), 0) << A.storage();
  EXPECT_TRUE(A.intact());
}

}  // namespace tacit::op::stored
