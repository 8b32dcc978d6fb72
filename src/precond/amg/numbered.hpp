// Rows of a matrix with local numbers of columns, for what is done again and again with the same places of entries.
#pragma once

#include <tacit/op/csr.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace tacit::precond {

/// A rank's rows; columns have the numbers that Halo gives: own ones first, then those of other ranks, ascending.
template <Scalar T>
struct NumberedRows {
  std::span<const Global> start;
  std::span<const Local> column;
  std::span<const T> value;
  Local count() const { return Local(start.size()) - 1; }
};

/// The column of rows whose number is 0 in NumberedRows.
template <Scalar T>
Global first_column(const op::Rows<T>&, const layout::Space& space) {
  return space.begin();
}
template <Scalar T>
Global first_column(const NumberedRows<T>&, const layout::Space&) {
  return 0;
}

/// What smoothed aggregation knows of a level: P = S T with S = I - omega D^-1 A_F (DampedIdentity).
template <Scalar T>
struct Smoothing {
  const std::vector<std::uint8_t>* filter;  ///< what becomes of A's entries; empty: all are in A_F
  std::vector<T> lumping;                   ///< v of DampedIdentity, this rank's part; empty: v = 1
  op::Rows<T> tentative;                    ///< T
};

}  // namespace tacit::precond
