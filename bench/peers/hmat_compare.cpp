// Compares Tacit with hmat-oss (Debian: libhmat-oss-dev, GPL-2, sequential) on one mesh with the same entries.
//
//   hmat_compare [NAME=VALUE ...]
//     mesh=geodesic:45   geodesic:CUTS, ring:WEDGES,RINGS or a file
//     tolerance=1e-4  leaf=60  eta=2   leaf and eta of hmat-oss, as in its published figures
//     solve=1e-7  repeat=20  quadrature=0.05   quadrature: accuracy of both's entries, relative to the tolerance
//
// Tacit runs with all threads and with one, hmat-oss with one; products alternate. Tacit applies the tolerance to the
// whole matrix, hmat-oss to each block: compare the errors, which are measured on the same 100 rows. The solver is
// Tacit's BiCGStab for both, without preconditioner. Set OPENBLAS_NUM_THREADS=1: hmat-oss calls BLAS for small blocks.
#include "../harness.hpp"

#include <tacit/app/bem/single_layer.hpp>
#include <tacit/base/trace.hpp>
#include <tacit/krylov/solve.hpp>
#include <tacit/op/function.hpp>
#include <tacit/op/hmatrix/hmatrix.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <numeric>
#include <string>

#include <hmat/hmat.h>
#include <omp.h>

using namespace tacit;
using app::bem::SingleLayer;
using layout::Vector;

namespace {

// Single entries by the same rules as SingleLayer, which computes many at once: hmat-oss wants one entry after the
// other.
struct Entries {
  Entries(const app::bem::Mesh& mesh, const SingleLayer& layer, double accuracy) : exact(layer) {
    const double seven = std::max(1.5, std::pow(1.6e-4 / accuracy, 1.0 / 6)),
                 three = std::max(seven, std::cbrt(2.7e-3 / accuracy)),
                 one = std::max(three, std::sqrt(0.025 / accuracy));
    reach[0] = seven * seven, reach[1] = three * three, reach[2] = one * one;
    for (Local t = 0; t < mesh.size(); ++t) {
      Triangle k{};
      const op::Point c = mesh.centroid(t);
      for (std::size_t i = 0; i < 3; ++i) {
        const op::Point &p = mesh.vertices[std::size_t(mesh.triangles[std::size_t(t)][i])],
                        &q = mesh.vertices[std::size_t(mesh.triangles[std::size_t(t)][(i + 1) % 3])];
        double edge = 0;
        for (std::size_t d = 0; d < 3; ++d) {
          edge += (p[d] - q[d]) * (p[d] - q[d]);
          k.centre[d] = c[d];
          k.corner[i][d] = p[d] - c[d];
        }
        k.size2 = std::max(k.size2, edge);
      }
      k.area = mesh.area(t);
      triangles.push_back(k);
    }
  }
  double operator()(Global i, Global j) const {
    const Triangle& t = triangles[std::size_t(j)];
    const Triangle& at = triangles[std::size_t(i)];
    double d[3], r2 = 0;
    for (int k = 0; k < 3; ++k) d[k] = t.centre[k] - at.centre[k], r2 += d[k] * d[k];
    if (r2 >= reach[2] * t.size2) return t.area / std::sqrt(r2);
    if (r2 < reach[0] * t.size2) {
      double value;
      exact({&i, 1}, {&j, 1}, &value);
      return value;
    }
    const auto orbit = [&](double s) {
      double sum = 0;
      for (const auto& corner : t.corner) {
        double square = 0;
        for (int k = 0; k < 3; ++k) square += (d[k] + s * corner[k]) * (d[k] + s * corner[k]);
        sum += 1 / std::sqrt(square);
      }
      return sum;
    };
    if (r2 >= reach[1] * t.size2) return t.area * orbit(0.5) / 3;
    return t.area * (0.225 / std::sqrt(r2) + 0.132394152788506 * orbit(-0.410426192314066) +
                     0.125939180544827 * orbit(0.696140478028352));
  }

