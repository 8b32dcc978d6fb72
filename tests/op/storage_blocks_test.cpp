// Dense blocks of a sparse matrix: which are found, and that they do not change results.
#include <gtest/gtest.h>
#include <tacit/op/csr.hpp>
#include <tacit/op/stencil.hpp>

#include "op/stored_rows.hpp"
#include "support/communicators.hpp"
#include "support/scalars.hpp"
#include "support/threads.hpp"

#include <cstring>
#include <set>
#include <string>
#include <utility>

using namespace tacit;
using namespace tacit::op;
using namespace tacit::op::stored;
using comm::Communicator;
using layout::Vector;
using test::on_ranks;

namespace {

template <class T>
class BlockStorage : public testing::Test {};
TYPED_TEST_SUITE(BlockStorage, test::Scalars);

/// Rows [begin, end) of a matrix of n rows: blocks of b x b next to the diagonal and `reach` blocks away. With `holes`,
/// the diagonal block of every fifth block row has holes.
template <class T>
Rows<T> block_rows(int b, Global n, Global begin, Global end, Global reach, bool holes = true) {
  Rows<T> rows;
  for (Global i = begin; i < end; ++i) {
    const Global p = i / b;
    std::set<Global> nodes{p - reach, p - 1, p, p + 1 + p % 3, p + reach};
    for (const Global q : nodes)
      for (Global j = q * b; j < (q + 1) * b; ++j)
        if (j >= 0 && j < n && !(holes && p % 5 == 2 && q == p && (i + j) % 3 == 0)) {
          rows.column.push_back(j);
          rows.value.push_back(test::number<T>(3, std::uint64_t(i * 7 + j)));
        }
    rows.start.push_back(Global(rows.column.size()));
  }
  return rows;
}

TEST(BlockStorageOfGrids, DenseBlocksAreFoundBehindAFaceOfIdentityRows) {
  // 3 x 3 blocks of neighbours on grids, but rows of the identity at x = 0, which equal steps through the rows may hit.
  const auto comm = Communicator::self();
  for (const Global nx : {16, 24, 32, 33, 64})
    for (const Global ny : {24, 64}) {
      const Global nodes = nx * ny * 8;
      const auto space = layout::Space::distributed(comm, 3 * nodes);
      Rows<double> rows;
      for (Global r = 0; r < 3 * nodes; ++r) {
        const Global node = r / 3;
        const auto add = [&](Global c) { rows.column.push_back(c), rows.value.push_back(1 + double((r + c) % 5)); };
        if (node % nx == 0) add(r);
        else
          for (const Global to : {node - nx * ny, node - nx, node - 1, node, node + 1, node + nx, node + nx * ny})
            if (to >= 0 && to < nodes && to % nx != 0)
              for (Global c = 3 * to; c < 3 * to + 3; ++c) add(c);
        rows.start.push_back(Global(rows.column.size()));
      }
      const Csr<double> A(space, space, std::move(rows));
      EXPECT_EQ(A.storage().substr(0, 5), "bsr-3") << A.storage() << " of " << nx << " x " << ny << " x 8";
    }
  // Rows outside whole blocks count, too.
  const auto eight = layout::Space::distributed(comm, 8), twenty = layout::Space::distributed(comm, 20);
  Rows<double> full;
  for (Global r = 0; r < 8; ++r) {
    for (Global c = 0; c < 20; ++c) full.column.push_back(c), full.value.push_back(1);
    full.start.push_back(20 * (r + 1));
  }
  EXPECT_EQ(Csr<double>(eight, twenty, std::move(full), Format::bsr).storage().substr(0, 5), "bsr-4");
}

TYPED_TEST(BlockStorage, OfDenseBlocksIsFoundAndHasNoPartInTheResult) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  using T = TypeParam;
  const auto comm = Communicator::self();
  for (int b = 2; b <= 8; ++b)
    for (Global reach : {Global(40), Global(33000)}) {
      if (reach > 100 && b != 3) continue;
      const Global n = (reach > 100 ? 33100 * b : 9000 / b * b) + b - 1;  // the last block is incomplete
      const auto space = layout::Space::distributed(comm, n);
      const auto rows = block_rows<T>(b, n, 0, n, reach);
      const Csr<T> A(space, space, rows, Format::bsr);
      EXPECT_EQ(A.storage().substr(0, 5), message("bsr-", b)) << A.storage();
      EXPECT_EQ(A.storage().find("16-bit") != std::string::npos, reach == 40) << A.storage();
      const Csr<T> chosen(space, space, block_rows<T>(b, n, 0, n, reach, false));
      EXPECT_EQ(chosen.storage().substr(0, 5), message("bsr-", b)) << chosen.storage();
      for (const int k : {1, 2, 9}) expect_product(A, rows, k);
      const auto back = A.rows();
      EXPECT_EQ(back.start, rows.start);
      EXPECT_EQ(back.column, rows.column);
      EXPECT_EQ(back.value, rows.value);
      // The same bits for any number of threads.
      const auto x = test::vector_of<T>(space, 5);
      Vector<T> one(space), three(space);
      for (const auto& [team, y] : {std::pair{1, &one}, std::pair{3, &three}}) {
        const test::Threads threads(team);
        A.apply(x, *y);
      }
      EXPECT_EQ(std::memcmp(one.data(), three.data(), one.size() * sizeof(T)), 0);
    }
}

