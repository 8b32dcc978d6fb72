#include "shared_rows.hpp"

#include "base/release.hpp"
#include "layers.hpp"
#include "op/tiled/simd.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <span>

namespace tacit::app::inference {
namespace {

using Vector = op::detail::Wide<float>;
static_assert(op::detail::lanes<float> == lane);

constexpr int most_registers = 6;  // of columns at a time
// Neurons at a time: as many sums as 32 registers hold beside the operands, and at least 8 where there are so many,
// which hide the latency of additions.
constexpr int rows_at_once(int registers) {
  return registers <= 3 ? 8 : 4;
}

// What a product of some neurons and columns reads and writes.
struct Piece {
  const Local* input;
  std::uint32_t inputs, stride;  // stride: neurons of the group
  const float* weight;           // of the first neuron
  const Local* row;
  const float* x;
  float* y;
  std::size_t k;
  op::Clamp<float> clamp;
  std::uint32_t* bits;  // all bits of outputs that are set, by column
};

// y = clamp(W x) for R neurons and Z registers of columns.
template <int R, int Z>
inline void multiply_piece(const Piece& p) {
  Vector sum[R][Z];
  for (auto& r : sum)
    for (auto& z : r) z = Vector::zero();
  const float* weight = p.weight;
  for (std::uint32_t i = 0; i < p.inputs; ++i, weight += p.stride) {
    const float* const from = p.x + std::size_t(p.input[i]) * p.k;
    Vector x[Z];
    for (int z = 0; z < Z; ++z) x[z] = Vector::load(from + z * lane);
    for (int r = 0; r < R; ++r) {
      const Vector w = Vector::all(weight[r]);
      for (int z = 0; z < Z; ++z) sum[r][z].add_product(w, x[z]);
    }
  }
  const Vector bias = Vector::all(p.clamp.bias), low = Vector::all(p.clamp.low), high = Vector::all(p.clamp.high);
  for (int r = 0; r < R; ++r) {
    float* const to = p.y + std::size_t(p.row[r]) * p.k;
    for (int z = 0; z < Z; ++z) {
      sum[r][z].clamp(bias, low, high);
      sum[r][z].store(to + z * lane);
    }
  }
  // Outputs are between zero and the ceiling, or NaN: a bit other than the sign is set where one is not zero.
  for (int z = 0; z < Z; ++z)
    for (int r = 0; r < R; ++r) {
      const float* const made = p.y + std::size_t(p.row[r]) * p.k + z * lane;
#pragma omp simd
      for (int c = 0; c < lane; ++c) p.bits[z * lane + c] |= std::bit_cast<std::uint32_t>(made[c]);
    }
}

template <int Z>
void multiply_group(Piece p, std::uint32_t rows) {
  constexpr int R = rows_at_once(Z);
  std::uint32_t r = 0;
  const auto next = [&](std::uint32_t n) { r += n, p.weight += n, p.row += n; };
  for (; r + R <= rows; next(R)) multiply_piece<R, Z>(p);
  for (; r + 4 <= rows; next(4)) multiply_piece<4, Z>(p);
  for (; r < rows; next(1)) multiply_piece<1, Z>(p);
}

using Function = void (*)(Piece, std::uint32_t);
constexpr std::array<Function, most_registers> functions{multiply_group<1>, multiply_group<2>, multiply_group<3>,
                                                         multiply_group<4>, multiply_group<5>, multiply_group<6>};

}  // namespace

HostLayer::HostLayer(const Layer& layer, op::Values values)
    : rows_(layer.neurons()), columns_(layer.inputs), entries_(Global(layer.input.size())) {
  auto order = order_of(layer);
  const bool wide = values == op::Values::full || values == op::Values::single;
  if (wide && make_groups(layer, order)) return;
  op::TiledOptions o;
  o.values = values;
  o.format = op::TiledFormat::list;
  o.columns = 128;
  o.in_order = true;  // a fixed order of sums, so that terms that cancel exactly do so for every panel
  o.row_order = std::move(order);
  plain_ = std::make_unique<op::TiledMatrix<float>>(rows_, columns_, rows_of(layer, o.row_order), o);
}

// Groups of neighbours of this order that have the same inputs; false where too few have.
bool HostLayer::make_groups(const Layer& layer, const std::vector<Local>& order) {
  const auto inputs_of = [&layer](Local j) {
    const auto begin = layer.start[std::size_t(j)], end = layer.start[std::size_t(j) + 1];
    return std::span(layer.input).subspan(std::size_t(begin), std::size_t(end - begin));
  };
  Global alone = 0;  // entries of neurons that no three others share inputs with
  for (std::size_t first = 0, end = 0; first < order.size(); first = end) {
    const auto inputs = inputs_of(order[first]);
    for (end = first + 1; end < order.size() && std::ranges::equal(inputs_of(order[end]), inputs);) ++end;
    groups_.push_back({std::uint32_t(end - first), std::uint32_t(inputs.size()), first, input_.size(), 0});
    input_.insert(input_.end(), inputs.begin(), inputs.end());
    if (end - first < 4) alone += Global((end - first) * inputs.size());
  }
  if (4 * alone > entries_) {
    release(groups_), release(input_);
    return false;
  }
  require(input_.empty() || (*std::min_element(input_.begin(), input_.end()) >= 0 &&
                             *std::max_element(input_.begin(), input_.end()) < columns_),
          "a layer of ", columns_, " inputs has a weight of another one");
  row_ = order;
  weight_.resize(std::size_t(entries_));
  std::size_t at = 0;
  for (Group& g : groups_) {
    g.weight = at;
    for (std::size_t r = 0; r < g.rows; ++r) {
      const auto begin = std::size_t(layer.start[std::size_t(row_[g.row + r])]);
      for (std::size_t i = 0; i < g.inputs; ++i) weight_[at + i * g.rows + r] = layer.weight[begin + i];
    }
    at += std::size_t(g.rows) * g.inputs;
  }
  return true;
}

double HostLayer::bytes() const {
  if (plain_) return plain_->bytes();
  return double(groups_.size() * sizeof(Group) + (row_.size() + input_.size()) * sizeof(Local) +
                weight_.size() * sizeof(float));
}

void HostLayer::multiply_columns(const float* x, int k, float* y, const op::Clamp<float>& clamp, int first,
                                 int registers, std::uint32_t* bits) const {
  const Function function = functions[std::size_t(registers) - 1];
  for (const Group& g : groups_)
    function({input_.data() + g.input, g.inputs, g.rows, weight_.data() + g.weight, row_.data() + g.row, x + first,
              y + first, std::size_t(k), clamp, bits + first},
             g.rows);
}

void HostLayer::multiply(const float* x, int k, float* y, const op::Clamp<float>& clamp, std::uint8_t* some) const {
  const auto columns = std::size_t(k);
  std::vector<std::uint32_t> bits(columns, 0);
  if (plain_) {
    plain_->multiply(x, k, y, k, k, nullptr, &clamp);
    for (std::size_t j = 0; j < std::size_t(rows_); ++j) {
      const float* const row = y + j * columns;
#pragma omp simd
      for (std::size_t c = 0; c < columns; ++c) bits[c] |= std::bit_cast<std::uint32_t>(row[c]);
    }
  } else {
    // All columns of a group, so that its inputs are read once from the further caches.
    int left = k / lane;
    for (int first = 0; left > 0;) {
      const int registers = left <= most_registers ? left : left < 2 * most_registers ? (left + 1) / 2 : 4;
      multiply_columns(x, k, y, clamp, first, registers, bits.data());
      first += registers * lane, left -= registers;
    }
  }
  for (std::size_t c = 0; c < columns; ++c) some[c] = (bits[c] & 0x7fffffffu) != 0;
}

}  // namespace tacit::app::inference
