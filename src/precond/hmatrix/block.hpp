// A matrix in blocks for H-arithmetics: dense, of low rank, or cut into 2 x 2, 1 x 2 or 2 x 1 blocks.
//
// Updates of a block are collected in a low-rank matrix (`pending`) until the block is needed: then they are passed on
// to its children, or added and truncated to the tolerance at once. So truncations are fewer and more accurate
// (accumulators: Borm, Christophersen, Kriemann 2019, arXiv:1911.07531). Those of a block whose rank is more than a
// small part of its size are collected in a dense matrix (`sum`) instead: a truncation of its many terms costs more
// than that.
#pragma once

#include <tacit/base/types.hpp>

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace tacit::precond::detail {

/// U V^T (not conjugated), by columns.
template <Scalar F>
struct LowRank {
  Local rows = 0, columns = 0, rank = 0;
  std::vector<F> u, v;

  void clear() { rank = 0, u.clear(), v.clear(); }
  /// Adds scale * (rows [row, row + rows) of u) * (rows [column, column + columns) of v)^T, u and v of `k` columns.
  void append(const F* u_from, Local ldu, const F* v_from, Local ldv, Local k, F scale);
  /// Adds a smaller matrix, whose first element is here at (row, column), with zeros around it.
  void append_within(const LowRank& part, Local row, Local column);
};

enum class HBlockKind { dense, low, cut };

template <Scalar F>
struct HBlock {
  using Kind = HBlockKind;
  Local row = 0, rows = 0, column = 0, columns = 0;
  Kind kind = Kind::dense;
  int down = 1, across = 1;             // children, where it is cut
  std::unique_ptr<HBlock> child[2][2];  // of a Hermitian matrix none above the diagonal
  F* a = nullptr;                       // dense: rows x columns by columns, in memory of others
  std::vector<int> pivots;              // dense on the diagonal, factorised
  std::vector<F> inverse_l;  // for these: the inverses of L and U as dense matrices, so that solves are products
  std::vector<F> inverse_u;
  LowRank<F> low;
  LowRank<F> pending;
  Local pending_limit = 16;
  std::vector<F> sum;  // of low rank: dense updates, or empty

  bool is_cut() const { return kind == Kind::cut; }
  /// Child (i, j); the block itself where it is not cut.
  HBlock& at(int i, int j) { return is_cut() ? *child[i][j] : *this; }
  const HBlock& at(int i, int j) const { return is_cut() ? *child[i][j] : *this; }
  int count_down() const { return is_cut() ? down : 1; }
  int count_across() const { return is_cut() ? across : 1; }
};

/// Arithmetic with one relative tolerance (in the Frobenius norm, for each block).
template <Scalar F>
class HArithmetic {
 public:
  using Block = HBlock<F>;
  /// `hermitian`: of dense blocks on the diagonal only the lower triangle is kept up to date.
  explicit HArithmetic(double tolerance, bool hermitian = false) : tolerance_(tolerance), hermitian_(hermitian) {}

  /// A = L U in place, rows exchanged within the leaves of the diagonal. Divides its work into branches
  /// (exec::branching). The order of sums does not depend on the threads.
  void factorise(Block& a);
  /// A = L L^H in place, of a Hermitian A without blocks above the diagonal; failed() unless it is positive definite.
  void factorise_hermitian(Block& a);

  /// truncate() and compress() of truncation.hpp to the tolerance; failed() where a number is not finite.
  void truncate(LowRank<F>& b);
  LowRank<F> compress(F* a, Local rows, Local columns);

  /// The number of pivots that were too small and replaced; failed(): whether a factor is not finite.
  Global perturbed() const { return perturbed_; }
  bool failed() const { return failed_; }
  /// Ends the work of this and later calls early: a factor that it needs is not finite.
  void fail() { failed_ = true; }

  // The steps of a factorisation by cells. op(B) = B or B^H:
  /// C -= A op(B)
  template <bool Adjoint>
  void subtract_product(const Block& a, const Block& b, Block& c);
  /// C -= A A^H, of which blocks above the diagonal are left out.
  void subtract_square(const Block& a, Block& c);
  /// B := L^-1 B, B U^-1, B L^-H
  void solve_lower(const Block& l, Block& b);
  void solve_upper(const Block& u, Block& b);
  void solve_adjoint(const Block& l, Block& b);
  /// B := U^-1 B
  void solve_upper_left(const Block& u, Block& b);
  /// Adds what is pending in a block and all blocks within it.
  void finish(Block& b);
  /// Whether there is enough work for several threads in factorise(a).
  static bool divides(const Block& a) { return a.rows + a.columns >= 512; }

 private:
  void flush(Block& b);
  // Whether updates of a block of low rank are collected in a dense matrix, which this makes.
  static bool sums_densely(Block& c);
  void add(Block& c, const F* u, Local ldu, const F* v, Local ldv, Local k, F scale);
  void add_to_children(Block& c, const F* u, Local ldu, const F* v, Local ldv, Local k, F scale);
  // C += scale U V^T or, with `op` 'C', scale U V^H for a dense block.
  void add_to_dense(Block& c, const F* u, Local ldu, const F* v, Local ldv, Local k, F scale, char op) const;
  // C -= A op(B) for a dense matrix C.
  template <bool Adjoint>
  void subtract_densely(const Block& a, const Block& b, F* c, Local ldc);
  // A op(B) as a low-rank matrix, where one of them is one, or neither is.
  template <bool Adjoint>
  LowRank<F> low_product(const Block& a, const Block& b);
  template <bool Adjoint>
  LowRank<F> product(const Block& a, const Block& b);

  double tolerance_;
  bool hermitian_;
  std::atomic<Global> perturbed_ = 0;
  std::atomic<bool> failed_ = false;
};

}  // namespace tacit::precond::detail
