// Recompression of many blocks at once, with one team for each block: U V^T becomes U' diag(sigma) V'^T with
// orthonormal columns, truncated at the tolerance. As on the host (src/op/hmatrix/compress.cpp): Cholesky factors of
// U^T U and V^T V, and the singular values of their small product by one-sided Jacobi rotations.
#pragma once

#include <tacit/op/kernels/crosses.hpp>

#include <cmath>
#include <cstdint>
#include <limits>

namespace tacit::op {

namespace detail {
/// A value that is reduced by the maximum.
struct Most {
  double value = 0;
};
TACIT_HD inline void add_to(Most& a, const Most& b) {
  a.value = b.value > a.value ? b.value : a.value;
}
}  // namespace detail

/// For finished blocks with at most `most` crosses: overwrites the crosses by the kept columns of U' and V', stores the
/// singular values in sigma (computed in double precision for every T), and sets the state to CrossStatus::cut. Blocks
/// whose Gram matrices are numerically singular stay unchanged. Work: 3 r^2 (m + n) operations and about 100 r^3;
/// memory: U and V read r / 4 + 1 times, mostly from cache, and written once.
template <class T>
struct CutCrosses {
  static constexpr int threads = 128;
  static constexpr int most = 32;
  static constexpr double unit = std::numeric_limits<double>::epsilon();
  struct Shared {
    double triangle[2][most * most];
    double work[2 * most * most];  ///< columns of [a; I], stacked
    double diagonal[2][most], size[most];
    int order[most];
  };

  const CrossTask* task;
  CrossState* state;
  T* const* page;
  double* sigma;  ///< `most` of each block
  double share;   ///< of the tolerance
  bool spectral;  ///< bounds the largest dropped singular value, else the root of the sum of their squares
  Local cut_rank;

  template <exec::Team U>
  TACIT_HD void operator()(const U& team, Shared& shared) const {
    const CrossTask t = task[team.block()];
    CrossState s = state[team.block()];
    const int r = s.rank;
    if (s.status != CrossStatus::done || r == 0 || r > most) return;
    team.barrier();  // all members have read the state
    const double norm = std::sqrt(s.norm2 > 0 ? s.norm2 : 0.0),
                 allowed = share * std::hypot(t.relative * norm, t.absolute);
    const double least = std::fmax(1e-8, 100 * unit * norm / (0.01 * allowed));
    const CrossPages<T> cross{page + t.page, t.count[0], t.count[1]};
    for (int side = 0; side < 2; ++side) squares(team, shared.triangle[side], cross, side, t.count[side], r);
    for (int side = 0; side < 2; ++side)
      if (!triangle(team, shared.triangle[side], shared.diagonal[side], r, least)) return;
    product(team, shared, r);
    if (!rotate(team, shared, r)) return;

    double sum = 0, tail = 0, left = 0;
    for (int l = 0; l < r; ++l) sum += shared.size[l] * shared.size[l];
    int k = r;
    for (; k > 0; --k) {
      const double one = shared.size[shared.order[k - 1]];
      if ((spectral ? one : std::sqrt(tail + one * one)) > allowed) break;
      tail += one * one;
      left = std::sqrt(tail);
    }
    for (; cut_rank > 0 && k > cut_rank; --k) left = std::hypot(left, shared.size[shared.order[k - 1]]);

    // x := R^-1 x for each kept singular vector, by one member.
    for (int c = team.rank(); c < 2 * k; c += U::threads) {
      const int side = c < k ? 0 : 1, column = shared.order[side == 0 ? c : c - k];
      double* const x = shared.work + column * 2 * r + side * r;
      const double* const R = shared.triangle[side];
      const double scale = side == 0 ? 1 / shared.size[column] : 1.0;
      for (int i = r - 1; i >= 0; --i) {
        double value = x[i] * scale;
        for (int l = i + 1; l < r; ++l) value -= R[i + l * r] * x[l];
        x[i] = value / R[i + i * r];
      }
    }
    team.barrier();
    for (int side = 0; side < 2; ++side)
      for (Local x = team.rank(); x < t.count[side]; x += U::threads) {
        double row[most];
        for (int i = 0; i < r; ++i) row[i] = double(cross.at(side, i)[x]);
        for (int l = 0; l < k; ++l) {
          const double* const by = shared.work + shared.order[l] * 2 * r + side * r;
          double value = 0;
          for (int i = 0; i < r; ++i) value += row[i] * by[i];
          cross.at(side, l)[x] = T(value);
        }
      }
    for (int l = team.rank(); l < k; l += U::threads) sigma[team.block() * most + l] = shared.size[shared.order[l]];
    if (team.rank() != 0) return;
    s.status = CrossStatus::cut;
    s.rank = k, s.norm2 = sum, s.error = std::hypot(s.error, left);
    state[team.block()] = s;
  }

