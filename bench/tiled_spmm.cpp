// Tiled products: Gflop/s (2 nnz k flops) of A and A^T of a parallel-beam projector for each storage and number of
// columns k.
//   bench_tiled_spmm [--size 256] [--angles 360] [--values full,half] [--formats list,bitmap] [--columns 1,16,32]
//                    [--natural] [--block ROWS] [--tile COLUMNS] [--repeat 5] [--cpu] [--json FILE]
// --values also takes bfloat16. --natural: rays and pixels in natural instead of Hilbert order. --cpu: CPU time of one
// thread (OMP_NUM_THREADS=1), which other load affects less. "of the bandwidth's time": the time of reading the matrix
// and the vectors once at the measured bandwidth, over the time of A.
#include <tacit/app/tomography/projector.hpp>
#include <tacit/base/trace.hpp>
#include <tacit/model/memory.hpp>

#include "harness.hpp"

#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numbers>
#include <string>
#include <vector>

#ifdef _OPENMP
#include <omp.h>
#endif

using namespace tacit;

namespace {

bool of_processor = false;

double now() {
  if (!of_processor) return wall_time();
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

// Read bandwidth in bytes per second, of data larger than the caches.
double bandwidth() {
  int threads = 1;
#ifdef _OPENMP
  threads = omp_get_max_threads();
#endif
  const model::MemoryReader memory(model::beyond_caches(1, threads));
  double best = 0;
  for (int i = 0; i < 5; ++i) {
    const double begin = now(), zero = memory.read();
    best = std::max(best, double(memory.bytes()) / (now() - begin + zero));
  }
  return best;
}

}  // namespace

int main(int count, char** words) {
  Local size = 256, angles = 360;
  int repeat = 5;
  op::TiledSpmmOptions options;
  std::string values = "full,half", formats = "list,bitmap", columns = "1,16,32", json;
  auto order = app::tomography::Order::hilbert;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const auto next = [&] {
      return i + 1 < count ? words[++i]
                           : (std::fprintf(stderr, "%s lacks a value\n", word.c_str()), std::exit(2), words[0]);
    };
    if (word == "--size") size = std::atoi(next());
    else if (word == "--angles") angles = std::atoi(next());
    else if (word == "--values") values = next();
    else if (word == "--formats") formats = next();
    else if (word == "--columns") columns = next();
    else if (word == "--natural") order = app::tomography::Order::natural;
    else if (word == "--block") options.matrix.block_rows = std::atoi(next());
    else if (word == "--tile") options.matrix.tile = std::atoi(next());
    else if (word == "--repeat") repeat = std::atoi(next());
    else if (word == "--cpu") of_processor = true;
    else if (word == "--json") json = next();
    else return std::fprintf(stderr, "unknown option %s\n", words[i]), 2;
  }
  app::tomography::Geometry g;
  g.width = g.height = g.detectors = size;
  g.centre = size / 2.0;
  for (Local i = 0; i < angles; ++i) g.angles.push_back(double(float(i * std::numbers::pi / angles)));
  const app::tomography::Projector projector(g, order);
  const double read = bandwidth();
  std::printf("read %.1f GB/s\n", read / 1e9);
  bench::Rows results;
  for (const auto& format : bench::cut(formats))
    for (const auto& value : bench::cut(values)) {
      options.matrix.format = format == "list" ? op::TiledFormat::list : op::TiledFormat::bitmap;
      options.matrix.values = value == "half"       ? op::Values::half
                              : value == "bfloat16" ? op::Values::bfloat16
                                                    : op::Values::full;
      const double begin = wall_time();
      const auto a = projector.matrix<float>(comm::Communicator::self(), options);
      const double built = wall_time() - begin;
      std::printf("%d x %d, %lld entries, %s: %.2f bytes an entry, built in %.2f s\n", a->forward().rows(),
                  a->forward().columns(), static_cast<long long>(a->entries()), a->forward().storage().c_str(),
                  a->forward().bytes() / double(a->entries()), built);
      for (const auto& k_text : bench::cut(columns)) {
        const int k = std::atoi(k_text.c_str());
        layout::Vector<float> x(a->domain(), k), y(a->range(), k);
        for (std::size_t i = 0; i < x.size(); ++i) x.data()[i] = float(i % 97) * 0.01f;
        double best[2] = {1e30, 1e30};
        for (int r = 0; r < repeat; ++r)
          for (int way = 0; way < 2; ++way) {
            const double start = now();
            if (way == 0) a->apply(x, y);
            else a->apply_adjoint(y, x);
            best[way] = std::min(best[way], now() - start);
          }
        const double flops = 2 * double(a->entries()) * k;
        const double floor =
            (a->forward().bytes() + 4.0 * k * double(x.size() / std::size_t(k) + y.size() / std::size_t(k))) / read;
        std::printf("  k %3d: A %7.2f  A^T %7.2f Gflop/s   %.4f s, %.2f of the bandwidth's time\n", k,
                    flops / best[0] / 1e9, flops / best[1] / 1e9, best[0], floor / best[0]);
        results.add(R"({"format": ")", format, R"(", "values": ")", value, R"(", "columns": )", k,
                    R"(, "forward_gflops": )", flops / best[0] / 1e9, R"(, "adjoint_gflops": )", flops / best[1] / 1e9,
                    R"(, "build_seconds": )", built, "}");
      }
    }
  results.write(json);
}
