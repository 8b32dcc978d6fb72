#include "recurrence_impl.hpp"

#include <tacit/base/trace.hpp>
#include <tacit/exec/tasks.hpp>
#include <tacit/op/stencil.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <type_traits>
#include <utility>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace tacit::op {
namespace {

// Where a point stands on an axis; an axis of one point has both ends there.
constexpr int low_end = 1, high_end = 2;
int end_of(Global i, Global n) {
  return (i == 0 ? low_end : 0) | (i == n - 1 ? high_end : 0);
}

// The grid with its slowest axis third and, but for a line, its fastest first: a plane is a box of one point in the
// middle.
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
  /// The point that a neighbour of `at` on an axis is; -1 when there is none.
  Global neighbour(int axis, Global at, int step) const {
    const Global to = at + step;
    if (to >= 0 && to < n[axis]) return to;
    return boundary[axis] == Boundary::periodic ? (to + n[axis]) % n[axis] : -1;
  }
};

// 27 coefficients of the points at (sx, sy, sz) from a point's own, with what stands for outer points folded in.
template <class S>
using Table = std::array<S, 27>;
constexpr int slot(int sx, int sy, int sz) {
  return 13 + sx + 3 * sy + 9 * sz;
}

// Whether the weight of step d enters the coefficient of the point s steps away. On one axis, A is the sum over d of
// w_d S_d, with S_d the shift by d closed at the ends; this is entry (i, i + s) of S_d, or of its transpose.
bool enters(int s, int d, int end, Boundary boundary, bool transposed) {
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

// f(column, coefficient) for the points of the shape around (ix, iy, iz), a point that periodic axes make appear twice
// named twice.
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

// y_i = sum of w over the three points of the middle line and one of each other line.
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

// y_i = sum of w over three points of every line.
template <class S, std::size_t... L>
inline void full_line(const S* const* lines, const S* w, std::ptrdiff_t step, std::ptrdiff_t n, S* __restrict out,
                      std::index_sequence<L...>) {
  constexpr std::size_t count = sizeof...(L);
  const S* p[count];
  S a[count], b[count], c[count];
  for (std::size_t l = 0; l < count; ++l) p[l] = lines[l], a[l] = w[3 * l], b[l] = w[3 * l + 1], c[l] = w[3 * l + 2];
#pragma GCC ivdep
  for (std::ptrdiff_t i = 0; i < n; ++i) {
    S left{}, middle{}, right{};  // three chains of additions, not one that waits for itself
    ((left += a[L] * p[L][i - step], middle += b[L] * p[L][i], right += c[L] * p[L][i + step]), ...);
    out[i] = middle + (left + right);
  }
}

// A rank's part of the box: lines of nx points, ny lines a slab, slabs [z0, z0 + nz). On a line, points [x0, x0 + nx).
struct Part {
  Axes axes;
  bool on_line;
  Global x0 = 0, z0 = 0;
  std::ptrdiff_t nx, ny, nz;
  // Where the slab before the first (after the last) stands: in the ghosts, among this rank's own, or nowhere.
  enum class Where { nowhere, own, ghost };
  struct Beyond {
    Where where = Where::nowhere;
    std::ptrdiff_t slab = 0;  // local, or among the ghosts
  } below, above;
};

// Most elements of a line that are worked on at once, so that a few lines stay in the first caches.
constexpr std::ptrdiff_t piece_bytes = 1 << 16;
// Three slabs of a tile stay in the second cache.
constexpr std::ptrdiff_t tile_bytes = 3 << 17;
// Elements between two polls.
constexpr std::ptrdiff_t poll_elements = 1 << 16;
constexpr std::ptrdiff_t parallel_elements = 1 << 15;
// Of powers(): elements that a step goes on by, and what the steps that go together may hold of the second cache.
constexpr std::ptrdiff_t wave_elements = 1 << 12, wave_bytes = 3 << 19;

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

  // Slabs [from, to) of y = A x; x and y hold k interleaved columns of S. `ghosts`: the halo's slabs, if they are
  // needed.
  void run(const S* x, const S* ghosts, S* y, std::ptrdiff_t k, std::ptrdiff_t from, std::ptrdiff_t to,
           const comm::Communicator& comm) const {
    const std::ptrdiff_t nx = part_.nx, ny = part_.ny;
    const std::ptrdiff_t slabs = to - from;
    if (slabs <= 0 || nx == 0) return;
    [[maybe_unused]] const std::ptrdiff_t elements = slabs * ny * nx * k;
    std::ptrdiff_t threads = 1;
#ifdef _OPENMP
    if (elements >= parallel_elements) threads = omp_get_max_threads();
#endif
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
      const std::ptrdiff_t item = std::ptrdiff_t(which), chunk = item / (tiles * pieces), tile = item / pieces % tiles, p = item % pieces;
      const std::ptrdiff_t begin = from + slabs * chunk / chunks, end = from + slabs * (chunk + 1) / chunks;
      std::ptrdiff_t since = 0;
      for (std::ptrdiff_t z = begin; z < end; ++z)
        for (std::ptrdiff_t l = ny * tile / tiles; l < ny * (tile + 1) / tiles; ++l) {
          const std::ptrdiff_t i0 = nx * p / pieces, i1 = nx * (p + 1) / pieces;
          line(x, ghosts, y, k, l, z, i0, i1);
          since += (i1 - i0) * k;
          if (since >= poll_elements) {
            since = 0;
            poll(comm);
          }
        }
      poll(comm);
    });
  }

 private:
  static void poll(const comm::Communicator& comm) {
    if (exec::may_poll()) comm.poll();
  }
  // What a missing line is read from.
  void zero(std::size_t n) const {
    if (zero_.size() < n) zero_.assign(n, S(0));
  }
  const Table<S>& table(int ex, int ey, int ez) const {
    return tables_[ex + 4 * ey + 16 * ez];
  }

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

  // Points [i0, i1) of line (l, z).
  void line(const S* x, const S* ghosts, S* y, std::ptrdiff_t k, std::ptrdiff_t l, std::ptrdiff_t z, std::ptrdiff_t i0,
            std::ptrdiff_t i1) const {
    const auto& axes = part_.axes;
    const int ey = end_of(l, axes.n[1]), ez = end_of(part_.z0 + z, axes.n[2]);
    const S* lines[9];
    for (int sz = -1; sz <= 1; ++sz)
      for (int sy = -1; sy <= 1; ++sy)
        lines[4 + sy + 3 * sz] = star_ && sy && sz ? nullptr : line_at(x, ghosts, k, l, z, sy, sz);
    S* const out = y + (z * part_.ny + l) * part_.nx * k;
    const std::ptrdiff_t a = std::max<std::ptrdiff_t>(i0, 1), b = std::min(i1, part_.nx - 1);
    if (i0 == 0) end_point(x, ghosts, lines, k, 0, ey, ez, out);
    if (a < b) inner(lines, table(0, ey, ez), k, a * k, (b - a) * k, out + a * k);
    if (i1 == part_.nx && part_.nx > 1) end_point(x, ghosts, lines, k, part_.nx - 1, ey, ez, out);
  }

  // n elements of a line from `first` on, which has neighbours on its own line.
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

  // A line's first or last point, whose neighbours may stand at the other end or in the ghosts.
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

}  // namespace

