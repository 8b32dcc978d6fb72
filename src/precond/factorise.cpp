#include "factorise.hpp"

#include "add_product.hpp"
#include "scalar.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>

namespace tacit::precond {
namespace {

template <Scalar T>
bool all_finite(const std::vector<T>& v) {
  return std::all_of(v.begin(), v.end(), [](T a) { return is_finite(a); });
}

/// The block with every diagonal entry present.
template <Scalar T>
op::LocalRows<T> with_diagonal(const op::LocalRows<T>& a) {
  bool complete = true;
  for (Local i = 0; i < a.count() && complete; ++i)
    complete = std::binary_search(a.column.begin() + a.start[i], a.column.begin() + a.start[i + 1], i);
  if (complete) return a;
  op::LocalRows<T> full;
  full.columns = a.columns;
  full.column.reserve(a.column.size() + std::size_t(a.count()));
  full.value.reserve(a.value.size() + std::size_t(a.count()));
  for (Local i = 0; i < a.count(); ++i) {
    bool placed = false;
    const auto place = [&] {
      full.column.push_back(i);
      full.value.push_back(T(0));
      placed = true;
    };
    for (Global k = a.start[i]; k < a.start[i + 1]; ++k) {
      if (!placed && a.column[k] > i) place();
      placed = placed || a.column[k] == i;
      full.column.push_back(a.column[k]);
      full.value.push_back(a.value[k]);
    }
    if (!placed) place();
    full.start.push_back(Global(full.column.size()));
  }
  return full;
}

template <Scalar T>
Factors<T> by_diagonal(const op::LocalRows<T>& a) {
  Factors<T> f;
  f.diagonal_only = true;
  f.lower.columns = f.upper.columns = a.columns;
  f.lower.start.assign(a.start.size(), 0);
  f.upper.start.assign(a.start.size(), 0);
  for (Local i = 0; i < a.count(); ++i) {
    T d(1);
    for (Global k = a.start[i]; k < a.start[i + 1]; ++k)
      if (a.column[k] == i && a.value[k] != T(0)) d = inverse(a.value[k]);
    f.inverse.push_back(is_finite(d) ? d : T(1));
  }
  return f;
}

/// A pivot of at most epsilon `size` is given the magnitude sqrt(epsilon) `size` (1 in a row of zeros); whether it was.
template <Scalar T>
bool replace_small_pivot(T& pivot, real_t<T> size) {
  using R = real_t<T>;
  constexpr R epsilon = std::numeric_limits<R>::epsilon();
  if (size_of(pivot) > epsilon * size) return false;
  const R left = std::abs(pivot), wanted = size > 0 ? std::sqrt(epsilon) * size : R(1);
  pivot = left > 0 && std::isfinite(left) ? pivot * (wanted / left) : T(wanted);
  return true;
}

/// A set of numbers from 0 to n - 1 from which the smallest is taken: bits, and in levels above them a bit for each
/// word of 64 that is not zero.
class Positions {
 public:
  explicit Positions(Local n) {
    std::size_t words = std::size_t(std::max<Local>(n, 1));
    do {
      words = (words + 63) / 64;
      level_.emplace_back(words, 0);
    } while (words > 1);
  }
  bool empty() const { return level_.back().front() == 0; }
  void add(Local i) {
    auto at = std::size_t(i);
    for (auto& words : level_) {
      std::uint64_t& word = words[at / 64];
      const bool known = word != 0;
      word |= std::uint64_t(1) << at % 64;
      if (known) return;
      at /= 64;
    }
  }
  Local take() {
    std::size_t at = 0;
    for (std::size_t l = level_.size(); l-- > 0;) at = 64 * at + std::size_t(std::countr_zero(level_[l][at]));
    const auto smallest = Local(at);
    for (auto& words : level_) {
      std::uint64_t& word = words[at / 64];
      word &= word - 1;
      if (word != 0) break;
      at /= 64;
    }
    return smallest;
  }

