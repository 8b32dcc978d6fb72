// The scalars of typed tests.
#pragma once

#include <tacit/base/types.hpp>

#include <gtest/gtest.h>

#include <complex>

namespace tacit::test {

/// Types<T...> of a list that begins with another type: a macro can only put a comma before each one.
template <class, class... T>
struct AfterFirst {
  using types = testing::Types<T...>;
};
#define TACIT_AND(T) , T
/// All scalars that the library is compiled for: of tests that go through everything, such as the contracts.
#ifdef TACIT_ONE_SCALAR  // the program of ./test without --all
using AllScalars = testing::Types<double>;
#else
using AllScalars = AfterFirst<void TACIT_EACH_SCALAR(Host, TACIT_AND)>::types;
#endif

/// Each precision and each kind once.
#if !defined(TACIT_ONE_SCALAR) && TACIT_SCALARS_Host & 4
using Scalars = testing::Types<double, std::complex<float>>;
#else
using Scalars = AllScalars;
#endif
/// Those of tests that single precision would not pass, and the complex scalar of tests that have one.
#if !defined(TACIT_ONE_SCALAR) && TACIT_SCALARS_Host & 8
using DoubleScalars = testing::Types<double, std::complex<double>>;
#else
using DoubleScalars = testing::Types<double>;
#endif
#if TACIT_SCALARS_Host & 8
using ComplexScalar = std::complex<double>;
#else
using ComplexScalar = std::complex<float>;
#endif

}  // namespace tacit::test
