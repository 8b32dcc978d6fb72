// Networks in device memory against those in host memory.
#include <gtest/gtest.h>
#include <tacit/app/inference/on_device.hpp>
#include <tacit/base/error.hpp>

#include "app/network_layers.hpp"
#include "support/memory.hpp"

#include <limits>

namespace tacit::test {
namespace {

using namespace app::inference;
using OnDevice = NetworkOnDevice<TestMemory>;

// Rows of a layer that ascend are summed in one order by both, and both round a product and its sum once: equal bits.
TEST(NetworkInMemory, EqualsTheHostsToTheBit) {
  // 90 inputs in blocks of 128 rows, several of them; not a multiple of anything.
  const std::vector<Local> sizes{40, 300, 17, 90, 133};
  const auto given = some_layers(sizes, 6);
  const LayerSource source = [&](int l) {
    Layer layer = given(l);
    for (std::size_t i = 0; i < layer.weight.size(); ++i)
      layer.weight[i] += 0.1F * float(number<double>(3, std::uint64_t(l * 10000) + i));
    for (std::size_t j = 0; j + 1 < layer.start.size(); ++j)
      std::sort(layer.input.begin() + layer.start[j], layer.input.begin() + layer.start[j + 1]);
    return layer;
  };
  const Global count = 211;
  std::vector<float> images(std::size_t(count) * 40);
  for (std::size_t i = 0; i < images.size(); ++i) images[i] = i / 40 % 3 == 1 ? 0.0F : float(i * 37 % 11 < 4);
  std::vector<std::uint8_t> bits(std::size_t(count) * 5);
  for (std::size_t i = 0; i < images.size(); ++i)
    if (images[i] != 0) bits[i / 40 * 5 + i % 40 / 8] |= std::uint8_t(1 << (7 - i % 8));
  for (const auto values : {op::Values::full, op::Values::half}) {
    for (const double weight_bytes : {0.0, 12000.0}) {
      const Network host(4, source, values, weight_bytes);
      const OnDevice device(4, source, 0, values, weight_bytes);
      EXPECT_EQ(device.inputs(), 40);
      EXPECT_EQ(device.streams(), weight_bytes > 0);
      for (const auto& [panel, group] : {std::pair{0, 0}, {16, 1}, {32, 2}, {64, 3}})
        for (const bool packed : {false, true}) {
          InferOptions o;
          o.bias = -0.125F, o.ceiling = 1, o.panel = panel, o.group = group, o.keep_outputs = true,
          o.report_layers = true;
          const auto* const b = packed ? bits.data() : nullptr;
          const auto* const d = packed ? nullptr : images.data();
          const auto expected = host.infer(count, b, d, o), found = device.infer(count, b, d, o);
          ASSERT_GT(expected.categories.size(), 3u);
          ASSERT_LT(expected.categories.size(), std::size_t(count));
          EXPECT_EQ(found.categories, expected.categories);
          if (values == op::Values::full) {
            EXPECT_EQ(found.outputs, expected.outputs);
          } else {
            ASSERT_EQ(found.outputs.size(), expected.outputs.size());
            for (std::size_t i = 0; i < found.outputs.size(); ++i)
              ASSERT_NEAR(found.outputs[i], expected.outputs[i], 1e-5);
          }
          for (std::size_t l = 0; l < 4; ++l) {
            EXPECT_EQ(found.layers[l].alive, expected.layers[l].alive) << l;
            EXPECT_NEAR(found.layers[l].sum, expected.layers[l].sum, 1e-5 * expected.layers[l].sum);
          }
          EXPECT_EQ(found.edges, expected.edges);
          EXPECT_LE(found.edges_worked, found.edges);
          EXPECT_EQ(found.layers_done, 4);
        }
    }
  }
}

// Inputs whose outputs are all zero leave the panels after each group; one launch a layer, and one for each panel that
// is loaded or put together.
TEST(NetworkInMemory, DropsInputsBetweenGroups) {
  const LayerSource source = [](int) {  // the identity
    Layer layer;
    layer.inputs = 20;
    for (Local j = 0; j < 20; ++j) layer.input.push_back(j), layer.weight.push_back(1), layer.start.push_back(j + 1);
    return layer;
  };
  const OnDevice net(4, source);
  std::vector<float> images(20 * 100);
  for (std::size_t c = 0; c < 100; ++c) images[c * 20 + c % 20] = c % 4 == 0 ? 10.0F : 1.5F;
  InferOptions o;
  o.bias = -1, o.group = 2;
  const auto r = net.infer(100, nullptr, images.data(), o);
  EXPECT_EQ(r.categories.size(), 25u);
  EXPECT_EQ(r.edges, 4 * 20 * 100);
  EXPECT_EQ(r.edges_worked, 2 * 20 * 100 + 2 * 20 * 25);
  EXPECT_EQ(net.launches(), 4 + 2);
  o.callback = [](int layers, Global alive) { return layers == 2 && alive == 25; };
  EXPECT_EQ(net.infer(100, nullptr, images.data(), o).layers_done, 2);
  EXPECT_TRUE(net.infer(0, nullptr, nullptr, {}).categories.empty());
}

TEST(NetworkInMemory, RefusesWhatDoesNotFit) {
  EXPECT_THROW(OnDevice(2, [](int l) { return some_layers({8, 9, 10, 11}, 2)(2 * l); }), Error);
  EXPECT_THROW(OnDevice(1, some_layers({8, 8}, 2), 0, op::Values::bfloat16), Error);
  const OnDevice net(1, some_layers({8, 8}, 2));
  std::vector<float> x(8, 1.0F);
  InferOptions o;
  o.panel = 7;
  EXPECT_THROW(net.infer(1, nullptr, x.data(), o), Error);
  EXPECT_THROW(net.infer(1, nullptr, nullptr, {}), Error);
  x[3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW(net.infer(1, nullptr, x.data(), {}), Error);
}

}  // namespace
}  // namespace tacit::test
