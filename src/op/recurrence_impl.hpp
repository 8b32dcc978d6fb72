#pragma once

#include <tacit/op/operator.hpp>

namespace tacit::op {

namespace formula {
template <class T>
struct RecurrenceFirst {
  T alpha, scale;
  TACIT_HD void operator()(T x, T& v) const { v = scale * (v - alpha * x); }
};
template <class T>
struct RecurrenceNext {
  T alpha, beta, scale;
  TACIT_HD void operator()(T x, T before, T& v) const { v = scale * (v - alpha * x - beta * before); }
};
}  // namespace formula

/// extend() on elements [begin, end) of host vectors; v holds A x.
template <class T>
void extend_rows(const RecurrenceStep<T>& step, const T* before, const T* x, T* v, std::ptrdiff_t begin,
                 std::ptrdiff_t end) {
  const T scale(1 / step.gamma);
  if (step.beta != T(0)) {
    const formula::RecurrenceNext<T> next{step.alpha, step.beta, scale};
#pragma GCC ivdep
    for (std::ptrdiff_t i = begin; i < end; ++i) {
      T y = v[i];
      next(x[i], before[i], y);
      v[i] = y;
    }
  } else if (step.alpha != T(0)) {
    const formula::RecurrenceFirst<T> first{step.alpha, scale};
#pragma GCC ivdep
    for (std::ptrdiff_t i = begin; i < end; ++i) {
      T y = v[i];
      first(x[i], y);
      v[i] = y;
    }
  } else if (scale != T(1)) {
    for (std::ptrdiff_t i = begin; i < end; ++i) v[i] *= scale;
  }
}

template <Scalar T, Memory M>
void extend(const RecurrenceStep<T>& step, const Vector<T, M>* before, const Vector<T, M>& x, Vector<T, M>& v) {
  using namespace exec;
  const T scale(1 / step.gamma);
  if (step.beta != T(0)) {
    require(before, "a step of a Krylov basis that uses the vector before the last was given none");
    sweep(reads(x, *before), updates(v), writes(), formula::RecurrenceNext<T>{step.alpha, step.beta, scale});
  } else if (step.alpha != T(0)) {
    sweep(reads(x), updates(v), writes(), formula::RecurrenceFirst<T>{step.alpha, scale});
  } else if (scale != T(1)) {
    layout::scale(scale, v);
  }
}

}  // namespace tacit::op
