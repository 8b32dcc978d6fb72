// The layers of a network as matrices of any kind: all kept, or made anew group by group in every inference
// (streaming).
#pragma once

#include <tacit/app/inference/network.hpp>
#include <tacit/base/error.hpp>
#include <tacit/base/trace.hpp>

#include <algorithm>
#include <functional>
#include <future>
#include <memory>
#include <utility>
#include <vector>

namespace tacit::app::inference {

/// Layer l of a source, with its sizes and weights checked; expected: its inputs, or -1 for any number. Error(usage),
/// Error(input): as Network.
Layer checked_layer(const LayerSource& source, int l, Local expected);
/// Output neurons with similar inputs as neighbours, so that their inputs are read from the nearest cache.
std::vector<Local> order_of(const Layer& layer);
/// The rows of a layer in this order. Refers to both.
op::RowSource<float> rows_of(const Layer& layer, const std::vector<Local>& order);

/// Error(usage): the checks that infer() begins with. Error(input): a value that is not finite, of this input and
/// neuron.
void check_inputs(Global count, const std::uint8_t* bits, const float* dense, const InferOptions& options);
void check_input(float value, Global input, std::size_t neuron);

template <class Matrix>
class Layers {
 public:
  using Made = std::vector<std::unique_ptr<Matrix>>;
  using Make = std::function<std::unique_ptr<Matrix>(const Layer&)>;

  /// bytes: memory for matrices, as of Network. make: called from another thread with streaming.
  Layers(int count, LayerSource source, double bytes, Make make)
      : count_(count), source_(std::move(source)), make_(std::move(make)) {
    require(count >= 1, "a network of ", count, " layers");
    double used = 0;
    Local neurons = -1;
    for (int l = 0; l < count; ++l) {
      auto layer = matrix(l, neurons);
      if (l == 0) inputs_ = layer->columns();
      neurons = layer->rows();
      used += layer->bytes();
      kept_.push_back(std::move(layer));
      if (bytes > 0 && used * count / (l + 1) > bytes) {  // extrapolated to all layers
        most_ = std::max(1, int(bytes / 2 / (used / (l + 1))));
        kept_.clear();
        return;
      }
    }
    outputs_ = neurons;
  }

  int count() const { return count_; }
  Local inputs() const { return inputs_; }
  Local outputs() const { return outputs_; }  ///< 0 with streaming
  bool streams() const { return most_ > 0; }

  /// One pass through all layers, group by group; with streaming the next group is made while one is used.
  class Pass {
   public:
    /// group: layers at a time, at most.
    Pass(const Layers& layers, int group)
        : layers_(layers), group_(layers.streams() ? std::min(group, layers.most_) : group) {
      if (layers_.streams()) start(0);
    }
    ~Pass() {
      if (coming_.valid()) coming_.wait();
    }
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;

    bool more() const { return next_ < layers_.count_; }
    int done() const { return next_; }  ///< layers taken so far
    /// The next group, whose first layer takes `width` inputs. Valid until the next call.
    const std::vector<const Matrix*>& take(Local width) {
      const int first = next_, last = end_of(first);
      now_.clear();
      if (layers_.streams()) {
        const double waiting = wall_time();
        here_ = coming_.get();
        waited_ += wall_time() - waiting;
        if (last < layers_.count_) start(last);
        for (const auto& m : here_) now_.push_back(m.get());
      } else {
        for (int l = first; l < last; ++l) now_.push_back(layers_.kept_[std::size_t(l)].get());
      }
      require(now_.front()->columns() == width, "layer ", first, " takes ", now_.front()->columns(),
              " inputs, but the one before has ", width, " neurons");
      next_ = last;
      return now_;
    }
    double waited() const { return waited_; }  ///< seconds, for matrices

   private:
    int end_of(int first) const { return std::min(layers_.count_, first + group_); }
    void start(int first) {
      coming_ = std::async(std::launch::async, [this, first, last = end_of(first)] {
        Made some;
        for (int l = first; l < last; ++l) some.push_back(layers_.matrix(l, some.empty() ? -1 : some.back()->rows()));
        return some;
      });
    }
    const Layers& layers_;
    int group_, next_ = 0;
    double waited_ = 0;
    Made here_;
    std::vector<const Matrix*> now_;
    std::future<Made> coming_;
  };

 private:
  std::unique_ptr<Matrix> matrix(int l, Local expected) const { return make_(checked_layer(source_, l, expected)); }
  int count_;
  LayerSource source_;
  Make make_;
  Local inputs_ = 0, outputs_ = 0;
  Made kept_;
  int most_ = 0;  // streaming: the largest number of layers of a group; 0: all layers are kept
};

}  // namespace tacit::app::inference
