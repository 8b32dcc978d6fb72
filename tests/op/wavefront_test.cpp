// The order of the levels of a wavefront, and the blocks that its levels need.
#include "op/wavefront.hpp"
#include "support/communicators.hpp"
#include "support/reference.hpp"

#include <gtest/gtest.h>

#include <vector>

using namespace tacit;
using namespace tacit::op;

namespace {

/// n rows with entries at some distances, also without the mirror entries, and a few that lie far off.
LocalRows<double> scattered(Local n, Local reach, int far) {
  LocalRows<double> a;
  a.columns = n;
  for (Local i = 0; i < n; ++i) {
    std::vector<Local> columns{i};
    for (int k = 0; k < 3; ++k) {
      const double where = test::number<double>(5, std::uint64_t(3 * i + k));
      columns.push_back(std::clamp<Local>(i + Local(where * reach), 0, n - 1));
    }
    if (far && i % (n / far) == n / far / 2) columns.push_back((i + n / 3) % n);
    std::sort(columns.begin(), columns.end());
    columns.erase(std::unique(columns.begin(), columns.end()), columns.end());
    for (const Local c : columns) a.column.push_back(c), a.value.push_back(1);
    a.start.push_back(Global(a.column.size()));
  }
  return a;
}

/// Which blocks read rows of which others.
std::vector<std::vector<char>> readers(const LocalMatrix<double>& A, const LocalRows<double>& a) {
  const int blocks = A.blocks();
  std::vector<int> of(std::size_t(a.count()));
  for (int b = 0; b < blocks; ++b)
    for (Local r = A.first_row(b); r < A.first_row(b + 1); ++r) of[std::size_t(r)] = b;
  const std::vector<char> none(std::size_t(blocks), 0);
  std::vector<std::vector<char>> reads(none.size(), none);
  for (Local r = 0; r < a.count(); ++r)
    for (Global k = a.start[r]; k < a.start[r + 1]; ++k) reads[of[r]][of[a.column[k]]] = 1;
  return reads;
}

TEST(Wavefront, ComesAfterWhatItReadsAndBeforeWhatItOverwrites) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  for (const Format format : {Format::csr, Format::sell})
    for (const Local reach : {1, 700, 9000})
      for (const int far : {0, 2}) {
        const auto a = scattered(40011, reach, far);
        const LocalMatrix<double> A(a, format);
        const auto reads = readers(A, a);
        const int blocks = A.blocks();
        ASSERT_GT(blocks, 10);
        for (const BlockRange own : {BlockRange{0, blocks}, BlockRange{3, 8}, BlockRange{blocks - 1, blocks}}) {
          const auto around = blocks_around(A, own, 4);
          const std::vector<BlockRange> range(around.rbegin(), around.rend());
          std::vector<std::vector<char>> done(range.size(), std::vector<char>(std::size_t(blocks)));
          std::vector<int> space;
          wavefront(A, std::span<const BlockRange>(range), space, [&](int k, int b) {
            ASSERT_FALSE(done[k][b]);
            ASSERT_TRUE(b >= range[k].begin && b < range[k].end);
            for (int other = 0; k > 0 && other < blocks; ++other) {
              // What it reads has been made one level below, and what is there is read no more.
              const bool there = other >= range[k - 1].begin && other < range[k - 1].end;
              ASSERT_TRUE(done[k - 1][other] || !reads[b][other]) << k << ", " << b << " reads " << other;
              ASSERT_TRUE(done[k - 1][other] || !there || !reads[other][b]) << k << ", " << b << ", read by " << other;
            }
            done[k][b] = 1;
          });
          for (std::size_t k = 0; k < range.size(); ++k)
            for (int b = 0; b < blocks; ++b) ASSERT_EQ(done[k][b] != 0, b >= range[k].begin && b < range[k].end);
        }
      }
}

TEST(Wavefront, KeepsItsLevelsClose) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  const auto a = scattered(40000, 300, 0);
  const LocalMatrix<double> A(a, Format::sell);
  // Levels follow each other as closely as the band allows: what they hold between them is in cache.
  std::vector<int> next(6, 0), space;
  int widest = 0;
  wavefront(A, 6, space, [&](int k, int b) {
    next[std::size_t(k)] = b + 1;
    widest = std::max(widest, next[0] - next[5]);
  });
  EXPECT_LE(widest, 6 * (A.needs(A.blocks() / 2) - A.blocks() / 2 + 1));
  EXPECT_LT(6 * 3, A.blocks());
}

}  // namespace
