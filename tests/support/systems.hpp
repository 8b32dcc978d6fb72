// Matrices and dense arithmetic for tests: whole matrices are the same on every rank; operators are distributed by
// rows.
#pragma once

#include <tacit/op/csr.hpp>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace tacit::test {

/// A pseudo-random number in [-1, 1) from a seed and an index.
inline double noise(std::uint64_t seed, std::uint64_t i) {
  std::uint64_t z = seed * 0x9e3779b97f4a7c15u + (i + 1) * 0xd1342543de82ef95u;
  for (int k = 0; k < 3; ++k) z = (z ^ (z >> 31)) * 0x94d049bb133111ebu + 0x2545f4914f6cdd1du;
  return double(z >> 11) * 0x1p-52 - 1;
}
template <Scalar T>
T noise_of(std::uint64_t seed, std::uint64_t i) {
  if constexpr (is_complex<T>) return {real_t<T>(noise(seed, 2 * i)), real_t<T>(noise(seed, 2 * i + 1))};
  else return T(noise(seed, i));
}

/// long double, or its complex form.
template <class T>
using wide_t = std::conditional_t<is_complex<T>, std::complex<long double>, long double>;
template <class T>
wide_t<T> widen(T a) {
  if constexpr (is_complex<T>) return {static_cast<long double>(a.real()), static_cast<long double>(a.imag())};
  else return a;
}
inline long double wide_conj(long double a) {
  return a;
}
inline std::complex<long double> wide_conj(std::complex<long double> a) {
  return std::conj(a);
}

/// A square matrix stored by rows; every rank has all of it.
template <Scalar T>
struct Whole {
  Global n = 0;
  std::vector<Global> start{0}, column;
  std::vector<T> value;

  void push(Global c, T v) { column.push_back(c), value.push_back(v); }
  void end_row() { start.push_back(Global(column.size())); }
  std::vector<std::vector<T>> dense() const {
    std::vector<std::vector<T>> a(n, std::vector<T>(n, T(0)));
    each([&](Global r, Global c, T v) { a[r][c] = v; });
    return a;
  }
  template <class F>
  void each(F&& f) const {
    for (Global r = 0; r < n; ++r)
      for (Global k = start[r]; k < start[r + 1]; ++k) f(r, column[k], value[k]);
  }
  /// a_rc := f(r, c, a_rc)
  template <class F>
  Whole map(F&& f) const {
    Whole m = *this;
    for (Global r = 0; r < n; ++r)
      for (Global k = start[r]; k < start[r + 1]; ++k) m.value[k] = f(r, column[k], value[k]);
    return m;
  }
  /// A x in extended precision.
  std::vector<wide_t<T>> times(const std::vector<T>& x) const {
    std::vector<wide_t<T>> y(n, wide_t<T>(0));
    each([&](Global r, Global c, T v) { y[r] += widen(v) * widen(x[c]); });
    return y;
  }
  op::Rows<T> rows(Global begin, Global end) const {
    op::Rows<T> part;
    part.column.assign(column.begin() + start[begin], column.begin() + start[end]);
    part.value.assign(value.begin() + start[begin], value.begin() + start[end]);
    part.start.clear();
    for (Global r = begin; r <= end; ++r) part.start.push_back(start[r] - start[begin]);
    return part;
  }
  template <Memory M = Host>
  std::unique_ptr<op::Csr<T, M>> on(const layout::Space& space) const {
    return std::make_unique<op::Csr<T, M>>(space, space, rows(space.begin(), space.end()));
  }
  template <Memory M = Host>
  std::unique_ptr<op::Csr<T, M>> on(const comm::Communicator& comm) const {
    return on<M>(layout::Space::distributed(comm, n));
  }
};

/// A number of modulus 1 for an index: 1 for real scalars. D A D^H has the spectrum of A and complex entries.
template <Scalar T>
T phase(Global i) {
  if constexpr (is_complex<T>) return T(std::polar(1.0, 0.7 * double(i % 9)));
  else return T(1);
}

