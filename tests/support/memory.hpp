// The memory space in which a test program instantiates the contracts, and vectors of any memory space, made and looked
// at on the host: test files have no kernels of their own, so that the host's compiler compiles them for devices too.
#pragma once

#include "support/scalars.hpp"

#include <tacit/layout/vector.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <concepts>
#include <cstdlib>
#include <span>
#include <utility>
#include <vector>

// Given by tests/device/CMakeLists.txt for the program that runs the same files in device memory.
#ifndef TACIT_TEST_MEMORY
#define TACIT_TEST_MEMORY Host
#endif

namespace tacit::test {

using TestMemory = TACIT_TEST_MEMORY;
inline constexpr bool on_host = std::same_as<TestMemory, Host>;

/// The parameter of a typed test: a scalar, and the memory of its vectors.
template <Scalar T, Memory M>
struct In {
  using scalar = T;
  using memory = M;
};
#ifdef TACIT_ONE_SCALAR
using ScalarsInMemory = testing::Types<In<double, TestMemory>>;
using RealsInMemory = ScalarsInMemory;
using ScalarsInMemoryAndGroups = testing::Types<In<double, TestMemory>, In<double, Group<TestMemory>>>;
#else
#define TACIT_AND_IN(T) , In<T, TestMemory>
#define TACIT_TYPES_IN(M) TACIT_EACH_SCALAR(M, TACIT_AND_IN)
using ScalarsInMemory = AfterFirst<void TACIT_TYPES_IN(TACIT_TEST_MEMORY)>::types;
using RealsInMemory = testing::Types<In<float, TestMemory>, In<double, TestMemory>>;
/// All of them, and groups of such memories, which have real scalars.
using ScalarsInMemoryAndGroups = AfterFirst<void TACIT_TYPES_IN(TACIT_TEST_MEMORY), In<float, Group<TestMemory>>,
                                            In<double, Group<TestMemory>>>::types;
#endif

/// Whether the tests are one of many repetitions, each with another order of streams (./test --orders).
inline bool is_repeated() {
  static const bool is = !on_host && std::getenv("TACIT_TEST_ORDERS") != nullptr;
  return is;
}
/// How large a test is, or of how many cases: in host memory; in device memory, whose kernels the processor may have to
/// run, which takes far longer; and in each of many repetitions there.
template <class V>
V sized(V host, V device, V repeated) {
  return on_host ? host : is_repeated() ? repeated : device;
}

/// For on_ranks(): the numbers of ranks `host` in host memory; for devices one number of at most three.
inline std::vector<int> ranks_of(std::vector<int> host) {
  if (!on_host && !host.empty()) host = {std::min(host.back(), 3)};
  return host;
}

/// A vector with these elements on this rank.
template <Scalar T, Memory M = Host>
layout::Vector<T, M> vector_from(const layout::Space& space, const std::vector<T>& elements, int columns = 1) {
  layout::Vector<T, M> x(space, columns);
  x.assign(elements);
  return x;
}
template <Scalar T, Memory M = Host>
layout::Vector<T, M> filled(const layout::Space& space, T value, int columns = 1) {
  return vector_from<T, M>(space, std::vector<T>(std::size_t(space.local_size()) * std::size_t(columns), value),
                           columns);
}
template <Scalar T, Memory M>
void fill_with(layout::Vector<T, M>& x, T value) {
  x.assign(std::vector<T>(x.size(), value));
}
template <class T, Memory M>
std::vector<T> elements_of(const exec::Array<T, M>& array) {
  std::vector<T> elements(array.size());
  if constexpr (std::same_as<M, Host>) std::copy_n(array.data(), elements.size(), elements.data());
  else if (!elements.empty()) exec::copy_to_host(elements.data(), array.data(), elements.size() * sizeof(T));
  return elements;
}
/// (x, y) over the space, added up on the host. Collective.
template <Scalar T, Memory M>
T dot_on_host(const layout::Vector<T, M>& x, const layout::Vector<T, M>& y) {
  const auto a = x.to_host(), b = y.to_host();
  T sum{};
  for (std::size_t i = 0; i < a.size(); ++i) sum += conj(a[i]) * b[i];
  x.space().sum(&sum, 1);
  return sum;
}
template <Scalar T, Memory M>
double norm_on_host(const layout::Vector<T, M>& x) {
  return std::sqrt(double(real(dot_on_host(x, x))));
}

}  // namespace tacit::test
