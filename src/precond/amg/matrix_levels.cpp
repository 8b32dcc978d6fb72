#include "matrix_levels.hpp"
#include "../scalar.hpp"
#include "additive.hpp"
#include "../timed.hpp"

#include <tacit/op/diagonal.hpp>
#include <tacit/op/multiply.hpp>
#include <tacit/op/spectrum.hpp>

#include <algorithm>
#include <utility>

namespace tacit::precond {

using layout::Space;
using layout::Vector;

namespace {

/// max_i sum_j |a_ij| / |a_ii|: a bound of the eigenvalues of D^-1 A. Collective.
template <Scalar T>
double gershgorin(const op::Rows<T>& rows, const Space& space) {
  double most = 0;
  for (Local i = 0; i < rows.count(); ++i) {
    double sum = 0, own = 0;
    for (auto k = std::size_t(rows.start[std::size_t(i)]); k < std::size_t(rows.start[std::size_t(i) + 1]); ++k) {
      const double a = double(std::abs(rows.value[k]));
      sum += a;
      if (rows.column[k] == space.begin() + i) own = a;
    }
    if (own > 0) most = std::max(most, sum / own);
  }
  return space.comm().all_max(most);
}

/// A bound of the eigenvalues of D^-1 A, rows those of A. Collective.
template <Scalar T>
double bound_of(const op::Csr<T>& A, const op::Rows<T>& rows, bool definite) {
  const double bound = gershgorin(rows, A.range());
  if (!definite) return bound;
  // Lanczos comes from below, and is far closer than the bound where rows have entries of both signs.
  const auto d = A.diagonal();
  std::vector<T> inverses(d.size());
  std::transform(d.begin(), d.end(), inverses.begin(), [](T a) { return a != T(0) ? inverse(a) : T(1); });
  Vector<T> v(A.range());
  v.assign(inverses);
  const op::Diagonal<T> D(std::move(v));
  const double found = op::estimate_spectrum<T, Host>(A, &D, 10).lambda_max;
  return found > 0 ? std::min(bound, 1.05 * found) : bound;
}

/// R and the next matrix; Q is freed. Collective.
template <Scalar T>
op::TripleProduct<T> product_of(Coarser<T>& coarser, const op::Rows<T>& rows, const Space& space) {
  const auto& Q = coarser.Q ? *coarser.Q : coarser.P;
  auto found = op::triple_product(Q, rows, coarser.P, space, coarser.space);
  coarser.Q.reset();
  return found;
}

}  // namespace

template <Scalar T>
MatrixLevels<T>::MatrixLevels(const op::Csr<T>& A, const AmgOptions<T>& options)
    : options_(options), hermitian_(op::is_hermitian(A)) {
  build(A);
}

template <Scalar T>
void MatrixLevels<T>::build(const op::Csr<T>& A) {
  const auto& comm = A.range().comm();
  const double most = options_.max_complexity.value_or(options_.coarsening == AmgCoarsening::aggregation ? 3 : 5);
  coarsening_ = options_.coarsening == AmgCoarsening::aggregation ? make_aggregation(A, options_, hermitian_)
                                                                  : make_classical(A, options_);
  Global entries = 0;
  levels_.push_back(std::make_unique<MatrixLevel<T>>(A));
  op::Rows<T> rows = A.rows();  // of the last level
  for (;;) {
    comm.check_interrupt();
    MatrixLevel<T>& fine = *levels_.back();
    const Timed timer(fine.setup_seconds);
    const Space space = fine.A().range();
    entries += fine.A().entries();
    const auto roots = diagonal_roots(rows, space);
    const bool small = space.size() <= options_.coarsest;
    const double rho = bound_of(fine.A(), rows, hermitian_ && !small);
    fine.make_smoother(options_.smoother, rows, roots, hermitian_, rho);
    const auto end = [&] {
      if (space.size() <= largest_direct) direct_ = std::make_unique<DenseInverse<T>>(rows, space);
    };
    if (small || int(levels_.size()) >= options_.max_levels) {
      end();
      break;
    }
    comm.check_interrupt();
    auto coarser = coarsening_->next(rows, space, roots, rho);
    if (!coarser) {
      end();
      break;
    }
    const Space& coarse = coarser->space;
    comm.check_interrupt();
    auto next = product_of(*coarser, rows, space);
    const Global next_entries = comm.all_sum(next.C.start.back());
    if (double(entries + next_entries) > most * double(A.entries())) {
      note_ = message("coarsening ended at ", space.size(), " unknowns: the next level would bring the entries to ",
                      double(entries + next_entries) / double(std::max<Global>(A.entries(), 1)), " of those of A");
      end();
      break;
    }
    if (options_.cycle == Cycle::mult_additive)
      smooth_transfers(coarser->P, next.R, rows, fine.scaling(), space, coarse, hermitian_);
    rows = std::move(next.C);
    fine.P = std::make_unique<op::Csr<T>>(space, coarse, std::move(coarser->P));
    fine.R = std::make_unique<op::Csr<T>>(coarse, space, std::move(next.R));
    const op::RowsView<T, Global> stored{rows.start, rows.column, rows.value};
    levels_.push_back(std::make_unique<MatrixLevel<T>>(std::make_unique<op::Csr<T>>(coarse, coarse, stored)));
  }
  if (!direct_ && note_.empty())
    note_ = message("coarsening ended at ", levels_.back()->A().range().size(), " unknowns, which sweeps solve");
}

template <Scalar T>
bool MatrixLevels<T>::update() {
  const op::Csr<T>& A = levels_[0]->A();
  const bool hermitian = op::is_hermitian(A);
  if (hermitian != hermitian_ || !coarsening_->keeps_patterns()) {
    hermitian_ = hermitian;
    levels_.clear(), direct_.reset(), note_.clear();
    build(A);
    return false;
  }
  op::Rows<T> rows = A.rows();
  for (std::size_t i = 0;; ++i) {
    A.range().comm().check_interrupt();
    MatrixLevel<T>& fine = *levels_[i];
    const Space space = fine.A().range();
    const auto roots = diagonal_roots(rows, space);
    const double rho = bound_of(fine.A(), rows, hermitian_ && space.size() > options_.coarsest);
    fine.make_smoother(options_.smoother, rows, roots, hermitian_, rho);
    if (i + 1 == levels_.size()) {
      if (direct_) direct_ = std::make_unique<DenseInverse<T>>(rows, space);
      return true;
    }
    auto coarser = coarsening_->again(i, rows, space, roots, rho);
    auto next = product_of(coarser, rows, space);
    if (options_.cycle == Cycle::mult_additive)
      smooth_transfers(coarser.P, next.R, rows, fine.scaling(), space, coarser.space, hermitian_);
    fine.P->update_values(coarser.P.value);
    fine.R->update_values(next.R.value);
    levels_[i + 1]->update_values(next.C.value);
    rows = std::move(next.C);
  }
}

template <Scalar T>
void MatrixLevels<T>::make_vectors(int columns) {
  for (const auto& level : levels_) level->make_vectors(columns);
}

template <Scalar T>
void MatrixLevels<T>::down(std::size_t i, bool from_zero) {
  MatrixLevel<T>& fine = *levels_[i];
  const Timed timer(fine.seconds);
  fine.smooth(options_.sweeps, from_zero, false);
  fine.A().apply(*fine.u, *fine.r);
  each(fine.f->size(), [&](std::size_t k) { fine.r->data()[k] = fine.f->data()[k] - fine.r->data()[k]; });
  fine.R->apply(*fine.r, *levels_[i + 1]->f);
}

template <Scalar T>
void MatrixLevels<T>::correct(std::size_t i) {
  MatrixLevel<T>& fine = *levels_[i];
  const Timed timer(fine.seconds);
  fine.P->apply(*levels_[i + 1]->u, *fine.r);
  each(fine.f->size(), [&](std::size_t k) { fine.u->data()[k] += fine.r->data()[k]; });
}

template <Scalar T>
void MatrixLevels<T>::up(std::size_t i, bool) {
  correct(i);
  const Timed timer(levels_[i]->seconds);
  levels_[i]->smooth(options_.sweeps, false, true);
}

template <Scalar T>
void MatrixLevels<T>::restrict_f(std::size_t i) {
  const Timed timer(levels_[i]->seconds);
  levels_[i]->R->apply(*levels_[i]->f, *levels_[i + 1]->f);
}

template <Scalar T>
void MatrixLevels<T>::interpolate_u(std::size_t i) {
  const Timed timer(levels_[i]->seconds);
  levels_[i]->P->apply(*levels_[i + 1]->u, *levels_[i]->u);
}

template <Scalar T>
void MatrixLevels<T>::start_alone(std::size_t i) {
  const Timed timer(levels_[i]->seconds);
  levels_[i]->start_alone();
}

template <Scalar T>
void MatrixLevels<T>::finish_alone(std::size_t i) {
  const Timed timer(levels_[i]->seconds);
  levels_[i]->finish_alone();
}

template <Scalar T>
void MatrixLevels<T>::solve_last(bool from_zero, bool) {
  MatrixLevel<T>& last = *levels_.back();
  const Timed timer(last.seconds);
  if (direct_) return direct_->solve(*last.f, *last.u);
  if (options_.smoother == AmgSmoother::chebyshev) return last.smooth(sweeps_without_direct, from_zero, false);
  // Forward and back in turn: the same as its adjoint.
  for (int s = 0; s < sweeps_without_direct; ++s) last.smooth(1, from_zero && s == 0, s % 2 == 1);
}

template class MatrixLevels<float>;
template class MatrixLevels<double>;
template class MatrixLevels<std::complex<float>>;
template class MatrixLevels<std::complex<double>>;

}  // namespace tacit::precond
