// The same work in PETSc: petsc_solve PROBLEM N KSP PC ITERATIONS REPEATS [PETSc options]
// One JSON line as bench_solve prints it. Extra options let PETSc be set up as well as one can (-mat_type aijsell ...).
#include <petscksp.h>

#include "../model_problems.hpp"

#include <cstdlib>

int main(int argc, char** argv) {
  PetscInitialize(&argc, &argv, nullptr, nullptr);
  if (argc < 7) return 2;
  const bench::Problem problem{argv[1], std::atoll(argv[2])};
  const PetscInt iterations = std::atoi(argv[5]);
  const int repeats = std::atoi(argv[6]);
  constexpr PetscInt most = bench::Problem::most;
  PetscInt total = PetscInt(problem.rows()), local = PETSC_DECIDE, begin, end;
  PetscSplitOwnership(PETSC_COMM_WORLD, &local, &total);
  Mat A;
  MatCreate(PETSC_COMM_WORLD, &A);
  MatSetSizes(A, local, local, total, total);
  MatSetType(A, MATAIJ);
  MatSetFromOptions(A);
  MatSeqAIJSetPreallocation(A, most, nullptr);
  MatMPIAIJSetPreallocation(A, most, nullptr, most, nullptr);
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
  KSP ksp;
  PC pc;
  KSPCreate(PETSC_COMM_WORLD, &ksp);
  KSPSetOperators(ksp, A, A);
  KSPSetType(ksp, argv[3]);
  KSPGetPC(ksp, &pc);
  PCSetType(pc, argv[4]);
  KSPSetTolerances(ksp, 1e-300, 1e-300, 1e300, iterations);
  KSPSetFromOptions(ksp);
  KSPSetUp(ksp);
  std::string seconds;
  for (int i = 0; i < repeats; ++i) {
    VecSet(x, 0);
    MPI_Barrier(PETSC_COMM_WORLD);
    const double from = MPI_Wtime();
    KSPSolve(ksp, b, x);
    MPI_Barrier(PETSC_COMM_WORLD);
    if (i > 0) seconds += ",";
    seconds += std::to_string(MPI_Wtime() - from);
  }
  PetscInt done;
  PetscReal r_norm, b_norm;
  KSPGetIterationNumber(ksp, &done);
  MatMult(A, x, r);
  VecAYPX(r, -1, b);
  VecNorm(r, NORM_2, &r_norm);
  VecNorm(b, NORM_2, &b_norm);
  PetscMPIInt ranks;
  MPI_Comm_size(PETSC_COMM_WORLD, &ranks);
  MatType type;
  MatGetType(A, &type);
  PetscPrintf(PETSC_COMM_WORLD,
              "{\"code\":\"petsc %d.%d.%d\",\"problem\":\"%s\",\"n\":%lld,\"ranks\":%d,\"method\":\"%s\",\"precond\":\"%s\","
              "\"storage\":\"%s\",\"iterations\":%d,\"residual\":%.15e,\"seconds\":[%s]}\n",
              PETSC_VERSION_MAJOR, PETSC_VERSION_MINOR, PETSC_VERSION_SUBMINOR, argv[1],
              static_cast<long long>(problem.n), int(ranks), argv[3], argv[4], type, int(done), double(r_norm / b_norm),
              seconds.c_str());
  PetscFinalize();
}
