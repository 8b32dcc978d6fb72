// Batched: the product of an H-matrix as batches of small matrix-vector products, the way GPU libraries run it;
// Yamazaki et al. 2018, "Analyzing performance of BiCGStab with hierarchical matrix on GPU clusters". Every variant of
// that paper is an option of one plan.
#pragma once

#include <tacit/op/hmatrix/block_tree.hpp>

#include <array>
#include <vector>

namespace tacit::op {

/// A product of a plan has two lists: dense blocks and factors V^H first (t = V^H x), then factors U (y += U t).
enum class TaskOrder {
  none,     ///< as the blocks stand in the matrix
  rows,     ///< ascending rows (Fig. 7a)
  grouped,  ///< rows in groups of 8 (1..8, 9..16, ..), within a group ascending columns (Fig. 7b)
  columns   ///< where the columns begin in the tree: x stays in cache
};

/// Where a list is cut into batches.
enum class BatchCut {
  count,  ///< every `count` tasks
  ranges  ///< at row counts too (`ranges`), so that a batch has rows of one range
};

struct BatchOptions {
  TaskOrder order = TaskOrder::grouped;
  BatchCut cut = BatchCut::ranges;
  Local count = 20000;
  /// Least rows of each range but the first: {8, 32} cuts 1..7, 8..31 and 32 on; {8, 32, 64, 96, ..} is finer.
  std::vector<Local> ranges{8, 32};
  /// Every task of a batch is stored, and multiplied, as large as the largest of its rows and of its columns.
  bool padded = false;
  /// Batches of a list go round over so many queues, each a thread that works on one batch at a time (streams).
  int queues = 1;
};

struct Batch {
  int list = 0;                     ///< 0: dense and V^H, 1: U
  std::size_t first = 0, last = 0;  ///< tasks, in order
  Local least_rows = 0, most_rows = 0, least_columns = 0, most_columns = 0;
  double numbers = 0;  ///< of the matrix
  double stored = 0;   ///< with padding
  double seconds = 0;  ///< of the last product of one column
  /// Thread blocks of 32 rows that a kernel over the largest task starts, and those of them that have work.
  double started = 0, working = 0;
};

struct BatchReport {
  Global tasks = 0;
  double bytes = 0, padded_bytes = 0;  ///< of the matrix; of what is stored
  std::vector<Batch> batches;          ///< of this rank
};

/// A task's shape and where its columns begin.
struct BatchTask {
  Local rows, columns, begin;
};

/// The order of the tasks of one list, and its batches by position in that order (list is 0). Local; O(n log n).
/// Error(usage): count or queues below 1, ranges that do not rise.
std::pair<std::vector<std::size_t>, std::vector<Batch>> plan_batches(const std::vector<BatchTask>& tasks,
                                                                     const BatchOptions& options);

}  // namespace tacit::op
