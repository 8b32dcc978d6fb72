// The model problems of the benchmarks: Tacit and its peers solve the same matrices.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <utility>

namespace bench {

/// For JSON, to the nanosecond.
inline std::string seconds(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9f", value);
  return text;
}

/// Stiffness matrix of linear elasticity (lambda = 1, mu = 1/2) on a unit cube of eight nodes, corner a at (a & 1, a >>
/// 1 & 1, a >> 2): one trilinear element, or five tetrahedra, where the corners of the middle one have the same parity.
struct ElasticCube {
  double block[8][8][3][3] = {};
  bool coupled[8][8] = {};

  static ElasticCube hexahedron() {
    ElasticCube cube;
    for (int q = 0; q < 8; ++q) {  // Gauss points
      const auto at = [&](int axis) { return 0.5 + (q >> axis & 1 ? 0.5 : -0.5) / std::sqrt(3.0); };
      double gradient[8][3];
      for (int a = 0; a < 8; ++a)
        for (int i = 0; i < 3; ++i) {
          gradient[a][i] = a >> i & 1 ? 1 : -1;
          for (int j = 0; j < 3; ++j)
            if (j != i) gradient[a][i] *= a >> j & 1 ? at(j) : 1 - at(j);
        }
      cube.add({0, 1, 2, 3, 4, 5, 6, 7}, gradient, 0.125);
    }
    return cube;
  }
  static ElasticCube tetrahedra(int middle_parity) {
    ElasticCube cube;
    int middle[4];
    double gradient[8][3];
    for (int a = 0, m = 0; a < 8; ++a) {
      for (int i = 0; i < 3; ++i) gradient[a][i] = a >> i & 1 ? 0.5 : -0.5;
      if (__builtin_parity(unsigned(a)) == middle_parity) middle[m++] = a;
    }
    cube.add({middle[0], middle[1], middle[2], middle[3]}, gradient, 1.0 / 3);
    for (int a = 0; a < 8; ++a) {
      if (__builtin_parity(unsigned(a)) == middle_parity) continue;
      for (int i = 0; i < 3; ++i) {
        const double towards = a >> i & 1 ? -1 : 1;
        for (int j = 0; j < 3; ++j) gradient[a ^ (1 << i)][j] = i == j ? towards : 0;
        gradient[a][i] = -towards;
      }
      cube.add({a, a ^ 1, a ^ 2, a ^ 4}, gradient, 1.0 / 6);
    }
    return cube;
  }

 private:
  void add(std::initializer_list<int> corners, const double (&g)[8][3], double volume) {
    const double lambda = 1, mu = 0.5;
    for (const int a : corners)
      for (const int b : corners) {
        coupled[a][b] = true;
        const double dot = g[a][0] * g[b][0] + g[a][1] * g[b][1] + g[a][2] * g[b][2];
        for (int i = 0; i < 3; ++i)
          for (int j = 0; j < 3; ++j)
            block[a][b][i][j] +=
                volume * (lambda * g[a][i] * g[b][j] + mu * g[a][j] * g[b][i] + (i == j ? mu * dot : 0));
      }
  }
};

/// 1d3: n rows of -1, a number from 2 to 3, -1; 2d5: 5-point Laplacian on n x n; 3d7: 7-point on n x n x n; cd3: 3d7
/// with convection, central differences, cell Peclet number 0.5; 3d27: 26 on the diagonal, -1 for all 26 neighbours.
/// Dirichlet conditions, unit spacing. hex3, tet3: elasticity of n x n x n nodes with three unknowns each, with a
/// stiffness between 1 and 10 in each cube, fixed outside; hexahedra in natural order (27 blocks of 3 x 3 per node), or
/// five tetrahedra per cube with the nodes in random order within some planes, as mesh generators number them (19 or 7
/// blocks).
struct Problem {
  static constexpr int most = 81;  // entries of a row
  std::string name;
  std::int64_t n;
  bool elastic() const { return name == "hex3" || name == "tet3"; }
  int unknowns() const { return elastic() ? 3 : 1; }  // per node: a rank owns all of them
  std::int64_t rows() const { return name == "1d3" ? n : name == "2d5" ? n * n : unknowns() * n * n * n; }
  /// Writes the columns (ascending) and values of a row; returns their number.
  int row(std::int64_t r, std::int64_t* column, double* value) const {
    const bool flat = name == "2d5";
    if (name == "1d3") return row3(r, column, value);
    if (name == "3d27") return row27(r, column, value);
    if (elastic()) return elastic_row(r, column, value);
    if (!flat && name != "3d7" && name != "cd3") throw std::invalid_argument("unknown problem " + name);
    const std::int64_t i = r % n, j = r / n % n, k = r / (n * n);
    const double wind = name == "cd3" ? 0.5 : 0;
    int m = 0;
    const auto put = [&](bool inside, std::int64_t c, double v) {
      if (inside) column[m] = c, value[m++] = v;
    };
    if (!flat) put(k > 0, r - n * n, -1 - wind);
    put(j > 0, r - n, -1 - wind);
    put(i > 0, r - 1, -1 - wind);
    put(true, r, flat ? 4 : 6);
    put(i < n - 1, r + 1, -1 + wind);
    put(j < n - 1, r + n, -1 + wind);
    if (!flat) put(k < n - 1, r + n * n, -1 + wind);
    return m;
  }

