// Networks over either memory: instantiated for the host by on_device.cpp, for CUDA's device by on_device.cu.
#pragma once

#include <tacit/app/inference/on_device.hpp>
#include <tacit/base/trace.hpp>
#include <tacit/exec/gpus.hpp>
#include <tacit/exec/launch.hpp>
#include <tacit/exec/memory.hpp>
#include <tacit/op/staged_matrix.hpp>

#include "kernels.hpp"
#include "layers.hpp"

#include <algorithm>
#include <numeric>
#include <optional>

namespace tacit::app::inference {
namespace {

/// This thread's device while it lives; nothing in host memory.
template <Memory M>
class OnGpu {
 public:
  explicit OnGpu([[maybe_unused]] int gpu) {
    if constexpr (!std::same_as<M, Host>) use_.emplace(gpu);
  }

 private:
  std::optional<exec::UseGpu> use_;
};

template <class T, Memory M>
std::vector<T> to_host(const exec::Array<T, M>& from, std::size_t count) {
  std::vector<T> to(count);
  if (count == 0) return to;
  if constexpr (std::same_as<M, Host>) std::copy_n(from.data(), count, to.data());
  else exec::copy_to_host(to.data(), from.data(), count * sizeof(T));
  return to;
}

}  // namespace

template <Memory M>
struct NetworkOnDevice<M>::Parts {
  using Matrix = op::StagedMatrix<float, M>;
  using Floats = exec::Array<float, M>;
  int gpu;
  Layers<Matrix> layers;
  mutable std::int64_t launches = 0;

  static std::unique_ptr<Matrix> make(int gpu, op::Values values, const Layer& layer) {
    const OnGpu<M> use(gpu);  // with streaming this thread is not the caller's
    const auto order = order_of(layer);
    return std::make_unique<Matrix>(layer.neurons(), layer.inputs, rows_of(layer, order), 32,
                                    values == op::Values::half ? values : op::Values::full, op::Vectors::full, order);
  }

  template <class Kernel>
  void run(Global items, const Kernel& kernel) const {
    const Global blocks = (items + Kernel::threads - 1) / Kernel::threads;
    launch(blocks, kernel);
  }
  template <class Kernel>
  void launch(Global blocks, const Kernel& kernel) const {
    ++launches;
    exec::launch<M>(blocks, kernel);
  }

  // Arrays that are not in use.
  class Pool {
   public:
    Floats take(std::size_t n) {
      for (auto& a : free_)
        if (a.size() >= n) {
          Floats found = std::move(a);
          a = std::move(free_.back());
          free_.pop_back();
          return found;
        }
      return Floats(n);
    }
    void give(Floats a) {
      if (a.size() > 0) free_.push_back(std::move(a));
    }
    void clear() { free_.clear(); }

   private:
    std::vector<Floats> free_;
  };

  // The outputs of some inputs: row i has those of neuron i. Columns beyond the inputs are zero: with a multiple of
  // four rows are copied 16 bytes at a time.
  struct Panel {
    static int padded(std::size_t inputs) { return int((inputs + 3) / 4 * 4); }
    int columns = 0;
    std::vector<Global> inputs;
    std::vector<Local> alive;
    Floats outputs;
  };

  // Inputs begin to begin + k - 1 as the first of so many columns.
  Floats load(Global begin, int k, int columns, const std::uint8_t* bits, const float* dense, Pool& pool) const {
    const auto rows = std::size_t(layers.inputs()), wide = std::size_t(k), size = rows * std::size_t(columns);
    Floats in = pool.take(size);
    const Global bytes = (layers.inputs() + 7) / 8;
    Interleave kernel{Global(rows), columns, k, bytes, nullptr, nullptr, in.data()};
    if (dense) {
      const float* const from = dense + std::size_t(begin) * rows;
      for (std::size_t i = 0; i < rows * wide; ++i) check_input(from[i], begin + Global(i / rows), i % rows);
      const auto there = Floats::from(std::span(from, rows * wide));
      kernel.numbers = there.data();
      run(Global(size), kernel);
    } else {
      const auto there = exec::Array<std::uint8_t, M>::from(
          std::span(bits + std::size_t(begin) * std::size_t(bytes), std::size_t(bytes) * wide));
      kernel.bits = there.data();
      run(Global(size), kernel);
    }
    return in;
  }

