// Rays from a point source through voxels: their entries slab by slab, for products and for counting.
//
// Coordinates are in voxels from a corner of the volume: voxel (x, y, z) is [x, x + 1) x [y, y + 1) x [z, z + 1), where
// y is the row of an image. The main axis of a ray is the one along which it passes most voxels. Within a slab of
// voxels across this axis its other coordinates change by at most one, so that it passes at most one face of each: in
// fractions t and t' of the slab. The voxel at the entry has min(t, t') of the length in the slab, that at the exit 1 -
// max(t, t'), and the one between, on the side of the first face, what remains.
#pragma once

#include <tacit/app/tomography/cone.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace tacit::app::tomography {

struct Shot {
  Point source, first, right, down;  // first: the detector's pixel (0, 0)
  Point voxel;
  double inverse[3][3];  // of (right, down, first - source) as columns
  bool ahead;            // whether the whole volume is in front of the source, seen along the detector's normal
};

/// Voxels [low, high) along each axis, in an array with one voxel more on each side (of a fan not along z), x fastest.
struct Cells {
  std::array<Local, 3> low{}, high{};
  bool flat = false;
  Local beside() const { return flat ? 0 : 1; }
  std::array<Local, 3> stride() const {
    const Local along = high[0] - low[0] + 2;
    return {1, along, along * (high[1] - low[1] + 2)};
  }
  std::size_t size() const { return std::size_t(stride()[2]) * std::size_t(high[2] - low[2] + 2 * beside()); }
  Local at(Local x, Local y, Local z) const {
    return (x - low[0] + 1) + (y - low[1] + 1) * stride()[1] + (z - low[2] + beside()) * stride()[2];
  }
};

inline constexpr int lanes = 16;  // neighbouring rays of a row of the detector
inline constexpr int slabs = 16;  // at a time

/// Entries of the rays in some slabs: places in an array of Cells, and lengths.
template <class T>
struct Crossings {
  alignas(64) Local at[slabs][3][lanes];
  alignas(64) T length[slabs][3][lanes];
};

/// Directions of rays, from the source to the detector; their lengths, and main axes.
struct Aim {
  double to[3][lanes], length[lanes];
  Local main[lanes];
};
inline Aim aim(const Shot& shot, Local row, Local column) {
  Aim a;
#pragma omp simd
  for (int i = 0; i < lanes; ++i) {
    double square = 0;
    for (int c = 0; c < 3; ++c) {
      const auto k = std::size_t(c);
      a.to[c][i] = shot.first[k] - shot.source[k] + row * shot.down[k] + (column + i) * shot.right[k];
      square += a.to[c][i] * a.to[c][i] * shot.voxel[k] * shot.voxel[k];
    }
    a.length[i] = std::sqrt(square);
    const double x = std::abs(a.to[0][i]), y = std::abs(a.to[1][i]), z = std::abs(a.to[2][i]);
    a.main[i] = z > std::max(x, y) ? 2 : y > x ? 1 : 0;
  }
  return a;
}

/// Rays with one main axis, as lines: coordinate c at the start of slab s is at[c] + s step[c], c one of the two
/// others.
struct Lines {
  int main, other[2];
  double at[2][lanes], step[2][lanes], inverse[2][lanes], up[2][lanes];  // up: 1 where step is not below 0, else 0
  Local side[2][lanes];                                                  // of the next voxel: 1 or -1
  double length[lanes];  // within a slab; 0 for lanes that are no such rays
  std::pair<double, double> range(int lane, const Cells& cells) const;
  std::pair<Local, Local> met(const Cells& cells) const;
};

// Where a line is within the cells along both other axes, in slabs.
inline std::pair<double, double> Lines::range(int lane, const Cells& cells) const {
  double from = cells.low[std::size_t(main)], to = cells.high[std::size_t(main)];
  for (int c = 0; c < 2; ++c) {
    const auto k = std::size_t(other[c]);
    const double over = up[c][lane] > 0 ? inverse[c][lane] : -inverse[c][lane];
    const double a = (cells.low[k] - at[c][lane]) * over, b = (cells.high[k] - at[c][lane]) * over;
    from = std::max(from, std::min(a, b)), to = std::min(to, std::max(a, b));
  }
  return {from, to};
}

// The slabs of the cells that some of the lines meet.
inline std::pair<Local, Local> Lines::met(const Cells& cells) const {
  const double low = cells.low[std::size_t(main)], high = cells.high[std::size_t(main)];
  double from = high, to = low;
#pragma omp simd reduction(min : from) reduction(max : to)
  for (int i = 0; i < lanes; ++i) {
    const auto [a, b] = range(i, cells);
    const bool meets = length[i] > 0 && b > a - 1e-6;
    from = std::min(from, meets ? a : high);
    to = std::max(to, meets ? b : low);
  }
  return {Local(std::max(std::floor(from - 1e-6), low)), Local(std::min(std::floor(to + 1e-6) + 1, high))};
}

/// The lines among the first `count` rays that have this main axis, and meet the volume in front of the source.
inline Lines lines(const Shot& shot, const Aim& a, int main, int count, const Cells& volume) {
  Lines l;
  l.main = main, l.other[0] = main == 0 ? 1 : 0, l.other[1] = main == 2 ? 1 : 2;
#pragma omp simd
  for (int i = 0; i < lanes; ++i) {
    const bool one = i < count && a.main[i] == main;
    const double along = one ? a.to[main][i] : 1.0;
    l.length[i] = one ? a.length[i] / std::abs(along) : 0.0;
    for (int c = 0; c < 2; ++c) {
      const double step = a.to[l.other[c]][i] / along;
      l.step[c][i] = step;
      l.up[c][i] = step >= 0 ? 1.0 : 0.0, l.side[c][i] = step >= 0 ? 1 : -1;
      l.inverse[c][i] = std::min(1 / std::abs(step), 1e300);
      l.at[c][i] = shot.source[std::size_t(l.other[c])] - shot.source[std::size_t(main)] * step;
    }
  }
  if (!shot.ahead)
    for (int i = 0; i < count; ++i) {
      const auto [from, to] = l.range(i, volume);
      if (((from + to) / 2 - shot.source[std::size_t(main)]) * a.to[main][i] < 0) l.length[i] = 0;
    }
  return l;
}

