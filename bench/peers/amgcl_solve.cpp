// A x = b by AMGCL, smoothed aggregation with spai0, as bench/amg.py calls it: amgcl_solve FILE cg|bicgstab RTOL. For
// elasticity with Gauss-Seidel, as cg with spai0 does not converge there.
//
// FILE: int64 rows, entries, unknowns of a node, dimension of coordinates (0: none); int64 starts, int64 columns,
// values, b, coordinates, all of them float64. Writes x behind it to FILE.x and prints a JSON line: seconds of the
// processor from these arrays to x, and iterations.
#include <amgcl/adapter/crs_tuple.hpp>
#include <amgcl/amg.hpp>
#include <amgcl/backend/builtin.hpp>
#include <amgcl/coarsening/rigid_body_modes.hpp>
#include <amgcl/coarsening/smoothed_aggregation.hpp>
#include <amgcl/make_solver.hpp>
#include <amgcl/relaxation/gauss_seidel.hpp>
#include <amgcl/relaxation/spai0.hpp>
#include <amgcl/solver/bicgstab.hpp>
#include <amgcl/solver/cg.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string>
#include <tuple>
#include <vector>

namespace {

template <class T>
std::vector<T> read(std::ifstream& file, std::int64_t n) {
  std::vector<T> v(static_cast<std::size_t>(n));
  file.read(reinterpret_cast<char*>(v.data()), std::streamsize(v.size() * sizeof(T)));
  return v;
}

double seconds() {
  return double(std::clock()) / CLOCKS_PER_SEC;
}

using Backend = amgcl::backend::builtin<double, std::int32_t, std::ptrdiff_t>;

template <template <class...> class Method, template <class> class Smoother>
int solve(const char* path, double rtol) {
  std::ifstream file(path, std::ios::binary);
  const auto sizes = read<std::int64_t>(file, 4);
  const auto rows = sizes[0];
  const auto start = read<std::int64_t>(file, rows + 1);
  const auto wide = read<std::int64_t>(file, sizes[1]);
  const std::vector<std::int32_t> column(wide.begin(), wide.end());
  const auto value = read<double>(file, sizes[1]), b = read<double>(file, rows);
  const auto coordinates = read<double>(file, sizes[3] ? rows / sizes[2] * sizes[3] : 0);
  if (!file) return 1;
  std::vector<double> x(b.size(), 0.0);

  const double begin = seconds();
  using Levels = amgcl::amg<Backend, amgcl::coarsening::smoothed_aggregation, Smoother>;
  using Solver = amgcl::make_solver<Levels, Method<Backend>>;
  typename Solver::params p;
  p.solver.tol = rtol;
  p.solver.maxiter = 2000;
  p.precond.coarsening.aggr.block_size = unsigned(sizes[2]);
  if (sizes[3]) {  // as its tutorial has it for elasticity
    p.precond.coarsening.nullspace.cols =
        amgcl::coarsening::rigid_body_modes(int(sizes[3]), coordinates, p.precond.coarsening.nullspace.B);
    p.precond.coarsening.aggr.eps_strong = 0;
    p.precond.coarsening.estimate_spectral_radius = true;
    p.precond.coarsening.power_iters = 10;
  }
  const Solver solver(std::tie(rows, start, column, value), p);
  const double made = seconds();
  const auto [iterations, residual] = solver(b, x);
  const double end = seconds();
  std::printf("{\"seconds\": %.6f, \"setup\": %.6f, \"iterations\": %d}\n", end - begin, made - begin, int(iterations));
  std::ofstream(std::string(path) + ".x", std::ios::binary)
      .write(reinterpret_cast<const char*>(x.data()), std::streamsize(x.size() * sizeof(double)));
  return 0;
}

}  // namespace

int main(int count, char** words) {
  if (count < 4) return 2;
  const double rtol = std::atof(words[3]);
  std::ifstream file(words[1], std::ios::binary);
  const bool elastic = read<std::int64_t>(file, 4)[3] > 0;
  using amgcl::relaxation::gauss_seidel, amgcl::relaxation::spai0;
  if (elastic) return solve<amgcl::solver::cg, gauss_seidel>(words[1], rtol);
  return std::string(words[2]) == "cg" ? solve<amgcl::solver::cg, spai0>(words[1], rtol)
                                       : solve<amgcl::solver::bicgstab, spai0>(words[1], rtol);
}