 private:
  int row3(std::int64_t r, std::int64_t* column, double* value) const {
    int m = 0;
    for (std::int64_t c = std::max<std::int64_t>(r - 1, 0); c <= std::min(r + 1, n - 1); ++c)
      column[m] = c, value[m++] = c == r ? 2 + double(r * 7 % 11) / 11 : -1;
    return m;
  }
  int row27(std::int64_t r, std::int64_t* column, double* value) const {
    const std::int64_t i = r % n, j = r / n % n, k = r / (n * n);
    int m = 0;
    for (std::int64_t dk = -1; dk <= 1; ++dk)
      for (std::int64_t dj = -1; dj <= 1; ++dj)
        for (std::int64_t di = -1; di <= 1; ++di) {
          if (k + dk < 0 || k + dk >= n || j + dj < 0 || j + dj >= n || i + di < 0 || i + di >= n) continue;
          column[m] = r + (dk * n + dj) * n + di;
          value[m++] = dk || dj || di ? -1 : 26;
        }
    return m;
  }
  static std::uint64_t mixed(std::uint64_t x) {
    x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15u;
    return x ^ (x >> 29);
  }
  /// The number in the matrix of a grid node, and back. Within each 4096 nodes a Feistel cipher of the two halves of
  /// the number permutes them; an incomplete last part keeps its order.
  std::int64_t renumbered(std::int64_t node, bool back) const {
    if (name == "hex3" || node >> 12 == n * n * n >> 12) return node;
    std::uint64_t left = std::uint64_t(node >> 6 & 63), right = std::uint64_t(node & 63);
    for (int round = 0; round < 4; ++round) {
      if (back) std::swap(left, right);
      left ^= mixed(right + 64 * std::uint64_t(back ? 3 - round : round)) & 63;
      if (!back) std::swap(left, right);
    }
    return node >> 12 << 12 | std::int64_t(left << 6 | right);
  }
  int elastic_row(std::int64_t r, std::int64_t* column, double* value) const {
    static const ElasticCube hexahedron = ElasticCube::hexahedron();
    static const ElasticCube tetrahedra[2] = {ElasticCube::tetrahedra(0), ElasticCube::tetrahedra(1)};
    const std::int64_t node = renumbered(r / 3, true), place[3] = {node % n, node / n % n, node / (n * n)};
    double sum[27][3] = {};
    bool there[27] = {};
    for (int a = 0; a < 8; ++a) {  // the cubes of which the node is corner a
      std::uint64_t cube = 0;
      int parity = 0;
      for (int axis = 2; axis >= 0; --axis) {
        const std::int64_t low = place[axis] - (a >> axis & 1) + 1;
        cube = cube * std::uint64_t(n + 1) + std::uint64_t(low), parity ^= int(low & 1);
      }
      const double stiffness = 1 + 9 * double(mixed(cube * 0x2545f4914f6cdd1du) >> 40) / double(1 << 24);
      const ElasticCube& element = name == "hex3" ? hexahedron : tetrahedra[parity];
      for (int b = 0; b < 8; ++b) {
        if (!element.coupled[a][b]) continue;
        int to = 0;
        for (int axis = 2; axis >= 0; --axis) to = 3 * to + 1 + (b >> axis & 1) - (a >> axis & 1);
        there[to] = true;
        for (int j = 0; j < 3; ++j) sum[to][j] += stiffness * element.block[a][b][r % 3][j];
      }
    }
    std::array<std::pair<std::int64_t, int>, 27> found;
    int count = 0;
    for (int to = 0; to < 27; ++to) {
      const std::int64_t i = place[0] + to % 3 - 1, j = place[1] + to / 3 % 3 - 1, k = place[2] + to / 9 - 1;
      if (!there[to] || i < 0 || i >= n || j < 0 || j >= n || k < 0 || k >= n) continue;
      found[std::size_t(count++)] = {renumbered((k * n + j) * n + i, false), to};
    }
    std::sort(found.begin(), found.begin() + count);
    for (int f = 0; f < count; ++f)
      for (int j = 0; j < 3; ++j) {
        column[3 * f + j] = 3 * found[std::size_t(f)].first + j;
        value[3 * f + j] = sum[found[std::size_t(f)].second][j];
      }
    return 3 * count;
  }
};

}  // namespace bench
