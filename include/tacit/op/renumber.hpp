// Renumbers the rows and columns of a matrix.
#pragma once

#include <tacit/layout/partitioners.hpp>
#include <tacit/op/csr.hpp>

#include <algorithm>

namespace tacit::op {

/// Rows of P_r A P_c^T, with P_r and P_c the permutations `rows` and `columns`: entry (i, j) goes to (rows.new(i),
/// columns.new(j)) and to the rank that owns it. `a`: this rank's rows in rows.before().
/// Collective; every entry is sent once, and each new column number is requested once.
template <Scalar T>
Rows<T> renumber(const comm::Communicator& comm, const Rows<T>& a, const layout::Renumbering& rows,
                 const layout::Renumbering& columns) {
  return comm::collective(comm, [&] {
    require(std::size_t(a.count()) == rows.new_of_old().size(), "a matrix of ", a.count(), " rows on rank ",
            comm.rank(), " and a renumbering of ", rows.new_of_old().size());
    std::vector<Global> known(a.column.begin(), a.column.end());
    std::sort(known.begin(), known.end());
    known.erase(std::unique(known.begin(), known.end()), known.end());
    const auto renamed = columns.to_new(comm, known);
    std::vector<Global> row(a.column.size()), column(a.column.size());
    for (Local i = 0; i < a.count(); ++i)
      for (Global k = a.start[i]; k < a.start[i + 1]; ++k) {
        row[k] = rows.new_of_old()[i];
        column[k] = renamed[std::lower_bound(known.begin(), known.end(), a.column[k]) - known.begin()];
      }
    return assemble<T>(comm, rows.after(), columns.after().size(), row, column, a.value);
  });
}

}  // namespace tacit::op
