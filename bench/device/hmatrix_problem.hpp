// An H-matrix with the blocks of a sphere's single layer and random entries, in the form that the team kernels read.
#pragma once

#include "problems.hpp"

#include <tacit/op/hmatrix/block_tree.hpp>
#include <tacit/op/kernels/hmatrix_product.hpp>

#include <cmath>
#include <map>
#include <utility>
#include <vector>

namespace tacit::device {

struct HProblem {
  struct Shape {  // of a matrix-vector product: offsets of its entries and its vectors
    Local rows, columns;
    std::size_t data, from, to;
  };
  Local n = 0;
  std::int64_t ld = 0;
  std::vector<op::FactorTask> factors;
  std::vector<op::PanelTask> panels;
  std::vector<op::ColumnRun> runs;
  std::vector<std::uint16_t> run_of;
  std::vector<double> scale;
  std::size_t factor_count[3] = {}, panel_count[3] = {};
  std::vector<Shape> v, u, dense;  // as single products; U and dense blocks have arrays of their own
  std::size_t block_numbers = 0;
  double bytes = 0;  // of the stored numbers

  /// Points on a sphere in clusters of at most `leaf`; `ranks`: the number of columns of far blocks in each storage
  /// format. Dense blocks are in `dense_format`.
  HProblem(Local points, Local leaf, const int (&ranks)[3], int dense_format) : n(points) {
    op::Geometry g;
    for (Local k = 0; k < n; ++k) {
      const double z = 1 - (2.0 * k + 1) / n, angle = 2.399963229728653 * k, r = std::sqrt(1 - z * z);
      g.points.push_back({r * std::cos(angle), r * std::sin(angle), z});
    }
    const op::ClusterTree tree(g, {op::Bisection::median, leaf, 0});
    const auto blocks = op::block_tree(tree, tree, {});
    std::vector<std::uint32_t> first_t(blocks.size());
    std::vector<Local> cuts{0, n};
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      const auto& of = blocks[b];
      cuts.push_back(of.row_begin);
      if (!of.admissible) {
        dense.push_back(
            {of.rows(), of.columns(), block_numbers, std::size_t(of.column_begin), std::size_t(of.row_begin)});
        block_numbers += std::size_t(of.rows()) * std::size_t(of.columns());
        continue;
      }
      first_t[b] = std::uint32_t(n) + std::uint32_t(scale.size());
      for (int f = 0; f < 3; ++f) {
        const int most = op::FactorProducts<double, 1>::columns_of_task(of.columns());
        for (int j = 0; j < ranks[f]; j += most)
          factors.push_back({std::int64_t(factor_count[f]) + std::int64_t(j) * of.columns(),
                             std::uint32_t(of.column_begin), std::uint32_t(of.columns()),
                             std::uint32_t(n) + std::uint32_t(scale.size()) + std::uint32_t(j),
                             std::uint32_t(std::min(most, ranks[f] - j)), f,
                             factor_count[f] % 4 == 0 && of.columns() % 4 == 0 && of.column_begin % 4 == 0});
        if (ranks[f] > 0) {
          v.push_back({of.columns(), ranks[f], factor_count[f], std::size_t(of.column_begin), n + scale.size()});
          u.push_back({of.rows(), ranks[f], block_numbers, n + scale.size(), std::size_t(of.row_begin)});
          block_numbers += std::size_t(of.rows()) * std::size_t(ranks[f]);
        }
        factor_count[f] += std::size_t(of.columns()) * std::size_t(ranks[f]);
        scale.insert(scale.end(), std::size_t(ranks[f]), f == 2 ? 1.0 / 32767 : 1.0);
      }
    }
    ld = std::int64_t((std::size_t(n) + scale.size() + 31) / 16 * 16);
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    for (std::size_t c = 0; c + 1 < cuts.size(); ++c)
      for (Local r = cuts[c]; r < cuts[c + 1]; r += 64) {
        op::PanelTask t{{}, {}, r, std::min<Local>(64, cuts[c + 1] - r), 0, std::int32_t(runs.size())};
        t.aligned = t.rows % 4 == 0;
        for (int f = 0; f < 3; ++f) {
          t.data[f] = std::int64_t(panel_count[f]), t.column[f] = std::int64_t(run_of.size());
          if (t.data[f] % 4 != 0) t.aligned = 0;
          for (std::size_t b = 0; b < blocks.size(); ++b) {
            const auto& of = blocks[b];
            if (of.row_begin > r || of.row_end <= r) continue;
            const int count = of.admissible ? ranks[f] : f == dense_format ? of.columns() : 0;
            if (count == 0) continue;
            std::uint32_t at = of.admissible ? first_t[b] : std::uint32_t(of.column_begin);
            for (int g = 0; g < f && of.admissible; ++g) at += std::uint32_t(ranks[g]);
            runs.push_back({!of.admissible && f == 2 ? 1.0 / 32767 : 1.0, std::int64_t(run_of.size()), at, 0});
            run_of.insert(run_of.end(), std::size_t(count), std::uint16_t(std::int32_t(runs.size()) - 1 - t.run));
            panel_count[f] += std::size_t(count) * std::size_t(t.rows);
          }
        }
        t.column[3] = std::int64_t(run_of.size());
        panels.push_back(t);
      }
    const auto larger = [](const auto& a, const auto& b) { return a > b; };
    std::stable_sort(factors.begin(), factors.end(), [&](const auto& a, const auto& b) {
      return larger(std::int64_t(a.rows) * a.columns, std::int64_t(b.rows) * b.columns);
    });
    std::stable_sort(panels.begin(), panels.end(), [&](const auto& a, const auto& b) {
      return larger((a.column[3] - a.column[0]) * a.rows, (b.column[3] - b.column[0]) * b.rows);
    });
    const std::size_t width[3] = {8, 4, 2};
    for (int f = 0; f < 3; ++f) bytes += double((factor_count[f] + panel_count[f]) * width[f]);
  }

