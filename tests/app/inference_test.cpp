// Sparse networks against dense arithmetic in double; the generator against known properties of RadiX-Nets.
#include <gtest/gtest.h>
#include <tacit/app/inference/network.hpp>
#include <tacit/base/error.hpp>

#include "app/network_layers.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#ifdef _OPENMP
#include <omp.h>
#endif

using namespace tacit;
using namespace tacit::app::inference;
using tacit::test::some_layers;

namespace {

// The output for one input, by the definition.
std::vector<double> reference(const LayerSource& source, int layers, std::vector<double> y, double bias,
                              double ceiling) {
  for (int l = 0; l < layers; ++l) {
    const Layer w = source(l);
    std::vector<double> z(static_cast<std::size_t>(w.neurons()));
    for (std::size_t j = 0; j < z.size(); ++j) {
      for (auto i = std::size_t(w.start[j]); i < std::size_t(w.start[j + 1]); ++i)
        z[j] += double(w.weight[i]) * y[std::size_t(w.input[i])];
      z[j] = z[j] == 0 ? 0 : std::min(std::max(z[j] + bias, 0.0), ceiling);
    }
    y = z;
  }
  return y;
}

TEST(Network, FollowsTheRules) {
  const std::vector<Local> sizes{40, 64, 17, 90, 33};
  const auto source = some_layers(sizes, 6);
  const Global count = 211;
  std::vector<float> images(std::size_t(count) * 40);
  for (std::size_t i = 0; i < images.size(); ++i) images[i] = i / 40 % 3 == 1 ? 0.0F : float(i * 37 % 11 < 4);
  std::vector<std::uint8_t> bits(std::size_t(count) * 5);
  for (std::size_t i = 0; i < images.size(); ++i)
    if (images[i] != 0) bits[i / 40 * 5 + i % 40 / 8] |= std::uint8_t(1 << (7 - i % 8));
  std::map<Global, std::vector<double>> expected;
  for (Global c = 0; c < count; ++c) {
    const auto y = reference(source, 4, {images.begin() + c * 40, images.begin() + (c + 1) * 40}, -0.125, 1);
    if (std::any_of(y.begin(), y.end(), [](double v) { return v != 0; })) expected[c] = y;
  }
  ASSERT_GT(expected.size(), 3u);
  ASSERT_LT(expected.size(), std::size_t(count));
  for (const double weight_bytes : {0.0, 1.0, 4000.0}) {
    const Network net(4, source, op::Values::full, weight_bytes);
    EXPECT_EQ(net.inputs(), 40);
    EXPECT_EQ(net.streams(), weight_bytes > 0);
    for (const auto& [panel, group] : {std::pair{0, 0}, {16, 1}, {32, 2}, {64, 3}})
      for (const bool packed : {false, true}) {
        InferOptions o;
        o.bias = -0.125F, o.ceiling = 1, o.panel = panel, o.group = group, o.keep_outputs = true,
        o.report_layers = true;
        int calls = 0;
        o.callback = [&](int, Global) { return ++calls, false; };
        const auto r = net.infer(count, packed ? bits.data() : nullptr, packed ? nullptr : images.data(), o);
        ASSERT_EQ(r.categories.size(), expected.size());
        std::size_t at = 0;
        double sum = 0;
        for (const auto& [c, y] : expected) {
          ASSERT_EQ(r.categories[at], c);
          for (std::size_t j = 0; j < 33; ++j) {
            ASSERT_EQ(double(r.outputs[at * 33 + j]), y[j]);
            sum += y[j];
          }
          ++at;
        }
        EXPECT_EQ(r.layers.back().alive, Global(expected.size()));
        EXPECT_NEAR(r.layers.back().sum, sum, 1e-9 * sum);
        EXPECT_EQ(r.layers_done, 4);
        EXPECT_GE(calls, 1);
        EXPECT_LT(r.edges_worked, r.edges);
      }
  }
}

// Groups of `shared` neurons have the same inputs with weights of their own, multiples of 1/8.
LayerSource grouped_layers(Local neurons, int shared, int inputs) {
  return [=](int l) {
    Layer layer;
    layer.inputs = neurons;
    for (Local j = 0; j < neurons; ++j) {
      const Local group = j * 37 % neurons / shared;  // whose neurons are far from each other
      std::vector<Local> from;
      for (int i = 0; i < inputs; ++i) from.push_back(Local((group * 11 + i * (l + 3)) % neurons));
      std::sort(from.begin(), from.end());
      from.erase(std::unique(from.begin(), from.end()), from.end());
      for (const Local i : from) {
        layer.input.push_back(i);
        layer.weight.push_back(float((i * 5 + j * 3 + l) % 13 - 5) / 8);
      }
      layer.start.push_back(std::int64_t(layer.input.size()));
    }
    return layer;
  };
}

TEST(Network, MultipliesNeuronsThatShareInputsTogether) {
  constexpr Local neurons = 101;
  for (const int shared : {1, 4, 7, 13, 101}) {
    const auto source = grouped_layers(neurons, shared, 9);
    const Network net(3, source);
    for (const Global count : {1, 16, 33, 90, 205}) {
      std::vector<float> images(std::size_t(count) * neurons);
      for (std::size_t i = 0; i < images.size(); ++i) images[i] = i / neurons % 4 == 1 ? 0.0F : float(i * 31 % 17 < 5);
      for (const int panel : {0, 16, 48, 80, 96, 112, 208}) {
        InferOptions o;
        o.bias = -0.25F, o.ceiling = 4, o.panel = panel, o.keep_outputs = true;
        const auto r = net.infer(count, nullptr, images.data(), o);
        std::size_t at = 0;
        for (Global c = 0; c < count; ++c) {
          const auto begin = images.begin() + c * neurons;
          const auto y = reference(source, 3, {begin, begin + neurons}, -0.25, 4);
          if (std::none_of(y.begin(), y.end(), [](double v) { return v != 0; })) continue;
          ASSERT_LT(at, r.categories.size());
          ASSERT_EQ(r.categories[at], c) << shared << ' ' << count << ' ' << panel;
          for (std::size_t j = 0; j < neurons; ++j) ASSERT_EQ(double(r.outputs[at * neurons + j]), y[j]);
          ++at;
        }
        ASSERT_EQ(at, r.categories.size());
      }
    }
  }
  // An input that the layer before does not have.
  const auto wrong = [](int) {
    auto layer = grouped_layers(16, 8, 4)(0);
    layer.inputs = 3;
    return layer;
  };
  EXPECT_THROW(Network(1, wrong), Error);
}

TEST(Network, StopsByCallbackAndAcceptsNoInputs) {
  const auto source = some_layers({40, 40, 40, 40}, 5);
  const Network net(3, source);
  std::vector<float> images(40 * 20, 1.0F);
  InferOptions o;
  o.group = 1;
  o.callback = [](int layers, Global) { return layers == 2; };
  EXPECT_EQ(net.infer(20, nullptr, images.data(), o).layers_done, 2);
  EXPECT_TRUE(net.infer(0, nullptr, nullptr, {}).categories.empty());
}

TEST(Network, RefusesWhatDoesNotFit) {
  EXPECT_THROW(Network(2, [](int l) { return some_layers({8, 9, 10, 11}, 2)(2 * l); }), Error);
  EXPECT_THROW(Network(0, some_layers({8, 8}, 2)), Error);
  const Network net(1, some_layers({8, 8}, 2));
  const std::vector<float> x(8);
  const std::uint8_t byte = 0;
  const auto refused = [&](auto change) {
    InferOptions o;
    change(o);
    EXPECT_THROW(net.infer(1, nullptr, x.data(), o), Error);
  };
  refused([](auto& o) { o.bias = 0.5F; });
  refused([](auto& o) { o.panel = 7; });
  refused([](auto& o) { o.group = -1; });
  refused([](auto& o) { o.ceiling = 0; });
  EXPECT_THROW(net.infer(1, &byte, x.data(), {}), Error);
  EXPECT_THROW(net.infer(1, nullptr, nullptr, {}), Error);
}

// Every input neuron of a block is connected to every output neuron by the same number of paths, width^(layers - 1).
TEST(RadixNet, ConnectsAllPairsByEquallyManyPaths) {
  for (const auto& [radices, width] : {std::pair{std::vector<int>{2, 2, 2}, 1}, {{3, 2}, 2}, {{4}, 3}}) {
    int classes = 1;
    for (const int r : radices) classes *= r;
    const int n = classes * width;
    std::vector<std::vector<Local>> row_class(1, std::vector<Local>(std::size_t(n)));
    for (int i = 0; i < n; ++i) row_class[0][std::size_t(i)] = Local((i * 5 + i / classes) % n % classes);
    for (const bool permuted : {false, true}) {
      if (permuted && width > 1) continue;  // this row_class does not divide the neurons evenly among classes
      const auto source = radixnet(radices, width, 0.5F, permuted ? row_class : std::vector<std::vector<Local>>{});
      std::vector<std::vector<double>> paths(static_cast<std::size_t>(n), std::vector<double>(std::size_t(n)));
      for (int i = 0; i < n; ++i) paths[std::size_t(i)][std::size_t(i)] = 1;
      for (int l = 0; l < int(radices.size()); ++l) {
        const Layer w = source(permuted && l > 0 ? l : l);
        ASSERT_EQ(w.neurons(), n);
        std::vector<std::vector<double>> next(static_cast<std::size_t>(n), std::vector<double>(std::size_t(n)));
        for (std::size_t j = 0; j < std::size_t(n); ++j) {
          EXPECT_EQ(w.start[j + 1] - w.start[j], radices[std::size_t(l)] * width);
          for (auto i = std::size_t(w.start[j]); i < std::size_t(w.start[j + 1]); ++i) {
            EXPECT_EQ(w.weight[i], 0.5F);
            for (std::size_t from = 0; from < std::size_t(n); ++from)
              next[j][from] += paths[std::size_t(w.input[i])][from];
          }
        }
        paths = next;
      }
      if (permuted) continue;
      for (const auto& row : paths)
        for (const double p : row) EXPECT_EQ(p, std::pow(width, double(radices.size()) - 1));
    }
  }
  EXPECT_THROW(radixnet({}, 1, 1), Error);
  EXPECT_THROW(radixnet({2}, 1, 1, {{0, 2}}), Error);
  EXPECT_THROW(radixnet({2}, 1, 1, {{0, -1}}), Error);
  EXPECT_THROW(radixnet({2}, 1, 1, {{0}}), Error);
}

}  // namespace