 private:
  std::vector<std::vector<std::uint64_t>> level_;
};

/// A column and the value there.
template <Scalar T>
using Entry = std::pair<Local, T>;

/// The row that is eliminated, by columns. Columns of earlier rows' pivots are on its left.
template <Scalar T>
class PresentRow {
 public:
  explicit PresentRow(Local n) : value_(std::size_t(n), T(0)), present_(std::size_t(n), 0), left_(n) {
    right_.reserve(std::size_t(n));
  }
  /// place[c]: the row whose pivot column c is, or will be.
  void begin(Local i, const Local* place) {
    i_ = i, place_ = place;
    right_.clear();
  }
  void enter(Local c) {
    if (present_[c]) return;
    present_[c] = 1;
    if (place_[c] < i_) left_.add(place_[c]);
    else right_.push_back(c);
  }
  T& value(Local c) { return value_[c]; }
  T remove(Local c) {
    present_[c] = 0;
    return std::exchange(value_[c], T(0));
  }
  /// Subtracts l times row k of u.
  void subtract(T l, const op::LocalRows<T>& u, Local k) {
    const Local* const column = u.column.data();
    const T* const entry = u.value.data();
    T* const value = value_.data();
    const char* const present = present_.data();
    const Global end = u.start[k + 1];
    for (Global e = u.start[k]; e < end; ++e) {
      const Local c = column[e];
      if (!present[c]) [[unlikely]]
        enter(c);
      value[c] = add_product(-l, entry[e], value[c]);
    }
  }
  Positions& left() { return left_; }
  const std::vector<Local>& right() const { return right_; }