// By value, so that they become instructions.
template <class N>
inline N least(N a, N b) {
  return a < b ? a : b;
}
template <class N>
inline N most(N a, N b) {
  return a > b ? a : b;
}

/// The entries of lines in slabs `first` to first + count - 1. What is outside of the cells is beside them.
template <class T, bool flat>
[[gnu::noinline]] void cross(const Lines& l, const Cells& cells, Local first, int count, Crossings<T>& found) {
  const auto stride = cells.stride();
  const auto m = std::size_t(l.main), p = std::size_t(l.other[0]), q = std::size_t(l.other[1]);
  const Local low_p = cells.low[p] - 1, high_p = cells.high[p], low_q = cells.low[q] - 1, high_q = cells.high[q];
  const double from_p = low_p, to_p = high_p + 1, from_q = low_q, to_q = high_q + 1;
  const Local over_p = stride[p], over_q = stride[q];
  for (int n = 0; n < count; ++n) {
    const double s = first + n;
    const Local begin = (first + n - cells.low[m] + 1) * stride[m] - low_p * over_p - (flat ? 0 : low_q * over_q);
    auto& at = found.at[n];
    auto& length = found.length[n];
#pragma omp simd
    for (int i = 0; i < lanes; ++i) {
      // Beyond the cells a line may be anywhere else that is beyond them.
      const double here = least(most(l.at[0][i] + s * l.step[0][i], from_p), to_p), in = std::floor(here);
      const double part = least(std::abs(l.up[0][i] - (here - in)) * l.inverse[0][i], 1.0);
      const auto p0 = least(Local(in), high_p) * over_p,
                 p1 = least(most(Local(in) + l.side[0][i], low_p), high_p) * over_p;
      if constexpr (flat) {
        at[0][i] = begin + p0, at[1][i] = begin + p1;
        length[0][i] = T(part * l.length[i]), length[1][i] = T((1 - part) * l.length[i]);
      } else {
        const double there = least(most(l.at[1][i] + s * l.step[1][i], from_q), to_q), into = std::floor(there);
        const double other = least(std::abs(l.up[1][i] - (there - into)) * l.inverse[1][i], 1.0);
        const auto q0 = least(Local(into), high_q) * over_q,
                   q1 = least(most(Local(into) + l.side[1][i], low_q), high_q) * over_q;
        const double sooner = least(part, other), later = most(part, other);
        at[0][i] = begin + p0 + q0, at[1][i] = begin + (part < other ? p1 + q0 : p0 + q1), at[2][i] = begin + p1 + q1;
        length[0][i] = T(sooner * l.length[i]), length[1][i] = T((later - sooner) * l.length[i]);
        length[2][i] = T((1 - later) * l.length[i]);
      }
    }
  }
}

/// Calls f(crossings, slabs) for the entries of up to 16 neighbouring rays within the cells.
template <class T, bool flat, class F>
void follow(const Shot& shot, Local row, Local column, int count, const Cells& volume, const Cells& cells, F&& f) {
  const Aim a = aim(shot, row, column);
  bool some[3] = {};
  for (int i = 0; i < count; ++i) some[a.main[i]] = true;
  Crossings<T> found;
  for (int main = 0; main < (flat ? 2 : 3); ++main) {
    if (!some[main]) continue;
    const Lines l = lines(shot, a, main, count, volume);
    const auto [from, to] = l.met(cells);
    for (Local s = from; s < to; s += slabs) {
      const int n = std::min<Local>(slabs, to - s);
      cross<T, flat>(l, cells, s, n, found);
      f(found, n);
    }
  }
}

/// The pixels [left, right) x [top, bottom) of the detector that rays through the cells can reach.
struct Window {
  Local left, right, top, bottom;
};
inline Window window(const Shot& shot, const Cells& cells, Local rows, Local columns) {
  double left = columns, right = 0, top = rows, bottom = 0;
  int behind = 0;
  for (int corner = 0; corner < 8; ++corner) {
    double part[3] = {};
    for (int c = 0; c < 3; ++c) {
      const auto k = std::size_t(c);
      const double to = (corner >> c & 1 ? cells.high[k] : cells.low[k]) - shot.source[k];
      for (int r = 0; r < 3; ++r) part[r] += shot.inverse[r][c] * to;
    }
    if (!(part[2] > 1e-9)) {
      ++behind;
      continue;
    }
    const double j = part[0] / part[2], i = part[1] / part[2];
    left = std::min(left, j), right = std::max(right, j), top = std::min(top, i), bottom = std::max(bottom, i);
  }
  if (behind == 8) return {0, 0, 0, 0};
  if (behind > 0) return {0, columns, 0, rows};
  const auto within = [](double v, Local n) { return Local(std::clamp(v, 0.0, double(n))); };
  return {within(std::ceil(left - 1e-6), columns), within(std::floor(right + 1e-6) + 1, columns),
          within(std::ceil(top - 1e-6), rows), within(std::floor(bottom + 1e-6) + 1, rows)};
}

}  // namespace tacit::app::tomography
