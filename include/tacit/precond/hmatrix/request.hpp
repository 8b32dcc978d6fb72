// The options of H-matrix preconditioners and inner methods: one table for Python, the command line and documents.
#pragma once

#include <tacit/base/described.hpp>
#include <tacit/krylov/inner.hpp>
#include <tacit/precond/hmatrix/block_diagonal.hpp>

namespace tacit::precond {

/// The options of all of them; one that a preconditioner does not take is refused.
struct HMatrixRequest {
  bool absolute = false;
  Local size = BlockDiagonalOptions().size;
  double tolerance = HluOptions().tolerance;
  std::optional<Local> rank;
  std::optional<Local> leaf_size;
  Factors factors = Factors::automatic;
  FactorPrecision precision = FactorPrecision::automatic;
  std::string method = "bicgstab";
  std::optional<std::string> precond;
  krylov::Options solve = krylov::Inner<double>::defaults();

  /// The options of the inner method.
  krylov::Options inner() const;
  op::CoarseOptions coarse() const { return {rank.value_or(op::CoarseOptions().rank), tolerance}; }
  HluOptions hlu() const { return {tolerance, rank.value_or(0), leaf_size, precision, factors}; }
  BlockDiagonalOptions block_diagonal() const { return {size, precision}; }
};
std::span<const Option<HMatrixRequest>> hmatrix_options();
std::span<const Described> hmatrix_kinds();
/// Error(usage) at an option that the preconditioner of this name does not take.
void check(const HMatrixRequest& request, std::string_view name);

}  // namespace tacit::precond
