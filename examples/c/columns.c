/* Several right-hand sides at once, and JSON in and out: columns [REQUEST [COLUMNS]]
 *
 *   ./columns '{"method": "block-cg", "precond": "jacobi"}' 8
 *
 * A chain of springs held at both ends; column c of b pulls at it with c + 1 waves. Prints the result. */
#include <tacit/c/tacit.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void check(tacit_status status) {
  if (status == TACIT_OK) return;
  fprintf(stderr, "columns: %s\n", tacit_last_error());
  exit(status);
}

int main(int argc, char** argv) {
  const char* request =
      "{\"method\": \"ca-gmres\", \"step\": 4, \"precond\": {\"name\": \"amg\", \"smoother\": \"chebyshev\"}}";
  enum { n = 1000 };
  const int32_t columns = argc > 2 ? atoi(argv[2]) : 3;
  tacit_comm* comm;
  tacit_operator* A;
  tacit_result* result;
  int64_t start[n + 1] = {0}, column[3 * n];
  double value[3 * n];
  if (argc > 1) request = argv[1];
  check(tacit_comm_world(&comm));
  const int rank = tacit_comm_rank(comm), ranks = tacit_comm_size(comm);
  const int first = n * rank / ranks, rows = n * (rank + 1) / ranks - first;
  double* const b = malloc(sizeof *b * (size_t)(rows + 1) * (size_t)(columns > 0 ? columns : 1));
  double* const x = calloc((size_t)(rows + 1) * (size_t)(columns > 0 ? columns : 1), sizeof *x);
  if (!b || !x) return fprintf(stderr, "columns: not enough memory\n"), 5;
  for (int r = 0, k = 0; r < rows; ++r) {
    for (int j = first + r - 1; j <= first + r + 1; ++j)
      if (j >= 0 && j < n) column[k] = j, value[k++] = j == first + r ? 2 : -1;
    start[r + 1] = k;
    for (int c = 0; c < columns; ++c) b[c * rows + r] = sin(6.28 * (c + 1) * (first + r) / n);
  }

  check(tacit_matrix(comm, TACIT_DOUBLE, rows, start, column, value, &A));
  check(tacit_solve_json(A, request, columns, b, x, &result));
  if (rank == 0) printf("%s\n", tacit_result_json(result));

  const int code = tacit_result_converged(result) ? 0 : 3;
  tacit_result_free(result), tacit_operator_free(A), tacit_comm_free(comm);
  free(b), free(x);
  return code;
}
