#include "factorise.hpp"

#include "scalar.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tacit::precond {
namespace {

template <Scalar T>
bool all_finite(const std::vector<T>& v) {
  return std::all_of(v.begin(), v.end(), [](T a) { return is_finite(a); });
}

/// The block with every diagonal entry present.
template <Scalar T>
op::LocalRows<T> with_diagonal(const op::LocalRows<T>& a) {
  op::LocalRows<T> full;
  full.columns = a.columns;
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

}  // namespace

template <Scalar T>
Factors<T> ilu0(op::LocalRows<T> a) {
  using R = real_t<T>;
  constexpr R epsilon = std::numeric_limits<R>::epsilon();
  a = with_diagonal(a);
  const Local n = a.count();
  Factors<T> f;
  f.inverse.resize(n);
  const op::LocalRows<T> original = a;
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
    T& pivot = a.value[k];
    if (!(size_of(pivot) > epsilon * size)) {
      const R left = std::abs(pivot), wanted = size > 0 ? std::sqrt(epsilon) * size : R(1);
      pivot = left > 0 && std::isfinite(left) ? pivot * (wanted / left) : T(wanted);
      ++f.perturbed;
    }
    f.inverse[i] = inverse(pivot);
    for (Global p = begin; p < end; ++p) place[a.column[p]] = -1;
  }
  if (!all_finite(a.value) || !all_finite(f.inverse)) return by_diagonal(original);
  f.lower.columns = f.upper.columns = n;
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
  std::vector<R> d(n, R(0));
  for (Local i = 0; i < n; ++i) {
    for (Global k = a.start[i]; k < a.start[i + 1]; ++k) {
      if (a.column[k] < i) l.column.push_back(a.column[k]), l.value.push_back(a.value[k]);
      else if (a.column[k] == i) d[i] = real(a.value[k]);
    }
    l.start.push_back(Global(l.column.size()));
  }
  const std::vector<T> below = l.value;
  std::vector<R> inverse(n);  // of the diagonal of L
  const auto attempt = [&](R shift) {
    for (Local i = 0; i < n; ++i) {
      R pivot = d[i] * (1 + shift);
      const R least = epsilon * d[i];
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

#define TACIT_INSTANTIATE(T)                     \
  template Factors<T> ilu0<T>(op::LocalRows<T>); \
  template Factors<T> ic0<T>(const op::LocalRows<T>&);
TACIT_INSTANTIATE(float)
TACIT_INSTANTIATE(double)
TACIT_INSTANTIATE(std::complex<float>)
TACIT_INSTANTIATE(std::complex<double>)

}  // namespace tacit::precond
