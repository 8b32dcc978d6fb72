// Points, kernels and dense matrices for tests of hierarchical matrices.
#pragma once

#include <tacit/op/hmatrix/hmatrix.hpp>

#include <cmath>
#include <memory>
#include <numeric>
#include <vector>

namespace tacit::test {

using namespace tacit::op;
using layout::Vector;

// Points on the unit sphere, in an order unrelated to their positions.
inline Geometry sphere(Global n) {
  Geometry g;
  for (Global i = 0; i < n; ++i) {
    const Global k = (i * 7919) % n;  // n is never a multiple of this prime
    const double z = 1 - (2 * double(k) + 1) / double(n), angle = 2.399963229728653 * double(k);
    const double r = std::sqrt(1 - z * z);
    g.points.push_back({r * std::cos(angle), r * std::sin(angle), z});
  }
  return g;
}

inline double distance(const Point& a, const Point& b) {
  return std::hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);
}

// 1 / r, or exp(i kappa r) / r, with a constant on the diagonal; r is bounded from below.
template <class T>
EntryFunction<T> kernel(std::vector<Point> to, std::vector<Point> from, double kappa = 4) {
  const double least = 0.5 / std::sqrt(double(from.size()));
  return [to = std::move(to), from = std::move(from), kappa, least](std::span<const Global> rows,
                                                                    std::span<const Global> columns, T* out) {
    for (const Global j : columns)
      for (const Global i : rows) {
        const double r = std::max(distance(to[std::size_t(i)], from[std::size_t(j)]), least);
        if constexpr (is_complex<T>) *out++ = T(std::polar(1 / r, kappa * r));
        else *out++ = T(1 / r);
      }
  };
}
template <class T>
EntryFunction<T> kernel(const Geometry& g) {
  return kernel<T>(g.points, g.points);
}

inline std::vector<Global> numbers(Global n) {
  std::vector<Global> all(static_cast<std::size_t>(n));
  std::iota(all.begin(), all.end(), Global(0));
  return all;
}

template <class T>
std::vector<T> dense(const EntryFunction<T>& entry, Global m, Global n) {
  std::vector<T> a(std::size_t(m * n));
  entry(numbers(m), numbers(n), a.data());
  return a;
}

inline std::shared_ptr<const ClusterTree> tree_of(const Geometry& g, TreeOptions options = {}) {
  return std::make_shared<const ClusterTree>(g, options);
}
inline TreeOptions leaves(Local size, Bisection bisection = Bisection::median) {
  return {bisection, size, 0};
}

// All entries, by products with many unit vectors at once.
template <class T>
std::vector<T> entries_of(const Operator<T, Host>& a, bool adjoint = false) {
  const auto &from = adjoint ? a.range() : a.domain(), &to = adjoint ? a.domain() : a.range();
  const Global m = to.size(), n = from.size();
  std::vector<T> all;
  constexpr int k = 48;
  for (Global j = 0; j < n; j += k) {
    Vector<T> x(from, k), y(to, k);
    layout::fill(x, T(0));
    for (int c = 0; c < k && j + c < n; ++c)
      if (j + c >= from.begin() && j + c < from.end()) x.data()[(j + c - from.begin()) * k + c] = T(1);
    if (adjoint) a.apply_adjoint(x, y);
    else a.apply(x, y);
    const auto whole = to.is_replicated() ? y.to_host() : to.comm().all_gather(std::span<const T>(y.data(), y.size()));
    for (int c = 0; c < k && j + c < n; ++c)
      for (Global i = 0; i < m; ++i) all.push_back(whole[std::size_t(i * k + c)]);
  }
  return all;
}

template <class T>
double norm_of(const std::vector<T>& a) {
  double sum = 0;
  for (const T& v : a) sum += double(abs2(v));
  return std::sqrt(sum);
}
template <class T>
double relative_error(const std::vector<T>& a, const std::vector<T>& exact) {
  std::vector<T> d(a);
  for (std::size_t i = 0; i < d.size(); ++i) d[i] -= exact[i];
  return norm_of(d) / norm_of(exact);
}

}  // namespace tacit::test