/// -Laplace by 5 points on nx x ny, plus convection of this strength (central differences); Hermitian for 0.
template <Scalar T>
Whole<T> grid(Global nx, Global ny, double convection = 0) {
  Whole<T> a;
  a.n = nx * ny;
  for (Global y = 0; y < ny; ++y)
    for (Global x = 0; x < nx; ++x) {
      const Global i = y * nx + x;
      const auto put = [&](Global j, double v) { a.push(j, T(real_t<T>(v)) * phase<T>(i) * conj(phase<T>(j))); };
      if (y > 0) put(i - nx, -1 - convection / 2);
      if (x > 0) put(i - 1, -1 - convection);
      a.push(i, T(4));
      if (x + 1 < nx) put(i + 1, -1 + convection);
      if (y + 1 < ny) put(i + nx, -1 + convection / 2);
      a.end_row();
    }
  return a;
}
template <Scalar T>
Whole<T> tridiagonal(Global n, double below, double on, double above) {
  Whole<T> a;
  a.n = n;
  for (Global i = 0; i < n; ++i) {
    if (i > 0) a.push(i - 1, T(real_t<T>(below)) * phase<T>(i) * conj(phase<T>(i - 1)));
    a.push(i, T(real_t<T>(on)));
    if (i + 1 < n) a.push(i + 1, T(real_t<T>(above)) * phase<T>(i) * conj(phase<T>(i + 1)));
    a.end_row();
  }
  return a;
}
/// Tridiagonal blocks of `length` rows.
template <Scalar T>
Whole<T> chains(Global count, Global length) {
  Whole<T> a;
  a.n = count * length;
  for (Global i = 0; i < a.n; ++i) {
    if (i % length > 0) a.push(i - 1, T(-1));
    a.push(i, T(4));
    if (i % length + 1 < length) a.push(i + 1, T(-1));
    a.end_row();
  }
  return a;
}
/// Tridiagonal with entries -1, 0, 1: (x, A x) is imaginary.
template <Scalar T>
Whole<T> skew_tridiagonal(Global n) {
  Whole<T> a;
  a.n = n;
  for (Global i = 0; i < n; ++i) {
    if (i > 0) a.push(i - 1, T(-1));
    if (i + 1 < n) a.push(i + 1, T(1));
    a.end_row();
  }
  return a;
}
template <Scalar T>
Whole<T> diagonal(const std::vector<double>& d) {
  Whole<T> a;
  a.n = Global(d.size());
  for (Global i = 0; i < a.n; ++i) a.push(i, T(real_t<T>(d[i]))), a.end_row();
  return a;
}
/// Some entries in each row, an unsymmetric pattern, a dominant diagonal.
template <Scalar T>
Whole<T> scattered(Global n, int per_row, std::uint64_t seed, double dominance = 1.5) {
  Whole<T> a;
  a.n = n;
  for (Global i = 0; i < n; ++i) {
    std::vector<Global> c{i};
    for (int k = 0; k < per_row; ++k) c.push_back(Global((noise(seed, i * 64 + k) + 1) / 2 * double(n)) % n);
    std::sort(c.begin(), c.end());
    c.erase(std::unique(c.begin(), c.end()), c.end());
    double sum = 0;
    std::vector<T> v;
    for (const Global j : c) v.push_back(noise_of<T>(seed + 1, std::uint64_t(i * n + j))), sum += std::abs(v.back());
    for (std::size_t k = 0; k < c.size(); ++k) a.push(c[k], c[k] == i ? T(real_t<T>(dominance * (sum + 0.1))) : v[k]);
    a.end_row();
  }
  return a;
}
template <Scalar T>
std::vector<T> random_vector(Global n, std::uint64_t seed) {
  std::vector<T> v(n);
  for (Global i = 0; i < n; ++i) v[i] = noise_of<T>(seed, std::uint64_t(i));
  return v;
}

/// This rank's part of a whole vector.
template <Scalar T, Memory M = Host>
layout::Vector<T, M> spread(const layout::Space& space, const std::vector<T>& whole) {
  layout::Vector<T, M> v(space);
  const Global first = space.is_replicated() ? 0 : space.begin();
  v.assign(std::span<const T>(whole).subspan(std::size_t(first), v.size()));
  return v;
}
/// The whole vector on every rank. Collective.
template <Scalar T, Memory M>
std::vector<T> whole(const layout::Vector<T, M>& v) {
  const auto own = v.to_host();
  return v.space().is_replicated() ? own : v.space().comm().all_gather(std::span<const T>(own));
}