 private:
  std::vector<T> value_;
  std::vector<char> present_;
  std::vector<Local> right_;
  Positions left_;
  Local i_ = 0;
  const Local* place_ = nullptr;
};

/// Leaves the `most` largest entries, in any order; of equal ones those of lower columns.
template <Scalar T>
void keep_largest(std::vector<Entry<T>>& row, std::size_t most) {
  if (row.size() <= most) return;
  std::nth_element(row.begin(), row.begin() + std::ptrdiff_t(most), row.end(), [](const auto& x, const auto& y) {
    const auto a = size_of(x.second), b = size_of(y.second);
    return a != b ? a > b : x.first < y.first;
  });
  row.resize(most);
}

/// Renames every column c to place[c], and sorts the rows again.
template <Scalar T>
void renumber_columns(op::LocalRows<T>& u, const std::vector<Local>& place) {
  std::vector<Entry<T>> row;
  for (Local i = 0; i < u.count(); ++i) {
    row.clear();
    for (Global k = u.start[i]; k < u.start[i + 1]; ++k) row.emplace_back(place[u.column[k]], u.value[k]);
    std::ranges::sort(row, {}, &Entry<T>::first);
    Global k = u.start[i];
    for (const auto& [column, value] : row) u.column[k] = column, u.value[k++] = value;
  }
}

}  // namespace

template <Scalar T>
Factors<T> ilu0(const op::LocalRows<T>& given) {
  using R = real_t<T>;
  op::LocalRows<T> a = with_diagonal(given);
  const Local n = a.count();
  Factors<T> f;
  f.inverse.resize(n);
  std::vector<Global> diagonal(n), place(n, -1);
  for (Local i = 0; i < n; ++i) {
    const Global begin = a.start[i], end = a.start[i + 1];
    R size = 0;
    for (Global k = begin; k < end; ++k) place[a.column[k]] = k, size = std::max(size, size_of(a.value[k]));
    Global k = begin;
    for (; a.column[k] < i; ++k) {
      const Local j = a.column[k];
      const T l = a.value[k] *= f.inverse[j];
      for (Global u = diagonal[j] + 1; u < a.start[j + 1]; ++u)
        if (const Global p = place[a.column[u]]; p >= 0) a.value[p] -= l * a.value[u];
    }
    diagonal[i] = k;
    f.perturbed += replace_small_pivot(a.value[k], size);
    f.inverse[i] = inverse(a.value[k]);
    for (Global p = begin; p < end; ++p) place[a.column[p]] = -1;
  }
  if (!all_finite(a.value) || !all_finite(f.inverse)) return by_diagonal(given);
  f.lower.columns = f.upper.columns = n;
  Global below = 0;
  for (Local i = 0; i < n; ++i) below += diagonal[i] - a.start[i];
  f.lower.column.reserve(std::size_t(below));
  f.lower.value.reserve(std::size_t(below));
  f.upper.column.reserve(a.column.size() - std::size_t(below + n));
  f.upper.value.reserve(a.column.size() - std::size_t(below + n));
  for (Local i = 0; i < n; ++i) {
    for (Global k = a.start[i]; k < diagonal[i]; ++k)
      f.lower.column.push_back(a.column[k]), f.lower.value.push_back(a.value[k]);
    for (Global k = diagonal[i] + 1; k < a.start[i + 1]; ++k)
      f.upper.column.push_back(a.column[k]), f.upper.value.push_back(a.value[k]);
    f.lower.start.push_back(Global(f.lower.column.size()));
    f.upper.start.push_back(Global(f.upper.column.size()));
  }
  return f;
}

template <Scalar T>
Factors<T> ic0(const op::LocalRows<T>& a) {
  using R = real_t<T>;
  constexpr R epsilon = std::numeric_limits<R>::epsilon();
  const Local n = a.count();
  Factors<T> f;
  op::LocalRows<T> l;  // strictly lower part of A, then of L
  l.columns = n;
  std::vector<R> d(n, R(0)), size(n);  // size: what the shift is a multiple of
  for (Local i = 0; i < n; ++i) {
    R largest = 0;
    for (Global k = a.start[i]; k < a.start[i + 1]; ++k) {
      largest = std::max(largest, size_of(a.value[k]));
      if (a.column[k] < i) l.column.push_back(a.column[k]), l.value.push_back(a.value[k]);
      else if (a.column[k] == i) d[i] = real(a.value[k]);
    }
    l.start.push_back(Global(l.column.size()));
    size[i] = d[i] != 0 ? std::abs(d[i]) : largest > 0 ? largest : R(1);
  }
  const std::vector<T> below = l.value;
  std::vector<R> inverse(n);  // of the diagonal of L
  const auto attempt = [&](R shift) {
    for (Local i = 0; i < n; ++i) {
      R pivot = d[i] + shift * size[i];
      const R least = epsilon * size[i];
      for (Global k = l.start[i]; k < l.start[i + 1]; ++k) {
        const Local j = l.column[k];
        T sum = below[k];
        // Rows i and j of L, both ascending, up to column j.
        for (Global p = l.start[i], q = l.start[j]; p < k && q < l.start[j + 1];) {
          if (l.column[p] == l.column[q]) sum -= l.value[p++] * conj(l.value[q++]);
          else if (l.column[p] < l.column[q]) ++p;
          else ++q;
        }
        l.value[k] = sum * inverse[j];
        pivot -= abs2(l.value[k]);
      }
      if (!(pivot > least)) return false;
      inverse[i] = 1 / std::sqrt(pivot);
    }
    return true;
  };
  R shift = 0;
  while (!attempt(shift)) {
    shift = shift == 0 ? R(1e-3) : 2 * shift;
    if (shift > R(1e9)) return by_diagonal(a);
  }
  for (const R r : inverse) f.inverse.push_back(T(r));
  if (!all_finite(l.value) || !all_finite(f.inverse)) return by_diagonal(a);
  f.shift = shift;
  f.upper = op::adjoint(l);
  f.lower = std::move(l);
  return f;
}

template <Scalar T>
op::LocalRows<T> with_levels(const op::LocalRows<T>& a, int levels) {
  const Local n = a.count();
  op::LocalRows<T> filled;
  filled.columns = n;
  std::vector<int> upper_level, level(std::size_t(n), -1);  // of the rows so far, and of the present one
  std::vector<Global> diagonal(std::size_t(n), 0), level_start(std::size_t(n) + 1, 0);
  std::vector<Local> upper_column, row;
  std::vector<T> value(std::size_t(n), T(0));
  Positions below(n);
  for (Local i = 0; i < n; ++i) {
    row.clear();
    const auto enter = [&](Local j, int at) {
      if (level[j] >= 0) {
        level[j] = std::min(level[j], at);
        return;
      }
      level[j] = at;
      row.push_back(j);
      if (j < i) below.add(j);
    };
    enter(i, 0);
    for (Global k = a.start[i]; k < a.start[i + 1]; ++k) enter(a.column[k], 0), value[a.column[k]] = a.value[k];
    while (!below.empty()) {
      const Local k = below.take();
      for (Global u = level_start[k]; u < level_start[k + 1]; ++u)
        if (const int at = level[k] + upper_level[u] + 1; at <= levels) enter(upper_column[u], at);
    }
    std::sort(row.begin(), row.end());
    for (const Local j : row) {
      filled.column.push_back(j);
      filled.value.push_back(std::exchange(value[j], T(0)));
      if (j > i) upper_column.push_back(j), upper_level.push_back(level[j]);
      level[j] = -1;
    }
    filled.start.push_back(Global(filled.column.size()));
    level_start[std::size_t(i) + 1] = Global(upper_column.size());
  }
  return filled;
}

template <Scalar T>
Factors<T> ilut(const op::LocalRows<T>& a, const Threshold& t, std::vector<Local>& order) {
  using R = real_t<T>;
  const Local n = a.count();
  Factors<T> f;
  f.lower.columns = f.upper.columns = n;
  f.inverse.resize(std::size_t(n));
  order.resize(std::size_t(n));
  std::iota(order.begin(), order.end(), Local(0));
  std::vector<Local> place = order;  // the inverse of `order`
  const R singular = std::pow(std::numeric_limits<R>::epsilon(), R(2) / 3);
  const double mean = n > 0 ? double(a.value.size()) / n : 0;
  const double share = std::clamp(t.fill * mean / 2, 1.0, double(std::max<Local>(n, 1)));  // of L, or of U, in a row

  PresentRow<T> row(n);
  std::vector<Entry<T>> kept;
  for (Local i = 0; i < n; ++i) {
    R sum = 0, largest = 0;
    row.begin(i, place.data());
    row.enter(order[i]);
    for (Global k = a.start[i]; k < a.start[i + 1]; ++k) {
      row.enter(a.column[k]);
      row.value(a.column[k]) = a.value[k];
      sum += size_of(a.value[k]);
      largest = std::max(largest, size_of(a.value[k]));
    }
    const R least = a.start[i + 1] > a.start[i] ? R(t.drop) * (sum / R(a.start[i + 1] - a.start[i])) : R(0);

    kept.clear();
    while (!row.left().empty()) {
      const Local k = row.left().take();
      const T w = row.remove(order[k]);
      if (!(size_of(w) > least)) continue;  // both scale with the row, which l does not
      const T l = w * f.inverse[k];
      row.subtract(l, f.upper, k);
      kept.emplace_back(k, l);
    }
    // What earlier rows have left of their shares: the last rows of an ordering need more than the first.
    double rest = 2 * share * (i + 1) - double(f.lower.column.size() + f.upper.column.size());
    keep_largest(kept, std::size_t(std::ceil(std::max(share, rest - share))));
    rest -= double(kept.size());
    std::ranges::sort(kept, {}, &Entry<T>::first);
    for (const auto& [k, l] : kept) f.lower.column.push_back(k), f.lower.value.push_back(l);
    f.lower.start.push_back(Global(f.lower.column.size()));

    Local pivot = order[i];
    for (const Local c : row.right())
      if (size_of(row.value(c)) > size_of(row.value(pivot))) pivot = c;
    if (!(R(t.pivoting) * size_of(row.value(pivot)) > size_of(row.value(order[i])))) pivot = order[i];
    if (pivot != order[i]) {
      const Local other = place[pivot];
      std::swap(order[i], order[other]);
      place[order[i]] = i;
      place[order[other]] = other;
    }
    // The matrix is singular, or nearly so. With a pivot as large as its row the null vector stays out of the solution,
    // where it would grow until A x is rounding error.
    if (!(size_of(row.value(pivot)) > singular * largest)) {
      row.value(pivot) = T(largest > 0 ? largest : R(1));
      ++f.perturbed;
    }
    f.inverse[i] = inverse(row.value(pivot));
    kept.clear();
    for (const Local c : row.right()) {
      const T u = row.remove(c);
      if (c != pivot && size_of(u) > least) kept.emplace_back(c, u);
    }
    keep_largest(kept, std::size_t(std::ceil(std::max(share, rest))));
    for (const auto& [c, u] : kept) f.upper.column.push_back(c), f.upper.value.push_back(u);
    f.upper.start.push_back(Global(f.upper.column.size()));
  }
  if (!all_finite(f.lower.value) || !all_finite(f.upper.value) || !all_finite(f.inverse)) {
    std::iota(order.begin(), order.end(), Local(0));
    return by_diagonal(a);
  }
  renumber_columns(f.upper, place);
  return f;
}

#define TACIT_INSTANTIATE(T)                                              \
  template Factors<T> ilu0<T>(const op::LocalRows<T>&);                   \
  template Factors<T> ic0<T>(const op::LocalRows<T>&);                    \
  template op::LocalRows<T> with_levels<T>(const op::LocalRows<T>&, int); \
  template Factors<T> ilut<T>(const op::LocalRows<T>&, const Threshold&, std::vector<Local>&);
TACIT_INSTANTIATE(float)
TACIT_INSTANTIATE(double)
TACIT_INSTANTIATE(std::complex<float>)
TACIT_INSTANTIATE(std::complex<double>)

}  // namespace tacit::precond
