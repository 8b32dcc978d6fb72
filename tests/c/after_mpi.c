/* Handles after MPI_Finalize(): errors where MPI would be called, and all can be freed. On any number of ranks. */
#include <mpi.h>
#include <tacit/c/tacit.h>

#include <stdio.h>
#include <string.h>

int main(int argc, char** argv) {
  tacit_comm *comm, *other = NULL;
  tacit_operator *A, *P;
  tacit_solver* solver;
  tacit_result* result;
  int rank, ranks, failed = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int64_t start[2] = {0, 1}, column[1] = {rank};
  const double value[1] = {2}, b[1] = {1};
  double x[1] = {0}, y[1];
  failed += tacit_comm_from_fortran((int)MPI_Comm_c2f(MPI_COMM_WORLD), &comm) != TACIT_OK;
  failed += tacit_matrix(comm, TACIT_DOUBLE, 1, start, column, value, &A) != TACIT_OK;
  failed += tacit_precond(A, "amg", "", &P) != TACIT_OK;
  failed += tacit_solver_new("cg", "", &solver) != TACIT_OK;
  failed += tacit_solve(solver, A, P, b, x, &result) != TACIT_OK || x[0] != 0.5;
  MPI_Finalize();
  const tacit_status needed = ranks > 1 ? TACIT_ENVIRONMENT : TACIT_OK;
  failed += tacit_solve(solver, A, P, b, x, NULL) != needed;
  failed += tacit_operator_apply(A, x, y) != needed || tacit_matrix_update(A, 1, value) != needed;
  failed += tacit_operator_null_space(A, 0, NULL) != needed;
  failed += tacit_comm_from_fortran(0, &other) != TACIT_ENVIRONMENT || !strstr(tacit_last_error(), "finalized");
  failed += tacit_comm_world(&other) != TACIT_ENVIRONMENT || other != NULL;
  failed += tacit_result_iterations(result) != 1;
  tacit_comm_free(comm), tacit_operator_free(A), tacit_operator_free(P);
  tacit_result_free(result), tacit_solver_free(solver);
  if (failed) fprintf(stderr, "after_mpi: %d faults, last error: %s\n", failed, tacit_last_error());
  return failed != 0;
}
