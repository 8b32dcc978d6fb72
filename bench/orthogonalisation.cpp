// Times the passes of block Gram-Schmidt and compares them with the time of moving their bytes.
//   bench_orthogonalisation N S REPEATS J [J ...]
// Blocks of S vectors of N doubles against J basis vectors, stored in double, float and bfloat16. One JSON line for
// each: dots ([Q V]^H V), update ((V - Q C) W in place) and both at once, in nanoseconds per element; their bandwidth
// (every vector read once, those of the block written once); and its fraction of the read bandwidth, measured between
// the passes.
#include <tacit/exec/basis.hpp>
#include <tacit/exec/memory.hpp>
#include <tacit/model/memory.hpp>

#include "harness.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

using namespace tacit;

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <class S>
void blocks(const char* name, std::size_t n, int j, int s, int repeats) {
  using T = double;
  std::vector<exec::Array<T>> block;
  std::vector<exec::Array<S>> basis;
  std::vector<const S*> q;
  std::vector<T*> v;
  for (int i = 0; i < j; ++i) basis.emplace_back(n), q.push_back(basis.back().data());
  for (int c = 0; c < s; ++c) {
    block.emplace_back(n), v.push_back(block.back().data());
    for (std::size_t i = 0; i < n; ++i) v[c][i] = double((i * 7 + std::size_t(c)) % 13) - 6;
  }
  std::vector<T> G(std::size_t(j + s) * s), C(std::size_t(j) * s), W(std::size_t(s) * s);
  for (int c = 0; c < s; ++c) W[std::size_t(c) * s + c] = 1;
  const model::MemoryReader memory(std::size_t(s) * n * sizeof(T));
  double sink = 0;
  const auto read = [&] { sink += memory.read(); };
  // Alternating, so that a disturbance affects all of them; medians.
  const double once = double(j) * sizeof(S) + double(s) * sizeof(T), twice = once + double(s) * sizeof(T);
  std::vector<double> seconds[4];
  const auto time = [&](int what, auto&& pass) {
    const double from = now();
    pass();
    seconds[what].push_back(now() - from);
  };
  for (int i = 0; i < repeats; ++i) {
    time(0, read);
    time(1, [&] { exec::block_gram<T, Host, S>(q.data(), j, v.data(), s, n, G.data()); });
    time(2, [&] { exec::block_update_stored<T, Host, S>(q.data(), j, C.data(), v.data(), s, W.data(), nullptr, n); });
    time(3, [&] { exec::block_update_gram<T, Host, S>(q.data(), j, C.data(), v.data(), s, W.data(), n, G.data()); });
  }
  const double bytes[4] = {double(memory.bytes()) / double(n), once, twice, twice};
  double rate[4], per_element[4];
  for (int k = 0; k < 4; ++k) {
    const double median = bench::median(seconds[k]);
    rate[k] = bytes[k] * double(n) / median, per_element[k] = median / double(n);
  }
  std::printf("{\"storage\":\"%s\",\"n\":%zu,\"j\":%d,\"s\":%d,\"read_GB_per_s\":%.2f", name, n, j, s, 1e-9 * rate[0]);
  const char* const names[] = {"read", "dots", "update", "both"};
  for (int k = 1; k < 4; ++k)
    std::printf(",\"%s_ns\":%.2f,\"%s_GB_per_s\":%.2f,\"%s_of_floor\":%.2f", names[k], 1e9 * per_element[k], names[k],
                1e-9 * rate[k], names[k], rate[k] / rate[0]);
  std::printf(",\"check\":%.0f}\n", sink);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    std::fprintf(stderr, "usage: %s N S REPEATS J [J ...]\n", argv[0]);
    return 2;
  }
  const std::size_t n = std::size_t(std::atoll(argv[1]));
  const int s = std::atoi(argv[2]), repeats = std::atoi(argv[3]);
  for (int i = 4; i < argc; ++i) {
    const int j = std::atoi(argv[i]);
    blocks<double>("full", n, j, s, repeats);
    blocks<float>("float32", n, j, s, repeats);
    blocks<exec::Bfloat16>("bfloat16", n, j, s, repeats);
  }
}
