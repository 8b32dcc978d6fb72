// Shared by the device's tests and benchmarks: random numbers, formulas, matrices and their formats.
#pragma once

#include <tacit/base/complex.hpp>
#include <tacit/exec/memory.hpp>
#include <tacit/exec/sums.hpp>
#include <tacit/op/kernels/csr.hpp>
#include <tacit/op/kernels/device_products.hpp>
#include <tacit/op/staged_matrix.hpp>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

namespace tacit::device {

/// The i-th word of a random stream, without state, so that vectors can be filled in parallel.
inline std::uint64_t word(std::uint64_t seed, std::uint64_t i) {
  std::uint64_t z = (seed + 1) * 0x9e3779b97f4a7c15u + i * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}
inline int below(int n, std::uint64_t seed, std::uint64_t i) {
  return static_cast<int>(word(seed, i) % static_cast<unsigned>(n));
}

/// Uniform in [-1, 1]; for complex numbers, both parts.
template <class T>
T number(std::uint64_t seed, std::uint64_t i) {
  const auto part = [&](std::uint64_t k) { return real_t<T>(double(word(seed, k) >> 11) * 0x1p-52 - 1); };
  if constexpr (is_complex<T>) return {part(2 * i), part(2 * i + 1)};
  else return part(i);
}
template <class T>
std::vector<T> numbers(std::size_t n, std::uint64_t seed) {
  std::vector<T> v(n);
#pragma omp parallel for
  for (std::size_t i = 0; i < n; ++i) v[i] = number<T>(seed, i);
  return v;
}
template <class T>
T poison() {
  return T(std::numeric_limits<real_t<T>>::quiet_NaN());
}
template <class T>
exec::Array<T, Device> on_device(const std::vector<T>& v) {
  return exec::Array<T, Device>::from(std::span<const T>(v));
}
template <class T>
std::vector<T> to_host(const exec::Array<T, Device>& a) {
  std::vector<T> v(a.size());
  if (!v.empty()) exec::copy_to_host(v.data(), a.data(), v.size() * sizeof(T));
  return v;
}

// ---- formulas ----

template <class T>
struct Copy {
  TACIT_HD void operator()(T x, T& y) const { y = x; }
};
template <class T>
struct Axpy {
  T a;
  TACIT_HD void operator()(T x, T& y) const { y = y + a * x; }
};
template <class T>
struct Dot {
  TACIT_HD exec::Sums<1, T> operator()(T x, T y) const { return {{conj(x) * y}}; }
};
/// A real coefficient with a complex one, one vector of each kind, sums of a real type.
template <class T>
struct Blend {
  real_t<T> beta;
  T alpha;
  TACIT_HD exec::Sums<3, real_t<T>> operator()(T r, T s, T& x, T& y) const {
    x = alpha * r + beta * x;
    y = s - x;
    return {{abs2(x), abs2(y), real_t<T>(1)}};
  }
};
/// Cools and Vanroose (2017), preconditioned pipelined BiCGStab: the first half of an iteration in one pass.
template <class T>
struct Forward {
  T alpha, beta, omega;
  TACIT_HD exec::Sums<2, T> operator()(T r, T rh, T w, T wh, T t, T v, T zh, T& ph, T& s, T& sh, T& z, T& q, T& qh,
                                       T& y) const {
    ph = rh + beta * (ph - omega * sh);
    s = w + beta * (s - omega * z);
    sh = wh + beta * (sh - omega * zh);
    z = t + beta * (z - omega * v);
    q = r - alpha * s;
    qh = rh - alpha * sh;
    y = w - alpha * z;
    return {{conj(q) * y, conj(y) * y}};
  }
};

// ---- matrices ----

template <class T>
struct Matrix {
  Local rows = 0, columns = 0;
  std::vector<std::int64_t> row_begin{0};
  std::vector<Local> column{};
  std::vector<T> value{};
  std::int64_t entries() const { return row_begin.back(); }
  Local length(Local i) const { return Local(row_begin[i + 1] - row_begin[i]); }
};

/// Rows of 0 to `most` entries near the diagonal, every third one empty; with `full`, the middle row has all columns.
template <class T>
Matrix<T> awkward(Local rows, Local columns, int most, bool full, std::uint64_t seed) {
  Matrix<T> a{rows, columns};
  for (Local i = 0; i < rows; ++i) {
    Local n = columns == 0 || i % 3 == 1 ? 0 : std::min<Local>(columns, 1 + below(most, seed, i));
    if (full && i == rows / 2) n = columns;
    const Local from = n == 0 ? 0 : std::clamp<Local>(i - n / 2, 0, columns - n);
    for (Local j = 0; j < n; ++j) a.column.push_back(from + j), a.value.push_back(number<T>(seed, a.value.size()));
    a.row_begin.push_back(std::int64_t(a.column.size()));
  }
  return a;
}

/// The 7-point difference operator on a box of side^3 points, with random entries.
template <class T>
Matrix<T> seven_points(Local side, std::uint64_t seed) {
  const Local n = side * side * side, strides[] = {-side * side, -side, -1, 0, 1, side, side * side};
  const auto inside = [=](Local i, int k) {
    const Local x = i % side, y = i / side % side, z = i / side / side;
    const bool in[] = {z > 0, y > 0, x > 0, true, x < side - 1, y < side - 1, z < side - 1};
    return in[k];
  };
  Matrix<T> a{n, n};
  a.row_begin.resize(std::size_t(n) + 1);
  for (Local i = 0; i < n; ++i) {
    a.row_begin[i + 1] = a.row_begin[i];
    for (int k = 0; k < 7; ++k) a.row_begin[i + 1] += inside(i, k);
  }
  a.column.resize(a.entries());
  a.value.resize(a.entries());
#pragma omp parallel for
  for (Local i = 0; i < n; ++i) {
    std::int64_t e = a.row_begin[i];
    for (int k = 0; k < 7; ++k)
      if (inside(i, k)) a.column[e] = i + strides[k], a.value[e] = number<T>(seed, e), ++e;
  }
  return a;
}

/// Rows of `least` to `most` entries, with random columns in a band of the given half width.
template <class T>
Matrix<T> banded(Local n, int least, int most, Local half, std::uint64_t seed) {
  Matrix<T> a{n, n};
  a.row_begin.resize(std::size_t(n) + 1);
  for (Local i = 0; i < n; ++i) a.row_begin[i + 1] = a.row_begin[i] + least + below(most - least + 1, seed, i);
  a.column.resize(a.entries());
  a.value.resize(a.entries());
#pragma omp parallel for
  for (Local i = 0; i < n; ++i) {
    for (std::int64_t e = a.row_begin[i]; e < a.row_begin[i + 1]; ++e) {
      a.column[e] = std::clamp<Local>(i - half + below(2 * half, seed + 1, e), 0, n - 1);
      a.value[e] = number<T>(seed + 2, e);
    }
    std::sort(a.column.begin() + a.row_begin[i], a.column.begin() + a.row_begin[i + 1]);
  }
  return a;
}

/// Lines through a square of side x side cells, `side` bins at each of some angles; bins and angles in tiles of 8 x 8,
/// cells in tiles of 8 x 8, so that rows overlap as those of a projector do.
template <class T>
Matrix<T> lines(Local side, Local angles, std::uint64_t seed) {
  const auto tiled = [](Local i, Local width) {  // the i-th cell of a rectangle that is traversed tile by tile
    const Local band = i / (8 * width) * 8, in_band = i % (8 * width), x = in_band / 64 * 8 + in_band % 8;
    return std::pair{x, band + in_band / 8 % 8};
  };
  const Local n = side * angles;
  Matrix<T> a{n, side * side};
  std::vector<std::vector<Local>> row(static_cast<std::size_t>(n));
#pragma omp parallel for schedule(dynamic, 64)
  for (Local r = 0; r < n; ++r) {
    const auto [j, t] = tiled(r, side);
    const double angle = 3.14159265358979 * t / angles, c = std::cos(angle), s = std::sin(angle),
                 off = j + 0.5 - side / 2.0;
    auto& cells = row[r];
    for (double along = -side; along < side; along += 0.5) {
      const double x = side / 2.0 + off * c - along * s, y = side / 2.0 + off * s + along * c;
      if (x < 0 || y < 0 || x >= side || y >= side) continue;
      const Local u = Local(x), v = Local(y);
      cells.push_back(((v / 8 * (side / 8) + u / 8) * 8 + v % 8) * 8 + u % 8);
    }
    std::sort(cells.begin(), cells.end());
    cells.erase(std::unique(cells.begin(), cells.end()), cells.end());
  }
  for (Local r = 0; r < n; ++r) {
    for (const Local c : row[r]) a.column.push_back(c), a.value.push_back(std::abs(number<T>(seed, a.value.size())));
    a.row_begin.push_back(std::int64_t(a.column.size()));
  }
  return a;
}

template <class T>
op::RowSource<T> source_of(const Matrix<T>& a) {
  return [&a](Local begin, Local end, op::RowBuffer<T>& rows) {
    for (Local r = begin; r < end; ++r) {
      for (std::int64_t e = a.row_begin[r]; e < a.row_begin[r + 1]; ++e) rows.add(a.column[e], a.value[e]);
      rows.end_row();
    }
  };
}

/// y = A x (plus: y += A x) on the host, with k interleaved columns.
template <class T>
void host_product(const Matrix<T>& a, const T* x, T* y, int k, bool plus) {
#pragma omp parallel for schedule(dynamic, 1024)
  for (Local i = 0; i < a.rows; ++i)
    for (int c = 0; c < k; ++c) {
      T sum{};
      for (std::int64_t e = a.row_begin[i]; e < a.row_begin[i + 1]; ++e)
        sum += a.value[e] * x[std::size_t(a.column[e]) * k + c];
      y[std::size_t(i) * k + c] = plus ? y[std::size_t(i) * k + c] + sum : sum;
    }
}

/// Whether the offset of every column from its row fits into 16 bits.
template <class T>
bool is_narrow(const Matrix<T>& a) {
  for (Local i = 0; i < a.rows; ++i)
    for (std::int64_t e = a.row_begin[i]; e < a.row_begin[i + 1]; ++e)
      if (std::abs(a.column[e] - i) > 32767) return false;
  return true;
}

template <class T, class Offset, class Column>
struct Csr {
  exec::Array<Offset, Device> row_begin;
  exec::Array<Column, Device> column;
  exec::Array<T, Device> value;

