// The range of the scalar: finds numbers that are not finite, and scales by powers of two what is far from 1.
#pragma once

#include <tacit/layout/vector.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace tacit::krylov {

using layout::Vector;

/// Global index of the first element that is not finite, over all ranks; -1 if all are. Collective.
template <Scalar T, Memory M>
Global first_non_finite(const Vector<T, M>& v) {
  // NaN and Inf survive a sum of squares; only then are the elements looked at one by one.
  if (std::isfinite(layout::norm(v))) return -1;
  const auto host = v.to_host();
  Global first = std::numeric_limits<Global>::max();
  for (std::size_t i = 0; i < host.size(); ++i)
    if (!is_finite(host[i])) {
      first = v.space().begin() + Global(i) / v.columns();
      break;
    }
  first = v.space().comm().all_min(first);
  return first == std::numeric_limits<Global>::max() ? -1 : first;
}

/// v := 2^e v, in steps that the scalar can represent.
template <Scalar T, Memory M>
void scale_by_power(Vector<T, M>& v, int e) {
  using R = real_t<T>;
  constexpr int step = std::numeric_limits<R>::max_exponent - 2;
  while (e != 0) {
    const int now = std::clamp(e, -step, step);
    layout::scale(T(std::ldexp(R(1), now)), v);
    e -= now;
  }
}

/// Exponent k with 2^k near `size`, or 0 when squares and products of numbers of this size are safe as they are.
template <Scalar T>
int balance(double size) {
  if (!(size > 0) || !std::isfinite(size)) return 0;
  const int e = std::ilogb(size);
  constexpr int safe = std::same_as<real_t<T>, double> ? 60 : 10;
  return std::abs(e) > safe ? e : 0;
}

}  // namespace tacit::krylov
