/* Tacit for C: distributed sparse matrices and operators, preconditioners and solvers by name, results with recomputed
 * residuals. Plain C99; the library behind it is C++, so link with tacit::c (CMake) or `pkg-config tacit`.
 *
 *   tacit_comm* comm;
 *   tacit_operator *A, *P;
 *   tacit_solver* solver;
 *   tacit_result* result;
 *   tacit_comm_world(&comm);
 *   tacit_matrix(comm, TACIT_DOUBLE, n, start, column, value, &A);
 *   tacit_precond(A, "amg", "", &P);
 *   tacit_solver_new("cg", "rtol=1e-8", &solver);
 *   tacit_solve(solver, A, P, b, x, &result);
 *
 * Every function returns a status; where it is not TACIT_OK, the results are untouched and tacit_last_error() is a text
 * with the values that were seen. On several ranks all of them get the same status and text. Nothing is thrown.
 * Functions marked "collective" are called by all ranks of the communicator, in the same order, with the same names,
 * options and numbers of columns: other ones are an error. Handles are used by one thread at a time, and freed by the
 * function named *_free, which takes null as well. One that is null, was freed or is of another type is an error of
 * that rank only: it cannot tell the others, which wait for it, so a program is to end then (MPI_Abort). An object
 * keeps what it refers to: a matrix may be freed before its preconditioner. Vectors are arrays of this rank's elements,
 * of the scalar of the operator, and stay the caller's.
 *
 * Options are a text: "name=value name=value", separated by blanks or commas, or JSON, {"name": value, "name": value};
 * null or "" for the defaults. Names and values are those of docs/reference. */
#ifndef TACIT_C_TACIT_H
#define TACIT_C_TACIT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tacit_status {
  TACIT_OK = 0,
  TACIT_USAGE = 1,       /**< arguments that do not fit: names, options, shapes */
  TACIT_INPUT = 2,       /**< data that cannot be accepted */
  TACIT_ENVIRONMENT = 3, /**< MPI, device, files, or another rank has failed */
  TACIT_INTERRUPTED = 4, /**< the user asked to stop */
  TACIT_MEMORY = 5,      /**< there is not enough memory */
  TACIT_INTERNAL = 6     /**< a fault of Tacit */
} tacit_status;

/** The type of numbers; complex ones are pairs (real, imaginary), as C99's. */
typedef enum tacit_scalar {
  TACIT_FLOAT = 0,
  TACIT_DOUBLE = 1,
  TACIT_COMPLEX_FLOAT = 2,
  TACIT_COMPLEX_DOUBLE = 3
} tacit_scalar;

typedef struct tacit_comm tacit_comm;
typedef struct tacit_operator tacit_operator; /**< matrices, functions, preconditioners */
typedef struct tacit_solver tacit_solver;
typedef struct tacit_result tacit_result;

/** The text of the last status of this thread that was not TACIT_OK; "" if there was none. Valid until the next one. */
const char* tacit_last_error(void);
/** "0.3.0" */
const char* tacit_version(void);

/** The i-th method, from 0; null past the last. The names are those of docs/reference/methods.md. */
const char* tacit_method_name(int i);
/** What that method is, in a sentence; null past the last. */
const char* tacit_method_text(int i);
/** The same for preconditioners of matrices (docs/reference/preconditioners.md). */
const char* tacit_precond_name(int i);
const char* tacit_precond_text(int i);

/** One rank, without MPI. */
tacit_status tacit_comm_self(tacit_comm** comm);
/** All processes that mpiexec started, or one rank in a process that it did not start. Initialises MPI where that has
 * not been done, and then finalises it at exit. Collective. */
tacit_status tacit_comm_world(tacit_comm** comm);
/** A duplicate of the MPI communicator with this Fortran handle: MPI_Comm_c2f(comm) in C, the handle itself (mpi), or
 * comm%MPI_VAL (mpi_f08), in Fortran. Collective. Status TACIT_ENVIRONMENT in a build without MPI. */
tacit_status tacit_comm_from_fortran(int handle, tacit_comm** comm);
/** This rank, from 0, and the number of ranks; -1 for null. */
int tacit_comm_rank(const tacit_comm* comm);
int tacit_comm_size(const tacit_comm* comm);
void tacit_comm_free(tacit_comm* comm);

/** A square sparse matrix, distributed by rows: rank r has the `rows` rows after those of ranks below r. Row i of this
 * rank has the entries start[i] to start[i + 1] - 1 of `column` (numbered over all ranks, from 0, in any order; equal
 * ones are added) and `value` (of the scalar); start[0] = 0. The arrays are copied: they stay the caller's.
 * Collective; memory of the matrix. */
