// The product of an H-matrix by the batches of a BatchOptions plan, on the host: each queue is a thread.
#pragma once

#include <tacit/comm/communicator.hpp>
#include <tacit/exec/memory.hpp>
#include <tacit/op/hmatrix/hmatrix.hpp>

#include <span>
#include <vector>

namespace tacit::op::detail {

template <Scalar T>
class BatchedProduct {
 public:
  /// Rows [first_row, first_row + rows), `columns` columns, and the blocks that cover them. Local.
  BatchedProduct(Local first_row, Local rows, Local columns, std::vector<BlockMatrix<T>> blocks,
                 const BatchOptions& options);

  /// As Storage::multiply. With several queues parts of y are added atomically, in an undefined order.
  void multiply(const T* x, std::span<const Global> order, T* y, int k, const comm::Communicator& comm) const;
  const BatchReport& report() const { return report_; }

 private:
  struct Task {
    Local rows, columns;  // of the matrix
    Local stored_rows, stored_columns;
    Local from, to;   // first element read, of x or t; first element written, of y or t
    bool transposed;  // V: t = V^H x by columns
    std::size_t data;
  };
  struct Source;
  void copy_blocks(const std::vector<BlockMatrix<T>>& blocks, const std::vector<Source>* sources, std::size_t numbers);
  void run(const Batch& batch, const T* x, T* y, bool atomic) const;

  Local rows_, columns_;
  std::vector<Task> tasks_[2];
  exec::Array<T> data_;
  BatchOptions options_;
  mutable BatchReport report_;
  mutable exec::Array<T> z_, sum_;  // x in the order of the tree, then t; y
  std::size_t ranks_ = 0, pad_ = 0;
};

}  // namespace tacit::op::detail
