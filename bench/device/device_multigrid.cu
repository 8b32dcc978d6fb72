// Times of multigrid on a device, compared with the bound by its memory bandwidth: device_multigrid [--quick | --dry].
//
// Each pass of a level, whole V-cycles, and coarsest-level solves of 8^3 to 64^3 cells, in one launch and with a kernel
// for each operation. Bounds: bytes that a pass must move (fields and coefficients once) over the bandwidth of a
// device-to-device copy measured in this run. Medians of CUDA events after a warm-up. Exit code 77: no GPU.
#include "cells_problem.hpp"
#include "krylov/methods/bicgstab.hpp"
#include "timing.hpp"

#include <tacit/exec/sweep.hpp>

#include <cstdio>
#include <cstring>
#include <exception>
#include <string>

namespace tacit::device {
namespace {

double copy_bandwidth = 0;

void row(const std::string& what, double seconds, double bytes) {
  std::printf("%-52s %10.1f us  floor %10.1f us  %5.2f of it\n", what.c_str(), 1e6 * seconds,
              1e6 * bytes / copy_bandwidth, seconds * copy_bandwidth / bytes);
  std::fflush(stdout);
}

void measure_copy() {
  const std::size_t n = std::size_t(dry || quick ? 1 : 4) << (dry ? 16 : 27);
  exec::Array<double, Device> from(n), to(n);
  copy_bandwidth =
      2. * n * sizeof(double) / time_of([&] { exec::copy_on_device(to.data(), from.data(), n * sizeof(double)); });
  std::printf("device-to-device copy: %.0f GB/s read and written\n", 1e-9 * copy_bandwidth);
}

template <class T>
const char* name_of() {
  return sizeof(T) == 4 ? "float32" : "float64";
}

/// The passes of the finest level, and the cycle. For the numbers moved per cell see kernels/cells.hpp.
template <class T>
void passes(int n, bool constant) {
  const CubeLevels<T> cube({n, true, constant, 16});
  precond::MultigridOptions options;
  precond::mg::DeviceLevels<T, Device> levels(cube.data(), options, {});
  const double cells = double(n) * n * n, number = cells * sizeof(T), c = constant ? 0 : 3.5;
  const auto f = on_device(numbers<T>(std::size_t(cells), 1));
  levels.load_f(f.data());
  const std::string problem = message(" ", n, "^3 ", name_of<T>(), constant ? " constant" : " stored");
  row("half sweep" + problem, time_of([&] { levels.half_sweep(0, 0); }), number * (1.5 + c));
  row("residual and restriction" + problem, time_of([&] { levels.restrict_residual(0, 0); }), number * (1.625 + c));
  row("interpolation of a colour" + problem, time_of([&] { levels.interpolate(0, 1); }), number * 1.125);
  row("residual norm" + problem, time_of([&] { levels.norms(precond::mg::Quantity::residual, true); }),
      number * (1.5 + c));
  const double cycle = number * 8 / 7 * (8 * (1.5 + c) + 1.625 + c + 1.125);
  const auto before = levels.launches();
  levels.cycle(options.cycle, false);
  const auto launches = levels.launches() - before;
  const double seconds = time_of([&] { levels.cycle(options.cycle, false); }, 10);
  row(message("V(2,2), ", launches, " launches", problem), seconds, cycle);
  if (constant) return;
  options.smoother = precond::Smoother::chebyshev;
  precond::mg::DeviceLevels<T, Device> chebyshev(cube.data(), options, {});
  chebyshev.load_f(f.data());
  // u, f, 1 / D, three couplings and the step are read, step and u written.
  row("chebyshev sweep" + problem, time_of([&] { chebyshev.smooth(0, 2, false); }) / 2, number * 8.5);
}

/// An iteration of bicgstab on n^3 cells in one resident launch, compared with a launch for each operation.
template <class T>
void bottom(int n) {
  const CubeLevels<T> cube({n, true, false, n});
  const auto& b = cube.data().bottom;
  precond::MultigridOptions options;
  constexpr int iterations = 12;
  const auto f = numbers<T>(std::size_t(b.n), 1);
  const auto df = on_device(f);
  // The goal is out of reach; the fixed cost of the launch cancels in the difference of two numbers of iterations.
  const auto resident = [&](int most) {
    precond::mg::DeviceLevels<T, Device> levels(cube.data(), options, {0, 1e-30, most, 0});
    levels.load_f(df.data());
    return time_of([&] { levels.solve_bottom(); });
  };
  const double seconds = (resident(iterations) - resident(iterations / 3)) / (iterations - iterations / 3);

  Matrix<T> a{b.n, b.n};
  for (std::int32_t i = 0; i < b.n; ++i) {
    a.column.push_back(i), a.value.push_back(b.diagonal[std::size_t(i)]);
    for (std::int32_t e = 0; e < b.width; ++e) {
      const std::size_t at = std::size_t(e) * std::size_t(b.n) + std::size_t(i);
      a.column.push_back(b.column[at]), a.value.push_back(b.value[at]);
    }
    a.row_begin.push_back(std::int64_t(a.column.size()));
  }
  const Csr<T, std::int32_t, Local> csr(a);
  using exec::reads, exec::writes, exec::updates, exec::sweep;
  namespace formula = krylov::formula;
  const auto size = std::size_t(b.n);
  exec::Array<T, Device> x(size), r = on_device(f), r0 = on_device(f), p(size), v(size), t(size);
  const auto in = [](const exec::Array<T, Device>& y) { return y.view(); };
  const auto solve = [&] {  // coefficients are arbitrary: only its time matters
    T alpha = T(0.5), omega = T(0.5), sum = 0;
    for (int i = 0; i < iterations; ++i) {
      sweep(reads(in(r), in(v)), updates(p.view()), writes(), formula::BicgstabDirection<T>{T(0.1), omega});
      op::device_product(csr.view(), in(p), v.view());
      sum += sweep(reads(in(r0), in(v)), updates(), writes(), formula::BicgstabShadow<T>{}).wait()[0];
      sweep(reads(in(v)), updates(r.view()), writes(), layout::formula::Axpy<T>{-alpha});
      op::device_product(csr.view(), in(r), t.view());
      sum += sweep(reads(in(t), in(r)), updates(), writes(), formula::BicgstabSteepest<T>{}).wait()[0];
      sum += sweep(reads(in(r0), in(p), in(r), in(t)), updates(x.view(), r.view()), writes(),
                   formula::BicgstabStep<T>{alpha, omega})
                 .wait()[0];
    }
    return sum;
  };
  const double apart = time_of([&] { solve(); }, 10) / iterations;
  // A product reads the matrix, column indices and a vector; there are two of them, and ten passes over vectors.
  const double bytes = double(b.n) * (2 * (7 * sizeof(T) + 6 * 4.) + 14 * sizeof(T));
  row(message("bicgstab, ", n, "^3 ", name_of<T>(), ", an iteration in one launch"), seconds, bytes);
  row(message("    the same, a launch for each operation"), apart, bytes);
}

void all() {
  measure_copy();
  for (const bool constant : {false, true}) {
    passes<double>(dry ? 32 : quick ? 64 : 256, constant);
    passes<float>(dry ? 32 : quick ? 64 : 256, constant);
  }
  if (dry) return bottom<double>(8), bottom<float>(8);
  for (const int n : {8, 16, 32, 64}) bottom<double>(n);
  bottom<float>(32);
}

}  // namespace
}  // namespace tacit::device

int main(int count, char** words) {
  using namespace tacit;
  for (int i = 1; i < count; ++i)
    if (std::strcmp(words[i], "--quick") == 0) device::quick = true;
    else if (std::strcmp(words[i], "--dry") == 0) device::dry = true;
    else return std::fprintf(stderr, "usage: device_multigrid [--quick | --dry]\n"), 2;
  if (!exec::device_available()) return std::puts("no GPU"), 77;
  try {
    std::printf("%s\n", exec::device_name().c_str());
    device::all();
  } catch (const std::exception& e) {
    std::printf("FAILED  %s\n", e.what());
    return 1;
  }
  return 0;
}
