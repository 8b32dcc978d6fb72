/* A solve by whatever PETSc's options say; tests/python/test_petsc.py reads the lines that it prints.
 *
 *   -n N        points a side of the grid
 *   -kind K     aij; shell: a matrix that only has a product; baij
 *   -closed     no values on the boundary: singular, with the constant as its null space
 *   -skew S     not symmetric
 *   -again      three solves: the second with other numbers in the matrix, the third with other places
 *   -own_test   a convergence test of its own: stops after 5 iterations
 *   -guess      starts from a vector that is not zero
 *   -zero       b = 0
 *   -columns    solves with three right-hand sides by KSPMatSolve()
 *   -far        with a part of b that A does not reach where it is closed
 *   -ksps K,..  solves with each of these types of KSP, and each of -pcs P,.. */
#include <petscksp.h>

typedef struct grid {
  Mat of;
  PetscInt products;
} grid;

static PetscErrorCode multiply(Mat shell, Vec x, Vec y) {
  grid* g;
  PetscFunctionBeginUser;
  PetscCall(MatShellGetContext(shell, &g));
  ++g->products;
  PetscCall(MatMult(g->of, x, y));
  PetscFunctionReturn(0);
}
static PetscErrorCode stop_after_five(KSP ksp, PetscInt it, PetscReal rnorm, KSPConvergedReason* reason,
                                      void* context) {
  PetscFunctionBeginUser;
  *reason = it >= 5 ? KSP_CONVERGED_HAPPY_BREAKDOWN : KSP_CONVERGED_ITERATING;
  ++*(PetscInt*)context;
  (void)ksp, (void)rnorm;
  PetscFunctionReturn(0);
}

static PetscErrorCode fill(Mat A, PetscInt n, PetscReal scale, PetscReal skew, PetscBool closed, PetscBool wide) {
  PetscInt first, last;
  PetscFunctionBeginUser;
  PetscCall(MatGetOwnershipRange(A, &first, &last));
  for (PetscInt i = first; i < last; ++i) {
    const PetscInt column[6] = {i - n, i - 1, i, i + 1, i + n, i + 2};
    const PetscBool inside[6] = {i >= n, i % n > 0, PETSC_TRUE, i % n < n - 1, i < n * (n - 1), wide && i % n < n - 2};
    PetscScalar value[6] = {-1, -1 - skew, 4, -1 + skew, -1, -0.01}, sum = 0;
    for (int e = 0; e < 6; ++e)
      if (e != 2 && inside[e]) sum += value[e];
    if (closed) value[2] = -sum;
    for (int e = 0; e < 6; ++e)
      if (inside[e]) PetscCall(MatSetValue(A, i, column[e], scale * value[e], INSERT_VALUES));
  }
  PetscCall(MatAssemblyBegin(A, MAT_FINAL_ASSEMBLY));
  PetscCall(MatAssemblyEnd(A, MAT_FINAL_ASSEMBLY));
  PetscFunctionReturn(0);
}

static PetscErrorCode solve(KSP ksp, Mat A, Vec b, Vec x, PetscBool guess) {
  Vec r;
  PetscReal residual, size;
  KSPConvergedReason reason;
  PetscInt its;
  PetscFunctionBeginUser;
  PetscCall(VecSet(x, guess ? 50 : 0));
  PetscCall(KSPSolve(ksp, b, x));
  PetscCall(VecDuplicate(b, &r));
  PetscCall(MatMult(A, x, r));
  PetscCall(VecAYPX(r, -1, b));
  PetscCall(VecNorm(r, NORM_2, &residual));
  PetscCall(VecNorm(b, NORM_2, &size));
  PetscCall(KSPGetConvergedReason(ksp, &reason));
  PetscCall(KSPGetIterationNumber(ksp, &its));
  PetscCall(PetscPrintf(PETSC_COMM_WORLD, "solve: reason=%s its=%d residual=%.3e\n", KSPConvergedReasons[reason],
                        (int)its, (double)(size > 0 ? residual / size : residual)));
  PetscCall(VecDestroy(&r));
  PetscFunctionReturn(0);
}

static PetscErrorCode solve_columns(KSP ksp, Mat A, Vec b) {
  Mat B, X, R;
  PetscInt rows;
  PetscReal residual, size;
  KSPConvergedReason reason;
  PetscFunctionBeginUser;
  PetscCall(VecGetLocalSize(b, &rows));
  PetscCall(MatCreateDense(PETSC_COMM_WORLD, rows, PETSC_DECIDE, PETSC_DECIDE, 3, NULL, &B));
  PetscCall(MatSetRandom(B, NULL));
  PetscCall(MatDuplicate(B, MAT_DO_NOT_COPY_VALUES, &X));
  PetscCall(KSPMatSolve(ksp, B, X));
  PetscCall(MatMatMult(A, X, MAT_INITIAL_MATRIX, PETSC_DEFAULT, &R));
  PetscCall(MatAXPY(R, -1, B, SAME_NONZERO_PATTERN));
  PetscCall(MatNorm(R, NORM_FROBENIUS, &residual));
  PetscCall(MatNorm(B, NORM_FROBENIUS, &size));
  PetscCall(KSPGetConvergedReason(ksp, &reason));
  PetscCall(PetscPrintf(PETSC_COMM_WORLD, "solve: reason=%s its=0 residual=%.3e\n", KSPConvergedReasons[reason],
                        (double)(residual / size)));
  PetscCall(MatDestroy(&B));
  PetscCall(MatDestroy(&X));
  PetscCall(MatDestroy(&R));
  PetscFunctionReturn(0);
}

