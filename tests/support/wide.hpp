// Vectors in extended precision, for what a method is compared with.
#pragma once

#include "support/systems.hpp"

#include <vector>

namespace tacit::test {

template <class T>
using Wide = std::vector<wide_t<T>>;

template <Scalar T>
Wide<T> widened(const std::vector<T>& v) {
  Wide<T> w;
  for (const T& a : v) w.push_back(widen(a));
  return w;
}
template <Scalar T>
Wide<T> times(const Whole<T>& a, const Wide<T>& x) {
  Wide<T> y(std::size_t(a.n), wide_t<T>(0));
  a.each([&](Global r, Global c, T v) { y[std::size_t(r)] += widen(v) * x[std::size_t(c)]; });
  return y;
}
/// diag(m) v
template <class V>
V scaled(const std::vector<double>& m, V v) {
  for (std::size_t i = 0; i < v.size(); ++i) v[i] *= (long double)(m[i]);
  return v;
}
/// y -= a x
template <class V>
void subtract(typename V::value_type a, const V& x, V& y) {
  for (std::size_t i = 0; i < y.size(); ++i) y[i] -= a * x[i];
}
template <class V>
auto inner(const V& x, const V& y) {
  typename V::value_type sum(0);
  for (std::size_t i = 0; i < x.size(); ++i) sum += wide_conj(x[i]) * y[i];
  return sum;
}

}  // namespace tacit::test
