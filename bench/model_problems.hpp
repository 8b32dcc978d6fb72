// The model problems of the benchmarks: what is measured here and in the peers is the same matrix.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace bench {

/// 2d5: 5-point Laplacian on n x n; 3d7: 7-point on n x n x n; cd3: 3d7 with convection, central differences, cell
/// Peclet number 0.5; 3d27: 26 on the diagonal, -1 at all 26 neighbours. Dirichlet conditions, unit spacing.
struct Problem {
  static constexpr int most = 27;  // entries of a row
  std::string name;
  std::int64_t n;
  std::int64_t rows() const { return name == "2d5" ? n * n : n * n * n; }
  /// Columns (ascending) and values of a row; returns how many.
  int row(std::int64_t r, std::int64_t* column, double* value) const {
    const bool flat = name == "2d5";
    if (name == "3d27") return row27(r, column, value);
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
};

}  // namespace bench
