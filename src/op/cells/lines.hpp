// Loops over cells and faces of patches, and products on lines of cells.
#pragma once

#include <tacit/base/trace.hpp>
#include <tacit/exec/tasks.hpp>
#include <tacit/op/cells/finite_volume.hpp>
#include "base/registers.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <utility>

namespace tacit::op {
namespace {

using Cell = std::array<Global, 3>;

// The numbers of faces normal to an axis in a patch, along each axis: as many as cells, and one more along `axis`.
std::array<Global, 3> face_counts(const CellBox& b, int axis) {
  std::array<Global, 3> n{b.size(0), b.size(1), b.size(2)};
  ++n[std::size_t(axis)];
  return n;
}

std::size_t face_count(const CellBox& b, int axis) {
  const auto n = face_counts(b, axis);
  return std::size_t(n[0] * n[1] * n[2]);
}

// Among the faces normal to an axis in a patch, the place of that below a cell (side 0), or above it.
inline std::size_t face_place(const CellBox& b, Cell c, int axis, int side) {
  c[std::size_t(axis)] += side;
  const auto n = face_counts(b, axis);
  return std::size_t((c[0] - b.lower[0]) + n[0] * ((c[1] - b.lower[1]) + n[1] * (c[2] - b.lower[2])));
}

// The place of a cell in a patch.
inline std::size_t cell_place(const CellBox& b, const Cell& c) {
  return std::size_t((c[0] - b.lower[0]) + b.size(0) * ((c[1] - b.lower[1]) + b.size(1) * (c[2] - b.lower[2])));
}

// Among the ghosts of a patch, the place of a cell beside it along an axis.
inline std::size_t ghost_place(const Halo& halo, const CellBox& b, std::size_t p, const Cell& c, int axis, int side) {
  const std::size_t ax = std::size_t(axis), u = ax == 0 ? 1 : 0, v = ax == 2 ? 1 : 2;
  return halo.start[6 * p + 2 * ax + std::size_t(side)] +
         std::size_t((c[u] - b.lower[u]) + b.size(int(u)) * (c[v] - b.lower[v]));
}

// Calls f(i, cell, p) for the faces normal to an axis: number i among those of all patches, the cell above, patch p.
template <class F>
void each_face(const Boxes& boxes, int axis, F&& f) {
  std::size_t i = 0;
  for (std::size_t p = 0; p < boxes.count(); ++p) {
    const CellBox& b = boxes.own(p);
    const auto n = face_counts(b, axis);
    for (Global z = 0; z < n[2]; ++z)
      for (Global y = 0; y < n[1]; ++y)
        for (Global x = 0; x < n[0]; ++x) f(i++, Cell{b.lower[0] + x, b.lower[1] + y, b.lower[2] + z}, p);
  }
}

// Calls f(i, cell, p, inner) for pieces of the lines of faces along the first axis: face i, that below the cell, and
// those after it: `inner` faces between cells of the patch, or 0 for one face at an end of the patch.
template <class F>
void each_line_of_faces(const Boxes& boxes, int axis, F&& f) {
  std::size_t i = 0;
  for (std::size_t p = 0; p < boxes.count(); ++p) {
    const CellBox& b = boxes.own(p);
    const auto n = face_counts(b, axis);
    for (Global z = 0; z < n[2]; ++z)
      for (Global y = 0; y < n[1]; ++y) {
        const Global k = axis == 1 ? y : z;
        const bool end = axis > 0 && (k == 0 || k + 1 == n[std::size_t(axis)]);
        for (Global x = 0; x < n[0];) {
          const bool one = axis == 0 ? x == 0 || x + 1 == n[0] : end;
          const Global inner = one ? 0 : axis == 0 ? n[0] - 2 : n[0];
          f(i, Cell{b.lower[0] + x, b.lower[1] + y, b.lower[2] + z}, p, inner);
          x += std::max<Global>(1, inner), i += std::size_t(std::max<Global>(1, inner));
        }
      }
  }
}

Cell below(Cell c, int axis) {
  --c[std::size_t(axis)];
  return c;
}

// The kind of a face: between two cells, with a given value, with a given flux; none: both sides are the same cell (a
// periodic axis of one cell).
enum class Kind { inner, value, flux, none };
Kind kind_of(const Boxes& boxes, const Cell& above, int axis) {
  const auto a = std::size_t(axis);
  const Domain& d = boxes.domain();
  const Global at = above[a], n = d.cells(axis);
  if (couples_itself(d, axis)) return Kind::none;
  if ((at == 0 || at == n) && !d.periodic(axis))
    return d.boundary[a][at != 0] == Boundary::dirichlet ? Kind::value : Kind::flux;
  return boxes.index(above) >= 0 && boxes.index(below(above, axis)) >= 0 ? Kind::inner : Kind::value;
}

// As above, for a face of patch b: without a look-up for inner faces.
Kind kind_of(const Boxes& boxes, const CellBox& b, const Cell& above, int axis) {
  const auto a = std::size_t(axis);
  if (above[a] > b.lower[a] && above[a] < b.upper[a]) return Kind::inner;
  return kind_of(boxes, above, axis);
}

// The distance from centre to centre, or from the centre to the face.
double face_distance(const Boxes& boxes, const CellBox& b, const Cell& above, int axis, Kind kind) {
  const auto a = std::size_t(axis);
  const Domain& d = boxes.domain();
  if (kind == Kind::inner) return d.distance(axis, above[a]);
  const Global inside = above[a] == b.lower[a] ? above[a] : above[a] - 1;
  return 0.5 * d.width(axis, inside);
}

double face_area(const Domain& d, const Cell& c, int axis) {
  double area = 1;
  for (int o = 0; o < d.dimensions; ++o)
    if (o != axis) area *= d.width(o, c[std::size_t(o)]);
  return area;
}

// Coordinate `of` of a cell's centre or, with normal >= 0, of the centre of the face below the cell along `normal`.
double place(const Domain& d, const Cell& c, int of, int normal) {
  if (of >= d.dimensions) return 0.5;
  // Both ends of a period are one face.
  if (of == normal && d.periodic(of) && c[std::size_t(of)] == d.cells(of)) return d.faces[std::size_t(of)].front();
  return of == normal ? d.faces[std::size_t(of)][std::size_t(c[std::size_t(of)])] : d.centre(of, c[std::size_t(of)]);
}

double volume(const Domain& d, const Cell& c) {
  double v = 1;
  for (int a = 0; a < d.dimensions; ++a) v *= d.width(a, c[std::size_t(a)]);
  return v;
}

// Calls f(position, cell) for the cells of this rank's patch p, in the order of vectors.
template <class F>
void each_own(const Boxes& boxes, std::size_t p, F&& f) {
  const CellBox& b = boxes.own(p);
  std::size_t i = std::size_t(boxes.offset(p));
  for (Global z = b.lower[2]; z < b.upper[2]; ++z)
    for (Global y = b.lower[1]; y < b.upper[1]; ++y)
      for (Global x = b.lower[0]; x < b.upper[0]; ++x) f(i++, Cell{x, y, z});
}
template <class F>
void each_own(const Boxes& boxes, F&& f) {
  for (std::size_t p = 0; p < boxes.count(); ++p) each_own(boxes, p, f);
}

// Fills the ghosts of a halo from this rank's cells and from the received ones.
template <class T>
void fill_ghosts(const Halo& halo, const T* own, const T* remote, int columns, T* ghosts) {
  const auto fill = [&](auto columns) {
    const auto k = std::size_t(columns);
    for (std::size_t i = 0; i < halo.source.size(); ++i) {
      const Local s = halo.source[i];
      T* const to = ghosts + i * k;
      if (s == Halo::nothing) std::fill_n(to, k, T(0));
      else std::copy_n(s >= 0 ? own + std::size_t(s) * k : remote + std::size_t(Halo::ghost(s)) * k, k, to);
    }
  };
  if (columns == 1) fill(std::integral_constant<int, 1>{});
  else if (columns == 2) fill(std::integral_constant<int, 2>{});
  else fill(columns);
}

template <class T>
void pack(const comm::Pattern& pattern, const T* own, int columns, std::byte* to) {
  T* const out = reinterpret_cast<T*>(to);
  const auto k = std::size_t(columns);
  for (std::size_t i = 0; i < pattern.send_index.size(); ++i)
    std::copy_n(own + std::size_t(pattern.send_index[i]) * k, k, out + i * k);
}

// The data of a patch in a product; ghosts by side. `compact`: cx, cy, cz and d are those of a line along each axis, d
// with what mass and the first axis add.
template <class T>
struct PatchView {
  std::ptrdiff_t nx, ny, nz;
  const T* x;
  T* y;
  const T *d, *cx, *cy, *cz;
  bool compact;
  const T* ghost[6];
};
enum class What { all, before_halo, after_halo };

// 64 bytes: some cells with K interleaved columns (1 or 2).
template <class T, int K>
struct Some {
  static constexpr int cells = 64 / int(sizeof(T)) / K;
  using Vector = Registers<T, K * cells>;
  // Repeats each coefficient for all columns.
  static Vector coefficients(const T* from) {
    constexpr int lanes = Vector::lanes;
    if constexpr (K == 1) {
      return Vector::load(from);
    } else if constexpr (lanes == 2) {
      return Vector::each([&](int i) { return typename Vector::V{from[i], from[i]}; });
    } else {
      using Few = Registers<T, cells, lanes / 2>;
      return Vector::each([&](int i) __attribute__((always_inline)) {
        const auto c = Few::load(from, i);
        return [&]<int... l>(std::integer_sequence<int, l...>) __attribute__((always_inline)) {
          return __builtin_shufflevector(c, c, l / 2 ...);
        }
        (std::make_integer_sequence<int, lanes>{});
      });
    }
  }
};

// The coefficients of a line of cells, for one of them and (K interleaved columns) for Some.
template <class T, int D, int K, bool Compact>
struct LineOfCells {
  const T *d, *x, *y = nullptr, *y_up = nullptr, *z = nullptr, *z_up = nullptr;
  using V = typename Some<T, K>::Vector;

