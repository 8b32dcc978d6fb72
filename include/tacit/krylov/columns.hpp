// solve_columns: A X = B for many right-hand sides.
#pragma once

#include <tacit/krylov/null_space.hpp>
#include <tacit/krylov/options.hpp>
#include <tacit/krylov/report.hpp>
#include <tacit/layout/vector.hpp>
#include <tacit/op/operator.hpp>

#include <string>
#include <vector>

namespace tacit::krylov {

/// At most so many columns are solved at a time: the block kernels gain little beyond, and each needs the vectors of
/// its method.
inline constexpr int most_columns_together = 8;

/// At most so many columns share a search space, in Method::block_cg; further ones begin when a search has ended.
inline constexpr int most_columns_of_a_block = 64;

/// The same for Method::block_gmres, which keeps `restart` vectors of each column.
inline constexpr int most_columns_of_a_cycle = 16;

struct ColumnReports {
  /// As of solve(), in the order of the columns of B. Their counts hold applies only, because messages and reductions
  /// serve many columns; their seconds run until the column's end, with other columns solved meanwhile.
  std::vector<Report> columns;
  Report::Counts counts;       ///< of all columns; an apply to several columns is one for each
  double seconds = 0;          ///< of all columns, longest over ranks; without explain_seconds
  double explain_seconds = 0;  ///< in which a column's failure was looked into; others may have been solved meanwhile
  int together = 1;            ///< how many columns were advanced together, at most
  std::string alone;           ///< where together = 1: why, one sentence
};

/// Solves A X = B for B with k columns. X holds the initial guesses on entry.
///
/// Every column is a solve of its own, as by solve(): with its own scaling, judge (a recomputed residual), fallbacks
/// and reason, and any method of Options. The columns advance in lockstep, up to most_columns_together at a time: when
/// all wait for a product (with A, or P), one product with a block of so many columns is made, and when all wait for a
/// reduction, one all-reduce of all their scalars. A column that has ended leaves, and the next one takes its place. A
/// column that is out of step (after a restart, say) waits for the others to come to the same operation.
/// Pseudo-block methods: Belos (Bavier, Hoemmen, Rajamanickam, Thornquist 2012, doi 10.3233/SPR-2012-0352).
///
/// Method::block_cg is another: there the columns share one search space, so that all of them need fewer iterations
/// than any would alone; each step is made when all columns have come to it. Scaling, judge, fallbacks and reasons are
/// those of each column. A column whose recomputed residual is not at its goal yet goes on in another search when this
/// one has ended. Columns that depend on others (equal right-hand sides) take no part of the space.
///
/// So is Method::block_gmres, for any square A. There a search is a cycle of `restart` steps: columns that wait begin
/// with the next one. A step multiplies A by those directions only that some column needs for its goal.
///
/// Columns are solved one after another (`alone` tells) with engine "tasks", with powers "kernel", and with richardson
/// where A has a kernel for several steps (Operator::sweeps), which read the matrix once for several products of one
/// column. So they are, but in block_cg and block_gmres, on one rank where neither A nor P reads eight times as much as
/// a vector, as with matrices of few entries a row: there a block saves nothing, and the vectors of one column stay in
/// the caches.
/// Method::automatic takes no s-step or pipelined variant here, because it would have to measure products.
///
/// The same on any number of ranks as solve(): columns end at the same iterations as alone, but for rounding errors of
/// products with several columns. The callback is given the column; true ends that column only.
///
/// null_space: as of solve(), for all columns.
///
/// Collective. Memory: for each of the columns that are solved at a time, that of solve() and 2 vectors. Moves: a block
/// product reads A once and copies its columns to and from interleaved vectors (4 vectors of traffic a column).
/// Error(usage): as of solve(). An exception of an operator or callback ends all columns.
template <Scalar T>
ColumnReports solve_columns(const op::Operator<T, Host>& A, const op::Operator<T, Host>* P,
                            const layout::Vector<T, Host>& B, layout::Vector<T, Host>& X, const Options& options,
                            bool hermitian = false, const NullSpace<T, Host>* null_space = nullptr);

}  // namespace tacit::krylov
