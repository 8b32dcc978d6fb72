#include "triangles.hpp"

#include "products.hpp"
#include "together.hpp"

#include <algorithm>
#include <cmath>
#include <complex>

namespace tacit::precond::detail {

template <Scalar F>
void apply(const HBlock<F>& a, F alpha, const F* x, Local ldx, F* y, Local ldy, Local k) {
  if (a.kind == HBlockKind::dense) return times(a.a, a.rows, a.rows, a.columns, alpha, x, ldx, y, ldy, k);
  if (a.kind == HBlockKind::low) {
    const auto& low = a.low;
    if (low.rank == 0) return;
    std::vector<F> t(std::size_t(low.rank) * k, F(0));
    times_transposed(low.v.data(), a.columns, a.columns, low.rank, F(1), x, ldx, t.data(), low.rank, k);
    times(low.u.data(), a.rows, a.rows, low.rank, alpha, t.data(), low.rank, y, ldy, k);
    return;
  }
  const auto row = [&](int i) {
    for (int j = 0; j < a.across; ++j) {
      const HBlock<F>& b = *a.child[i][j];
      apply(b, alpha, x + (b.column - a.column), ldx, y + (b.row - a.row), ldy, k);
    }
  };
  if (a.down == 1) row(0);
  else
    together(
        solve_divides(a), [&] { row(0); }, [&] { row(1); });
}

template <Scalar F>
void apply_transposed(const HBlock<F>& a, F alpha, const F* x, Local ldx, F* y, Local ldy, Local k) {
  if (a.kind == HBlockKind::dense) return times_transposed(a.a, a.rows, a.rows, a.columns, alpha, x, ldx, y, ldy, k);
  if (a.kind == HBlockKind::low) {
    const auto& low = a.low;
    if (low.rank == 0) return;
    std::vector<F> t(std::size_t(low.rank) * k, F(0));
    times_transposed(low.u.data(), a.rows, a.rows, low.rank, F(1), x, ldx, t.data(), low.rank, k);
    times(low.v.data(), a.columns, a.columns, low.rank, alpha, t.data(), low.rank, y, ldy, k);
    return;
  }
  const auto column = [&](int j) {
    for (int i = 0; i < a.down; ++i) {
      const HBlock<F>& b = *a.child[i][j];
      apply_transposed(b, alpha, x + (b.row - a.row), ldx, y + (b.column - a.column), ldy, k);
    }
  };
  if (a.across == 1) column(0);
  else
    together(
        solve_divides(a), [&] { column(0); }, [&] { column(1); });
}

template <Scalar F>
void lower(const HBlock<F>& l, F* x, Local ldx, Local k) {
  if (k == 0) return;
  if (!l.is_cut()) {
    for (Local c = 0; c < k; ++c)
      for (Local i = 0; i < Local(l.pivots.size()); ++i) {
        F* const column = x + std::size_t(c) * ldx;
        if (l.pivots[std::size_t(i)] != i) std::swap(column[i], column[l.pivots[std::size_t(i)]]);
      }
    return multiply_by_triangle(l.inverse_l, l.rows, true, false, x, ldx, k);
  }
  F* const below = x + l.child[0][0]->rows;
  lower(*l.child[0][0], x, ldx, k);
  apply(*l.child[1][0], F(-1), x, ldx, below, ldx, k);
  lower(*l.child[1][1], below, ldx, k);
}

template <Scalar F>
void lower_transposed(const HBlock<F>& l, F* x, Local ldx, Local k) {
  if (k == 0) return;
  if (!l.is_cut()) {
    multiply_by_triangle(l.inverse_l, l.rows, true, true, x, ldx, k);
    for (Local c = 0; c < k; ++c)
      for (Local i = Local(l.pivots.size()); i-- > 0;) {
        F* const column = x + std::size_t(c) * ldx;
        if (l.pivots[std::size_t(i)] != i) std::swap(column[i], column[l.pivots[std::size_t(i)]]);
      }
    return;
  }
  F* const below = x + l.child[0][0]->rows;
  lower_transposed(*l.child[1][1], below, ldx, k);
  apply_transposed(*l.child[1][0], F(-1), below, ldx, x, ldx, k);
  lower_transposed(*l.child[0][0], x, ldx, k);
}

template <Scalar F>
void upper(const HBlock<F>& u, F* x, Local ldx, Local k) {
  if (k == 0) return;
  if (!u.is_cut()) return multiply_by_triangle(u.inverse_u, u.rows, false, false, x, ldx, k);
  F* const below = x + u.child[0][0]->rows;
  upper(*u.child[1][1], below, ldx, k);
  apply(*u.child[0][1], F(-1), below, ldx, x, ldx, k);
  upper(*u.child[0][0], x, ldx, k);
}

template <Scalar F>
void upper_transposed(const HBlock<F>& u, F* x, Local ldx, Local k) {
  if (k == 0) return;
  if (!u.is_cut()) return multiply_by_triangle(u.inverse_u, u.rows, false, true, x, ldx, k);
  F* const below = x + u.child[0][0]->rows;
  upper_transposed(*u.child[0][0], x, ldx, k);
  apply_transposed(*u.child[0][1], F(-1), x, ldx, below, ldx, k);
  upper_transposed(*u.child[1][1], below, ldx, k);
}

template <Scalar F>
std::pair<double, F> log_determinant(const HBlock<F>& a, bool hermitian) {
  if (a.is_cut()) {
    const auto first = log_determinant(a.at(0, 0), hermitian), second = log_determinant(a.at(1, 1), hermitian);
    return {first.first + second.first, first.second * second.second};
  }
  double sum = 0;
  F sign(1);
  for (Local i = 0; i < a.rows; ++i) {
    const F pivot = a.a[std::size_t(i) * std::size_t(a.rows) + std::size_t(i)];
    const auto size = std::abs(pivot);
    sum += (hermitian ? 2 : 1) * std::log(double(size));
    if (!hermitian) sign *= a.pivots[std::size_t(i)] == i ? pivot / size : -pivot / size;
  }
  return {sum, sign};
}

#define TACIT_INSTANTIATE(F)                                                              \
  template void apply(const HBlock<F>&, F, const F*, Local, F*, Local, Local);            \
  template void apply_transposed(const HBlock<F>&, F, const F*, Local, F*, Local, Local); \
  template void lower(const HBlock<F>&, F*, Local, Local);                                \
  template void lower_transposed(const HBlock<F>&, F*, Local, Local);                     \
  template void upper(const HBlock<F>&, F*, Local, Local);                                \
  template void upper_transposed(const HBlock<F>&, F*, Local, Local);                     \
  template std::pair<double, F> log_determinant(const HBlock<F>&, bool);
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::precond::detail