  explicit Csr(const Matrix<T>& a)
      : row_begin(on_device(std::vector<Offset>(a.row_begin.begin(), a.row_begin.end()))), value(on_device(a.value)) {
    std::vector<Column> stored(a.column.size());
    for (Local i = 0; i < a.rows; ++i)
      for (std::int64_t e = a.row_begin[i]; e < a.row_begin[i + 1]; ++e)
        stored[e] = Column(std::same_as<Column, Local> ? a.column[e] : a.column[e] - i);
    column = on_device(stored);
  }
  op::DeviceCsr<T, Offset, Column> view() const { return {row_begin.view(), column.view(), value.view()}; }
  double bytes() const {
    return double(value.size()) * (sizeof(T) + sizeof(Column)) + double(row_begin.size()) * sizeof(Offset);
  }
};

template <class T, class Column>
struct Sell {
  static constexpr int C = op::device_slice_rows;
  Local rows;
  exec::Array<Global, Device> slice_begin;
  exec::Array<Column, Device> column;
  exec::Array<T, Device> value;
  exec::Array<Local, Device> row;

  /// Rows sorted by length in windows of sigma rows; sigma = 1 keeps their order.
  Sell(const Matrix<T>& a, Local sigma) : rows(a.rows) {
    const Global slices = (Global(a.rows) + C - 1) / C;
    std::vector<Local> order(slices * C, -1);
    std::iota(order.begin(), order.begin() + a.rows, 0);
    if (sigma > 1)
      for (Local w = 0; w < a.rows; w += sigma)
        std::stable_sort(order.begin() + w, order.begin() + std::min<Global>(Global(w) + sigma, a.rows),
                         [&](Local i, Local j) { return a.length(i) > a.length(j); });
    std::vector<Global> begin{0};
    for (Global s = 0; s < slices; ++s) {
      Local longest = 0;
      for (int r = 0; r < C; ++r)
        if (order[s * C + r] >= 0) longest = std::max(longest, a.length(order[s * C + r]));
      begin.push_back(begin.back() + Global(longest) * C);
    }
    std::vector<Column> stored(begin.back(), op::no_column<Column>);
    std::vector<T> values(begin.back(), T{});
    for (Global p = 0; p < slices * C; ++p)
      if (order[p] >= 0)
        for (Local j = 0; j < a.length(order[p]); ++j) {
          const std::int64_t e = a.row_begin[order[p]] + j, at = begin[p / C] + Global(j) * C + p % C;
          stored[at] = Column(std::same_as<Column, Local> ? Global(a.column[e]) : a.column[e] - p);
          values[at] = a.value[e];
        }
    slice_begin = on_device(begin);
    column = on_device(stored);
    value = on_device(values);
    if (sigma > 1) row = on_device(order);
  }
  op::DeviceSell<T, Column> view() const { return {rows, slice_begin.view(), column.view(), value.view(), row.view()}; }
  double bytes() const {
    return double(value.size()) * (sizeof(T) + sizeof(Column)) + double(slice_begin.size()) * sizeof(Global) +
           double(row.size()) * sizeof(Local);
  }
};

}  // namespace tacit::device