 private:
  struct Triangle {
    double centre[3], corner[3][3], area, size2;
  };
  const SingleLayer& exact;
  double reach[3];
  std::vector<Triangle> triangles;
};

void entry_of(void* entries, int i, int j, void* result) {
  *static_cast<double*>(result) = (*static_cast<const Entries*>(entries))(i, j);
}

struct Clock {
  double wall = wall_time();
  std::clock_t processor = std::clock();
  double seconds() const { return wall_time() - wall; }
  double processor_seconds() const { return double(std::clock() - processor) / CLOCKS_PER_SEC; }
};

}  // namespace

int main(int argc, char** argv) {
  bench::Words given{{"mesh", "geodesic:45"}, {"tolerance", "1e-4"}, {"leaf", "60"},        {"eta", "2"},
                     {"solve", "1e-7"},       {"repeat", "20"},      {"quadrature", "0.05"}};
  given.take(argc, argv);
  const auto number = [&](const char* name) { return given.number(name); };
  const std::string& from = given["mesh"];
  app::bem::Mesh mesh;
  if (from.rfind("geodesic:", 0) == 0) mesh = app::bem::geodesic_sphere(std::atoi(from.c_str() + 9));
  else if (from.rfind("ring:", 0) == 0)
    mesh = app::bem::ring_sphere(std::atoi(from.c_str() + 5), std::atoi(from.c_str() + from.find(',') + 1));
  else mesh = app::bem::read_mesh(from);
  const double tolerance = number("tolerance");
  const int repeat = int(number("repeat")), threads = omp_get_max_threads();

  // Tacit: assembly with all threads, then with one.
  const op::TreeOptions tree_options{op::Bisection::median, 64, 0};
  double assembly[2], processor[2];
  std::unique_ptr<SingleLayer> layer;
  std::shared_ptr<op::HMatrix<double>> A;
  const auto space = layout::Space::distributed(comm::Communicator::self(), mesh.size());
  for (const int pass : {1, 0}) {
    omp_set_num_threads(pass == 1 ? 1 : threads);
    const Clock clock;
    const op::ClusterTree first(mesh.geometry(), tree_options);
    const app::bem::Mesh sorted = mesh.reordered(first.order());
    const auto tree = std::make_shared<const op::ClusterTree>(sorted.geometry(), tree_options);
    layer = std::make_unique<SingleLayer>(sorted, number("quadrature") * tolerance);
    op::HMatrixOptions options;
    options.tolerance = tolerance;
    A.reset();
    A = std::make_shared<op::HMatrix<double>>(space, tree, app::bem::entries(*layer), options);
    assembly[pass] = clock.seconds(), processor[pass] = clock.processor_seconds();
    if (pass == 0) mesh = sorted;  // hmat-oss gets the mesh in the order of the cluster tree
  }
  const Local n = mesh.size();

  // hmat-oss.
  hmat_settings_t settings;
  hmat_get_parameters(&settings);
  settings.maxLeafSize = int(number("leaf"));
  hmat_set_parameters(&settings);
  hmat_interface_t hmat;
  hmat_init_default_interface(&hmat, HMAT_DOUBLE_PRECISION);
  hmat.init();
  std::vector<double> centres;
  for (Local t = 0; t < n; ++t)
    for (const double c : mesh.centroid(t)) centres.push_back(c);
  const Clock clock;
  auto* const clustering = hmat_create_clustering_max_dof(hmat_create_clustering_median(), settings.maxLeafSize);
  auto* const tree = hmat_create_cluster_tree(centres.data(), 3, n, clustering);
  auto* const matrix =
      hmat.create_empty_hmatrix_admissibility(tree, tree, 0, hmat_create_admissibility_standard(number("eta")));
  hmat.set_low_rank_epsilon(matrix, tolerance);
  hmat_assemble_context_t assemble;
  hmat_assemble_context_init(&assemble);
  assemble.simple_compute = entry_of;
  const Entries entries(mesh, *layer, number("quadrature") * tolerance);
  assemble.user_context = const_cast<Entries*>(&entries);
  assemble.progress = nullptr;
  assemble.compression = hmat_create_compression_aca_plus(tolerance);
  hmat.assemble_generic(matrix, &assemble);
  const double peer_assembly = clock.seconds(), peer_processor = clock.processor_seconds();
  hmat_info_t info;
  hmat.get_info(matrix, &info);
  const double peer_bytes = 8.0 * double(info.compressed_size);
  const auto product = [&](const double* x, double* y, int) {
    double one = 1, zero = 0;
    hmat.gemv('N', &one, matrix, const_cast<double*>(x), &zero, y, 1);
  };
  const op::Function<double> B(space, space, product);

  // Alternating products, and 100 rows of each.
  Vector<double> x(space), y(space), z(space);
  std::uint64_t state = 12345;
  for (Local i = 0; i < n; ++i) {
    state = (state * 1103515245u + 12345u) % 2147483648u;
    x.data()[i] = 2 * double(state) / 2147483648.0 - 1;
  }
  double best[3] = {1e30, 1e30, 1e30};  // Tacit with all threads, with one, hmat-oss
  const auto time_one = [&](int which) {
    const Clock run;
    if (which == 2) product(x.data(), z.data(), 1);
    else A->apply(x, y);
    best[which] = std::min(best[which], run.seconds());
  };
  for (int k = 0; k < repeat; ++k)
    for (const int which : {0, 1, 2}) {
      omp_set_num_threads(which == 1 ? 1 : threads);
      time_one(which);
    }
  omp_set_num_threads(threads);
  const SingleLayer exact(mesh, 1e-9);
  std::vector<Global> all(static_cast<std::size_t>(n));
  std::iota(all.begin(), all.end(), Global(0));
  std::vector<double> row(all.size());
  double error[2] = {0, 0}, size = 0;
  for (int k = 0; k < 100; ++k) {
    const Global i = Global(double(k) * n / 100);
    exact({&i, 1}, all, row.data());
    double sum = 0;
    for (Local j = 0; j < n; ++j) sum += row[std::size_t(j)] * x.data()[j];
    error[0] += (sum - y.data()[i]) * (sum - y.data()[i]), error[1] += (sum - z.data()[i]) * (sum - z.data()[i]);
    size += sum * sum;
  }

  struct Solved {
    int iterations;
    double seconds, charge;
  };
  const auto solve = [&](const op::Operator<double>& a) {
    Vector<double> b(space), s(space);
    std::fill_n(b.data(), n, 1.0);
    krylov::Options options;
    options.method = krylov::Method::bicgstab;
    options.rtol = number("solve");
    const Clock run;
    const auto report = krylov::solve<double, Host>(a, nullptr, b, s, options);
    double charge = 0;
    for (Local t = 0; t < n; ++t) charge += mesh.area(t) * s.data()[t];
    return Solved{report.iterations, run.seconds(), charge};
  };
  const Solved ours = solve(*A), theirs = solve(B);
  std::printf("%s, n = %d, tolerance %g, %d threads\n", from.c_str(), n, tolerance, threads);
  std::printf("%-22s %12s %14s %10s %10s %12s %10s %10s %12s\n", "", "assembly s", "processor s", "MB", "error",
              "product ms", "iterations", "solve s", "charge");
  const auto print = [](const char* name, double wall, double cpu, double bytes, double err, double ms,
                        const Solved& s) {
    std::printf("%-22s %12.3f %14.3f %10.1f %10.1e %12.3f %10d %10.3f %12.7f\n", name, wall, cpu, bytes / 1e6, err,
                1e3 * ms, s.iterations, s.seconds, s.charge);
  };
  const double mine = std::sqrt(error[0] / size), peers = std::sqrt(error[1] / size);
  print("Tacit", assembly[0], processor[0], A->report().bytes, mine, best[0], ours);
  print("Tacit, one thread", assembly[1], processor[1], A->report().bytes, mine, best[1], ours);
  print("hmat-oss (one thread)", peer_assembly, peer_processor, peer_bytes, peers, best[2], theirs);
  std::printf("ratios to one thread: processor seconds of assembly %.2f, memory %.2f, product %.2f\n",
              peer_processor / processor[1], peer_bytes / A->report().bytes, best[2] / best[1]);
  hmat.destroy(matrix);
  hmat.finalize();
}
