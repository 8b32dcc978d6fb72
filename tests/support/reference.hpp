// A matrix as a map of its entries, and vectors as functions of the global index: the reference for operators.
#pragma once

#include <tacit/base/types.hpp>
#include <tacit/op/csr.hpp>
#include <tacit/op/stencil.hpp>

#include "support/memory.hpp"

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace tacit::test {

/// A number of magnitude between 0.1 and 1, of either sign (or any angle), that depends on i and `seed` alone.
template <class T>
T number(std::uint64_t seed, std::uint64_t i) {
  const auto hash = [](std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  };
  const auto part = [&](std::uint64_t which) {
    const std::uint64_t h = hash(hash(2 * seed + which + 1) * 0x9e3779b97f4a7c15u + i);
    const double magnitude = 0.1 + 0.9 * double(h >> 12) * 0x1p-52;
    return real_t<T>(h & 1 ? magnitude : -magnitude);
  };
  if constexpr (is_complex<T>) return {part(0), part(1)};
  else return part(0);
}

template <class T>
double epsilon() {
  return double(std::numeric_limits<real_t<T>>::epsilon());
}

template <class T>
struct Reference {
  Global rows = 0, columns = 0;
  std::map<std::pair<Global, Global>, T> entry;

  std::vector<T> times(const std::vector<T>& x) const {
    std::vector<T> y(static_cast<std::size_t>(rows));
    for (const auto& [at, v] : entry) y[at.first] += v * x[at.second];
    return y;
  }
  /// sum_j |a_ij| |x_j|: the scale of rounding errors.
  std::vector<double> size(const std::vector<T>& x) const {
    std::vector<double> y(static_cast<std::size_t>(rows));
    for (const auto& [at, v] : entry) y[at.first] += std::abs(v) * std::abs(x[at.second]);
    return y;
  }
  Reference adjoint() const {
    Reference t{columns, rows, {}};
    for (const auto& [at, v] : entry) t.entry[{at.second, at.first}] = conj(v);
    return t;
  }
  Reference conjugate() const {
    Reference t = *this;
    for (auto& [at, v] : t.entry) v = conj(v);
    return t;
  }
  friend Reference operator*(const Reference& a, const Reference& b) {
    Reference c{a.rows, b.columns, {}};
    for (const auto& [p, v] : a.entry)
      for (auto q = b.entry.lower_bound({p.second, 0}); q != b.entry.end() && q->first.first == p.second; ++q)
        c.entry[{p.first, q->first.second}] += v * q->second;
    return c;
  }
  friend Reference operator+(Reference a, const Reference& b) {
    for (const auto& [p, v] : b.entry) a.entry[p] += v;
    return a;
  }
  friend Reference operator*(T alpha, Reference a) {
    for (auto& [p, v] : a.entry) v *= alpha;
    return a;
  }
  static Reference diagonal(Global n, const std::function<T(Global)>& f) {
    Reference d{n, n, {}};
    for (Global i = 0; i < n; ++i) d.entry[{i, i}] = f(i);
    return d;
  }
  double largest() const {
    double m = 0;
    for (const auto& [p, v] : entry) m = std::max({m, double(std::abs(std::real(v))), double(std::abs(std::imag(v)))});
    return m;
  }
  /// The rows that a rank of this space owns.
  op::Rows<T> rows_of(const layout::Space& range) const {
    op::Rows<T> r;
    auto e = entry.lower_bound({range.begin(), 0});
    for (Global i = range.begin(); i < range.end(); ++i) {
      for (; e != entry.end() && e->first.first == i; ++e) {
        r.column.push_back(e->first.second);
        r.value.push_back(e->second);
      }
      r.start.push_back(Global(r.column.size()));
    }
    return r;
  }
};

/// A matrix with pseudo-random entries at the positions where `f(i, j)` is true.
template <class T, class F>
Reference<T> random_matrix(Global rows, Global columns, std::uint64_t seed, F&& is_entry) {
  Reference<T> a{rows, columns, {}};
  for (Global i = 0; i < rows; ++i)
    for (Global j = 0; j < columns; ++j)
      if (is_entry(i, j)) a.entry[{i, j}] = number<T>(seed, std::uint64_t(i * columns + j));
  return a;
}

/// The matrix of a stencil, assembled point by point.
template <class T>
Reference<T> stencil_matrix(const op::Grid& grid, const op::Weights<T>& w) {
  const auto& n = grid.points;
  Reference<T> a{grid.size(), grid.size(), {}};
  for (Global i = 0; i < grid.size(); ++i)
    for (int d = 0; d < 27; ++d) {
      const int step[3] = {d % 3 - 1, d / 3 % 3 - 1, d / 9 - 1};
      Global at[3] = {i % n[0], i / n[0] % n[1], i / (n[0] * n[1])};
      bool there = true;
      for (int axis = 0; axis < 3; ++axis) {
        at[axis] += step[axis];
        if (axis >= grid.dimensions) {
          there &= step[axis] == 0;
        } else if (at[axis] < 0 || at[axis] >= n[axis]) {
          if (grid.boundary[axis] == op::Boundary::dirichlet) there = false;
          else if (grid.boundary[axis] == op::Boundary::neumann) at[axis] -= step[axis];
          else at[axis] = (at[axis] + n[axis]) % n[axis];
        }
      }
      const T v = w.at(step[0], step[1], step[2]);
      if (there && v != T(0)) a.entry[{i, at[0] + n[0] * (at[1] + n[1] * at[2])}] += v;
    }
  return a;
}

/// Different weights for all 27 points, or for the 7 of the star.
template <class T>
op::Weights<T> random_weights(std::uint64_t seed, bool star) {
  op::Weights<T> w;
  for (int d = 0; d < 27; ++d)
    if (!star || std::abs(d % 3 - 1) + std::abs(d / 3 % 3 - 1) + std::abs(d / 9 - 1) <= 1)
      w.value[d] = number<T>(seed, d);
  return w;
}

/// This rank's part of the vector with x_i of column c = number(seed, i k + c), k the number of columns.
template <class T, Memory M = Host>
layout::Vector<T, M> vector_of(const layout::Space& space, std::uint64_t seed, int columns = 1) {
  std::vector<T> elements(std::size_t(space.local_size()) * std::size_t(columns));
  for (std::size_t i = 0; i < elements.size(); ++i)
    elements[i] = number<T>(seed, std::uint64_t(space.begin()) * std::uint64_t(columns) + i);
  return vector_from<T, M>(space, elements, columns);
}
template <class T>
std::vector<T> whole_vector(Global n, std::uint64_t seed) {
  std::vector<T> x(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = number<T>(seed, i);
  return x;
}

}  // namespace tacit::test