Grid::Grid(std::vector<Global> n, std::vector<Boundary> b) : dimensions(int(n.size())) {
  require(n.size() >= 1 && n.size() <= 3, "a grid of ", n.size(), " dimensions; 1 to 3 are known");
  require(b.size() == n.size(), "a grid of ", n.size(), " dimensions was given ", b.size(), " boundaries");
  Global all = 1;
  for (std::size_t axis = 0; axis < n.size(); ++axis) {
    require(n[axis] >= 1, "a grid with ", n[axis], " points along axis ", axis);
    require(n[axis] <= (Global(1) << 62) / all, "a grid of more than 2^62 points");
    all *= n[axis];
    points[axis] = n[axis];
    boundary[axis] = b[axis];
  }
}

Grid::Grid(std::vector<Global> n, Boundary everywhere) : Grid(n, std::vector<Boundary>(n.size(), everywhere)) {}

layout::Partition Grid::slabs(int parts) const {
  const auto of_slabs = layout::Partition::blocks(points[std::size_t(dimensions) - 1], parts);
  std::vector<Global> offsets;
  for (Global o : of_slabs.offsets()) offsets.push_back(o * slab());
  return layout::Partition(std::move(offsets));
}

template <Scalar T>
Weights<T> Weights<T>::of(T center, T face, T edge, T corner) {
  const T kinds[4] = {center, face, edge, corner};
  Weights w;
  for (int dz = -1; dz <= 1; ++dz)
    for (int dy = -1; dy <= 1; ++dy)
      for (int dx = -1; dx <= 1; ++dx) w.at(dx, dy, dz) = kinds[(dx != 0) + (dy != 0) + (dz != 0)];
  return w;
}

