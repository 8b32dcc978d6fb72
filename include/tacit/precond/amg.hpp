// Amg: algebraic multigrid, by smoothed aggregation or classical, from the entries of a matrix alone.
#pragma once

#include <tacit/op/csr.hpp>
#include <tacit/op/noted.hpp>
#include <tacit/precond/bottom.hpp>
#include <tacit/precond/cycle.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tacit::precond {

enum class AmgSmoother {
  spai0,         ///< u += M r, M the diagonal that minimises ||I - M A||_F, at most 1.8 / rho D^-1
  jacobi,        ///< u += omega D^-1 r, omega = 4/3 / rho(D^-1 A)
  l1_jacobi,     ///< u += D_1^-1 r, D_1 the sums of the rows' magnitudes
  gauss_seidel,  ///< forward before, backward after the coarser level; Jacobi's coupling between ranks, with half the
                 ///< sums of these couplings added to the diagonal where they exceed it
  chebyshev      ///< a polynomial of degree `sweeps` in D^-1 A, small on [rho / 4, 1.1 rho]
};
enum class AmgCoarsening {
  aggregation,  ///< smoothed aggregation
  pmis,         ///< classical, by a parallel modified independent set
  hmis          ///< classical, by the first pass of Ruge and Stueben on each rank, pmis between ranks
};
enum class AmgInterpolation {
  extended_i,  ///< extended+i: from coarse points along two strong couplings
  multipass,   ///< direct, then in passes from points that have it
  direct       ///< from coarse points along one strong coupling
};
using tacit::to_string;

/// The options that do not depend on the scalars.
struct AmgShape {
  AmgSmoother smoother = AmgSmoother::spai0;
  Cycle cycle = Cycle::v;  ///< v, w, f, k or mult_additive
  int sweeps = 1;          ///< before and after the coarser level
  AmgCoarsening coarsening = AmgCoarsening::aggregation;
  /// Aggregation: i and j are coupled strongly where |a_ij| > strength sqrt(|a_ii a_jj|), half of it on each coarser
  /// level; 0.04 where it is not given. Classical: i depends on j where -a_ij >= strength max_k -a_ik, signs being
  /// those relative to a_ii; 0.25.
  std::optional<double> strength;
  /// Of classical coarsening; extended_i where it is not given. On aggressive levels always multipass.
  std::optional<AmgInterpolation> interpolation;
  /// Classical: rows of P keep so many of their largest entries, 0 all of them; 4 where it is not given.
  std::optional<int> p_max;
  /// Classical: the first so many levels keep the coarse points that form an independent set along two couplings.
  int aggressive = 0;
  /// Levels of at most so many unknowns are left to the bottom solver; at most 2048 where that is automatic.
  Global coarsest = 400;
  /// Solver of the last level. automatic: direct up to 2048 unknowns (direct_bottom()), else 20 sweeps; 8 sweeps where
  /// in all rows the diagonal is at least four times the sum of the others, and they are clearly cheaper. "smoother":
  /// 20 sweeps. One that iterates makes the cycle vary: cg is then flexible, and other methods need be (fgmres). For
  /// singular A the right-hand side must be in the range of A.
  BottomOptions bottom;
  /// Levels with fewer unknowns for each rank move to fewer ranks; 0: none moves. Not given: to as many ranks as are
  /// predicted to take the least time, by a fixed cost model, of levels with fewer than 4096 unknowns for each rank.
  std::optional<Global> agglomerate_below;
  int max_levels = 25;
  /// Coarsening ends before the entries of all levels exceed this times those of A; 3 where it is not given, 5 of
  /// classical coarsening.
  std::optional<double> max_complexity;
  /// Unknowns in a node: aggregates are made of whole nodes.
  int block = 1;
  /// The levels are stored and smoothed in single precision: half the memory traffic of a cycle, one reduction more.
  bool single_levels = false;
};

