// Shared by the tests of team kernels: random scalars, error bounds, and the ways of running a kernel.
#pragma once

#include <tacit/base/complex.hpp>
#include <tacit/exec/team.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

namespace tacit::exec {

enum class Way { serial, threads };
constexpr Way ways[] = {Way::serial, Way::threads};

template <class Kernel>
void launch_here(Way way, Global blocks, const Kernel& kernel) {
  if (way == Way::serial) launch_serial(blocks, kernel);
  else launch_threads(blocks, kernel);
}

/// Scalars of the kernels: Complex<double> is the GPU's form of complex128, std::complex the host's. Each one takes
/// seconds to compile.
using KernelScalars = ::testing::Types<float, Complex<double>>;

class Dice {
 public:
  explicit Dice(unsigned seed) : engine_(seed) {}
  int below(int n) { return static_cast<int>(engine_() % static_cast<unsigned>(n)); }
  template <class T>
  T value() {
    std::uniform_real_distribution<real_t<T>> one(-1, 1);
    if constexpr (is_complex<T>) {
      const auto re = one(engine_), im = one(engine_);
      return {re, im};
    } else {
      return one(engine_);
    }
  }
  template <class T>
  std::vector<T> values(std::size_t n) {
    std::vector<T> v(n);
    for (T& a : v) a = value<T>();
    return v;
  }

 private:
  std::mt19937 engine_;
};

using Wide = std::complex<long double>;
template <class T>
Wide wide(const T& a) {
  if constexpr (is_complex<T>) return {a.real(), a.imag()};
  else return {a, 0};
}

template <class T>
T poison() {
  return T(std::numeric_limits<real_t<T>>::quiet_NaN());
}

/// |got - expected| <= terms * eps * size for every element; a NaN never passes.
template <class T>
void expect_close(const std::vector<T>& got, const std::vector<Wide>& expected, double terms) {
  ASSERT_EQ(got.size(), expected.size());
  long double size = 1;
  for (const Wide& a : expected) size = std::max(size, std::abs(a));
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_LE(std::abs(wide(got[i]) - expected[i]), terms * std::numeric_limits<real_t<T>>::epsilon() * size)
        << "element " << i;
}

}  // namespace tacit::exec
