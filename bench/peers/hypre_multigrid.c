/* The periodic Helmholtz problem of bench_multigrid in hypre: PFMG alone, or CG preconditioned by one PFMG cycle.
 *
 *   hypre_multigrid N REPEAT pfmg|cg RELAX RTOL constant|stored      RELAX: 1 Jacobi, 2 red-black Gauss-Seidel
 *
 * constant: hypre knows that no coefficient varies (HYPRE_StructMatrixSetConstantEntries) and stores four numbers;
 * stored: four numbers for every cell. Ranks are cut along the third axis. Prints one JSON line as petsc_multigrid
 * does. */
#include <HYPRE_struct_ls.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double wave(double t) {
  return fabs(4 * (t - floor(t)) - 2) - 1;
}

int main(int count, char** words) {
  MPI_Init(&count, &words);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int n = count > 1 ? atoi(words[1]) : 128, repeat = count > 2 ? atoi(words[2]) : 3;
  const int cg = count > 3 && !strcmp(words[3], "cg"), relax = count > 4 ? atoi(words[4]) : 2;
  const double rtol = count > 5 ? atof(words[5]) : 1e-10, h = 1.0 / n;
  const int constant = count > 6 && !strcmp(words[6], "constant");
  int low[3] = {0, 0, (int)((long)n * rank / ranks)}, high[3] = {n - 1, n - 1, (int)((long)n * (rank + 1) / ranks) - 1};
  int period[3] = {n, n, n}, offsets[4][3] = {{0, 0, 0}, {-1, 0, 0}, {0, -1, 0}, {0, 0, -1}}, entries[4] = {0, 1, 2, 3};
  const long cells = (long)n * n * (high[2] - low[2] + 1);

  /* The coefficients, which an application has before it calls hypre. */
  double* values = malloc(4 * cells * sizeof(double));
  for (long i = 0; i < cells; ++i) {
    values[4 * i] = 0.9 + 6 * 0.9 / (h * h);
    values[4 * i + 1] = values[4 * i + 2] = values[4 * i + 3] = -0.9 / (h * h);
  }
  HYPRE_StructGrid grid;
  HYPRE_StructStencil stencil;
  HYPRE_StructMatrix A;
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  HYPRE_StructGridCreate(MPI_COMM_WORLD, 3, &grid);
  HYPRE_StructGridSetExtents(grid, low, high);
  HYPRE_StructGridSetPeriodic(grid, period);
  HYPRE_StructGridAssemble(grid);
  HYPRE_StructStencilCreate(3, 4, &stencil);
  for (int e = 0; e < 4; ++e) HYPRE_StructStencilSetElement(stencil, e, offsets[e]);
  HYPRE_StructMatrixCreate(MPI_COMM_WORLD, grid, stencil, &A);
  HYPRE_StructMatrixSetSymmetric(A, 1);
  if (constant) HYPRE_StructMatrixSetConstantEntries(A, 4, entries);
  HYPRE_StructMatrixInitialize(A);
  if (constant) HYPRE_StructMatrixSetConstantValues(A, 4, entries, values);
  else HYPRE_StructMatrixSetBoxValues(A, low, high, 4, entries, values);
  HYPRE_StructMatrixAssemble(A);
  double setup = MPI_Wtime() - begin;
  HYPRE_StructVector f, x, left;
  HYPRE_StructVector* all[3] = {&f, &x, &left};
  for (int v = 0; v < 3; ++v)
    HYPRE_StructVectorCreate(MPI_COMM_WORLD, grid, all[v]), HYPRE_StructVectorInitialize(*all[v]);
  long at = 0;
  double size = 0;
  for (int k = low[2]; k <= high[2]; ++k)
    for (int j = 0; j < n; ++j)
      for (int i = 0; i < n; ++i, ++at) {
        values[at] = wave((i + .5) * h + .25) * wave((j + .5) * h + .25) * wave((k + .5) * h + .25);
        size = fmax(size, fabs(values[at]));
      }
  HYPRE_StructVectorSetBoxValues(f, low, high, values);
  for (int v = 0; v < 3; ++v) HYPRE_StructVectorAssemble(*all[v]);

  HYPRE_StructSolver multigrid, krylov;
  MPI_Barrier(MPI_COMM_WORLD);
  const double made = MPI_Wtime();
  HYPRE_StructPFMGCreate(MPI_COMM_WORLD, &multigrid);
  HYPRE_StructPFMGSetTol(multigrid, cg ? 0 : rtol);
  HYPRE_StructPFMGSetMaxIter(multigrid, cg ? 1 : 200);
  HYPRE_StructPFMGSetRelaxType(multigrid, relax);
  HYPRE_StructPFMGSetSkipRelax(multigrid, 1);
  HYPRE_StructPFMGSetRAPType(multigrid, 1);
  if (cg) {
    HYPRE_StructPFMGSetZeroGuess(multigrid);
    HYPRE_StructPCGCreate(MPI_COMM_WORLD, &krylov);
    HYPRE_StructPCGSetTol(krylov, rtol);
    HYPRE_StructPCGSetMaxIter(krylov, 200);
    HYPRE_StructPCGSetTwoNorm(krylov, 1);
    HYPRE_StructPCGSetPrecond(krylov, HYPRE_StructPFMGSolve, HYPRE_StructPFMGSetup, multigrid);
    HYPRE_StructPCGSetup(krylov, A, f, x);
  } else {
    HYPRE_StructPFMGSetup(multigrid, A, f, x);
  }
  setup += MPI_Wtime() - made;
  double best = 1e9;
  HYPRE_Int iterations = 0;
  for (int r = 0; r < repeat; ++r) {
    HYPRE_StructVectorSetConstantValues(x, 0.0);
    MPI_Barrier(MPI_COMM_WORLD);
    const double from = MPI_Wtime();
    if (cg) HYPRE_StructPCGSolve(krylov, A, f, x), HYPRE_StructPCGGetNumIterations(krylov, &iterations);
    else HYPRE_StructPFMGSolve(multigrid, A, f, x), HYPRE_StructPFMGGetNumIterations(multigrid, &iterations);
    best = fmin(best, MPI_Wtime() - from);
  }
  HYPRE_StructVectorGetBoxValues(f, low, high, values);
  HYPRE_StructVectorSetBoxValues(left, low, high, values);
  HYPRE_StructMatrixMatvec(-1.0, A, x, 1.0, left);
  HYPRE_StructVectorGetBoxValues(left, low, high, values);
  double both[3] = {0, size, setup}, most[3];
  for (long i = 0; i < cells; ++i) both[0] = fmax(both[0], fabs(values[i]));
  MPI_Allreduce(both, most, 3, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  if (rank == 0)
    printf("{\"setup\": %.6f, \"seconds\": %.6f, \"iterations\": %d, \"residual\": %.3e}\n", most[2], best,
           (int)iterations, most[0] / most[1]);
  free(values);
  MPI_Finalize();
  return 0;
}
