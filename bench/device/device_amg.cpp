// cg with amg beside cg with jacobi, all in device memory: device_amg [--quick | --dry].
//
// 5-point and 7-point Laplacians, b = 1, ||b - A x|| <= 1e-8 ||b||. For each preconditioner a line with the seconds of
// its set-up on the host and of the transfer (in one), iterations, the seconds of a solve with kept A and P (median of
// five, the first solve left out), and the true residual, computed on the host. It needs the whole library and no
// kernel of its own. Exit code 77: no GPU; 1: a solve did not converge, or what it says of its residual is wrong.
#include "../model_problems.hpp"

#include <tacit/comm/communicator.hpp>
#include <tacit/exec/memory.hpp>
#include <tacit/krylov/solve.hpp>
#include <tacit/op/csr.hpp>
#include <tacit/precond/make.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <utility>
#include <vector>

namespace tacit::device {
namespace {

op::Rows<double> rows_of(const bench::Problem& problem) {
  op::Rows<double> rows;
  std::int64_t column[bench::Problem::most];
  double value[bench::Problem::most];
  for (std::int64_t r = 0; r < problem.rows(); ++r) {
    const int m = problem.row(r, column, value);
    rows.column.insert(rows.column.end(), column, column + m);
    rows.value.insert(rows.value.end(), value, value + m);
    rows.start.push_back(Global(rows.column.size()));
  }
  return rows;
}

/// ||b - A x|| / ||b|| with b = 1.
double residual_of(const op::Rows<double>& rows, const std::vector<double>& x) {
  double sum = 0;
  for (std::size_t r = 0; r < x.size(); ++r) {
    double rest = 1;
    for (auto k = std::size_t(rows.start[r]); k < std::size_t(rows.start[r + 1]); ++k)
      rest -= rows.value[k] * x[std::size_t(rows.column[k])];
    sum += rest * rest;
  }
  return std::sqrt(sum / double(x.size()));
}

/// False where a solve did not do what it says.
bool compare(const std::string& name, int n) {
  const bench::Problem problem{name, n};
  const auto rows = rows_of(problem);
  const auto space = layout::Space::distributed(comm::Communicator::self(), problem.rows());
  const op::Csr<double, Device> A(space, space, rows);
  layout::Vector<double, Device> b(space), x(space);
  b.assign(std::vector<double>(std::size_t(problem.rows()), 1.0));
  krylov::Options options;
  options.method = krylov::Method::cg;
  options.rtol = 1e-8, options.max_iterations = 10000, options.fallbacks = false;
  bool fine = true;
  for (const char* kind : {"jacobi", "amg"}) {
    const double from = wall_time();
    const auto P = precond::make<double, Device>(kind, A);
    const double set_up = wall_time() - from;
    std::vector<double> seconds;
    krylov::Report report;
    for (int i = 0; i < 6; ++i) {
      x.assign(std::vector<double>(std::size_t(problem.rows()), 0.0));
      report = krylov::solve<double, Device>(A, P.get(), b, x, options);
      if (i > 0) seconds.push_back(report.seconds);
    }
    std::nth_element(seconds.begin(), seconds.begin() + 2, seconds.end());
    const double truth = residual_of(rows, x.to_host());
    const bool right = report.converged() && truth <= 1.01e-8;
    std::printf("%s n = %d, %s cg + %-6s  set-up %8.4f s  %5d iterations  solve %10.6f s  residual %.2e%s\n",
                name.c_str(), n, A.storage().c_str(), kind, set_up, report.iterations, seconds[2], truth,
                right ? "" : "  FAILED");
    std::fflush(stdout);
    fine = fine && right;
  }
  return fine;
}

}  // namespace
}  // namespace tacit::device

int main(int count, char** words) {
  using namespace tacit;
  bool quick = false, dry = false;
  for (int i = 1; i < count; ++i)
    if (std::strcmp(words[i], "--quick") == 0) quick = true;
    else if (std::strcmp(words[i], "--dry") == 0) dry = true;
    else return std::fprintf(stderr, "usage: device_amg [--quick | --dry]\n"), 2;
  if (!exec::device_available()) return std::puts("no GPU"), 77;
  try {
    std::printf("%s\n", exec::device_name().c_str());
    const bool flat = device::compare("2d5", dry     ? 24
                                             : quick ? 256
                                                     : 1024),
               cube = device::compare("3d7", dry     ? 8
                                             : quick ? 48
                                                     : 128);
    return flat && cube ? 0 : 1;
  } catch (const std::exception& e) {
    std::printf("FAILED  %s\n", e.what());
    return 1;
  }
}
