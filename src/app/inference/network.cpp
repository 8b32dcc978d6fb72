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

InferResult Network::infer(Global count, const std::uint8_t* bits, const float* dense, const InferOptions& o) const {
  const auto& p = parts_->layers;
  check_inputs(count, bits, dense, o);
  const double start = wall_time();
  InferResult result;
  if (o.report_layers) result.layers.resize(std::size_t(p.count()));
  exec::Caught caught;
  Layers<Matrix>::Pass pass(p, o.group > 0 ? o.group : 6);

  std::vector<Panel> before, after;
  std::vector<std::vector<Piece>> plan;
  Local width = p.inputs();  // rows of the panels
  while (pass.more()) {
    const int first = pass.done();
    const auto& layers = pass.take(width);
    const int last = pass.done();
    Local widest = width;
    for (const auto* m : layers) widest = std::max(widest, m->rows());
    // Two panels of outputs take half of a megabyte or so.
    const int panel = o.panel > 0 ? o.panel : std::clamp(int(131072 / std::max<Local>(1, widest)) / 16 * 16, 16, 128);

    // The new panels as pieces of the previous ones, with the inputs alive.
    plan.clear();
    std::size_t panels = 0;
    if (first == 0) {
      panels = std::size_t((count + panel - 1) / panel);
    } else {
      std::size_t room = 0;
      for (std::size_t b = 0; b < before.size(); ++b)
        for (std::size_t at = 0; at < before[b].inputs.size();) {
          if (room == 0) plan.emplace_back(), room = std::size_t(panel);
          const std::size_t n = std::min(room, before[b].inputs.size() - at);
          plan.back().push_back({b, at, n});
          at += n, room -= n;
        }
      panels = plan.size();
    }
    after.assign(panels, {});
    // Reports of each panel and layer, added in their order afterwards.
    const auto depth = std::size_t(last - first);
    std::vector<LayerReport> reports(o.report_layers ? panels * depth : 0);
    std::vector<double> worked(panels);
    const auto run_panels = [&](exec::Claims& claims) {
      std::vector<float> in, out;
      std::vector<Local> alive;
      std::vector<float> most;
      claims.each([&](std::size_t q) {
        most.resize(static_cast<std::size_t>(panel));
        Panel& to = after[q];
        int k = 0;
        const std::size_t rows = std::size_t(width);
        if (first == 0) {
          const Global begin = Global(q) * panel;
          k = int(std::min<Global>(panel, count - begin));
          in.assign(rows * std::size_t(k), 0.0F);
          for (int c = 0; c < k; ++c) {
            to.inputs.push_back(begin + c);
            if (dense) {
              const float* from = dense + std::size_t(begin + c) * rows;
              for (std::size_t i = 0; i < rows; ++i) {
                check_input(from[i], begin + c, i);
                in[i * std::size_t(k) + std::size_t(c)] = from[i];
              }
            } else {
              const std::uint8_t* from = bits + std::size_t(begin + c) * ((rows + 7) / 8);
              for (std::size_t i = 0; i < rows; ++i)
                if (from[i / 8] >> (7 - i % 8) & 1) in[i * std::size_t(k) + std::size_t(c)] = 1;
            }
          }
        } else {
          for (const auto& piece : plan[q]) k += int(piece.count);
          in.resize(rows * std::size_t(k));
          std::size_t column = 0;
          for (const auto& [number, at, n] : plan[q]) {
            const Panel& from = before[number];
            const std::size_t stride = from.inputs.size();
            to.inputs.insert(to.inputs.end(), from.inputs.begin() + std::ptrdiff_t(at),
                             from.inputs.begin() + std::ptrdiff_t(at + n));
            for (std::size_t i = 0; i < rows; ++i)
              std::memcpy(in.data() + i * std::size_t(k) + column, from.outputs.data() + i * stride + at,
                          n * sizeof(float));
            column += n;
          }
        }
        const op::Clamp<float> clamp{o.bias, 0.0F, o.ceiling};
        for (int l = first; l < last; ++l) {
          const Matrix& w = *layers[std::size_t(l - first)];
          const auto neurons = std::size_t(w.rows()), columns = std::size_t(k);
          out.resize(neurons * columns);
          w.multiply(in.data(), k, out.data(), k, k, nullptr, &clamp);
          worked[q] += double(w.entries()) * k;
          std::fill(most.begin(), most.end(), 0.0F);
          for (std::size_t j = 0; j < neurons; ++j) {
            const float* const row = out.data() + j * columns;
#pragma omp simd
            for (std::size_t c = 0; c < columns; ++c) most[c] = row[c] <= 0 ? most[c] : 1.0F;  // NaN counts as alive
          }
          alive.clear();
          for (int c = 0; c < k; ++c)
            if (most[std::size_t(c)] > 0) alive.push_back(c);
          if (o.report_layers) {
            auto& report = reports[q * depth + std::size_t(l - first)];
            report.alive = Global(alive.size());
            for (const float v : out) report.sum += double(v);
          }
          // Inputs that are not alive are dropped where that saves at least a register of columns and an eighth of all,
          // and after the last layer of the group.
          const bool saves = int(alive.size()) <= k - 16 && int(alive.size()) * 8 <= k * 7;
          if (saves || (l + 1 == last && int(alive.size()) < k)) {
            const std::size_t n = alive.size();
            in.resize(neurons * n);
            for (std::size_t j = 0; j < neurons; ++j) {
              const float* const row = out.data() + j * columns;
              float* const kept = in.data() + j * n;
              for (std::size_t c = 0; c < n; ++c) kept[c] = row[std::size_t(alive[c])];
            }
            for (std::size_t c = 0; c < n; ++c) to.inputs[c] = to.inputs[std::size_t(alive[c])];
            to.inputs.resize(n);
            k = int(n);
          } else {
            std::swap(in, out);
          }
          if (k == 0) break;
        }
        if (k > 0)
          to.outputs.assign(in.begin(),
                            in.begin() + std::ptrdiff_t(std::size_t(layers.back()->rows()) * std::size_t(k)));
        else to.inputs.clear();
      });
    };
    caught([&] { exec::parallel_claims(panels, 1, true, run_panels); });
    caught.rethrow();
    for (const double w : worked) result.edges_worked += w;
    for (std::size_t i = 0; i < reports.size(); ++i) {
      auto& of = result.layers[std::size_t(first) + i % depth];
      of.alive += reports[i].alive, of.sum += reports[i].sum;
    }
    for (const auto* m : layers) result.edges += double(m->entries()) * double(count);
    std::swap(before, after);
    width = layers.back()->rows();
    result.layers_done = last;
    Global living = 0;
    for (const auto& panel_left : before) living += Global(panel_left.inputs.size());
    if (o.callback && o.callback(last, living)) break;
  }
  result.weight_seconds = pass.waited();
  for (const auto& panel_left : before)
    result.categories.insert(result.categories.end(), panel_left.inputs.begin(), panel_left.inputs.end());
  if (o.keep_outputs) {
    result.outputs.resize(result.categories.size() * std::size_t(width));
    std::size_t at = 0;
    for (const auto& panel_left : before)
      for (std::size_t c = 0; c < panel_left.inputs.size(); ++c, ++at)
        for (std::size_t j = 0; j < std::size_t(width); ++j)
          result.outputs[at * std::size_t(width) + j] = panel_left.outputs[j * panel_left.inputs.size() + c];
  }
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
