// The scalars of typed tests.
#pragma once

#include <gtest/gtest.h>

#include <complex>

namespace tacit::test {

#if defined(TACIT_ONE_SCALAR)  // the program of ./test without --all
using Scalars = testing::Types<double>;
#elif defined(TACIT_SHORT_TESTS)  // each precision and each kind once
using Scalars = testing::Types<double, std::complex<float>>;
#else
using Scalars = testing::Types<float, double, std::complex<float>, std::complex<double>>;
#endif

}  // namespace tacit::test
