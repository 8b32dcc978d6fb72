// Wavefront: stages of work on blocks of rows, of one matrix or of several, block after block, so that what one stage
// makes is still in cache when the next one reads it. Alappat, Hager, Schenk, Wellein (2023), doi
// 10.1109/TPDS.2022.3223512 (for matrix powers).
//
//   Wavefront wave(P.blocks());   // u + P e
//   wave.add(behind_P);           // u' = u + M (f - A u)
//   wave.run(parallel, [&](int stage, int block) { .. });
#pragma once

#include <tacit/exec/parallel.hpp>
#include <tacit/exec/tasks.hpp>
#include <tacit/op/local_matrix.hpp>

#include <algorithm>
#include <span>
#include <vector>

namespace tacit::op {

/// Blocks [begin, end) of the rows of a matrix.
struct BlockRange {
  int begin, end;
  int count() const { return end - begin; }
};

/// For each block of a stage, the blocks of the stage before that have to be done; both ends ascend.
using Needs = std::vector<BlockRange>;

/// The blocks of a matrix that hold the rows [begin, end); not none, where end > begin. `from`: one that is not behind
/// them, from which they are looked for.
template <Scalar T>
BlockRange blocks_of(const LocalMatrix<T>& A, Local begin, Local end, BlockRange from = {0, 0}) {
  while (from.begin < A.blocks() && A.first_row(from.begin + 1) <= begin) ++from.begin;
  from.end = std::max(from.begin, from.end);
  while (from.end < A.blocks() && A.first_row(from.end) < end) ++from.end;
  return from;
}

/// Of a product with a square matrix that may overwrite the result of two stages before: the blocks whose rows a block
/// reads, and those that read its rows.
template <Scalar T>
void needs_of_product(const LocalMatrix<T>& A, Needs& needs) {
  needs.clear();
  for (int b = 0, reader = 0; b < A.blocks(); ++b) {
    while (A.needs(reader) <= b) ++reader;  // ends at b at the latest
    needs.push_back({std::min({A.lowest(b), reader, b}), std::max(A.needs(b), b + 1)});
  }
}

/// The same where the stage before has the blocks of P: its rows are those of A.
template <Scalar T>
void needs_behind(const LocalMatrix<T>& A, const Needs& of_A, const LocalMatrix<T>& P, Needs& needs) {
  needs.clear();
  BlockRange at{0, 0};
  for (const auto& own : of_A) needs.push_back(at = blocks_of(P, A.first_row(own.begin), A.first_row(own.end), at));
}

/// The blocks in which stages with 0, 1 .. `stages` stages behind them have to be done, so that the last can be done in
/// `own`.
inline std::vector<BlockRange> blocks_around(const Needs& needs, BlockRange own, int stages) {
  std::vector<BlockRange> range{own};
  for (int k = 0; k < stages; ++k) {
    const auto [begin, end] = range.back();
    range.push_back(own.count() ? BlockRange{needs[std::size_t(begin)].begin, needs[std::size_t(end - 1)].end} : own);
  }
  return range;
}

/// The columns that the rows of a matrix read, for groups of rows: of a matrix whose storage does not tell.
class ReadColumns {
 public:
  ReadColumns() = default;
  /// `start`, `column`: of rows in compressed form, whose columns ascend.
  ReadColumns(std::span<const Global> start, std::span<const Global> column);
  bool empty() const { return least_.empty(); }
  /// For the blocks of R, those of A that hold the rows that they read.
  template <Scalar T>
  void needs(const LocalMatrix<T>& R, const LocalMatrix<T>& A, Needs& needs) const {
    needs.clear();
    BlockRange at{0, 0};
    for (int b = 0; b < R.blocks(); ++b) {
      const auto first = std::size_t(R.first_row(b) / group), last = std::size_t((R.first_row(b + 1) - 1) / group);
      needs.push_back(at = blocks_of(A, least_[first], most_[last] + 1, at));
    }
  }

 private:
  static constexpr Local group = 64;
  std::vector<Local> least_, most_;  // of each group and those behind it, before it
};

/// Stages, each of which has blocks of work.
class Wavefront {
 public:
  Wavefront() = default;
  /// A first stage of so many blocks.
  explicit Wavefront(int blocks) { begin(blocks); }
  void begin(int blocks) { count_.assign(1, blocks), needs_.assign(1, nullptr); }
  /// Further ones with these needs, to which it refers.
  void add(const Needs& needs, int stages = 1) {
    count_.insert(count_.end(), std::size_t(std::max(0, stages)), int(needs.size()));
    needs_.insert(needs_.end(), std::size_t(std::max(0, stages)), &needs);
  }

  /// f(stage, block) for all of them. On one thread in an order in which stages follow each other closely. Several
  /// threads do so each in a part of the rows, and then in the seams between these; where the seams would be most of
  /// the rows, stage after stage. f has to give the same results in each order that keeps to the needs.
  template <class F>
  void run(bool parallel, F&& f);
  /// The same on this thread for the blocks range[k] of stage k, of the first range.size() stages; what these need of
  /// other blocks is not waited for. `next` is work space: the next block of each stage.
  template <class F>
  void run(std::span<const BlockRange> range, std::vector<int>& next, F&& f) const;

 private:
  static constexpr int parts_of_a_thread = 2;
  int stages() const { return int(count_.size()); }
  BlockRange& range(int part, int stage) { return ranges_[std::size_t(part * stages() + stage)]; }
  /// The parts, and of each the blocks of each stage that need none of another part. False where these are too few.
  bool divide(int parts);

  std::vector<int> count_;
  std::vector<const Needs*> needs_;
  std::vector<BlockRange> ranges_;
  std::vector<int> next_;
};

template <class F>
void Wavefront::run(std::span<const BlockRange> range, std::vector<int>& next, F&& f) const {
  next.clear();
  for (const auto& r : range) next.push_back(r.begin);
  const auto stages = range.size();
  for (std::size_t done = 0; done < stages;) {
    for (std::size_t k = done; k < stages; ++k) {
      int& b = next[k];
      const auto ready = [&] {
        return k == 0 || std::min((*needs_[k])[std::size_t(b)].end, range[k - 1].end) <= next[k - 1];
      };
      // The first stage that is not complete advances by one block, the others as far as they can.
      for (bool once = true; b < range[k].end && (k == done ? once : ready()); once = false) f(int(k), b++);
    }
    while (done < stages && next[done] >= range[done].end) ++done;
  }
}

template <class F>
void Wavefront::run(bool parallel, F&& f) {
  const int threads = parallel ? exec::threads_now() : 1;
  if (threads == 1) {
    exec::settle();
    divide(1);
    return run(ranges_, next_, f);
  }
  int parts = threads * parts_of_a_thread;
  while (parts > 1 && !divide(parts)) parts = parts > threads ? threads : 1;
  if (parts == 1) {
    for (int k = 0; k < stages(); ++k)
      exec::each(std::size_t(count_[std::size_t(k)]), true, [&](std::size_t b) { f(k, int(b)); });
    return;
  }
  exec::each(std::size_t(parts), true, [&](std::size_t i) {
    std::vector<int> next;
    run(std::span<const BlockRange>(ranges_).subspan(i * std::size_t(stages()), std::size_t(stages())), next, f);
  });
  exec::each(std::size_t(parts - 1), true, [&](std::size_t i) {
    for (int k = 0; k < stages(); ++k)
      for (int b = range(int(i), k).end; b < range(int(i) + 1, k).begin; ++b) f(k, b);
  });
}

}  // namespace tacit::op