int main(int argc, char** argv) {
  PetscInt n = 20, tests = 0;
  PetscReal skew = 0;
  PetscBool closed = PETSC_FALSE, again = PETSC_FALSE, own = PETSC_FALSE, guess = PETSC_FALSE, zero = PETSC_FALSE,
            far = PETSC_FALSE, columns = PETSC_FALSE;
  PetscBool is_shell, is_baij;
  char *ksps[32], *pcs[32];
  PetscInt ksp_count = 32, pc_count = 32;
  char kind[16] = "aij";
  Mat A, used;
  Vec x, b;
  KSP ksp;
  PetscRandom random;
  grid g = {NULL, 0};

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, NULL));
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-n", &n, NULL));
  PetscCall(PetscOptionsGetReal(NULL, NULL, "-skew", &skew, NULL));
  PetscCall(PetscOptionsGetString(NULL, NULL, "-kind", kind, sizeof kind, NULL));
  PetscCall(PetscOptionsGetBool(NULL, NULL, "-closed", &closed, NULL));
  PetscCall(PetscOptionsGetBool(NULL, NULL, "-again", &again, NULL));
  PetscCall(PetscOptionsGetBool(NULL, NULL, "-own_test", &own, NULL));
  PetscCall(PetscOptionsGetBool(NULL, NULL, "-guess", &guess, NULL));
  PetscCall(PetscOptionsGetBool(NULL, NULL, "-zero", &zero, NULL));
  PetscCall(PetscOptionsGetBool(NULL, NULL, "-far", &far, NULL));
  PetscCall(PetscOptionsGetBool(NULL, NULL, "-columns", &columns, NULL));
  PetscCall(PetscStrcmp(kind, "shell", &is_shell));
  PetscCall(PetscStrcmp(kind, "baij", &is_baij));

  PetscCall(MatCreate(PETSC_COMM_WORLD, &A));
  PetscCall(MatSetSizes(A, PETSC_DECIDE, PETSC_DECIDE, n * n, n * n));
  PetscCall(MatSetType(A, is_baij ? MATBAIJ : MATAIJ));
  PetscCall(MatSetUp(A));
  PetscCall(MatSetOption(A, MAT_NEW_NONZERO_ALLOCATION_ERR, PETSC_FALSE));
  PetscCall(fill(A, n, 1, skew, closed, PETSC_FALSE));
  PetscCall(MatCreateVecs(A, &x, &b));
  PetscCall(PetscRandomCreate(PETSC_COMM_WORLD, &random));
  PetscCall(VecSetRandom(x, random));
  PetscCall(MatMult(A, x, b));
  if (far) PetscCall(VecShift(b, 0.01));
  used = A;
  if (is_shell) {
    PetscInt rows;
    g.of = A;
    PetscCall(MatGetLocalSize(A, &rows, NULL));
    PetscCall(MatCreateShell(PETSC_COMM_WORLD, rows, rows, n * n, n * n, &g, &used));
    PetscCall(MatShellSetOperation(used, MATOP_MULT, (void (*)(void))multiply));
  }
  if (closed) {
    MatNullSpace constant;
    PetscCall(MatNullSpaceCreate(PETSC_COMM_WORLD, PETSC_TRUE, 0, NULL, &constant));
    PetscCall(MatSetNullSpace(used, constant));
    PetscCall(MatNullSpaceDestroy(&constant));
  }

  if (zero) PetscCall(VecSet(b, 0));

  PetscCall(PetscOptionsGetStringArray(NULL, NULL, "-ksps", ksps, &ksp_count, NULL));
  PetscCall(PetscOptionsGetStringArray(NULL, NULL, "-pcs", pcs, &pc_count, NULL));
  for (PetscInt k = 0; k < PetscMax(ksp_count, 1); ++k)
    for (PetscInt p = 0; p < PetscMax(pc_count, 1); ++p) {
      PC pc;
      PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
      PetscCall(KSPSetOperators(ksp, used, A));
      PetscCall(KSPSetInitialGuessNonzero(ksp, guess));
      PetscCall(KSPGetPC(ksp, &pc));
      if (ksp_count) PetscCall(KSPSetType(ksp, ksps[k]));
      if (pc_count) PetscCall(PCSetType(pc, pcs[p]));
      PetscCall(KSPSetFromOptions(ksp));
      if (own) PetscCall(KSPSetConvergenceTest(ksp, stop_after_five, &tests, NULL));
      PetscCall(solve(ksp, used, b, x, guess));
      if (columns) PetscCall(solve_columns(ksp, used, b));
      if (again) {
        PetscCall(fill(A, n, 3, skew, closed, PETSC_FALSE));
        PetscCall(solve(ksp, used, b, x, guess));
        PetscCall(fill(A, n, 1, skew, closed, PETSC_TRUE));
        PetscCall(solve(ksp, used, b, x, guess));
      }
      PetscCall(KSPDestroy(&ksp));
    }
  for (PetscInt k = 0; k < ksp_count; ++k) PetscCall(PetscFree(ksps[k]));
  for (PetscInt p = 0; p < pc_count; ++p) PetscCall(PetscFree(pcs[p]));
  PetscCall(PetscPrintf(PETSC_COMM_WORLD, "products=%d tests=%d\n", (int)g.products, (int)tests));
  if (is_shell) PetscCall(MatDestroy(&used));
  PetscCall(MatDestroy(&A));
  PetscCall(VecDestroy(&x));
  PetscCall(VecDestroy(&b));
  PetscCall(PetscRandomDestroy(&random));
  PetscCall(PetscFinalize());
  return 0;
}
