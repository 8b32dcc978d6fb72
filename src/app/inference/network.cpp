#include <tacit/app/inference/network.hpp>

#include <tacit/base/error.hpp>
#include <tacit/base/trace.hpp>
#include <tacit/exec/caught.hpp>
#include <tacit/exec/parallel.hpp>

#include "layers.hpp"
#include "shared_rows.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <span>

namespace tacit::app::inference {
namespace {

// Columns of numbers, aligned to 64 bytes, that keep their memory when they become fewer.
class Columns {
 public:
  float* resize(std::size_t n) {
    if (room_.size() < n + lane) room_.resize(n + lane);
    return data();
  }
  float* data() {
    const auto at = reinterpret_cast<std::uintptr_t>(room_.data());
    return room_.data() + (64 - at % 64) % 64 / sizeof(float);
  }

 private:
  std::vector<float> room_;
};

// The columns that so many inputs take.
constexpr std::size_t padded(std::size_t inputs) {
  return (inputs + lane - 1) / lane * lane;
}

// The outputs of some inputs: row i has those of neuron i, and zeros in the columns beyond the inputs.
struct Panel {
  std::vector<Global> inputs;
  std::vector<float> outputs;
};

// Columns [first, first + count) of a panel, which become part of a new one.
struct Piece {
  std::size_t panel, first, count;
};

}  // namespace

struct Network::Parts {
  Layers<HostLayer> layers;
};

Layer checked_layer(const LayerSource& source, int l, Local expected) {
  Layer layer = source(l);
  require(expected < 0 || layer.inputs == expected, "layer ", l, " takes ", layer.inputs,
          " inputs, but the one before has ", expected, " neurons");
  require(layer.input.size() == layer.weight.size() && std::int64_t(layer.input.size()) == layer.start.back(), "layer ",
          l, " with ", layer.input.size(), " inputs, ", layer.weight.size(), " weights and ", layer.start.back(),
          " by its row starts");
  for (std::size_t i = 0; i < layer.weight.size(); ++i) {
    if (std::isfinite(layer.weight[i])) continue;
    const auto j = std::upper_bound(layer.start.begin(), layer.start.end(), std::int64_t(i)) - layer.start.begin() - 1;
    throw Error(ErrorKind::input, message("layer ", l, " has a weight of ", layer.weight[i], " from neuron ",
                                          layer.input[i], " to ", j, " (counted from 0)"));
  }
  return layer;
}

std::vector<Local> order_of(const Layer& layer) {
  std::vector<Local> order(static_cast<std::size_t>(layer.neurons()));
  std::iota(order.begin(), order.end(), Local(0));
  const auto inputs_of = [&layer](Local j) {
    return std::span<const Local>(layer.input)
        .subspan(std::size_t(layer.start[std::size_t(j)]),
                 std::size_t(layer.start[std::size_t(j) + 1] - layer.start[std::size_t(j)]));
  };
  std::stable_sort(order.begin(), order.end(), [&](Local a, Local b) {
    const auto left = inputs_of(a), right = inputs_of(b);
    return std::lexicographical_compare(left.begin(), left.end(), right.begin(), right.end());
  });
  return order;
}

op::RowSource<float> rows_of(const Layer& layer, const std::vector<Local>& order) {
  return [&layer, &order](Local begin, Local end, op::RowBuffer<float>& rows) {
    for (Local place = begin; place < end; ++place) {
      const auto j = std::size_t(order[std::size_t(place)]);
      for (auto i = std::size_t(layer.start[j]); i < std::size_t(layer.start[j + 1]); ++i)
        rows.add(layer.input[i], layer.weight[i]);
      rows.end_row();
    }
  };
}

std::span<const Option<InferenceRequest>> inference_options() {
  using O = InferenceRequest;
  using I = InferOptions;
  static const std::vector<Option<O>> all{
      option<O>("values", &O::values, "how weights are stored; full: float32"),
      option<O>("weight_bytes", &O::weight_bytes, not_negative(),
                "memory for weights; where they need more they are made anew in every inference, those of the next "
                "layers while others are worked on; 0: all are kept"),
      option<O>("bias", within(&O::infer, &I::bias), Range{.most = 0, .needed = "a number <= 0"},
                "added to every sum; inputs without outputs are dropped, which takes one that is not above 0",
                "the challenge's for this number of neurons"),
      option<O>("ceiling", within(&O::infer, &I::ceiling), positive(), "of outputs"),
      option<O>("panel", within(&O::infer, &I::panel),
                Range{.least = 0, .needed = "a multiple of 16 (0: by the number of neurons)", .step = 16},
                "images that are worked on together; the results are the same"),
      option<O>("group", within(&O::infer, &I::group), at_least(0, "layers (0: 6)"),
                "layers between putting together what is alive; the results are the same"),
      option<O>("report_layers", within(&O::infer, &I::report_layers),
                "counts and sums by layer; costs a pass over the outputs each"),
      option<O>("keep_outputs", within(&O::infer, &I::keep_outputs), "the outputs, and not only what has any"),
  };
  return all;
}

std::span<const Described> inference_takers() {
  static constexpr Described all[] = {
      {"network", "values weight_bytes", "its weights", ""},
      {"infer", "bias ceiling panel group report_layers keep_outputs", "images through a network", ""}};
  return all;
}

Network::Network(int layers, LayerSource source, op::Values values, double weight_bytes) {
  check_values<InferenceRequest>(inference_options(), {values, weight_bytes, {}});
  parts_ = std::make_unique<Parts>(
      Parts{Layers<HostLayer>(layers, std::move(source), weight_bytes,
                              [values](const Layer& layer) { return std::make_unique<HostLayer>(layer, values); })});
}

Network::~Network() = default;
Network::Network(Network&&) noexcept = default;
int Network::layers() const {
  return parts_->layers.count();
}
Local Network::inputs() const {
  return parts_->layers.inputs();
}
Local Network::outputs() const {
  return parts_->layers.outputs();
}
bool Network::streams() const {
  return parts_->layers.streams();
}

void check_inputs(Global count, const std::uint8_t* bits, const float* dense, const InferOptions& o) {
  require(count >= 0, count, " inputs");
  require((bits == nullptr) != (dense == nullptr) || count == 0, "inputs are given as bits or as numbers, one of both");
  check_values<InferenceRequest>(inference_options(), {op::Values::full, 0, o});
}

void check_input(float value, Global input, std::size_t neuron) {
  if (!std::isfinite(value)) [[unlikely]]
    throw Error(ErrorKind::input, message("input ", input, " has ", value, " for neuron ", neuron,
                                          " (counted from 0); finite numbers are needed"));
}

namespace {

// The new panels as pieces of the previous ones, with the inputs alive.
std::vector<std::vector<Piece>> pieces_of(const std::vector<Panel>& before, int panel) {
  std::vector<std::vector<Piece>> plan;
  std::size_t room = 0;
  for (std::size_t b = 0; b < before.size(); ++b)
    for (std::size_t at = 0; at < before[b].inputs.size();) {
      if (room == 0) plan.emplace_back(), room = std::size_t(panel);
      const std::size_t n = std::min(room, before[b].inputs.size() - at);
      plan.back().push_back({b, at, n});
      at += n, room -= n;
    }
  return plan;
}

// What is given, as bits or as numbers.
struct Inputs {
  Global count;
  const std::uint8_t* bits;
  const float* dense;
};

// A group of layers applied to panels.
struct Group {
  const std::vector<const HostLayer*>& layers;
  int panel;    // columns, at most
  Local width;  // inputs of the first layer
  const InferOptions& options;
  std::vector<Panel> panels{};         // the new ones
  std::vector<LayerReport> reports{};  // of each panel and layer, added in their order afterwards
  std::vector<double> edges_worked{};  // of each panel

