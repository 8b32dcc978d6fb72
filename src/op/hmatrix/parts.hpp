// The data members of an HMatrix.
#pragma once

#include <tacit/op/hmatrix/hmatrix.hpp>

#include "batched.hpp"
#include "nested.hpp"
#include "storage.hpp"

#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace tacit::op {

template <Scalar T>
struct HMatrix<T>::Parts {
  std::shared_ptr<const ClusterTree> rows, columns;  // the trees
  std::vector<Global> cuts;
  Local first = 0, count = 0;  // own rows, positions in the row tree's order
  std::unique_ptr<detail::Storage<T>> storage;
  std::unique_ptr<detail::NestedField<T>> nested;  // the far field, where bases are nested: `storage` has the rest
  std::unique_ptr<detail::BatchedProduct<T>> batched;
  std::vector<T> diagonal;    // of the own rows
  std::vector<char> touched;  // columns that the own blocks read, by position

  std::unique_ptr<OwnRows<T>> own_rows;
  // Ghosts of `column_pattern`: for distributed vectors the columns that own blocks touch; for replicated ones (when y
  // is added over ranks) all columns but the rank's share.
  std::shared_ptr<const comm::Pattern> column_pattern;
  std::map<int, std::unique_ptr<comm::Exchange>> column_exchange;
  std::vector<Local> column_at;         // positions of the ghosts, distributed
  std::vector<Local> own_column;        // positions of this rank's elements
  std::vector<Global> column_cuts;      // replicated: the ranks' shares of the columns
  std::vector<T> whole, part;           // scratch: all of x; own rows, or all columns
  std::map<int, std::vector<T>> share;  // replicated sums: own columns, by exchange
};

}  // namespace tacit::op
