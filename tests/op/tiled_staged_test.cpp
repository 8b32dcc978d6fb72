// Staged matrices: the kernel of devices, on one or run by the processor.
#include <gtest/gtest.h>
#include <tacit/op/staged_matrix.hpp>

#include "op/tiled_cases.hpp"
#include "support/communicators.hpp"
#include "support/memory.hpp"

#include <cmath>
#include <limits>

namespace tacit::test {
namespace {

using op::Values;

template <class T>
class Staged : public testing::Test {};
TYPED_TEST_SUITE(Staged, RealsInMemory);

/// A X on the host, for k interleaved columns; `race`: with a thread for every member of a team.
template <class T, class M>
std::vector<T> product(const op::StagedMatrix<T, M>& m, const std::vector<T>& x, int k, bool race) {
  const auto in = exec::Array<T, M>::from(x);
  auto out = exec::Array<T, M>::from(std::vector<T>(std::size_t(m.rows()) * std::size_t(k), T(7)));
  m.multiply(in.data(), out.data(), k, race);
  return elements_of(out);
}

template <class T, class M>
void check_staged(const std::vector<std::vector<Entry<T>>>& a, Local columns, int at_once, Values values,
                  op::Vectors vectors, std::initializer_list<int> widths, bool race) {
  const auto rows = a.size();
  const op::StagedMatrix<T, M> m(Local(rows), columns, source_of(a), at_once, values, vectors);
  const double rounded = (values == Values::half) + (vectors == op::Vectors::half);
  const double bound = rounded * 0x1p-11 + 64 * std::numeric_limits<T>::epsilon();
  EXPECT_GE(m.counts().stored, m.counts().padding);
  EXPECT_LE(m.counts().turns, m.counts().turns_as_given);
  for (const int k : widths) {
    const auto wide = std::size_t(k);
    std::vector<T> x(std::size_t(columns) * wide);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = number<T>(4, i) + T(i % 3);
    const auto serial = product(m, x, k, false);
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < wide; ++c) {
        double sum = 0, size = 1e-300;
        for (const auto& e : a[r]) {
          const double term = double(e.value) * double(x[std::size_t(e.column) * wide + c]);
          sum += term, size += std::abs(term);
        }
        ASSERT_NEAR(double(serial[r * wide + c]), sum, (bound + rounded * 1e-5) * size) << at_once << " " << k;
      }
    if (!race || !on_host) continue;
    EXPECT_EQ(serial, product(m, x, k, true));
  }
}

// On the host the device's kernel is run by one thread and by teams of threads (256 threads per team: slow). Several
// stages (900 columns are four of 256), several parts, empty rows, an incomplete last block.
TYPED_TEST(Staged, EqualsItsMatrix) {
  if (under_mpi()) GTEST_SKIP() << "the same as alone";
  using T = typename TypeParam::scalar;
  using M = typename TypeParam::memory;
  const auto a = some_rows<T>(300, 900);
  for (const auto values : {Values::full, Values::half})
    for (const int at_once : {1, 8, 32})
      check_staged<T, M>(a, 900, at_once, values, op::Vectors::full, {1, 7, 32, 40}, false);
  const auto few = some_rows<T>(130, 1300);
  check_staged<T, M>(few, 1300, 32, Values::full, op::Vectors::full, {5, 36}, true);
  check_staged<T, M>(few, 1300, 8, Values::half, op::Vectors::full, {8}, true);
  check_staged<T, M>(few, 1300, 1, Values::full, op::Vectors::full, {1}, true);
  if constexpr (sizeof(T) == sizeof(float)) {
    for (const auto values : {Values::full, Values::half})
      for (const int at_once : {16, 64})
        check_staged<T, M>(a, 900, at_once, values, op::Vectors::half, {1, 7, 32, 65}, false);
    check_staged<T, M>(few, 1300, 16, Values::full, op::Vectors::half, {3}, true);
  }
  EXPECT_THROW((op::StagedMatrix<T, M>(300, 900, source_of(a), 16)), Error);
  EXPECT_THROW((op::StagedMatrix<T, M>(300, 100, source_of(a), 8)), Error);
}

// A block whose entries need many parts, and rows that all begin in the same bank; padding reads zero for any X.
TYPED_TEST(Staged, TakesDenseBlocks) {
  using T = typename TypeParam::scalar;
  using M = typename TypeParam::memory;
  std::vector<std::vector<Entry<T>>> a(40);
  for (Local r = 0; r < 40; ++r)
    for (Local c = 0; c < 400 + 3 * r; ++c)
      a[std::size_t(r)].push_back({(c * 32 + r * 8) % 1031, number<T>(3, std::uint64_t(r * 600 + c))});
  for (const int at_once : {1, 8, 32})
    check_staged<T, M>(a, 1031, at_once, Values::full, op::Vectors::full, {1, 9}, false);
  const op::StagedMatrix<T, M> m(40, 1031, source_of(a), 8);
  EXPECT_GT(m.counts().turns_as_given, 1.3);
  EXPECT_LT(m.counts().turns, 0.85 * m.counts().turns_as_given);
  std::vector<T> x(1031, T(1));
  x[1030] = std::numeric_limits<T>::quiet_NaN();  // affects only the rows that have this column
  const auto y = product(m, x, 1, false);
  for (std::size_t r = 0; r < 40; ++r) {
    bool reads = false;
    for (const auto& e : a[r]) reads = reads || e.column == 1030;
    EXPECT_EQ(std::isnan(y[r]), reads) << r;
  }
}

}  // namespace
}  // namespace tacit::test
