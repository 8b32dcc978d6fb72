#include <tacit/base/checksum.hpp>

#include <bit>
#include <cstring>

namespace tacit {
namespace {

// Odd numbers without pattern, so that every step is one-to-one.
constexpr std::uint64_t factor = 0x9E3779B97F4A7C15, last_factor = 0xD6E8FEB86659FD93;

// The rotation moves the highest bit, which a product leaves where it is, to where it reaches others: without it two
// changed signs would cancel.
std::uint64_t step(std::uint64_t sum, std::uint64_t word) {
  return (std::rotl(sum, 29) ^ word) * factor;
}

std::uint64_t mixed(std::uint64_t sum) {
  sum = (sum ^ (sum >> 32)) * last_factor;
  return sum ^ (sum >> 29);
}

std::uint64_t word_at(const std::byte* p, std::size_t bytes = 8) {
  std::uint64_t word = 0;
  std::memcpy(&word, p, bytes);
  return word;
}

}  // namespace

std::uint64_t checksum(std::span<const std::byte> bytes) noexcept {
  constexpr std::size_t lanes = 8, width = 8 * lanes;
  std::uint64_t sums[lanes];
  for (std::size_t k = 0; k < lanes; ++k) sums[k] = mixed(k + 1);
  const std::byte* p = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= width; left -= width, p += width)
    for (std::size_t k = 0; k < lanes; ++k) sums[k] = step(sums[k], word_at(p + 8 * k));
  std::uint64_t all = mixed(bytes.size());
  for (; left >= 8; left -= 8, p += 8) all = step(all, mixed(word_at(p)));
  if (left > 0) all = step(all, mixed(word_at(p, left)));
  for (const std::uint64_t sum : sums) all = step(all, mixed(sum));
  return mixed(all);
}

}  // namespace tacit
