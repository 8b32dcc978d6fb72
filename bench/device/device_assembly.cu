// Times of assembling an H-matrix on a device: device_assembly [--quick | --dry] [--check].
//
// Single layers on spheres of 10,580, 40,500 and 100,820 triangles with tolerance 1e-4: entries of near blocks, ACA of
// far blocks, recompression and the copy to the host, compared with the ACA of this machine's processor (all threads,
// no recompression). Lower bounds: operations counted by hand (30 per entry far away, 100 near, and two for each cross
// that is subtracted from it; 3 r^2 (m + n) and 100 r^3 per block to recompress) over the device's peak rate in double
// precision at its highest clock; bytes over the bandwidth of a copy measured in this run. --check: only compares
// blocks of small meshes with those of a virtual device. Exit code 77: no GPU; 1: blocks differ.
#include "host_crosses.hpp"
#include "timing.hpp"

#include <tacit/app/bem/on_device.hpp>
#include <tacit/base/trace.hpp>
#include <tacit/exec/cuda.hpp>
#include <tacit/op/hmatrix/device_blocks.hpp>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <vector>

namespace tacit::device {
namespace {

using app::bem::SingleLayerEntry;
using Blocks = op::DeviceBlocks<double, SingleLayerEntry, Device>;

/// A sphere in the order of its cluster tree, its far and near blocks, and the error allowed for each: shares of 1e-4
/// of the matrix norm in proportion to the expected number of entries stored, as in HMatrix.
struct Sphere {
  app::bem::Mesh mesh;
  std::unique_ptr<op::ClusterTree> tree;
  std::unique_ptr<app::bem::SingleLayer> layer;
  std::vector<op::WantedBlock> wanted;