template <Scalar T>
struct AmgOptions : AmgShape {
  /// Near-null vectors of A, this rank's rows, by rows: near_null.size() = rows x vectors. Empty: for each of the
  /// `block` unknowns of a node the vector that is constant there.
  std::vector<T> near_null;
};

template <Scalar T>
class MatrixLevels;
template <Scalar T, Memory M>
class AmgOnDevice;

struct AmgLevel {
  Global rows = 0, entries = 0;
  Global prolongation_entries = 0;  ///< towards this level from the next one; 0 on the last
  int ranks = 0;                    ///< that have rows
  double setup_seconds = 0;         ///< of the clock, of this rank: until the next level was there
};

/// What cycles have done on one level so far, on this rank: smoothing, residual, transfers to and from the
/// next level; on the last one the bottom solver.
struct AmgWork {
  int visits = 0;  ///< on the way down, or solves of the last level
  double seconds = 0;
  std::int64_t reductions = 0, exchanges = 0, messages = 0, bytes = 0;
  AmgWork operator-(const AmgWork& before) const;
};

/// x -> one cycle for A u = x from u = 0.
///
/// Aggregation: nodes with strong couplings are joined (greedily, in their order; not across ranks), T has the
/// near-null vectors, orthonormal on each aggregate, as its columns, P = (I - 4/3 / rho D^-1 A) T with weak couplings
/// added to the diagonal, and R = P^H (R = T^H (I - 4/3 / rho A D^-1) where A is not Hermitian). Classical: an
/// independent set of unknowns in the graph of strong couplings is the next level, the others are interpolated from it,
/// R = P^H. The next matrix is R A P. The last level is solved by AmgShape::bottom, directly unless said otherwise.
/// Levels may move to fewer ranks (agglomerate_below): those of the r-th rank with rows to rank r / 2^k; then
/// aggregates of the next level join those of several ranks.
///
/// With a Hermitian positive definite A, any of the smoothers and a bottom that does not iterate, V, W and
/// mult-additive cycles are Hermitian positive definite. For Hermitian A, spai0, l1-jacobi and the couplings between
/// ranks are those of |D|^-1/2 A |D|^-1/2, so that the units of the unknowns do not matter.
///
/// Set-up: collective; about 10 products for rho, two sparse products a level, more where A is not Hermitian and for
/// mult-additive cycles. Apply: for a V-cycle 2 sweeps + 1 products with each level's matrix less one, one with P and R
/// each. Memory: all levels, in total about 1.2 to 1.6 matrices on meshes (classical: up to 3). The same bits for any
/// number of threads. Any number of columns.
///
/// Source: Vanek, Mandel, Brezina (1996), doi 10.1007/BF02238511; spai0: Broeker, Grote (2002), doi
/// 10.1016/S0168-9274(01)00110-6; pmis, hmis: De Sterck, Yang, Heys (2006), doi 10.1137/040615729; extended_i: De
/// Sterck, Falgout, Nolting, Yang (2008), doi 10.1002/nla.544; multipass, direct: Stueben (2001), doi
/// 10.1016/S0377-0427(00)00516-1; gauss_seidel on ranks: Baker, Falgout, Kolev, Yang (2011), doi 10.1137/100798806;
/// cycles: cycle.hpp.
template <Scalar T>
class Amg final : public op::Operator<T, Host>, public op::Noted, public op::Varying {
 public:
  /// Error(usage): a matrix that is not square, options out of range or of another coarsening, near_null of another
  /// size, with values that are not finite or a vector of zeros.
  explicit Amg(const op::Csr<T>& A, const AmgOptions<T>& options = {});
  ~Amg() override;
  /// Takes the values that A has now, after A.update_values(). Aggregates, the entries of A that the smoothing of P
  /// leaves out, and so the places of all entries of P, R and the coarser matrices stay; rho, smoothers, the numbers of
  /// P, R and the coarser matrices, and the inverse of the last are made anew. They are those of a new Amg, real ones
  /// to the bit, where that would find the same strong couplings, but for the signs of zeros. Made anew are levels of
  /// an A that is Hermitian and was not, or the other way round, or that has over a tenth more entries that are not
  /// zero (to rounding, beside the largest of their row) than when its levels were made, and classical ones; returns
  /// whether levels were kept. Until it is called, the finest level has the new values and the coarser ones the old.
  /// Cost: the first update finds the places that later ones use, and takes longer than set-up; later ones take about a
  /// third (mult-additive cycles, and with 2^31 entries of A, P and R on a rank: four fifths, each time). Memory:
  /// update_bytes(). Collective; the messages of set-up, later one exchange for each product. Error(input): values that
  /// are not finite. Errors of the constructor where all is made anew: any use then throws, until an update succeeds.
  bool update();
  std::string name() const override { return "amg"; }
  op::Cost cost() const override;
  bool has_adjoint() const override { return hermitian_ && options_.cycle != Cycle::f && !varies(); }
  /// With a K-cycle of three levels or more, and where the bottom solver iterates.
  bool varies() const override;

