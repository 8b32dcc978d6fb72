// The order of the stages of a wavefront, and the blocks that they need.
#include "op/wavefront.hpp"
#include "support/communicators.hpp"
#include "support/reference.hpp"
#include "support/threads.hpp"

#include <gtest/gtest.h>

#include <atomic>
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
        Needs needs;
        needs_of_product(A, needs);
        Wavefront wave(blocks);
        wave.add(needs, 4);
        std::vector<int> space;
        for (const BlockRange own : {BlockRange{0, blocks}, BlockRange{3, 8}, BlockRange{blocks - 1, blocks}}) {
          const auto around = blocks_around(needs, own, 4);
          const std::vector<BlockRange> range(around.rbegin(), around.rend());
          std::vector<std::vector<char>> done(range.size(), std::vector<char>(std::size_t(blocks)));
          wave.run(range, space, [&](int k, int b) {
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

TEST(Wavefront, KeepsItsStagesClose) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  const auto a = scattered(40000, 300, 0);
  const LocalMatrix<double> A(a, Format::sell);
  // Stages follow each other as closely as the band allows: what they hold between them is in cache.
  std::vector<int> next(6, 0);
  int widest = 0;
  Needs needs;
  needs_of_product(A, needs);
  Wavefront wave(A.blocks());
  wave.add(needs, 5);
  wave.run(false, [&](int k, int b) {
    next[std::size_t(k)] = b + 1;
    widest = std::max(widest, next[0] - next[5]);
  });
  EXPECT_LE(widest, 6 * (A.needs(A.blocks() / 2) - A.blocks() / 2 + 1));
  EXPECT_LT(6 * 3, A.blocks());
}

/// A product with P, four with A of which each overwrites what the one but one before it made, and one with R: every
/// block once, after what it reads and after what reads the rows that it overwrites.
TEST(Wavefront, OfSeveralMatricesOnThreads) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  const Local n = 40011;
  for (const int threads : {1, 2, 5})
    for (const Local reach : {1, 700, 9000})
      for (const int far : {0, 2}) {
        const test::Threads use(threads);
        const auto a = scattered(n, reach, far), p = scattered(n, 1, 0);
        auto r = scattered(n, 30, far);  // every second row has no entries
        for (std::size_t i = 0; i < std::size_t(n); i += 2) r.start[i + 1] = r.start[i];
        r.start.resize(std::size_t(n) / 2 + 1);
        r.column.resize(std::size_t(r.start.back())), r.value.resize(r.column.size());
        const LocalMatrix<double> A(a, Format::csr), P(p, Format::csr), R(r, Format::csr);
        const std::vector<Global> columns(r.column.begin(), r.column.end());
        const ReadColumns of_R(r.start, columns);
        Needs of_A, behind_P, to_R;
        needs_of_product(A, of_A), needs_behind(A, of_A, P, behind_P), of_R.needs(R, A, to_R);
        Wavefront wave(P.blocks());
        wave.add(behind_P);
        wave.add(of_A, 3);
        wave.add(to_R);
        // Which version of a row is in which of two vectors: a stage writes k to the rows of its block.
        std::vector<std::atomic<int>> v[2] = {std::vector<std::atomic<int>>(std::size_t(n)),
                                              std::vector<std::atomic<int>>(std::size_t(n))};
        for (auto& all : v)
          for (auto& row : all) row = -1;
        std::atomic<int> done = 0, wrong = 0;
        wave.run(true, [&](int stage, int b) {
          ++done;
          const auto& matrix = stage == 0 ? P : stage == 5 ? R : A;
          const auto& rows = stage == 5 ? r : a;
          const auto& from = v[(stage + 1) % 2];
          auto& to = v[stage % 2];
          for (Local i = matrix.first_row(b); i < matrix.first_row(b + 1); ++i) {
            for (Global k = rows.start[std::size_t(i)]; stage > 0 && k < rows.start[std::size_t(i) + 1]; ++k)
              wrong += from[std::size_t(rows.column[std::size_t(k)])] != stage - 1;
            if (stage < 5) to[std::size_t(i)] = stage;
          }
        });
        EXPECT_EQ(wrong, 0) << threads << " threads, reach " << reach;
        EXPECT_EQ(done, P.blocks() + 4 * A.blocks() + R.blocks());
      }
}

}  // namespace