  explicit Sphere(int cuts, double tolerance = 1e-4) : mesh(app::bem::geodesic_sphere(cuts)) {
    mesh = mesh.reordered(op::ClusterTree(mesh.geometry()).order());
    tree = std::make_unique<op::ClusterTree>(mesh.geometry());
    layer = std::make_unique<app::bem::SingleLayer>(mesh, 0.05 * tolerance);
    const Local n = mesh.size(), rows = std::min<Local>(n, 32);
    std::vector<Global> all(tree->order().begin(), tree->order().end());
    std::vector<double> row(all.size());
    double norm2 = 0, numbers = 0;
    for (Local i = 0; i < rows; ++i) {
      const Global at = Global(i) * n / rows;
      (*layer)({&at, 1}, all, row.data());
      for (const double a : row) norm2 += a * a * n / rows;
    }
    const auto blocks = op::block_tree(*tree, *tree, {});
    const auto size = [](const op::Block& b) {
      const double dense = double(b.rows()) * b.columns();
      return b.admissible ? std::min(8 * (double(b.rows()) + b.columns()), dense) : dense;
    };
    for (const auto& b : blocks) numbers += size(b);
    for (const auto& b : blocks) wanted.push_back({b, {0, tolerance * std::sqrt(norm2 * size(b) / numbers)}});
    std::stable_sort(wanted.begin(), wanted.end(), [&](const auto& a, const auto& b) {
      return double(a.block.rows()) * a.block.columns() > double(b.block.rows()) * b.block.columns();
    });
  }
};

/// The layer's data on a device, and the object that makes blocks there.
struct Maker {
  std::shared_ptr<exec::Devices<Device>> devices = std::make_shared<exec::Devices<Device>>(std::vector<int>{0});
  std::vector<exec::DeviceArray<double, Device>> numbers;
  std::unique_ptr<Blocks> blocks;
  Maker(const Sphere& s, const op::DeviceBlocksOptions& options) {
    auto at = s.layer->numbers();
    const auto move = [&](const double*& p) {
      numbers.push_back(devices->array(0, std::span<const double>(p, std::size_t(s.layer->size()))));
      p = numbers.back().data();
    };
    for (int k = 0; k < 3; ++k) move(at.x[k]), move(at.moment[k]), move(at.corner[0][k]), move(at.corner[1][k]);
    move(at.area), move(at.size2);
    blocks = std::make_unique<Blocks>(devices, s.tree->order(), s.tree->order(), SingleLayerEntry{at}, options);
  }
};

/// Near blocks agree to rounding, far ones to the tolerance: on a sphere there are equal pivots, among which rounding
/// chooses.
bool check() {
  bool good = true;
  for (const int cuts : dry ? std::vector<int>{1, 5} : std::vector<int>{1, 5, 9})
    for (const auto method : {op::Compression::aca, op::Compression::aca_plus})
      for (const bool recompress : {true, false}) {
        const Sphere s(cuts, 1e-5);
        op::CompressOptions options;
        options.method = method, options.recompress = recompress;
        Maker ours(s, {1e9, 3});
        const auto host = virtual_blocks(*s.layer, s.tree->order());
        ours.blocks->make(s.wanted, options), host->make(s.wanted, options);
        double near_field = 0, far_field = 0;  // differences relative to a block's largest entry
        int apart = 0;
        for (std::size_t k = 0; k < s.wanted.size(); ++k) {
          const auto& b = s.wanted[k].block;
          const auto expand = [&](const op::RawBlock<double>& raw) {
            if (raw.dense) return raw.u;
            const std::size_t m = std::size_t(b.rows()), n = std::size_t(b.columns());
            std::vector<double> a(m * n);
            for (std::size_t l = 0; l < std::size_t(raw.rank); ++l)
              for (std::size_t j = 0; j < n; ++j)
                for (std::size_t i = 0; i < m; ++i)
                  a[i + j * m] += raw.u[i + l * m] * raw.v[j + l * n] * (raw.sigma.empty() ? 1.0 : raw.sigma[l]);
            return a;
          };
          const auto x = ours.blocks->take(k), y = host->take(k);
          apart = std::max(apart, std::abs(x.rank - y.rank));
          if (x.given_up != y.given_up) good = false;
          if (x.given_up || y.given_up) continue;
          const auto a = expand(x), c = expand(y);
          double most = 0, difference = 0;
          for (std::size_t e = 0; e < a.size(); ++e)
            most = std::max(most, std::abs(c[e])), difference = std::max(difference, std::abs(a[e] - c[e]));
          auto& worst = x.dense ? near_field : far_field;
          worst = std::max(worst, difference / most);
        }
        std::printf(
            "%d triangles, %s%s: %.0f far blocks cut, ranks at most %d apart, differences %.1e near and "
            "%.1e far, %lld rounds\n",
            s.mesh.size(), method == op::Compression::aca ? "aca" : "aca+", recompress ? "" : ", not cut",
            double(ours.blocks->counts().cut), apart, near_field, far_field,
            static_cast<long long>(ours.blocks->counts().rounds));
        good = good && near_field < 1e-12 && far_field < 1e-4 && apart <= 2;
      }
  return good;
}

double operations = 0, bandwidth = 0;  // per second

void measure_device() {
  int clock = 0, processors = 0, major = 0, minor = 0;
  exec::check_cuda(cudaDeviceGetAttribute(&clock, cudaDevAttrClockRate, 0), "cudaDeviceGetAttribute");
  exec::check_cuda(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0), "cudaDeviceGetAttribute");
  exec::check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0), "cudaDeviceGetAttribute");
  exec::check_cuda(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0), "cudaDeviceGetAttribute");
  // Double precision units of a multiprocessor: 64 for compute capability 9.0, 32 for 6.0, 7.0 and 8.0, few for others.
  const int units = minor != 0 ? 2 : major >= 9 ? 64 : 32;
  operations = 2e3 * clock * units * processors;
  const std::size_t n = std::size_t(dry || quick ? 1 : 4) << (dry ? 16 : 26);
  exec::Array<double, Device> from(n), to(n);
  bandwidth =
      2. * n * sizeof(double) / time_of([&] { exec::copy_on_device(to.data(), from.data(), n * sizeof(double)); });
  std::printf("%.1f Tflop/s at the highest clock, %.0f GB/s of a copy\n", 1e-12 * operations, 1e-9 * bandwidth);
}

