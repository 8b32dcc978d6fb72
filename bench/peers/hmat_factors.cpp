// Factors of a Gaussian process's covariance matrix, its log determinant and a solve: Tacit, hmat-oss (Debian:
// libhmat-oss-dev, GPL-2, sequential) and LAPACK, in turns, with the same entries.
//
//   hmat_factors [NAME=VALUE ...]
//     sizes=4000,8000  dense=10000       LAPACK up to this size: its matrix has 8 n^2 bytes
//     tolerance=1e-8  leaf=              of Tacit's factors; without it the largest leaf is chosen
//     peer_tolerance=  peer_leaf=400  peer_eta=2   of hmat-oss; its tolerance, where it is another one
//     length=0.2  nugget=0.01  rounds=1
//
// Matern 3/2 between random points of the unit cube. Tacit applies the tolerance to the whole matrix, hmat-oss to each
// block: compare the residuals |b - A x| / |b| of a solve with the factors alone, A by its entries. Processor seconds
// are the least of all rounds and of all threads: OMP_NUM_THREADS for Tacit, OPENBLAS_NUM_THREADS for the others.
// "peak" is the most memory beyond what was there before, from assembly to solve.
#include "../harness.hpp"

#include <tacit/base/trace.hpp>
#include <tacit/op/hmatrix/point_kernels.hpp>
#include <tacit/precond/hmatrix/hlu.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <hmat/hmat.h>
#include <malloc.h>

using namespace tacit;
using layout::Vector;

extern "C" {
void dpotrf_(const char* part, const int* n, double* a, const int* stride, int* info, std::size_t);
void dpotrs_(const char* part, const int* n, const int* columns, const double* a, const int* stride, double* b,
             const int* b_stride, int* info, std::size_t);
}

namespace {

bench::Words given{{"sizes", "4000,8000"}, {"dense", "10000"}, {"tolerance", "1e-8"}, {"peer_leaf", "400"},
                   {"peer_eta", "2"},      {"length", "0.2"},  {"nugget", "0.01"},    {"rounds", "1"}};

struct Clock {
  double wall = wall_time();
  std::clock_t processor = std::clock();
  double seconds() const { return wall_time() - wall; }
  double processor_seconds() const { return double(std::clock() - processor) / CLOCKS_PER_SEC; }
};

double megabytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind(key, 0) == 0) return std::stod(line.substr(key.size() + 1)) * 1024e-6;
  return 0;
}

// The most memory since it was made, beyond what was there then.
struct Peak {
  double before;
  Peak() {
    malloc_trim(0);
    before = megabytes("VmRSS");
    std::ofstream("/proc/self/clear_refs") << "5";
  }
  double now() const { return megabytes("VmHWM") - before; }
};

struct Problem {
  std::shared_ptr<const op::ClusterTree> tree;
  op::EntryFunction<double> entry;
  std::vector<double> b;
  int size() const { return int(b.size()); }
};

Problem problem_of(int n) {
  std::mt19937_64 random(0);
  std::uniform_real_distribution<double> coordinate(0, 1 / given.number("length"));
  std::normal_distribution<double> value;
  op::Coordinates points{3, {}, {}};
  for (int i = 0; i < 3 * n; ++i) points.points.push_back(coordinate(random));
  Problem p;
  p.tree = std::make_shared<const op::ClusterTree>(points);
  op::PointKernel kernel;
  kernel.kernel = op::KernelName::matern32;
  kernel.nugget = given.number("nugget");
  p.entry = op::kernel_entries<double>(kernel, p.tree);
  for (int i = 0; i < n; ++i) p.b.push_back(value(random));
  return p;
}

// |b - A x| / |b|, A by its entries.
double residual(const Problem& p, const std::vector<double>& x) {
  const std::size_t n = x.size();
  std::vector<Global> all(n);
  std::iota(all.begin(), all.end(), Global(0));
  std::vector<double> rows(64 * n);
  double error = 0, size = 0;
  for (std::size_t i = 0; i < n; i += 64) {
    const std::size_t count = std::min<std::size_t>(64, n - i);
    p.entry(all, {all.data() + i, count}, rows.data());  // by columns, which are rows of the symmetric matrix
    for (std::size_t k = 0; k < count; ++k) {
      const double r = std::inner_product(x.begin(), x.end(), rows.begin() + std::ptrdiff_t(k * n), -p.b[i + k]);
      error += r * r, size += p.b[i + k] * p.b[i + k];
    }
  }
  return std::sqrt(error / size);
}

