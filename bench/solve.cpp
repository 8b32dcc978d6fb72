// Time per iteration of Tacit's methods on the model problems.
//   bench_solve PROBLEM N METHOD PRECOND ITERATIONS REPEATS [csr|sell|automatic]
// b = 1, x = 0; a fixed number of iterations; one JSON line: seconds of each repeat, true residual, what was stored.
#include <tacit/comm/communicator.hpp>
#include <tacit/krylov/solve.hpp>
#include <tacit/op/csr.hpp>
#include <tacit/precond/jacobi.hpp>

#include "model_problems.hpp"

#include <cstdio>
#include <cstdlib>
#include <memory>

using namespace tacit;

int main(int argc, char** argv) {
  if (argc < 7) {
    std::fprintf(stderr, "usage: %s PROBLEM N METHOD PRECOND ITERATIONS REPEATS [csr|sell|automatic]\n", argv[0]);
    return 2;
  }
  const bench::Problem problem{argv[1], std::atoll(argv[2])};
  krylov::Options options;
  options.method = krylov::method_of(argv[3]);
  const std::string precond = argv[4], format = argc > 7 ? argv[7] : "automatic";
  options.max_iterations = std::atoi(argv[5]);
  options.rtol = 1e-300;
  options.fallbacks = false;  // the method as it stands: the same work as the peer's
  const int repeats = std::atoi(argv[6]);
  const comm::Communicator comm = comm::mpi_launched() ? comm::mpi_world() : comm::Communicator::self();
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
  const op::Csr<double> A(space, space, std::move(rows),
                          format == "csr" ? op::Format::csr : format == "sell" ? op::Format::sell : op::Format::automatic);
  std::unique_ptr<op::Operator<double>> P;
  if (precond == "jacobi") P = std::make_unique<precond::Jacobi<double>>(A);
  layout::Vector<double> b(space), x(space);
  layout::fill(b, 1.0);
  std::string seconds;
  krylov::Report report;
  for (int i = 0; i < repeats; ++i) {
    layout::fill(x, 0.0);
    (void)comm.all_sum(Global(0));
    report = krylov::solve<double, Host>(A, P.get(), b, x, options);
    seconds += (i ? "," : "") + std::to_string(report.seconds);
  }
  if (comm.rank() == 0)
    std::printf("{\"code\":\"tacit\",\"problem\":\"%s\",\"n\":%lld,\"ranks\":%d,\"method\":\"%s\",\"precond\":\"%s\",\"storage\":"
                "\"%s\",\"iterations\":%d,\"residual\":%.6e,\"recurrence_residual\":%.6e,\"reductions\":%lld,\"seconds\":[%s]}\n",
                argv[1], static_cast<long long>(problem.n), comm.size(), report.method.c_str(), precond.c_str(),
                A.storage().c_str(), report.iterations, report.residual_norm,
                report.recurrence_residual_norm,                 static_cast<long long>(report.counts.reductions), seconds.c_str());
}
