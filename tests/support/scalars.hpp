// The scalars of typed tests.
#pragma once

#include <gtest/gtest.h>

#include <complex>

namespace tacit::test {

#ifdef TACIT_SHORT_TESTS  // each precision and each kind once
using Scalars = testing::Types<double, std::complex<float>>;
#else
using Scalars = testing::Types<float, double, std::complex<float>, std::complex<double>>;
#endif

}  // namespace tacit::test
