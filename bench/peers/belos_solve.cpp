// The work of bench_solve in Belos on Tpetra: belos_solve PROBLEM N SOLVER PRECOND ITERATIONS REPEATS [NAME=VALUE ...]
// SOLVER is a name of Belos ("TPETRA GMRES S-STEP"); PRECOND is none, jacobi or ilu0 (Ifpack2, one block per rank),
// applied from the right. NAME=VALUE: parameters of the solver, which are integers, true, false, or text ("Num
// Blocks=30" "Step Size=10"). Prints one JSON line like bench_solve.
#include <BelosLinearProblem.hpp>
#include <BelosSolverFactory.hpp>
#include <BelosSolverFactory_Tpetra.hpp>
#include <BelosTpetraAdapter.hpp>
#include <Ifpack2_Factory.hpp>
#include <Tpetra_Core.hpp>
#include <Tpetra_CrsMatrix.hpp>

#include "../model_problems.hpp"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

using Scalar = double;
using Vectors = Tpetra::MultiVector<Scalar>;
using Operator = Tpetra::Operator<Scalar>;
using Matrix = Tpetra::CrsMatrix<Scalar>;
using Map = Tpetra::Map<>;
using Index = Map::global_ordinal_type;

static void set(Teuchos::ParameterList& parameters, const std::string& text) {
  const auto at = text.find('=');
  const std::string name = text.substr(0, at), value = text.substr(at + 1);
  char* end = nullptr;
  const long number = std::strtol(value.c_str(), &end, 10);
  if (value == "true" || value == "false") parameters.set(name, value == "true");
  else if (end && *end == 0 && !value.empty()) parameters.set(name, int(number));
  else parameters.set(name, value);
}

int main(int argc, char** argv) {
  if (argc < 7) return 2;
  Tpetra::ScopeGuard scope(&argc, &argv);
  const auto comm = Tpetra::getDefaultComm();
  const bench::Problem problem{argv[1], std::atoll(argv[2])};
  const std::string solver = argv[3], precond = argv[4];
  const int iterations = std::atoi(argv[5]), repeats = std::atoi(argv[6]);
  const auto map = Teuchos::rcp(new Map(Tpetra::global_size_t(problem.rows()), 0, comm));
  const auto A = Teuchos::rcp(new Matrix(map, bench::Problem::most));
  std::int64_t column[bench::Problem::most];
  double value[bench::Problem::most];
  std::vector<Index> index(bench::Problem::most);
  for (std::size_t i = 0; i < map->getNodeNumElements(); ++i) {
    const Index r = map->getGlobalElement(int(i));
    const int m = problem.row(r, column, value);
    index.assign(column, column + m);
    A->insertGlobalValues(r, Teuchos::ArrayView<const Index>(index.data(), m),
                          Teuchos::ArrayView<const Scalar>(value, m));
  }
  A->fillComplete();
  const auto x = Teuchos::rcp(new Vectors(map, 1)), b = Teuchos::rcp(new Vectors(map, 1));
  Teuchos::RCP<Ifpack2::Preconditioner<Scalar>> M;
  if (precond != "none") {
    Ifpack2::Factory factory;
    Teuchos::ParameterList parameters;
    const auto rows = Teuchos::rcp_implicit_cast<const Tpetra::RowMatrix<Scalar>>(A);
    M = factory.create(precond == "ilu0" ? "RILUK" : "RELAXATION", rows);
    if (precond == "ilu0") parameters.set("fact: iluk level-of-fill", 0);
    else parameters.set("relaxation: type", "Jacobi");
    M->setParameters(parameters);
    M->initialize();
    M->compute();
  }
  std::string seconds, failure;
  int done = 0;
  for (int i = 0; i < repeats && failure.empty(); ++i) {
    x->putScalar(0);
    b->putScalar(1);
    const auto linear = Teuchos::rcp(new Belos::LinearProblem<Scalar, Vectors, Operator>(A, x, b));
    if (!M.is_null()) linear->setRightPrec(M);
    linear->setProblem();
    const auto parameters = Teuchos::parameterList();
    parameters->set("Maximum Iterations", iterations);
    parameters->set("Convergence Tolerance", 1e-30);
    for (int a = 7; a < argc; ++a) set(*parameters, argv[a]);
    try {
      Belos::SolverFactory<Scalar, Vectors, Operator> factory;
      const auto manager = factory.create(solver, parameters);
      manager->setProblem(linear);
      comm->barrier();
      const double from = MPI_Wtime();
      manager->solve();
      comm->barrier();
      if (i > 0) seconds += ",";
      seconds += std::to_string(MPI_Wtime() - from);
      done = manager->getNumIters();
    } catch (const std::exception& e) {
      failure = e.what();
      for (char& c : failure)
        if (c == '"' || c == '\n' || c == '\\') c = ' ';
    }
  }
  Vectors r(map, 1);
  b->putScalar(1);
  A->apply(*x, r);
  r.update(1, *b, -1);
  Teuchos::Array<double> r_norm(1), b_norm(1);
  r.norm2(r_norm());
  b->norm2(b_norm());
  if (comm->getRank() == 0)
    std::printf(
        "{\"code\":\"belos\",\"problem\":\"%s\",\"n\":%lld,\"ranks\":%d,\"method\":\"%s\",\"precond\":\"%s\","
        "\"storage\":\"crs\",\"iterations\":%d,\"residual\":%.6e,\"failure\":\"%s\",\"seconds\":[%s]}\n",
        argv[1], static_cast<long long>(problem.n), comm->getSize(), solver.c_str(), precond.c_str(), done,
        r_norm[0] / b_norm[0], failure.substr(0, 200).c_str(), seconds.c_str());
}
