// Batched: the product of an H-matrix as batches of small matrix-vector products, as GPU libraries run it;
// Yamazaki et al. 2018, "Analyzing performance of BiCGStab with hierarchical matrix on GPU clusters". Every variant of
// that paper is an option of one plan.
#pragma once

#include <tacit/base/names.hpp>
#include <tacit/op/hmatrix/block_tree.hpp>

#include <array>
#include <vector>

namespace tacit::op {

/// A product of a plan has two lists: dense blocks and factors V^H first (t = V^H x), then factors U (y += U t).
enum class TaskOrder {
  none,     ///< the order of the blocks in the matrix
  rows,     ///< ascending rows (Fig. 7a)
  grouped,  ///< rows in groups of 8 (1..8, 9..16, ..), within a group ascending columns (Fig. 7b)
  columns   ///< by first column in the tree, so that x stays in cache
};

/// How a list is divided into batches.
enum class BatchCut {
  count,  ///< every `count` tasks
  ranges  ///< also at the row counts of `ranges`, so that a batch has rows of one range
};

struct BatchOptions {
  TaskOrder order = TaskOrder::grouped;
  BatchCut cut = BatchCut::ranges;
  Local count = 20000;
  /// The smallest row count of each range but the first: {8, 32} means 1..7, 8..31, and 32 or more.
  std::vector<Local> ranges{8, 32};
  /// Pad every task of a batch, in storage and product, to the batch's largest numbers of rows and columns.
  bool padded = false;
  /// Number of queues (streams) to which the batches of a list are assigned in turn; each is a thread.
  int queues = 1;
};

struct Batch {
  int list = 0;                     ///< 0: dense and V^H, 1: U
  std::size_t first = 0, last = 0;  ///< tasks, in order
  Local least_rows = 0, most_rows = 0, least_columns = 0, most_columns = 0;
  double numbers = 0;  ///< of the matrix, without padding
  double stored = 0;   ///< numbers with padding
  double seconds = 0;  ///< of the last product of one column
  /// Thread blocks of 32 rows that a kernel sized for the largest task starts, and those that have work.
  double started = 0, working = 0;
};

struct BatchReport {
  Global tasks = 0;
  double bytes = 0, padded_bytes = 0;  ///< of the matrix; as stored
  std::vector<Batch> batches;          ///< of this rank
};

/// The shape of a task and its first column.
struct BatchTask {
  Local rows, columns, begin;
};

/// The order of the tasks of one list, and its batches as ranges of that order (Batch::list is 0). Local; O(n log n).
/// Error(usage): count or queues below 1, ranges that are not ascending.
std::pair<std::vector<std::size_t>, std::vector<Batch>> plan_batches(const std::vector<BatchTask>& tasks,
                                                                     const BatchOptions& options);

}  // namespace tacit::op

namespace tacit {
template <>
inline constexpr auto names_of<op::TaskOrder> = named<op::TaskOrder>("order", {{op::TaskOrder::none, "none"},
                                                                               {op::TaskOrder::rows, "rows"},
                                                                               {op::TaskOrder::grouped, "grouped"},
                                                                               {op::TaskOrder::columns, "columns"}});
template <>
inline constexpr auto names_of<op::BatchCut> = named<op::BatchCut>("cut", {{op::BatchCut::count, "count"},
                                                                           {op::BatchCut::ranges, "ranges"}});
}  // namespace tacit