  // The panel's outputs after these layers, clamped, and which of its inputs are alive.
  void pass(Panel& panel, const std::vector<const Matrix*>& some, const InferOptions& o, LayerReport* reports,
            double& worked, Pool& pool) const {
    const int k = panel.columns;
    const op::Clamp<float> clamp{o.bias, 0.0F, o.ceiling};
    for (std::size_t l = 0; l < some.size(); ++l) {
      const Matrix& w = *some[l];
      const std::size_t size = std::size_t(w.rows()) * std::size_t(k);
      Floats out = pool.take(size);
      const bool looked_at = reports || l + 1 == some.size();
      exec::Array<std::uint32_t, M> flags(looked_at ? std::size_t(k) : 0);
      w.multiply(panel.outputs.data(), out.data(), k, {.clamp = &clamp, .alive = looked_at ? flags.data() : nullptr});
      ++launches;
      worked += double(w.entries()) * double(panel.inputs.size());
      pool.give(std::exchange(panel.outputs, std::move(out)));
      if (!looked_at) continue;
      const auto living = to_host(flags, std::size_t(k));
      panel.alive.clear();
      for (int c = 0; c < k; ++c)
        if (living[std::size_t(c)]) panel.alive.push_back(c);
      if (!reports) continue;
      reports[l].alive += Global(panel.alive.size());
      const Global teams = (Global(size) + PartialTotal::rows - 1) / PartialTotal::rows;
      exec::Array<double, M> part(static_cast<std::size_t>(teams));
      launch(teams, PartialTotal{Global(size), panel.outputs.data(), part.data()});
      const auto sums = to_host(part, std::size_t(teams));
      reports[l].sum += std::accumulate(sums.begin(), sums.end(), 0.0);
    }
    std::vector<Global> inputs;
    for (const Local c : panel.alive) inputs.push_back(panel.inputs[std::size_t(c)]);
    panel.inputs = std::move(inputs);
  }