template <class V>
long double norm2(const V& v) {
  long double largest = 0, sum = 0;
  for (const auto& a : v) largest = std::max<long double>(largest, std::abs(a));
  if (!(largest > 0)) return largest;
  for (const auto& a : v) {
    const long double s = std::abs(a) / largest;
    sum += s * s;
  }
  return largest * std::sqrt(sum);
}
/// ||b - A x|| / ||b|| in extended precision.
template <Scalar T>
long double residual_of(const Whole<T>& a, const std::vector<T>& b, const std::vector<T>& x) {
  auto r = a.times(x);
  for (std::size_t i = 0; i < r.size(); ++i) r[i] = widen(b[i]) - r[i];
  const long double size = norm2(b);
  return norm2(r) / (size > 0 ? size : 1);
}

/// The dense matrix of an operator, column by column. Collective.
template <Scalar T>
std::vector<std::vector<T>> dense_of(const op::Operator<T, Host>& a, bool adjoint = false) {
  const Global n = a.domain().size();
  std::vector<std::vector<T>> m(n, std::vector<T>(n));
  for (Global c = 0; c < n; ++c) {
    std::vector<T> e(n, T(0));
    e[c] = T(1);
    const auto x = spread(a.domain(), e);
    layout::Vector<T> y(a.range());
    if (adjoint) a.apply_adjoint(x, y);
    else a.apply(x, y);
    const auto column = whole(y);
    for (Global r = 0; r < n; ++r) m[r][c] = column[r];
  }
  return m;
}
template <class T>
using Dense = std::vector<std::vector<T>>;
template <class T>
Dense<T> multiply(const Dense<T>& a, const Dense<T>& b) {
  Dense<T> c(a.size(), std::vector<T>(b.empty() ? 0 : b[0].size(), T(0)));
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t k = 0; k < b.size(); ++k)
      for (std::size_t j = 0; j < b[k].size(); ++j) c[i][j] += a[i][k] * b[k][j];
  return c;
}
/// A^-1 b by Gaussian elimination with row exchanges, in extended precision.
template <Scalar T>
std::vector<wide_t<T>> dense_solve(const Dense<T>& matrix, const std::vector<T>& rhs) {
  const std::size_t n = matrix.size();
  std::vector<std::vector<wide_t<T>>> a(n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) a[i].push_back(widen(matrix[i][j]));
    a[i].push_back(widen(rhs[i]));
  }
  for (std::size_t k = 0; k < n; ++k) {
    std::size_t pivot = k;
    for (std::size_t i = k; i < n; ++i)
      if (std::abs(a[i][k]) > std::abs(a[pivot][k])) pivot = i;
    std::swap(a[k], a[pivot]);
    for (std::size_t i = k + 1; i < n; ++i) {
      const auto f = a[i][k] / a[k][k];
      for (std::size_t j = k; j <= n; ++j) a[i][j] -= f * a[k][j];
    }
  }
  std::vector<wide_t<T>> x(n);
  for (std::size_t k = n; k-- > 0;) {
    x[k] = a[k][n];
    for (std::size_t j = k + 1; j < n; ++j) x[k] -= a[k][j] * x[j];
    x[k] /= a[k][k];
  }
  return x;
}
/// max |a - b| / max |b|
template <class A, class B>
long double relative_difference(const A& a, const B& b) {
  long double difference = 0, size = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    using W = std::conditional_t<is_complex<typename A::value_type>, std::complex<long double>, long double>;
    const W wa = W(a[i]), wb = W(b[i]);
    difference = std::max<long double>(difference, std::abs(wa - wb));
    size = std::max<long double>(size, std::abs(wb));
  }
  return a.size() == b.size() ? (size > 0 ? difference / size : difference) : 1e30L;
}

}  // namespace tacit::test
