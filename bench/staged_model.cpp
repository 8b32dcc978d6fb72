// Models a GPU's product with a projector's matrix: memory traffic and shared-memory accesses, counted on the host for
// the layout that the GPU would use, and an upper bound of the rate of a GPU described by a few numbers. No GPU is
// used.
//   bench_staged_model [--size 512] [--angles 720] [--every 16] [--adjoint 0|1]
// --every N: counts one block of 256 rows in N. --adjoint: only A (0) or A^T (1). The GPU: 4.3 TB/s from memory,
// 5.5 TB/s from the L2 cache, 132 multiprocessors at 1.755 GHz, each with 128 bytes of shared memory and four warp
// instructions per clock.
#include <tacit/app/tomography/projector.hpp>
#include <tacit/op/staged_matrix.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numbers>
#include <string>

using namespace tacit;

namespace {

constexpr double memory = 4.3e12, cache = 5.5e12, clocks = 132 * 1.755e9;

void line(Local rows, Local columns, const op::RowSource<float>& source, int every, int at_once, op::Values values,
          op::Vectors vectors) {
  const op::StagedMatrix<float, Host> m(rows, columns, source, at_once, values, vectors);
  const auto& c = m.counts();
  const bool packed = vectors == op::Vectors::half;
  const int lanes = packed ? at_once / 2 : at_once, side = 32 / lanes;
  const double entries = double(m.entries()), staged = entries / c.reuse, cells = staged * lanes;
  // Memory traffic of one pass over the matrix (the sampled blocks); X is read once by all passes together.
  const double stream = m.bytes() + 4.0 * at_once * (double(columns) / every + double(rows));
  const double from_cache = m.bytes() + 4 * cells;
  // Shared-memory wavefronts: reads of X with bank conflicts, two reads per four steps of entries, one write of staged
  // data.
  const bool entries_staged = lanes > 1;
  const double wavefronts =
      c.steps * (c.turns + (entries_staged ? 0.5 : 0.0)) + (4 * cells + (entries_staged ? m.bytes() : 0.0)) / 128;
  // A step has a read, an address and a multiplication (pairs: two of them and two conversions), and half a read of
  // entries.
  const double instructions = c.steps * ((packed ? 6 : 3) + (values == op::Values::half ? 1 : 0) + 0.5);
  const double times[] = {stream / memory, from_cache / cache, wavefronts / clocks, instructions / 4 / clocks};
  const char* const names[] = {"memory", "cache", "shared memory", "instructions"};
  const auto most = std::max_element(times, times + 4) - times;
  const double flops = 2 * entries * at_once;
  std::printf(
      "  %2d columns, %s values, %s vectors, %2d rows a warp: reuse %5.2f, %5.2f stages a block, padding %.3f"
      " multiplied, %.3f stored, turns %.2f as given, %.3f as stored; %.2f bytes an entry; Tflop/s at most: memory"
      " %.1f, cache %.1f, shared %.1f, instructions %.1f: %.1f by %s\n",
      at_once, values == op::Values::half ? "half " : "float", packed ? "half " : "float", side, c.reuse, c.stages,
      c.padding, c.stored, c.turns_as_given, c.turns, m.bytes() / entries, 1e-12 * flops / times[0],
      1e-12 * flops / times[1], 1e-12 * flops / times[2], 1e-12 * flops / times[3], 1e-12 * flops / times[most],
      names[most]);
  std::fflush(stdout);
}

}  // namespace

int main(int count, char** words) {
  Local size = 512, angles = 720;
  int every = 16, adjoint = -1;
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string word = words[i];
    const int value = std::atoi(words[i + 1]);
    if (word == "--size") size = value;
    else if (word == "--angles") angles = value;
    else if (word == "--every") every = value;
    else if (word == "--adjoint") adjoint = value;
    else return std::fprintf(stderr, "unknown option %s\n", word.c_str()), 2;
  }
  app::tomography::Geometry g;
  g.width = g.height = g.detectors = size;
  g.centre = size / 2.0;
  for (Local i = 0; i < angles; ++i) g.angles.push_back(double(float(i * std::numbers::pi / angles)));
  const app::tomography::Projector projector(g);
  constexpr Local block = 256;
  std::printf(
      "MODELLED, %d angles x %d, one block of rows in %d; turns: what a read of X by a warp takes of shared memory, 1 "
      "at"
      " least\n",
      angles, size, every);
  for (const bool back : {false, true}) {
    if (adjoint >= 0 && (adjoint > 0) != back) continue;
    const Local all = Local(back ? g.pixels() : g.rays()), columns = Local(back ? g.rays() : g.pixels());
    const Local blocks = std::max<Local>(1, all / block / every), rows = std::min(all, blocks * block);
    const op::RowSource<float> source = [&](Local begin, Local end, op::RowBuffer<float>& out) {
      for (Local i = begin; i < end; ++i) {
        const Local row = std::min<Local>(all - 1, i / block * block * every + i % block);
        if (back) projector.pixel_rows(row, row + 1, out);
        else projector.ray_rows(row, row + 1, out);
      }
    };
    std::printf("%s\n", back ? "A^T" : "A");
    for (const auto values : {op::Values::full, op::Values::half}) {
      for (const int at_once : {1, 8, 32}) line(rows, columns, source, every, at_once, values, op::Vectors::full);
      for (const int at_once : {16, 64}) line(rows, columns, source, every, at_once, values, op::Vectors::half);
    }
  }
}
