// Team kernels of multigrid's passes over a level of cells, in the storage order of the host's levels: even and odd
// places of a line are stored apart, so that what one colour reads and writes is contiguous. A thread has a cell.
//
// Of a line of n cells with a ghost at either end, place p (cell p - 1) stands at p / 2 of its half p % 2. Neighbours
// on the line are in the other half, at the same and the next (or the last) position; across lines a place keeps half
// and position.
#pragma once

#include <tacit/base/types.hpp>
#include <tacit/exec/team.hpp>

#include <cstddef>
#include <cstdint>

namespace tacit::precond::mg {

/// A box of cells in a field. Cell (0, j, k)'s line begins at offset + k plane + j line, its odd half `half` further.
/// Lines -1 and n, places 0 and n + 1 are ghosts: 0 beyond an end, copies of cells elsewhere.
struct PatchShape {
  std::int64_t offset = 0, plane = 0;
  std::int64_t first = 0;  ///< of its cells in natural order, first axis fastest
  std::int32_t line = 0, half = 0;
  std::int32_t n[3] = {1, 1, 1};
  std::int32_t parity = 0;            ///< colour of the first cell
  std::int32_t wrap[3] = {0, 0, 0};   ///< periodic within itself: no ghosts are read along this axis
  std::int32_t axis[3] = {0, 0, 0};   ///< where tables of its cells along an axis begin
  std::int32_t child[3] = {0, 0, 0};  ///< where the first children of its image's cells stand; one more: the end
};

/// The weight of the neighbouring coarse cell in the interpolation of solutions, and on which side (-1, 1) that is.
template <class T>
struct SolutionShare {
  T weight;
  std::int32_t step;
};

/// A level's fields and tables, all in one memory space. (A u)_i = D u_i - sum of c u over the neighbours, with
/// couplings c > 0.
template <class T>
struct LevelView {
  int dimensions = 3;
  const PatchShape* patches = nullptr;
  T *u = nullptr, *f = nullptr;
  // Stored coefficients: 1 / D, and of each cell's lower face along an axis; 0 at faces with a given value.
  const T* inverse = nullptr;
  const T* c[3] = {nullptr, nullptr, nullptr};
  // Constant coefficients: a coupling for each axis, and the parts of D along the axes (PatchShape::axis).
  T weight[3] = {0, 0, 0};
  const T* diagonal = nullptr;
  // For transfers to the coarser level, whose patches correspond to these: along each axis the coarse cell of a cell,
  // and the weight of the neighbouring coarse cell in linear interpolation, negative for the lower neighbour.
  const std::int32_t* parent = nullptr;
  const T* share = nullptr;
  const SolutionShare<T>* solution = nullptr;
  const std::int32_t* child = nullptr;
};

/// The work of one team: the items of a patch from `first` on.
struct Piece {
  std::int32_t patch, first;
};

struct CellAt {
  std::int64_t line;  ///< where its line begins
  std::int64_t here;
  std::int32_t x, j, k, half, m;
};

TACIT_HD inline CellAt cell_at(const PatchShape& p, int x, int j, int k) {
  const std::int64_t line = p.offset + k * p.plane + std::int64_t(j) * p.line;
  const std::int32_t half = (x + 1) % 2, m = (x + 1) / 2;
  return {line, line + half * p.half + m, x, j, k, half, m};
}

/// Items of one colour, at least as many as its cells: (n + 1) / 2 of each line.
inline std::int64_t colour_items(const PatchShape& p) {
  return std::int64_t((p.n[0] + 1) / 2) * p.n[1] * p.n[2];
}
inline std::int64_t cell_items(const PatchShape& p) {
  return std::int64_t(p.n[0]) * p.n[1] * p.n[2];
}

/// The half of line (j, k) that has the cells of a colour.
TACIT_HD inline int half_of(const PatchShape& p, int colour, int j, int k) {
  return 1 - ((colour + j + k + p.parity) & 1);
}

/// The item's cell of this colour; false where there is none.
TACIT_HD inline bool find_coloured(const PatchShape& p, int item, int colour, CellAt& c) {
  const int width = (p.n[0] + 1) / 2, line = item / width, k = line / p.n[1], j = line - k * p.n[1];
  if (k >= p.n[2]) return false;
  const int half = half_of(p, colour, j, k), x = 2 * (item - line * width) + 1 - half;
  if (x >= p.n[0]) return false;
  c = cell_at(p, x, j, k);
  return true;
}
/// The item's cell in natural order.
TACIT_HD inline bool find_cell(const PatchShape& p, int item, CellAt& c) {
  const int line = item / p.n[0], k = line / p.n[1];
  if (k >= p.n[2]) return false;
  c = cell_at(p, item - line * p.n[0], line - k * p.n[1], k);
  return true;
}

/// f(c) for the cells of a piece that have this colour (-1: of both, first those of colour 0).
template <int Threads, exec::Team Tm, class F>
TACIT_HD void each_coloured(const Tm& team, const PatchShape& p, const Piece& piece, int colour, const F& f) {
  exec::for_items<Threads>(team, [&](int t) {
    for (int of = colour < 0 ? 0 : colour; of <= (colour < 0 ? 1 : colour); ++of)
      if (CellAt c; find_coloured(p, piece.first + t, of, c)) f(c);
  });
}
/// f(c, its number in natural order) for the cells of a piece.
template <int Threads, exec::Team Tm, class F>
TACIT_HD void each_cell(const Tm& team, const PatchShape& p, const Piece& piece, const F& f) {
  exec::for_items<Threads>(team, [&](int t) {
    if (CellAt c; find_cell(p, piece.first + t, c)) f(c, p.first + piece.first + t);
  });
}
/// The sum of f(c) over the cells of patch p that are children of a cell of its image and have this colour (-1: of
/// both).
template <class T, class F>
TACIT_HD T sum_of_children(const LevelView<T>& fine, const PatchShape& p, const CellAt& coarse, int colour,
                           const F& f) {
  const std::int32_t *const xs = fine.child + p.child[0] + coarse.x, *const ys = fine.child + p.child[1] + coarse.j,
                            *const zs = fine.child + p.child[2] + coarse.k;
  T sum = 0;
  for (int k = zs[0]; k < zs[1]; ++k)
    for (int j = ys[0]; j < ys[1]; ++j) {
      const int half = colour < 0 ? -1 : half_of(p, colour, j, k);
      for (int x = xs[0]; x < xs[1]; ++x)
        if (half < 0 || (x + 1) % 2 == half) sum += f(cell_at(p, x, j, k));
    }
  return sum;
}

/// Where the neighbours along an axis stand, low and high; at the other end where the axis is periodic in itself.
struct Ends {
  std::int64_t low, high;
};
TACIT_HD inline Ends beside(const PatchShape& p, const CellAt& c) {
  const std::int64_t other = c.line + (c.half ? 0 : p.half);
  std::int32_t low = c.m - 1 + c.half, high = c.m + c.half;
  if (p.wrap[0] && c.x == 0) low = p.n[0] / 2;
  if (p.wrap[0] && c.x == p.n[0] - 1) high = 0;
  return {other + low, other + high};
}
template <int axis>
TACIT_HD Ends across(const PatchShape& p, const CellAt& c) {
  const std::int64_t step = axis == 1 ? p.line : p.plane;
  const std::int32_t at = axis == 1 ? c.j : c.k, n = p.n[axis];
  const std::int64_t round = p.wrap[axis] ? n * step : 0;
  return {c.here - step + (at == 0 ? round : 0), c.here + step - (at == n - 1 ? round : 0)};
}

template <int axis, bool Constant, class T>
TACIT_HD T gather_across(const LevelView<T>& l, const PatchShape& p, const CellAt& c) {
  const Ends e = across<axis>(p, c);
  if constexpr (Constant) return l.weight[axis] * (l.u[e.low] + l.u[e.high]);
  const T* const face = l.c[axis] + c.here;
  return face[0] * l.u[e.low] + face[axis == 1 ? std::int64_t(p.line) : p.plane] * l.u[e.high];
}
/// sum of c u over the neighbours
template <bool Constant, class T>
TACIT_HD T gather(const LevelView<T>& l, const PatchShape& p, const CellAt& c) {
  const T* const u = l.u;
  const Ends x = beside(p, c);
  T sum;
  if constexpr (Constant) {
    sum = l.weight[0] * (u[x.low] + u[x.high]);
  } else {
    // The upper face is the lower one of the next place, which a period does not bend.
    const std::int64_t upper = c.line + (c.half ? 0 : p.half) + c.m + c.half;
    sum = l.c[0][c.here] * u[x.low] + l.c[0][upper] * u[x.high];
  }
  if (l.dimensions > 1) sum += gather_across<1, Constant>(l, p, c);
  if (l.dimensions > 2) sum += gather_across<2, Constant>(l, p, c);
  return sum;
}
template <class T>
TACIT_HD T constant_diagonal(const LevelView<T>& l, const PatchShape& p, const CellAt& c) {
  return (l.diagonal[p.axis[1] + c.j] + l.diagonal[p.axis[2] + c.k]) + l.diagonal[p.axis[0] + c.x];
}
/// f - A u
template <bool Constant, class T>
TACIT_HD T residual_at(const LevelView<T>& l, const PatchShape& p, const CellAt& c) {
  const T known = l.f[c.here] + gather<Constant>(l, p, c);
  if constexpr (Constant) return known - constant_diagonal(l, p, c) * l.u[c.here];
  const T inverse = l.inverse[c.here];
  return (known * inverse - l.u[c.here]) / inverse;
}

struct NoShared {};

/// u := (f + sum c u) / D for the cells of a colour; from_zero: u := f / D. A cell without couplings has D = 1. Traffic
/// for each cell: 4 numbers of u and f (2 of them for half of the cells), 3 and a half of coefficients.
template <class T, bool Constant, int Threads>
struct HalfSweep {
  static constexpr int threads = Threads;
  using Shared = NoShared;
  LevelView<T> level;
  const Piece* pieces;
  int colour;
  bool from_zero;