  /// y = P [x; V^T x] on the host, where the numbers of factors precede those of panels. z holds x.
  std::vector<double> multiply(const std::vector<double>& native, const std::vector<float>& single,
                               const std::vector<std::int16_t>& fixed, std::vector<double> z) const {
    const auto number = [&](int format, std::size_t at) {
      return format == 0 ? native[at] : format == 1 ? double(single[at]) : double(fixed[at]);
    };
#pragma omp parallel for schedule(dynamic, 16)
    for (std::ptrdiff_t i = 0; i < std::ptrdiff_t(factors.size()); ++i) {
      const op::FactorTask& t = factors[std::size_t(i)];
      for (std::uint32_t j = 0; j < t.columns; ++j) {
        double sum = 0;
        for (std::uint32_t r = 0; r < t.rows; ++r)
          sum += number(t.format, std::size_t(t.data) + std::size_t(j) * t.rows + r) * z[t.begin + r];
        z[t.to + j] = sum * scale[t.to + j - std::size_t(n)];
      }
    }
    std::vector<double> y(static_cast<std::size_t>(n));
#pragma omp parallel for schedule(dynamic, 4)
    for (std::ptrdiff_t i = 0; i < std::ptrdiff_t(panels.size()); ++i) {
      const op::PanelTask& t = panels[std::size_t(i)];
      for (int f = 0; f < 3; ++f)
        for (std::int64_t c = t.column[f]; c < t.column[f + 1]; ++c) {
          const op::ColumnRun& of = runs[std::size_t(t.run) + run_of[std::size_t(c)]];
          const double b = of.scale * z[of.offset + std::size_t(c - of.column)];
          const std::size_t from = factor_count[f] + std::size_t(t.data[f] + (c - t.column[f]) * t.rows);
          for (int r = 0; r < t.rows; ++r) y[std::size_t(t.begin + r)] += number(f, from + std::size_t(r)) * b;
        }
    }
    return y;
  }
};

}  // namespace tacit::device