struct Found {
  double assembly = 0, factors = 0, factors_wall = 0, solve = 0;  // seconds of processors, but for the wall's
  double matrix_mb = 0, factors_mb = 0, peak_mb = 0, log_determinant = 0;
  std::vector<double> x;
};

Found by_tacit(const Problem& p) {
  Found f;
  const Peak peak;
  const auto space = layout::Space::distributed(comm::Communicator::self(), p.size());
  op::HMatrixOptions options;
  options.tolerance = given.number("tolerance");
  options.symmetry = op::Symmetry::hermitian;
  const Clock assembly;
  const op::HMatrix<double> A(space, p.tree, p.entry, options);
  f.assembly = assembly.processor_seconds();
  precond::HluOptions factors;
  factors.tolerance = options.tolerance;
  if (given.has("leaf")) factors.leaf_size = Local(given.number("leaf"));
  const Clock making;
  precond::Hlu<double> F(A, factors);
  f.factors = making.processor_seconds(), f.factors_wall = making.seconds();
  f.log_determinant = F.report().log_determinant;
  Vector<double> b(space), x(space);
  std::copy(p.b.begin(), p.b.end(), b.data());
  const Clock solve;
  F.apply(b, x);
  f.solve = solve.processor_seconds();
  f.x.assign(x.data(), x.data() + p.size());
  f.matrix_mb = A.report().bytes * 1e-6, f.factors_mb = F.report().bytes * 1e-6, f.peak_mb = peak.now();
  return f;
}

// What hmat-oss calls for a block, and for parts of it, by columns.
struct Part {
  const Problem* problem;
  const int *rows, *columns;
};
void prepare(int row, int, int column, int, int* row_index, int*, int* column_index, int*, void* problem,
             hmat_block_info_t* info) {
  info->user_data = new Part{static_cast<const Problem*>(problem), row_index + row, column_index + column};
  info->release_user_data = [](void* part) { delete static_cast<Part*>(part); };
}
void evaluate(void* data, int row, int rows, int column, int columns, void* block) {
  const Part& part = *static_cast<const Part*>(data);
  const std::vector<Global> i(part.rows + row, part.rows + row + rows),
      j(part.columns + column, part.columns + column + columns);
  part.problem->entry(i, j, static_cast<double*>(block));
}

Found by_hmat(const Problem& p) {
  Found f;
  const Peak peak;
  const double tolerance = given.number("peer_tolerance", given.number("tolerance"));
  hmat_settings_t settings;
  hmat_get_parameters(&settings);
  settings.maxLeafSize = int(given.number("peer_leaf"));
  hmat_set_parameters(&settings);
  hmat_interface_t hmat;
  hmat_init_default_interface(&hmat, HMAT_DOUBLE_PRECISION);
  hmat.init();
  const Clock assembly;
  std::vector<double> points(p.tree->points().begin(), p.tree->points().end());
  auto* const median = hmat_create_clustering_median();
  auto* const clustering = hmat_create_clustering_max_dof(median, settings.maxLeafSize);
  auto* const tree = hmat_create_cluster_tree(points.data(), 3, p.size(), clustering);
  auto* const admissibility = hmat_create_admissibility_standard(given.number("peer_eta"));
  auto* const A = hmat.create_empty_hmatrix_admissibility(tree, tree, 1, admissibility);
  hmat.set_low_rank_epsilon(A, tolerance);
  hmat_assemble_context_t assemble;
  hmat_assemble_context_init(&assemble);
  assemble.prepare = prepare;
  assemble.block_compute = evaluate;
  assemble.user_context = const_cast<Problem*>(&p);
  assemble.progress = nullptr;
  assemble.lower_symmetric = 1;
  auto* const compression = hmat_create_compression_aca_plus(tolerance);
  assemble.compression = compression;
  hmat.assemble_generic(A, &assemble);
  f.assembly = assembly.processor_seconds();
  hmat_info_t info;
  hmat.get_info(A, &info);
  f.matrix_mb = 8e-6 * double(info.compressed_size);
  hmat_factorization_context_t factors;
  hmat_factorization_context_init(&factors);
  factors.factorization = hmat_factorization_llt;
  factors.progress = nullptr;
  const Clock making;
  if (hmat.factorize_generic(A, &factors) != 0) std::printf("hmat-oss: the factors failed\n");
  f.factors = making.processor_seconds(), f.factors_wall = making.seconds();
  hmat.logdet(A, &f.log_determinant), f.log_determinant *= 2;  // it gives that of L
  f.x = p.b;
  const Clock solve;
  hmat.vector_reorder(f.x.data(), tree, 0, nullptr, 1);
  hmat.solve_dense(A, f.x.data(), 1);
  hmat.vector_restore(f.x.data(), tree, 0, nullptr, 1);
  f.solve = solve.processor_seconds();
  hmat.get_info(A, &info);
  f.factors_mb = 8e-6 * double(info.compressed_size), f.peak_mb = peak.now();
  hmat.destroy(A);
  hmat_delete_cluster_tree(tree);
  hmat_delete_compression(compression);
  hmat_delete_admissibility(admissibility);
  hmat_delete_clustering(clustering);
  hmat_delete_clustering(median);
  hmat.finalize();
  return f;
}