  void start(std::size_t count) {
    panels.assign(count, {});
    edges_worked.assign(count, 0);
    if (options.report_layers) reports.resize(count * layers.size());
  }
};

// One thread's panel of a group: its k columns, and those that a layer makes of them.
class PanelRun {
 public:
  explicit PanelRun(Group& group) : group_(group), some_(padded(std::size_t(group.panel))) {}

  void read(const Inputs& given, std::size_t q) {
    const Global begin = Global(q) * group_.panel;
    const std::size_t n = std::size_t(std::min<Global>(group_.panel, given.count - begin));
    for (std::size_t c = 0; c < n; ++c) group_.panels[q].inputs.push_back(begin + Global(c));
    start(n);
    for (std::size_t c = 0; c < n; c += lane) {
      const auto some = std::min<std::size_t>(lane, n - c);
      if (given.dense) read_numbers(given.dense, begin + Global(c), some, in_.data() + c);
      else read_bits(given.bits, begin + Global(c), some, in_.data() + c);
    }
  }

  void gather(const std::vector<Panel>& before, const std::vector<Piece>& pieces, std::size_t q) {
    auto& inputs = group_.panels[q].inputs;
    for (const auto& [number, at, n] : pieces) {
      const auto from = before[number].inputs.begin() + std::ptrdiff_t(at);
      inputs.insert(inputs.end(), from, from + std::ptrdiff_t(n));
    }
    start(inputs.size());
    std::size_t column = 0;
    for (const auto& [number, at, n] : pieces) {
      const Panel& from = before[number];
      const std::size_t stride = padded(from.inputs.size());
      for (std::size_t i = 0; i < rows_; ++i)
        std::memcpy(in_.data() + i * stride_ + column, from.outputs.data() + i * stride + at, n * sizeof(float));
      column += n;
    }
    for (std::size_t i = 0; i < rows_; ++i)
      std::fill(in_.data() + i * stride_ + count_, in_.data() + (i + 1) * stride_, 0.0F);
  }

