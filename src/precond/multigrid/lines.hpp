// What the steps of a pass do to a line of cells: half sweeps, residuals, restriction, interpolation, norms.
#pragma once

#include "red_black.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tacit::precond::mg {

template <class S>
Around<S> RedBlackLevel<S>::around_of(const Patch& p, int half, std::ptrdiff_t j, std::ptrdiff_t k) const {
  const S* const u = u_.data();
  const std::ptrdiff_t m0 = first_of(half), own = half * p.half, other = p.half - own;
  const S* const line = u + at(p, j, k);
  Around<S> r;
  r.l = line + other + m0 - (half == 0);
  r.r = r.l + 1;
  r.ym = r.yp = r.zm = r.zp = nullptr;
  if (dimensions_ > 1) {
    r.ym = u + at(p, around(p.wrap[1], j - 1, p.n[1]), k) + own + m0;
    r.yp = u + at(p, around(p.wrap[1], j + 1, p.n[1]), k) + own + m0;
  }
  if (dimensions_ > 2) {
    r.zm = u + at(p, j, around(p.wrap[2], k - 1, p.n[2])) + own + m0;
    r.zp = u + at(p, j, around(p.wrap[2], k + 1, p.n[2])) + own + m0;
  }
  return r;
}

template <class S>
Faces<S> RedBlackLevel<S>::faces_of(const Patch& p, int half, std::ptrdiff_t j, std::ptrdiff_t k) const {
  const std::ptrdiff_t m0 = first_of(half), own = half * p.half, other = p.half - own, here = at(p, j, k) + own + m0;
  Faces<S> c{};
  c.xl = cx_.data() + here;
  c.xr = cx_.data() + at(p, j, k) + other + m0 + (half == 1);
  if (dimensions_ > 1) c.yl = cy_.data() + here, c.yr = cy_.data() + here + p.line;
  if (dimensions_ > 2) c.zl = cz_.data() + here, c.zr = cz_.data() + here + p.plane;
  return c;
}

template <class S>
template <int D>
void RedBlackLevel<S>::relax_line(const Patch& p, int colour, std::ptrdiff_t j, std::ptrdiff_t k, bool first) {
  const int half = half_of(p, colour, j, k);
  const std::ptrdiff_t n = count_of(p, half), here = at(p, j, k) + half * p.half + first_of(half);
  S* const own = u_.data() + here;
  const S* const f = f_.data() + here;
  if (constant_) {
    const S rest = p.diagonal[1][std::size_t(j)] + diagonal_of_plane(p, k);
    const S inner = rest + S(2) * weights_.x;
    const S inverse = inner != S(0) ? S(1) / inner : S(1);
    const auto d_at = [&](std::ptrdiff_t x) { return rest + p.diagonal[0][std::size_t(x)]; };
    const auto u = around_of(p, half, j, k);
    if (first) {
      for (std::ptrdiff_t m = 0; m < n; ++m) own[m] = f[m] * inverse;
    } else {
      relax<D>(u, weights_, f, inverse, n, own);
    }
    // Cell 0 is place 1, cell n - 1 place n.
    for (const std::ptrdiff_t x : {std::ptrdiff_t(0), p.n[0] - 1}) {
      const std::ptrdiff_t place = x + 1, m = place / 2 - first_of(half);
      if (place % 2 != half || d_at(x) == inner || d_at(x) == S(0)) continue;
      own[m] = (f[m] + (first ? S(0) : gather<D>(u, weights_, m))) / d_at(x);
    }
  } else if (first) {
    const S* const inverse = inverse_.data() + here;
    for (std::ptrdiff_t m = 0; m < n; ++m) own[m] = f[m] * inverse[m];
  } else {
    relax<D>(around_of(p, half, j, k), faces_of(p, half, j, k), f, inverse_.data() + here, n, own);
  }
  wrap_ends(p, half, u_.data() + at(p, j, k));
}

template <class S>
template <int D, bool Add>
void RedBlackLevel<S>::residual_half(const Patch& p, int half, std::ptrdiff_t j, std::ptrdiff_t k, S* r) {
  const std::ptrdiff_t n = count_of(p, half), here = at(p, j, k) + half * p.half + first_of(half);
  const S* const own = u_.data() + here;
  const S* const f = f_.data() + here;
  if (constant_) {
    const S rest = p.diagonal[1][std::size_t(j)] + diagonal_of_plane(p, k);
    const S inner = rest + S(2) * weights_.x;
    residual<D, Add>(around_of(p, half, j, k), weights_, f, inner, own, n, r);
    for (const std::ptrdiff_t x : {std::ptrdiff_t(0), p.n[0] - 1}) {
      const std::ptrdiff_t place = x + 1, m = place / 2 - first_of(half);
      const S d = rest + p.diagonal[0][std::size_t(x)];
      if (place % 2 == half && d != inner) r[m] += (inner - d) * own[m];
      if (p.n[0] == 1) break;
    }
  } else {
    residual<D, Add>(around_of(p, half, j, k), faces_of(p, half, j, k), f, inverse_.data() + here, own, n, r);
  }
}