  std::vector<AmgLevel> levels() const;
  std::int64_t cycles() const { return cycles_; }  ///< so far
  std::vector<AmgWork> work() const;
  /// What the bottom solver has done since the last call of take_bottom(), and why levels moved to fewer ranks. Local.
  BottomReport bottom() const;
  BottomReport take_bottom() const;
  /// The entries of all levels over those of A; the same of rows.
  double operator_complexity() const;
  double grid_complexity() const;
  /// Bytes over all ranks that the first update has kept for later ones, 0 before it; after it what the matrices, P and
  /// R of all levels take.
  double update_bytes() const;
  double matrix_bytes() const;
  /// P of this level, whose range it is, and the matrix of the level, not of single levels; of mult-additive cycles (I
  /// - M A) P. For tests.
  const op::Csr<T>& prolongation(int level) const;
  const op::Csr<T>& matrix(int level) const;

 protected:
  int begin(const layout::Vector<T>&, layout::Vector<T>&, bool) const override { return 0; }
  void finish(const layout::Vector<T>& x, layout::Vector<T>& y, bool adjoint, int token) const override;

 private:
  template <Scalar, Memory>
  friend class AmgOnDevice;
  struct Parts;
  const MatrixLevels<T>& in_own_precision() const;
  void require_values() const;
  void describe();
  const op::Csr<T>* A_;
  AmgOptions<T> options_;
  bool hermitian_ = false;
  mutable std::int64_t cycles_ = 0;
  std::unique_ptr<Parts> parts_;
};

}  // namespace tacit::precond

template <>
inline constexpr auto tacit::names_of<tacit::precond::AmgCoarsening> = tacit::named<tacit::precond::AmgCoarsening>(
    "coarsening", {{tacit::precond::AmgCoarsening::aggregation, "aggregation"},
                   {tacit::precond::AmgCoarsening::pmis, "pmis"},
                   {tacit::precond::AmgCoarsening::hmis, "hmis"}});
template <>
inline constexpr auto tacit::names_of<tacit::precond::AmgInterpolation> =
    tacit::named<tacit::precond::AmgInterpolation>("interpolation",
                                                   {{tacit::precond::AmgInterpolation::extended_i, "extended+i"},
                                                    {tacit::precond::AmgInterpolation::multipass, "multipass"},
                                                    {tacit::precond::AmgInterpolation::direct, "direct"}});
template <>
inline constexpr auto tacit::names_of<tacit::precond::AmgSmoother> =
    tacit::named<tacit::precond::AmgSmoother>("smoother", {{tacit::precond::AmgSmoother::spai0, "spai0"},
                                                           {tacit::precond::AmgSmoother::jacobi, "jacobi"},
                                                           {tacit::precond::AmgSmoother::l1_jacobi, "l1-jacobi"},
                                                           {tacit::precond::AmgSmoother::gauss_seidel, "gauss-seidel"},
                                                           {tacit::precond::AmgSmoother::chebyshev, "chebyshev"}});
