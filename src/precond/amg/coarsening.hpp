// Coarsening: makes the next coarser level of an algebraic hierarchy from the entries of a matrix.
#pragma once

#include "agglomeration.hpp"
#include "aggregates.hpp"
#include "numbered.hpp"

#include <tacit/precond/amg.hpp>

#include <memory>
#include <optional>

namespace tacit::precond {

/// A level with more unknowns than this times those of the finer one is not worth its work.
constexpr double least_coarsening = 0.8;

/// The unknowns of the next level, the prolongation from them and the adjoint of the restriction to them.
template <Scalar T>
struct Coarser {
  layout::Space space;
  op::Rows<T> P;
  std::optional<op::Rows<T>> Q;  ///< R = Q^H; none: Q = P
};

/// Called for the levels in turn, from the finest.
template <Scalar T>
class Coarsening {
 public:
  virtual ~Coarsening() = default;
  /// The next level for the matrix with these rows, `roots` the roots of its diagonal, rho a bound of the eigenvalues
  /// of D^-1 A; nothing where that level would be empty or have more than least_coarsening of the unknowns. Collective.
  virtual std::optional<Coarser<T>> next(const op::Rows<T>& rows, const layout::Space& space,
                                         const ByColumn<double>& roots, double rho) = 0;
  /// Whether again() is there.
  virtual bool keeps_patterns() const { return false; }
  /// What next() has made of level `level`, counted from 0, with the numbers of a matrix of the same structure: the
  /// unknowns and the places of entries of P and Q are those of then. Collective.
  virtual Coarser<T> again(std::size_t level, const op::Rows<T>& rows, const layout::Space& space,
                           const ByColumn<double>& roots, double rho) const {
    (void)rows, (void)roots, (void)rho;
    throw Error(ErrorKind::usage, message("level ", level, " of ", space.size(), " unknowns keeps no patterns"));
  }
  /// What again() smooths on level `level`, whose rows are spread as `space`, and its omega. Collective.
  virtual Smoothing<T> smoothing(std::size_t level, const layout::Space& space) const {
    throw Error(ErrorKind::usage, message("level ", level, " of ", space.size(), " unknowns keeps no patterns"));
  }
  virtual double omega(double) const { return 0; }
  /// All unknowns of the level made last move with their rows. Collective.
  virtual void move(const Gathering& to) = 0;
};

/// Smoothed aggregation, from the near-null vectors and nodes of the options. Error(usage), on all ranks: near_null of
/// another size, or with a vector of zeros. Collective.
template <Scalar T>
std::unique_ptr<Coarsening<T>> make_aggregation(const op::Csr<T>& A, const AmgOptions<T>& options, bool hermitian);

/// Classical coarsening: independent sets in the graph of strong couplings, and interpolation from them. Collective.
template <Scalar T>
std::unique_ptr<Coarsening<T>> make_classical(const op::Csr<T>& A, const AmgOptions<T>& options);

}  // namespace tacit::precond