template <class S>
template <int D>
void RedBlackLevel<S>::restrict_lines(const Patch& p, const Patch& c, int colour, std::ptrdiff_t kc, std::ptrdiff_t j0,
                                      std::ptrdiff_t j1) {
  Field& target = coarse_->f_;
  auto& lines = Lines<S>::mine(std::size_t(p.n[0]));
  S* const sum = lines.a;
  S* const r = lines.b;
  const bool x_pairs = p.n[0] == 2 * c.n[0] && paired_;
  for (std::ptrdiff_t jc = j0; jc < j1; ++jc) {
    bool first = true;
    const auto add = [&](std::ptrdiff_t j, std::ptrdiff_t k, int half) {
      if (x_pairs) {
        if (first) residual_half<D, false>(p, half, j, k, sum);
        else residual_half<D, true>(p, half, j, k, sum);
      } else {
        if (first) std::fill_n(sum, c.n[0], S(0));
        residual_half<D, false>(p, half, j, k, r);
        const std::ptrdiff_t n = count_of(p, half);
        for (std::ptrdiff_t m = 0; m < n; ++m) {
          const std::ptrdiff_t x = 2 * (m + first_of(half)) + half - 1;
          sum[parent_[0][std::size_t(p.box.lower[0] + x)] - c.box.lower[0]] += r[m];
        }
      }
      first = false;
    };
    for (std::ptrdiff_t k = p.child[2][std::size_t(kc)]; k < p.child[2][std::size_t(kc) + 1]; ++k)
      for (std::ptrdiff_t j = p.child[1][std::size_t(jc)]; j < p.child[1][std::size_t(jc) + 1]; ++j) {
        if (colour >= 0) {
          add(j, k, half_of(p, colour, j, k));
        } else {
          add(j, k, 0);
          add(j, k, 1);
        }
      }
    S* const even = target.data() + at(c, jc, kc) + 1;  // place 2: cell 1
    S* const odd = target.data() + at(c, jc, kc) + c.half;
    for (std::ptrdiff_t m = 0; m < (c.n[0] + 1) / 2; ++m) odd[m] = sum[2 * m];
    for (std::ptrdiff_t m = 0; m < c.n[0] / 2; ++m) even[m] = sum[2 * m + 1];
  }
}

