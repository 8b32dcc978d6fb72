#include <tacit/app/inference/network.hpp>

#include <tacit/base/error.hpp>
#include <tacit/base/trace.hpp>
#include <tacit/exec/caught.hpp>
#include <tacit/exec/parallel.hpp>

#include "layers.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <span>

namespace tacit::app::inference {
namespace {

using Matrix = op::TiledMatrix<float>;

// The outputs of some inputs: row i has those of neuron i.
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
  Layers<Matrix> layers;
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
      Parts{Layers<Matrix>(layers, std::move(source), weight_bytes, [values](const Layer& layer) {
        op::TiledOptions o;
        o.values = values;
        o.format = op::TiledFormat::list;
        o.columns = 128;
        o.in_order = true;  // a fixed order of sums, so that terms that cancel exactly do so for every panel
        o.row_order = order_of(layer);
        return std::make_unique<Matrix>(layer.neurons(), layer.inputs, rows_of(layer, o.row_order), o);
      })});
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
  const std::vector<const Matrix*>& layers;
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
  explicit PanelRun(Group& group) : group_(group), most_(std::size_t(group.panel)) {}

  void read(const Inputs& given, std::size_t q) {
    const std::size_t rows = std::size_t(group_.width);
    const Global begin = Global(q) * group_.panel;
    k_ = int(std::min<Global>(group_.panel, given.count - begin));
    in_.assign(rows * std::size_t(k_), 0.0F);
    for (int c = 0; c < k_; ++c) {
      group_.panels[q].inputs.push_back(begin + c);
      float* const to = in_.data() + c;
      if (given.dense) {
        const float* from = given.dense + std::size_t(begin + c) * rows;
        for (std::size_t i = 0; i < rows; ++i) {
          check_input(from[i], begin + c, i);
          to[i * std::size_t(k_)] = from[i];
        }
      } else {
        const std::uint8_t* from = given.bits + std::size_t(begin + c) * ((rows + 7) / 8);
        for (std::size_t i = 0; i < rows; ++i)
          if (from[i / 8] >> (7 - i % 8) & 1) to[i * std::size_t(k_)] = 1;
      }
    }
  }

  void gather(const std::vector<Panel>& before, const std::vector<Piece>& pieces, std::size_t q) {
    const std::size_t rows = std::size_t(group_.width);
    auto& inputs = group_.panels[q].inputs;
    k_ = 0;
    for (const auto& piece : pieces) k_ += int(piece.count);
    in_.resize(rows * std::size_t(k_));
    std::size_t column = 0;
    for (const auto& [number, at, n] : pieces) {
      const Panel& from = before[number];
      const std::size_t stride = from.inputs.size();
      inputs.insert(inputs.end(), from.inputs.begin() + std::ptrdiff_t(at),
                    from.inputs.begin() + std::ptrdiff_t(at + n));
      for (std::size_t i = 0; i < rows; ++i)
        std::memcpy(in_.data() + i * std::size_t(k_) + column, from.outputs.data() + i * stride + at,
                    n * sizeof(float));
      column += n;
    }
  }

  // All layers of the group; the outputs are the new panel's.
  void run(std::size_t q) {
    const auto& o = group_.options;
    const op::Clamp<float> clamp{o.bias, 0.0F, o.ceiling};
    const std::size_t depth = group_.layers.size();
    Panel& to = group_.panels[q];
    for (std::size_t l = 0; l < depth; ++l) {
      const Matrix& w = *group_.layers[l];
      const auto neurons = std::size_t(w.rows());
      out_.resize(neurons * std::size_t(k_));
      w.multiply(in_.data(), k_, out_.data(), k_, k_, nullptr, &clamp);
      group_.edges_worked[q] += double(w.entries()) * k_;
      find_alive(neurons);
      if (o.report_layers) {
        auto& report = group_.reports[q * depth + l];
        report.alive = Global(alive_.size());
        for (const float v : out_) report.sum += double(v);
      }
      // Inputs that are not alive are dropped where that saves at least a register of columns and an eighth of all,
      // and after the last layer of the group.
      const int alive = int(alive_.size());
      const bool saves = alive <= k_ - 16 && alive * 8 <= k_ * 7;
      if (saves || (l + 1 == depth && alive < k_)) keep_alive(neurons, to.inputs);
      else std::swap(in_, out_);
      if (k_ == 0) break;
    }
    if (k_ > 0)
      to.outputs.assign(in_.begin(),
                        in_.begin() + std::ptrdiff_t(std::size_t(group_.layers.back()->rows()) * std::size_t(k_)));
    else to.inputs.clear();
  }

 private:
  void find_alive(std::size_t neurons) {
    const auto columns = std::size_t(k_);
    float* const most = most_.data();
    std::fill(most_.begin(), most_.end(), 0.0F);
    for (std::size_t j = 0; j < neurons; ++j) {
      const float* const row = out_.data() + j * columns;
#pragma omp simd
      for (std::size_t c = 0; c < columns; ++c) most[c] = row[c] <= 0 ? most[c] : 1.0F;  // NaN counts as alive
    }
    alive_.clear();
    for (int c = 0; c < k_; ++c)
      if (most[c] > 0) alive_.push_back(c);
  }
  void keep_alive(std::size_t neurons, std::vector<Global>& inputs) {
    const std::size_t n = alive_.size(), columns = std::size_t(k_);
    in_.resize(neurons * n);
    for (std::size_t j = 0; j < neurons; ++j) {
      const float* const row = out_.data() + j * columns;
      float* const kept = in_.data() + j * n;
      for (std::size_t c = 0; c < n; ++c) kept[c] = row[std::size_t(alive_[c])];
    }
    for (std::size_t c = 0; c < n; ++c) inputs[c] = inputs[std::size_t(alive_[c])];
    inputs.resize(n);
    k_ = int(n);
  }

  Group& group_;
  std::vector<float> in_, out_, most_;
  std::vector<Local> alive_;
  int k_ = 0;
};

// The inputs that have outputs, and these.
void take_outputs(const std::vector<Panel>& panels, std::size_t width, bool keep, InferResult& result) {
  for (const auto& p : panels) result.categories.insert(result.categories.end(), p.inputs.begin(), p.inputs.end());
  if (!keep) return;
  result.outputs.resize(result.categories.size() * width);
  float* to = result.outputs.data();
  for (const auto& p : panels)
    for (std::size_t c = 0; c < p.inputs.size(); ++c)
      for (std::size_t j = 0; j < width; ++j) *to++ = p.outputs[j * p.inputs.size() + c];
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
  Layers<Matrix>::Pass pass(p, o.group > 0 ? o.group : 6);

  std::vector<Panel> before;
  Local width = p.inputs();  // rows of the panels
  while (pass.more()) {
    const int first = pass.done();
    const auto& layers = pass.take(width);
    Local widest = width;
    for (const auto* m : layers) widest = std::max(widest, m->rows());
    // Two panels of outputs take half of a megabyte or so.
    const int panel = o.panel > 0 ? o.panel : std::clamp(int(131072 / std::max<Local>(1, widest)) / 16 * 16, 16, 128);
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