void row(const char* what, double seconds, double flops, double bytes) {
  const double floor = std::max(flops / operations, bytes / bandwidth);
  std::printf("  %-28s %9.2f ms  floor %8.3f ms  %7.1f times it\n", what, 1e3 * seconds, 1e3 * floor, seconds / floor);
}

void assemble(int cuts) {
  const Sphere s(cuts);
  for (const auto method : {op::Compression::aca_plus, op::Compression::aca}) {
    op::CompressOptions options;
    options.method = method;
    Maker maker(s, {8e9, 16});
    op::DeviceBlocksCounts best;
    double ranks = 0, cross_flops = 0, cut_flops = 0, cross_bytes = 0, entries = 0, dense = 0;
    for (int round = 0; round < (dry ? 1 : quick ? 2 : 5); ++round) {
      const auto before = maker.blocks->counts();
      std::size_t made = 0;
      while (made < s.wanted.size()) {
        const std::size_t now = maker.blocks->make(std::span<const op::WantedBlock>(s.wanted).subspan(made), options);
        for (std::size_t k = 0; k < now && round == 0; ++k) {
          const auto raw = maker.blocks->take(k);
          const auto& b = s.wanted[made + k].block;
          const double m = b.rows(), n = b.columns();
          if (raw.dense) {
            dense += m * n;
            continue;
          }
          // ACA's rank is about 1.7 times that after recompression.
          const double r = options.recompress ? 1.7 * raw.rank : raw.rank;
          ranks += raw.rank, entries += double(raw.entries);
          cross_flops += 30 * double(raw.entries) + 2 * r * r * (m + n), cross_bytes += 8 * r * (m + n);
          cut_flops += 3 * r * r * (m + n) + 100 * r * r * r;
        }
        made += now;
      }
      auto d = maker.blocks->counts();
      d.cross_seconds -= before.cross_seconds, d.cut_seconds -= before.cut_seconds;
      d.entry_seconds -= before.entry_seconds, d.seconds -= before.seconds;
      d.rounds -= before.rounds, d.given_up -= before.given_up, d.bytes_back -= before.bytes_back;
      if (round == 0 || d.seconds < best.seconds) best = d;
    }
    double host = 1e30;
    for (int round = 0; round < 2; ++round) {
      const double start = wall_time();
      host_crosses(*s.layer, s.tree->order(), s.wanted, options);
      host = std::min(host, wall_time() - start);
    }
    std::printf("%d triangles, %s: %zu blocks, %.3g entries by crosses, %.3g dense, %lld rounds, %lld given up\n",
                s.mesh.size(), method == op::Compression::aca ? "aca" : "aca+", s.wanted.size(), entries, dense,
                static_cast<long long>(best.rounds), static_cast<long long>(best.given_up));
    row("near field", best.entry_seconds, 100 * dense, 8 * dense);
    row("crosses", best.cross_seconds, cross_flops, cross_bytes);
    row("recompression", best.cut_seconds, cut_flops, 2 * cross_bytes);
    std::printf(
        "  %-28s %9.2f ms  (%.0f MB to the host)\n  %-28s %9.2f ms  the processor over the device "
        "without recompression: %.1f\n",
        "all, with the way back", 1e3 * best.seconds, 1e-6 * best.bytes_back, "the processor's crosses", 1e3 * host,
        host / (best.seconds - best.cut_seconds));
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace tacit::device

int main(int argc, char** argv) {
  using namespace tacit::device;
  bool only_check = false;
  for (int i = 1; i < argc; ++i) {
    quick = quick || std::strcmp(argv[i], "--quick") == 0;
    dry = dry || std::strcmp(argv[i], "--dry") == 0;
    only_check = only_check || std::strcmp(argv[i], "--check") == 0;
  }
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::puts("no GPU");
    return 77;
  }
  try {
    if (!check()) {
      std::puts("blocks of the device are not those of the processor");
      return 1;
    }
    if (only_check) return 0;
    measure_device();
    assemble(dry ? 5 : 23);
    if (!dry && !quick) assemble(45), assemble(71);
  } catch (const std::exception& e) {
    std::printf("%s\n", e.what());
    return 1;
  }
  return 0;
}
