// Levels of a cube of cells with smooth coefficients, as input for multigrid on a device: like those of precond::mg,
// but built without operators and communicators.
#pragma once

#include "problems.hpp"

#include <tacit/precond/multigrid/device_levels.hpp>

#include <array>
#include <cmath>
#include <vector>

namespace tacit::device {

struct Cube {
  int n = 32;
  bool periodic = true;  // otherwise u = 0 on all faces
  bool constant = false;
  int bottom = 4;  // most cells along an axis of the coarsest level
};

template <class T>
class CubeLevels {
 public:
  explicit CubeLevels(const Cube& cube) : cube_(cube) {
    const int n = cube.n;
    const double h = 1.0 / n;
    mass_ = 1;
    for (int axis = 0; axis < 3; ++axis)
      faces_[axis] = each_face(n, axis, [&](int x, int y, int z, bool end) {
        const double beta = cube.constant ? 1 : 1.5 + std::sin(6.2831853 * x * h) * std::cos(6.2831853 * (y + z) * h);
        return beta * (end ? 2 : 1) / (h * h);
      });
    for (int m = n;; m /= 2) {
      data_.levels.push_back(level(m));
      if (m <= cube.bottom || m % 2 != 0 || (cube.periodic && m % 4 != 0)) break;
      towards_coarser(data_.levels.back(), m);
      coarsen(m);
    }
    data_.cells = Global(n) * n * n;
    make_bottom(int(data_.levels.back().cells[0]));
  }
  const precond::mg::DeviceData<T>& data() const { return data_; }

 private:
  template <class F>
  std::vector<double> each_face(int n, int axis, F&& value) const {
    std::array<int, 3> e{n, n, n};
    ++e[std::size_t(axis)];
    std::vector<double> all;
    for (int z = 0; z < e[2]; ++z)
      for (int y = 0; y < e[1]; ++y)
        for (int x = 0; x < e[0]; ++x) {
          std::array<int, 3> at{x, y, z};
          int& a = at[std::size_t(axis)];
          const bool end = !cube_.periodic && (a == 0 || a == n);
          if (cube_.periodic && a == n) a = 0;
          all.push_back(value(at[0], at[1], at[2], end));
        }
    return all;
  }
  static std::size_t face(int n, int axis, int x, int y, int z) {
    const std::size_t w = std::size_t(n + (axis == 0)), d = std::size_t(n + (axis == 1));
    return std::size_t(x) + w * (std::size_t(y) + d * std::size_t(z));
  }
  double diagonal(int n, int x, int y, int z) const {
    double sum = mass_;
    for (int axis = 0; axis < 3; ++axis)
      sum += faces_[axis][face(n, axis, x, y, z)] +
             faces_[axis][face(n, axis, x + (axis == 0), y + (axis == 1), z + (axis == 2))];
    return sum;
  }

  precond::mg::LevelData<T> level(int n) const {
    precond::mg::LevelData<T> d;
    const std::int64_t align = 64 / std::int64_t(sizeof(T));
    const auto whole = [&](std::int64_t k) { return (k + align - 1) / align * align; };
    precond::mg::PatchShape p;
    p.half = std::int32_t(whole(n / 2 + 1) + 1), p.line = std::int32_t(whole(p.half + n / 2 + 2));
    p.plane = std::int64_t(p.line) * (n + 2), p.offset = 2 * align - 1 + p.plane + p.line;
    const int odd_period = cube_.periodic && n % 2 == 1;
    if (odd_period) throw Error(ErrorKind::usage, "a periodic cube of an odd number of cells");
    for (int a = 0; a < 3; ++a) p.n[a] = n, p.wrap[a] = cube_.periodic, p.axis[a] = a * n;
    d.cells = {n, n, n};
    d.size = std::size_t(2 * align - 1 + p.plane * (n + 2));
    d.patches = {p};
    d.constant = cube_.constant;
    if (cube_.constant) {
      const double w = faces_[0][face(n, 0, 1, 0, 0)];
      d.weight = {T(w), T(w), T(w)};
      d.diagonal.assign(std::size_t(3 * n), T(2 * w));
      if (!cube_.periodic)
        for (int a = 0; a < 3; ++a) d.diagonal[std::size_t(a * n)] = d.diagonal[std::size_t(a * n + n - 1)] = T(3 * w);
      for (int k = 0; k < n; ++k) d.diagonal[std::size_t(2 * n + k)] += T(mass_);
      return d;
    }
    d.inverse.resize(d.size);
    for (auto& f : d.faces) f.resize(d.size);
    for (int z = 0; z <= n; ++z)
      for (int y = 0; y <= n; ++y)
        for (int x = 0; x <= n; ++x) {
          const auto here = std::size_t(precond::mg::cell_at(p, x, y, z).here);
          if (x < n && y < n && z < n) d.inverse[here] = T(1 / diagonal(n, x, y, z));
          const int at[3] = {x, y, z};
          for (int axis = 0; axis < 3; ++axis) {
            const bool is_there = at[(axis + 1) % 3] < n && at[(axis + 2) % 3] < n,
                       end = !cube_.periodic && (at[axis] == 0 || at[axis] == n);
            if (is_there && !end) d.faces[std::size_t(axis)][here] = T(faces_[axis][face(n, axis, x, y, z)]);
          }
        }
    return d;
  }

