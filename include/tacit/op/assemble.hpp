// Rows from the entries of a file.
#pragma once

#include <tacit/comm/communicator.hpp>
#include <tacit/io/matrix_file.hpp>
#include <tacit/layout/space.hpp>

namespace tacit::op {

/// As assemble() (op/csr.hpp), from the entries that each rank has read; the pieces are those of consecutive parts of
/// a file, in the order of ranks, so that duplicates are summed in the order of the file for any number of ranks. The
/// pieces are freed as their entries are taken, by all threads. Columns ascend. Collective. Memory: 4 + sizeof(T) bytes
/// for each entry of these rows, 8 for each row, and the entries that are sent or received.
template <Scalar T>
io::CompressedRows<T, Local> assemble(const comm::Communicator& comm, const layout::Partition& rows,
                                      io::EntryPieces<T>&& entries);

}  // namespace tacit::op
