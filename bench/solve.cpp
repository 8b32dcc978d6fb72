// Time per iteration of Tacit's methods on the model problems.
//   bench_solve PROBLEM N METHOD PRECOND ITERATIONS[,ITERATIONS...] REPEATS [NAME=VALUE ...]
// PROBLEM: one of model_problems.hpp, or file:PATH of a PETSc matrix. b = 1, x = 0. The numbers of iterations alternate
// (they are exact unless rtol=R is given). A JSON line for each: seconds of each repeat, true residual, storage format.
// METHOD product: products only, with x_i = 1 + i mod 7; the residual is then the norm of the result. NAME:
//   format  csr, sell, bsr, automatic, or stencil (matrix-free, with none or jacobi)
//   path    of the halo exchange
//   warm    iterations before the clock starts, which let automatic choices complete their measurements
// or any option of a solve (restart, step, depth, basis, orthogonalisation, engine, rtol, ...). fallbacks is 0 by
// default, so that the work equals that of the peers.
#include <tacit/comm/communicator.hpp>
#include <tacit/io/petsc_binary.hpp>
#include <tacit/krylov/solve.hpp>
#include <tacit/op/csr.hpp>
#include <tacit/op/stencil.hpp>
#include <tacit/precond/jacobi.hpp>
#include <tacit/precond/make.hpp>

#include "model_problems.hpp"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

using namespace tacit;