Found by_lapack(const Problem& p) {
  Found f;
  const Peak peak;
  const int n = p.size(), one = 1;
  int info = 0;
  const Clock assembly;
  std::vector<Global> all(std::size_t(n), 0);
  std::iota(all.begin(), all.end(), Global(0));
  std::vector<double> a(all.size() * all.size());
  p.entry(all, all, a.data());
  f.assembly = assembly.processor_seconds();
  const Clock making;
  dpotrf_("L", &n, a.data(), &n, &info, 1);
  f.factors = making.processor_seconds(), f.factors_wall = making.seconds();
  for (std::size_t i = 0; i < all.size(); ++i) f.log_determinant += 2 * std::log(a[i * (all.size() + 1)]);
  f.x = p.b;
  const Clock solve;
  dpotrs_("L", &n, &one, a.data(), &n, f.x.data(), &n, &info, 1);
  f.solve = solve.processor_seconds();
  f.matrix_mb = 8e-6 * double(a.size()), f.factors_mb = 4e-6 * n * (n + 1.0), f.peak_mb = peak.now();
  return f;
}

// The least seconds and the most memory of all rounds; the rest is the same in each.
void join(Found& f, const Found& other) {
  for (const auto member : {&Found::assembly, &Found::factors, &Found::factors_wall, &Found::solve})
    f.*member = std::min(f.*member, other.*member);
  f.peak_mb = std::max(f.peak_mb, other.peak_mb);
}

}  // namespace

int main(int argc, char** argv) {
  for (const char* const key : {"leaf", "peer_tolerance"}) given.allow(key);
  given.take(argc, argv);
  using Method = Found (*)(const Problem&);
  std::printf("%6s %-9s %9s %9s %9s %8s %9s %10s %8s %10s  %s\n", "n", "", "assembly", "factors", "by clock", "solve",
              "matrix MB", "factors MB", "peak MB", "residual", "log det A");
  for (const int n : given.numbers("sizes")) {
    const Problem p = problem_of(n);
    std::vector<std::pair<const char*, Method>> methods{{"Tacit", by_tacit}, {"hmat-oss", by_hmat}};
    if (n <= int(given.number("dense"))) methods.emplace_back("LAPACK", by_lapack);
    std::vector<Found> found(methods.size());
    for (int round = 0; round < int(given.number("rounds")); ++round)
      for (std::size_t m = 0; m < methods.size(); ++m) {
        Found f = methods[m].second(p);
        if (round > 0) join(f, found[m]);
        found[m] = std::move(f);
      }
    for (std::size_t m = 0; m < methods.size(); ++m) {
      const Found& f = found[m];
      std::printf("%6d %-9s %9.2f %9.2f %9.2f %8.3f %9.0f %10.0f %8.0f %10.1e  %.8f\n", n, methods[m].first, f.assembly,
                  f.factors, f.factors_wall, f.solve, f.matrix_mb, f.factors_mb, f.peak_mb, residual(p, f.x),
                  f.log_determinant);
      std::fflush(stdout);
    }
  }
}