template <class S>
void RedBlackLevel<S>::interpolate_line(const Patch& p, const Patch& c, int colours, std::ptrdiff_t j, std::ptrdiff_t k,
                                        bool solution) {
  const std::ptrdiff_t jc = std::ptrdiff_t(parent_[1][std::size_t(p.box.lower[1] + j)] - c.box.lower[1]);
  // Others' planes are joined in pairs, as the own ones are.
  const std::ptrdiff_t kc = k < 0 || k >= p.n[2]
                                ? (k < 0 ? k - 1 : k) / 2
                                : std::ptrdiff_t(parent_[2][std::size_t(p.box.lower[2] + k)] - c.box.lower[2]);
  auto& lines = Lines<S>::mine(std::size_t(c.n[0]));
  const S* const v = coarse_->u_.data();
  const auto line_at = [&](std::ptrdiff_t jj, std::ptrdiff_t kk) {
    return v + at(c, around(c.wrap[1], jj, c.n[1]), around(c.wrap[2], kk, c.n[2]));
  };
  S* const middle = lines.a;  // cells -1 .. n: middle[i + 1]
  natural(line_at(jc, kc), line_at(jc, kc) + c.half, c.n[0], middle);
  S* u = u_.data() + at(p, j, k);
  const auto each = [&](auto&& value) {
    for (int half = 0; half < 2; ++half) {
      const int colour = half_of(p, 0, j, k) == half ? 0 : 1;
      if (!(colours >> colour & 1)) continue;
      S* const own = u + half * p.half + first_of(half);
      const std::ptrdiff_t n = count_of(p, half), shift = half == 0 ? 1 : 0;  // first cell of the half
      if (paired_ && !linear_ && !solution) {
        for (std::ptrdiff_t m = 0; m < n; ++m) own[m] += middle[m + 1];
      } else {
        for (std::ptrdiff_t m = 0; m < n; ++m) value(2 * m + shift, own[m]);
      }
      wrap_ends(p, half, u);
    }
  };
  if (!linear_ && !solution) {
    each([&](std::ptrdiff_t x, S& to) {
      to += middle[parent_[0][std::size_t(p.box.lower[0] + x)] - c.box.lower[0] + 1];
    });
    return;
  }
  // Differences along the other axes first, then along the line.
  S* const side = lines.b;
  S* const sum = lines.c;
  std::copy_n(middle, c.n[0] + 2, sum);
  for (int axis = 1; axis < dimensions_; ++axis) {
    S w = p.weight[std::size_t(axis)][std::size_t(axis == 1 ? j : k)];
    if (w == S(0) && !solution) continue;
    int step = std::signbit(w) ? -1 : 1;  // of 0 too: towards a Neumann end
    const auto a = std::size_t(axis);
    const std::ptrdiff_t here = axis == 1 ? jc : kc;
    const bool end =
        !c.wrap[a] && (here + step < 0 || here + step >= c.n[a]) && !coarse_->a_->boxes().domain().periodic(axis) &&
        (c.box.lower[a] + here + step < 0 || c.box.lower[a] + here + step >= coarse_->a_->boxes().domain().cells(axis));
    if (solution && end) {  // extrapolated from the two interior cells
      const auto& d = coarse_->a_->boxes().domain();
      const Global g = p.box.lower[a] + (axis == 1 ? j : k), cg = c.box.lower[a] + here;
      step = -step;
      if (here + step < 0 || here + step >= c.n[a]) continue;
      w = -S(std::abs(a_->boxes().domain().centre(axis, g) - d.centre(axis, cg)) /
             d.distance(axis, step > 0 ? cg + 1 : cg));
    } else {
      w = std::abs(w);
    }
    const S* const from = axis == 1 ? line_at(jc + step, kc) : line_at(jc, kc + step);
    natural(from, from + c.half, c.n[0], side);
    for (std::ptrdiff_t x = 1; x <= c.n[0]; ++x) sum[x] += w * (side[x] - middle[x]);
  }
  const auto& d = coarse_->a_->boxes().domain();
  each([&](std::ptrdiff_t x, S& to) {
    const std::ptrdiff_t i = parent_[0][std::size_t(p.box.lower[0] + x)] - c.box.lower[0] + 1;
    S w = p.weight[0][std::size_t(x)];
    std::ptrdiff_t step = w < 0 ? -1 : 1;
    w = std::abs(w);
    if (solution) {
      const Global cg = c.box.lower[0] + i - 1;
      const double away = a_->boxes().domain().centre(0, p.box.lower[0] + x) - d.centre(0, cg);
      step = away < 0 ? -1 : 1;
      if (!d.periodic(0) && (cg + step < 0 || cg + step >= d.cells(0))) {
        step = -step;
        const bool there = i + step >= 1 && i + step <= c.n[0];
        w = there ? -S(std::abs(away) / d.distance(0, step > 0 ? cg + 1 : cg)) : S(0);
      }
    }
    const S value = sum[i] + w * (middle[i + step] - middle[i]);
    if (solution) to = value;
    else to += value;
  });
}

template <class S>
template <int D>
void RedBlackLevel<S>::norm_line(const Patch& p, int colour, std::ptrdiff_t j, std::ptrdiff_t k) {
  auto& lines = Lines<S>::mine(std::size_t(p.n[0]));
  S* const r = lines.b;
  double most = 0, sum = 0;
  for (int half = 0; half < 2; ++half) {
    if (colour >= 0 && half_of(p, colour, j, k) != half) continue;
    residual_half<D, false>(p, half, j, k, r);
    const std::ptrdiff_t n = count_of(p, half);
    S m0 = 0, s0 = 0;
#pragma omp simd reduction(max : m0) reduction(+ : s0)
    for (std::ptrdiff_t m = 0; m < n; ++m) {
      const S a = std::abs(r[m]);
      m0 = a > m0 ? a : m0;
      s0 += a * a;
    }
    if (!(s0 <= std::numeric_limits<S>::max())) m0 = s0;  // NaN passes through no comparison
    most = std::max(most, double(m0)), sum += double(s0);
    if (std::isnan(m0)) most = double(m0);
  }
  const std::size_t at = first_line_[std::size_t(&p - patches_.data())] + std::size_t(j + p.n[1] * k);
  line_largest_[at] = most, line_squares_[at] = sum;
}

}  // namespace tacit::precond::mg
