// HMatrixOnDevices, instantiated for virtual devices by the host compiler and for CUDA devices by nvcc.
#pragma once

#include <tacit/op/hmatrix/on_devices.hpp>

#include <tacit/base/error.hpp>
#include <tacit/base/trace.hpp>

#include "plan.hpp"

#include <algorithm>

namespace tacit::op {

/// The data on one device.
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

template <Scalar T>
Space replicated_space(const HMatrix<T>* matrix, std::shared_ptr<exec::Place> place) {
  require(matrix, "an hmatrix on devices without a matrix");
  const Space& space = matrix->range();
  return comm::collective(space.comm(), [&] {
    require(matrix->domain().size() == space.size(), "an hmatrix on devices is square; this one is ", space.size(),
            " by ", matrix->domain().size());
    return Space::replicated(space.comm(), space.size()).on(std::move(place));
  });
}

template <Scalar T, Memory M>
HMatrixOnDevices<T, M>::HMatrixOnDevices(std::shared_ptr<const HMatrix<T>> matrix,
                                         std::shared_ptr<exec::Devices<M>> devices, const DeviceProductOptions& options)
    : HMatrixOnDevices(std::move(matrix), std::make_shared<exec::DeviceGroup<M>>(std::move(devices), options.path),
                       options) {}

template <Scalar T, Memory M>
HMatrixOnDevices<T, M>::HMatrixOnDevices(std::shared_ptr<const HMatrix<T>> matrix,
                                         std::shared_ptr<exec::DeviceGroup<M>> group,
                                         const DeviceProductOptions& options)
    : Operator<T, Group<M>>(replicated_space(matrix.get(), group), replicated_space(matrix.get(), group)),
      matrix_(std::move(matrix)),
      group_(std::move(group)) {
  comm::collective(matrix_->range().comm(), [&] {
    require(matrix_->options().symmetry == Symmetry::none, "an hmatrix on devices has both triangles; this one is ",
            to_string(matrix_->options().symmetry), " and stored by one: make it with symmetry none");
    group_->work = options.work, group_->overlap = options.overlap;
    transfer_ = &matrix_->rows();
    if (const auto& comm = matrix_->range().comm(); comm.size() > 1 && !matrix_->range().is_replicated()) {
      own_rows_ = std::make_unique<OwnRows<T>>(Space::replicated(comm, matrix_->range().size()), matrix_->row_tree(),
                                               transfer_->cuts());
      transfer_ = own_rows_.get();
    }
    auto& devices = group_->devices();
    const auto [first, last] = matrix_->own_rows();
    const Local rows = last - first;
    const auto tree = matrix_->column_order();
    const std::vector<Local> positions(tree.begin(), tree.end());
    Local most = 0;
    int d = 0;
    for (auto& part : detail::deal_blocks(*matrix_, devices.size(), options.deal)) {
      rows_.push_back(part.rows), bytes_.push_back(part.bytes);
      if (d > 0) most = std::max(most, part.rows.second - part.rows.first);
      parts_.push_back(std::make_unique<Part>(devices, d, part.plan, positions));
      partial_.push_back(devices.template array<T>(d, std::size_t(rows)));
      ++d;
    }
    scratch_ = devices.template array<T>(0, std::size_t(most));
    own_ = exec::HostBuffer<T, M>(std::size_t(rows));
    whole_ = exec::HostBuffer<T, M>(std::size_t(matrix_->range().size()));
  });
}

template <Scalar T, Memory M>
HMatrixOnDevices<T, M>::~HMatrixOnDevices() {
  release_buffers();
}

template <Scalar T, Memory M>
void HMatrixOnDevices<T, M>::release_buffers() const noexcept {
  try {
    group_->devices().wait_aside(0);
    group_->devices().wait_for_broadcast();
  } catch (...) {  // the device is lost, and copies nothing
  }
}

template <Scalar T, Memory M>
std::vector<T> HMatrixOnDevices<T, M>::diagonal() const {
  const auto own = matrix_->diagonal();
  return own_rows_ ? matrix_->range().comm().all_gather(std::span<const T>(own)) : own;
}

template <Scalar T, Memory M>
int HMatrixOnDevices<T, M>::begin(const Vector& x, Vector&, bool) const {
  require(!busy_, "a product with an hmatrix on devices is under way; wait for it first");
  require(x.columns() == 1, "an hmatrix on devices multiplies one column; these vectors have ", x.columns());
  const Span span("hmatrix product on devices", "op");
  auto& devices = group_->devices();
  x.own().complete();
  for (int d = 0; d < devices.size(); ++d) {
    if (Trace::on()) devices.on(d, [&] { Trace::work(exec::detail::product_on_devices, bytes_[std::size_t(d)]); });
    parts_[std::size_t(d)]->multiply(devices, d, x.own().on(d).data(), partial_[std::size_t(d)].data());
  }
  devices.sum_on_first(partial_, rows_, scratch_, group_->path());
  devices.to_host_aside(partial_[0], 0, own_.size(), own_.data());
  busy_ = true;
  if (group_->overlap != exec::DeviceOverlap::copy) group_->before_waiting = [this] { post(); };
  return 0;
}

template <Scalar T, Memory M>
void HMatrixOnDevices<T, M>::post() const {
  group_->devices().wait_aside(0);
  group_->devices().wait_for_broadcast();  // of the last product, from whole_
  token_ = transfer_->start_put(own_.data(), 1, whole_.data());
}

template <Scalar T, Memory M>
void HMatrixOnDevices<T, M>::finish(const Vector&, Vector& y, bool, int) const {
  group_->before_waiting = nullptr;
  if (!token_) post();
  transfer_->finish_put(1, *std::exchange(token_, std::nullopt), whole_.data());
  group_->devices().broadcast(whole_.data(), y.own().copies(), group_->path());
  y.own().set_whole(true);
  busy_ = false;
}

template <Scalar T, Memory M>
void HMatrixOnDevices<T, M>::abandon(int) const noexcept {
  group_->before_waiting = nullptr;
  token_.reset();
  if (busy_) release_buffers();  // the next product writes what is being copied
  busy_ = false;
}

}  // namespace tacit::op
