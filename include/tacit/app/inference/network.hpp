// Sparse deep networks: Y := min(max(Y W + bias, 0), ceiling), layer by layer, for many inputs at once.
#pragma once

#include <tacit/base/described.hpp>
#include <tacit/op/tiled_matrix.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace tacit::app::inference {

/// A layer's weights as they act: row j holds what output neuron j sums up.
struct Layer {
  Local inputs = 0;
  std::vector<std::int64_t> start{0};  ///< row j's weights are [start[j], start[j + 1])
  std::vector<Local> input;
  std::vector<float> weight;
  Local neurons() const { return Local(start.size()) - 1; }
};

/// Makes layer l, from 0. Called from one thread at a time, which need not be the caller's.
using LayerSource = std::function<Layer(int layer)>;

/// What is left of the inputs after a layer.
struct LayerReport {
  Global alive = 0;  ///< inputs with an output that is not zero
  double sum = 0;    ///< of all outputs
};

struct InferOptions {
  float bias = -0.3F;  ///< added to every sum; not above 0
  float ceiling = 32;  ///< outputs are cut off at 0 and here
  /// Inputs that are worked on together, a multiple of 16: what makes their outputs stay in a core's cache. 0: by the
  /// number of neurons.
  int panel = 0;
  /// Layers that a panel goes through before what is alive is put together anew. 0: 6.
  int group = 0;
  bool report_layers = false;  ///< the sums of outputs cost a pass each
  bool keep_outputs = false;
  /// Called after a group of layers with the number that are done and of inputs alive; true: end there.
  std::function<bool(int layers, Global alive)> callback;
};

/// A network and an inference as users say them: one table, and who takes what of it.
struct InferenceRequest {
  op::Values values = op::Values::full;
  double weight_bytes = 0;
  InferOptions infer;
};
std::span<const Option<InferenceRequest>> inference_options();
std::span<const Described> inference_takers();

struct InferResult {
  std::vector<Global> categories;   ///< inputs with an output that is not zero, ascending
  std::vector<float> outputs;       ///< of them, one input after the other, where wished for
  std::vector<LayerReport> layers;  ///< where wished for
  double edges = 0;                 ///< weights x inputs, as the challenge counts
  double edges_worked = 0;          ///< those that were multiplied
  double seconds = 0;               ///< all of it, waiting for weights included
  double weight_seconds = 0;        ///< of that, waiting for weights
  int layers_done = 0;
};

/// A feed-forward network by the rules of the Sparse Deep Neural Network Graph Challenge (Kepner et al. 2019,
/// doi 10.1109/HPEC.2019.8916336); products as in Hidayetoglu et al. (2020), doi 10.1109/HPEC43674.2020.9286206.
class Network {
 public:
  /// `layers` many. `weight_bytes`: memory for stored weights; where they need more, layers are made by `source` in
  /// every inference, those of the next group while one is worked on. 0: all are made now and kept. Error(usage) where
  /// neighbouring layers do not fit, Error(input) on weights that are not finite.
  Network(int layers, LayerSource source, op::Values values = op::Values::full, double weight_bytes = 0);
  ~Network();
  Network(Network&&) noexcept;

  int layers() const;
  Local inputs() const;   ///< of the first layer
  Local outputs() const;  ///< of the last; 0 until it has been made, where weights are not kept
  bool streams() const;   ///< weights are made in every inference

  /// Runs `count` inputs: `bits`, where neuron i of input c is bit 7 - i % 8 of byte c ceil(inputs() / 8) + i / 8, or
  /// `dense`, where it is element c inputs() + i; the other is null. Product, bias and cut are one pass over the
  /// weights. Inputs whose outputs are all zero are dropped: they stay zero. The same bits for any number of threads;
  /// panels and groups do not change them either. Error(usage) on a bias above 0 and on both or neither of the inputs,
  /// Error(input) on inputs that are not finite.
  InferResult infer(Global count, const std::uint8_t* bits, const float* dense, const InferOptions& options = {}) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/// RadiX-Net (Robinett and Kepner 2019, arXiv 1905.00416): layer l of a block of layers with the radices r_0, r_1, ..
/// joins class c to the classes c - n r_0 .. r_{l-1}, n < r_l, modulo the product of all; a class is `width` neurons,
/// those equal modulo the product; all paths between two neurons are equal in number. Every weight is `weight`. Blocks
/// repeat; input neuron i of block g belongs to class row_class[g % row_class.size()][i], or to i modulo the product
/// where row_class is empty.
LayerSource radixnet(std::vector<int> radices, int width, float weight, std::vector<std::vector<Local>> row_class = {});

}  // namespace tacit::app::inference
