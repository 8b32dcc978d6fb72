/* The C interface, from C: on one rank, and under mpiexec on several. */
#include <tacit/c/tacit.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures = 0;
static tacit_comm* comm;

#define CHECK(condition)                                                                                   \
  do {                                                                                                     \
    if (!(condition)) {                                                                                    \
      fprintf(stderr, "%s:%d: %s (last error: %s)\n", __FILE__, __LINE__, #condition, tacit_last_error()); \
      ++failures;                                                                                          \
    }                                                                                                      \
  } while (0)
#define OK(call) CHECK((call) == TACIT_OK)

enum { side = 24 };

/* The five-point matrix of a grid of side x side points, as this rank's rows. */
typedef struct rows {
  int32_t count, first;
  int64_t *start, *column;
  double* value;
} rows;

static rows grid(int closed) {
  const int ranks = tacit_comm_size(comm), rank = tacit_comm_rank(comm);
  const int n = side * side, first = (int)((long)n * rank / ranks), last = (int)((long)n * (rank + 1) / ranks);
  rows r = {last - first, first, malloc(sizeof(int64_t) * (size_t)(n + 1)), malloc(sizeof(int64_t) * 5 * (size_t)n),
            malloc(sizeof(double) * 5 * (size_t)n)};
  int64_t k = 0;
  r.start[0] = 0;
  for (int i = first; i < last; ++i) {
    const int inside[5] = {i >= side, i % side > 0, 1, i % side < side - 1, i < n - side};
    const int offset[5] = {-side, -1, 0, 1, side};
    int neighbours = 0;
    for (int e = 0; e < 5; ++e) neighbours += e != 2 && inside[e];
    for (int e = 0; e < 5; ++e)
      if (inside[e]) {
        r.column[k] = i + offset[e];
        r.value[k++] = e == 2 ? (closed ? neighbours : 4) : -1;
      }
    r.start[i - first + 1] = k;
  }
  return r;
}
static void free_rows(rows r) {
  free(r.start), free(r.column), free(r.value);
}
static tacit_operator* matrix_of(rows r) {
  tacit_operator* A = NULL;
  OK(tacit_matrix(comm, TACIT_DOUBLE, r.count, r.start, r.column, r.value, &A));
  return A;
}
static tacit_solver* solver_of(const char* method, const char* options) {
  tacit_solver* solver = NULL;
  OK(tacit_solver_new(method, options, &solver));
  return solver;
}
/* Whether A x is near b, by a product and a comparison of this rank's elements. */
static int solves(const tacit_operator* A, const double* b, const double* x, double tolerance) {
  const int n = tacit_operator_local_rows(A);
  double* y = malloc(sizeof(double) * (size_t)n);
  int near = tacit_operator_apply(A, x, y) == TACIT_OK;
  for (int i = 0; i < n; ++i) near = near && fabs(y[i] - b[i]) <= tolerance;
  free(y);
  return near;
}

static void test_tables(void) {
  int found = 0, i = 0;
  for (; tacit_method_name(i); ++i) found += strcmp(tacit_method_name(i), "ca-gmres") == 0;
  CHECK(found == 1 && i > 10 && tacit_method_text(0)[0] && !tacit_method_text(i) && !tacit_method_name(-1));
  for (i = found = 0; tacit_precond_name(i); ++i) found += strcmp(tacit_precond_name(i), "amg") == 0;
  CHECK(found == 1 && !tacit_precond_text(i));
  CHECK(tacit_version()[0] == '0' && tacit_version()[1] == '.');
}

static void test_every_method_solves(void) {
  const rows r = grid(0);
  tacit_operator *A = matrix_of(r), *P = NULL;
  double b[side * side], x[side * side];
  CHECK(tacit_operator_local_rows(A) == r.count && tacit_operator_rows(A) == side * side);
  OK(tacit_precond(A, "jacobi", "", &P));
  for (int m = 0; tacit_method_name(m); ++m) {
    const char* const name = tacit_method_name(m);
    const int direct = strcmp(name, "direct") == 0;
    tacit_solver* solver = solver_of(name, "rtol=1e-7, max_iterations=5000");
    tacit_result* result = NULL;
    for (int i = 0; i < r.count; ++i) b[i] = sin(1 + r.first + i), x[i] = 0;
    OK(tacit_solve(solver, A, direct ? NULL : P, b, x, &result));
    CHECK(tacit_result_converged(result) && strcmp(tacit_result_reason(result), "converged") == 0);
    CHECK(tacit_result_residual_norm(result) <= 1e-7 && solves(A, b, x, 1e-5));
    CHECK(tacit_result_products(result) > 0 && tacit_result_seconds(result) > 0 && tacit_result_b_norm(result) > 1);
    CHECK(tacit_result_method(result)[0] && !tacit_result_warning(result, 1000));
    int count = 0;
    const double* history = tacit_result_history(result, &count);
    CHECK(direct || (history && count == tacit_result_iterations(result) + 1 && history[0] == 1));
    tacit_result_free(result), tacit_solver_free(solver);
  }
  tacit_operator_free(A), tacit_operator_free(P), free_rows(r);
}

static void test_preconditioners_keep_the_matrix(void) {
  const rows r = grid(0);
  tacit_operator *A = matrix_of(r), *A2 = matrix_of(r), *P = NULL;
  tacit_result* result = NULL;
  tacit_solver* solver = solver_of("cg", NULL);
  double b[side * side], x[side * side];
  for (int i = 0; i < r.count; ++i) b[i] = 1, x[i] = 0;
  OK(tacit_precond(A, "polynomial", "degree=4", &P));
  tacit_operator_free(A);
  OK(tacit_solve(solver, A2, P, b, x, &result));
  CHECK(tacit_result_converged(result) && solves(A2, b, x, 1e-5));
  CHECK(tacit_result_precond_applies(result) > 0 && strstr(tacit_result_precond(result), "polynomial"));
  tacit_result_free(result), tacit_operator_free(P);
  OK(tacit_precond(A2, "none", "", &P));
  CHECK(!P);
  tacit_operator_free(A2), tacit_solver_free(solver), free_rows(r);
}

static void test_new_numbers(void) {
  const rows r = grid(0);
  tacit_operator* A = matrix_of(r);
  tacit_solver* solver = solver_of("cg", "rtol=1e-10");
  double b[side * side], x[side * side], half[side * side];
  for (int i = 0; i < r.count; ++i) b[i] = 1, x[i] = half[i] = 0;
  OK(tacit_solve(solver, A, NULL, b, x, NULL));
  for (int64_t k = 0; k < r.start[r.count]; ++k) r.value[k] *= 2;
  OK(tacit_matrix_update(A, r.start[r.count], r.value));
  OK(tacit_solve(solver, A, NULL, b, half, NULL));
  for (int i = 0; i < r.count; ++i) CHECK(fabs(x[i] - 2 * half[i]) < 1e-6 * fabs(x[i]));
  CHECK(tacit_matrix_update(A, 1, r.value) == TACIT_USAGE && strstr(tacit_last_error(), "1 values"));
  tacit_operator_free(A), tacit_solver_free(solver), free_rows(r);
}

static void test_by_trial(void) {
  const rows r = grid(0);
  tacit_operator* A = matrix_of(r);
  tacit_solver* solver = solver_of("auto", "");
  double b[side * side], x[side * side];
  for (int again = 0; again < 2; ++again) {
    tacit_result* result = NULL;
    for (int i = 0; i < r.count; ++i) b[i] = again + cos(i), x[i] = 0;
    OK(tacit_solve_automatic(solver, A, b, x, &result));
    CHECK(tacit_result_converged(result) && solves(A, b, x, 1e-5) && tacit_result_choice(result)[0]);
    tacit_result_free(result);
  }
  tacit_operator_free(A), tacit_solver_free(solver), free_rows(r);
}

/* A matrix as a function; `fails` returns 7 at the second call on the last rank. */
typedef struct product {
  const tacit_operator* of;
  int calls, fails;
} product;
static int multiply(void* context, const void* x, void* y) {
  product* const p = context;
  const int last = tacit_comm_rank(comm) == tacit_comm_size(comm) - 1;
  if (++p->calls > 1 && p->fails && last) return 7;
  return p->fails ? (memcpy(y, x, sizeof(double) * (size_t)tacit_operator_local_rows(p->of)), 0)
                  : tacit_operator_apply(p->of, x, y) != TACIT_OK;
}
static int stop_after_three(void* context, int iteration, double residual_norm) {
  *(int*)context = residual_norm > 0 ? iteration : -1;
  return iteration >= 3;
}

static void test_functions_and_monitors(void) {
  const rows r = grid(0);
  tacit_operator *A = matrix_of(r), *F = NULL;
  tacit_solver* solver = solver_of("gmres", "restart=40 rtol=1e-8");
  tacit_result* result = NULL;
  product p = {A, 0, 0};
  double b[side * side], x[side * side];
  int seen = 0;
  for (int i = 0; i < r.count; ++i) b[i] = 1 + i % 3, x[i] = 0;
  OK(tacit_function(comm, TACIT_DOUBLE, r.count, multiply, &p, NULL, &F));
  OK(tacit_solve(solver, F, NULL, b, x, &result));
  CHECK(tacit_result_converged(result) && solves(A, b, x, 1e-5) && p.calls > 10);
  tacit_result_free(result);
  CHECK(tacit_precond(F, "amg", "", &A) == TACIT_USAGE && strstr(tacit_last_error(), "stored matrix"));

  OK(tacit_solver_monitor(solver, stop_after_three, &seen));
  for (int i = 0; i < r.count; ++i) x[i] = 0;
  OK(tacit_solve(solver, F, NULL, b, x, &result));
  CHECK(seen == 3 && strcmp(tacit_result_reason(result), "stopped") == 0 && !tacit_result_converged(result));
  tacit_result_free(result);
  OK(tacit_solver_monitor(solver, NULL, NULL));

  p.fails = 1, p.calls = 0;
  result = NULL;
  CHECK(tacit_solve(solver, F, NULL, b, x, &result) == TACIT_INPUT && strstr(tacit_last_error(), "returned 7"));
  CHECK(!result);
  tacit_operator_free(F), tacit_operator_free(A), tacit_solver_free(solver), free_rows(r);
}

static void test_null_spaces(void) {
  const rows r = grid(1);
  tacit_operator* A = matrix_of(r);
  tacit_solver* solver = solver_of("cg", "");
  tacit_result* result = NULL;
  double b[side * side], x[side * side], ones[side * side];
  for (int i = 0; i < r.count; ++i) b[i] = 3 + sin(r.first + i), x[i] = 0, ones[i] = 1;
  for (int given = 0; given < 2; ++given) {
    OK(tacit_operator_null_space(A, 1, given ? ones : NULL));
    OK(tacit_solve(solver, A, NULL, b, x, &result));
    CHECK(tacit_result_converged(result));
    tacit_result_free(result);
  }
  for (int i = 0; i < r.count; ++i) ones[i] = r.first + i;
  OK(tacit_operator_null_space(A, 1, ones));
  CHECK(tacit_solve(solver, A, NULL, b, x, &result) == TACIT_USAGE);
  OK(tacit_operator_null_space(A, 0, NULL));
  tacit_operator_free(A), tacit_solver_free(solver), free_rows(r);
}

static void test_other_scalars(void) {
  const rows r = grid(0);
  const size_t entries = (size_t)r.start[r.count];
  float *single = malloc(sizeof(float) * entries), *pairs = malloc(2 * sizeof(float) * entries);
  double* complex_value = malloc(2 * sizeof(double) * entries);
  for (size_t k = 0; k < entries; ++k) {
    single[k] = (float)r.value[k];
    pairs[2 * k] = single[k], pairs[2 * k + 1] = 0;
    complex_value[2 * k] = 0, complex_value[2 * k + 1] = r.value[k]; /* i A: not Hermitian */
  }
  const struct {
    tacit_scalar scalar;
    const void* value;
  } all[] = {{TACIT_FLOAT, single}, {TACIT_COMPLEX_FLOAT, pairs}, {TACIT_COMPLEX_DOUBLE, complex_value}};
  for (int s = 0; s < 3; ++s) {
    tacit_operator *A = NULL, *P = NULL;
    tacit_solver* solver = solver_of("auto", "");
    tacit_result* result = NULL;
    double b[2 * side * side] = {0}, x[2 * side * side] = {0}; /* large enough for all */
    if (all[s].scalar == TACIT_COMPLEX_DOUBLE)
      for (int i = 0; i < 2 * r.count; ++i) b[i] = sin(i);
    else
      for (int i = 0; i < r.count * (s + 1); ++i) ((float*)b)[i] = (float)sin(i);
    OK(tacit_matrix(comm, all[s].scalar, r.count, r.start, r.column, all[s].value, &A));
    OK(tacit_precond(A, "jacobi", "", &P));
    OK(tacit_solve(solver, A, P, b, x, &result));
    CHECK(tacit_result_converged(result));
    CHECK(strcmp(tacit_result_method(result), s < 2 ? "cg" : "gmres") == 0);
    tacit_result_free(result), tacit_operator_free(A), tacit_operator_free(P), tacit_solver_free(solver);
  }
  free(single), free(pairs), free(complex_value), free_rows(r);
}

static void test_wrong_use(void) {
  rows r = grid(0);
  tacit_solver* solver = NULL;
  tacit_operator *A = NULL, *P = NULL;
  double b[side * side] = {0};
  const int last = tacit_comm_rank(comm) == tacit_comm_size(comm) - 1;
  CHECK(tacit_solver_new("gmrse", "", &solver) == TACIT_USAGE && strstr(tacit_last_error(), "did you mean \"gmres\""));
  CHECK(tacit_solver_new("cg", "step=4", &solver) == TACIT_USAGE && strstr(tacit_last_error(), "ca-cg"));
  CHECK(tacit_solver_new("ca-cg", "stp=4", &solver) == TACIT_USAGE && strstr(tacit_last_error(), "\"step\""));
  CHECK(tacit_solver_new("ca-cg", "step", &solver) == TACIT_USAGE && strstr(tacit_last_error(), "name=value"));
  CHECK(tacit_solver_new("ca-cg", "step=0", &solver) == TACIT_USAGE && strstr(tacit_last_error(), "from 1 to 1000"));
  CHECK(tacit_solver_new(NULL, "", &solver) == TACIT_USAGE && strstr(tacit_last_error(), "method is null"));
  CHECK(!solver);
  OK(tacit_solver_new("ca-cg", "", &solver));
  CHECK(tacit_solver_set(solver, "step", "four") == TACIT_USAGE);
  OK(tacit_solver_set(solver, "step", "4"));
  CHECK(tacit_solve(solver, NULL, NULL, b, b, NULL) == TACIT_USAGE);

  /* Faults of the last rank only: all ranks get the error. */
  const int64_t kept = r.column[0];
  if (last) r.column[0] = side * side;
  CHECK(tacit_matrix(comm, TACIT_DOUBLE, r.count, r.start, r.column, r.value, &A) == TACIT_USAGE);
  r.column[0] = kept;
  CHECK(tacit_matrix(comm, TACIT_DOUBLE, r.count, last ? NULL : r.start, r.column, r.value, &A) == TACIT_USAGE);
  CHECK(strstr(tacit_last_error(), "start is null") && !A);
  CHECK(tacit_matrix(comm, (tacit_scalar)9, r.count, r.start, r.column, r.value, &A) == TACIT_USAGE);
  OK(tacit_matrix(comm, TACIT_DOUBLE, r.count, r.start, r.column, r.value, &A));
  CHECK(tacit_solve(solver, A, NULL, last ? NULL : b, b, NULL) == TACIT_USAGE &&
        strstr(tacit_last_error(), "b is null"));
  CHECK(tacit_precond(A, "agm", "", &P) == TACIT_USAGE && strstr(tacit_last_error(), "\"amg\""));
  CHECK(tacit_precond(A, "amg", "smoother=none", &P) == TACIT_USAGE && strstr(tacit_last_error(), "chebyshev"));
  tacit_operator_free(A), tacit_operator_free(NULL), tacit_solver_free(solver), free_rows(r);
}

static void test_columns(void) {
  enum { columns = 3 };
  const rows r = grid(0);
  tacit_operator *A = matrix_of(r), *P = NULL, *F = NULL;
  double b[columns * side * side], x[columns * side * side];
  product p = {A, 0, 0};
  OK(tacit_precond(A, "jacobi", "", &P));
  OK(tacit_function(comm, TACIT_DOUBLE, r.count, multiply, &p, NULL, &F));
  const struct {
    const char* method;
    const tacit_operator *A, *P;
  } all[] = {{"cg", A, P}, {"block-cg", A, P}, {"gmres", A, NULL}, {"direct", A, NULL}, {"cg", F, P}};
  for (int m = 0; m < 5; ++m) {
    tacit_solver* solver = solver_of(all[m].method, "rtol=1e-9");
    tacit_result* result = NULL;
    for (int c = 0; c < columns; ++c)
      for (int i = 0; i < r.count; ++i)
        b[c * r.count + i] = c == 0 ? 0 : sin(c * (r.first + i)), x[c * r.count + i] = 0;
    OK(tacit_solve_columns(solver, all[m].A, all[m].P, columns, b, x, &result));
    CHECK(tacit_result_converged(result) && tacit_result_columns(result) == columns);
    int most = 0;
    for (int c = 0; c < columns; ++c) {
      const tacit_result* one = tacit_result_column(result, c);
      CHECK(tacit_result_converged(one) && tacit_result_residual_norm(one) <= 1e-9);
      CHECK(solves(A, b + c * r.count, x + c * r.count, 1e-6));
      most = tacit_result_iterations(one) > most ? tacit_result_iterations(one) : most;
    }
    CHECK(tacit_result_iterations(tacit_result_column(result, 0)) == 0); /* b = 0 */
    CHECK(tacit_result_iterations(result) == most && !tacit_result_column(result, columns));
    CHECK(strstr(tacit_result_json(result), "\"columns\": [{\"method\": "));
    tacit_result_free((tacit_result*)tacit_result_column(result, 1)); /* an error, and nothing is freed */
    CHECK(strstr(tacit_last_error(), "column") && tacit_result_iterations(tacit_result_column(result, 1)) >= 0);
    tacit_result_free(result), tacit_solver_free(solver);
  }
  tacit_solver* solver = solver_of("cg", "max_iterations=3");
  tacit_result* result = NULL;
  memset(x, 0, sizeof x);
  OK(tacit_solve_columns(solver, A, NULL, columns, b, x, &result));
  CHECK(!tacit_result_converged(result) && strcmp(tacit_result_reason(result), "max_iterations") == 0);
  CHECK(tacit_result_converged(tacit_result_column(result, 0)));
  tacit_result_free(result);
  CHECK(tacit_solve_columns(solver, A, P, 0, b, x, NULL) == TACIT_USAGE);
  CHECK(tacit_solve_columns(solver, A, P, -2, b, x, NULL) == TACIT_USAGE && strstr(tacit_last_error(), "-2"));
  CHECK(tacit_solve_columns(solver, A, P, 2, NULL, x, NULL) == TACIT_USAGE);
  tacit_solver_free(solver);
  tacit_operator_free(A), tacit_operator_free(P), tacit_operator_free(F), free_rows(r);
}

/* The straight line through points (i, y_i), on all ranks: m rows of (1, i), and two unknowns, both of the last rank.
 */
static void test_least_squares(void) {
  enum { m = 50, columns = 2 };
  const int ranks = tacit_comm_size(comm), rank = tacit_comm_rank(comm), last = rank == ranks - 1;
  const int first = m * rank / ranks, count = m * (rank + 1) / ranks - first, own = last ? 2 : 0;
  int64_t start[m + 1], column[2 * m];
  double value[2 * m], b[columns * m], x[columns * 2] = {0}, y[m];
  for (int i = 0; i < count; ++i) {
    start[i] = 2 * i, column[2 * i] = 0, column[2 * i + 1] = 1, value[2 * i] = 1, value[2 * i + 1] = first + i;
    b[i] = 3 + 0.5 * (first + i);                           /* a line */
    b[count + i] = 3 + 0.5 * (first + i) + (i + first) % 2; /* and one with a kink at every point */
  }
  start[count] = 2 * count;
  tacit_operator *A = NULL, *P = NULL;
  tacit_result* result = NULL;
  OK(tacit_rectangular_matrix(comm, TACIT_DOUBLE, count, own, start, column, value, &A));
  CHECK(tacit_operator_rows(A) == m && tacit_operator_local_rows(A) == count);
  for (int jacobi = 0; jacobi < 2; ++jacobi) {
    memset(x, 0, sizeof x);
    OK(tacit_least_squares(A, jacobi ? "{\"method\": \"lsqr\", \"precond\": \"jacobi\"}" : "atol=1e-12 btol=1e-12",
                           columns, b, x, &result));
    CHECK(tacit_result_converged(result) && tacit_result_columns(result) == columns);
    CHECK(strcmp(tacit_result_met(result), "gradient") == 0 &&
          tacit_result_gradient_norm(tacit_result_column(result, 1)) <= 1e-8);
    CHECK(strcmp(tacit_result_met(tacit_result_column(result, 0)), "residual") == 0);
    CHECK(strstr(tacit_result_json(result), "\"met\": \"gradient\"") &&
          strstr(tacit_result_json(result), "\"columns\": ["));
    CHECK(strstr(tacit_result_precond(result), "none") == NULL || !jacobi);
    if (last) {
      CHECK(fabs(x[0] - 3) < 1e-6 && fabs(x[1] - 0.5) < 1e-7);
      /* By the normal equations: the kinks add 0.5 on average, and little to the slope. */
      const double slope = 0.5 + 150. / (m * (m * m - 1.)), height = 3.5 - (slope - 0.5) * (m - 1) / 2;
      CHECK(fabs(x[2] - height) < 1e-6 && fabs(x[3] - slope) < 1e-7);
    }
    tacit_result_free(result);
  }
  OK(tacit_operator_apply(A, x, y));
  for (int i = 0; i < count; ++i) CHECK(fabs(y[i] - b[i]) < 1e-4);
  memset(x, 0, sizeof x);
  OK(tacit_least_squares(A, "damp=1000", 1, b, x, &result));
  CHECK(tacit_result_columns(result) == 1 && strstr(tacit_result_json(result), "\"gradient_norm\": "));
  CHECK(!last || fabs(x[1]) < 0.1);
  tacit_result_free(result);
  /* What is for square matrices, and wrong words. */
  tacit_solver* solver = solver_of("gmres", "");
  CHECK(tacit_solve(solver, A, NULL, b, x, NULL) == TACIT_USAGE && strstr(tacit_last_error(), "50 rows and 2 columns"));
  CHECK(tacit_solve_columns(solver, A, NULL, 2, b, x, NULL) == TACIT_USAGE);
  CHECK(tacit_solve_automatic(solver, A, b, x, NULL) == TACIT_USAGE);
  CHECK(tacit_precond(A, "jacobi", "", &P) == TACIT_USAGE && strstr(tacit_last_error(), "tacit_least_squares"));
  CHECK(tacit_operator_null_space(A, 1, NULL) == TACIT_USAGE);
  CHECK(tacit_least_squares(A, "method=gmres", 1, b, x, NULL) == TACIT_USAGE && strstr(tacit_last_error(), "lsmr"));
  CHECK(tacit_least_squares(A, "precond=amg", 1, b, x, NULL) == TACIT_USAGE && strstr(tacit_last_error(), "jacobi"));
  CHECK(tacit_least_squares(A, "step=3", 1, b, x, NULL) == TACIT_USAGE);
  CHECK(tacit_least_squares(A, "", 0, b, x, NULL) == TACIT_USAGE && strstr(tacit_last_error(), "0 right-hand sides"));
  CHECK(tacit_rectangular_matrix(comm, TACIT_DOUBLE, count, -1, start, column, value, &P) == TACIT_USAGE);
  tacit_operator* f = NULL;
  OK(tacit_function(comm, TACIT_DOUBLE, count, multiply, NULL, NULL, &f));
  CHECK(tacit_least_squares(f, "", 1, b, b, NULL) == TACIT_USAGE && strstr(tacit_last_error(), "products with A^H"));
  tacit_operator_free(f), tacit_operator_free(A), tacit_solver_free(solver);
  CHECK(!tacit_result_met(NULL)[0] && tacit_result_gradient_norm(NULL) == -1);
}

static void test_json(void) {
  const rows r = grid(0);
  tacit_operator* A = matrix_of(r);
  tacit_result* result = NULL;
  double b[2 * side * side], x[2 * side * side];
  for (int i = 0; i < 2 * r.count; ++i) b[i] = 1 + i % 5, x[i] = 0;
  /* The text may end, and go, with the call. */
  char* request = malloc(200);
  strcpy(request,
         " { \"precond\" : {\"smoother\":\"chebyshev\", \"name\": \"amg\", \"sweeps\":1, \"cycle\": null},\n"
         "\"step\":4,\"method\":\"ca-cg\",\"rtol\":1e-8, \"atol\": null, \"history\": true}");
  OK(tacit_solve_json(A, request, 1, b, x, &result));
  memset(request, 'x', 199);
  free(request);
  CHECK(tacit_result_converged(result) && solves(A, b, x, 1e-5) && tacit_result_columns(result) == 1);
  CHECK(tacit_result_column(result, 0) == result && !tacit_result_column(result, 1));
  const char* text = tacit_result_json(result);
  CHECK(text == tacit_result_json(result) && text[0] == '{' && text[strlen(text) - 1] == '}');
  CHECK(strstr(text, "\"method\": \"ca-cg\"") && strstr(text, "\"converged\": true") &&
        strstr(text, "\"history\": [1, "));
  CHECK(strstr(text, "\"counts\": {\"reductions\": ") && strstr(text, "\"reason\": \"converged\""));
  tacit_result_free(result);
  OK(tacit_solve_json(A, "{\"precond\": \"ic0\"}", 2, b, x, &result));
  CHECK(tacit_result_converged(result) && solves(A, b + r.count, x + r.count, 1e-3));
  tacit_result_free(result);
  for (int i = 0; i < r.count; ++i) x[i] = 0;
  OK(tacit_solve_json(A, "{\"precond\": \"auto\"}", 1, b, x, &result));
  CHECK(tacit_result_converged(result) && tacit_result_choice(result)[0]);
  tacit_result_free(result);

  const struct {
    const char *request, *says;
  } wrong[] = {{"", "not JSON"},
               {"{", "the end"},
               {"{\"method\": cg}", "\"text\""},
               {"{\"method\" \"cg\"}", "there is to be a :"},
               {"{\"method\": \"cg\"} {}", "more behind"},
               {"{\"method\": \"cg\",}", "there is to be a \""},
               {"{\"method\": \"gmrse\"}", "did you mean \"gmres\""},
               {"{\"method\": \"cg\", \"step\": 4}", "ca-cg"},
               {"{\"rtol\": \"small\"}", "small"},
               {"{\"rtol\": {}}", "only precond"},
               {"{\"precond\": {\"smoother\": \"jacobi\"}}", "none"},
               {"{\"precond\": {\"name\": \"amg\", \"smoohter\": \"jacobi\"}}", "\"smoother\""},
               {"{\"precond\": {\"name\": {}}}", "of precond"},
               {"{\"na\\u006de\": 1}", "backslash"}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
    CHECK(tacit_solve_json(A, wrong[i].request, 1, b, x, NULL) == TACIT_USAGE);
    if (!strstr(tacit_last_error(), wrong[i].says))
      fprintf(stderr, "%s: %s\n", wrong[i].request, tacit_last_error()), ++failures;
  }
  CHECK(tacit_solve_json(A, NULL, 1, b, x, NULL) == TACIT_USAGE);
  CHECK(tacit_solve_json(A, "{\"precond\": \"auto\"}", 2, b, x, NULL) == TACIT_USAGE);

  /* Options of the other functions, too. */
  tacit_operator* P = NULL;
  tacit_solver* solver = solver_of("ca-gmres", "{\"step\": 3, \"basis\": \"newton\"}");
  OK(tacit_precond(A, "amg", "{\"smoother\": \"jacobi\"}", &P));
  for (int i = 0; i < r.count; ++i) x[i] = 0;
  OK(tacit_solve(solver, A, P, b, x, NULL));
  CHECK(solves(A, b, x, 1e-2));
  CHECK(tacit_solver_new("cg", "{\"rtol\": {\"a\": 1}}", &solver) == TACIT_USAGE);
  tacit_solver_free(solver), tacit_operator_free(P), tacit_operator_free(A), free_rows(r);
}

/* Programs of several: each keeps its own matrix, also where a solve is with the P of another one. */
static void test_several_at_once(void) {
  rows r = grid(0);
  tacit_operator *A[3], *P[3];
  tacit_solver* solver = solver_of("cg", "rtol=1e-9");
  double b[side * side], x[side * side];
  for (int m = 0; m < 3; ++m) {
    for (int64_t k = 0; k < r.start[r.count]; ++k) r.value[k] *= 1 + m;
    A[m] = matrix_of(r), P[m] = NULL;
    OK(tacit_precond(A[m], "amg", "", &P[m]));
  }
  for (int m = 0; m < 3; ++m)
    for (int p = 0; p < 3; ++p) {
      for (int i = 0; i < r.count; ++i) b[i] = 1, x[i] = 0;
      OK(tacit_solve(solver, A[m], P[p], b, x, NULL));
      CHECK(solves(A[m], b, x, 1e-6));
    }
  for (int m = 0; m < 3; ++m) tacit_operator_free(A[m]), tacit_operator_free(P[m]);
  tacit_solver_free(solver), free_rows(r);
}

static void test_freed_handles(void) {
  const rows r = grid(0);
  tacit_operator *A = matrix_of(r), *F = NULL;
  tacit_solver *solver = solver_of("cg", ""), *kept = solver_of("cg", "");
  tacit_result* result = NULL;
  tacit_comm* other = NULL;
  double b[side * side] = {1}, x[side * side] = {0};
  OK(tacit_solve(solver, A, NULL, b, x, &result));
  OK(tacit_comm_self(&other));
  tacit_operator* const freed = A;
  tacit_operator_free(A), tacit_solver_free(solver), tacit_result_free(result), tacit_comm_free(other);
  CHECK(tacit_solve(kept, freed, NULL, b, x, NULL) == TACIT_USAGE && strstr(tacit_last_error(), "A is no"));
  CHECK(tacit_operator_apply(freed, b, x) == TACIT_USAGE && tacit_operator_rows(freed) == -1);
  CHECK(tacit_precond(freed, "amg", "", &F) == TACIT_USAGE && tacit_matrix_update(freed, 0, b) == TACIT_USAGE);
  CHECK(tacit_solver_set(solver, "rtol", "1e-3") == TACIT_USAGE && strstr(tacit_last_error(), "tacit_solver"));
  CHECK(tacit_matrix(other, TACIT_DOUBLE, r.count, r.start, r.column, r.value, &F) == TACIT_USAGE);
  CHECK(tacit_comm_rank(other) == -1 && tacit_comm_size(other) == -1);
  CHECK(!tacit_result_converged(result) && tacit_result_iterations(result) == -1 && !tacit_result_reason(result)[0]);
  CHECK(tacit_result_columns(result) == -1 && !tacit_result_column(result, 0) && !tacit_result_json(result)[0]);
  int count = 7;
  CHECK(!tacit_result_history(result, &count) && count == 0 && !tacit_result_warning(result, 0));
  tacit_operator_free(freed), tacit_solver_free(solver), tacit_result_free(result), tacit_comm_free(other);
  CHECK(strstr(tacit_last_error(), "comm is no"));
  CHECK(tacit_solve(kept, (const tacit_operator*)kept, NULL, b, x, NULL) == TACIT_USAGE); /* of another type */
  A = matrix_of(r);
  CHECK(tacit_solve(kept, A, freed == A ? (const tacit_operator*)kept : freed, b, x, NULL) == TACIT_USAGE);
  tacit_solver_free(kept), tacit_operator_free(A), free_rows(r);
}

/* Ranks that call with different arguments would wait for each other for ever. */
static void test_different_arguments(void) {
  if (tacit_comm_size(comm) == 1) return;
  const rows r = grid(0);
  const int last = tacit_comm_rank(comm) == tacit_comm_size(comm) - 1;
  tacit_operator *A = matrix_of(r), *P = NULL, *none = NULL;
  tacit_solver* solver = solver_of("cg", last ? "rtol=1e-9" : "rtol=1e-5");
  double b[2 * side * side] = {1}, x[2 * side * side] = {0};
  int seen = 0;
  CHECK(tacit_solve(solver, A, NULL, b, x, NULL) == TACIT_USAGE && strstr(tacit_last_error(), "different arguments"));
  OK(tacit_solver_set(solver, "rtol", "1e-6"));
  OK(tacit_precond(A, "jacobi", "", &P));
  CHECK(tacit_solve(solver, A, last ? P : NULL, b, x, NULL) == TACIT_USAGE);
  CHECK(tacit_solve_columns(solver, A, NULL, last ? 2 : 1, b, x, NULL) == TACIT_USAGE);
  CHECK(tacit_solve_json(A, last ? "{\"method\": \"cg\"}" : "{\"method\": \"gmres\"}", 1, b, x, NULL) == TACIT_USAGE);
  CHECK(tacit_solve_json(A, last ? "{\"method\": \"cg\"}" : "{}}", 1, b, x, NULL) == TACIT_USAGE);
  CHECK(tacit_precond(A, last ? "amg" : "ilu0", "", &none) == TACIT_USAGE);
  CHECK(tacit_precond(A, "amg", last ? "sweeps=2" : "", &none) == TACIT_USAGE);
  CHECK(tacit_matrix(comm, last ? TACIT_FLOAT : TACIT_DOUBLE, r.count, r.start, r.column, r.value, &none) ==
        TACIT_USAGE);
  if (last) OK(tacit_solver_monitor(solver, stop_after_three, &seen));
  CHECK(tacit_solve(solver, A, NULL, b, x, NULL) == TACIT_USAGE && strstr(tacit_last_error(), "different arguments"));
  tacit_solver_free(solver), tacit_operator_free(A), tacit_operator_free(P), free_rows(r);
}

static void test_numbers_that_are_not_finite(void) {
  rows r = grid(0);
  const int last = tacit_comm_rank(comm) == tacit_comm_size(comm) - 1;
  tacit_solver* solver = solver_of("cg", "");
  tacit_operator *A = matrix_of(r), *P = NULL;
  tacit_result* result = NULL;
  double b[side * side], x[side * side];
  for (int i = 0; i < r.count; ++i) b[i] = 1, x[i] = 0;
  if (last) b[r.count - 1] = NAN;
  OK(tacit_solve(solver, A, NULL, b, x, &result));
  CHECK(strcmp(tacit_result_reason(result), "non_finite") == 0 && !tacit_result_converged(result));
  CHECK(strstr(tacit_result_detail(result), "index 575") &&
        strstr(tacit_result_json(result), "\"residual_norm\": null"));
  tacit_result_free(result);
  for (int i = 0; i < r.count; ++i) b[i] = 1, x[i] = i == 0 ? INFINITY : 0;
  OK(tacit_solve(solver, A, NULL, b, x, &result));
  CHECK(strcmp(tacit_result_reason(result), "non_finite") == 0 && strstr(tacit_result_detail(result), "x0"));
  tacit_result_free(result), tacit_operator_free(A);
  if (last) r.value[0] = NAN;
  A = matrix_of(r);
  for (int i = 0; i < r.count; ++i) x[i] = 0;
  OK(tacit_solve(solver, A, NULL, b, x, &result));
  CHECK(strcmp(tacit_result_reason(result), "non_finite") == 0);
  tacit_result_free(result);
  for (int p = 0; tacit_precond_name(p); ++p) { /* a status or a result: no crash, no endless wait */
    P = NULL;
    const tacit_status status = tacit_precond(A, tacit_precond_name(p), "", &P);
    CHECK(status == TACIT_OK || (tacit_last_error()[0] && !P));
    if (P) {
      OK(tacit_solve(solver, A, P, b, x, &result));
      CHECK(!tacit_result_converged(result));
      tacit_result_free(result);
    }
    tacit_operator_free(P);
  }
  tacit_operator_free(A), tacit_solver_free(solver), free_rows(r);
}

int main(void) {
  tacit_comm* self = NULL;
  OK(tacit_comm_world(&comm));
  OK(tacit_comm_self(&self));
  CHECK(tacit_comm_size(self) == 1 && tacit_comm_rank(self) == 0 && tacit_comm_rank(NULL) == -1);
  test_tables();
  test_every_method_solves();
  test_preconditioners_keep_the_matrix();
  test_new_numbers();
  test_by_trial();
  test_functions_and_monitors();
  test_null_spaces();
  test_other_scalars();
  test_wrong_use();
  test_columns();
  test_least_squares();
  test_json();
  test_several_at_once();
  test_freed_handles();
  test_different_arguments();
  test_numbers_that_are_not_finite();
  if (tacit_comm_rank(comm) == 0 && !failures) printf("all passed on %d ranks\n", tacit_comm_size(comm));
  tacit_comm_free(self), tacit_comm_free(comm);
  return failures != 0;
}