tacit_status tacit_matrix(const tacit_comm* comm, tacit_scalar scalar, int32_t rows, const int64_t* start,
                          const int64_t* column, const void* value, tacit_operator** A);
/** A sparse matrix of any shape, for tacit_least_squares(): the rows as for tacit_matrix(); of x this rank has
 * `columns` elements, after those of ranks below it. tacit_operator_apply() multiplies by it, tacit_matrix_update()
 * gives it new numbers; other functions take it where it is square. Collective; memory of the matrix. */
tacit_status tacit_rectangular_matrix(const tacit_comm* comm, tacit_scalar scalar, int32_t rows, int32_t columns,
                                      const int64_t* start, const int64_t* column, const void* value,
                                      tacit_operator** A);
/** New numbers for the same entries: `count` of them on this rank, row after row, by ascending columns. A
 * preconditioner keeps the old ones: make it anew. Collective; one pass over the matrix. */
tacit_status tacit_matrix_update(tacit_operator* A, int64_t count, const void* value);

/** y = A x for this rank's elements; fetches those of other ranks by itself. 0, or a code that ends the call on all
 * ranks with status TACIT_INPUT. Called on all ranks. */
typedef int (*tacit_apply)(void* context, const void* x, void* y);
/** A square operator that is only known by its product, also as a preconditioner. `diagonal`: this rank's A_ii, or null
 * on all ranks. A product costs what `apply` does, and a small reduction. Collective. */
tacit_status tacit_function(const tacit_comm* comm, tacit_scalar scalar, int32_t rows, tacit_apply apply, void* context,
                            const void* diagonal, tacit_operator** A);

/** The preconditioner of this name for a matrix, with options as above ("smoother=chebyshev sweeps=2"). Null is
 * returned for "none". Collective. */
tacit_status tacit_precond(const tacit_operator* A, const char* name, const char* options, tacit_operator** P);

/** y = A x. Collective; one product. */
tacit_status tacit_operator_apply(const tacit_operator* A, const void* x, void* y);
/** This rank's rows, and those of all ranks; -1 for null. */
int32_t tacit_operator_local_rows(const tacit_operator* A);
int64_t tacit_operator_rows(const tacit_operator* A);
/** Tells solves that A maps these vectors to zero: `count` arrays of this rank's elements, one after the other, which
 * are copied. `right` null: the constant vectors (count 1). A solve checks it, and takes out of b what is not in the
 * range of A. count 0: A is regular again. Collective. */
tacit_status tacit_operator_null_space(tacit_operator* A, int count, const void* right);
void tacit_operator_free(tacit_operator* A);

/** A method by its name ("cg", "ca-gmres", .., "auto") with options as above ("step=4 rtol=1e-8"): all of
 * docs/reference/methods.md. Unknown names are refused with the nearest known one. Local. */
tacit_status tacit_solver_new(const char* method, const char* options, tacit_solver** solver);
/** Sets one option, by the text of its value. Local. */
tacit_status tacit_solver_set(tacit_solver* solver, const char* name, const char* value);
/** Called on all ranks after each iteration with ||r|| / ||b|| of the method's recurrence. Returns 0 to go on; a rank
 * that returns another number stops all (reason "stopped"). Null: no monitor. */
typedef int (*tacit_monitor)(void* context, int iteration, double residual_norm);
tacit_status tacit_solver_monitor(tacit_solver* solver, tacit_monitor monitor, void* context);
void tacit_solver_free(tacit_solver* solver);

/** Solves A x = b: until the recomputed ||b - A x|| <= max(rtol ||b||, atol). P approximates the inverse of A; null for
 * none. x is the initial guess on entry. A solve that does not converge is not an error: its result has the reason.
 * Method "auto" takes cg for a Hermitian matrix, and gmres for others and for functions. Method "direct" makes its
 * factors by itself, unless P are such. `result` may be null. Collective. */
tacit_status tacit_solve(const tacit_solver* solver, const tacit_operator* A, const tacit_operator* P, const void* b,
                         void* x, tacit_result** result);
/** The same with a preconditioner, and for method "auto" a method, that are found by trial from cheap to strong, and
 * kept for the next right-hand sides of this matrix. Collective. */
tacit_status tacit_solve_automatic(const tacit_solver* solver, tacit_operator* A, const void* b, void* x,
                                   tacit_result** result);

