// Implementation of stencils: the coefficients for each kind of position, and the loops over lines.
#pragma once

#include <tacit/base/trace.hpp>
#include <tacit/exec/tasks.hpp>
#include <tacit/op/stencil.hpp>

#include "scheduled.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <type_traits>
#include <utility>

namespace tacit::op {
namespace stencils {

// Flags for the ends of an axis at a point; both are set on an axis of one point.
inline constexpr int low_end = 1, high_end = 2;
inline int end_of(Global i, Global n) {
  return (i == 0 ? low_end : 0) | (i == n - 1 ? high_end : 0);
}

// The grid as a box in three dimensions: the slowest axis is the third (on a line the only one is the first), and a
// plane has one point along the middle axis.
struct Axes {
  std::array<Global, 3> n{1, 1, 1};
  std::array<Boundary, 3> boundary{};
  std::array<bool, 3> real{true, false, false};

  explicit Axes(const Grid& g) {
    for (int axis = 0; axis < g.dimensions; ++axis) {
      const int to = g.dimensions == 2 && axis == 1 ? 2 : axis;
      n[to] = g.points[axis];
      boundary[to] = g.boundary[axis];
      real[to] = true;
    }
  }
  /// The index of the neighbour of point `at` along an axis (step: -1, 0 or 1); -1 where there is none.
  Global neighbour(int axis, Global at, int step) const {
    const Global to = at + step;
    if (to >= 0 && to < n[axis]) return to;
    return boundary[axis] == Boundary::periodic ? (to + n[axis]) % n[axis] : -1;
  }
};

// The 27 coefficients of the neighbours at offset (sx, sy, sz), with those of points outside the grid folded in.
template <class S>
using Table = std::array<S, 27>;
constexpr int slot(int sx, int sy, int sz) {
  return 13 + sx + 3 * sy + 9 * sz;
}

// Whether the weight of step d enters the coefficient of the point s steps away. On one axis, A is the sum over d of
// w_d S_d, with S_d the shift by d closed at the ends; this is entry (i, i + s) of S_d, or of its transpose.
inline bool enters(int s, int d, int end, Boundary boundary, bool transposed) {
  const auto outside = [&](int step) { return (step < 0 && (end & low_end)) || (step > 0 && (end & high_end)); };
  if (boundary == Boundary::periodic) return s == (transposed ? -d : d);
  if (outside(d) && boundary == Boundary::neumann && s == 0) return true;
  return transposed ? s == -d && !outside(s) : s == d && !outside(d);
}

template <class T>
class Coefficients {
 public:
  Coefficients(const Axes& axes, const Weights<T>& weights, bool conjugate_transposed) : tables_(64) {
    Weights<T> w;
    for (int dz = -1; dz <= 1; ++dz)
      for (int dy = -1; dy <= 1; ++dy)
        for (int dx = -1; dx <= 1; ++dx) {
          if ((dx && !axes.real[0]) || (dy && !axes.real[1]) || (dz && !axes.real[2])) continue;
          const bool plane = axes.real[2] && !axes.real[1];
          const T v = plane ? weights.at(dx, dz, dy) : weights.at(dx, dy, dz);
          w.at(dx, dy, dz) = conjugate_transposed ? conj(v) : v;
          if ((dx != 0) + (dy != 0) + (dz != 0) > 1 && v != T(0)) star_ = false;
        }
    for (int ez = 0; ez < 4; ++ez)
      for (int ey = 0; ey < 4; ++ey)
        for (int ex = 0; ex < 4; ++ex) {
          Table<T>& table = tables_[ex + 4 * ey + 16 * ez];
          table.fill(T(0));
          for (int s = 0; s < 27; ++s)
            for (int d = 0; d < 27; ++d) {
              const auto on = [&](int axis, int divisor, int end) {
                return enters(s / divisor % 3 - 1, d / divisor % 3 - 1, end, axes.boundary[axis], conjugate_transposed);
              };
              if (on(0, 1, ex) && on(1, 3, ey) && on(2, 9, ez)) table[s] += w.value[d];
            }
        }
  }
  const Table<T>& at(int ex, int ey, int ez) const { return tables_[ex + 4 * ey + 16 * ez]; }
  bool star() const { return star_; }
  const std::vector<Table<T>>& tables() const { return tables_; }

