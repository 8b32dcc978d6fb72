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

constexpr Local rows_between_polls = 64;

template <Scalar T>
bool all_finite(const std::vector<T>& v) {
  return std::all_of(v.begin(), v.end(), [](T a) { return is_finite(a); });
}

template <Scalar T>
Factors<T> by_diagonal(const std::vector<T>& diagonal) {
  Factors<T> f;
  f.diagonal_only = true;
  f.lower.columns = f.upper.columns = Local(diagonal.size());
  f.lower.start.assign(diagonal.size() + 1, 0);
  f.upper.start.assign(diagonal.size() + 1, 0);
  for (const T a : diagonal) {
    const T d = a != T(0) ? inverse(a) : T(1);
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
  /// Row i of a, with a place for its pivot; the sum of its sizes and the largest one.
  std::pair<real_t<T>, real_t<T>> take(const op::LocalRows<T>& a, Local i, Local pivot, const Local* place) {
    begin(i, place);
    enter(pivot);
    real_t<T> sum = 0, largest = 0;
    for (Global k = a.start[i]; k < a.start[i + 1]; ++k) {
      enter(a.column[k]);
      value_[a.column[k]] = a.value[k];
      sum += size_of(a.value[k]);
      largest = std::max(largest, size_of(a.value[k]));
    }
    return {sum, largest};
  }
  /// The column of the largest value; `usual` where `pivoting` times that is no larger.
  Local pivot(Local usual, real_t<T> pivoting) const {
    Local pivot = usual;
    for (const Local c : right_)
      if (size_of(value_[c]) > size_of(value_[pivot])) pivot = c;
    return pivoting * size_of(value_[pivot]) > size_of(value_[usual]) ? pivot : usual;
  }
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
Factors<T> ilu0(op::SplitRows<T> a, const Poll& poll) {
  using R = real_t<T>;
  const Local n = a.lower.count();
  auto &lower = a.lower, &upper = a.upper;
  Factors<T> f;
  f.inverse.resize(std::size_t(n));
  std::vector<T*> place(std::size_t(n), nullptr);  // of the present row's entries
  bool finite = true;
  for (Local i = 0; i < n; ++i) {
    if (i % rows_between_polls == 0) poll();
    T pivot = a.diagonal[std::size_t(i)];
    R size = size_of(pivot);
    place[i] = &pivot;
    const auto enter = [&](op::LocalRows<T>& part) {
      for (Global k = part.start[i]; k < part.start[i + 1]; ++k)
        place[part.column[k]] = &part.value[k], size = std::max(size, size_of(part.value[k]));
    };
    enter(lower), enter(upper);
    for (Global k = lower.start[i]; k < lower.start[i + 1]; ++k) {
      const Local j = lower.column[k];
      const T l = lower.value[k] *= f.inverse[j];
      for (Global u = upper.start[j]; u < upper.start[j + 1]; ++u)
        if (T* const p = place[upper.column[u]]) *p -= l * upper.value[u];
    }
    f.perturbed += replace_small_pivot(pivot, size);
    finite = finite && is_finite(pivot);
    f.inverse[i] = inverse(pivot);
    place[i] = nullptr;
    for (Global k = lower.start[i]; k < lower.start[i + 1]; ++k) place[lower.column[k]] = nullptr;
    for (Global k = upper.start[i]; k < upper.start[i + 1]; ++k) place[upper.column[k]] = nullptr;
  }
  if (!finite || !all_finite(lower.value) || !all_finite(upper.value) || !all_finite(f.inverse))
    return by_diagonal(a.diagonal);
  f.lower = std::move(lower);
  f.upper = std::move(upper);
  return f;
}

template <Scalar T>
Factors<T> ic0(op::SplitRows<T> a, const Poll& poll) {
  using R = real_t<T>;
  constexpr R epsilon = std::numeric_limits<R>::epsilon();
  auto& l = a.lower;  // of A, then of L
  const auto& d = a.diagonal;
  const Local n = l.count();
  std::vector<R> size(std::size_t(n), R(0));  // what the shift is a multiple of
  for (Local i = 0; i < n; ++i)
    for (Global k = l.start[i]; k < l.start[i + 1]; ++k)
      for (const Local of : {i, l.column[k]}) size[of] = std::max(size[of], size_of(l.value[k]));
  for (Local i = 0; i < n; ++i) {
    const R largest = std::max(size[i], size_of(d[i]));
    size[i] = real(d[i]) != 0 ? std::abs(real(d[i])) : largest > 0 ? largest : R(1);
  }
  const std::vector<T> below = l.value;
  std::vector<R> inverse(std::size_t(n), R(0));  // of the diagonal of L
  const auto attempt = [&](R shift) {
    for (Local i = 0; i < n; ++i) {
      if (i % rows_between_polls == 0) poll();
      R pivot = real(d[i]) + shift * size[i];
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
    if (shift > R(1e9)) return by_diagonal(d);
  }
  if (!all_finite(l.value) || !all_finite(inverse)) return by_diagonal(d);
  Factors<T> f;
  f.inverse.assign(inverse.begin(), inverse.end());
  f.shift = shift;
  f.lower = std::move(l);
  return f;
}

template <Scalar T>
op::SplitRows<T> split(const op::LocalRows<T>& a, bool with_upper) {
  const Local n = a.count();
  op::SplitRows<T> parts;
  parts.diagonal.resize(std::size_t(n));
  parts.lower.columns = parts.upper.columns = n;
  std::size_t below = 0, above = 0;
  for (Local i = 0; i < n; ++i)
    for (Global k = a.start[i]; k < a.start[i + 1]; ++k) (a.column[k] < i ? below : above) += a.column[k] != i;
  parts.lower.start.reserve(std::size_t(n) + 1), parts.lower.column.reserve(below), parts.lower.value.reserve(below);
  if (with_upper)
    parts.upper.start.reserve(std::size_t(n) + 1), parts.upper.column.reserve(above), parts.upper.value.reserve(above);
  for (Local i = 0; i < n; ++i) {
    for (Global k = a.start[i]; k < a.start[i + 1]; ++k) {
      const Local j = a.column[k];
      if (j == i) parts.diagonal[std::size_t(i)] = a.value[k];
      else if (j < i) parts.lower.column.push_back(j), parts.lower.value.push_back(a.value[k]);
      else if (with_upper) parts.upper.column.push_back(j), parts.upper.value.push_back(a.value[k]);
    }
    parts.lower.start.push_back(Global(parts.lower.column.size()));
    if (with_upper) parts.upper.start.push_back(Global(parts.upper.column.size()));
  }
  return parts;
}

template <Scalar T>
op::SplitRows<T> with_levels(const op::LocalRows<T>& a, int levels, bool with_upper, const Poll& poll) {
  const Local n = a.count();
  op::SplitRows<T> filled;
  auto &lower = filled.lower, &upper = filled.upper;
  lower.columns = upper.columns = n;
  filled.diagonal.resize(std::size_t(n));
  std::vector<int> upper_level, level(std::size_t(n), -1);  // of the rows so far, and of the present one
  std::vector<Local> row;
  std::vector<T> value(std::size_t(n), T(0));
  Positions below(n);
  for (Local i = 0; i < n; ++i) {
    if (i % rows_between_polls == 0) poll();
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
      for (Global u = upper.start[k]; u < upper.start[k + 1]; ++u)
        if (const int at = level[k] + upper_level[u] + 1; at <= levels) enter(upper.column[u], at);
    }
    std::sort(row.begin(), row.end());
    for (const Local j : row) {
      const T v = std::exchange(value[j], T(0));
      if (j < i) {
        lower.column.push_back(j), lower.value.push_back(v);
      } else if (j == i) {
        filled.diagonal[std::size_t(i)] = v;
      } else {
        upper.column.push_back(j), upper_level.push_back(level[j]);
        if (with_upper) upper.value.push_back(v);
      }
      level[j] = -1;
    }
    lower.start.push_back(Global(lower.column.size()));
    upper.start.push_back(Global(upper.column.size()));
  }
  if (!with_upper) upper = {};
  return filled;
}

template <Scalar T>
void append_row(op::LocalRows<T>& to, const std::vector<Entry<T>>& row) {
  for (const auto& [c, v] : row) to.column.push_back(c), to.value.push_back(v);
  to.start.push_back(Global(to.column.size()));
}

template <Scalar T>
Factors<T> ilut(const op::LocalRows<T>& a, const Threshold& t, std::vector<Local>& order, const Poll& poll) {
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
    if (i % rows_between_polls == 0) poll();
    const auto [sum, largest] = row.take(a, i, order[i], place.data());
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
    append_row(f.lower, kept);

    const Local pivot = row.pivot(order[i], R(t.pivoting));
    const Local other = place[pivot];
    std::swap(order[i], order[other]);
    place[order[other]] = other, place[order[i]] = i;
    // The matrix is singular, or nearly so. With a pivot as large as its row the null vector stays out of the solution,
    // where it would grow until A x is rounding error.
    if (!(size_of(row.value(pivot)) > singular * largest)) {
      row.value(pivot) = T(largest > 0 ? largest : R(1));
      ++f.perturbed;
    }
    f.inverse[i] = inverse(row.value(pivot));
    kept.clear();
    for (const Local c : row.right())
      if (const T u = row.remove(c); c != pivot && size_of(u) > least) kept.emplace_back(c, u);
    keep_largest(kept, std::size_t(std::ceil(std::max(share, rest))));
    append_row(f.upper, kept);
  }
  if (!all_finite(f.lower.value) || !all_finite(f.upper.value) || !all_finite(f.inverse)) {
    std::iota(order.begin(), order.end(), Local(0));
    return by_diagonal(split(a, false).diagonal);
  }
  renumber_columns(f.upper, place);
  return f;
}

#define TACIT_INSTANTIATE(T)                                                                 \
  template Factors<T> ilu0<T>(op::SplitRows<T>, const Poll&);                                \
  template Factors<T> ic0<T>(op::SplitRows<T>, const Poll&);                                 \
  template op::SplitRows<T> split<T>(const op::LocalRows<T>&, bool);                         \
  template op::SplitRows<T> with_levels<T>(const op::LocalRows<T>&, int, bool, const Poll&); \
  template Factors<T> ilut<T>(const op::LocalRows<T>&, const Threshold&, std::vector<Local>&, const Poll&);
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::precond
