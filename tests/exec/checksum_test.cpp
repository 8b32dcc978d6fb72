// Checksums of arrays: every change of bits is found, whatever it is and wherever.
#include <gtest/gtest.h>

#include <tacit/exec/checksum.hpp>
#include <tacit/exec/parallel.hpp>

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

using tacit::exec::Checksum;

namespace {

std::vector<std::uint8_t> bytes(std::size_t n) {
  std::mt19937_64 random(n);
  std::vector<std::uint8_t> v(n);
  for (auto& one : v) one = std::uint8_t(random());
  return v;
}
template <class T>
std::uint64_t sum(const std::vector<T>& v) {
  return Checksum().add(v).value();
}

// Around the lengths at which registers, and pieces of threads, end.
TEST(Checksum, FindsEveryBit) {
  for (const std::size_t n : {1, 7, 8, 63, 64, 65, 127, 128, 129, 200, 1000}) {
    auto v = bytes(n);
    const auto made = sum(v);
    for (std::size_t i = 0; i < n; ++i)
      for (int bit = 0; bit < 8; ++bit) {
        v[i] ^= std::uint8_t(1u << bit);
        EXPECT_NE(sum(v), made) << n << " bytes, bit " << bit << " of byte " << i;
        v[i] ^= std::uint8_t(1u << bit);
      }
    EXPECT_EQ(sum(v), made);
  }
}

TEST(Checksum, FindsBitsOfLongArrays) {
  std::mt19937_64 random(1);
  for (const std::size_t n : {65535, 65536, 65537, 1 << 20}) {
    auto v = bytes(n);
    const auto made = sum(v);
    for (int k = 0; k < 50; ++k) {
      auto& one = v[random() % n];
      const auto bit = std::uint8_t(1u << random() % 8);
      one ^= bit;
      EXPECT_NE(sum(v), made);
      one ^= bit;
    }
  }
}

// Changes that cancel in a sum of the words.
TEST(Checksum, FindsWhatCancelsInSums) {
  std::vector<double> v(4096, -1);
  const auto made = sum(v);
  std::mt19937_64 random(2);
  for (int k = 0; k < 2000; ++k) {
    auto changed = v;
    const std::size_t i = random() % v.size(), j = (i + 1 + random() % (v.size() - 1)) % v.size();
    changed[i] = -changed[i], changed[j] = -changed[j];  // two signs
    EXPECT_NE(sum(changed), made) << i << ", " << j;
  }
  std::vector<std::uint64_t> numbers(4096);
  for (auto& one : numbers) one = random();
  const auto of_numbers = sum(numbers);
  for (int k = 0; k < 2000; ++k) {
    auto changed = numbers;
    const std::size_t i = random() % numbers.size(), j = random() % numbers.size();
    std::swap(changed[i], changed[j]);
    EXPECT_EQ(sum(changed) == of_numbers, i == j);
    changed = numbers;
    changed[i] += 5, changed[j] -= 5;
    EXPECT_EQ(sum(changed) == of_numbers, i == j);
  }
}

TEST(Checksum, DependsOnLengthAndOrder) {
  const std::vector<std::uint8_t> none, zero(1), zeros(2);
  EXPECT_NE(sum(none), sum(zero));
  EXPECT_NE(sum(zero), sum(zeros));
  const auto a = bytes(100), b = bytes(101);
  EXPECT_NE(Checksum().add(a).add(b).value(), Checksum().add(b).add(a).value());
}

TEST(Checksum, IsTheSameForAnyNumberOfThreads) {
  const auto v = bytes(5 << 20);
  const int before = tacit::exec::threads();
  tacit::exec::set_threads(1);
  const auto one = sum(v);
  for (const int threads : {2, 3, 5}) {
    tacit::exec::set_threads(threads);
    EXPECT_EQ(sum(v), one);
  }
  tacit::exec::set_threads(before);
}

}  // namespace