  template <exec::Team Tm>
  TACIT_HD void operator()(const Tm& team, Shared&) const {
    const Piece piece = pieces[team.block()];
    const PatchShape p = level.patches[piece.patch];
    each_coloured<Threads>(team, p, piece, colour, [&](const CellAt& c) {
      T known = level.f[c.here];
      if (!from_zero) known += gather<Constant>(level, p, c);
      if constexpr (Constant) {
        const T d = constant_diagonal(level, p, c);
        level.u[c.here] = d != T(0) ? known / d : known;
      } else {
        level.u[c.here] = known * level.inverse[c.here];
      }
    });
  }
};

/// A sweep of a smoother that needs whole residuals: step := a step + b E (f - A u), to := u + step, where E is 1 / D,
/// or the inverse of the rows' sums. first: step is not read. Stored coefficients.
template <class T, int Threads>
struct SmoothStep {
  static constexpr int threads = Threads;
  using Shared = NoShared;
  LevelView<T> level;
  const Piece* pieces;  // of cells
  const T* scale;       // E
  T *step, *to;
  T a, b;
  bool first;

  template <exec::Team Tm>
  TACIT_HD void operator()(const Tm& team, Shared&) const {
    const Piece piece = pieces[team.block()];
    const PatchShape p = level.patches[piece.patch];
    each_cell<Threads>(team, p, piece, [&](const CellAt& c, std::int64_t) {
      T change = b * (scale[c.here] * residual_at<false>(level, p, c));
      if (!first) change += a * step[c.here];
      step[c.here] = change;
      to[c.here] = level.u[c.here] + change;
    });
  }
};

/// f of the coarser level := sums of f - A u over the children, of one colour where the other's residuals vanish
/// (colour -1: of both). Items are coarse cells. Neither u nor the residual is written.
template <class T, bool Constant, int Threads>
struct ResidualRestriction {
  static constexpr int threads = Threads;
  using Shared = NoShared;
  LevelView<T> fine;
  const PatchShape* images;
  const Piece* pieces;  // of the coarser level's cells
  T* to;                // its f
  int colour;

