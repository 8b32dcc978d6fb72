// The coarsest level of a V-cycle: one box of cells on each rank of a periodic cube.
#pragma once

#include <tacit/op/csr.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

namespace bench {

inline double wave(double t) {
  t -= std::floor(t);
  return std::abs(4 * t - 2) - 1;
}

// Pseudo-random values in [-1, 1): residuals on the coarsest level of a V-cycle are not smooth.
inline double scatter(std::uint64_t i) {
  i = (i + 1) * 0x9E3779B97F4A7C15u;
  i = (i ^ (i >> 30)) * 0xBF58476D1CE4E5B9u;
  i = (i ^ (i >> 27)) * 0x94D049BB133111EBu;
  return double((i ^ (i >> 31)) >> 11) * 0x1p-52 - 1;
}

// a u - b lap u on the periodic cube of `side`^3 boxes of `edge`^3 cells; each rank owns the rows of one box.
inline tacit::op::Rows<double> box_rows(int rank, tacit::Global side, tacit::Global edge, double a, double b,
                                        std::vector<double>& f) {
  using tacit::Global;
  const Global N = side * edge, box[3] = {rank % side, rank / side % side, rank / (side * side)};
  const double h2 = double(N) * double(N);
  const auto index = [&](Global x, Global y, Global z) {
    x = (x + N) % N, y = (y + N) % N, z = (z + N) % N;
    const Global owner = x / edge + side * (y / edge + side * (z / edge));
    return owner * edge * edge * edge + x % edge + edge * (y % edge + edge * (z % edge));
  };
  tacit::op::Rows<double> rows;
  std::vector<std::pair<Global, double>> row;
  for (Global k = 0; k < edge * edge * edge; ++k) {
    const Global x = box[0] * edge + k % edge, y = box[1] * edge + k / edge % edge, z = box[2] * edge + k / edge / edge;
    row = {{index(x, y, z), a + 6 * b * h2}};
    for (const int d : {-1, 1}) {
      row.push_back({index(x + d, y, z), -b * h2});
      row.push_back({index(x, y + d, z), -b * h2});
      row.push_back({index(x, y, z + d), -b * h2});
    }
    std::sort(row.begin(), row.end());
    for (const auto& [column, value] : row) rows.column.push_back(column), rows.value.push_back(value);
    rows.start.push_back(Global(rows.column.size()));
    const double h = 1.0 / double(N);
    f.push_back(wave((double(x) + .5) * h + .25) * wave((double(y) + .5) * h + .25) * wave((double(z) + .5) * h + .25) +
                0.3 * scatter(std::uint64_t(x + N * (y + N * z))));
  }
  return rows;
}

}  // namespace bench
