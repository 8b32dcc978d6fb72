// The growth of an H-matrix of a single layer with the number of triangles, and its distribution over ranks.
//
//   bench_hmatrix_scaling [NAME=VALUE ...]
//     cuts=23,32,45,64,90     geodesic spheres of 20 cuts^2 triangles: memory, and CPU times of assembly and product,
//                             divided by n log2 n; system time (first use of pages) is printed but not in the ratio.
//                             224 is a million triangles: a few minutes and 9 GB. 0: none
//     ranks=1,2,4,8,16        replicated vectors on this many ranks (threads of this process with one thread each):
//                             rows gathered, bytes, iterations of bicgstab; 0: none
//     mesh=23                 mesh of `ranks`: CUTS of a geodesic sphere, or a file
//     tolerance=1e-4  quadrature=0.05  rtol=1e-7  rounds=2   (of balancing)
//     nested=0                with 1 nested bases
//     leaf=0                  the largest number of triangles of a leaf; 0: 64, with nested bases 32
//
// Peak is the largest resident memory during the assembly, less that before it, over the bytes of the matrix.
//
// The right-hand side is the sum of a constant and a uniform field: for a constant alone, iterations on a sphere only
// depend on the errors of compression. Times on ranks are not measured, because there are more ranks than cores.
#include "harness.hpp"

#include <tacit/app/bem/single_layer.hpp>
#include <tacit/base/trace.hpp>
#include <tacit/krylov/solve.hpp>
#include <tacit/op/hmatrix/request.hpp>
#include <tacit/precond/jacobi.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <sys/resource.h>

#ifdef _OPENMP
#include <omp.h>
#endif

using namespace tacit;
using layout::Vector;

