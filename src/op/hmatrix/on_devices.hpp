// HMatrixOnDevices for one memory: instantiated for virtual devices by the host's compiler, for CUDA's by nvcc.
#pragma once

#include <tacit/op/hmatrix/on_devices.hpp>

#include <tacit/base/error.hpp>
#include <tacit/base/trace.hpp>

#include "plan.hpp"

#include <algorithm>

namespace tacit::op {

/// What lies on one device.
template <Scalar T, Memory M>
struct HMatrixOnDevices<T, M>::Part {
  template <class V>
  using On = exec::DeviceArray<V, M>;
  On<FactorTask> factors;
  On<PanelTask> panels;
  On<ColumnRun> runs;
  On<std::uint16_t> run_of;
  On<double> scale;
  On<Local> order;
  On<T> z, factor_native, panel_native;
  On<float> factor_single, panel_single;
  On<std::int16_t> factor_fixed, panel_fixed;
  std::int64_t columns, ld, rows;

  Part(exec::Devices<M>& devices, int d, const detail::KernelPlan<T>& plan, std::span<const Local> positions)
      : factors(devices.array(d, std::span<const FactorTask>(plan.factors))),
        panels(devices.array(d, std::span<const PanelTask>(plan.panels))),
        runs(devices.array(d, std::span<const ColumnRun>(plan.runs))),
        run_of(devices.array(d, std::span<const std::uint16_t>(plan.run_of))),
        scale(devices.array(d, std::span<const double>(plan.scale))),
        order(devices.array(d, positions)),
        z(devices.template array<T>(d, std::size_t(plan.ld))),
        factor_native(devices.array(d, std::get<0>(plan.factor_numbers))),
        panel_native(devices.array(d, std::get<0>(plan.panel_numbers))),
        factor_single(devices.array(d, std::get<1>(plan.factor_numbers))),
        panel_single(devices.array(d, std::get<1>(plan.panel_numbers))),
        factor_fixed(devices.array(d, std::get<2>(plan.factor_numbers))),
        panel_fixed(devices.array(d, std::get<2>(plan.panel_numbers))),
        columns(plan.columns),
        ld(plan.ld),
        rows(plan.rows) {}

  void multiply(exec::Devices<M>& devices, int d, const T* x, T* y) {
    devices.launch(d, IntoPlanes<T, 1>::blocks(columns),
                   IntoPlanes<T, 1>{columns, ld, 1, 0, order.data(), x, z.data()});
    devices.launch(d, Global(factors.size()),
                   FactorProducts<T, 1>{factors.data(),
                                        {factor_native.data(), factor_single.data(), factor_fixed.data()},
                                        scale.data(),
                                        columns,
                                        ld,
                                        z.data()});
    devices.launch(d, Global(panels.size()),
                   PanelProducts<T, 1>{panels.data(),
                                       runs.data(),
                                       run_of.data(),
                                       {panel_native.data(), panel_single.data(), panel_fixed.data()},
                                       ld,
                                       rows,
                                       z.data(),
                                       y});
  }
};

template <Scalar T, Memory M>
HMatrixOnDevices<T, M>::HMatrixOnDevices(std::shared_ptr<const HMatrix<T>> matrix,
                                         std::shared_ptr<exec::Devices<M>> devices, const DeviceProductOptions& options)
    : matrix_(std::move(matrix)), devices_(std::move(devices)), options_(options) {
  require(matrix_ && devices_, "an hmatrix on devices without a matrix or without devices");
  const auto& comm = matrix_->range().comm();
  comm::collective(comm, [&] {
    require(comm.size() == 1 || matrix_->range().is_replicated(),
            "an hmatrix on devices of several ranks needs replicated vectors");
    require(matrix_->options().symmetry == Symmetry::none, "an hmatrix of which one triangle is kept, on devices");
    const int count = devices_->size();
    const auto [first, last] = matrix_->own_rows();
    const Local rows = last - first;
    const auto tree = matrix_->column_order();
    const std::vector<Local> positions(tree.begin(), tree.end());
    Local most = 0;
    int d = 0;
    for (auto& part : detail::deal_blocks(*matrix_, count, options_.deal)) {
      rows_.push_back(part.rows), bytes_.push_back(part.bytes);
      if (d > 0) most = std::max(most, part.rows.second - part.rows.first);
      parts_.push_back(std::make_unique<Part>(*devices_, d, part.plan, positions));
      partial_.push_back(devices_->template array<T>(d, std::size_t(rows)));
      ++d;
    }
    scratch_ = devices_->template array<T>(0, std::size_t(most));
    own_.resize(std::size_t(rows)), whole_.resize(std::size_t(matrix_->range().size()));
  });
}

template <Scalar T, Memory M>
HMatrixOnDevices<T, M>::~HMatrixOnDevices() = default;

template <Scalar T, Memory M>
typename HMatrixOnDevices<T, M>::Vectors HMatrixOnDevices<T, M>::vector() const {
  Vectors x;
  for (int d = 0; d < devices_->size(); ++d)
    x.push_back(devices_->template array<T>(d, std::size_t(matrix_->domain().size())));
  return x;
}

template <Scalar T, Memory M>
void HMatrixOnDevices<T, M>::assign(std::span<const T> host, Vectors& x) const {
  require(host.size() == x[0].size(), "a vector of ", x[0].size(), " elements on devices was given ", host.size());
  devices_->broadcast(host.data(), x, options_.path);
  for (int d = 0; d < devices_->size(); ++d) devices_->wait(d);
}

template <Scalar T, Memory M>
std::vector<T> HMatrixOnDevices<T, M>::to_host(const Vectors& x) const {
  std::vector<T> host(x[0].size());
  devices_->to_host(x[0], 0, host.size(), host.data());
  devices_->wait(0);
  return host;
}

template <Scalar T, Memory M>
void HMatrixOnDevices<T, M>::begin(const Vectors& x) const {
  auto& devices = *devices_;
  for (int d = 0; d < devices.size(); ++d) {
    if (Trace::on()) devices.on(d, [&] { Trace::work(exec::detail::product_on_devices, bytes_[std::size_t(d)]); });
    parts_[std::size_t(d)]->multiply(devices, d, x[std::size_t(d)].data(), partial_[std::size_t(d)].data());
  }
  devices.sum_on_first(partial_, rows_, scratch_, options_.path);
  devices.to_host_aside(partial_[0], 0, own_.size(), own_.data());
}

template <Scalar T, Memory M>
void HMatrixOnDevices<T, M>::post() const {
  devices_->wait_aside(0);
  token_ = matrix_->rows().start_put(own_.data(), 1, whole_.data());
}

template <Scalar T, Memory M>
void HMatrixOnDevices<T, M>::finish(Vectors& y) const {
  matrix_->rows().finish_put(1, token_, whole_.data());
  devices_->broadcast(whole_.data(), y, options_.path);
}

template <Scalar T, Memory M>
void HMatrixOnDevices<T, M>::multiply(const Vectors& x, Vectors& y) const {
  const Span span("hmatrix product on devices", "op");
  begin(x);
  post();
  finish(y);
}

}  // namespace tacit::op
