// Values that slices share, and values in fewer bits: products have the same bits.
#include <gtest/gtest.h>
#include <tacit/base/trace.hpp>
#include <tacit/op/csr.hpp>

#include "op/stored_rows.hpp"
#include "support/communicators.hpp"
#include "support/reference.hpp"
#include "support/scalars.hpp"
#include "support/threads.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <string>
#include <utility>
#include <vector>

using namespace tacit;
using namespace tacit::op;
using namespace tacit::op::stored;
using comm::Communicator;
using layout::Vector;

namespace {

// With and without entries outside of blocks, whose places lie between those of the blocks.
TEST(Csr, TakesNewValuesInBlocks) {
  test::on_ranks([](const Communicator& comm) {
    for (const bool outside : {false, true}) {
      const auto space = layout::Space::distributed(comm, 24);
      test::Reference<double> a{24, 24, {}};
      for (Global i = 0; i < 24; ++i)
        for (Global j = 0; j < 24; ++j)
          if (std::abs(i / 3 - j / 3) < 2 || (outside && (i * j) % 7 == 1)) a.entry[{i, j}] = double(i + 100 * j);
      const auto rows = a.rows_of(space);
      Csr<double> A(space, space, rows, Format::bsr);
      EXPECT_EQ(A.storage().substr(0, 3), "bsr");
      const auto check = [&](const auto& values) {
        std::vector<double> copy(rows.value.size());
        A.copy_values(copy.data());
        EXPECT_TRUE(std::equal(copy.begin(), copy.end(), values.begin(), values.end()));
        const auto back = A.rows();
        EXPECT_EQ(back.column, rows.column);
        EXPECT_TRUE(std::equal(back.value.begin(), back.value.end(), values.begin(), values.end()));
        EXPECT_TRUE(A.intact());
      };
      check(rows.value);
      auto other = rows.value;
      for (double& v : other) v = 1 / (v + 3);
      A.update_values(other);
      check(other);
      EXPECT_EQ(A.largest(), comm.all_max(*std::max_element(other.begin(), other.end())));
    }
  });
}

template <class T>
class SharedStorage : public testing::Test {};
TYPED_TEST_SUITE(SharedStorage, test::Scalars);

TYPED_TEST(SharedStorage, SharesEqualValues) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  using T = TypeParam;
  const auto comm = Communicator::self();
  const auto constant = [](Global) { return 1.0; }, variable = [](Global i) { return double(i % 8191 + 1) / 8192; };
  // Two halves of other coefficients, and a row that differs in one bit, by the sign of a zero.
  const auto halves = [](Global i) { return i == 4000 ? -0.0 : i < 9999 ? 1.0 : 3.0; };
  for (const Global nx : {Global(104), Global(101), Global(7)})
    for (const int team : {1, 3}) {
      const test::Threads threads(team);
      const Global ny = 20000 / nx, n = nx * ny;
      const auto space = layout::Space::distributed(comm, n);
      const auto check = [&](const Csr<T>& A, const Rows<T>& rows, bool shared) {
        EXPECT_EQ(A.storage().find("shared values") != std::string::npos, shared) << A.storage() << " of " << nx;
        for (const int k : {1, 2, 9}) expect_product(A, rows, k);
        const auto back = A.rows();
        EXPECT_EQ(back.start, rows.start);
        EXPECT_EQ(back.column, rows.column);
        ASSERT_EQ(back.value.size(), rows.value.size());
        EXPECT_EQ(std::memcmp(back.value.data(), rows.value.data(), rows.value.size() * sizeof(T)), 0);
        std::vector<T> copy(rows.value.size());
        A.copy_values(copy.data());
        EXPECT_EQ(std::memcmp(copy.data(), rows.value.data(), copy.size() * sizeof(T)), 0);
        const auto diagonal = A.diagonal();
        for (Global i = 0; i < n; ++i)
          for (Global k = rows.start[i]; k < rows.start[i + 1]; ++k) {
            if (rows.column[k] != i) continue;
            ASSERT_EQ(diagonal[std::size_t(i)], rows.value[k]) << i;
          }
        EXPECT_TRUE(A.intact());
      };
      const auto same = grid_rows<T>(nx, ny, constant), two = grid_rows<T>(nx, ny, halves),
                 all = grid_rows<T>(nx, ny, variable);
      Csr<T> A(space, space, same), B(space, space, all);
      check(A, same, true), check(B, all, false);
      check(Csr<T>(space, space, two), two, true);
      // What is read by a product: a grid of 20,000 points has 100,000 entries.
      EXPECT_LT(A.cost().bytes - 2 * double(n) * sizeof(T), 0.1 * 1e5 * sizeof(T)) << nx;
      // New values share what they can, too, and none where they all differ.
      A.update_values(two.value), check(A, two, true);
      A.update_values(all.value), check(A, all, false);
      B.update_values(same.value), check(B, same, false);
      // The mirror entries of shared values are found.
      EXPECT_FALSE(is_hermitian(A));
      const Csr<T> symmetric(space, space, grid_rows<T>(nx, ny, constant, -1));
      EXPECT_TRUE(is_hermitian(symmetric));
      EXPECT_NE(symmetric.storage().find("shared values"), std::string::npos);
    }
}

