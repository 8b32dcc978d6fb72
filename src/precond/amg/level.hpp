// A level of an algebraic hierarchy: its matrix, transfers and smoother.
#pragma once

#include "agglomeration.hpp"
#include "aggregates.hpp"
#include "numbered.hpp"

#include <tacit/base/trace.hpp>
#include <tacit/precond/amg.hpp>
#include "op/wavefront.hpp"

#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace tacit::precond {

/// Chebyshev's polynomial in D^-1 A on [rho / 4, 1.1 rho]: a step is z := keep z + step D^-1 r, u := u + z, from z = 0.
/// Saad (2003), algorithm 12.1.
class ChebyshevSteps {
 public:
  explicit ChebyshevSteps(double rho) : middle_((1.1 * rho + rho / 4) / 2), half_((1.1 * rho - rho / 4) / 2) {}
  struct Step {
    double keep, step;
  };
  Step next() {
    const double before = std::exchange(last_, last_ == 0 ? half_ / middle_ : 1 / (2 * middle_ / half_ - last_));
    return before == 0 ? Step{0, 1 / middle_} : Step{last_ * before, 2 * last_ / half_};
  }

 private:
  double middle_, half_, last_ = 0;
};

template <Scalar T>
class MatrixLevel {
 public:
  /// A that the caller keeps, or a coarser level's own.
  explicit MatrixLevel(const op::Csr<T>& A) : A_(&A) {}
  explicit MatrixLevel(std::unique_ptr<op::Csr<T>> A) : own_(std::move(A)), A_(own_.get()) {}

  const op::Csr<T>& A() const { return *A_; }
  /// New values of a coarser level's matrix. Collective.
  void update_values(std::span<const T> values) { own_->update_values(values); }
  std::unique_ptr<op::Csr<T>> P, R;  ///< from and to the next level
  /// Where the next level has moved to fewer ranks: from the ranks that R goes to.
  std::optional<Gathering> gathering;
  std::unique_ptr<op::Csr<T>> mover;
  std::unique_ptr<layout::Vector<T>> u, f, r;  ///< solution, right-hand side, and one for products

  /// rho: a bound of the eigenvalues of D^-1 A. `rows`: A's. Local.
  void make_smoother(AmgSmoother how, const op::Rows<T>& rows, const ByColumn<double>& roots, bool hermitian,
                     double rho);
  /// The same; `roots` of all columns, in the order of their numbers.
  void make_smoother(AmgSmoother how, const NumberedRows<T>& rows, const std::vector<double>& roots, bool hermitian,
                     double rho);
  /// u, f and r of so many columns. Local.
  void make_vectors(int columns);
  /// Notes what rows of f the rows of R read, for wavefronts. `R`: its rows, on one rank. Local.
  void set_reads(const op::Rows<T>& R) { reads_ = op::ReadColumns(R.start, {R.column.data(), R.column.size()}); }
  /// Smooths u, from 0 or as it is; coarse := R (f - A u), the next level's f. On one rank, for one column and
  /// smoothers other than gauss_seidel, all in one pass over A and R. u and r may change places. Collective.
  void down(int sweeps, bool from_zero, layout::Vector<T>& coarse);
  /// The right-hand side that down() and up() are to read instead of f, and where the last sweep of up() is to put u;
  /// null: f and u. For wavefronts. Local.
  void borrow(const T* rhs, T* result) { rhs_ = rhs, result_ = result; }
  /// Whether down() and up() are wavefronts. Local.
  bool has_waves() const { return f->columns() == 1 && waves_for_a_column(); }
  /// Whether they are for one column. Local.
  bool waves_for_a_column() const;
  /// u += P coarse, the next level's u; smooths u. One pass likewise. Collective.
  void up(int sweeps, const layout::Vector<T>& coarse);
  /// u += P coarse. Collective.
  void correct(const layout::Vector<T>& coarse);
  /// u := u + S (f - A u), `sweeps` times, with the smoother's S; `back`: with its adjoint. From u = 0 without the
  /// first product. Collective: A's exchange for each product.
  void smooth(int sweeps, bool from_zero, bool back);
  /// u := (2 M - M A M) f with a diagonal smoother M, a sweep and its adjoint from 0: begun, with a product in flight,
  /// and ended. Collective.
  void start_alone();
  void finish_alone();
  /// f := R r, of the next level. Collective: an exchange of R, and one of the mover's.
  void restrict_to(const layout::Vector<T>& r, layout::Vector<T>& f);
  AmgSmoother smoother() const { return how_; }
  const std::vector<T>& scaling() const { return scaling_; }  ///< of a diagonal smoother; D^-1 for chebyshev
  double rho() const { return rho_; }
  double setup_seconds = 0;  ///< of this rank

 private:
  template <class Matrix, class Roots>
  void make_scaling(AmgSmoother how, const Matrix& rows, const Roots& roots, bool hermitian, double rho);
  void sweep(bool zero, bool back);
  void sweep_block(std::size_t columns, bool back);
  void chebyshev(int steps, bool from_zero);
  // level_waves.cpp
  const T* rhs() const { return rhs_ ? rhs_ : f->data(); }
  void down_in_waves(int sweeps, bool from_zero, layout::Vector<T>& coarse);
  void up_in_waves(int sweeps, const layout::Vector<T>& coarse);
  void sweep_rows(int block, ChebyshevSteps::Step next, const T* from, T* to);
  std::vector<ChebyshevSteps::Step> steps_of(int sweeps) const;
  Span traced(const char* name, int products, const op::Csr<T>& other, int vectors) const;
  static constexpr int few_blocks = 8;  // which one thread does alone
  std::unique_ptr<op::Csr<T>> own_;
  const op::Csr<T>* A_;
  AmgSmoother how_ = AmgSmoother::spai0;
  std::vector<T> scaling_;  // of diagonal smoothers, D^-1 for chebyshev
  double rho_ = 0;          // for chebyshev
  op::LocalRows<T> block_;  // for gauss_seidel
  std::optional<op::Product<T>> product_;
  std::unique_ptr<layout::Vector<T>> d_;       // for chebyshev
  std::unique_ptr<layout::Vector<T>> before_;  // R r, where it moves
  const T* rhs_ = nullptr;                     // in place of f, and
  T* result_ = nullptr;                        // of u: see borrow()
  op::ReadColumns reads_;                      // of R
  op::Wavefront wave_;
  op::Needs needs_of_A_, needs_of_P_, needs_of_R_;
};

/// f(i) for all elements of a vector.
template <class F>
void each(std::size_t n, F&& f) {
  exec::parallel_for(n, n > 20000, f);
}

}  // namespace tacit::precond
