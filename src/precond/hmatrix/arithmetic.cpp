#include "block.hpp"
#include "pivots.hpp"
#include "products.hpp"
#include "together.hpp"
#include "triangles.hpp"
#include "truncation.hpp"

#include <tacit/base/lapack.hpp>
#include "base/release.hpp"

#include <algorithm>
#include <cmath>

namespace tacit::precond::detail {
namespace {

// Whether a block's rank is so large a part of its size that its updates are added up densely. A truncation of the sum
// of a block of m x n and rank k with as many pending terms takes some 32 (m + n) k^2 operations and has an error of
// its own; a dense update takes 2 m n k, and the truncation of a dense matrix, once, 6 m n k. 24 is the least time
// measured on surfaces and in volumes, at tolerances from 1e-4 to 1e-8.
template <Scalar F>
bool is_large(const HBlock<F>& c, Local rank) {
  return 24 * rank >= std::min(c.rows, c.columns);
}

// c += alpha a op(b) for dense blocks, op(b) = b or b^H.
template <bool Adjoint, Scalar F>
void multiply_dense(const HBlock<F>& a, const HBlock<F>& b, F alpha, F* c, Local ldc) {
  if constexpr (Adjoint) add_outer(a.a, a.rows, b.a, b.rows, a.rows, b.rows, a.columns, alpha, c, ldc, 'C');
  else times(a.a, a.rows, a.rows, a.columns, alpha, b.a, b.rows, c, ldc, b.columns);
}

}  // namespace

template <Scalar F>
void HArithmetic<F>::truncate(LowRank<F>& b) {
  if (!detail::truncate(b, tolerance_)) failed_ = true;
}

template <Scalar F>
LowRank<F> HArithmetic<F>::compress(F* a, Local rows, Local columns) {
  LowRank<F> b;
  if (!detail::compress(a, rows, columns, tolerance_, b)) failed_ = true;
  return b;
}

template <Scalar F>
bool HArithmetic<F>::sums_densely(Block& c) {
  if (c.kind != HBlockKind::low) return false;
  if (!c.sum.empty()) return true;
  if (!is_large(c, c.low.rank)) return false;
  c.sum.assign(std::size_t(c.rows) * std::size_t(c.columns), F(0));
  return true;
}

template <Scalar F>
void HArithmetic<F>::add(Block& c, const F* u, Local ldu, const F* v, Local ldv, Local k, F scale) {
  if (k == 0 || c.rows == 0 || c.columns == 0) return;
  if (c.kind == HBlockKind::dense && k >= 8) return add_to_dense(c, u, ldu, v, ldv, k, scale, 'T');
  if (k >= 8 && sums_densely(c)) return add_outer(u, ldu, v, ldv, c.rows, c.columns, k, scale, c.sum.data(), c.rows);
  if (c.is_cut() && is_large(c, k)) return add_to_children(c, u, ldu, v, ldv, k, scale);
  auto& p = c.pending;
  p.rows = c.rows, p.columns = c.columns;
  p.append(u, ldu, v, ldv, k, scale);
  if (p.rank < c.pending_limit) return;
  if (c.is_cut()) {
    truncate(p);
    c.pending_limit = p.rank + 16;
  } else {
    flush(c);
  }
}

template <Scalar F>
void HArithmetic<F>::add_to_children(Block& c, const F* u, Local ldu, const F* v, Local ldv, Local k, F scale) {
  for (int i = 0; i < c.down; ++i)
    for (int j = 0; j < c.across; ++j) {
      if (!c.child[i][j]) continue;  // above the diagonal
      Block& b = *c.child[i][j];
      add(b, u + (b.row - c.row), ldu, v + (b.column - c.column), ldv, k, scale);
    }
}

template <Scalar F>
void HArithmetic<F>::add_to_dense(Block& c, const F* u, Local ldu, const F* v, Local ldv, Local k, F scale,
                                  char op) const {
  if (!hermitian_ || c.row != c.column) return add_outer(u, ldu, v, ldv, c.rows, c.columns, k, scale, c.a, c.rows, op);
  each_panel(c.columns, false, [&](Local first, Local count) {
    add_outer(u + first, ldu, v + first, ldv, c.rows - first, count, k, scale,
              c.a + std::size_t(first) * (std::size_t(c.rows) + 1), c.rows, op);
  });
}

template <Scalar F>
void HArithmetic<F>::flush(Block& c) {
  auto& p = c.pending;
  if (!c.sum.empty()) {
    add_outer(c.low.u.data(), c.rows, c.low.v.data(), c.columns, c.rows, c.columns, c.low.rank, F(1), c.sum.data(),
              c.rows);
    add_outer(p.u.data(), c.rows, p.v.data(), c.columns, c.rows, c.columns, p.rank, F(1), c.sum.data(), c.rows);
    c.low = compress(c.sum.data(), c.rows, c.columns);
    release(c.sum);
    p = {};
    return;
  }
  if (p.rank == 0) return;
  if (c.kind == HBlockKind::dense) {
    add_to_dense(c, p.u.data(), c.rows, p.v.data(), c.columns, p.rank, F(1), 'T');
  } else if (c.kind == HBlockKind::low) {
    c.low.append(p.u.data(), c.rows, p.v.data(), c.columns, p.rank, F(1));
    truncate(c.low);
    c.pending_limit = std::max<Local>(16, c.low.rank);
  } else {
    if (p.rank > 4) truncate(p);
    add_to_children(c, p.u.data(), c.rows, p.v.data(), c.columns, p.rank, F(1));
  }
  p = {};
}

namespace {

// op(b) = b, or b^H: its children, its number of columns, and op(b) = U V^T of a block of low rank.
template <bool Adjoint, Scalar F>
const HBlock<F>& part_of(const HBlock<F>& b, int l, int j) {
  return Adjoint ? b.at(j, l) : b.at(l, j);
}
template <bool Adjoint, Scalar F>
int count_across(const HBlock<F>& b) {
  return Adjoint ? b.count_down() : b.count_across();
}
template <bool Adjoint, Scalar F>
Local columns_of(const HBlock<F>& b) {
  return Adjoint ? b.rows : b.columns;
}
template <bool Adjoint, Scalar F>
LowRank<F> low_of(const HBlock<F>& b) {
  if constexpr (!Adjoint) return b.low;
  LowRank<F> low{b.columns, b.rows, b.low.rank, b.low.v, b.low.u};
  conjugate(low.u.data(), low.u.size()), conjugate(low.v.data(), low.v.size());
  return low;
}

// W = op(b)^T V for V (k columns, by columns).
template <bool Adjoint, Scalar F>
std::vector<F> turned_times(const HBlock<F>& b, const std::vector<F>& v, Local k) {
  const Local depth = Adjoint ? b.columns : b.rows, height = columns_of<Adjoint>(b);
  std::vector<F> w(std::size_t(height) * std::size_t(k), F(0));
  if constexpr (Adjoint) {  // (b^H)^T V = conj(b conj(V))
    std::vector<F> x = v;
    conjugate(x.data(), x.size());
    detail::apply(b, F(1), x.data(), depth, w.data(), height, k);
    conjugate(w.data(), w.size());
  } else {
    detail::apply_transposed(b, F(1), v.data(), depth, w.data(), height, k);
  }
  return w;
}

}  // namespace

// a op(b) = U V^T, where one of them is of low rank.
template <Scalar F>
template <bool Adjoint>
LowRank<F> HArithmetic<F>::low_product(const Block& a, const Block& b) {
  using enum HBlockKind;
  if (a.kind == low && (b.kind != low || a.low.rank <= b.low.rank)) {
    const Local k = a.low.rank;
    return {a.rows, columns_of<Adjoint>(b), k, a.low.u, turned_times<Adjoint>(b, a.low.v, k)};
  }
  LowRank<F> factor = low_of<Adjoint>(b);
  std::vector<F> w(std::size_t(a.rows) * std::size_t(factor.rank), F(0));
  detail::apply(a, F(1), factor.u.data(), a.columns, w.data(), a.rows, factor.rank);
  return {a.rows, columns_of<Adjoint>(b), factor.rank, std::move(w), std::move(factor.v)};
}

template <Scalar F>
template <bool Adjoint>
void HArithmetic<F>::subtract_densely(const Block& a, const Block& b, F* c, Local ldc) {
  using enum HBlockKind;
  if (a.kind == low || b.kind == low) {
    const auto p = low_product<Adjoint>(a, b);
    return add_outer(p.u.data(), p.rows, p.v.data(), p.columns, p.rows, p.columns, p.rank, F(-1), c, ldc);
  }
  if (a.kind == dense && b.kind == dense) return multiply_dense<Adjoint>(a, b, F(-1), c, ldc);
  for (int i = 0; i < a.count_down(); ++i)
    for (int j = 0; j < count_across<Adjoint>(b); ++j) {
      const Block& first = part_of<Adjoint>(b, 0, j);
      const Local row = a.at(i, 0).row - a.row, column = Adjoint ? first.row - b.row : first.column - b.column;
      for (int l = 0; l < a.count_across(); ++l)
        subtract_densely<Adjoint>(a.at(i, l), part_of<Adjoint>(b, l, j),
                                  c + std::size_t(row) + std::size_t(column) * std::size_t(ldc), ldc);
    }
}

template <Scalar F>
template <bool Adjoint>
void HArithmetic<F>::subtract_product(const Block& a, const Block& b, Block& c) {
  if (failed_) return;
  using enum HBlockKind;
  if (a.kind == low || b.kind == low) {
    const auto p = low_product<Adjoint>(a, b);
    return add(c, p.u.data(), p.rows, p.v.data(), p.columns, p.rank, F(-1));
  }
  if (c.kind == low) {
    if (sums_densely(c)) return subtract_densely<Adjoint>(a, b, c.sum.data(), c.rows);
    const auto p = product<Adjoint>(a, b);
    return add(c, p.u.data(), p.rows, p.v.data(), p.columns, p.rank, F(-1));
  }
  if (c.kind == dense && a.kind == dense && b.kind == dense) {
    if constexpr (Adjoint) return add_to_dense(c, a.a, a.rows, b.a, b.rows, a.columns, F(-1), 'C');
    else return multiply_dense<Adjoint>(a, b, F(-1), c.a, c.rows);
  }
  const auto part = [&](int i, int j) {
    for (int l = 0; l < a.count_across(); ++l)
      subtract_product<Adjoint>(a.at(i, l), part_of<Adjoint>(b, l, j), c.at(i, j));
  };
  const auto row = [&](int i) {
    if (c.count_across() == 1) part(i, 0);
    else
      together(
          divides(c), [&] { part(i, 0); }, [&] { part(i, 1); });
  };
  if (c.count_down() == 1) row(0);
  else
    together(
        divides(c), [&] { row(0); }, [&] { row(1); });
}

// a op(b) as a low-rank matrix, where neither a nor b is of low rank.
template <Scalar F>
template <bool Adjoint>
LowRank<F> HArithmetic<F>::product(const Block& a, const Block& b) {
  using enum HBlockKind;
  LowRank<F> whole{a.rows, columns_of<Adjoint>(b), 0, {}, {}};
  if (a.kind == dense && b.kind == dense) {
    std::vector<F> c(std::size_t(whole.rows) * std::size_t(whole.columns), F(0));
    multiply_dense<Adjoint>(a, b, F(1), c.data(), a.rows);
    return compress(c.data(), whole.rows, whole.columns);
  }
  for (int i = 0; i < a.count_down(); ++i)
    for (int j = 0; j < count_across<Adjoint>(b); ++j) {
      const Block& first = part_of<Adjoint>(b, 0, j);
      LowRank<F> sum{a.at(i, 0).rows, columns_of<Adjoint>(first), 0, {}, {}};
      for (int l = 0; l < a.count_across(); ++l) {
        const Block &p = a.at(i, l), &q = part_of<Adjoint>(b, l, j);
        const auto part = p.kind == low || q.kind == low ? low_product<Adjoint>(p, q) : product<Adjoint>(p, q);
        sum.append(part.u.data(), part.rows, part.v.data(), part.columns, part.rank, F(1));
      }
      whole.append_within(sum, a.at(i, 0).row - a.row, Adjoint ? first.row - b.row : first.column - b.column);
    }
  truncate(whole);
  return whole;
}

template <Scalar F>
void HArithmetic<F>::factorise(Block& d) {
  if (failed_) return;
  flush(d);
  if (!d.is_cut()) {
    const Local n = d.rows;
    const std::size_t height = std::size_t(n);
    d.pivots.resize(height);
    const Pivots found = factorise_replacing(d.a, n, d.pivots.data());
    if (!found.finite) failed_ = true;
    perturbed_ += found.replaced;
    d.inverse_l.assign(height * height, F(0)), d.inverse_u.assign(height * height, F(0));
    for (std::size_t i = 0; i < height; ++i) d.inverse_l[i * height + i] = d.inverse_u[i * height + i] = F(1);
    lapack::trsm('L', 'L', 'N', 'U', n, n, d.a, n, d.inverse_l.data(), n);
    lapack::trsm('L', 'U', 'N', 'N', n, n, d.a, n, d.inverse_u.data(), n);
    return;
  }
  Block &d11 = *d.child[0][0], &d12 = *d.child[0][1], &d21 = *d.child[1][0], &d22 = *d.child[1][1];
  factorise(d11);
  together(
      divides(d), [&] { solve_lower(d11, d12); }, [&] { solve_upper(d11, d21); });
  subtract_product<false>(d21, d12, d22);
  factorise(d22);
}

template <Scalar F>
void HArithmetic<F>::factorise_hermitian(Block& d) {
  if (failed_) return;
  flush(d);
  if (!d.is_cut()) {
    const Local n = d.rows;
    const std::size_t height = std::size_t(n);
    if (!lapack::cholesky(d.a, n, n)) failed_ = true;
    for (std::size_t i = 0; i < height; ++i) {
      if (!is_finite(d.a[i * height + i])) failed_ = true;
      std::fill_n(d.a + i * height, i, F(0));
    }
    d.inverse_l.assign(height * height, F(0));
    for (std::size_t i = 0; i < height; ++i) d.inverse_l[i * height + i] = F(1);
    if (!failed_) lapack::trsm('L', 'L', 'N', 'N', n, n, d.a, n, d.inverse_l.data(), n);
    return;
  }
  Block &d11 = *d.child[0][0], &d21 = *d.child[1][0], &d22 = *d.child[1][1];
  factorise_hermitian(d11);
  solve_adjoint(d11, d21);
  subtract_square(d21, d22);
  factorise_hermitian(d22);
}

template <Scalar F>
void HArithmetic<F>::subtract_square(const Block& a, Block& c) {
  if (failed_) return;
  if (a.kind == HBlockKind::low || !c.is_cut()) return subtract_product<true>(a, a, c);
  const auto square = [&](int i) {
    for (int l = 0; l < a.count_across(); ++l) subtract_square(a.at(i, l), *c.child[i][i]);
  };
  const auto below = [&] {
    for (int l = 0; l < a.count_across(); ++l) subtract_product<true>(a.at(1, l), a.at(0, l), *c.child[1][0]);
  };
  together(divides(c), below, [&] {
    together(
        divides(c), [&] { square(0); }, [&] { square(1); });
  });
}

template <Scalar F>
void HArithmetic<F>::solve_adjoint(const Block& l, Block& b) {
  if (failed_) return;
  flush(b);
  if (b.kind == HBlockKind::low) {  // V^T L^-H = (conj(L^-1 conj(V)))^T
    conjugate(b.low.v.data(), b.low.v.size());
    detail::lower(l, b.low.v.data(), b.columns, b.low.rank);
    return conjugate(b.low.v.data(), b.low.v.size());
  }
  if (b.kind == HBlockKind::dense) return multiply_from_right(b.a, b.rows, l.inverse_l, b.columns, true);
  const auto row = [&](int i) {
    for (int j = 0; j < b.across; ++j) {
      for (int k = 0; k < j; ++k) subtract_product<true>(*b.child[i][k], l.at(j, k), *b.child[i][j]);
      solve_adjoint(b.across == 1 ? l : l.at(j, j), *b.child[i][j]);
    }
  };
  if (b.down == 1) row(0);
  else
    together(
        divides(b), [&] { row(0); }, [&] { row(1); });
}

template <Scalar F>
void HArithmetic<F>::solve_lower(const Block& l, Block& b) {
  if (failed_) return;
  flush(b);
  if (b.kind == HBlockKind::low) return detail::lower(l, b.low.u.data(), b.rows, b.low.rank);
  if (b.kind == HBlockKind::dense) return detail::lower(l, b.a, b.rows, b.columns);
  const auto column = [&](int j) {
    for (int i = 0; i < b.down; ++i) {
      for (int k = 0; k < i; ++k) subtract_product<false>(l.at(i, k), *b.child[k][j], *b.child[i][j]);
      solve_lower(b.down == 1 ? l : l.at(i, i), *b.child[i][j]);
    }
  };
  if (b.across == 1) column(0);
  else
    together(
        divides(b), [&] { column(0); }, [&] { column(1); });
}

template <Scalar F>
void HArithmetic<F>::solve_upper(const Block& u, Block& b) {
  if (failed_) return;
  flush(b);
  if (b.kind == HBlockKind::low) return detail::upper_transposed(u, b.low.v.data(), b.columns, b.low.rank);
  if (b.kind == HBlockKind::dense) return multiply_from_right(b.a, b.rows, u.inverse_u, b.columns, false);
  const auto row = [&](int i) {
    for (int j = 0; j < b.across; ++j) {
      for (int k = 0; k < j; ++k) subtract_product<false>(*b.child[i][k], u.at(k, j), *b.child[i][j]);
      solve_upper(b.across == 1 ? u : u.at(j, j), *b.child[i][j]);
    }
  };
  if (b.down == 1) row(0);
  else
    together(
        divides(b), [&] { row(0); }, [&] { row(1); });
}

template <Scalar F>
void HArithmetic<F>::solve_upper_left(const Block& u, Block& b) {
  if (failed_) return;
  flush(b);
  if (b.kind == HBlockKind::low) return detail::upper(u, b.low.u.data(), b.rows, b.low.rank);
  if (b.kind == HBlockKind::dense) return detail::upper(u, b.a, b.rows, b.columns);
  const auto column = [&](int j) {
    for (int i = b.down; i-- > 0;) {
      for (int k = i + 1; k < b.down; ++k) subtract_product<false>(u.at(i, k), *b.child[k][j], *b.child[i][j]);
      solve_upper_left(b.down == 1 ? u : u.at(i, i), *b.child[i][j]);
    }
  };
  if (b.across == 1) column(0);
  else
    together(
        divides(b), [&] { column(0); }, [&] { column(1); });
}

template <Scalar F>
void HArithmetic<F>::finish(Block& b) {
  flush(b);
  if (!b.is_cut()) return;
  for (int i = 0; i < b.down; ++i)
    for (int j = 0; j < b.across; ++j)
      if (b.child[i][j]) finish(*b.child[i][j]);
}

#define TACIT_INSTANTIATE(F)                                                                             \
  template class HArithmetic<F>;                                                                         \
  template void HArithmetic<F>::subtract_product<false>(const HBlock<F>&, const HBlock<F>&, HBlock<F>&); \
  template void HArithmetic<F>::subtract_product<true>(const HBlock<F>&, const HBlock<F>&, HBlock<F>&);
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::precond::detail