template <class T>
class NarrowStorage : public testing::Test {};
using RealScalars = testing::Types<float, double>;
TYPED_TEST_SUITE(NarrowStorage, RealScalars);

TYPED_TEST(NarrowStorage, HasTheSameBits) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  using T = TypeParam;
  constexpr bool is_double = sizeof(T) == 8;
  const auto comm = Communicator::self();
  const Global n = 20007;
  const auto space = layout::Space::distributed(comm, n);
  const auto integer = [](Global k) { return k % 7 == 3 ? T(-0.0) : T(k * 2654435761u % 511 - 255.0); };
  const auto single = [](Global k) { return T(float(test::number<double>(4, std::uint64_t(k)))); };
  const auto given = [](Global k) { return T(test::number<double>(5, std::uint64_t(k))); };
  const auto note = [](const Csr<T>& A) {
    const auto text = A.storage();
    return text.find("bfloat16") != text.npos ? 16 : text.find("float32") != text.npos ? 32 : 0;
  };
  for (const auto& pattern : {rows_reaching<T>(n, 0, n, 100), rows_reaching<T>(n, 0, n, 9000),
                              grid_rows<T>(117, 171, [](Global) { return 1; })})
    for (const Format format : {Format::csr, Format::sell, Format::bsr, Format::automatic}) {
      const auto with = [&](auto&& f) {
        auto rows = pattern;
        for (std::size_t k = 0; k < rows.value.size(); ++k) rows.value[k] = f(Global(k));
        return rows;
      };
      const auto integers = with(integer), singles = with(single), all = with(given);
      Csr<T> A(space, space, integers, format), B(space, space, singles, format), C(space, space, all, format);
      if (format != Format::bsr) {
        EXPECT_EQ(note(A), 16);
        EXPECT_EQ(note(B), is_double ? 32 : 0);
        EXPECT_LT(A.cost().bytes, C.cost().bytes - (sizeof(T) - 2.5) * double(all.value.size()));
      }
      EXPECT_EQ(note(C), 0);
      for (const int team : {1, 3}) {
        const test::Threads threads(team);
        for (const int k : {1, 2, 3, 4, 8, 9})
          for (const auto& [of, rows] : {std::pair{&A, &integers}, {&B, &singles}, {&C, &all}})
            if (format != Format::bsr) expect_same_bits(*of, *rows, k);  // blocks are added in another order
            else if (of != &A) expect_product(*of, *rows, k);
      }
      expect_same_values(A, integers), expect_same_values(B, singles), expect_same_values(C, all);
      // New values keep as many bits as they need.
      A.update_values(singles.value), expect_same_values(A, singles);
      if (format != Format::bsr) expect_same_bits(A, singles, 1);
      B.update_values(integers.value), expect_same_values(B, integers);
      B.update_values(all.value), expect_same_values(B, all);
      EXPECT_EQ(note(B), 0);
      if (format != Format::bsr) expect_same_bits(B, all, 1), expect_same_bits(B, all, 4);
      const auto diagonal = B.diagonal(), expected = C.diagonal();
      EXPECT_EQ(diagonal, expected);
    }
}

TYPED_TEST(NarrowStorage, KeepsNumbersThatFewerBitsWouldChange) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  using T = TypeParam;
  using R = std::numeric_limits<T>;
  using F = std::numeric_limits<float>;
  const Global n = 1000;
  const auto space = layout::Space::distributed(Communicator::self(), n);
  // {a value among integers, the bits with which it is stored}; a subnormal float is zero where the processor flushes
  // them, and a conversion to float may change the bits of NaN.
  const int all = 8 * int(sizeof(T));
  const std::pair<T, int> cases[] = {{T(-0.0), 16},
                                     {T(F::min()), 16},
                                     {T(std::ldexp(255.0, 120)), 16},
                                     {T(F::max()), 32},
                                     {T(257), 32},
                                     {T(1 + std::ldexp(1.0, -23)), 32},
                                     {T(std::ldexp(1.0, -127)), all},
                                     {T(F::denorm_min()), all},
                                     {R::denorm_min(), all},
                                     {R::max(), all},
                                     {T(1) + R::epsilon(), all},
                                     {T(1) / 3, all},
                                     {R::infinity(), all},
                                     {R::quiet_NaN(), all},
                                     {R::signaling_NaN(), all}};
  for (const Format format : {Format::csr, Format::sell})
    for (const auto& [value, bits] : cases)
      for (const std::size_t place : {std::size_t(0), std::size_t(2501)}) {
        auto rows = rows_reaching<T>(n, 0, n, 20);
        for (std::size_t k = 0; k < rows.value.size(); ++k) rows.value[k] = T(k % 256);
        Csr<T> updated(space, space, rows, format);
        std::memcpy(&rows.value[place], &value, sizeof value);
        const Csr<T> made(space, space, rows, format);
        updated.update_values(rows.value);
        for (const auto* A : std::initializer_list<const Csr<T>*>{&made, &updated}) {
          const auto text = A->storage();
          EXPECT_EQ(text.find("bfloat16") != text.npos, bits == 16) << value << " in " << text;
          EXPECT_EQ(text.find("float32") != text.npos, bits == 32 && all == 64) << value << " in " << text;
          expect_same_values(*A, rows);
        }
      }
}