  // What is alive, put together into panels of at most `most` inputs.
  std::vector<Panel> together(std::vector<Panel> before, Local width, int most, Pool& pool) const {
    std::vector<Panel> after;
    std::size_t left = 0, room = 0;  // inputs that have no panel yet; those that the last panel is for
    for (const auto& p : before) left += p.alive.size();
    for (auto& from : before) {
      const auto columns = exec::Array<Local, M>::from(from.alive);
      for (std::size_t at = 0; at < from.alive.size();) {
        if (after.empty() || after.back().inputs.size() == room) {
          Panel& made = after.emplace_back();
          room = std::min(left, std::size_t(most));
          left -= room;
          made.columns = Panel::padded(room);
          made.outputs = pool.take(std::size_t(width) * std::size_t(made.columns));
        }
        Panel& to = after.back();
        const std::size_t first = to.inputs.size(), n = std::min(room - first, from.alive.size() - at);
        const Global count = first + n == room ? to.columns - Global(first) : Global(n);
        run(width * count, TakeColumns{width, from.columns, to.columns, Global(first), Global(n), count,
                                       columns.data() + at, from.outputs.data(), to.outputs.data()});
        to.inputs.insert(to.inputs.end(), from.inputs.begin() + std::ptrdiff_t(at),
                         from.inputs.begin() + std::ptrdiff_t(at + n));
        at += n;
      }
      pool.give(std::move(from.outputs));
    }
    return after;
  }
};

template <Memory M>
NetworkOnDevice<M>::NetworkOnDevice(int layers, LayerSource source, int gpu, op::Values values, double weight_bytes) {
  check_values<InferenceRequest>(inference_options(), {values, weight_bytes, {}});
  require(values != op::Values::bfloat16, "a network on a device stores weights as float32 or float16; values were ",
          to_string(values));
  const OnGpu<M> use(gpu);
  parts_ = std::make_unique<Parts>(Parts{
      gpu, Layers<typename Parts::Matrix>(layers, std::move(source), weight_bytes, [gpu, values](const Layer& layer) {
        return Parts::make(gpu, values, layer);
      })});
}

template <Memory M>
NetworkOnDevice<M>::~NetworkOnDevice() = default;
template <Memory M>
NetworkOnDevice<M>::NetworkOnDevice(NetworkOnDevice&&) noexcept = default;
template <Memory M>
int NetworkOnDevice<M>::gpu() const {
  return parts_->gpu;
}
template <Memory M>
int NetworkOnDevice<M>::layers() const {
  return parts_->layers.count();
}
template <Memory M>
Local NetworkOnDevice<M>::inputs() const {
  return parts_->layers.inputs();
}
template <Memory M>
Local NetworkOnDevice<M>::outputs() const {
  return parts_->layers.outputs();
}
template <Memory M>
bool NetworkOnDevice<M>::streams() const {
  return parts_->layers.streams();
}
template <Memory M>
std::int64_t NetworkOnDevice<M>::launches() const {
  return parts_->launches;
}

template <Memory M>
InferResult NetworkOnDevice<M>::infer(Global count, const std::uint8_t* bits, const float* dense,
                                      const InferOptions& o) const {
  using Panel = typename Parts::Panel;
  const auto& p = *parts_;
  check_inputs(count, bits, dense, o);
  const OnGpu<M> use(p.gpu);
  const double start = wall_time();
  p.launches = 0;
  InferResult result;
  if (o.report_layers) result.layers.resize(std::size_t(p.layers.count()));
  typename Layers<typename Parts::Matrix>::Pass pass(p.layers, o.group > 0 ? o.group : 6);
  typename Parts::Pool pool;
  std::vector<Panel> panels;
  Local width = p.layers.inputs();
  while (pass.more()) {
    const int first = pass.done();
    const auto& layers = pass.take(width);
    Local widest = width;
    for (const auto* m : layers) widest = std::max(widest, m->rows());
    constexpr Global elements = Global(1) << 28;  // of a panel's outputs: 1 GiB
    const int most = o.panel > 0 ? o.panel : int(std::max<Global>(32, elements / std::max<Local>(1, widest) / 32 * 32));
    auto* const reports = o.report_layers ? result.layers.data() + first : nullptr;
    if (first == 0) {
      for (Global begin = 0; begin < count; begin += most) {
        Panel& panel = panels.emplace_back();
        panel.inputs.resize(std::size_t(std::min<Global>(most, count - begin)));
        panel.columns = Panel::padded(panel.inputs.size());
        std::iota(panel.inputs.begin(), panel.inputs.end(), begin);
        panel.outputs = p.load(begin, int(panel.inputs.size()), panel.columns, bits, dense, pool);
        p.pass(panel, layers, o, reports, result.edges_worked, pool);
      }
    } else {
      panels = p.together(std::move(panels), width, most, pool);
      for (auto& panel : panels) p.pass(panel, layers, o, reports, result.edges_worked, pool);
    }
    for (const auto* m : layers) result.edges += double(m->entries()) * double(count);
    width = layers.back()->rows();
    result.layers_done = pass.done();
    Global living = 0;
    for (const auto& panel : panels) living += Global(panel.inputs.size());
    if (o.callback && o.callback(result.layers_done, living)) break;
  }
  result.weight_seconds = pass.waited();
  for (const auto& panel : panels)
    result.categories.insert(result.categories.end(), panel.inputs.begin(), panel.inputs.end());
  if (o.keep_outputs) {
    for (const auto& panel : panels) {
      const auto wide = std::size_t(panel.columns);
      const auto outputs = to_host(panel.outputs, std::size_t(width) * wide);
      for (const Local c : panel.alive)
        for (std::size_t j = 0; j < std::size_t(width); ++j)
          result.outputs.push_back(outputs[j * wide + std::size_t(c)]);
    }
  }
  result.seconds = wall_time() - start;
  return result;
}

}  // namespace tacit::app::inference
