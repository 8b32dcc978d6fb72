#include <tacit/app/inference/files.hpp>

#include <tacit/base/error.hpp>
#include "base/release.hpp"

#include <algorithm>
#include <utility>

namespace tacit::app::inference {
namespace {

void check_lines(const io::Triples& lines, Local neurons, const char* what, const std::string& path) {
  if (lines.entries == 0)
    throw Error(ErrorKind::input, message(path, ": no entries; lines of ", what, ", from 1, are expected"));
  if (lines.columns > neurons)
    throw Error(ErrorKind::input,
                message(path, ": neuron ", lines.columns, "; neurons from 1 to ", neurons, " are needed"));
}

// Sorts the inputs of each neuron and adds weights of one connection. Most files need neither.
void put_in_order(Layer& layer) {
  const auto neurons = std::size_t(layer.neurons());
  std::vector<std::pair<Local, float>> row;
  std::size_t begin = 0, to = 0;
  for (std::size_t j = 0; j < neurons; ++j) {
    const auto end = std::size_t(layer.start[j + 1]);
    row.clear();
    for (std::size_t i = begin; i < end; ++i) row.emplace_back(layer.input[i], layer.weight[i]);
    begin = end;
    const auto before = [](const auto& a, const auto& b) { return a.first < b.first; };
    if (!std::is_sorted(row.begin(), row.end(), before)) std::stable_sort(row.begin(), row.end(), before);
    const std::size_t first = to;
    for (const auto& [input, weight] : row) {
      if (to > first && layer.input[to - 1] == input) layer.weight[to - 1] += weight;
      else layer.input[to] = input, layer.weight[to] = weight, ++to;
    }
    layer.start[j + 1] = std::int64_t(to);
  }
  layer.input.resize(to), layer.weight.resize(to);
}

// The pixels as bits; false where one is neither 0 nor 1, or there twice.
bool fill_bits(const io::Triples& lines, Local neurons, io::DealtRows rows, std::vector<std::uint8_t>& bits) {
  const std::size_t bytes = std::size_t(neurons + 7) / 8;
  for (const auto& piece : lines.pieces)
    for (std::size_t k = 0; k < piece.value.size(); ++k) {
      if (piece.value[k] == 0) continue;
      const auto column = std::size_t(piece.column[k]);
      auto& byte = bits[std::size_t(rows.place(piece.row[k])) * bytes + column / 8];
      const auto bit = std::uint8_t(0x80u >> column % 8);
      if (piece.value[k] != 1 || byte & bit) return false;
      byte |= bit;
    }
  return true;
}

}  // namespace

Layer layer_of(const io::Triples& lines, Local neurons, const std::string& path) {
  check_lines(lines, neurons, "input, output, weight", path);
  if (lines.rows > neurons)
    throw Error(ErrorKind::input,
                message(path, ": neuron ", lines.rows, "; neurons from 1 to ", neurons, " are needed"));
  Layer layer;
  layer.inputs = neurons;
  layer.start.assign(std::size_t(neurons) + 1, 0);
  layer.input.resize(std::size_t(lines.entries)), layer.weight.resize(std::size_t(lines.entries));
  for (const auto& piece : lines.pieces)
    for (const Local j : piece.column) ++layer.start[std::size_t(j) + 1];
  for (std::size_t j = 0; j < std::size_t(neurons); ++j) layer.start[j + 1] += layer.start[j];
  std::vector<std::int64_t> next(layer.start.begin(), layer.start.end() - 1);
  bool ascending = true;
  for (const auto& piece : lines.pieces)
    for (std::size_t k = 0; k < piece.value.size(); ++k) {
      const auto j = std::size_t(piece.column[k]), at = std::size_t(next[j]++);
      layer.input[at] = piece.row[k], layer.weight[at] = piece.value[k];
      ascending = ascending && (std::int64_t(at) == layer.start[j] || layer.input[at - 1] < piece.row[k]);
    }
  if (!ascending) put_in_order(layer);
  return layer;
}

Images images_of(const io::Triples& lines, Local neurons, io::DealtRows rows, const std::string& path) {
  check_lines(lines, neurons, "image, neuron, value", path);
  if (lines.rows > most_images(lines.entries))
    throw Error(ErrorKind::input,
                message(path, ": image ", lines.rows, " in a file of ", lines.entries,
                        " lines; at most 2^16 + 64 lines = ", most_images(lines.entries), " images are read"));
  Images made;
  made.count = lines.rows;
  const auto here = std::size_t(rows.count(made.count)), width = std::size_t(neurons);
  made.bits.resize(here * ((width + 7) / 8));
  if (fill_bits(lines, neurons, rows, made.bits)) return made;
  release(made.bits);
  made.dense.resize(here * width);
  for (const auto& piece : lines.pieces)
    for (std::size_t k = 0; k < piece.value.size(); ++k)
      made.dense[std::size_t(rows.place(piece.row[k])) * width + std::size_t(piece.column[k])] += piece.value[k];
  return made;
}

}  // namespace tacit::app::inference
