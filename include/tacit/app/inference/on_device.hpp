// Sparse networks on a device: weights and outputs stay in its memory through all layers.
#pragma once

#include <tacit/app/inference/network.hpp>

#include <cstdint>
#include <memory>

namespace tacit::app::inference {

/// As Network, with weights as staged matrices (op/staged_matrix.hpp) and outputs in memory M: the same categories and
/// outputs, to the bit where a row's inputs ascend and weights are stored in full. A layer is one launch, which also
/// clamps and notes the inputs that are alive; the host waits once for each panel and group of layers (with
/// report_layers once more a layer). Inputs are dropped between groups only, so edges_worked is larger than Network's.
/// M = Host runs the same kernels on the processor, for tests.
template <Memory M>
class NetworkOnDevice {
 public:
  /// As Network; on the device of this number (M = Device). values: full, single or half. Error(usage) for bfloat16,
  /// Error(environment) where there is no such device, or too little memory there.
  NetworkOnDevice(int layers, LayerSource source, int gpu = 0, op::Values values = op::Values::full,
                  double weight_bytes = 0);
  ~NetworkOnDevice();
  NetworkOnDevice(NetworkOnDevice&&) noexcept;

  int gpu() const;
  int layers() const;
  Local inputs() const;
  Local outputs() const;
  bool streams() const;

  /// As Network::infer; `bits` and `dense` are in host memory. options.panel: 0: as many inputs as make outputs of 1
  /// GiB. Memory: the outputs of all panels, those of two layers of one of them besides.
  InferResult infer(Global count, const std::uint8_t* bits, const float* dense, const InferOptions& options = {}) const;
  /// Kernels started by the last infer().
  std::int64_t launches() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace tacit::app::inference
