// Poisson's equation on the unit square by conjugate gradients: poisson [POINTS-A-SIDE]
//
//   ./poisson 200            or            mpiexec -n 4 ./poisson 200
//
// -u_xx - u_yy = f with u = 0 on the boundary; f is such that the solution is u = sin(pi x) sin(pi y). The program
// prints the largest error of the computed solution, which is of the order h^2 of the discretisation.
#include <tacit/comm/communicator.hpp>
#include <tacit/krylov/solve.hpp>
#include <tacit/op/csr.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <numbers>
#include <vector>

using tacit::Global, tacit::Host;

namespace {

/// This rank's rows of the five-point matrix of an n x n grid.
tacit::op::Rows<double> five_point(Global n, Global begin, Global end) {
  tacit::op::Rows<double> rows;
  for (Global i = begin; i < end; ++i) {
    const auto entry = [&](bool inside, Global column, double value) {
      if (inside) rows.column.push_back(column), rows.value.push_back(value);
    };
    entry(i >= n, i - n, -1);
    entry(i % n > 0, i - 1, -1);
    entry(true, i, 4);
    entry(i % n < n - 1, i + 1, -1);
    entry(i < n * (n - 1), i + n, -1);
    rows.start.push_back(Global(rows.column.size()));
  }
  return rows;
}

int solve(Global n) {
  // Under mpiexec the ranks share the rows; started by itself, the program is one rank.
  const auto comm = tacit::comm::mpi_launched() ? tacit::comm::mpi_world() : tacit::comm::Communicator::self();
  const auto space = tacit::layout::Space::distributed(comm, n * n);
  const tacit::op::Csr<double> A(space, space, five_point(n, space.begin(), space.end()));

  const double h = 1.0 / double(n + 1), pi = std::numbers::pi;
  std::vector<double> exact, right_hand_side;
  for (Global i = space.begin(); i < space.end(); ++i) {
    const double u = std::sin(pi * h * double(i % n + 1)) * std::sin(pi * h * double(i / n + 1));
    exact.push_back(u);
    right_hand_side.push_back(2 * pi * pi * u * h * h);
  }
  tacit::layout::Vector<double> b(space), x(space);
  b.assign(right_hand_side);

  tacit::krylov::Options options;
  options.method = tacit::krylov::Method::cg;
  options.rtol = 1e-8;
  const tacit::op::Operator<double, Host>* no_preconditioner = nullptr;
  const auto report = tacit::krylov::solve(A, no_preconditioner, b, x, options, /*hermitian=*/true);

  double error = 0;
  const auto computed = x.to_host();
  for (std::size_t i = 0; i < exact.size(); ++i) error = std::max(error, std::abs(computed[i] - exact[i]));
  error = comm.all_max(error);
  if (comm.rank() == 0) {
    std::printf("%lld unknowns on %d rank%s: %s after %d iterations, %.2f s\n", static_cast<long long>(n * n),
                comm.size(), comm.size() == 1 ? "" : "s", to_string(report.reason), report.iterations, report.seconds);
    std::printf("||b - A x|| / ||b|| = %.1e (recomputed), largest error against sin sin = %.1e\n", report.residual_norm,
                error);
    if (!report.advice.empty()) std::printf("%s %s\n", report.detail.c_str(), report.advice.c_str());
  }
  return report.converged() ? 0 : 3;
}

}  // namespace

int main(int argc, char** argv) {
  const long n = argc > 1 ? std::strtol(argv[1], nullptr, 10) : 200;
  if (n < 1) return std::fprintf(stderr, "usage: poisson [POINTS-A-SIDE]\n"), 2;
  try {
    return solve(n);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "poisson: %s\n", error.what());
    return 1;
  }
}