TYPED_TEST(BlockStorage, OfDenseBlocksOnRanksThatCutThem) {
  using T = TypeParam;
  on_ranks([](const Communicator& comm) {
    for (const int b : {3, 4, 7}) {
      const Global n = 40 * b + 2;
      const auto space = layout::Space::distributed(comm, n);
      const auto rows = block_rows<T>(b, n, space.begin(), space.end(), 9);
      const Csr<T> A(space, space, rows, Format::bsr);
      // Where ranks cut blocks of 4, blocks of 2 hold more entries.
      EXPECT_TRUE(A.storage().starts_with(message("bsr-", b)) || (b == 4 && A.storage().starts_with("bsr-2")))
          << A.storage();
      for (const int k : {1, 3}) expect_product(A, rows, k);
      const auto back = A.rows();
      EXPECT_EQ(back.start, rows.start);
      EXPECT_EQ(back.column, rows.column);
      EXPECT_EQ(back.value, rows.value);
      // The adjoint identity (A x, y) = (x, A^H y).
      const auto x = test::vector_of<T>(space, 8), y = test::vector_of<T>(space, 9);
      Vector<T> Ax(space), Ay(space);
      A.apply(x, Ax);
      A.apply_adjoint(y, Ay);
      const T left = layout::dot(Ax, y), right = layout::dot(x, Ay);
      EXPECT_LE(std::abs(left - right), 64 * test::epsilon<T>() * double(n));
    }
  });
}

TEST(Csr, IsStoredInBlocksOnlyWhereThatIsSmaller) {
  const auto comm = Communicator::self();
  const auto grid = stencil_rows(Grid({40, 50}), laplacian<double>(2), 0, 2000);
  const auto space = layout::Space::distributed(comm, 2000);
  EXPECT_EQ(Csr<double>(space, space, grid).storage().substr(0, 4), "sell");
  // Three unknowns per node, each coupled to those of its own kind only: blocks have entries on their diagonals only.
  Rows<double> apart;
  for (Global i = 0; i < 2000; ++i) {
    for (Global j : {i - 30, i - 3, i, i + 3, i + 33})
      if (j >= 0 && j < 2000) apart.column.push_back(j), apart.value.push_back(1);
    apart.start.push_back(Global(apart.column.size()));
  }
  EXPECT_NE(Csr<double>(space, space, apart).storage().substr(0, 3), "bsr");
  // An explicit format is used, and its description shows that no entry is in a block.
  EXPECT_NE(Csr<double>(space, space, apart, Format::bsr).storage().find("0 % of entries in blocks"),
            std::string::npos);
}

}  // namespace
