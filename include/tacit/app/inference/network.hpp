// Sparse deep neural networks: Y := min(max(Y W + bias, 0), ceiling), layer by layer, for many inputs at once.
#pragma once

#include <tacit/base/described.hpp>
#include <tacit/op/tiled_matrix.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace tacit::app::inference {

/// A layer's weights by rows: row j has those of the inputs of output neuron j.
struct Layer {
  Local inputs = 0;
  std::vector<std::int64_t> start{0};  ///< row j's weights are [start[j], start[j + 1])
  std::vector<Local> input;
  std::vector<float> weight;
  Local neurons() const { return Local(start.size()) - 1; }
};

/// Makes layer l, counted from 0. Called from one thread at a time, which may be another one than the caller's.
using LayerSource = std::function<Layer(int layer)>;

/// Statistics of the outputs of a layer. An input is alive while one of its outputs is not zero.
struct LayerReport {
  Global alive = 0;  ///< inputs that are alive
  double sum = 0;    ///< of all outputs
};

struct InferOptions {
  float bias = -0.3F;  ///< added to every sum; not above 0
  float ceiling = 32;  ///< outputs are clamped to [0, ceiling]
  /// Inputs that a thread processes together (a panel), a multiple of 16. 0: by the number of neurons.
  int panel = 0;
  /// Layers that a panel passes before the inputs alive are collected into new panels. 0: 6.
  int group = 0;
  bool report_layers = false;  ///< fill InferResult::layers; costs a pass over the outputs of each layer
  bool keep_outputs = false;   ///< fill InferResult::outputs
  /// Called after a group of layers with the numbers of layers done and of inputs alive; true: ends the inference.
  std::function<bool(int layers, Global alive)> callback;
};

/// The options of networks and inferences as users give them: one table, and who takes which.
struct InferenceRequest {
  op::Values values = op::Values::full;
  double weight_bytes = 0;
  InferOptions infer;
};
std::span<const Option<InferenceRequest>> inference_options();
std::span<const Described> inference_takers();

struct InferResult {
  std::vector<Global> categories;   ///< inputs alive at the end, ascending
  std::vector<float> outputs;       ///< with keep_outputs: those of `categories`, one input after the other
  std::vector<LayerReport> layers;  ///< with report_layers
  double edges = 0;                 ///< weights times inputs, as the challenge counts them
  double edges_worked = 0;          ///< multiplications done (inputs that are not alive are dropped)
  double seconds = 0;               ///< of the inference, with waiting for weights
  double weight_seconds = 0;        ///< of these, waiting for weights
  int layers_done = 0;
};

/// A feed-forward network by the rules of the Sparse Deep Neural Network Graph Challenge (Kepner et al. 2019,
/// doi 10.1109/HPEC.2019.8916336); products as in Hidayetoglu et al. (2020), doi 10.1109/HPEC43674.2020.9286206.
class Network {
 public:
  /// A network of `layers` layers. `weight_bytes`: memory for stored weights; where all layers are estimated to need
  /// more, `source` makes them again in every inference, those of the next group while one is used (streaming). 0: all
  /// are made now and kept. Error(usage) where sizes of neighbouring layers differ, Error(input) for weights that are
  /// not finite; with streaming infer() throws them.
  Network(int layers, LayerSource source, op::Values values = op::Values::full, double weight_bytes = 0);
  ~Network();
  Network(Network&&) noexcept;

  int layers() const;
  Local inputs() const;   ///< of the first layer
  Local outputs() const;  ///< of the last layer; 0 (unknown) with streaming
  bool streams() const;   ///< whether weights are made in every inference

  /// Runs `count` inputs through the network: `bits`, where neuron i of input c is bit 7 - i % 8 of byte c
  /// ceil(inputs() / 8) + i / 8, or `dense`, where it is element c inputs() + i; the other is null. A layer is one pass
  /// over its weights for each panel. Inputs whose outputs are all zero are dropped, since with bias <= 0 they stay
  /// zero. The results are bitwise the same for any number of threads, panel and group. Local. Error(usage): a bias
  /// above 0, both or neither of `bits` and `dense`. Error(input): inputs that are not finite.
  InferResult infer(Global count, const std::uint8_t* bits, const float* dense, const InferOptions& options = {}) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/// RadiX-Net (Robinett and Kepner 2019, arXiv 1905.00416), with as many paths between any two neurons. With radices
/// r_0, r_1, .. and p their product, a block has one layer for each radix, and blocks repeat. Neurons are in p classes
/// of `width`. In layer l of a block, output neuron j reads the classes j + n r_0 .. r_{l-1} (mod p), 0 <= n < r_l,
/// with weights `weight`. Input neuron i of block g belongs to class row_class[g % row_class.size()][i], or i mod p
/// where row_class is empty.
LayerSource radixnet(std::vector<int> radices, int width, float weight, std::vector<std::vector<Local>> row_class = {});

}  // namespace tacit::app::inference
