// Weights and images of networks as text: a line of three numbers for each entry (io/triples.hpp).
#pragma once

#include <tacit/app/inference/network.hpp>
#include <tacit/io/triples.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace tacit::app::inference {

/// A layer of lines of input, output, weight; weights of one connection are added. Error(input): no lines, or a neuron
/// above `neurons`.
Layer layer_of(const io::Triples& lines, Local neurons, const std::string& path);

/// Inputs as Network::infer takes them: `bits` where all pixels are 0 or 1, else `dense`.
struct Images {
  Global count = 0;  ///< of the file, of which these may be some
  std::vector<std::uint8_t> bits;
  std::vector<float> dense;
};

/// The most images that a file of this many lines may number. An image takes memory and time whether or not it has
/// pixels, and one line can give it any number.
constexpr Global most_images(Global lines) {
  return (Global(1) << 16) + 64 * lines;
}

/// Images of lines of image, neuron, value: those of the rows that were read. Values of one pixel are added.
/// Error(input): no lines, a neuron above `neurons`, an image above most_images().
Images images_of(const io::Triples& lines, Local neurons, io::DealtRows rows, const std::string& path);

}  // namespace tacit::app::inference
