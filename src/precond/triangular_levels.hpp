// TriangularLevels: factors in the order of their levels, as kernels/triangular.hpp reads them, in host memory.
#pragma once

#include <tacit/exec/memory.hpp>
#include <tacit/precond/triangular_factors.hpp>

#include <vector>

namespace tacit::precond {

/// The threads that share a row where rows are long.
inline constexpr int lanes_of_long_rows = 8;

/// The arrays of LevelSolve, with its names. Positions [0, rows) are of L, [rows, 2 rows) of U.
template <Scalar T>
struct TriangularLevels {
  /// Error(usage): 2^30 rows or more.
  explicit TriangularLevels(const TriangularFactors<T>& factors);
  Local levels() const { return Local(level_row.size()) - 1; }

  Local rows;
  int lanes;  ///< 1 or lanes_of_long_rows
  Local scaled_begin = 0, scaled_end = 0;
  std::vector<Local> level_row{0}, level_slice{0};
  std::vector<Global> slice_begin{0};
  exec::Buffer<Local> column;
  exec::Buffer<T> value;
  std::vector<T> inverse;
  std::vector<Local> from;
  std::vector<Local> row;    ///< of x, for each position of L
  std::vector<Local> place;  ///< the position in U of each element of y
  std::vector<int> before;   ///< the exponent of each position of L; empty: zeros
  std::vector<int> after;    ///< the exponent of each element of y; empty: zeros

 private:
  struct Order;
  Order add_levels(const op::LocalRows<T>& strict, bool is_upper);
  void fill(const op::LocalRows<T>& strict, const Order& order);
};

}  // namespace tacit::precond
