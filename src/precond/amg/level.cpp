#include "level.hpp"

#include "../scalar.hpp"

#include <tacit/base/trace.hpp>
#include <tacit/exec/parallel.hpp>

#include <algorithm>

namespace tacit::precond {

using layout::Space;
using layout::Vector;

template <Scalar T>
void MatrixLevel<T>::make_vectors(int columns) {
  if (r && r->columns() == columns) return;
  const Space& space = A_->range();
  r = std::make_unique<Vector<T>>(space, columns);
  u = std::make_unique<Vector<T>>(space, columns);
  f = std::make_unique<Vector<T>>(space, columns);
  if (how_ == AmgSmoother::chebyshev) d_ = std::make_unique<Vector<T>>(space, columns);
}

template <Scalar T>
void MatrixLevel<T>::down(int sweeps, bool from_zero, layout::Vector<T>& coarse) {
  if (has_waves()) return down_in_waves(sweeps, from_zero, coarse);
  smooth(sweeps, from_zero, false);
  A_->apply(*u, *r);
  {
    const Span span("residual", "exec", std::int64_t(3 * f->size() * sizeof(T)));
    each(f->size(), [&](std::size_t k) { r->data()[k] = f->data()[k] - r->data()[k]; });
  }
  restrict_to(*r, coarse);
}

template <Scalar T>
void MatrixLevel<T>::up(int sweeps, const layout::Vector<T>& coarse) {
  if (has_waves()) return up_in_waves(sweeps, coarse);
  correct(coarse);
  smooth(sweeps, false, true);
}

template <Scalar T>
void MatrixLevel<T>::correct(const layout::Vector<T>& coarse) {
  P->apply(coarse, *r);
  const Span span("correct", "exec", std::int64_t(3 * f->size() * sizeof(T)));
  each(f->size(), [&](std::size_t k) { u->data()[k] += r->data()[k]; });
}

template <Scalar T>
void MatrixLevel<T>::smooth(int sweeps, bool from_zero, bool back) {
  if (how_ == AmgSmoother::chebyshev) return chebyshev(sweeps, from_zero);
  for (int s = 0; s < sweeps; ++s) {
    const bool zero = from_zero && s == 0;
    if (!zero) A_->apply(*u, *r);
    sweep(zero, back);
  }
}

/// A sweep with A u in r; r is overwritten.
template <Scalar T>
void MatrixLevel<T>::sweep(bool zero, bool back) {
  const auto columns = std::size_t(f->columns());
  T *const x = u->data(), *const y = r->data();
  const T* const b = f->data();
  const Span span("sweep", "exec", std::int64_t((zero ? 3 : 5) * f->size() * sizeof(T)));
  if (how_ == AmgSmoother::gauss_seidel) {
    each(f->size(), [&](std::size_t i) { y[i] = zero ? b[i] : b[i] - y[i]; });
    sweep_block(columns, back);
    each(f->size(), [&](std::size_t i) { x[i] = zero ? y[i] : x[i] + y[i]; });
    return;
  }
  const T* const m = scaling_.data();
  if (columns == 1 && zero) each(f->size(), [&](std::size_t i) { x[i] = m[i] * b[i]; });
  else if (columns == 1) each(f->size(), [&](std::size_t i) { x[i] += m[i] * (b[i] - y[i]); });
  else
    each(scaling_.size(), [&](std::size_t i) {
      for (std::size_t k = i * columns; k < (i + 1) * columns; ++k)
        x[k] = zero ? m[i] * b[k] : x[k] + m[i] * (b[k] - y[k]);
    });
}

template <Scalar T>
void MatrixLevel<T>::start_alone() {
  sweep(true, false);
  product_.emplace(A_->start(*u, *r));
}

template <Scalar T>
void MatrixLevel<T>::finish_alone() {
  product_->wait();
  product_.reset();
  sweep(false, true);
}

/// r := (D + L)^-1 r on this rank's block; `back`: (D + U)^-1.
template <Scalar T>
void MatrixLevel<T>::sweep_block(std::size_t columns, bool back) {
  T* const y = r->data();
  const Local n = block_.count();
  for (Local s = 0; s < n; ++s) {
    const Local i = back ? n - 1 - s : s;
    T* const own = y + std::size_t(i) * columns;
    for (auto k = std::size_t(block_.start[std::size_t(i)]); k < std::size_t(block_.start[std::size_t(i) + 1]); ++k) {
      const Local j = block_.column[k];
      if (back ? j <= i : j >= i) continue;
      for (std::size_t c = 0; c < columns; ++c) own[c] -= block_.value[k] * y[std::size_t(j) * columns + c];
    }
    for (std::size_t c = 0; c < columns; ++c) own[c] *= scaling_[std::size_t(i)];
  }
}

/// Chebyshev's polynomial of degree `steps` in D^-1 A on [rho / 4, 1.1 rho]. Saad (2003), algorithm 12.1.
template <Scalar T>
void MatrixLevel<T>::chebyshev(int steps, bool from_zero) {
  using R = real_t<T>;
  const std::size_t columns = std::size_t(f->columns());
  ChebyshevSteps coefficients(rho_);
  for (int s = 0; s < steps; ++s) {
    const bool zero = from_zero && s == 0;
    if (!zero) A_->apply(*u, *r);
    const auto next = coefficients.next();
    const R keep = R(next.keep), step = R(next.step);
    T *const x = u->data(), *const y = r->data(), *const z = d_->data();
    each(scaling_.size(), [&](std::size_t i) {
      for (std::size_t k = i * columns; k < (i + 1) * columns; ++k) {
        const T residual = zero ? f->data()[k] : f->data()[k] - y[k];
        z[k] = (keep == R(0) ? T(0) : keep * z[k]) + step * (scaling_[i] * residual);
        x[k] = zero ? z[k] : x[k] + z[k];
      }
    });
  }
}

template <Scalar T>
void MatrixLevel<T>::make_smoother(AmgSmoother how, const op::Rows<T>& rows, const ByColumn<double>& roots,
                                   bool hermitian, double rho) {
  make_scaling(how, rows, roots, hermitian, rho);
}
template <Scalar T>
void MatrixLevel<T>::make_smoother(AmgSmoother how, const NumberedRows<T>& rows, const std::vector<double>& roots,
                                   bool hermitian, double rho) {
  make_scaling(
      how, rows, [&](Global c) { return roots[std::size_t(c)]; }, hermitian, rho);
}

template <Scalar T>
template <class Matrix, class Roots>
void MatrixLevel<T>::make_scaling(AmgSmoother how, const Matrix& rows, const Roots& roots, bool hermitian,
                                  double bound) {
  using R = real_t<T>;
  const Global first = first_column(rows, A_->range()), last = first + rows.count();
  how_ = how, rho_ = bound;
  scaling_.assign(std::size_t(rows.count()), T(0));
  const bool by_sums = how != AmgSmoother::jacobi && how != AmgSmoother::chebyshev;
  each(scaling_.size(), [&](std::size_t i) {
    T own{};
    for (auto k = std::size_t(rows.start[i]); k < std::size_t(rows.start[i + 1]); ++k)
      if (rows.column[k] == first + Global(i)) own = rows.value[k];
    if (own == T(0)) return;
    // Of A's row over a_ii, or of that of |D|^-1/2 A |D|^-1/2: a diagonal scaling of A changes neither.
    const double root = roots(first + Global(i));
    double sum = 0, squares = 0, others = 0;  // others: of other ranks
    for (auto k = std::size_t(rows.start[i]); by_sums && k < std::size_t(rows.start[i + 1]); ++k) {
      const Global c = rows.column[k];
      const double other = hermitian ? roots(c) : root;
      if (other == 0) continue;
      const double a = double(std::abs(rows.value[k])) / (root * other);
      sum += a;
      squares += a * a;
      if (c < first || c >= last) others += a;
    }
    switch (how) {
      case AmgSmoother::spai0:
        // With M <= 1.8 / rho D^-1 it converges for definite A, also where rows have many entries.
        scaling_[i] = R(hermitian ? std::min(1 / squares, 1.8 / bound) : 1 / squares) * inverse(own);
        break;
      case AmgSmoother::gauss_seidel:
        // M + M^H - A = D + 2 E - C, C the couplings of ranks, is to be definite: E = C's row sums / 2 where these
        // exceed D.
        scaling_[i] = R(hermitian && others >= 1 ? 1 / (1 + others / 2) : 1) * inverse(own);
        break;
      case AmgSmoother::l1_jacobi:
        scaling_[i] = R(1 / sum) * inverse(own);
        break;
      case AmgSmoother::jacobi:
        scaling_[i] = R(4 / (3 * bound)) * inverse(own);
        break;
      default:
        scaling_[i] = inverse(own);
    }
  });
  if (how == AmgSmoother::gauss_seidel) block_ = A_->own_block();
}

template <Scalar T>
void MatrixLevel<T>::restrict_to(const layout::Vector<T>& r, layout::Vector<T>& f) {
  if (!mover) return R->apply(r, f);
  if (!before_ || before_->columns() != r.columns())
    before_ = std::make_unique<layout::Vector<T>>(R->range(), r.columns());
  R->apply(r, *before_);
  mover->apply(*before_, f);
}

#define TACIT_INSTANTIATE(T) template class MatrixLevel<T>;
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::precond