 private:
  /// The upper triangle of G = a^T a, r x r by columns: a warp multiplies four columns by four others.
  template <class U>
  TACIT_HD TACIT_APART static void squares(const U& team, double* G, const CrossPages<T>& cross, int side, Local n,
                                           int r) {
    constexpr int C = crosses_of_page;
    const auto lanes = team.template lanes<32>();
    using L = exec::Lanes<32, U>;
    const int across = (r + C - 1) / C, tiles = across * (across + 1) / 2;
    for (int round = 0; round < tiles; round += L::groups) {
      const int tile = round + lanes.group();
      int column = 0, row = tile;  // tiles of the upper triangle, by columns
      while (row > column) row -= ++column;
      exec::Sums<C * C, double> sum{};
      if (tile < tiles) {
        const T *const a = cross.at(side, row * C), *const b = cross.at(side, column * C);
        const int rows = r - row * C < C ? r - row * C : C, columns = r - column * C < C ? r - column * C : C;
        for (Local x = lanes.lane(); x < n; x += L::width) {
          double u[C], v[C];
          TACIT_UNROLL
          for (int i = 0; i < C; ++i) {
            u[i] = i < rows ? double(a[std::int64_t(i) * n + x]) : 0.0;
            v[i] = i < columns ? double(b[std::int64_t(i) * n + x]) : 0.0;
          }
          TACIT_UNROLL
          for (int j = 0; j < C; ++j) {
            TACIT_UNROLL
            for (int i = 0; i < C; ++i) sum[i + j * C] += u[i] * v[j];
          }
        }
      }
      sum = lanes.sum(sum);
      if (tile < tiles && lanes.lane() == 0)
        for (int j = 0; j < C && column * C + j < r; ++j)
          for (int i = 0; i < C && row * C + i <= column * C + j; ++i)
            G[row * C + i + (column * C + j) * r] = sum[i + j * C];
    }
    team.barrier();
  }

  /// Cholesky factorisation G = R^T R in place; false where G is numerically singular.
  template <class U>
  TACIT_HD static bool triangle(const U& team, double* G, double* diagonal, int r, double least) {
    for (int k = team.rank(); k < r; k += U::threads) diagonal[k] = G[k + k * r];
    team.barrier();
    for (int k = 0; k < r; ++k) {
      const double pivot = G[k + k * r];
      if (!(pivot > least * diagonal[k]) || !(diagonal[k] > 1e-280)) return false;
      const double root = std::sqrt(pivot);
      team.barrier();
      for (int j = k + team.rank(); j < r; j += U::threads) G[k + j * r] = j == k ? root : G[k + j * r] / root;
      team.barrier();
      const int rest = r - k - 1;
      for (int e = team.rank(); e < rest * rest; e += U::threads) {
        const int i = k + 1 + e % rest, j = k + 1 + e / rest;
        if (i <= j) G[i + j * r] -= G[k + i * r] * G[k + j * r];
      }
      team.barrier();
    }
    return true;
  }

  /// Stores [R_u R_v^T; I] in work.
  template <class U>
  TACIT_HD static void product(const U& team, Shared& shared, int r) {
    const double *const a = shared.triangle[0], *const b = shared.triangle[1];
    for (int e = team.rank(); e < r * r; e += U::threads) {
      const int i = e % r, j = e / r;
      double sum = 0;
      for (int l = i > j ? i : j; l < r; ++l) sum += a[i + l * r] * b[j + l * r];
      shared.work[j * 2 * r + i] = sum;
      shared.work[j * 2 * r + r + i] = i == j ? 1 : 0;
    }
    team.barrier();
  }

