// The readers need no more memory than documented, and allocate nothing for false sizes in a header.
#include "io/files.hpp"

#include <tacit/base/error.hpp>
#include <tacit/io/matrix_market.hpp>
#include <tacit/io/petsc_binary.hpp>

#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>
#ifdef _OPENMP
#include <omp.h>
#endif

namespace {

std::atomic<std::size_t> held = 0, most = 0;

void* take(std::size_t n) {
  void* memory = std::malloc(n == 0 ? 1 : n);
  if (!memory) throw std::bad_alloc();
  const std::size_t now = held += malloc_usable_size(memory);
  for (std::size_t seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
  }
  return memory;
}
void give(void* memory) noexcept {
  if (!memory) return;
  held -= malloc_usable_size(memory);
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t n) {
  return take(n);
}
void* operator new[](std::size_t n) {
  return take(n);
}
void operator delete(void* memory) noexcept {
  give(memory);
}
void operator delete[](void* memory) noexcept {
  give(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  give(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  give(memory);
}

namespace tacit::io::test {
namespace {

constexpr std::size_t mebi = std::size_t(1) << 20;
#ifdef _OPENMP
const std::size_t working = 5 * mebi * std::size_t(omp_get_max_threads());
#else
const std::size_t working = 5 * mebi;
#endif

template <class Read>
std::size_t peak_of(Read&& read) {
  const std::size_t before = held;
  most = before;
  try {
    read();
  } catch (const Error&) {
  }
  return most - before;
}
std::string repeated(const std::string& line, std::size_t n) {
  std::string text;
  text.reserve(n * line.size());
  for (std::size_t k = 0; k < n; ++k) text += line;
  return text;
}

TEST(Memory, IsAtMostFourTimesTheFile) {
  const std::size_t n = 1000000;
  const std::string size = "\n1 1 " + std::to_string(n) + "\n";
  const auto peak = [&](const std::string& kind, const std::string& line, auto scalar) {
    const std::string text = "%%MatrixMarket matrix coordinate " + kind + size + repeated(line, n);
    return (double(peak_of([&] { parse_matrix_market<decltype(scalar)>(text, "f"); })) - double(working)) /
           double(text.size());
  };
  EXPECT_LE(peak("real general", "1 1 1\n", double()), 4);
  EXPECT_LE(peak("real general", "1 1 1\n", float()), 4);
  EXPECT_LE(peak("real symmetric", "1 1 1\n", double()), 8);
  EXPECT_LE(peak("pattern general", "1 1\n", double()), 6);
  EXPECT_LE(peak("complex general", "1 1 1 1\n", std::complex<double>()), 4);
  const std::string text =
      "%%MatrixMarket matrix array real general\n1 " + std::to_string(n) + "\n" + repeated("1\n", n);
  EXPECT_LE(peak_of([&] { parse_matrix_market_array<double>(text, "f"); }), 4 * text.size() + working);
  const std::string packed = gzip(text);
  EXPECT_LE(peak_of([&] { parse_matrix_market_array<double>(packed, "f"); }), 4 * text.size() + 2 * working);
}

TEST(Memory, OfAFileIsReadInBlocks) {
  const Folder folder;
  const std::size_t n = 1000000;
  const std::string path = folder.write("a.mtx", "%%MatrixMarket matrix coordinate real general\n1 1 " +
                                                     std::to_string(n) + "\n" + repeated("1 1 1\n", n));
  EXPECT_LE(peak_of([&] { read_matrix_market<double>(path); }), 24 * n + working);
  EXPECT_LE(peak_of([&] { read_matrix_market<double>(path, 1, 4); }), 24 * n / 2 + working);
}

TEST(Memory, IsNotAllocatedForFalseHeaders) {
  const std::string banner = "%%MatrixMarket matrix coordinate real general\n";
  EXPECT_LE(peak_of([&] { parse_matrix_market<double>(banner + "1 1 4611686018427387904\n1 1 1\n", "f"); }), mebi);
  EXPECT_LE(peak_of([&] { parse_matrix_market<double>(banner + "9000000000000000000 1 1\n1 1 1\n", "f"); }), mebi);
  EXPECT_LE(peak_of([&] { parse_matrix_market<double>(gzip(banner + "1 1 100000000\n1 1 1\n"), "f"); }), 2 * working);
  EXPECT_LE(peak_of([&] {
              parse_matrix_market_array<double>("%%MatrixMarket matrix array real general\n99999999 99999999\n1\n",
                                                "f");
            }),
            mebi);
  const std::string lines = banner + "1 1 1\n" + repeated("\n", 8 * mebi);  // line ends only
  EXPECT_LE(peak_of([&] { parse_matrix_market<double>(lines, "f"); }), working);
  const std::string surplus = banner + "1 1 1\n" + repeated("1 1 1\n", mebi);
  EXPECT_LE(peak_of([&] { parse_matrix_market<double>(surplus, "f"); }), working);
  using namespace std::string_view_literals;
  const auto petsc = "\0\x12\x7b\x50\x7f\xff\xff\xff\x7f\xff\xff\xff\x7f\xff\xff\xff"sv;
  EXPECT_LE(peak_of([&] { parse_petsc_matrix<double>(petsc, "f"); }), mebi);
  EXPECT_LE(peak_of([&] { parse_petsc_vector<double>("\0\x12\x7b\x4e\x7f\xff\xff\xff"sv, "f"); }), mebi);
}

}  // namespace
}  // namespace tacit::io::test