namespace {

void set(krylov::Options& o, std::string& format, std::string& path, int& warm, const std::string& text) {
  const auto at = text.find('=');
  const std::string name = text.substr(0, at), value = at == std::string::npos ? "" : text.substr(at + 1);
  if (name == "format") format = value;
  else if (name == "path") path = value;
  else if (name == "warm") warm = std::stoi(value);
  else set_from_text(krylov::options(), o, name, value, "solve");
}

std::unique_ptr<op::Operator<double>> matrix_free(const comm::Communicator& comm, const bench::Problem& problem) {
  const int axes = problem.name == "2d5" ? 2 : 3;
  require(problem.name == "2d5" || problem.name == "3d7", "there is no stencil for ", problem.name, " here");
  return std::make_unique<op::Stencil<double>>(comm, op::Grid(std::vector<Global>(std::size_t(axes), problem.n)),
                                               op::laplacian<double>(axes));
}

std::unique_ptr<op::Csr<double>> from_file(const comm::Communicator& comm, const std::string& path) {
  const auto entries = io::read_petsc_matrix<double>(path, comm.rank(), comm.size());
  const auto space = layout::Space::distributed(comm, entries.rows);
  return std::make_unique<op::Csr<double>>(
      space, space,
      op::assemble<double>(comm, space.partition(), entries.columns, entries.row, entries.column, entries.value));
}

std::unique_ptr<op::Csr<double>> assembled(const comm::Communicator& comm, const bench::Problem& problem,
                                           const std::string& format) {
  const auto space = layout::Space::distributed(comm, problem.rows());
  op::Rows<double> rows;
  std::int64_t column[bench::Problem::most];
  double value[bench::Problem::most];
  for (Global r = space.begin(); r < space.end(); ++r) {
    const int m = problem.row(r, column, value);
    rows.column.insert(rows.column.end(), column, column + m);
    rows.value.insert(rows.value.end(), value, value + m);
    rows.start.push_back(Global(rows.column.size()));
  }
  return std::make_unique<op::Csr<double>>(space, space, std::move(rows), value_of<op::Format>(format));
}

void run(int argc, char** argv) {
  const bench::Problem problem{argv[1], std::atoll(argv[2])};
  const std::string precond = argv[4];
  const int repeats = std::atoi(argv[6]);
  std::string format = "automatic", path = "auto";
  krylov::Options options;
  const bool product = std::string(argv[3]) == "product";
  if (!product) options.method = tacit::value_of<krylov::Method>(argv[3]);
  std::vector<int> iterations;
  std::istringstream numbers(argv[5]);
  for (std::string one; std::getline(numbers, one, ',');) iterations.push_back(std::stoi(one));
  int warm = 0;
  options.rtol = 1e-300;
  options.fallbacks = false;
  for (int i = 7; i < argc; ++i) set(options, format, path, warm, argv[i]);

  const comm::Communicator comm = comm::mpi_launched() ? comm::mpi_world() : comm::Communicator::self();
  comm.use(comm::path_of(path));
  std::unique_ptr<op::Operator<double>> A, P;
  std::string storage = "stencil";
  if (format == "stencil") {
    require(precond == "none" || precond == "jacobi", "a stencil is run with jacobi or no preconditioner here");
    A = matrix_free(comm, problem);
    if (precond == "jacobi") P = std::make_unique<precond::Jacobi<double>>(*A);
  } else {
    auto csr =
        problem.name.starts_with("file:") ? from_file(comm, problem.name.substr(5)) : assembled(comm, problem, format);
    storage = csr->storage();
    P = precond::make<double, Host>(precond, *csr, {});
    A = std::move(csr);
  }
  layout::Vector<double> b(A->range()), x(A->domain());
  layout::fill(b, 1.0);
  const auto solve = [&](int most) {
    if (product) {
      krylov::Report report;
      for (std::size_t i = 0; i < x.size(); ++i) x.data()[i] = 1 + double((A->domain().begin() + Global(i)) % 7);
      (void)comm.all_sum(Global(0));
      const double from = wall_time();
      for (; report.iterations < most; ++report.iterations) A->apply(x, b);
      (void)comm.all_sum(Global(0));
      report.seconds = wall_time() - from;
      report.method = "product", report.residual_norm = report.recurrence_residual_norm = layout::norm(b);
      return report;
    }
    options.max_iterations = most;
    layout::fill(x, 0.0);
    (void)comm.all_sum(Global(0));
    return krylov::solve<double, Host>(*A, P.get(), b, x, options);
  };
  if (warm > 0) (void)solve(warm);
  std::vector<std::string> seconds(iterations.size());
  std::vector<krylov::Report> reports(iterations.size());
  for (int i = 0; i < repeats; ++i)
    for (std::size_t k = 0; k < iterations.size(); ++k) {
      reports[k] = solve(iterations[k]);
      if (i > 0) seconds[k] += ',';
      seconds[k] += bench::seconds(reports[k].seconds);
    }
  if (comm.rank() != 0) return;
  for (std::size_t k = 0; k < iterations.size(); ++k) {
    const auto& report = reports[k];
    std::printf(
        "{\"code\":\"tacit\",\"problem\":\"%s\",\"n\":%lld,\"ranks\":%d,\"method\":\"%s\",\"precond\":\"%s\","
        "\"storage\":"
        "\"%s\",\"reason\":\"%s\",\"iterations\":%d,\"residual\":%.15e,\"recurrence_residual\":%.15e,\"reductions\":%"
        "lld,"
        "\"products\":%lld,\"seconds\":[%s]}\n",
        argv[1], static_cast<long long>(problem.n), comm.size(), report.method.c_str(), precond.c_str(),
        storage.c_str(), to_string(report.reason), report.iterations, report.residual_norm,
        report.recurrence_residual_norm, static_cast<long long>(report.counts.reductions),
        static_cast<long long>(report.counts.operator_applies), seconds[k].c_str());
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 7) {
    std::fprintf(stderr,
                 "usage: %s PROBLEM N METHOD PRECOND ITERATIONS[,ITERATIONS...] REPEATS [NAME=VALUE ...]\n"
                 "PROBLEM: 1d3, 2d5, 3d7, 3d27, cd3, hex3, tet3, or file:PATH of a PETSc matrix (N is not used)\n",
                 argv[0]);
    return 2;
  }
  try {
    run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 2;
  }
}