  /// One-sided Jacobi (Hestenes 1958): rotations make the columns orthogonal, with the pairs of a round in parallel.
  /// Computes the column norms and their descending order. False where it does not converge.
  template <class U>
  TACIT_HD TACIT_APART static bool rotate(const U& team, Shared& shared, int r) {
    // Convergence is quadratic: after a sweep with all cosines below the root of the rounding unit, all are below the
    // unit.
    constexpr double done = 1e-8, nothing = 1e-15;
    constexpr int sweeps = 30;
    const auto lanes = team.template lanes<8>();
    using L = exec::Lanes<8, U>;
    const int count = r + r % 2, ring = count - 1, pairs = count / 2;
    double worst = r > 1 ? 1 : 0;
    for (int sweep = 0; sweep < sweeps && worst > done; ++sweep) {
      detail::Most most_met;
      for (int round = 0; round < ring; ++round) {
        for (int first = 0; first < pairs; first += L::groups) {
          const int pair = first + lanes.group();
          const int p = pair == 0 ? ring : (round + pair) % ring, q = (round - pair + ring) % ring;
          const bool active = pair < pairs && p < r && q < r;
          double *const x = shared.work + p * 2 * r, *const y = shared.work + q * 2 * r;
          exec::Sums<3, double> dots{};
          if (active)
            for (int i = lanes.lane(); i < r; i += L::width)
              dots[0] += x[i] * x[i], dots[1] += y[i] * y[i], dots[2] += x[i] * y[i];
          dots = lanes.sum(dots);
          const double xx = dots[0], yy = dots[1], xy = dots[2], size = std::sqrt(xx) * std::sqrt(yy);
          if (!active || !(std::fabs(xy) > nothing * size)) continue;
          if (size > 0) detail::add_to(most_met, {std::fabs(xy) / size});
          const double zeta = (yy - xx) / (2 * xy);
          const double tangent = (zeta < 0 ? -1 : 1) / (std::fabs(zeta) + std::sqrt(1 + zeta * zeta));
          const double c = 1 / std::sqrt(1 + tangent * tangent), sine = c * tangent;
          for (int i = lanes.lane(); i < 2 * r; i += L::width) {
            const double u = x[i], v = y[i];
            x[i] = c * u - sine * v;
            y[i] = sine * u + c * v;
          }
        }
        team.barrier();
      }
      most_met = team.sum(most_met);
      worst = most_met.value;
    }
    if (!(worst <= done)) return false;
    for (int j = team.rank(); j < r; j += U::threads) {
      double sum = 0;
      for (int i = 0; i < r; ++i) sum += shared.work[j * 2 * r + i] * shared.work[j * 2 * r + i];
      shared.size[j] = std::sqrt(sum);
    }
    team.barrier();
    for (int j = team.rank(); j < r; j += U::threads) {
      int place = 0;
      for (int i = 0; i < r; ++i)
        place += shared.size[i] > shared.size[j] || (shared.size[i] == shared.size[j] && i < j);
      shared.order[place] = j;
    }
    team.barrier();
    return true;
  }
};

/// Copies the crosses of each block out of their pages, without gaps: columns of u at to[block], then those of v.
/// Memory: kept crosses are read and written once.
template <class T>
struct GatherCrosses {
  static constexpr int threads = 256;
  using Shared = exec::NothingShared;
  const CrossTask* task;
  const CrossState* state;
  T* const* page;
  const std::int64_t* to;
  T* out;

  template <exec::Team U>
  TACIT_HD void operator()(const U& team, Shared&) const {
    const CrossTask t = task[team.block()];
    const CrossState s = state[team.block()];
    if (s.status != CrossStatus::done && s.status != CrossStatus::cut) return;
    const CrossPages<T> cross{page + t.page, t.count[0], t.count[1]};
    T* const here = out + to[team.block()];
    for (int side = 0; side < 2; ++side) {
      const Local n = t.count[side];
      T* const of_side = here + (side == 0 ? 0 : std::int64_t(s.rank) * t.count[0]);
      for (Local l = 0; l < s.rank; ++l) {
        const T* const from = cross.at(side, l);
        for (Local x = team.rank(); x < n; x += U::threads) of_side[std::int64_t(l) * n + x] = from[x];
      }
    }
  }
};

}  // namespace tacit::op
