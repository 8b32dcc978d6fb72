// A layer in host memory whose output neurons share inputs: groups of neurons with the same inputs are multiplied
// together, so that outputs of the layer before are loaded once for several of them.
#pragma once

#include <tacit/app/inference/network.hpp>
#include <tacit/op/tiled_matrix.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace tacit::app::inference {

/// Columns of panels come in multiples of so many; those beyond the inputs are zero, and stay so.
inline constexpr int lane = 16;

class HostLayer {
 public:
  /// values: how weights are stored. Weights in 32 bits are grouped where groups of neurons are large enough; elsewhere
  /// the layer is a TiledMatrix. Both sum the inputs of a neuron in their order, with the same bits.
  HostLayer(const Layer& layer, op::Values values);

  Local rows() const { return rows_; }
  Local columns() const { return columns_; }
  Global entries() const { return entries_; }
  double bytes() const;
  /// Whether neurons are multiplied in groups.
  bool grouped() const { return !plain_; }

  /// y := min(max(W x + bias, 0), ceiling) for k columns, a multiple of `lane`, with x and y aligned to 64 bytes;
  /// some[c]: whether column c of y is anywhere other than zero (k bytes).
  void multiply(const float* x, int k, float* y, const op::Clamp<float>& clamp, std::uint8_t* some) const;

 private:
  struct Group {
    std::uint32_t rows, inputs;      // numbers of them
    std::size_t row, input, weight;  // where they begin
  };
  bool make_groups(const Layer& layer, const std::vector<Local>& order);
  void multiply_columns(const float* x, int k, float* y, const op::Clamp<float>& clamp, int first, int registers,
                        std::uint32_t* bits) const;

  Local rows_, columns_;
  Global entries_ = 0;
  std::vector<Group> groups_;
  std::vector<Local> row_, input_;  // of the groups, one after the other
  std::vector<float> weight_;       // of a group [input][row]
  std::unique_ptr<op::TiledMatrix<float>> plain_;
};

}  // namespace tacit::app::inference
