// multiply: products and adjoints of sparse matrices that are distributed by rows.
#pragma once

#include <tacit/op/csr.hpp>

#include <functional>
#include <span>

namespace tacit::op {

/// The rows of C = A B: A's columns and B's rows are indices of `inner`, B's columns of `columns`. Entries that cancel
/// stay, as zeros; each is summed in the order of A's columns, so results do not depend on the number of threads.
/// Collective: one message each way between neighbours, for the rows of B in A's columns of other ranks. Memory: those
/// rows, B's columns once more, and two numbers for each column of B on this rank and thread. Error(usage), on all
/// ranks: rows of B that are not those of `inner`, columns out of range.
/// Source: Gustavson (1978), doi 10.1145/355791.355796.
template <Scalar T>
Rows<T> multiply(const Rows<T>& A, const Space& inner, const Rows<T>& B, const Space& columns);

/// Appends the rows [first, last) of a matrix to `rows`, which have none. Called by several threads, for a few thousand
/// rows at a time.
template <Scalar T>
using RowMaker = std::function<void(Local first, Local last, Rows<T>& rows)>;
/// The same for a left factor of `count` rows that are made when they are needed, and not stored. `needed`: the columns
/// outside of this rank's part of `inner` in which they have entries, and perhaps others, ascending.
template <Scalar T>
Rows<T> multiply(Local count, const RowMaker<T>& A, std::span<const Global> needed, const Space& inner,
                 const Rows<T>& B, const Space& columns);

template <Scalar T>
struct TripleProduct {
  Rows<T> R;  ///< Q^H
  Rows<T> C;  ///< Q^H A P
};
/// R = Q^H and C = R A P, without A P: its rows are made as rows of R need them, and of those a few megabytes are kept.
/// `inner`: the rows of Q, A and P, and the columns of A; `columns`: those of Q and P, and the rows of R and C. Entries
/// that cancel stay, as zeros. C has the bits of two products with multiply(), on any number of ranks and threads.
/// Collective: one message each way between neighbours, as for one product: requests, which also name the ranks that
/// will have a row of A from the asking one, and rows of Q, A and P. Memory: those rows, R and C, the columns of P once
/// more, two numbers for each column of P and one for each row of A on this rank and thread. Error(usage), on all
/// ranks: rows that are not those of `inner`, columns out of range, replicated spaces.
template <Scalar T>
TripleProduct<T> triple_product(const Rows<T>& Q, const Rows<T>& A, const Rows<T>& P, const Space& inner,
                                const Space& columns);

/// The rows of A^H, for the rows of A in `rows` with columns in `columns`. Collective; entries in columns of other
/// ranks are sent once. Error(usage), on all ranks: rows that are not those of `rows`, columns out of range, rows
/// replicated where columns are not.
template <Scalar T>
Rows<T> adjoint(const Rows<T>& A, const Space& rows, const Space& columns);

}  // namespace tacit::op
