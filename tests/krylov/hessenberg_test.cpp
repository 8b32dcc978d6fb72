// Eigenvalues of Hessenberg matrices against closed forms, at any scale, and their invariants where there are none.
#include "krylov/hessenberg.hpp"
#include "krylov/change_of_basis.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <random>
#include <vector>

namespace tacit::krylov {
namespace {

using Complex = std::complex<double>;
using Matrix = std::vector<Complex>;

Matrix tridiagonal(int n, Complex below, Complex diagonal, Complex above) {
  Matrix h(std::size_t(n) * std::size_t(n));
  for (int j = 0; j < n; ++j)
    for (int i = std::max(j - 1, 0); i <= std::min(j + 1, n - 1); ++i)
      h[std::size_t(j * n + i)] = i == j ? diagonal : i > j ? below : above;
  return h;
}

/// The largest distance of an expected value from the found value next to it, each of which is taken once.
double distance(std::vector<Complex> found, const std::vector<Complex>& expected) {
  if (found.size() != expected.size()) return std::numeric_limits<double>::infinity();
  double most = 0;
  for (const Complex z : expected) {
    const auto near = std::min_element(found.begin(), found.end(),
                                       [&](Complex a, Complex b) { return std::abs(a - z) < std::abs(b - z); });
    most = std::max(most, std::abs(*near - z));
    found.erase(near);
  }
  return most;
}

TEST(Hessenberg, ToeplitzEigenvaluesAtAnyScale) {
  for (const int n : {1, 2, 3, 8, 17, 40})
    for (const double scale : {1.0, 1e-290, 1e290}) {
      // diagonal + 2 sqrt(below above) cos(k pi / (n + 1)), in the complex plane where below and above differ in sign
      for (const auto& [below, above] : {std::pair{-1.0, -1.0}, {0.5, 2.0}, {1.0, -1.0}}) {
        std::vector<Complex> expected;
        for (int k = 1; k <= n; ++k)
          expected.push_back(
              scale * (2.0 + 2.0 * std::sqrt(Complex(below * above)) * std::cos(k * std::numbers::pi / (n + 1))));
        const auto found = hessenberg_eigenvalues(tridiagonal(n, below * scale, 2 * scale, above * scale), n);
        EXPECT_LE(distance(found, expected), (above == 2 ? 1e-9 : 1e-13) * n * scale) << n << ' ' << below;
      }
    }
}

TEST(Hessenberg, RootsOfUnity) {  // a cyclic shift, from which shifts of the corner alone never depart
  for (const int n : {2, 3, 4, 9, 32}) {
    Matrix h(std::size_t(n * n));
    std::vector<Complex> expected;
    for (int j = 0; j < n; ++j) {
      h[std::size_t(j * n + (j + 1) % n)] = 1;
      expected.push_back(std::polar(1.0, 2 * std::numbers::pi * j / n));
    }
    EXPECT_LE(distance(hessenberg_eigenvalues(h, n), expected), 1e-13 * n) << n;
  }
}

TEST(Hessenberg, SumsOfPowersAreTraces) {
  std::mt19937 random(5);
  std::normal_distribution<double> normal;
  for (const int n : {5, 20, 60}) {
    Matrix h(std::size_t(n * n));
    for (int j = 0; j < n; ++j)
      for (int i = 0; i <= std::min(j + 1, n - 1); ++i) h[std::size_t(j * n + i)] = {normal(random), normal(random)};
    const auto at = [&](int i, int j) { return h[std::size_t(j * n + i)]; };
    Complex trace = 0, square = 0, sum = 0, sum_of_squares = 0;
    for (int i = 0; i < n; ++i) {
      trace += at(i, i);
      for (int j = 0; j < n; ++j) square += at(i, j) * at(j, i);
    }
    const auto values = hessenberg_eigenvalues(h, n);
    ASSERT_EQ(values.size(), std::size_t(n));
    for (const Complex z : values) sum += z, sum_of_squares += z * z;
    EXPECT_LE(std::abs(sum - trace), 1e-12 * n * n);
    EXPECT_LE(std::abs(sum_of_squares - square), 1e-12 * n * n * n);
  }
}

TEST(Hessenberg, WhatIsNotFiniteHasNone) {
  EXPECT_TRUE(hessenberg_eigenvalues({}, 0).empty());
  EXPECT_EQ(hessenberg_eigenvalues({0, 0, 0, 0}, 2), (std::vector<Complex>{0, 0}));
  EXPECT_EQ(hessenberg_eigenvalues({Complex(3, -4)}, 1), (std::vector<Complex>{Complex(3, -4)}));
  for (const double bad : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()})
    EXPECT_TRUE(hessenberg_eigenvalues({1, 1, bad, 1}, 2).empty());
  EXPECT_EQ(magnitude({3, -4}), 5);
  EXPECT_EQ(magnitude({3e-320, 0}), 3e-320);
  EXPECT_LE(std::abs(magnitude({3e300, 4e300}) / 5e300 - 1), 1e-15);
  EXPECT_EQ(magnitude({-std::numeric_limits<double>::infinity(), 1}), std::numeric_limits<double>::infinity());
}

TEST(Leja, OrdersByProductsOfDistancesOfAnySize) {
  // On a segment: an end, the other end, the middle; then the values that are farthest from these three.
  for (const double scale : {1.0, 1e-200, 1e200}) {
    std::vector<Complex> values;
    for (int k = 0; k <= 8; ++k) values.push_back(scale * (1 + k / 8.0));
    const auto order = leja(values, false);
    ASSERT_EQ(order.size(), values.size());
    EXPECT_EQ(order[0], 2 * scale);
    EXPECT_EQ(order[1], 1 * scale);
    EXPECT_EQ(order[2], 1.5 * scale);
    EXPECT_TRUE(order[3] == 1.25 * scale || order[3] == 1.75 * scale);
  }
  // The product of the distances from 300 values is far outside of the range of numbers.
  std::vector<Complex> many;
  for (int k = 0; k < 300; ++k) many.push_back(1e-3 * std::cos(k * std::numbers::pi / 299));
  const auto order = leja(many, false);
  EXPECT_EQ(order.size(), many.size());
  EXPECT_EQ(order[1], -order[0]);
  for (const Complex z : leja({Complex(1, 2), Complex(1, -2 + 1e-15), 3}, true)) EXPECT_TRUE(std::abs(z) <= 3);
  const auto pairs = leja({Complex(1, 2), Complex(1, -2), 3}, true);
  ASSERT_EQ(pairs.size(), 3u);
  EXPECT_EQ(pairs[1], Complex(1, 2));
  EXPECT_EQ(pairs[2], std::conj(pairs[1]));
}

}  // namespace
}  // namespace tacit::krylov