  LineOfCells(const PatchView<T>& p, std::ptrdiff_t j, std::ptrdiff_t l)
      : d(Compact ? p.d : p.d + p.nx * (j + p.ny * l)), x(Compact ? p.cx : p.cx + (p.nx + 1) * (j + p.ny * l)) {
    if constexpr (D > 1) y = Compact ? p.cy + j : p.cy + p.nx * (j + (p.ny + 1) * l), y_up = y + (Compact ? 1 : p.nx);
    if constexpr (D > 2) z = Compact ? p.cz + l : p.cz + p.nx * (j + p.ny * l), z_up = z + (Compact ? 1 : p.nx * p.ny);
  }
  T across(const T* c, std::ptrdiff_t i) const { return Compact ? *c : c[i]; }
  T diagonal(std::ptrdiff_t i) const {
    T sum = d[i];
    if constexpr (Compact && D > 1) sum += *y + *y_up;
    if constexpr (Compact && D > 2) sum += *z + *z_up;
    return sum;
  }
  [[gnu::always_inline]] auto some_across(const T* c, std::ptrdiff_t i) const {
    if constexpr (Compact) return *c;
    else return Some<T, K>::coefficients(c + i);
  }
  [[gnu::always_inline]] V some_diagonal(std::ptrdiff_t i) const {
    V sum = Some<T, K>::coefficients(d + i);
    if constexpr (Compact && D > 1) sum += *y + *y_up;
    if constexpr (Compact && D > 2) sum += *z + *z_up;
    return sum;
  }
};

// y_i = d_i x_i - sum of c x over the neighbours, for lines [begin, end) and K interleaved columns. before_halo: cells
// of inner lines, without their ends; after_halo: the other cells.
template <class T, int D, int K, bool Compact, class Poll>
void apply_lines(const PatchView<T>& p, What what, std::ptrdiff_t begin, std::ptrdiff_t end, Poll&& poll) {
  const std::ptrdiff_t nx = p.nx, ny = p.ny, nz = p.nz, slab = nx * ny;
  std::ptrdiff_t j = begin % ny, l = begin / ny;
  for (std::ptrdiff_t line = begin; line < end; ++line) {
    const bool side = (D > 1 && (j == 0 || j == ny - 1)) || (D > 2 && (l == 0 || l == nz - 1));
    const T* const x = p.x + K * nx * line;
    T* __restrict const y = p.y + K * nx * line;
    const LineOfCells<T, D, K, Compact> c(p, j, l);
    const T *ym = nullptr, *yp = nullptr, *zm = nullptr, *zp = nullptr;
    if constexpr (D > 1) {
      ym = j > 0 ? x - K * nx : p.ghost[2] + K * nx * l;
      yp = j + 1 < ny ? x + K * nx : p.ghost[3] + K * nx * l;
    }
    if constexpr (D > 2) {
      zm = l > 0 ? x - K * slab : p.ghost[4] + K * nx * j;
      zp = l + 1 < nz ? x + K * slab : p.ghost[5] + K * nx * j;
    }
    const auto cell = [&](std::ptrdiff_t i, int column, T low, T high) {
      const std::ptrdiff_t e = K * i + column;
      T sum = c.x[i] * low + c.x[i + 1] * high;
      if constexpr (D > 1) sum += c.across(c.y, i) * ym[e] + c.across(c.y_up, i) * yp[e];
      if constexpr (D > 2) sum += c.across(c.z, i) * zm[e] + c.across(c.z_up, i) * zp[e];
      return c.diagonal(i) * x[e] - sum;
    };
    if (what == What::all || (what == What::before_halo) != side) {
      std::ptrdiff_t i = 1;
      using V = typename Some<T, K>::Vector;
      constexpr std::ptrdiff_t cells = Some<T, K>::cells;
      const auto some = [&](std::ptrdiff_t i) {
        const auto v = [&](const T* from) { return V::load(from + K * i); };
        V sum = Some<T, K>::coefficients(c.x + i) * v(x - K) + Some<T, K>::coefficients(c.x + 1 + i) * v(x + K);
        if constexpr (D > 1) sum += c.some_across(c.y, i) * v(ym) + c.some_across(c.y_up, i) * v(yp);
        if constexpr (D > 2) sum += c.some_across(c.z, i) * v(zm) + c.some_across(c.z_up, i) * v(zp);
        (c.some_diagonal(i) * v(x) - sum).store(y + K * i);
      };
      for (; i + cells <= nx - 1; i += cells) some(i);
      // The rest in a last whole register, which overlaps the one before.
      if (i > 1 && i < nx - 1) some(nx - 1 - cells), i = nx - 1;
#pragma GCC ivdep
      for (; i < nx - 1; ++i)
        for (int k = 0; k < K; ++k) y[K * i + k] = cell(i, k, x[K * (i - 1) + k], x[K * (i + 1) + k]);
    }
    if (what != What::before_halo)
      for (int k = 0; k < K; ++k) {
        const T low = p.ghost[0][K * line + k], high = p.ghost[1][K * line + k];
        y[k] = cell(0, k, low, nx > 1 ? x[K + k] : high);
        if (nx > 1) y[K * (nx - 1) + k] = cell(nx - 1, k, x[K * (nx - 2) + k], high);
      }
    if (++j == ny) j = 0, ++l, poll();
  }
}
template <class T, int K, class Poll>
void apply_lines(int dimensions, const PatchView<T>& p, What what, std::ptrdiff_t begin, std::ptrdiff_t end,
                 Poll&& poll) {
  const auto apply = [&](auto d) {
    constexpr int D = d();
    if (p.compact) apply_lines<T, D, K, true>(p, what, begin, end, poll);
    else apply_lines<T, D, K, false>(p, what, begin, end, poll);
  };
  if (dimensions == 3) apply(std::integral_constant<int, 3>{});
  else if (dimensions == 2) apply(std::integral_constant<int, 2>{});
  else apply(std::integral_constant<int, 1>{});
}

constexpr std::ptrdiff_t step_elements = 1 << 10;  // in powers(): elements of a product after which their sweep follows

}  // namespace
}  // namespace tacit::op