 private:
  std::vector<Table<T>> tables_;
  bool star_ = true;
};

// Calls f(column, coefficient) for the points of the shape around (ix, iy, iz); a point that occurs twice on a periodic
// axis is passed twice.
template <class T, class F>
void each_entry(const Axes& axes, const Coefficients<T>& c, Global ix, Global iy, Global iz, F&& f) {
  const auto& table = c.at(end_of(ix, axes.n[0]), end_of(iy, axes.n[1]), end_of(iz, axes.n[2]));
  for (int sz = -axes.real[2]; sz <= axes.real[2]; ++sz)
    for (int sy = -axes.real[1]; sy <= axes.real[1]; ++sy)
      for (int sx = -axes.real[0]; sx <= axes.real[0]; ++sx) {
        if (c.star() && (sx != 0) + (sy != 0) + (sz != 0) > 1) continue;
        const Global x = axes.neighbour(0, ix, sx), y = axes.neighbour(1, iy, sy), z = axes.neighbour(2, iz, sz);
        if (x >= 0 && y >= 0 && z >= 0) f(x + axes.n[0] * (y + axes.n[1] * z), table[slot(sx, sy, sz)]);
      }
}

// ---- the product on one rank ----

// y_i = sum of weights times x over three points of the middle line and one of each other line.
template <bool Middle, class S>
inline void star_line(const S* line, const S* ym, const S* yp, const S* zm, const S* zp, const Table<S>& t,
                      std::ptrdiff_t step, std::ptrdiff_t n, S* __restrict out) {
  const S c = t[slot(0, 0, 0)], xl = t[slot(-1, 0, 0)], xr = t[slot(1, 0, 0)], yl = t[slot(0, -1, 0)],
          yr = t[slot(0, 1, 0)], zl = t[slot(0, 0, -1)], zr = t[slot(0, 0, 1)];
  const S *const left = line - step, *const right = line + step;
#pragma GCC ivdep
  for (std::ptrdiff_t i = 0; i < n; ++i) {
    S sum = zl * zm[i];
    if constexpr (Middle) sum += yl * ym[i];
    sum += xl * left[i];
    sum += c * line[i];
    sum += xr * right[i];
    if constexpr (Middle) sum += yr * yp[i];
    out[i] = sum + zr * zp[i];
  }
}

// y_i = sum of weights w times x over three points of every line.
template <class S, std::size_t... L>
inline void full_line(const S* const* lines, const S* w, std::ptrdiff_t step, std::ptrdiff_t n, S* __restrict out,
                      std::index_sequence<L...>) {
  constexpr std::size_t count = sizeof...(L);
  const S* p[count];
  S a[count], b[count], c[count];
  for (std::size_t l = 0; l < count; ++l) p[l] = lines[l], a[l] = w[3 * l], b[l] = w[3 * l + 1], c[l] = w[3 * l + 2];
#pragma GCC ivdep
  for (std::ptrdiff_t i = 0; i < n; ++i) {
    S left{}, middle{}, right{};  // three independent chains of additions
    ((left += a[L] * p[L][i - step], middle += b[L] * p[L][i], right += c[L] * p[L][i + step]), ...);
    out[i] = middle + (left + right);
  }
}

// A rank's part of the box: lines of nx points, ny lines in each slab, slabs [z0, z0 + nz). In one dimension, points
// [x0, x0 + nx).
struct Part {
  Axes axes;
  bool on_line;
  Global x0 = 0, z0 = 0;
  std::ptrdiff_t nx, ny, nz;
  // The location of the slab before the first (after the last): a ghost, this rank's own, or none.
  enum class Where { nowhere, own, ghost };
  struct Beyond {
    Where where = Where::nowhere;
    std::ptrdiff_t slab = 0;  // local, or among the ghosts
  } below, above;
};

// The bytes of a line that are processed at once, so that a few such pieces of lines stay in the nearest caches.
inline constexpr std::ptrdiff_t piece_bytes = 1 << 16;
// Three slabs of a tile fit the second-level cache.
inline constexpr std::ptrdiff_t tile_bytes = 3 << 17;
// Elements between two polls.
inline constexpr std::ptrdiff_t poll_elements = 1 << 16;
inline constexpr std::ptrdiff_t parallel_elements = 1 << 15;
// Of powers(): the elements by which a step advances, and the bytes of second-level cache for the steps that advance
// together.
inline constexpr std::ptrdiff_t wave_elements = 1 << 12, wave_bytes = 3 << 19;

template <class S>
class Kernel {
 public:
  template <class T>
  Kernel(const Part& part, const Coefficients<T>& c) : part_(part), star_(c.star()) {
    for (const auto& from : c.tables()) {
      Table<S> table;
      for (int s = 0; s < 27; ++s) {
        if constexpr (is_complex<T> && !is_complex<S>) table[s] = from[s].real();
        else table[s] = from[s];
      }
      tables_.push_back(table);
    }
  }