namespace {
void check_dimensions(int dimensions) {
  require(dimensions >= 1 && dimensions <= 3, "a stencil of ", dimensions, " dimensions; 1 to 3 are known");
}
template <Scalar T>
void add(Weights<T>& w, int axis, int step, double v) {
  w.at(axis == 0 ? step : 0, axis == 1 ? step : 0, axis == 2 ? step : 0) += T(real_t<T>(v));
}
}  // namespace

template <Scalar T>
Weights<T> laplacian(int dimensions, std::array<double, 3> h) {
  check_dimensions(dimensions);
  Weights<T> w;
  for (int axis = 0; axis < dimensions; ++axis) {
    const double v = 1 / (h[axis] * h[axis]);
    add(w, axis, -1, -v);
    add(w, axis, 1, -v);
    add(w, axis, 0, 2 * v);
  }
  return w;
}

template <Scalar T>
Weights<T> isotropic_laplacian(int dimensions, double h) {
  check_dimensions(dimensions);
  if (dimensions == 1) return laplacian<T>(1, {h, h, h});
  const auto weights = [&](double center, double face, double edge, double corner, double divisor) {
    const double v = 1 / (divisor * h * h);
    const auto t = [&](double a) { return T(real_t<T>(a * v)); };
    auto w = Weights<T>::of(t(center), t(face), t(edge), t(corner));
    for (int i = 0; dimensions == 2 && i < 9; ++i) w.value[i] = w.value[18 + i] = T(0);
    return w;
  };
  return dimensions == 2 ? weights(20, -4, -1, 0, 6) : weights(128, -14, -3, -1, 30);
}

template <Scalar T>
Weights<T> convection(int dimensions, std::array<double, 3> velocity, Convection how, std::array<double, 3> h) {
  check_dimensions(dimensions);
  Weights<T> w;
  for (int axis = 0; axis < dimensions; ++axis) {
    const double v = velocity[axis] / h[axis];
    if (how == Convection::central) {
      add(w, axis, -1, -v / 2);
      add(w, axis, 1, v / 2);
    } else {
      add(w, axis, v > 0 ? -1 : 1, -std::abs(v));
      add(w, axis, 0, std::abs(v));
    }
  }
  return w;
}