namespace {

bench::Words given{
    {"cuts", "23,32,45,64,90"}, {"ranks", "1,2,4,8,16"}, {"mesh", "23"},  {"tolerance", "1e-4"}, {"quadrature", "0.05"},
    {"rtol", "1e-7"},           {"rounds", "2"},         {"nested", "0"}, {"leaf", "0"}};

// Values without zeros, which stand for none.
std::vector<int> numbers(const char* name) {
  auto values = given.numbers(name);
  std::erase_if(values, [](int v) { return v <= 0; });
  return values;
}

// CPU seconds of all threads in the program (user) and in the kernel (system).
struct Processor {
  double user, system;
  static Processor now() {
    rusage r;
    getrusage(RUSAGE_SELF, &r);
    const auto seconds = [](const timeval& t) { return double(t.tv_sec) + 1e-6 * double(t.tv_usec); };
    return {seconds(r.ru_utime), seconds(r.ru_stime)};
  }
};

// Resident memory in bytes: now (VmRSS), or the largest since begin_peak() (VmHWM). 0 where Linux does not say.
double resident(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (double kilobytes = 0; word == name + ":" && status >> kilobytes) return 1024 * kilobytes;
  return 0;
}
void begin_peak() {
  std::ofstream("/proc/self/clear_refs") << 5;
}

op::HMatrixRequest request() {
  op::HMatrixRequest made;
  made.matrix.tolerance = given.number("tolerance");
  made.matrix.balance_rounds = int(given.number("rounds"));
  made.matrix.nested = given.number("nested") != 0;
  if (given.number("leaf") > 0) made.leaf_size = Local(given.number("leaf"));
  return made;
}

struct Problem {
  app::bem::Mesh mesh;
  std::shared_ptr<const op::ClusterTree> tree;
  explicit Problem(const std::string& from)
      : mesh(from.find_first_not_of("0123456789") == std::string::npos
                 ? app::bem::geodesic_sphere(std::atoi(from.c_str()))
                 : app::bem::read_mesh(from)) {
    const auto options = request().tree_options();
    const op::ClusterTree first(mesh.geometry(), options);
    mesh = mesh.reordered(first.order());
    tree = std::make_shared<const op::ClusterTree>(mesh.geometry(), options);
  }
};

void growth() {
  std::printf("%9s %10s %5s %9s | %9s %9s %9s %9s | %11s %11s %11s | %7s %9s\n", "n", "MB", "peak", "error", "user s",
              "system s", "prod. ms", "cpu ms", "B/n log2 n", "ns/n log2 n", "ns/n log2 n", "rank", "GB/s");
  double least[3] = {1e300, 1e300, 1e300}, most[3] = {};
  for (const int cuts : numbers("cuts")) {
    const Problem p(std::to_string(cuts));
    const op::HMatrixOptions options = request().matrix;
    const app::bem::SingleLayer layer(p.mesh, given.number("quadrature") * options.tolerance);
    const auto space = layout::Space::distributed(comm::Communicator::self(), layer.size());
    const double before = resident("VmRSS");
    begin_peak();
    const auto processor = Processor::now();
    const op::HMatrix<double> A(space, p.tree, app::bem::entries(layer), options);
    const auto after = Processor::now();
    const double peak = resident("VmHWM") - before;
    const double cpu = after.user - processor.user, system = after.system - processor.system;
    Vector<double> x(space), y(space);
    layout::fill(x, 1.0);
    double product = 1e300, product_cpu = 1e300;
    for (int i = 0; i < 15; ++i) {
      const double begin = wall_time();
      const std::clock_t began = std::clock();
      A.apply(x, y);
      product = std::min(product, wall_time() - begin);
      product_cpu = std::min(product_cpu, double(std::clock() - began) / CLOCKS_PER_SEC);
    }
    const auto& r = A.report();
    const double n = double(layer.size()), unit = n * std::log2(n);
    const double each[3] = {r.bytes / unit, 1e9 * cpu / unit, 1e9 * product_cpu / unit};
    for (int k = 0; k < 3; ++k) least[k] = std::min(least[k], each[k]), most[k] = std::max(most[k], each[k]);
    std::printf("%9.0f %10.2f %5.2f %9.2e | %9.3f %9.3f %9.3f %9.3f | %11.2f %11.1f %11.3f | %7.2f %9.2f\n", n,
                r.bytes / 1e6, peak / r.bytes, r.measured_error, cpu, system, 1e3 * product, 1e3 * product_cpu, each[0],
                each[1], each[2], r.mean_rank, r.bytes / product / 1e9);
    std::fflush(stdout);
  }
  std::printf("largest over smallest per n log2 n: memory %.3f, assembly %.3f, product %.3f\n", most[0] / least[0],
              most[1] / least[1], most[2] / least[2]);
}

void ranks() {
  const Problem p(given["mesh"]);
  const op::HMatrixOptions options = request().matrix;
  const app::bem::SingleLayer layer(p.mesh, given.number("quadrature") * options.tolerance);
  const Local n = layer.size();
  std::vector<double> b;
  for (Local t = 0; t < n; ++t) b.push_back(1 + p.mesh.centroid(t)[0] + 0.5 * p.mesh.centroid(t)[2]);
  std::printf("n = %d, tolerance %g, replicated vectors\n", n, options.tolerance);
  std::printf("%6s %12s %14s %10s %14s %11s %9s %9s %11s\n", "ranks", "gathered/n", "bytes min/max", "MB", "received B",
              "iterations", "error", "residual", "same bits");
  const auto run = [&](const comm::Communicator& comm) {
    const auto space = layout::Space::replicated(comm, n);
    const op::HMatrix<double> A(space, p.tree, app::bem::entries(layer), options);
    Vector<double> rhs(space), x(space);
    rhs.assign(b);
    krylov::Options solver;
    solver.method = krylov::Method::bicgstab;
    solver.rtol = given.number("rtol");
    const precond::Jacobi<double, Host> P(A, false);
    const auto report = krylov::solve<double, Host>(A, &P, rhs, x, solver);
    const auto [first, last] = A.own_rows();
    const Global gathered = comm.all_sum(double(last - first));
    double sum = 0;
    for (Local i = 0; i < n; ++i) sum += x.data()[i] * (1 + i % 7);
    const double difference = comm.all_max(sum) + comm.all_max(-sum);
    const double received = comm.all_max(A.rows().pattern() ? 8.0 * double(A.rows().pattern()->ghosts.size()) : 0);
    const auto& r = A.report();
    if (comm.rank() == 0)
      std::printf("%6d %12.4f %14.4f %10.2f %14.0f %11d %9.2e %9.2e %11s\n", comm.size(), double(gathered) / n,
                  r.least_bytes / r.most_bytes, r.bytes / 1e6, received, report.iterations, r.measured_error,
                  report.residual_norm, difference == 0 ? "yes" : "no");
    std::fflush(stdout);
  };
#ifdef _OPENMP
  omp_set_num_threads(1);
#endif
  for (const int count : numbers("ranks")) {
    if (count == 1) run(comm::Communicator::self());
    else
      comm::run_threads(count, [&](const comm::Communicator& comm) {
#ifdef _OPENMP
        omp_set_num_threads(1);
#endif
        run(comm);
      });
  }
}

}  // namespace

int main(int argc, char** argv) {
  given.take(argc, argv);
  if (!numbers("cuts").empty()) growth();
  if (!numbers("ranks").empty()) ranks();
}
