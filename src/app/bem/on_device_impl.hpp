// blocks_on(), instantiated for virtual devices by the host compiler and for CUDA devices by nvcc.
#pragma once

#include <tacit/app/bem/on_device.hpp>
#include <tacit/op/hmatrix/device_blocks.hpp>

#include <utility>
#include <vector>

namespace tacit::app::bem {
namespace {

// Keeps the layer's data on the device during assembly.
template <Scalar T, Memory M>
class LayerBlocks final : public op::BlockMaker<T> {
 public:
  LayerBlocks(const SingleLayer& layer, std::span<const Global> order, int device)
      : devices_(std::make_shared<exec::Devices<M>>(std::vector<int>{device})),
        blocks_(devices_, order, order, entry_of(layer)) {}

  std::size_t make(std::span<const op::WantedBlock> wanted, const op::CompressOptions& options) override {
    return blocks_.make(wanted, options);
  }
  op::RawBlock<T> take(std::size_t k) const override { return blocks_.take(k); }

 private:
  SingleLayerEntry entry_of(const SingleLayer& layer) {
    LayerNumbers at = layer.numbers();
    const auto n = std::size_t(layer.size());
    const auto move = [&](const double*& p) {
      if (!p) return;
      numbers_.push_back(devices_->array(0, std::span<const double>(p, n)));
      p = numbers_.back().data();
    };
    for (int k = 0; k < 3; ++k) {
      move(at.x[k]), move(at.image[k]), move(at.moment[k]);
      move(at.corner[0][k]), move(at.corner[1][k]);
    }
    move(at.area), move(at.size2);
    return {at};
  }
  std::shared_ptr<exec::Devices<M>> devices_;
  std::vector<exec::DeviceArray<double, M>> numbers_;
  op::DeviceBlocks<T, SingleLayerEntry, M> blocks_;
};

}  // namespace

template <Scalar T, Memory M>
std::unique_ptr<op::BlockMaker<T>> blocks_on(const SingleLayer& layer, std::span<const Global> order, int device) {
  return std::make_unique<LayerBlocks<T, M>>(layer, order, device);
}

}  // namespace tacit::app::bem
