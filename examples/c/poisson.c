/* Poisson's equation on the unit square, from C: poisson [POINTS-A-SIDE [METHOD [PRECONDITIONER]]]
 *
 *   ./poisson 200 cg amg            or            mpiexec -n 4 ./poisson 200 ca-gmres jacobi
 *
 * -u_xx - u_yy = f with u = 0 on the boundary; f is such that u = sin(pi x) sin(pi y). Prints the largest error of the
 * computed solution, which is of the order h^2 of the discretisation. */
#include <tacit/c/tacit.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Ends the program where a call has failed: all ranks get the same status. */
static void check(tacit_status status) {
  if (status == TACIT_OK) return;
  fprintf(stderr, "poisson: %s\n", tacit_last_error());
  exit(status);
}

int main(int argc, char** argv) {
  const int64_t n = argc > 1 ? strtol(argv[1], NULL, 10) : 200;
  const char* const method = argc > 2 ? argv[2] : "cg";
  const char* const precond = argc > 3 ? argv[3] : "amg";
  tacit_comm* comm;
  tacit_operator *A, *P;
  tacit_solver* solver;
  tacit_result* result;
  if (n < 1) return fprintf(stderr, "usage: poisson [POINTS-A-SIDE [METHOD [PRECONDITIONER]]]\n"), 2;
  check(tacit_comm_world(&comm));

  /* This rank's rows of the five-point matrix, and its part of b. */
  const int64_t rank = tacit_comm_rank(comm), ranks = tacit_comm_size(comm);
  const int64_t first = n * n * rank / ranks, rows = n * n * (rank + 1) / ranks - first;
  int64_t* const start = malloc(sizeof *start * (size_t)(rows + 1));
  int64_t* const column = malloc(sizeof *column * 5 * (size_t)rows + 1);
  double* const value = malloc(sizeof *value * 5 * (size_t)rows + 1);
  double* const b = malloc(sizeof *b * (size_t)rows + 1);
  double* const x = calloc((size_t)rows + 1, sizeof *x);
  const double h = 1.0 / (double)(n + 1), pi = acos(-1.0);
  if (!start || !column || !value || !b || !x) return fprintf(stderr, "poisson: not enough memory\n"), 5;
  start[0] = 0;
  for (int64_t k = 0, r = 0; r < rows; ++r) {
    const int64_t i = first + r, offset[5] = {-n, -1, 0, 1, n};
    const int inside[5] = {i >= n, i % n > 0, 1, i % n < n - 1, i < n * (n - 1)};
    for (int e = 0; e < 5; ++e)
      if (inside[e]) column[k] = i + offset[e], value[k++] = e == 2 ? 4 : -1;
    start[r + 1] = k;
    b[r] = 2 * pi * pi * h * h * sin(pi * h * (double)(i % n + 1)) * sin(pi * h * (double)(i / n + 1));
  }

  check(tacit_matrix(comm, TACIT_DOUBLE, (int32_t)rows, start, column, value, &A));
  check(tacit_precond(A, precond, "", &P));
  check(tacit_solver_new(method, "rtol=1e-8", &solver));
  check(tacit_solve(solver, A, P, b, x, &result));

  double error = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t i = first + r;
    const double u = sin(pi * h * (double)(i % n + 1)) * sin(pi * h * (double)(i / n + 1));
    error = fmax(error, fabs(x[r] - u));
  }
  if (rank == 0) {
    printf("%lld unknowns on %d rank(s): %s after %d iterations, %.2f s\n", (long long)(n * n), (int)ranks,
           tacit_result_reason(result), tacit_result_iterations(result), tacit_result_seconds(result));
    printf("||b - A x|| / ||b|| = %.1e (recomputed), largest error on rank 0 = %.1e\n",
           tacit_result_residual_norm(result), error);
    if (!tacit_result_converged(result)) printf("%s %s\n", tacit_result_detail(result), tacit_result_advice(result));
  }
  const int code = tacit_result_converged(result) ? 0 : 3;
  tacit_result_free(result), tacit_solver_free(solver), tacit_operator_free(P), tacit_operator_free(A);
  tacit_comm_free(comm);
  free(start), free(column), free(value), free(b), free(x);
  return code;
}
