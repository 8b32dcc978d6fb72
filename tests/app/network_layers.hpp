// Networks for tests.
#pragma once

#include <tacit/app/inference/network.hpp>

#include "support/reference.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace tacit::test {

/// Layers of growing and shrinking sizes, with weights that are multiples of 1/8: float sums are exact.
inline app::inference::LayerSource some_layers(const std::vector<Local>& sizes, int per_row) {
  return [=](int l) {
    app::inference::Layer layer;
    layer.inputs = sizes[std::size_t(l)];
    for (Local j = 0; j < sizes[std::size_t(l) + 1]; ++j) {
      for (int i = 0; i < per_row; ++i) {
        const Local input = Local((j * 7 + i * 5 + l * 3) % layer.inputs);
        if (std::find(layer.input.begin() + layer.start.back(), layer.input.end(), input) != layer.input.end())
          continue;
        layer.input.push_back(input);
        layer.weight.push_back(float(std::lround(3 * number<double>(5, std::uint64_t(l * 100000 + j * 100 + i))) + 1) /
                               8);
      }
      layer.start.push_back(std::int64_t(layer.input.size()));
    }
    return layer;
  };
}

}  // namespace tacit::test
