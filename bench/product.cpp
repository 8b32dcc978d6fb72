// Sparse and stencil products compared with the memory bandwidth of this machine, as one JSON object on standard
// output.
//
//   bench_product [REPETITIONS=21 [GB of the read test=1]]
//
// Bandwidth is that of reading an array far larger than the caches. All cases and the read test alternate, so that
// other load affects all alike; figures are medians. A product's bytes count the matrix, x and y once. With one thread
// and with OMP_NUM_THREADS.
#include <tacit/base/trace.hpp>
#include <tacit/model/memory.hpp>
#include <tacit/op/csr.hpp>
#include <tacit/op/stencil.hpp>

#include "harness.hpp"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#ifdef _OPENMP
#include <omp.h>
#endif

using namespace tacit;
using layout::Vector;

namespace {

std::string processor() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  return "unknown";
}

struct Case {
  std::string name, storage;
  int threads;
  double bytes;
  std::function<void()> run;
  std::vector<double> seconds{};

  double median() const { return bench::median(seconds); }
};

void use_threads(int n) {
#ifdef _OPENMP
  omp_set_num_threads(n);
#else
  (void)n;
#endif
}

}  // namespace

int main(int argc, char** argv) {
  const int repetitions = argc > 1 ? std::atoi(argv[1]) : 21;
  const double gigabytes = argc > 2 ? std::atof(argv[2]) : 1;
  int most = 1;
#ifdef _OPENMP
  most = omp_get_max_threads();
#endif
  std::vector<int> threads{1};
  if (most > 1) threads.push_back(most);

  const auto comm = comm::Communicator::self();
  std::vector<std::shared_ptr<op::Operator<double>>> kept;
  std::vector<std::unique_ptr<std::pair<Vector<double>, Vector<double>>>> vectors;
  std::vector<Case> cases;

  const model::MemoryReader large(std::size_t(gigabytes * 1e9));
  volatile double sink = 0;
  for (int t : threads) cases.push_back({"read", "", t, double(large.bytes()), [&] { sink = sink + large.read(); }});

  const auto add = [&](const std::string& name, const std::string& storage, std::shared_ptr<op::Operator<double>> a) {
    vectors.push_back(std::make_unique<std::pair<Vector<double>, Vector<double>>>(Vector<double>(a->domain()),
                                                                                  Vector<double>(a->range())));
    auto& [x, y] = *vectors.back();
    for (std::size_t i = 0; i < x.size(); ++i) x.data()[i] = 1 + double(i % 7);
    kept.push_back(a);
    for (int t : threads) cases.push_back({name, storage, t, a->cost().bytes, [a, &x = x, &y = y] { a->apply(x, y); }});
  };
  for (const auto& [name, grid] : {std::pair<std::string, op::Grid>("5-point 1024^2", op::Grid({1024, 1024})),
                                   std::pair<std::string, op::Grid>("7-point 128^3", op::Grid({128, 128, 128}))}) {
    const auto weights = op::laplacian<double>(grid.dimensions);
    for (bool far : {false, true}) {
      auto rows = op::stencil_rows(grid, weights, 0, grid.size());
      if (far) {  // one entry beyond the reach of 16-bit offsets
        rows.column.insert(rows.column.begin() + rows.start[1], grid.size() - 1);
        rows.value.insert(rows.value.begin() + rows.start[1], 0.5);
        for (std::size_t i = 1; i < rows.start.size(); ++i) ++rows.start[i];
      }
      const auto space = layout::Space::distributed(comm, grid.size());
      for (op::Format format : {op::Format::csr, op::Format::sell}) {
        auto a = std::make_shared<op::Csr<double>>(space, space, rows, format);
        const std::string storage = a->storage();
        add(name, storage, std::move(a));
      }
    }
    add(name, "stencil", std::make_shared<op::Stencil<double>>(comm, grid, weights));
  }
  add("7-point 256^3", "stencil",
      std::make_shared<op::Stencil<double>>(comm, op::Grid({256, 256, 256}), op::laplacian<double>(3)));
  add("27-point 128^3", "stencil",
      std::make_shared<op::Stencil<double>>(comm, op::Grid({128, 128, 128}), op::isotropic_laplacian<double>(3)));

  for (int r = -1; r < repetitions; ++r)
    for (Case& c : cases) {
      use_threads(c.threads);
      const double begin = wall_time();
      c.run();
      if (r >= 0) c.seconds.push_back(wall_time() - begin);
    }

  std::vector<double> read;
  for (std::size_t i = 0; i < threads.size(); ++i) read.push_back(cases[i].bytes / cases[i].median());
  std::printf("{\"machine\": \"%s\", \"threads\": %d, \"repetitions\": %d,\n \"read_bandwidth\": {",
              processor().c_str(), most, repetitions);
  for (std::size_t i = 0; i < threads.size(); ++i)
    std::printf("%s\"%d\": %.3f", i ? ", " : "", threads[i], read[i] / 1e9);
  std::printf("},\n \"cases\": [");
  for (std::size_t i = threads.size(); i < cases.size(); ++i) {
    const double seconds = cases[i].median(), rate = cases[i].bytes / seconds;
    const double of_read = rate / read[cases[i].threads == 1 ? 0 : 1];
    std::printf(
        "%s\n  {\"matrix\": \"%s\", \"storage\": \"%s\", \"threads\": %d, \"seconds\": %.6g, \"bytes\": %.0f, "
        "\"GB_per_s\": %.3f, \"of_read_bandwidth\": %.3f}",
        i > threads.size() ? "," : "", cases[i].name.c_str(), cases[i].storage.c_str(), cases[i].threads, seconds,
        cases[i].bytes, rate / 1e9, of_read);
  }
  std::printf("\n ]}\n");
}
