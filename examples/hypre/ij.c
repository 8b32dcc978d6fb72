/* A matrix of hypre's IJ interface solved by Tacit, and hypre's BoomerAMG as Tacit's preconditioner.
 *
 *   mpiexec -n 2 ./ij 100 ca-gmres
 *
 * The two functions of interest are tacit_from_ij() and boomer(); the rest makes a five-point matrix by hypre. */
#include <HYPRE.h>
#include <HYPRE_parcsr_ls.h>
#include <mpi.h>
#include <tacit/c/tacit.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(tacit_status status) {
  if (status == TACIT_OK) return;
  fprintf(stderr, "ij: %s\n", tacit_last_error());
  MPI_Abort(MPI_COMM_WORLD, status);
}
static void hypre(HYPRE_Int code) {
  if (code == 0) return;
  fprintf(stderr, "ij: hypre's error %d\n", (int)code);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

/* The rows of an assembled IJ matrix as an operator of Tacit: copied once, row by row. */
static tacit_operator* tacit_from_ij(const tacit_comm* comm, HYPRE_IJMatrix ij) {
  HYPRE_BigInt first, last, first_column, last_column;
  HYPRE_ParCSRMatrix matrix;
  hypre(HYPRE_IJMatrixGetLocalRange(ij, &first, &last, &first_column, &last_column));
  hypre(HYPRE_IJMatrixGetObject(ij, (void**)&matrix));
  const HYPRE_Int rows = (HYPRE_Int)(last - first + 1);
  int64_t *const start = malloc(sizeof *start * (size_t)(rows + 1)), *column = NULL;
  double* value = NULL;
  start[0] = 0;
  for (int pass = 0; pass < 2; ++pass) { /* counts the entries, then copies them */
    int64_t k = 0;
    for (HYPRE_Int i = 0; i < rows; ++i) {
      HYPRE_Int length;
      HYPRE_BigInt* columns;
      HYPRE_Complex* values;
      hypre(HYPRE_ParCSRMatrixGetRow(matrix, first + i, &length, &columns, &values));
      for (HYPRE_Int e = 0; e < length; ++e, ++k)
        if (pass == 1) column[k] = columns[e], value[k] = values[e];
      hypre(HYPRE_ParCSRMatrixRestoreRow(matrix, first + i, &length, &columns, &values));
      start[i + 1] = k;
    }
    if (pass == 0) column = malloc(sizeof *column * (size_t)(k + 1)), value = malloc(sizeof *value * (size_t)(k + 1));
  }
  tacit_operator* A;
  check(tacit_matrix(comm, TACIT_DOUBLE, (int32_t)rows, start, column, value, &A));
  free(start), free(column), free(value);
  return A;
}

/* A solver of hypre with its vectors, as the context of a function of Tacit. */
typedef struct boomer_context {
  HYPRE_Solver solver;
  HYPRE_ParCSRMatrix matrix;
  HYPRE_IJVector b, x;
  HYPRE_BigInt* number;
  HYPRE_Int rows;
} boomer_context;
/* y = one V-cycle of BoomerAMG for A y = x from y = 0. */
static int boomer(void* context, const void* x, void* y) {
  boomer_context* const c = context;
  HYPRE_ParVector b, u;
  HYPRE_IJVectorSetValues(c->b, c->rows, c->number, x);
  memset(y, 0, sizeof(HYPRE_Complex) * (size_t)c->rows);
  HYPRE_IJVectorSetValues(c->x, c->rows, c->number, y);
  HYPRE_IJVectorGetObject(c->b, (void**)&b);
  HYPRE_IJVectorGetObject(c->x, (void**)&u);
  HYPRE_BoomerAMGSolve(c->solver, c->matrix, b, u);
  HYPRE_ClearError(HYPRE_ERROR_CONV); /* one cycle is not meant to converge */
  HYPRE_IJVectorGetValues(c->x, c->rows, c->number, y);
  return HYPRE_GetError();
}
static HYPRE_IJVector new_vector(HYPRE_BigInt first, HYPRE_BigInt last) {
  HYPRE_IJVector v;
  hypre(HYPRE_IJVectorCreate(MPI_COMM_WORLD, first, last, &v));
  hypre(HYPRE_IJVectorSetObjectType(v, HYPRE_PARCSR));
  hypre(HYPRE_IJVectorInitialize(v));
  hypre(HYPRE_IJVectorAssemble(v));
  return v;
}

static HYPRE_IJMatrix five_point(HYPRE_BigInt n, HYPRE_BigInt first, HYPRE_BigInt last) {
  HYPRE_IJMatrix ij;
  hypre(HYPRE_IJMatrixCreate(MPI_COMM_WORLD, first, last, first, last, &ij));
  hypre(HYPRE_IJMatrixSetObjectType(ij, HYPRE_PARCSR));
  hypre(HYPRE_IJMatrixInitialize(ij));
  for (HYPRE_BigInt i = first; i <= last; ++i) {
    const HYPRE_BigInt offset[5] = {-n, -1, 0, 1, n};
    const int inside[5] = {i >= n, i % n > 0, 1, i % n < n - 1, i < n * (n - 1)};
    HYPRE_BigInt column[5];
    HYPRE_Complex value[5];
    HYPRE_Int count = 0;
    for (int e = 0; e < 5; ++e)
      if (inside[e]) column[count] = i + offset[e], value[count++] = e == 2 ? 4 : -1;
    hypre(HYPRE_IJMatrixSetValues(ij, 1, &count, &i, column, value));
  }
  hypre(HYPRE_IJMatrixAssemble(ij));
  return ij;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  HYPRE_Init();
  const HYPRE_BigInt n = argc > 1 ? atoi(argv[1]) : 100;
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const HYPRE_BigInt first = n * n * rank / ranks, last = n * n * (rank + 1) / ranks - 1;
  const HYPRE_IJMatrix ij = five_point(n, first, last);

  boomer_context c = {
      .rows = (HYPRE_Int)(last - first + 1), .b = new_vector(first, last), .x = new_vector(first, last)};
  HYPRE_ParVector b, x;
  c.number = malloc(sizeof *c.number * (size_t)(c.rows + 1));
  for (HYPRE_Int i = 0; i < c.rows; ++i) c.number[i] = first + i;
  hypre(HYPRE_IJMatrixGetObject(ij, (void**)&c.matrix));
  hypre(HYPRE_IJVectorGetObject(c.b, (void**)&b));
  hypre(HYPRE_IJVectorGetObject(c.x, (void**)&x));
  hypre(HYPRE_BoomerAMGCreate(&c.solver));
  HYPRE_BoomerAMGSetMaxIter(c.solver, 1);
  HYPRE_BoomerAMGSetTol(c.solver, 0);
  HYPRE_BoomerAMGSetRelaxType(c.solver, 6); /* symmetric, for cg */
  hypre(HYPRE_BoomerAMGSetup(c.solver, c.matrix, b, x));

  tacit_comm* comm;
  tacit_operator* P;
  tacit_solver* solver;
  tacit_result* result;
  check(tacit_comm_from_fortran((int)MPI_Comm_c2f(MPI_COMM_WORLD), &comm));
  tacit_operator* const A = tacit_from_ij(comm, ij);
  check(tacit_function(comm, TACIT_DOUBLE, (int32_t)c.rows, boomer, &c, NULL, &P));
  check(tacit_solver_new(argc > 2 ? argv[2] : "cg", "rtol=1e-8", &solver));
  double* const right = malloc(sizeof *right * (size_t)(c.rows + 1));
  double* const solution = calloc((size_t)c.rows + 1, sizeof *solution);
  for (HYPRE_Int i = 0; i < c.rows; ++i) right[i] = 1;
  check(tacit_solve(solver, A, P, right, solution, &result));
  if (rank == 0)
    printf("%lld unknowns on %d rank(s): %s after %d iterations, ||b - A x|| / ||b|| = %.1e\n", (long long)(n * n),
           ranks, tacit_result_reason(result), tacit_result_iterations(result), tacit_result_residual_norm(result));
  const int code = tacit_result_converged(result) ? 0 : 3;

  tacit_result_free(result), tacit_solver_free(solver), tacit_operator_free(P), tacit_operator_free(A);
  tacit_comm_free(comm);
  free(right), free(solution), free(c.number);
  HYPRE_BoomerAMGDestroy(c.solver);
  HYPRE_IJVectorDestroy(c.b), HYPRE_IJVectorDestroy(c.x), HYPRE_IJMatrixDestroy(ij);
  HYPRE_Finalize();
  MPI_Finalize();
  return code;
}