TEST(Csr, MultipliesNarrowValuesInTheScalarOfTheMatrix) {  // not in float: 1 + 2^-24 is 1 there
  const auto space = layout::Space::distributed(Communicator::self(), 2);
  for (const Format format : {Format::csr, Format::sell}) {
    const Csr<double> A(space, space, Rows<double>{{0, 2, 4}, {0, 1, 0, 1}, {1, std::ldexp(1.0, -24), 3, 5}}, format);
    EXPECT_NE(A.storage().find("bfloat16 values"), std::string::npos) << A.storage();
    Vector<double> x(space), y(space);
    layout::fill(x, 1.0);
    A.apply(x, y);
    EXPECT_EQ(y.data()[0], 1 + std::ldexp(1.0, -24));
  }
}

TYPED_TEST(NarrowStorage, PaddingAddsNothingToInfinity) {
  using T = TypeParam;
  const Global n = 80;
  const auto space = layout::Space::distributed(Communicator::self(), n);
  Rows<T> rows;  // rows of 1 to 5 entries
  for (Global i = 0; i < n; ++i) {
    for (Global j = 0; j <= i * i % 5; ++j)
      rows.column.push_back(16 * j + (i + 3 * j * j) % 16), rows.value.push_back(T(1 + j));
    rows.start.push_back(Global(rows.column.size()));
  }
  const T inf = std::numeric_limits<T>::infinity();
  for (const Format format : {Format::csr, Format::sell})
    for (const int k : {1, 2, 3}) {
      const Csr<T> A(space, space, rows, format);
      Vector<T> x(space, k), y(space, k);
      layout::fill(x, inf);
      A.apply(x, y);
      for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y.data()[i], inf) << i << " in " << A.storage();
    }
}

TYPED_TEST(NarrowStorage, MultipliesTwoVectorsAtOnce) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  using T = TypeParam;
  const Global n = 117 * 171;
  const auto space = layout::Space::distributed(Communicator::self(), n);
  for (const int kind : {0, 1, 2}) {
    auto rows = grid_rows<T>(117, 171, [](Global) { return 1; });
    for (std::size_t k = 0; k < rows.value.size(); ++k)
      rows.value[k] = kind == 0   ? T(k * 2654435761u % 511)
                      : kind == 1 ? T(float(test::number<double>(4, k)))
                                  : T(test::number<double>(5, k));
    const Csr<T> A(space, space, rows);
    const auto x = test::vector_of<T>(space, 3), z = test::vector_of<T>(space, 4);
    Vector<T> Ax(space), Az(space);
    A.apply(x, Ax), A.apply(z, Az);
    Vector<T> y(space), w(space);
    const auto& own = *A.whole();
    for (int b = 0; b < own.blocks(); ++b)
      own.multiply_block(b, std::array<const T*, 2>{x.data(), z.data()},
                         std::array<T*, 2>{y.data() + own.first_row(b), w.data() + own.first_row(b)});
    EXPECT_EQ(std::memcmp(y.data(), Ax.data(), y.size() * sizeof(T)), 0) << A.storage();
    EXPECT_EQ(std::memcmp(w.data(), Az.data(), w.size() * sizeof(T)), 0) << A.storage();
  }
}

/// Adds up the operations that kernels declare.
class DeclaredOperations final : public VirtualClock {
 public:
  double now() const noexcept override { return 0; }
  void work(const char*, double, double flops) override { total += flops; }
  double total = 0;
};

TYPED_TEST(SharedStorage, CountsAnOperationForEachEntryOfTheMatrix) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  using T = TypeParam;
  const Global n = 104 * 192;
  const auto space = layout::Space::distributed(Communicator::self(), n);
  const auto rows = grid_rows<T>(104, 192, [](Global) { return 1.0; });
  for (const Format format : {Format::csr, Format::sell, Format::bsr})
    for (const int k : {1, 3}) {
      const Csr<T> A(space, space, rows, format);
      const auto x = test::vector_of<T>(space, 2, k);
      Vector<T> y(space, k);
      DeclaredOperations clock;
      Trace::use(&clock);
      A.apply(x, y);
      Trace::use(nullptr);
      EXPECT_EQ(clock.total, (is_complex<T> ? 8.0 : 2.0) * k * double(rows.value.size())) << A.storage();
    }
}

}  // namespace
