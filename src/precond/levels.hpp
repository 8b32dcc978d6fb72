// Levels: the levels of a multigrid method, geometric or algebraic, and the cycles that visit them.
#pragma once

#include <tacit/layout/vector.hpp>
#include <tacit/op/operator.hpp>
#include <tacit/precond/cycle.hpp>

#include <cstddef>
#include <memory>
#include <vector>

namespace tacit::precond {

/// Levels 0, the finest, to count() - 1. Each has a matrix A_i, a right-hand side f_i and an approximation u_i of
/// A_i^-1 f_i. How levels are made and stored, and how they are smoothed, is what derived classes say. All members are
/// collective.
template <Scalar S, Memory M = Host>
class Levels {
 public:
  virtual ~Levels() = default;
  virtual std::size_t count() const = 0;
  /// One cycle for A_0 u_0 = f_0, from u_0 = 0 or from u_0 as it is. Of Cycle::u a V-cycle: its levels are fewer.
  /// `norm`: passed to the last up(0).
  void cycle(Cycle kind, bool from_zero, bool norm = false);

 protected:
  using Vector = layout::Vector<S, M>;
  /// Smooths u_i, from 0 or as it is; f_{i+1} := R (f_i - A_i u_i).
  virtual void down(std::size_t i, bool from_zero) = 0;
  /// u_i += P u_{i+1}; smooths u_i. `norm`: also forms the norm of f_i - A_i u_i, where there is one to be asked for.
  virtual void up(std::size_t i, bool norm) = 0;
  /// Solves for u of the last level, from 0; as the only level from u as it is unless from_zero.
  virtual void solve_last(bool from_zero, bool norm) = 0;
  /// f_{i+1} := R f_i, and u_i := P u_{i+1} (an interpolation of solutions): for full multigrid.
  virtual void restrict_f(std::size_t i) = 0;
  virtual void interpolate_u(std::size_t i) = 0;

  /// u_i := what sweeps before and after the coarser level make of f_i alone, begun by one and ended by the other; and
  /// u_i += P u_{i+1}. For mult-additive cycles, whose P and R hold the rest.
  virtual void start_alone(std::size_t) {}
  virtual void finish_alone(std::size_t) {}
  virtual void correct(std::size_t) {}

  // For the K-cycle: A_i, whether it is Hermitian, and f_i and u_i in the order of its spaces.
  virtual const op::Operator<S, M>& matrix(std::size_t i) const = 0;
  virtual bool is_hermitian() const = 0;
  virtual int columns() const { return 1; }
  virtual void store_f(std::size_t i, Vector& f) const = 0;
  virtual void load_f(std::size_t i, const Vector& f) = 0;
  virtual void store_u(std::size_t i, Vector& u) const = 0;
  virtual void load_u(std::size_t i, const Vector& u) = 0;

 private:
  struct Search {
    Vector r, c, v, d, w;
    Search(const layout::Space& space, int columns)
        : r(space, columns), c(space, columns), v(space, columns), d(space, columns), w(space, columns) {}
  };
  void go(std::size_t i, bool from_zero, bool norm, Cycle kind);
  void accelerate(std::size_t i);
  void additive();
  std::vector<std::unique_ptr<Search>> searches_;  // of the K-cycle's levels
};

}  // namespace tacit::precond
