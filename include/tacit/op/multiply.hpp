// multiply: products and adjoints of sparse matrices that are distributed by rows.
#pragma once

#include <tacit/op/csr.hpp>

namespace tacit::op {

/// The rows of C = A B: A's columns and B's rows are indices of `inner`, B's columns of `columns`. Entries that cancel
/// stay, as zeros; each is summed in the order of A's columns, so results do not depend on the number of threads.
/// Collective: one message each way between neighbours, for the rows of B in A's columns of other ranks. Memory: those
/// rows, B's columns once more, and two numbers for each column of B on this rank and thread. Error(usage), on all
/// ranks: rows of B that are not those of `inner`, columns out of range.
/// Source: Gustavson (1978), doi 10.1145/355791.355796.
template <Scalar T>
Rows<T> multiply(const Rows<T>& A, const Space& inner, const Rows<T>& B, const Space& columns);

/// The rows of A^H, for the rows of A in `rows` with columns in `columns`. Collective; entries in columns of other
/// ranks are sent once. Error(usage), on all ranks: rows that are not those of `rows`, columns out of range, rows
/// replicated where columns are not.
template <Scalar T>
Rows<T> adjoint(const Rows<T>& A, const Space& rows, const Space& columns);

}  // namespace tacit::op