  // Slabs [from, to) of y = A x; x and y hold k interleaved columns of S. `ghosts`: the slabs of the halo, if needed.
  void run(const S* x, const S* ghosts, S* y, std::ptrdiff_t k, std::ptrdiff_t from, std::ptrdiff_t to,
           const comm::Communicator& comm) const {
    const std::ptrdiff_t nx = part_.nx, ny = part_.ny;
    const std::ptrdiff_t slabs = to - from;
    if (slabs <= 0 || nx == 0) return;
    [[maybe_unused]] const std::ptrdiff_t elements = slabs * ny * nx * k;
    std::ptrdiff_t threads = 1;
    if (elements >= parallel_elements) threads = exec::threads_now();
    const auto divide = [](std::ptrdiff_t n, std::ptrdiff_t size) { return (n + size - 1) / size; };
    const std::ptrdiff_t unit = k * std::ptrdiff_t(sizeof(S));
    const std::ptrdiff_t piece = std::max<std::ptrdiff_t>(64, piece_bytes / unit);
    std::ptrdiff_t pieces = divide(nx, piece);
    const std::ptrdiff_t length = divide(nx, pieces) * unit;
    const bool fits = 3 * ny * length <= 2 * tile_bytes;
    std::ptrdiff_t tiles = fits ? 1 : divide(ny, std::max<std::ptrdiff_t>(4, tile_bytes / (3 * length)));
    const std::ptrdiff_t chunks = std::min(threads, slabs);
    if (chunks < threads) {
      tiles = std::min(ny, std::max(tiles, divide(threads, chunks)));
      if (chunks * tiles < threads)
        pieces = std::min(divide(nx, 64), std::max(pieces, divide(threads, chunks * tiles)));
    }
    zero(std::size_t((divide(nx, pieces) + 2) * k));
    const std::ptrdiff_t items = chunks * tiles * pieces;
    exec::each(std::size_t(items), threads > 1, [&](std::size_t which) {
      const std::ptrdiff_t item = std::ptrdiff_t(which), chunk = item / (tiles * pieces), tile = item / pieces % tiles,
                           p = item % pieces;
      const std::ptrdiff_t begin = from + slabs * chunk / chunks, end = from + slabs * (chunk + 1) / chunks;
      std::ptrdiff_t since = 0;
      for (std::ptrdiff_t z = begin; z < end; ++z)
        for (std::ptrdiff_t l = ny * tile / tiles; l < ny * (tile + 1) / tiles; ++l) {
          const std::ptrdiff_t i0 = nx * p / pieces, i1 = nx * (p + 1) / pieces;
          line(x, ghosts, y + (z * part_.ny + l) * nx * k, k, l, z, i0, i1);
          since += (i1 - i0) * k;
          if (since >= poll_elements) {
            since = 0;
            poll(comm);
          }
        }
      poll(comm);
    });
  }

  /// Lines [from, to), counted through the slabs from slab 0 on, of y = A x; on any thread, after prepare(k).
  void run_lines(const S* x, const S* ghosts, S* y, std::ptrdiff_t k, std::ptrdiff_t from, std::ptrdiff_t to) const {
    for (std::ptrdiff_t i = from; i < to; ++i)
      line(x, ghosts, y + i * part_.nx * k, k, i % part_.ny, i / part_.ny, 0, part_.nx);
  }
  /// One column of a whole line (l, z), z counted in the whole grid, from the lines around it: lines[4 + dy + 3 dz],
  /// null where there is none.
  void line_of(const S* const* lines, std::ptrdiff_t l, Global z, S* out) const {
    const int ey = end_of(l, part_.axes.n[1]), ez = end_of(z, part_.axes.n[2]);
    const std::ptrdiff_t last = part_.nx - 1;
    end_point(nullptr, nullptr, lines, 1, 0, ey, ez, out);
    if (last > 1) inner(lines, table(0, ey, ez), 1, 1, last - 1, out + 1);
    if (last > 0) end_point(nullptr, nullptr, lines, 1, last, ey, ez, out);
  }
  const Table<S>& table_of(std::ptrdiff_t i, std::ptrdiff_t l, Global z) const {
    return table(end_of(i, part_.axes.n[0]), end_of(l, part_.axes.n[1]), end_of(z, part_.axes.n[2]));
  }
  bool star() const { return star_; }
  /// Prepares line_of() and run_lines() of k columns for calls from threads.
  void prepare(std::ptrdiff_t k = 1) const { zero(std::size_t((part_.nx + 2) * k)); }
  const S* nothing() const { return zero_.data() + 1; }

