// The model problems of the benchmarks: what is measured here and in the peers is the same matrix.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace bench {

/// 2d5: 5-point Laplacian on n x n; 3d7: 7-point on n x n x n; cd3: 3d7 with convection, central differences, cell Peclet
/// number 0.5. Dirichlet conditions, unit spacing.
struct Problem {
  std::string name;
  std::int64_t n;
  std::int64_t rows() const { return name == "2d5" ? n * n : n * n * n; }
  /// Columns (ascending) and values of a row; returns how many.
  int row(std::int64_t r, std::int64_t* column, double* value) const {
    const bool flat = name == "2d5";
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
};

}  // namespace bench
