// What an HMatrix is made of.
#pragma once

#include <tacit/op/hmatrix/hmatrix.hpp>

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
  std::vector<T> diagonal;    // of the own rows
  std::vector<char> touched;  // columns that the own blocks read, by position

  // Distributed: ghosts of `row_pattern` are the own rows that other ranks own in the space, those of `column_pattern`
  // the columns touched. Replicated: everybody's rows, and (for the adjoint) a share of the columns each.
  std::shared_ptr<const comm::Pattern> row_pattern, column_pattern;
  std::map<int, std::unique_ptr<comm::Exchange>> row_exchange, column_exchange;
  std::vector<Local> row_at, column_at;          // positions of the ghosts (rows: from `first`), distributed
  std::vector<std::pair<Local, Local>> own_row;  // (element of this rank, position from `first`)
  std::vector<Local> own_column;                 // positions of this rank's elements
  std::vector<Global> column_cuts;               // replicated
  std::vector<T> whole, part;                    // scratch: all of x; own rows, or all columns
  std::map<int, std::vector<T>> share;           // replicated adjoint: own columns, by exchange
};

}  // namespace tacit::op
