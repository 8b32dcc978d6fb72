// What a level of one rank does before and after the next one, as wavefronts: A, P and R are read from memory once, and
// vectors between two stages while they are in cache. Rows get the bits that the separate loops of level.cpp give.
#include "level.hpp"

#include "../scalar.hpp"
#include "base/lanes.hpp"

#include <tacit/base/trace.hpp>

#include <cstddef>
#include <utility>

namespace tacit::precond {

namespace {

// A x is in `to`, but for the first sweep from 0.
template <Scalar T>
TACIT_COMPILED_ONCE void start_rows(std::ptrdiff_t n, const T* m, const T* f, T* to) {
  for (std::ptrdiff_t i = 0; i < n; ++i) to[i] = m[i] * f[i];
}
template <Scalar T>
TACIT_COMPILED_ONCE void relax_rows(std::ptrdiff_t n, const T* m, const T* f, const T* x, T* to) {
  for (std::ptrdiff_t i = 0; i < n; ++i) to[i] = x[i] + m[i] * (f[i] - to[i]);
}
template <Scalar T>
TACIT_COMPILED_ONCE void residual_rows(std::ptrdiff_t n, const T* f, T* to) {
  for (std::ptrdiff_t i = 0; i < n; ++i) to[i] = f[i] - to[i];
}
template <Scalar T>
TACIT_COMPILED_ONCE void add_rows(std::ptrdiff_t n, const T* x, T* to) {
  for (std::ptrdiff_t i = 0; i < n; ++i) to[i] = x[i] + to[i];
}
template <Scalar T>
TACIT_COMPILED_ONCE void first_chebyshev_rows(std::ptrdiff_t n, real_t<T> step, const T* m, const T* f, T* z, T* to) {
  for (std::ptrdiff_t i = 0; i < n; ++i) to[i] = z[i] = T(0) + step * (m[i] * f[i]);
}
template <Scalar T>
TACIT_COMPILED_ONCE void chebyshev_rows(std::ptrdiff_t n, real_t<T> keep, real_t<T> step, const T* m, const T* f,
                                        const T* x, T* z, T* to) {
  // The first step has no z yet.
  if (keep == real_t<T>(0))
    for (std::ptrdiff_t i = 0; i < n; ++i) z[i] = T(0);
  for (std::ptrdiff_t i = 0; i < n; ++i) {
    z[i] = keep * z[i] + step * (m[i] * (f[i] - to[i]));
    to[i] = x[i] + z[i];
  }
}

}  // namespace

/// Whether the matrices are whole on this rank, and the smoother takes each row by itself.
template <Scalar T>
bool MatrixLevel<T>::waves_for_a_column() const {
  return how_ != AmgSmoother::gauss_seidel && A_->whole() && !mover && !reads_.empty();
}

/// A sweep over the rows of a block, from `from` to `to`.
template <Scalar T>
void MatrixLevel<T>::sweep_rows(int block, ChebyshevSteps::Step next, const T* from, T* to) {
  using R = real_t<T>;
  const auto& A = *A_->whole();
  const Local row = A.first_row(block);
  const std::ptrdiff_t n = A.first_row(block + 1) - row;
  const T *const m = scaling_.data() + row, *const b = rhs() + row;
  to += row;
  if (from) A.multiply_block(block, from, to);
  if (how_ != AmgSmoother::chebyshev) return from ? relax_rows(n, m, b, from + row, to) : start_rows(n, m, b, to);
  T* const z = d_->data() + row;
  if (from) chebyshev_rows(n, R(next.keep), R(next.step), m, b, from + row, z, to);
  else first_chebyshev_rows(n, R(next.step), m, b, z, to);
}

template <Scalar T>
void MatrixLevel<T>::down_in_waves(int sweeps, bool from_zero, layout::Vector<T>& coarse) {
  const auto &A = *A_->whole(), &to_coarse = *R->whole();
  op::needs_of_product(A, needs_of_A_), reads_.needs(to_coarse, A, needs_of_R_);
  const auto steps = steps_of(sweeps);
  wave_.begin(A.blocks());
  wave_.add(needs_of_A_, sweeps);
  wave_.add(needs_of_R_);
  // The approximations are in u and r by turns, and the residual in the other one.
  T* const v[] = {u->data(), r->data()};
  const int offset = from_zero;  // the first sweep reads none, and so may write to u
  const Span span = traced("down", sweeps + !from_zero, *R, (from_zero ? 4 : 5));
  wave_.run(A.blocks() > few_blocks, [&](int stage, int b) {
    T *const from = v[(stage + offset) % 2], *const to = v[(stage + offset + 1) % 2];
    if (stage < sweeps) return sweep_rows(b, steps[std::size_t(stage)], from_zero && stage == 0 ? nullptr : from, to);
    if (stage > sweeps) return to_coarse.multiply_block(b, from, coarse.data() + to_coarse.first_row(b));
    const Local row = A.first_row(b);
    A.multiply_block(b, from, to + row);
    residual_rows(A.first_row(b + 1) - row, rhs() + row, to + row);
  });
  if ((sweeps + offset) % 2) std::swap(u, r);
}

template <Scalar T>
void MatrixLevel<T>::up_in_waves(int sweeps, const layout::Vector<T>& coarse) {
  const auto &A = *A_->whole(), &from_coarse = *P->whole();
  op::needs_of_product(A, needs_of_A_), op::needs_behind(A, needs_of_A_, from_coarse, needs_of_P_);
  const auto steps = steps_of(sweeps);
  wave_.begin(from_coarse.blocks());
  wave_.add(needs_of_P_);
  wave_.add(needs_of_A_, sweeps - 1);
  T* const v[] = {u->data(), r->data()};
  const Span span = traced("up", sweeps, *P, 5);
  wave_.run(A.blocks() > few_blocks, [&](int stage, int b) {
    T* const from = v[stage % 2];
    T* const to = result_ && stage == sweeps ? result_ : v[(stage + 1) % 2];
    if (stage > 0) return sweep_rows(b, steps[std::size_t(stage - 1)], from, to);
    const Local row = from_coarse.first_row(b);
    from_coarse.multiply_block(b, coarse.data(), to + row);
    add_rows(from_coarse.first_row(b + 1) - row, from + row, to + row);
  });
  if (sweeps % 2 == 0) std::swap(u, r);
}

template <Scalar T>
std::vector<ChebyshevSteps::Step> MatrixLevel<T>::steps_of(int sweeps) const {
  std::vector<ChebyshevSteps::Step> steps(std::size_t(sweeps), {0, 0});
  ChebyshevSteps coefficients(rho_);
  if (how_ == AmgSmoother::chebyshev)
    for (auto& step : steps) step = coefficients.next();
  return steps;
}

/// Counts the products of a wavefront, and gives its span, with so many products with A and one with `other`, and so
/// many vectors read or written.
template <Scalar T>
Span MatrixLevel<T>::traced(const char* name, int products, const op::Csr<T>& other, int vectors) const {
  for (int i = 0; i < products; ++i) A_->count_apply();
  other.count_apply();
  if (!Trace::on()) return Span(name, "exec");
  const auto &A = *A_->whole(), &B = *other.whole();
  const double n = double(f->size()), entries = double(products) * double(A.entries()) + double(B.entries());
  const double coarse = double(other.range().size() + other.domain().size()) - n;
  return Span(name, "exec",
              std::int64_t(A.bytes() + B.bytes() +
                           ((vectors + (how_ == AmgSmoother::chebyshev ? 2 : 0)) * n + coarse) * sizeof(T)),
              (is_complex<T> ? 8 : 2) * entries);
}

#define TACIT_INSTANTIATE(T)                                                  \
  template bool MatrixLevel<T>::waves_for_a_column() const;                   \
  template void MatrixLevel<T>::down_in_waves(int, bool, layout::Vector<T>&); \
  template void MatrixLevel<T>::up_in_waves(int, const layout::Vector<T>&);
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::precond