  template <exec::Team Tm>
  TACIT_HD void operator()(const Tm& team, Shared&) const {
    const Piece piece = pieces[team.block()];
    const PatchShape p = fine.patches[piece.patch], image = images[piece.patch];
    each_cell<Threads>(team, image, piece, [&](const CellAt& coarse, std::int64_t) {
      to[coarse.here] =
          sum_of_children(fine, p, coarse, colour, [&](const CellAt& c) { return residual_at<Constant>(fine, p, c); });
    });
  }
};

/// f of the coarser level := sums of f over the children. Items are coarse cells.
template <class T, int Threads>
struct SumsOfChildren {
  static constexpr int threads = Threads;
  using Shared = NoShared;
  LevelView<T> fine;
  const PatchShape* images;
  const Piece* pieces;  // of the coarser level's cells
  T* to;                // its f

  template <exec::Team Tm>
  TACIT_HD void operator()(const Tm& team, Shared&) const {
    const Piece piece = pieces[team.block()];
    const PatchShape p = fine.patches[piece.patch], image = images[piece.patch];
    each_cell<Threads>(team, image, piece, [&](const CellAt& coarse, std::int64_t) {
      to[coarse.here] = sum_of_children(fine, p, coarse, -1, [&](const CellAt& c) { return fine.f[c.here]; });
    });
  }
};

/// u += the coarser level's u (set: u := it), at the cells of a colour: the value of their coarse cell or that plus a
/// share of the difference to its neighbour along each axis, for corrections (linear) or solutions.
template <class T, int Threads>
struct AddCoarse {
  static constexpr int threads = Threads;
  using Shared = NoShared;
  LevelView<T> fine;
  const PatchShape* images;
  const T* from;  // the coarser level's u
  const Piece* pieces;
  int colour;
  enum class Way : std::int32_t { constant, linear, solution } way;
  bool set;

