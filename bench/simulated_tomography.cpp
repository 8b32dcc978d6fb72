// A projector's products on simulated ranks (comm/simulate.hpp) of a machine with GPUs in sockets and nodes: the
// library's products, reductions and messages run; times are those of the model that is printed.
//   bench_simulated_tomography [--size 256] [--angles 360] [--ranks 24] [--groups 3,6] [--columns 32] [--minibatch 0]
//                              [--precision double|single|mixed] [--products 4] [--like 2048] [--spans FILE]
// Prints one line of JSON: seconds per product (mean of A and A^T) and its parts, averaged over the ranks, and the
// volume of each level. --like N: models a scan with N bins, and proportionally more angles. Entries grow with the cube
// of N / size and the values sent with its square: gaps are divided by N / size, latencies and overheads by its cube,
// and times are multiplied by the cube. --spans: writes rank 0's spans. Source of the arrangement: Hidayetoglu et al.
// (2020), doi 10.1109/SC41405.2020.00041.
#include <tacit/app/tomography/projector.hpp>
#include <tacit/base/trace.hpp>
#include <tacit/comm/simulate.hpp>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <numbers>
#include <string>

using namespace tacit;

namespace {

struct Words {
  Local size = 256, angles = 360;
  int ranks = 24, columns = 32, minibatch = 0, products = 4, like = 2048;
  std::string groups = "3,6", precision = "single", spans;
};

// A V100 of Summit: 830 GB/s in products (published for MemXCT-GPU), 2.65 Tflop/s (Petascale XCT); 50 GB/s to a
// neighbour in the socket, a third of 64 GB/s to the other socket, a sixth of 25 GB/s to other nodes. Latencies and
// overheads are assumed.
comm::MachineModel machine(double scale) {
  comm::MachineModel m;
  const double cube = scale * scale * scale;
  m.bandwidth = 830e9, m.flop_rate = 2.65e12, m.kernel = 5e-6 / cube;
  m.latency = 10e-6 / cube, m.overhead = 2e-6 / cube, m.gap = 6 / 25e9 / scale;
  m.levels = {{3, 3e-6 / cube, 1e-6 / cube, 1 / 50e9 / scale}, {6, 5e-6 / cube, 1e-6 / cube, 3 / 64e9 / scale}};
  return m;
}

// The total time of the spans of products and of the reduction's levels, by name.
std::map<std::string, double> own_times(const std::vector<Trace::Event>& events) {
  static constexpr const char* within[] = {"tiled product", "sums, level "};
  std::map<std::string, double> found;
  for (const auto& e : events)
    for (const char* name : within)
      if (std::strncmp(e.name, name, std::strlen(name)) == 0) found[e.name] += e.end - e.begin;
  return found;
}

template <class T>
void measure(const Words& w) {
  app::tomography::Geometry g;
  g.width = g.height = g.detectors = w.size;
  g.centre = w.size / 2.0;
  for (Local i = 0; i < w.angles; ++i) g.angles.push_back(double(float(i * std::numbers::pi / w.angles)));
  const app::tomography::Projector projector(g);
  op::TiledSpmmOptions options;
  options.groups = comm::parse_groups(w.groups);
  options.minibatch = w.minibatch;
  options.matrix.columns = w.columns;
  options.matrix.format = op::TiledFormat::list;
  if (w.precision == "mixed") options.matrix.values = op::Values::half, options.matrix.vectors = op::Vectors::half;
  const double scale = double(w.like) / w.size, cube = scale * scale * scale;
  const auto model = machine(scale);
  std::vector<comm::LevelVolume> volume;
  double kernels = 0, finish = 0;
  std::vector<Trace::Event> events;
  comm::simulate(
      w.ranks, model,
      [&](const comm::Communicator& comm) {
        const auto a = projector.matrix<T>(comm, options);
        layout::Vector<T> x(a->domain(), w.columns), y(a->range(), w.columns);
        layout::fill(x, T(1));
        a->apply(x, y);
        const auto total = a->reduction().total_volume();
        if (comm.rank() == 0) volume = total;
        comm::restart_clocks(comm);
        if (comm.rank() == 0) Trace::take(), Trace::start();
        for (int p = 0; p < w.products; ++p) p % 2 == 0 ? a->apply(x, y) : a->apply_adjoint(y, x);
        const auto times = comm::read_clocks(comm);
        if (comm.rank() == 0)
          Trace::stop(), events = Trace::take(), finish = times.finish, kernels = times.kernel_seconds();
      },
      1 << 20);
  const double once = cube / w.products;
  // Of a value sent; messages of 16 bits have an exponent for each 64.
  const double bytes = w.precision == "mixed" ? 2 + 2.0 / 64 : double(sizeof(T));
  std::printf(R"({"precision": "%s", "groups": "%s", "ranks": %d, "columns": %d, "minibatch": %d, "like": %d)",
              w.precision.c_str(), w.groups.c_str(), w.ranks, w.columns, w.minibatch, w.like);
  std::printf(R"(, "seconds": %.6g, "kernels": %.6g, "parts": {)", finish * once, kernels * once);
  bool first = true;
  for (const auto& [name, seconds] : own_times(events)) {
    std::printf("%s\"%s\": %.6g", first ? "" : ", ", name.c_str(), seconds / w.ranks * once);
    first = false;
  }
  std::printf("}, \"levels\": [");
  for (std::size_t l = 0; l < volume.size(); ++l)
    std::printf(R"(%s{"group": %d, "touched": %lld, "sent": %lld, "messages": %lld, "bytes": %.6g})", l ? ", " : "",
                volume[l].group, static_cast<long long>(volume[l].touched), static_cast<long long>(volume[l].sent),
                static_cast<long long>(volume[l].messages), double(volume[l].sent) * bytes * w.columns * scale * scale);
  std::printf("], \"machine\": \"%s\"}\n", model.describe().c_str());
  if (w.spans.empty()) return;
  std::ofstream out(w.spans);  // of rank 0: name, begin, end
  for (const auto& e : events)
    if (e.rank == 0) out << e.name << '\t' << e.begin * cube << '\t' << e.end * cube << '\n';
}

}  // namespace

int main(int count, char** words) {
  Words w;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (i + 1 == count) return std::fprintf(stderr, "%s lacks a value\n", word.c_str()), 2;
    const char* const value = words[++i];
    if (word == "--size") w.size = std::atoi(value);
    else if (word == "--angles") w.angles = std::atoi(value);
    else if (word == "--ranks") w.ranks = std::atoi(value);
    else if (word == "--groups") w.groups = value;
    else if (word == "--columns") w.columns = std::atoi(value);
    else if (word == "--minibatch") w.minibatch = std::atoi(value);
    else if (word == "--products") w.products = std::atoi(value);
    else if (word == "--precision") w.precision = value;
    else if (word == "--like") w.like = std::atoi(value);
    else if (word == "--spans") w.spans = value;
    else return std::fprintf(stderr, "unknown option %s\n", word.c_str()), 2;
  }
  try {
    if (w.precision == "double") measure<double>(w);
    else measure<float>(w);
  } catch (const std::exception& e) {
    return std::fprintf(stderr, "%s\n", e.what()), 1;
  }
}