  void towards_coarser(precond::mg::LevelData<T>& d, int n) const {
    auto& p = d.patches[0];
    // Of solutions: extrapolated from the interior beside a wall.
    const auto of_solutions = [&](int x) -> precond::mg::SolutionShare<T> {
      const int step = x % 2 ? 1 : -1, beyond = x / 2 + step;
      if (cube_.periodic || (beyond >= 0 && beyond < n / 2)) return {T(0.25), step};
      return {n > 2 ? T(-0.25) : T(0), -step};
    };
    for (int a = 0; a < 3; ++a) {
      p.child[a] = std::int32_t(d.child.size());
      for (int c = 0; c <= n / 2; ++c) d.child.push_back(2 * c);
      for (int x = 0; x < n; ++x) d.parent.push_back(x / 2), d.share.push_back(T(x % 2 ? 0.25 : -0.25));
      for (int x = 0; x < n; ++x) d.solution.push_back(of_solutions(x));
    }
  }
  /// Equations are integrated over cells: the coefficient of a coarse face is half the sum of its four fine ones.
  void coarsen(int n) {
    for (int axis = 0; axis < 3; ++axis) {
      std::vector<double> coarse(face(n / 2, axis, 0, 0, n / 2 + (axis == 2)));
      std::array<int, 3> e{n / 2, n / 2, n / 2};
      ++e[std::size_t(axis)];
      for (int z = 0; z < e[2]; ++z)
        for (int y = 0; y < e[1]; ++y)
          for (int x = 0; x < e[0]; ++x)
            for (int i = 0; i < 4; ++i) {
              const int u = i % 2, v = i / 2;
              const int at[3] = {2 * x + (axis == 0 ? 0 : u),
                                 2 * y + (axis == 1   ? 0
                                          : axis == 0 ? u
                                                      : v),
                                 2 * z + (axis == 2 ? 0 : v)};
              coarse[face(n / 2, axis, x, y, z)] += 0.5 * faces_[axis][face(n, axis, at[0], at[1], at[2])];
            }
      faces_[axis] = std::move(coarse);
    }
    mass_ *= 8;
  }

  void make_bottom(int n) {
    auto& b = data_.bottom;
    const std::size_t cells = std::size_t(n) * std::size_t(n) * std::size_t(n);
    b.n = std::int32_t(cells), b.width = 6;
    b.column.resize(6 * cells), b.value.assign(6 * cells, T(0)), b.diagonal.resize(cells), b.place.resize(cells);
    const auto& p = data_.levels.back().patches[0];
    for (int z = 0, i = 0; z < n; ++z)
      for (int y = 0; y < n; ++y)
        for (int x = 0; x < n; ++x, ++i) {
          b.diagonal[std::size_t(i)] = T(diagonal(n, x, y, z));
          b.place[std::size_t(i)] = precond::mg::cell_at(p, x, y, z).here;
          for (int e = 0; e < 6; ++e) {
            std::array<int, 3> to{x, y, z}, at{x, y, z};
            const auto axis = std::size_t(e / 2);
            to[axis] += e % 2 ? 1 : -1;
            at[axis] += e % 2;
            const bool beyond = to[axis] < 0 || to[axis] == n;
            to[axis] = (to[axis] + n) % n;
            const std::size_t entry = std::size_t(e) * cells + std::size_t(i);
            b.column[entry] = to[0] + n * (to[1] + n * to[2]);
            if (!beyond || cube_.periodic) b.value[entry] = -T(faces_[axis][face(n, int(axis), at[0], at[1], at[2])]);
          }
        }
  }

  Cube cube_;
  std::array<std::vector<double>, 3> faces_;  // of the current level, natural order
  double mass_ = 1;
  precond::mg::DeviceData<T> data_;
};

}  // namespace tacit::device
