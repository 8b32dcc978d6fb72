// Rows of a matrix with local numbers of columns, for what is done again and again with the same places of entries.
#pragma once

#include <tacit/exec/parallel.hpp>
#include <tacit/op/csr.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
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

/// sqrt |a_ii| of each row, 0 where there is no such entry; `bound` := max_i sum_j |a_ij| / |a_ii| of these rows, which
/// bounds the eigenvalues of D^-1 A. `first`: the column of row 0's diagonal. Local; threads share the rows.
template <class Matrix>
std::vector<double> roots_of_rows(const Matrix& rows, Global first, double& bound) {
  constexpr std::size_t piece = 4096;
  std::vector<double> roots(std::size_t(rows.count()), 0), most((roots.size() + piece - 1) / piece, 0);
  exec::parallel_for(most.size(), most.size() > 1, [&](std::size_t p) {
    for (std::size_t i = p * piece; i < std::min(roots.size(), (p + 1) * piece); ++i) {
      double sum = 0, own = 0;
      for (auto k = std::size_t(rows.start[i]); k < std::size_t(rows.start[i + 1]); ++k) {
        const double a = double(std::abs(rows.value[k]));
        sum += a;
        if (Global(rows.column[k]) == first + Global(i)) own = a;
      }
      roots[i] = std::sqrt(own);
      if (own > 0) most[p] = std::max(most[p], sum / own);
    }
  });
  bound = 0;
  for (const double m : most) bound = std::max(bound, m);
  return roots;
}

/// What smoothed aggregation knows of a level: P = S T with S = I - omega D^-1 A_F (DampedIdentity).
template <Scalar T>
struct Smoothing {
  const std::vector<std::uint8_t>* filter;  ///< what becomes of A's entries; empty: all are in A_F
  std::vector<T> lumping;                   ///< v of DampedIdentity, this rank's part; empty: v = 1
  op::Rows<T> tentative;                    ///< T
};

}  // namespace tacit::precond
