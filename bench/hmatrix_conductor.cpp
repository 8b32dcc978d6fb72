// H-matrix of a single layer: assembly, memory, product, error, and the charge of a body at potential 1, as one JSON
// object.
//
//   bench_hmatrix_conductor [NAME=VALUE ...]
//     mesh=geodesic:45   geodesic:CUTS, ring:WEDGES,RINGS, or a .pbf, .pbs or .obj file
//     tolerance=1e-4  leaf=64  quantum=0  eta=3  method=aca+|aca|svd  measure=matrix|block
//     storage=automatic|single|full  recompress=1  verify=1  repeat=20
//     assembly=host|virtual|cuda   where entries are evaluated and ACA runs
//     quadrature=0.01              accuracy of the entries, relative to the tolerance
//     solve=1e-7                   tolerance of the solves by bicgstab; 0: none
//     precond=none                 list of: none, jacobi, block-jacobi:SIZE, hlu:TOLERANCE[:LEAF[:RANK]], and
//                                  inner:RANK[:TOLERANCE] (20 iterations of bicgstab with a coarse copy, scaled by its
//                                  diagonal); one solve with each
//
// Collocation with one constant per triangle. "error_100_rows": relative error of A x on 100 rows that are evaluated
// independently of the assembly.
#include "harness.hpp"

#include <tacit/app/bem/on_device.hpp>
#include <tacit/app/bem/single_layer.hpp>
#include <tacit/base/trace.hpp>
#include <tacit/exec/parallel.hpp>
#include <tacit/krylov/inner.hpp>
#include <tacit/krylov/solve.hpp>
#include <tacit/model/memory.hpp>
#include <tacit/op/compose.hpp>
#include <tacit/op/hmatrix/hmatrix.hpp>
#include <tacit/precond/hmatrix/block_diagonal.hpp>
#include <tacit/precond/hmatrix/hlu.hpp>
#include <tacit/precond/jacobi.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <numbers>
#include <sstream>
#include <string>

using namespace tacit;
using layout::Vector;