 private:
  static void poll(const comm::Communicator& comm) {
    if (exec::may_poll()) comm.poll();
  }
  // A line of zeros, in place of missing lines.
  void zero(std::size_t n) const {
    if (zero_.size() < n) zero_.assign(n, S(0));
  }
  const Table<S>& table(int ex, int ey, int ez) const { return tables_[ex + 4 * ey + 16 * ez]; }

  // First element of line (y, z + step) of x; null where there is none.
  const S* line_at(const S* x, const S* ghosts, std::ptrdiff_t k, std::ptrdiff_t l, std::ptrdiff_t z, int sy,
                   int sz) const {
    const Global to = part_.axes.neighbour(1, l, sy);
    if (to < 0 || ((sy != 0) && !part_.axes.real[1]) || (sz != 0 && !part_.axes.real[2])) return nullptr;
    const std::ptrdiff_t slab = part_.nx * part_.ny * k, within = std::ptrdiff_t(to) * part_.nx * k;
    std::ptrdiff_t s = z + sz;
    if (s < 0 || s >= part_.nz) {
      const auto& beyond = s < 0 ? part_.below : part_.above;
      if (beyond.where == Part::Where::nowhere) return nullptr;
      if (beyond.where == Part::Where::ghost) return ghosts + beyond.slab * slab + within;
      s = beyond.slab;
    }
    return x + s * slab + within;
  }

  // Points [i0, i1) of line (l, z), which begins at `out`.
  void line(const S* x, const S* ghosts, S* out, std::ptrdiff_t k, std::ptrdiff_t l, std::ptrdiff_t z,
            std::ptrdiff_t i0, std::ptrdiff_t i1) const {
    const auto& axes = part_.axes;
    const int ey = end_of(l, axes.n[1]), ez = end_of(part_.z0 + z, axes.n[2]);
    const S* lines[9];
    for (int sz = -1; sz <= 1; ++sz)
      for (int sy = -1; sy <= 1; ++sy)
        lines[4 + sy + 3 * sz] = star_ && sy && sz ? nullptr : line_at(x, ghosts, k, l, z, sy, sz);
    const std::ptrdiff_t a = std::max<std::ptrdiff_t>(i0, 1), b = std::min(i1, part_.nx - 1);
    if (i0 == 0) end_point(x, ghosts, lines, k, 0, ey, ez, out);
    if (a < b) inner(lines, table(0, ey, ez), k, a * k, (b - a) * k, out + a * k);
    if (i1 == part_.nx && part_.nx > 1) end_point(x, ghosts, lines, k, part_.nx - 1, ey, ez, out);
  }

  // n inner elements of a line from `first` on.
  void inner(const S* const* lines, const Table<S>& t, std::ptrdiff_t k, std::ptrdiff_t first, std::ptrdiff_t n,
             S* to) const {
    const S* from[9];
    const S* const none = zero_.data() + k;
    for (int s = 0; s < 9; ++s) from[s] = lines[s] ? lines[s] + first : none;
    if (star_ && part_.axes.real[1]) {
      star_line<true>(from[4], from[3], from[5], from[1], from[7], t, k, n, to);
    } else if (star_) {
      star_line<false>(from[4], from[3], from[5], from[1], from[7], t, k, n, to);
    } else if (part_.axes.real[1]) {
      full_line(from, t.data(), k, n, to, std::make_index_sequence<9>{});
    } else {
      const S* const three[3] = {from[1], from[4], from[7]};
      S w[9];
      for (int sz = 0; sz < 3; ++sz) std::copy_n(t.data() + 9 * sz + 3, 3, w + 3 * sz);
      full_line(three, w, k, n, to, std::make_index_sequence<3>{});
    }
  }

