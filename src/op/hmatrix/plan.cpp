#include "plan.hpp"

#include "storage_impl.hpp"

#include <tacit/base/error.hpp>

#include <algorithm>
#include <numeric>

namespace tacit::op::detail {

template <Scalar T>
KernelPlan<real_t<T>> Storage<T>::kernel_plan() const {
  static_assert(!is_complex<T>);
  KernelPlan<T> plan;
  plan.rows = rows_, plan.columns = columns_;
  plan.ld = std::int64_t((std::size_t(columns_) + t_scale_.size() + 31) / 16 * 16);
  plan.scale = t_scale_;
  const auto multiple = [](std::size_t v) { return v % 4 == 0; };
  for (const Factor& f : factors_) {
    const int most = FactorProducts<T, 1>::columns_of_task(f.rows);
    for (Local j = 0; j < f.count; j += most)
      plan.factors.push_back(
          {std::int64_t(f.data) + std::int64_t(j) * f.rows, std::uint32_t(f.begin), std::uint32_t(f.rows),
           f.t + std::uint32_t(j), std::uint32_t(std::min(most, f.count - j)), f.format,
           std::int32_t(multiple(f.data) && multiple(std::size_t(f.rows)) && multiple(std::size_t(f.begin)))});
  }
  // The longest tasks are started first.
  std::stable_sort(plan.factors.begin(), plan.factors.end(), [](const FactorTask& a, const FactorTask& b) {
    return std::int64_t(a.rows) * a.columns > std::int64_t(b.rows) * b.columns;
  });
  for (const Panel& p : panels_) {
    PanelTask t{{}, {}, p.begin, p.rows, multiple(std::size_t(p.rows)), checked_cast<Local>(p.run[0], "runs")};
    for (int f = 0; f < formats; ++f) {
      t.data[f] = std::int64_t(p.data[f]);
      if (!multiple(p.data[f])) t.aligned = 0;
      t.column[f] = std::int64_t(plan.run_of.size());
      std::int64_t column = t.column[f];
      for (std::size_t r = p.run[f]; r < p.run[f + 1]; ++r) {
        const Run& run = runs_[r];
        plan.runs.push_back({run.scale, column, run.offset, 0});
        require(r - p.run[0] < 0x10000, "a panel of an hmatrix with more than 65536 runs of columns");
        plan.run_of.insert(plan.run_of.end(), run.count, std::uint16_t(r - p.run[0]));
        column += run.count;
      }
    }
    t.column[formats] = std::int64_t(plan.run_of.size());
    plan.panels.push_back(t);
  }
  const auto bytes = [](const PanelTask& t) { return (t.column[3] - t.column[0]) * t.rows; };
  std::stable_sort(plan.panels.begin(), plan.panels.end(),
                   [&](const PanelTask& a, const PanelTask& b) { return bytes(a) > bytes(b); });
  each_format([&](auto f) {
    std::get<f>(plan.factor_numbers) = {std::get<f>(factor_data_).data(), std::get<f>(factor_data_).size()};
    std::get<f>(plan.panel_numbers) = {std::get<f>(panel_data_).data(), std::get<f>(panel_data_).size()};
  });
  return plan;
}

template <Scalar T>
std::vector<DevicePart<T>> deal_blocks(const HMatrix<T>& matrix, int count, BlockDeal deal) {
  const auto [first, last] = matrix.own_rows();
  auto blocks = matrix.storage().blocks([](const Block&) { return true; });
  std::vector<std::size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), std::size_t(0));
  std::vector<int> owner(blocks.size());
  if (deal == BlockDeal::rows) {
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      const Block &p = blocks[a].block, &q = blocks[b].block;
      return std::pair(p.row_begin, p.column_begin) < std::pair(q.row_begin, q.column_begin);
    });
    double all = 0, before = 0;
    for (const auto& p : blocks) all += p.bytes();
    for (const std::size_t b : order) {
      const double bytes = blocks[b].bytes();
      owner[b] = all > 0 ? std::min(count - 1, int((before + bytes / 2) / all * count)) : 0;
      before += bytes;
    }
  } else {
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return blocks[a].bytes() > blocks[b].bytes(); });
    for (std::size_t i = 0; i < order.size(); ++i) owner[order[i]] = int(i % std::size_t(count));
  }
  std::vector<DevicePart<T>> parts(static_cast<std::size_t>(count));
  for (int d = 0; d < count; ++d) {
    DevicePart<T>& part = parts[std::size_t(d)];
    std::vector<Packed<T>> own;
    std::pair<Local, Local> rows{last, first};
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      if (owner[b] != d) continue;
      rows.first = std::min(rows.first, blocks[b].block.row_begin);
      rows.second = std::max(rows.second, blocks[b].block.row_end);
      part.bytes += blocks[b].bytes();
      own.push_back(std::move(blocks[b]));
    }
    if (!own.empty()) part.rows = {rows.first - first, rows.second - first};
    const auto storage =
        std::make_shared<const Storage<T>>(first, last - first, Local(matrix.domain().size()), std::move(own));
    part.plan = storage->kernel_plan();
    part.storage = storage;
  }
  return parts;
}

template std::vector<DevicePart<float>> deal_blocks(const HMatrix<float>&, int, BlockDeal);
template std::vector<DevicePart<double>> deal_blocks(const HMatrix<double>&, int, BlockDeal);
template KernelPlan<float> Storage<float>::kernel_plan() const;
template KernelPlan<double> Storage<double>::kernel_plan() const;

}  // namespace tacit::op::detail