int main(int argc, char** argv) {
  bench::Words given{{"mesh", "geodesic:45"}, {"tolerance", "1e-4"},  {"leaf", "64"},           {"eta", "3"},
                     {"method", "aca+"},      {"measure", "matrix"},  {"storage", "automatic"}, {"recompress", "1"},
                     {"verify", "1"},         {"quadrature", "0.01"}, {"repeat", "20"},         {"solve", "1e-7"},
                     {"quantum", "0"},        {"precond", "none"},    {"assembly", "host"}};
  given.take(argc, argv);
  const auto number = [&](const char* name) { return given.number(name); };

  app::bem::Mesh mesh;
  std::vector<double> potential;
  const std::string& from = given["mesh"];
  double start = wall_time();
  if (from.rfind("geodesic:", 0) == 0) mesh = app::bem::geodesic_sphere(std::atoi(from.c_str() + 9));
  else if (from.rfind("ring:", 0) == 0)
    mesh = app::bem::ring_sphere(std::atoi(from.c_str() + 5), std::atoi(from.c_str() + from.find(',') + 1));
  else mesh = app::bem::read_mesh(from, &potential);
  if (potential.empty()) potential.assign(mesh.triangles.size(), 1.0);
  const double mesh_seconds = wall_time() - start;

  start = wall_time();
  const std::clock_t start_processor = std::clock();
  const op::TreeOptions tree_options{op::Bisection::median, Local(number("leaf")), Local(number("quantum"))};
  {
    const op::ClusterTree tree(mesh.geometry(), tree_options);
    mesh = mesh.reordered(tree.order());
    std::vector<double> sorted;
    for (const Global t : tree.order()) sorted.push_back(potential[std::size_t(t)]);
    potential = std::move(sorted);
  }
  const auto tree = std::make_shared<const op::ClusterTree>(mesh.geometry(), tree_options);
  op::HMatrixOptions options;
  options.tolerance = number("tolerance");
  options.admissibility.eta = number("eta");
  options.measure = given["measure"] == "block" ? op::ErrorMeasure::block : op::ErrorMeasure::matrix;
  options.storage = given["storage"] == "full"     ? op::StoragePrecision::full
                    : given["storage"] == "single" ? op::StoragePrecision::single
                                                   : op::StoragePrecision::automatic;
  options.compress.method = given["method"] == "aca"   ? op::Compression::aca
                            : given["method"] == "svd" ? op::Compression::svd
                                                       : op::Compression::aca_plus;
  options.compress.recompress = number("recompress") != 0;
  options.compress.verify = number("verify") != 0;
  const app::bem::SingleLayer layer(mesh, number("quadrature") * options.tolerance);
  const Local n = layer.size();
  const auto space = layout::Space::distributed(comm::Communicator::self(), n);
  const auto where = given["assembly"] == "cuda"      ? app::bem::AssemblyOn::cuda
                     : given["assembly"] == "virtual" ? app::bem::AssemblyOn::virtual_device
                                                      : app::bem::AssemblyOn::host;
  const auto maker = app::bem::make_blocks<double>(where, layer, tree->order(), 0);
  const op::HMatrix<double> A(space, tree, app::bem::entries(layer), options, maker.get());
  const double assembly = wall_time() - start;
  const double processor = double(std::clock() - start_processor) / CLOCKS_PER_SEC;  // of all threads
  const auto& r = A.report();

  // Compares A x on 100 rows with the rows themselves.
  double error = 0, size = 0;
  Vector<double> x(space), y(space);
  std::uint64_t state = 12345;
  for (Local i = 0; i < n; ++i) {
    state = (state * 1103515245u + 12345u) % 2147483648u;
    x.data()[i] = 2 * double(state) / 2147483648.0 - 1;
  }
  A.apply(x, y);
  const app::bem::SingleLayer exact(mesh, 1e-9);
  std::vector<Global> all(static_cast<std::size_t>(n));
  for (Local i = 0; i < n; ++i) all[std::size_t(i)] = i;
  std::vector<double> row(static_cast<std::size_t>(n));
  for (int k = 0; k < 100; ++k) {
    const Global i = Global(double(k) * n / 100);
    exact({&i, 1}, all, row.data());
    double sum = 0;
    for (Local j = 0; j < n; ++j) sum += row[std::size_t(j)] * x.data()[j];
    error += (sum - y.data()[i]) * (sum - y.data()[i]), size += sum * sum;
  }

  double best = 1e30, one_thread = 1e30;
  const int repeat = int(number("repeat"));
  const int threads = exec::threads();
  const auto time_product = [&](double& least) {
    start = wall_time();
    A.apply(x, y);
    least = std::min(least, wall_time() - start);
  };
  // Alternates with reading as many bytes, which shows the memory bandwidth at that time.
  const model::MemoryReader memory(std::size_t(std::max(r.bytes, 2e8)));
  double best_read = 1e30, sum = 0;
  for (int i = 0; i < repeat; ++i) {
    time_product(best);
    start = wall_time();
    sum += memory.read();
    best_read = std::min(best_read, (wall_time() - start) / double(memory.bytes()));
  }
  if (threads > 1) {
    exec::set_threads(1);
    for (int i = 0; i < repeat / 2; ++i) time_product(one_thread);
    exec::set_threads(threads);
  }
  std::printf("{\"mesh\": \"%s\", \"n\": %d, \"tolerance\": %g, \"threads\": %d, \"leaf\": %g,\n", from.c_str(), n,
              options.tolerance, threads, number("leaf"));
  std::printf(
      " \"seconds\": {\"mesh\": %.3f, \"assembly\": %.3f, \"assembly_processor\": %.3f, \"product\": %.6f, "
      "\"product_one_thread\": %.6f},\n",
      mesh_seconds, assembly, processor, best, threads > 1 ? one_thread : best);
  std::printf(
      " \"matrix_MB\": %.2f, \"double_MB\": %.2f, \"float_MB\": %.2f, \"int16_MB\": %.2f, \"index_MB\": %.2f,\n",
      r.bytes / 1e6, r.full_bytes / 1e6, r.single_bytes / 1e6, r.fixed_bytes / 1e6, r.index_bytes / 1e6);
  std::printf(
      " \"dense_fraction\": %.5f, \"dense_blocks\": %lld, \"low_rank_blocks\": %lld, \"mean_rank\": %.2f, "
      "\"max_rank\": %d, \"entries_evaluated\": %.4f,\n",
      r.dense_fraction, (long long)r.dense_blocks, (long long)r.low_rank_blocks, r.mean_rank, r.max_rank,
      r.entries_evaluated);
  std::printf(" \"estimated_error\": %.3e, \"measured_error\": %.3e, \"error_100_rows\": %.3e,\n", r.estimated_error,
              r.measured_error, std::sqrt(error / size));
  std::printf(" \"product_GBps\": %.2f, \"read_GBps\": %.2f%s", r.bytes / best / 1e9, 1e-9 / best_read,
              sum == 0 ? "" : " ");
  if (const double reduction = number("solve"); reduction > 0) {
    std::printf(",\n \"solves\": [");
    std::stringstream list(given["precond"]);
    int count = 0;
    for (std::string word; std::getline(list, word, ',');) {
      std::vector<std::string> parts;
      std::stringstream split(word);
      for (std::string part; std::getline(split, part, ':');) parts.push_back(part);
      const auto part = [&](std::size_t i, const char* other) {
        return std::atof((parts.size() > i ? parts[i] : other).c_str());
      };
      double bytes = 0;
      start = wall_time();
      const std::clock_t began = std::clock();
      std::shared_ptr<const op::Operator<double>> P;
      if (parts[0] == "jacobi") {
        P = std::make_shared<precond::Jacobi<double, Host>>(A, false);
      } else if (parts[0] == "block-jacobi") {
        const auto made = std::make_shared<precond::BlockDiagonal<double>>(
            A, precond::BlockDiagonalOptions{Local(part(1, "400")), precond::FactorPrecision::automatic});
        bytes = made->bytes(), P = made;
      } else if (parts[0] == "hlu") {
        precond::HluOptions o;
        o.tolerance = part(1, "1e-2"), o.leaf_size = Local(part(2, "64")), o.rank = Local(part(3, "0"));
        const auto made = std::make_shared<precond::Hlu<double>>(A, o);
        bytes = made->report().bytes, P = made;
        if (!made->note().empty()) std::fprintf(stderr, "%s\n", made->note().c_str());
      } else if (parts[0] == "inner") {
        const auto coarse =
            std::make_shared<op::HMatrix<double>>(A, op::CoarseOptions{Local(part(1, "1")), part(2, "1e-2")});
        bytes = coarse->report().bytes;
        P = std::make_shared<krylov::Inner<double>>(coarse,
                                                    std::make_shared<precond::Jacobi<double, Host>>(*coarse, false));
      } else if (parts[0] != "none") {
        std::fprintf(stderr, "what is %s?\n", word.c_str());
        return 2;
      }
      const double set_up = wall_time() - start, set_up_processor = double(std::clock() - began) / CLOCKS_PER_SEC;
      Vector<double> b(space), solution(space);
      b.assign(potential);
      krylov::Options solver;
      solver.method = krylov::Method::bicgstab;
      solver.rtol = reduction;
      start = wall_time();
      const std::clock_t ended = std::clock();
      const auto report = krylov::solve<double, Host>(A, P.get(), b, solution, solver);
      const double seconds = wall_time() - start;
      double charge = 0;
      for (Local i = 0; i < n; ++i) charge += layer.area(i) * solution.data()[i];
      std::printf(
          "%s\n  {\"precond\": \"%s\", \"set_up\": %.3f, \"set_up_processor\": %.3f, \"MB\": %.2f, \"solve\": %.3f, "
          "\"solve_processor\": %.3f, \"iterations\": %d, \"reason\": "
          "\"%s\", \"charge\": %.10f}",
          count++ ? "," : "", word.c_str(), set_up, set_up_processor, bytes / 1e6, seconds,
          double(std::clock() - ended) / CLOCKS_PER_SEC, report.iterations, krylov::to_string(report.reason), charge);
      std::fflush(stdout);
    }
    std::printf("]");
  }
  std::printf("}\n");
}
