#include <tacit/exec/checksum.hpp>
#include <tacit/exec/parallel.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

namespace tacit::exec {
namespace {

constexpr std::uint64_t odd = 0x9e3779b97f4a7c15u;  // 2^64 over the golden ratio

/// Different for every pair of different `more` and, for one `more`, of different `so_far`.
std::uint64_t mixed(std::uint64_t so_far, std::uint64_t more) {
  const std::uint64_t h = (so_far ^ more) * odd;
  return h ^ h >> 32;
}

#if defined(__AVX512F__)
constexpr int lanes = 8;  // of a register
#elif defined(__AVX2__)
constexpr int lanes = 4;
#else
constexpr int lanes = 2;
#endif
constexpr int rows = 2;  // registers at a time
typedef std::uint64_t Words __attribute__((vector_size(lanes * sizeof(std::uint64_t))));

/// Sums of the words, which see a change of one word for certain, and of products of their halves with keys that depend
/// on the place, which see words that have changed places and changes that cancel in the other sum.
struct Sums {
  Words plain[rows] = {}, products[rows] = {};
  Words key[rows];
  Sums() {
    for (int r = 0; r < rows; ++r)
      for (int l = 0; l < lanes; ++l) key[r][l] = odd * std::uint64_t(2 * (r * lanes + l) + 1);
  }
  void add(const std::byte* from) {
    for (int r = 0; r < rows; ++r) {
      Words w;
      std::memcpy(&w, from + r * sizeof(Words), sizeof w);
      const Words keyed = w ^ key[r];
      plain[r] += w;
      products[r] += (keyed & 0xffffffffu) * (keyed >> 32);
      key[r] += odd;
    }
  }
  std::uint64_t value(std::uint64_t h) const {
    for (const auto* sums : {plain, products})
      for (int r = 0; r < rows; ++r)
        for (int l = 0; l < lanes; ++l) h = mixed(h, sums[r][l]);
    return h;
  }
};

std::uint64_t of_piece(const std::byte* from, std::size_t bytes) {
  constexpr std::size_t step = rows * sizeof(Words);
  Sums sums;
  std::size_t at = 0;
  for (; at + step <= bytes; at += step) sums.add(from + at);
  if (at < bytes) {
    std::array<std::byte, step> last{};
    std::memcpy(last.data(), from + at, bytes - at);
    sums.add(last.data());
  }
  return sums.value(bytes);
}

}  // namespace

Checksum& Checksum::add(const void* data, std::size_t bytes) {
  constexpr std::size_t piece = std::size_t(1) << 16;
  const auto* const from = static_cast<const std::byte*>(data);
  const std::size_t pieces = (bytes + piece - 1) / piece;
  if (pieces == 0) {
    value_ = mixed(value_, odd);
    return *this;
  }
  if (pieces == 1) {
    value_ = mixed(value_, of_piece(from, bytes));
    return *this;
  }
  std::vector<std::uint64_t> sums(pieces);
  parallel_for(pieces, pieces > 8,
               [&](std::size_t p) { sums[p] = of_piece(from + p * piece, std::min(piece, bytes - p * piece)); });
  for (const std::uint64_t s : sums) value_ = mixed(value_, s);
  return *this;
}

}  // namespace tacit::exec