  template <exec::Team Tm>
  TACIT_HD void operator()(const Tm& team, Shared&) const {
    const Piece piece = pieces[team.block()];
    const PatchShape p = fine.patches[piece.patch], image = images[piece.patch];
    each_coloured<Threads>(team, p, piece, colour, [&](const CellAt& c) {
      const int x = fine.parent[p.axis[0] + c.x], y = fine.parent[p.axis[1] + c.j], z = fine.parent[p.axis[2] + c.k];
      const CellAt middle = cell_at(image, x, y, z);
      const T value = from[middle.here];
      T sum = value;
      const auto add = [&](T weight, bool low, const Ends& e) {
        if (weight != T(0)) sum += weight * (from[low ? e.low : e.high] - value);
      };
      const auto add_all = [&](const auto& add_from) {
        if (fine.dimensions > 1) add_from(p.axis[1] + c.j, across<1>(image, middle));
        if (fine.dimensions > 2) add_from(p.axis[2] + c.k, across<2>(image, middle));
        add_from(p.axis[0] + c.x, beside(image, middle));
      };
      if (way == Way::solution)
        add_all([&](int at, const Ends& e) { add(fine.solution[at].weight, fine.solution[at].step < 0, e); });
      else if (way == Way::linear)
        add_all([&](int at, const Ends& e) {
          const T share = fine.share[at];
          add(share < 0 ? -share : share, share < 0, e);
        });
      fine.u[c.here] = set ? sum : fine.u[c.here] + sum;
    });
  }
};

/// Norms and sum of a level's residual, u or f. The largest magnitude is NaN where any value is.
struct Norms {
  double largest = 0, squares = 0, total = 0;
  TACIT_HD void take(double r) {
    const double a = r < 0 ? -r : r;
    raise(a), squares += a * a, total += r;
  }
  TACIT_HD Norms& operator+=(const Norms& b) {
    raise(b.largest), squares += b.squares, total += b.total;
    return *this;
  }

 private:
  TACIT_HD void raise(double a) {
    if (largest == largest && !(a <= largest)) largest = a;
  }
};

enum class Quantity : std::int32_t { residual, u, f };

/// partial[block] := norms of a quantity over the cells of a colour (-1: of both).
template <class T, bool Constant, int Threads>
struct NormsOf {
  static constexpr int threads = Threads;
  using Shared = NoShared;
  LevelView<T> level;
  const Piece* pieces;  // of a colour
  int colour;
  Quantity what;
  Norms* partial;

  template <exec::Team Tm>
  TACIT_HD void operator()(const Tm& team, Shared&) const {
    const Piece piece = pieces[team.block()];
    const PatchShape p = level.patches[piece.patch];
    Norms norms;
    each_coloured<Threads>(team, p, piece, colour, [&](const CellAt& c) {
      norms.take(double(what == Quantity::residual ? residual_at<Constant>(level, p, c)
                        : what == Quantity::u      ? level.u[c.here]
                                                   : level.f[c.here]));
    });
    norms = team.sum(norms);
    if (team.rank() == 0) partial[team.block()] = norms;
  }
};

/// Cells between a column of a vector in natural order and a field: field := scale (natural - mean), or natural :=
/// scale (field - mean).
template <class T, bool IntoField, int Threads>
struct CopyCells {
  static constexpr int threads = Threads;
  using Shared = NoShared;
  const PatchShape* patches;
  const Piece* pieces;  // of cells
  const T* from;
  T* to;
  T scale, mean;
  std::int32_t columns;  // of the vector; from or to is that of the first cell

  template <exec::Team Tm>
  TACIT_HD void operator()(const Tm& team, Shared&) const {
    const Piece piece = pieces[team.block()];
    const PatchShape p = patches[piece.patch];
    each_cell<Threads>(team, p, piece, [&](const CellAt& c, std::int64_t number) {
      const std::int64_t natural = columns * number;
      if constexpr (IntoField) to[c.here] = scale * (from[natural] - mean);
      else to[natural] = scale * (from[c.here] - mean);
    });
  }
};

/// Copies of single values, such as ghosts of a field: to[pair[2 i]] = from[pair[2 i + 1]].
template <class T, int Threads>
struct CopyPairs {
  static constexpr int threads = Threads;
  using Shared = NoShared;
  std::int64_t count;
  const std::int64_t* pair;
  const T* from;
  T* to;

  template <exec::Team Tm>
  TACIT_HD void operator()(const Tm& team, Shared&) const {
    exec::for_items<Threads>(team, [&](int t) {
      const std::int64_t i = team.block() * Threads + t;
      if (i < count) to[pair[2 * i]] = from[pair[2 * i + 1]];
    });
  }
};

}  // namespace tacit::precond::mg
