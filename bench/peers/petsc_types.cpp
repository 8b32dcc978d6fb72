// Times of KSPSetUp() and of solves with any type of KSP, for compare_petsc_types.py: Poisson's equation by finite
// differences on the unit square or cube, whose boundary is among the points of the grid, so that PETSc's multigrid can
// coarsen it.
//
//   petsc_types -dim 3 -da_grid_x 49 -da_grid_y 49 -da_grid_z 49 -solves 3 -ksp_type cg -pc_type mg
//
// Prints a line of JSON: seconds of the set-up and of each solve, all from x = 0, and ||b - A x|| / ||b|| of the last,
// computed here.
#include <petscdm.h>
#include <petscdmda.h>
#include <petscksp.h>

// 2 dim at a point and -1 for each neighbour inside, times h^(dim - 2), which suits interpolation between grids.
static PetscErrorCode matrix(KSP ksp, Mat, Mat A, void*) {
  DM grid;
  DMDALocalInfo g;
  PetscFunctionBeginUser;
  PetscCall(KSPGetDM(ksp, &grid));
  PetscCall(DMDAGetLocalInfo(grid, &g));
  const PetscInt size[3] = {g.mx, g.my, g.mz};
  const PetscReal scale = g.dim == 3 ? 1. / PetscReal(g.mx - 1) : 1;
  for (PetscInt k = g.zs; k < g.zs + g.zm; ++k)
    for (PetscInt j = g.ys; j < g.ys + g.ym; ++j)
      for (PetscInt i = g.xs; i < g.xs + g.xm; ++i) {
        MatStencil row = {};
        row.k = k, row.j = j, row.i = i;
        MatStencil column[7];
        PetscScalar value[7];
        PetscInt count = 0;
        const PetscInt at[3] = {i, j, k};
        PetscBool inside = PETSC_TRUE;
        for (PetscInt d = 0; d < g.dim; ++d)
          if (at[d] == 0 || at[d] == size[d] - 1) inside = PETSC_FALSE;
        for (PetscInt d = 0; inside && d < g.dim; ++d)
          for (PetscInt side = -1; side <= 1; side += 2)
            if (at[d] + side > 0 && at[d] + side < size[d] - 1) {
              column[count] = row;
              if (d == 0) column[count].i += side;
              if (d == 1) column[count].j += side;
              if (d == 2) column[count].k += side;
              value[count++] = -scale;
            }
        column[count] = row, value[count++] = 2 * PetscReal(g.dim) * scale;
        PetscCall(MatSetValuesStencil(A, 1, &row, count, column, value, INSERT_VALUES));
      }
  PetscCall(MatAssemblyBegin(A, MAT_FINAL_ASSEMBLY));
  PetscCall(MatAssemblyEnd(A, MAT_FINAL_ASSEMBLY));
  PetscFunctionReturn(0);
}

int main(int argc, char** argv) {
  PetscInt dim = 2, solves = 1, iterations;
  PetscReal residual, b_norm;
  PetscLogDouble from, to;
  KSPConvergedReason reason;
  KSP ksp;
  DM grid;
  Mat A;
  Vec b, x, r;
  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, nullptr, nullptr));
  PetscCall(PetscOptionsGetInt(nullptr, nullptr, "-dim", &dim, nullptr));
  PetscCall(PetscOptionsGetInt(nullptr, nullptr, "-solves", &solves, nullptr));
  PetscCall(DMDACreate(PETSC_COMM_WORLD, &grid));
  PetscCall(DMSetDimension(grid, dim));
  PetscCall(DMDASetSizes(grid, 9, 9, dim == 3 ? 9 : 1));
  PetscCall(DMDASetDof(grid, 1));
  PetscCall(DMDASetStencilType(grid, DMDA_STENCIL_STAR));
  PetscCall(DMDASetStencilWidth(grid, 1));
  PetscCall(DMSetFromOptions(grid));
  PetscCall(DMSetUp(grid));
  PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
  PetscCall(KSPSetDM(ksp, grid));
  PetscCall(KSPSetComputeOperators(ksp, matrix, nullptr));
  PetscCall(KSPSetFromOptions(ksp));
  PetscCall(DMCreateGlobalVector(grid, &b));
  PetscCall(VecDuplicate(b, &x));
  PetscCall(VecSet(b, 1));
  PetscCall(MPI_Barrier(PETSC_COMM_WORLD));
  PetscCall(PetscTime(&from));
  PetscCall(KSPSetUp(ksp));
  PetscCall(KSPSetUpOnBlocks(ksp));
  PetscCall(MPI_Barrier(PETSC_COMM_WORLD));
  PetscCall(PetscTime(&to));
  PetscCall(PetscPrintf(PETSC_COMM_WORLD, "{\"setup\": %.7f, \"seconds\": [", to - from));
  for (PetscInt k = 0; k < solves; ++k) {
    PetscCall(MPI_Barrier(PETSC_COMM_WORLD));
    PetscCall(PetscTime(&from));
    PetscCall(KSPSolve(ksp, b, x));
    PetscCall(MPI_Barrier(PETSC_COMM_WORLD));
    PetscCall(PetscTime(&to));
    PetscCall(PetscPrintf(PETSC_COMM_WORLD, "%s%.7f", k ? ", " : "", to - from));
  }
  PetscCall(KSPGetOperators(ksp, &A, nullptr));
  PetscCall(VecDuplicate(b, &r));
  PetscCall(MatMult(A, x, r));
  PetscCall(VecAYPX(r, -1, b));
  PetscCall(VecNorm(r, NORM_2, &residual));
  PetscCall(VecNorm(b, NORM_2, &b_norm));
  PetscCall(KSPGetConvergedReason(ksp, &reason));
  PetscCall(KSPGetIterationNumber(ksp, &iterations));
  PetscCall(PetscPrintf(PETSC_COMM_WORLD, "], \"iterations\": %d, \"reason\": \"%s\", \"residual\": %.3e}\n",
                        int(iterations), KSPConvergedReasons[reason], double(residual / b_norm)));
  PetscCall(VecDestroy(&r));
  PetscCall(VecDestroy(&x));
  PetscCall(VecDestroy(&b));
  PetscCall(DMDestroy(&grid));
  PetscCall(KSPDestroy(&ksp));
  PetscCall(PetscFinalize());
  return 0;
}
