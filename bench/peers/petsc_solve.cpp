// The work of bench_solve in PETSc: petsc_solve PROBLEM N KSP PC ITERATIONS[,ITERATIONS...] REPEATS [PETSc options]
// Prints a JSON line for each number of iterations like bench_solve; KSP "product": products only. PETSc options may
// select its best settings (-mat_type baij ...).
#include <petscksp.h>

#include "../model_problems.hpp"

#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  PetscInitialize(&argc, &argv, nullptr, nullptr);
  if (argc < 7) return 2;
  const bench::Problem problem{argv[1], std::atoll(argv[2])};
  std::vector<PetscInt> iterations;
  std::istringstream numbers(argv[5]);
  for (std::string one; std::getline(numbers, one, ',');) iterations.push_back(std::atoi(one.c_str()));
  const int repeats = std::atoi(argv[6]);
  constexpr PetscInt most = bench::Problem::most;
  const PetscInt block = problem.unknowns();
  PetscInt nodes = PetscInt(problem.rows()) / block, local = PETSC_DECIDE, begin, end;
  PetscSplitOwnership(PETSC_COMM_WORLD, &local, &nodes);
  local *= block;
  Mat A;
  MatCreate(PETSC_COMM_WORLD, &A);
  MatSetSizes(A, local, local, nodes * block, nodes * block);
  MatSetBlockSize(A, block);
  MatSetType(A, MATAIJ);
  MatSetFromOptions(A);
  MatSeqAIJSetPreallocation(A, most, nullptr);
  MatMPIAIJSetPreallocation(A, most, nullptr, most, nullptr);
  MatSeqBAIJSetPreallocation(A, block, most / block, nullptr);
  MatMPIBAIJSetPreallocation(A, block, most / block, nullptr, most / block, nullptr);
  MatSeqSELLSetPreallocation(A, most, nullptr);
  MatMPISELLSetPreallocation(A, most, nullptr, most, nullptr);
  MatGetOwnershipRange(A, &begin, &end);
  std::int64_t column[most];
  double value[most];
  PetscInt index[most];
  for (PetscInt r = begin; r < end; ++r) {
    const int m = problem.row(r, column, value);
    for (int i = 0; i < m; ++i) index[i] = PetscInt(column[i]);
    MatSetValues(A, 1, &r, m, index, value, INSERT_VALUES);
  }
  MatAssemblyBegin(A, MAT_FINAL_ASSEMBLY);
  MatAssemblyEnd(A, MAT_FINAL_ASSEMBLY);
  Vec x, b, r;
  MatCreateVecs(A, &x, &b);
  VecDuplicate(b, &r);
  VecSet(b, 1.0);
  const bool product = std::string(argv[3]) == "product";
  KSP ksp;
  PC pc;
  KSPCreate(PETSC_COMM_WORLD, &ksp);
  if (product) {
    for (PetscInt r = begin; r < end; ++r) VecSetValue(x, r, 1 + double(r % 7), INSERT_VALUES);
    VecAssemblyBegin(x);
    VecAssemblyEnd(x);
  } else {
    KSPSetOperators(ksp, A, A);
    KSPSetType(ksp, argv[3]);
    KSPGetPC(ksp, &pc);
    PCSetType(pc, argv[4]);
    KSPSetFromOptions(ksp);
    KSPSetUp(ksp);
  }
  PetscMPIInt ranks;
  MPI_Comm_size(PETSC_COMM_WORLD, &ranks);
  MatType type;
  MatGetType(A, &type);
  PetscReal b_norm = 1;
  if (!product) VecNorm(b, NORM_2, &b_norm);
  struct Result {
    std::string seconds;
    PetscInt done;
    PetscReal residual;
  };
  std::vector<Result> results(iterations.size());
  for (int i = 0; i < repeats; ++i)
    for (std::size_t k = 0; k < iterations.size(); ++k) {
      auto& result = results[k];
      if (!product) {
        KSPSetTolerances(ksp, 1e-300, 1e-300, 1e300, iterations[k]);
        VecSet(x, 0);
      }
      MPI_Barrier(PETSC_COMM_WORLD);
      const double from = MPI_Wtime();
      if (!product) KSPSolve(ksp, b, x);
      for (result.done = 0; product && result.done < iterations[k]; ++result.done) MatMult(A, x, r);
      MPI_Barrier(PETSC_COMM_WORLD);
      result.seconds += (i > 0 ? "," : "") + bench::seconds(MPI_Wtime() - from);
      if (!product) {
        KSPGetIterationNumber(ksp, &result.done);
        MatMult(A, x, r);
        VecAYPX(r, -1, b);
      }
      VecNorm(r, NORM_2, &result.residual);
    }
  for (const auto& result : results)
    PetscPrintf(
        PETSC_COMM_WORLD,
        "{\"code\":\"petsc %d.%d.%d\",\"problem\":\"%s\",\"n\":%lld,\"ranks\":%d,\"method\":\"%s\",\"precond\":\"%s\","
        "\"storage\":\"%s\",\"iterations\":%d,\"residual\":%.15e,\"seconds\":[%s]}\n",
        PETSC_VERSION_MAJOR, PETSC_VERSION_MINOR, PETSC_VERSION_SUBMINOR, argv[1], static_cast<long long>(problem.n),
        int(ranks), argv[3], argv[4], type, int(result.done), double(result.residual / b_norm), result.seconds.c_str());
  PetscFinalize();
}