  // All layers of the group; the outputs are the new panel's.
  void run(std::size_t q) {
    const auto& o = group_.options;
    const op::Clamp<float> clamp{o.bias, 0.0F, o.ceiling};
    const std::size_t depth = group_.layers.size();
    Panel& to = group_.panels[q];
    for (std::size_t l = 0; l < depth && count_ > 0; ++l) {
      const HostLayer& w = *group_.layers[l];
      rows_ = std::size_t(w.rows());
      w.multiply(in_.data(), int(stride_), out_.resize(rows_ * stride_), clamp, some_.data());
      group_.edges_worked[q] += double(w.entries()) * double(count_);
      alive_.clear();
      for (std::size_t c = 0; c < count_; ++c)
        if (some_[c]) alive_.push_back(Local(c));
      if (o.report_layers) {
        auto& report = group_.reports[q * depth + l];
        report.alive = Global(alive_.size());
        const float* const made = out_.data();
        for (std::size_t i = 0; i < rows_ * stride_; ++i) report.sum += double(made[i]);
      }
      // Inputs that are not alive are dropped where that saves at least a register of columns and an eighth of all,
      // and after the last layer of the group.
      const std::size_t alive = alive_.size();
      const bool saves = padded(alive) < stride_ && alive * 8 <= count_ * 7;
      if (saves || (l + 1 == depth && alive < count_)) keep_alive(to.inputs);
      else std::swap(in_, out_);
    }
    to.outputs.assign(in_.data(), in_.data() + (count_ > 0 ? rows_ * stride_ : 0));
    if (count_ == 0) to.inputs.clear();
  }

 private:
  // Makes room for so many inputs.
  void start(std::size_t count) {
    rows_ = std::size_t(group_.width), count_ = count, stride_ = padded(count);
    in_.resize(rows_ * stride_);
  }
  // Up to 16 inputs, a column each; the other columns become zero.
  void read_bits(const std::uint8_t* bits, Global begin, std::size_t n, float* to) const {
    const std::size_t bytes = (rows_ + 7) / 8;
    for (std::size_t b = 0; b < bytes; ++b) {
      std::uint32_t byte[lane] = {};
      for (std::size_t c = 0; c < n; ++c) byte[c] = bits[(std::size_t(begin) + c) * bytes + b];
      for (std::size_t i = 8 * b; i < std::min(8 * b + 8, rows_); ++i)
#pragma omp simd
        for (int c = 0; c < lane; ++c) to[i * stride_ + std::size_t(c)] = float(byte[c] >> (7 - i % 8) & 1U);
    }
  }
  void read_numbers(const float* dense, Global begin, std::size_t n, float* to) const {
    for (std::size_t i = 0; i < rows_; ++i)
      for (std::size_t c = 0; c < lane; ++c) {
        const float value = c < n ? dense[(std::size_t(begin) + c) * rows_ + i] : 0.0F;
        check_input(value, begin + Global(c), i);
        to[i * stride_ + c] = value;
      }
  }
  void keep_alive(std::vector<Global>& inputs) {
    const std::size_t n = alive_.size(), stride = padded(n);
    in_.resize(rows_ * stride);
    for (std::size_t j = 0; j < rows_; ++j) {
      const float* const row = out_.data() + j * stride_;
      float* const kept = in_.data() + j * stride;
      for (std::size_t c = 0; c < n; ++c) kept[c] = row[std::size_t(alive_[c])];
      std::fill(kept + n, kept + stride, 0.0F);
    }
    for (std::size_t c = 0; c < n; ++c) inputs[c] = inputs[std::size_t(alive_[c])];
    inputs.resize(n);
    count_ = n, stride_ = stride;
  }