/** Solves A X = B for `columns` right-hand sides: b and x are so many vectors, one after the other. Columns are
 * advanced together, so that one pass over the matrix and one reduction serve several; with methods "block-cg"
 * and "block-gmres" they share a search space. `result` is about all: converged where all are, with the largest numbers
 * of iterations and residuals; tacit_result_column() has each. A monitor is called for each column, and ends that
 * column only. Collective. */
tacit_status tacit_solve_columns(const tacit_solver* solver, const tacit_operator* A, const tacit_operator* P,
                                 int32_t columns, const void* b, void* x, tacit_result** result);
/** A solve described in one JSON text: the method, its options, and the preconditioner as a name or an object,
 *   {"method": "ca-gmres", "step": 4, "rtol": 1e-8, "precond": {"name": "amg", "smoother": "chebyshev"}}
 * Without them: method "auto", precond "none"; precond "auto" is tacit_solve_automatic(). The preconditioner is made in
 * each call: several calls with one are faster through tacit_precond(). Collective. */
tacit_status tacit_solve_json(tacit_operator* A, const char* request, int32_t columns, const void* b, void* x,
                              tacit_result** result);

/** The x with the least ||b - A x||^2 + damp^2 ||x||^2 for each of `columns` right-hand sides, one after the other: b
 * has so many vectors of this rank's rows, x of its columns, the guesses on entry. `options`, as above: "method" (lsmr,
 * which is the default, lsqr, cg, pipelined-cg, ca-cg), "precond" (none, or jacobi: columns of one length), and those
 * of docs/reference/least-squares.md (damp, atol, btol, max_iterations, ..). A matrix of any shape and rank, in host
 * memory; a function has no product with A^H and is refused. The results of several are as those of
 * tacit_solve_columns(). Collective. */
tacit_status tacit_least_squares(const tacit_operator* A, const char* options, int32_t columns, const void* b, void* x,
                                 tacit_result** result);
/** What x meets by recomputed numbers: "residual" (A x = b to the tolerances), "gradient" (the least ||b - A x||) or
 * "neither"; of several columns the first that has met neither, or "gradient" where one has. "" after other solves. */
const char* tacit_result_met(const tacit_result* result);
/** ||A^H r|| / (||A|| ||r||), recomputed; the largest of all columns. -1 after other solves. */
double tacit_result_gradient_norm(const tacit_result* result);

/** 1 where the recomputed residual is at the goal, else 0. */
int tacit_result_converged(const tacit_result* result);
/** "converged", "max_iterations", "breakdown", "stagnated", "diverged", "non_finite", "stopped" or "damaged". */
const char* tacit_result_reason(const tacit_result* result);
int tacit_result_iterations(const tacit_result* result);
/** ||b - A x|| / ||b||, recomputed at the end; ||b||; seconds of the solve, the longest over ranks. */
double tacit_result_residual_norm(const tacit_result* result);
double tacit_result_b_norm(const tacit_result* result);
double tacit_result_seconds(const tacit_result* result);
/** What was called in all: all-reduces, products with A, applies of P. */
int64_t tacit_result_reductions(const tacit_result* result);
int64_t tacit_result_products(const tacit_result* result);
int64_t tacit_result_precond_applies(const tacit_result* result);
/** The recurrence's ||r_k|| / ||b|| for k = 0, 1, ..; *count is their number. Null where history=false. */
const double* tacit_result_history(const tacit_result* result, int* count);
/** Texts, valid as long as the result: what happened and what to try (""), and the names of what solved. */
const char* tacit_result_detail(const tacit_result* result);
const char* tacit_result_advice(const tacit_result* result);
const char* tacit_result_method(const tacit_result* result);
const char* tacit_result_precond(const tacit_result* result);
/** What tacit_solve_automatic() has tried; "" after other solves. */
const char* tacit_result_choice(const tacit_result* result);
/** The i-th warning, from 0; null past the last. */
const char* tacit_result_warning(const tacit_result* result, int i);
/** How many right-hand sides it is of; -1 for null. */
int tacit_result_columns(const tacit_result* result);
/** The result of one of them, from 0, which belongs to `result` and ends with it; null past the last. Its counts are of
 * products and applies only: reductions serve several columns. */
const tacit_result* tacit_result_column(const tacit_result* result, int i);
/** All of it as JSON, with the names that `tacit solve --json` has. Numbers that are not finite are null. Valid as long
 * as the result. */
const char* tacit_result_json(tacit_result* result);
void tacit_result_free(tacit_result* result);

#ifdef __cplusplus
}
#endif
#endif