  // The first or last point of a line, whose neighbours may be at the other end or in the ghosts.
  void end_point(const S* x, const S* ghosts, const S* const* lines, std::ptrdiff_t k, std::ptrdiff_t i, int ey, int ez,
                 S* out) const {
    const auto& axes = part_.axes;
    const auto& t = table(end_of(part_.x0 + i, axes.n[0]), ey, ez);
    for (std::ptrdiff_t c = 0; c < k; ++c) {
      S sum{};
      for (int s = 0; s < 9; ++s) {
        if (!lines[s]) continue;
        for (int sx = -1; sx <= 1; ++sx) {
          if (star_ && s != 4 && sx) continue;
          const S* from = nullptr;
          if (i + sx >= 0 && i + sx < part_.nx) {
            from = lines[s] + (i + sx) * k;
          } else if (part_.on_line) {
            const auto& beyond = sx < 0 ? part_.below : part_.above;
            if (beyond.where == Part::Where::own) from = x + beyond.slab * k;
            if (beyond.where == Part::Where::ghost) from = ghosts + beyond.slab * k;
          } else if (const Global to = axes.neighbour(0, i, sx); to >= 0) {
            from = lines[s] + std::ptrdiff_t(to) * k;
          }
          if (from) sum += t[std::size_t(3 * s + 1 + sx)] * from[c];
        }
      }
      out[i * k + c] = sum;
    }
  }

  Part part_;
  bool star_;
  std::vector<Table<S>> tables_;
  mutable std::vector<S> zero_;
};

}  // namespace stencils

template <Scalar T>
struct Stencil<T>::Parts {
  using Real = real_t<T>;
  stencils::Part part;
  stencils::Coefficients<T> forward;
  // With real weights, complex columns are processed as twice as many real ones.
  bool real_weights = true;
  std::unique_ptr<stencils::Kernel<T>> kernel[2];  // product, adjoint product
  std::unique_ptr<stencils::Kernel<Real>> real_kernel[2];
  std::shared_ptr<const comm::Pattern> pattern;
  std::map<int, std::unique_ptr<comm::Exchange>> exchanges;
  // Ghosts of as many slabs as sweeps() does steps: x is exchanged each time, f and a varying diagonal only when they
  // change.
  struct Deep {
    int steps = 0;
    std::unique_ptr<comm::Exchange> values, sides;
    std::vector<T> f, d;                        // ghosts below this rank's slabs, then those above
    const void* known[2] = {nullptr, nullptr};  // the vectors whose ghosts f and d hold
  };
  std::map<std::pair<int, bool>, Deep> deep;           // by steps, and whether the diagonal varies
  std::ptrdiff_t slabs = 0;                            // owned slabs; in one dimension, one slab of all points
  std::ptrdiff_t lowest_inner = 0, highest_inner = 0;  // slabs [lowest, highest) read no ghosts

  std::map<int, Tuner> tuners;  // by number of columns
  double operations = 0;        // for each point
  Deep* last_deep = nullptr;    // of the last sweeps()

  /// f(kernel, x, ghosts, y, columns), with complex columns as twice as many real ones where the weights are real.
  template <class F>
  void with_kernel(const T* x, const T* ghosts, T* y, int k, bool adjoint, F&& f) const {
    constexpr int width = is_complex<T> ? 2 : 1;
    if (real_weights)
      f(*real_kernel[adjoint], reinterpret_cast<const Real*>(x), reinterpret_cast<const Real*>(ghosts),
        reinterpret_cast<Real*>(y), std::ptrdiff_t(k) * width);
    else if constexpr (is_complex<T>) f(*kernel[adjoint], x, ghosts, y, std::ptrdiff_t(k));
  }
  void run(const T* x, const T* ghosts, T* y, int k, bool adjoint, std::ptrdiff_t from, std::ptrdiff_t to,
           const comm::Communicator& comm) const {
    const double points = double(to - from) * double(part.nx * part.ny) * k;
    Trace::work("product", 2 * points * sizeof(T), points * operations);
    if (real_weights) {
      constexpr int width = is_complex<T> ? 2 : 1;
      real_kernel[adjoint]->run(reinterpret_cast<const Real*>(x), reinterpret_cast<const Real*>(ghosts),
                                reinterpret_cast<Real*>(y), std::ptrdiff_t(k) * width, from, to, comm);
    } else {
      kernel[adjoint]->run(x, ghosts, y, k, from, to, comm);
    }
  }
};

}  // namespace tacit::op