  Group& group_;
  Columns in_, out_;
  std::vector<std::uint8_t> some_;
  std::vector<Local> alive_;
  std::size_t rows_ = 0, count_ = 0, stride_ = 0;  // count_: inputs, in the first of stride_ columns
};

// The inputs that have outputs, and these.
void take_outputs(const std::vector<Panel>& panels, std::size_t width, bool keep, InferResult& result) {
  for (const auto& p : panels) result.categories.insert(result.categories.end(), p.inputs.begin(), p.inputs.end());
  if (!keep) return;
  result.outputs.resize(result.categories.size() * width);
  float* to = result.outputs.data();
  for (const auto& p : panels)
    for (std::size_t c = 0; c < p.inputs.size(); ++c)
      for (std::size_t j = 0; j < width; ++j) *to++ = p.outputs[j * padded(p.inputs.size()) + c];
}

}  // namespace

InferResult Network::infer(Global count, const std::uint8_t* bits, const float* dense, const InferOptions& o) const {
  const auto& p = parts_->layers;
  check_inputs(count, bits, dense, o);
  const Inputs given{count, bits, dense};
  const double start = wall_time();
  InferResult result;
  if (o.report_layers) result.layers.resize(std::size_t(p.count()));
  exec::Caught caught;
  Layers<HostLayer>::Pass pass(p, o.group > 0 ? o.group : 6);

  std::vector<Panel> before;
  Local width = p.inputs();  // rows of the panels
  while (pass.more()) {
    const int first = pass.done();
    const auto& layers = pass.take(width);
    Local widest = width;
    for (const auto* m : layers) widest = std::max(widest, m->rows());
    // So many that the weights of a layer are rarely read again, and that inputs are dropped soon; the outputs of two
    // layers take at most 32 MiB.
    const int panel = o.panel > 0 ? o.panel : std::clamp(int(4194304 / std::max<Local>(1, widest)) / 16 * 16, 16, 128);
    Group group{layers, panel, width, o};
    const auto plan = pieces_of(before, panel);
    group.start(first == 0 ? std::size_t((count + panel - 1) / panel) : plan.size());
    caught([&] {
      exec::parallel_claims(group.panels.size(), 1, true, [&](exec::Claims& claims) {
        PanelRun run(group);
        claims.each([&](std::size_t q) {
          if (first == 0) run.read(given, q);
          else run.gather(before, plan[q], q);
          run.run(q);
        });
      });
    });
    caught.rethrow();
    for (const double w : group.edges_worked) result.edges_worked += w;
    for (std::size_t i = 0; i < group.reports.size(); ++i) {
      auto& of = result.layers[std::size_t(first) + i % layers.size()];
      of.alive += group.reports[i].alive, of.sum += group.reports[i].sum;
    }
    for (const auto* m : layers) result.edges += double(m->entries()) * double(count);
    before = std::move(group.panels);
    width = layers.back()->rows();
    result.layers_done = pass.done();
    Global living = 0;
    for (const auto& panel_left : before) living += Global(panel_left.inputs.size());
    if (o.callback && o.callback(result.layers_done, living)) break;
  }
  result.weight_seconds = pass.waited();
  take_outputs(before, std::size_t(width), o.keep_outputs, result);
  result.seconds = wall_time() - start;
  return result;
}

LayerSource radixnet(std::vector<int> radices, int width, float weight, std::vector<std::vector<Local>> row_class) {
  require(!radices.empty() && width >= 1, "a RadiX-Net of ", radices.size(), " radices and width ", width);
  Global classes = 1;
  for (const int r : radices) {
    require(r >= 1, "a radix of ", r);
    classes *= r;
    require(classes * width < Global(1) << 31, "a RadiX-Net of more than 2^31 neurons");
  }
  const auto neurons = std::size_t(classes) * std::size_t(width);
  for (const auto& block : row_class) {
    require(block.size() == neurons, "classes of ", block.size(), " neurons where there are ", neurons);
    for (const auto c : block) require(c >= 0 && c < classes, "class ", c, " of ", classes);
  }
  return [=, radices = std::move(radices), row_class = std::move(row_class)](int l) {
    const auto layer = std::size_t(l), place = layer % radices.size(), block = layer / radices.size();
    std::vector<std::vector<Local>> members(static_cast<std::size_t>(classes));
    for (std::size_t i = 0; i < neurons; ++i)
      members[row_class.empty() ? i % std::size_t(classes) : std::size_t(row_class[block % row_class.size()][i])]
          .push_back(Local(i));
    Global shift = 1;
    for (std::size_t m = 0; m < place; ++m) shift *= radices[m];
    Layer made;
    made.inputs = Local(neurons);
    std::vector<Local> row;
    for (std::size_t j = 0; j < neurons; ++j) {
      row.clear();
      for (int n = 0; n < radices[place]; ++n) {
        const auto& some = members[std::size_t((Global(j) + n * shift) % classes)];
        row.insert(row.end(), some.begin(), some.end());
      }
      std::sort(row.begin(), row.end());
      made.input.insert(made.input.end(), row.begin(), row.end());
      made.start.push_back(std::int64_t(made.input.size()));
    }
    made.weight.assign(made.input.size(), weight);
    return made;
  };
}

}  // namespace tacit::app::inference
