// Whether a stored matrix is Hermitian.
#include <gtest/gtest.h>
#include <tacit/op/csr.hpp>

#include "op/stored_rows.hpp"
#include "support/communicators.hpp"
#include "support/reference.hpp"

#include <cmath>
#include <complex>
#include <string>
#include <utility>

using namespace tacit;
using namespace tacit::op;
using namespace tacit::op::stored;
using comm::Communicator;
using test::on_ranks;

namespace {

TEST(IsHermitian, MissesNoEntry) {
  on_ranks(
      [](const Communicator& comm) {
        const auto space = layout::Space::distributed(comm, 19);
        auto a = test::random_matrix<double>(19, 19, 5, [](Global i, Global j) { return std::abs(i - j) < 7; });
        a = a + a.adjoint();
        // Blocks of 2 x 2, which the random entries adjoin and fill in part.
        for (const Global c : {0, 4, 12})
          for (const auto& [i, j] : {std::pair<Global, Global>{0, 0}, {0, 1}, {1, 0}, {1, 1}})
            a.entry[{c + i, 2 + j}] = a.entry[{2 + j, c + i}] = 1;
        for (const Format format : {Format::csr, Format::sell, Format::bsr}) {
          const auto is = [&](const auto& of) {
            return is_hermitian(Csr<double>(space, space, of.rows_of(space), format));
          };
          EXPECT_TRUE(is(a));
          for (const auto& [place, v] : a.entry) {
            auto without = a;
            without.entry.erase(place);
            EXPECT_EQ(is(without), place.first == place.second)
                << place.first << " " << place.second << " as " << to_string(format);
          }
        }
      },
      {3});
}

// Where all entries are in dense blocks, these are compared with their mirror blocks.
TEST(IsHermitian, ComparesDenseBlocks) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  using C = std::complex<double>;
  for (const Global b : {2, 3}) {
    const auto space = layout::Space::distributed(Communicator::self(), 7 * b);
    test::Reference<C> a{7 * b, 7 * b, {}};
    const auto each = [&](auto& of, Global r, Global c, auto&& f) {
      for (Global i = b * r; i < b * (r + 1); ++i)
        for (Global j = b * c; j < b * (c + 1); ++j) f(i, j, of.entry[{i, j}]);
    };
    for (Global r = 0; r < 7; ++r)
      for (Global c = 0; c < 7; ++c)
        if (r == c || (r + c) % 3 == 1)
          each(a, r, c, [](Global i, Global j, C& v) {
            v = {double(1 + (i + j) % 5), double((i - j) * (1 + i * j % 4))};
          });
    const auto is = [&](const test::Reference<C>& of) {
      const Csr<C> A(space, space, of.rows_of(space), Format::bsr);
      EXPECT_EQ(A.storage(), message("bsr-", b, " (16-bit offsets)"));
      return is_hermitian(A);
    };
    EXPECT_TRUE(is(a));
    for (const auto& [place, v] : a.entry) {
      auto other = a;
      other.entry[place] += C(0, 1e-9);
      EXPECT_FALSE(is(other)) << place.first << " " << place.second;
    }
    for (const auto& [r, c] : {std::pair<Global, Global>{0, 6}, {6, 0}}) {  // a block that has no mirror block
      auto more = a;
      each(more, r, c, [](Global, Global, C& v) { v = 0; });
      EXPECT_TRUE(is(more));
      more.entry[{b * r, b * c}] = 1;
      EXPECT_FALSE(is(more));
    }
  }
}

TEST(IsHermitian, ComparesWithTheAdjoint) {
  on_ranks([](const Communicator& comm) {
    using C = std::complex<double>;
    const auto space = layout::Space::distributed(comm, 23);
    auto a = test::random_matrix<C>(23, 23, 4, [](Global i, Global j) { return std::abs(i - j) < 4; });
    EXPECT_FALSE(is_hermitian(Csr<C>(space, space, a.rows_of(space))));
    a = a + a.adjoint();
    EXPECT_TRUE(is_hermitian(Csr<C>(space, space, a.rows_of(space))));
    a.entry.erase({22, 20});
    EXPECT_FALSE(is_hermitian(Csr<C>(space, space, a.rows_of(space))));
  });
}

TEST(IsHermitian, JudgesAnEntryByTheDiagonalOfItsRowAndColumn) {
  on_ranks([](const Communicator& comm) {
    const Global n = 23;
    const auto space = layout::Space::distributed(comm, n);
    // D M D, where M has the diagonal 2: entries from 1e-8 to 1e8.
    const auto d = [](Global i) { return std::pow(10.0, double(i % 5) * 2 - 4); };
    const auto is = [&](Global i, Global j, double change, bool mirrored) {
      test::Reference<double> a{n, n, {}};
      for (Global k = 0; k < n; ++k) a.entry[{k, k}] = 2 * d(k) * d(k);
      if (mirrored) a.entry[{i, j}] = a.entry[{j, i}] = 0.25 * d(i) * d(j);
      a.entry[{i, j}] += change * d(i) * d(j);
      return is_hermitian(Csr<double>(space, space, a.rows_of(space)));
    };
    for (const bool mirrored : {true, false})
      for (const auto& [i, j] : {std::pair<Global, Global>{0, 21}, {21, 0}, {4, 5}, {20, 10}, {9, 10}}) {
        // A difference as another order of summation leaves it; also where terms have cancelled in one of the two
        // entries.
        EXPECT_TRUE(is(i, j, 6e-16, mirrored)) << i << " " << j << " " << mirrored;
        EXPECT_FALSE(is(i, j, 1e-12, mirrored)) << i << " " << j << " " << mirrored;
      }
  });
}

TEST(Csr, ComparesNarrowValuesWithTheirMirrorEntries) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  const auto space = layout::Space::distributed(Communicator::self(), 101 * 31);
  auto rows = grid_rows<double>(
      101, 31, [](Global) { return 1; }, -1);
  for (const Format format : {Format::csr, Format::sell}) {
    for (Global i = 0; i < space.size(); ++i)
      for (Global e = rows.start[i]; e < rows.start[i + 1]; ++e)
        rows.value[e] = double(1 + (i + rows.column[e]) % 97);  // symmetric
    EXPECT_TRUE(is_hermitian(Csr<double>(space, space, rows, format)));
    rows.value[77] += 1;
    const Csr<double> A(space, space, rows, format);
    EXPECT_NE(A.storage().find("bfloat16 values"), std::string::npos) << A.storage();
    EXPECT_FALSE(is_hermitian(A));
  }
}

}  // namespace
