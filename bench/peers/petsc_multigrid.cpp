// The periodic Helmholtz problem of bench_multigrid in PETSc: a Krylov method with geometric multigrid on a DMDA.
//
//   petsc_multigrid -n 128 -repeat 3 [PETSc options: -ksp_type cg -pc_type mg -pc_mg_levels 6 ..]
//
// Prints one JSON line: seconds of the set-up (grid, matrix, KSPSetUp) and of the best solve, iterations, and the
// recomputed residual relative to the right-hand side in the max norm.
#include <petscdmda.h>
#include <petscksp.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace {

double wave(double t) {
  return std::abs(4 * (t - std::floor(t)) - 2) - 1;
}

// Equations integrated over the cells, as PETSc's constant interpolation requires.
template <class F>
void each_cell(DM grid, F&& f) {
  DMDALocalInfo g;
  DMDAGetLocalInfo(grid, &g);
  for (PetscInt k = g.zs; k < g.zs + g.zm; ++k)
    for (PetscInt j = g.ys; j < g.ys + g.ym; ++j)
      for (PetscInt i = g.xs; i < g.xs + g.xm; ++i) f(i, j, k, 1.0 / g.mx);
}

PetscErrorCode operators(KSP ksp, Mat, Mat A, void*) {
  DM grid;
  KSPGetDM(ksp, &grid);
  each_cell(grid, [&](PetscInt i, PetscInt j, PetscInt k, double h) {
    std::array<MatStencil, 7> column;
    std::array<PetscScalar, 7> value;
    column.fill({k, j, i, 0});
    value.fill(-0.9 * h);
    column[1].i -= 1, column[2].i += 1, column[3].j -= 1, column[4].j += 1, column[5].k -= 1, column[6].k += 1;
    value[0] = 0.9 * h * h * h + 6 * 0.9 * h;
    MatSetValuesStencil(A, 1, column.data(), 7, column.data(), value.data(), INSERT_VALUES);
  });
  MatAssemblyBegin(A, MAT_FINAL_ASSEMBLY);
  return MatAssemblyEnd(A, MAT_FINAL_ASSEMBLY);
}

PetscErrorCode right_hand_side(KSP ksp, Vec f, void*) {
  DM grid;
  PetscScalar*** values;
  KSPGetDM(ksp, &grid);
  DMDAVecGetArray(grid, f, &values);
  each_cell(grid, [&](PetscInt i, PetscInt j, PetscInt k, double h) {
    values[k][j][i] = h * h * h * wave((double(i) + .5) * h + .25) * wave((double(j) + .5) * h + .25) *
                      wave((double(k) + .5) * h + .25);
  });
  return DMDAVecRestoreArray(grid, f, &values);
}

}  // namespace

int main(int count, char** words) {
  PetscInitialize(&count, &words, nullptr, nullptr);
  PetscInt n = 128, repeat = 3;
  PetscOptionsGetInt(nullptr, nullptr, "-n", &n, nullptr);
  PetscOptionsGetInt(nullptr, nullptr, "-repeat", &repeat, nullptr);
  MPI_Barrier(PETSC_COMM_WORLD);
  const double begin = MPI_Wtime();
  DM grid;
  DMDACreate3d(PETSC_COMM_WORLD, DM_BOUNDARY_PERIODIC, DM_BOUNDARY_PERIODIC, DM_BOUNDARY_PERIODIC, DMDA_STENCIL_STAR, n,
               n, n, PETSC_DECIDE, PETSC_DECIDE, PETSC_DECIDE, 1, 1, nullptr, nullptr, nullptr, &grid);
  DMDASetInterpolationType(grid, DMDA_Q0);
  DMSetFromOptions(grid);
  DMSetUp(grid);
  KSP ksp;
  KSPCreate(PETSC_COMM_WORLD, &ksp);
  KSPSetDM(ksp, grid);
  KSPSetComputeOperators(ksp, operators, nullptr);
  KSPSetComputeRHS(ksp, right_hand_side, nullptr);
  KSPSetFromOptions(ksp);
  KSPSetUp(ksp);
  MPI_Barrier(PETSC_COMM_WORLD);
  const double setup = MPI_Wtime() - begin;
  double best = 1e9;
  for (PetscInt r = 0; r < repeat; ++r) {
    MPI_Barrier(PETSC_COMM_WORLD);
    const double from = MPI_Wtime();
    KSPSolve(ksp, nullptr, nullptr);
    best = std::min(best, MPI_Wtime() - from);
  }
  Vec x, f, left;
  Mat A;
  PetscInt iterations;
  PetscReal residual, size;
  KSPGetIterationNumber(ksp, &iterations);
  KSPGetSolution(ksp, &x), KSPGetRhs(ksp, &f), KSPGetOperators(ksp, &A, nullptr);
  VecDuplicate(f, &left);
  MatMult(A, x, left);
  VecAYPX(left, -1, f);
  VecNorm(left, NORM_INFINITY, &residual), VecNorm(f, NORM_INFINITY, &size);
  PetscPrintf(PETSC_COMM_WORLD, "{\"setup\": %.6f, \"seconds\": %.6f, \"iterations\": %d, \"residual\": %.3e}\n", setup,
              best, int(iterations), double(residual / size));
  VecDestroy(&left), KSPDestroy(&ksp), DMDestroy(&grid);
  return PetscFinalize();
}