template <Scalar T>
Rows<T> stencil_rows(const Grid& grid, const Weights<T>& weights, Global begin, Global end) {
  require(begin >= 0 && begin <= end && end <= grid.size(), "rows ", begin, " to ", end, " of a grid of ", grid.size(),
          " points");
  const Axes axes(grid);
  const Coefficients<T> c(axes, weights, false);
  Rows<T> rows;
  rows.start.reserve(std::size_t(end - begin) + 1);
  std::vector<std::pair<Global, T>> row;
  for (Global i = begin; i < end; ++i) {
    row.clear();
    each_entry(axes, c, i % axes.n[0], i / axes.n[0] % axes.n[1], i / axes.n[0] / axes.n[1],
               [&](Global column, T value) { row.emplace_back(column, value); });
    std::stable_sort(row.begin(), row.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (std::size_t e = 0; e < row.size(); ++e) {
      if (e > 0 && row[e].first == row[e - 1].first) {
        rows.value.back() += row[e].second;
      } else {
        rows.column.push_back(row[e].first);
        rows.value.push_back(row[e].second);
      }
    }
    rows.start.push_back(Global(rows.column.size()));
  }
  return rows;
}

template <Scalar T>
struct Stencil<T>::Parts {
  using Real = real_t<T>;
  Part part;
  Coefficients<T> forward;
  // With real weights, complex columns are twice as many real ones.
  bool real_weights = true;
  std::unique_ptr<Kernel<T>> kernel[2];  // product, adjoint product
  std::unique_ptr<Kernel<Real>> real_kernel[2];
  std::shared_ptr<const comm::Pattern> pattern;
  std::vector<std::pair<Local, Local>> sent;  // runs of the elements to send: first, count
  std::map<int, std::unique_ptr<comm::Exchange>> exchanges;
  std::ptrdiff_t slabs = 0;                            // that this rank owns; on a line, one made of its points
  std::ptrdiff_t lowest_inner = 0, highest_inner = 0;  // slabs between them read no ghost

  void run(const T* x, const T* ghosts, T* y, int k, bool adjoint, std::ptrdiff_t from, std::ptrdiff_t to,
           const comm::Communicator& comm) const {
    if (real_weights) {
      constexpr int width = is_complex<T> ? 2 : 1;
      real_kernel[adjoint]->run(reinterpret_cast<const Real*>(x), reinterpret_cast<const Real*>(ghosts),
                                reinterpret_cast<Real*>(y), std::ptrdiff_t(k) * width, from, to, comm);
    } else {
      kernel[adjoint]->run(x, ghosts, y, k, from, to, comm);
    }
  }
};

template <Scalar T>
Stencil<T>::Stencil(comm::Communicator comm, const Grid& grid, const Weights<T>& weights)
    : Stencil(Space::distributed(comm, grid.slabs(comm.size())), grid, weights) {}

template <Scalar T>
Stencil<T>::Stencil(Space space, const Grid& grid, const Weights<T>& weights)
    : Operator<T, Host>(space, space), grid_(grid), weights_(weights) {
  const auto& comm = space.comm();
  comm::collective(comm, [&] {
    require(!space.is_replicated(), "a stencil works on distributed spaces");
    require(space.size() == grid.size(), "a stencil on ", grid.size(), " points over a space of ", space.size());
    const Global slab = grid.slab();
    for (Global o : space.partition().offsets())
      require(o % slab == 0, "a stencil's ranks own whole slabs of ", slab, " points; a rank begins at ", o);

    const Axes axes(grid);
    const Global first = space.begin() / slab, last = space.end() / slab;
    const bool on_line = grid.dimensions == 1;
    Part part{axes, on_line, 0, 0, 0, 0, 0, {}, {}};
    (on_line ? part.x0 : part.z0) = first;
    part.nx = std::ptrdiff_t(on_line ? last - first : axes.n[0]);
    part.ny = std::ptrdiff_t(axes.n[1]);
    part.nz = std::ptrdiff_t(on_line ? last > first : last - first);
    std::vector<Global> ghost_slabs, needed;
    if (last > first) {
      const int axis = on_line ? 0 : 2;
      const Global below = axes.neighbour(axis, first, -1), above = axes.neighbour(axis, last - 1, 1);
      const auto outside = [&](Global s) { return s >= 0 && (s < first || s >= last); };
      for (Global s : {below, above})
        if (outside(s)) ghost_slabs.push_back(s);
      std::sort(ghost_slabs.begin(), ghost_slabs.end());
      ghost_slabs.erase(std::unique(ghost_slabs.begin(), ghost_slabs.end()), ghost_slabs.end());
      const auto beyond = [&](Global s) -> Part::Beyond {
        if (s < 0) return {};
        if (!outside(s)) return {Part::Where::own, std::ptrdiff_t(s - first)};
        return {Part::Where::ghost, std::lower_bound(ghost_slabs.begin(), ghost_slabs.end(), s) - ghost_slabs.begin()};
      };
      part.below = beyond(below);
      part.above = beyond(above);
    }
    for (Global s : ghost_slabs)
      for (Global i = 0; i < slab; ++i) needed.push_back(s * slab + i);

    parts_.reset(new Parts{part, Coefficients<T>(axes, weights, false), true, {}, {}, {}, {}, {}, part.nz, 0, part.nz});
    Parts& p = *parts_;
    if (part.below.where == Part::Where::ghost) p.lowest_inner = 1;
    if (part.above.where == Part::Where::ghost) p.highest_inner = std::max(p.lowest_inner, part.nz - 1);
    if (p.lowest_inner > p.highest_inner) p.lowest_inner = p.highest_inner;
    if constexpr (is_complex<T>)
      for (const T& v : weights.value) p.real_weights &= v.imag() == 0;
    const Coefficients<T> backward(axes, weights, true);
    for (bool adjoint : {false, true}) {
      const auto& c = adjoint ? backward : p.forward;
      if (p.real_weights) p.real_kernel[adjoint] = std::make_unique<Kernel<real_t<T>>>(part, c);
      else p.kernel[adjoint] = std::make_unique<Kernel<T>>(part, c);
    }
    p.pattern = std::make_shared<const comm::Pattern>(
        comm::Pattern::build(comm, space.partition().offsets(), std::move(needed)));
    for (Local i : p.pattern->send_index) {
      if (!p.sent.empty() && p.sent.back().first + p.sent.back().second == i) ++p.sent.back().second;
      else p.sent.emplace_back(i, 1);
    }
    // Made here and not at the first product, which a rank that fails may never come to: ranks count alike.
    if (comm.size() > 1) exchange(1);

    // The entries of any grid are those of one with at most four points an axis.
    Grid small = grid;
    for (Global& n : small.points) n = std::min<Global>(n, 4);
    const Rows<T> rows = stencil_rows(small, weights, 0, small.size());
    for (const T& v : rows.value) {
      largest_ = std::max({largest_, double(std::abs(std::real(v))), double(std::abs(std::imag(v)))});
      if (!is_finite(v)) fault_ = "the stencil has a weight that is not finite";
    }
  });
}

template <Scalar T>
Stencil<T>::~Stencil() = default;

template <Scalar T>
comm::Exchange& Stencil<T>::exchange(int columns) const {
  auto& e = parts_->exchanges[columns];
  if (!e) e = std::make_unique<comm::Exchange>(this->domain().comm(), parts_->pattern, sizeof(T) * columns);
  return *e;
}

template <Scalar T>
int Stencil<T>::begin(const Vector<T, Host>& x, Vector<T, Host>&, bool) const {
  if (this->domain().comm().size() == 1) return -1;
  const std::size_t k = std::size_t(x.columns());
  auto& e = exchange(x.columns());
  const int token = e.open();
  T* out = reinterpret_cast<T*>(e.outgoing(token));
  for (const auto& [first, count] : parts_->sent)
    out = std::copy_n(x.data() + std::size_t(first) * k, std::size_t(count) * k, out);
  e.post(token);
  return token;
}

template <Scalar T>
void Stencil<T>::abandon(int token) const noexcept {
  for (const auto& [columns, e] : parts_->exchanges)
    if (e) e->abandon(token);
}

template <Scalar T>
void Stencil<T>::finish(const Vector<T, Host>& x, Vector<T, Host>& y, bool adjoint, int token) const {
  const auto& comm = this->domain().comm();
  const Parts& p = *parts_;
  const int k = x.columns();
  const Span span(adjoint ? "stencil adjoint" : "stencil product", "op",
                  Trace::on() ? std::int64_t(cost().bytes) * k : 0);
  if (token < 0) return p.run(x.data(), nullptr, y.data(), k, adjoint, 0, p.slabs, comm);
  p.run(x.data(), nullptr, y.data(), k, adjoint, p.lowest_inner, p.highest_inner, comm);
  auto& e = exchange(k);
  e.wait(token);
  const T* const ghosts = reinterpret_cast<const T*>(e.incoming(token));
  p.run(x.data(), ghosts, y.data(), k, adjoint, 0, p.lowest_inner, comm);
  p.run(x.data(), ghosts, y.data(), k, adjoint, p.highest_inner, p.slabs, comm);
  e.close(token);
}

template <Scalar T>
void Stencil<T>::powers(std::span<Vector<T, Host>* const> v, std::span<const RecurrenceStep<T>> steps,
                        const Vector<T, Host>* before) const {
  if (grid_.dimensions == 1 || !this->powers_are_local(v, steps, before))
    return Operator<T, Host>::powers(v, steps, before);
  const exec::Tasks::InOrder in_order(true);
  const Parts& p = *parts_;
  const auto& comm = this->domain().comm();
  const int levels = int(steps.size());
  const Span span("stencil powers", "op", Trace::on() ? std::int64_t(cost().bytes) * levels : 0);
  const std::ptrdiff_t slab = std::ptrdiff_t(grid_.slab()), slabs = p.slabs;
  const auto advance = [&](int c, std::ptrdiff_t from, std::ptrdiff_t to, std::ptrdiff_t pieces) {
    p.run(v[c]->data(), nullptr, v[c + 1]->data(), 1, false, from, to, comm);
    const T* const last = c > 0 ? v[c - 1]->data() : before ? before->data() : nullptr;
    const T* const x = v[c]->data();
    T* const y = v[c + 1]->data();
    const std::ptrdiff_t first = from * slab, n = (to - from) * slab;
    exec::each(std::size_t(pieces), pieces > 1, [&](std::size_t i) {
      const std::ptrdiff_t k = std::ptrdiff_t(i);
      extend_rows(steps[std::size_t(c)], last, x, y, first + n * k / pieces, first + n * (k + 1) / pieces);
    });
  };
  std::ptrdiff_t threads = 1;
#ifdef _OPENMP
  if (slabs * slab >= parallel_elements) threads = omp_get_max_threads();
#endif
  // Slabs that a step goes on by, and steps that go together.
  const std::ptrdiff_t group = std::max<std::ptrdiff_t>(1, wave_elements / slab);
  const std::ptrdiff_t window = (group + 2) * slab * std::ptrdiff_t(sizeof(T));
  const int most = int(std::clamp<std::ptrdiff_t>(wave_bytes / window - 1, 1, levels));
  const bool periodic = grid_.boundary[std::size_t(grid_.dimensions) - 1] == Boundary::periodic;
  if (threads > 1 || periodic || most == 1) {
    const std::ptrdiff_t pieces = threads > 1 ? 4 * threads : 1;
    for (int c = 0; c < levels; ++c) advance(c, 0, slabs, pieces);
    return;
  }
  std::vector<std::ptrdiff_t> done(std::size_t(levels), 0);  // slabs of each step's result
  for (int begin = 0; begin < levels; begin += most) {
    const int end = std::min(levels, begin + most);
    while (done[std::size_t(end) - 1] < slabs)
      for (int c = begin; c < end; ++c) {
        auto& at = done[std::size_t(c)];
        const std::ptrdiff_t readable = c == begin ? at + group : done[std::size_t(c) - 1];
        // A slab needs the one after it, unless there is none.
        const std::ptrdiff_t to = c > begin && readable < slabs ? readable - 1 : std::min(readable, slabs);
        if (to > at) advance(c, at, to, 1), at = to;
      }
  }
}

template <Scalar T>
std::vector<T> Stencil<T>::diagonal() const {
  const Parts& p = *parts_;
  const Axes& axes = p.part.axes;
  std::vector<T> d(std::size_t(this->range().local_size()));
  for (std::size_t r = 0; r < d.size(); ++r) {
    const Global i = this->range().begin() + Global(r);
    each_entry(axes, p.forward, i % axes.n[0], i / axes.n[0] % axes.n[1], i / axes.n[0] / axes.n[1],
               [&](Global column, T value) {
                 if (column == i) d[r] += value;
               });
  }
  return d;
}

template <Scalar T>
Cost Stencil<T>::cost() const {
  const Parts& p = *parts_;
  const double n = double(this->range().local_size());
  int points = 1;
  for (int axis = 0; axis < grid_.dimensions; ++axis) points = p.forward.star() ? points + 2 : points * 3;
  Cost c;
  // A complex number times a real one: two products and two sums.
  c.flops = n * points * (!is_complex<T> ? 2 : p.real_weights ? 4 : 8);
  c.bytes = 2 * n * sizeof(T);
  c.messages = double(p.pattern->send_ranks.size());
  c.message_bytes = double(p.pattern->send_index.size()) * sizeof(T);
  return c;
}

#define TACIT_INSTANTIATE(T)                                                                        \
  template struct Weights<T>;                                                                       \
  template Weights<T> laplacian<T>(int, std::array<double, 3>);                                     \
  template Weights<T> isotropic_laplacian<T>(int, double);                                          \
  template Weights<T> convection<T>(int, std::array<double, 3>, Convection, std::array<double, 3>); \
  template Rows<T> stencil_rows<T>(const Grid&, const Weights<T>&, Global, Global);                 \
  template class Stencil<T>;
TACIT_INSTANTIATE(float)
TACIT_INSTANTIATE(double)
TACIT_INSTANTIATE(std::complex<float>)
TACIT_INSTANTIATE(std::complex<double>)

}  // namespace tacit::op
