"""Tacit's types of PETSc in programs that do unusual things, each as others have met it; tests/python/test_petsc.py
runs them all, on one and two ranks. A line is printed for each that has passed.
"""

import sys

import numpy as np
import petsc4py

petsc4py.init(sys.argv)
from petsc4py import PETSc  # noqa: E402

COMM = PETSc.COMM_WORLD
NAN_OR_INF = PETSc.KSP.ConvergedReason.DIVERGED_NANORINF


def laplacian(n=300, scale=1.0):
    A = PETSc.Mat().createAIJ((n, n), nnz=3)
    for i in range(*A.getOwnershipRange()):
        for j, v in ((i - 1, -1.0), (i, 2.2), (i + 1, -1.0)):
            if 0 <= j < n:
                A[i, j] = scale * v
    A.assemble()
    return A


def new_ksp(A, kind="tacit_cg", pc="jacobi", rtol=1e-8):
    ksp = PETSc.KSP().create(COMM)
    ksp.setOperators(A)
    ksp.setType(kind)
    ksp.getPC().setType(pc)
    ksp.setTolerances(rtol=rtol)
    return ksp


def right(A, value=1.0):
    b = A.createVecLeft()
    b.set(value)
    return b


def solved(ksp, A, b, rtol=1e-8):
    x = A.createVecRight()
    ksp.solve(b, x)
    assert ksp.getConvergedReason() > 0, ksp.getConvergedReason()
    assert (b - A * x).norm() <= 1.001 * rtol * b.norm(), (b - A * x).norm()
    return x


class Counting:
    """A preconditioner of the program's: counts, and returns what `value` makes of x."""

    def __init__(self, value=lambda x: x):
        self.value, self.set_ups, self.applies = value, 0, 0

    def setUp(self, pc):
        self.set_ups += 1

    def apply(self, pc, x, y):
        self.applies += 1
        y.setArray(self.value(x.getArray(readonly=True)))


def python_pc(ksp, context):
    ksp.getPC().setType("python")
    ksp.getPC().setPythonContext(context)


def numbers_that_are_not_finite():
    """A reason, no error, and no trace of it in the next solve."""
    for kind in ("tacit_cg", "tacit_gmres", "tacit_pipelined_cg", "tacit_ca_gmres"):
        for pc in ("jacobi", "bjacobi", "tacit_amg", "none"):
            A = laplacian()
            ksp = new_ksp(A, kind, pc)
            b, x = right(A), A.createVecRight()
            solved(ksp, A, b)
            if COMM.rank == COMM.size - 1:
                b.getArray()[-1] = np.nan
            ksp.solve(b, x)
            assert ksp.getConvergedReason() == NAN_OR_INF, (kind, pc, ksp.getConvergedReason())
            solved(ksp, A, right(A))


def a_matrix_that_is_not_finite():
    for pc in ("none", "jacobi", "bjacobi", "tacit_jacobi", "tacit_amg", "tacit_ilu0"):
        A = laplacian()
        if COMM.rank == COMM.size - 1:
            A.setValue(299, 299, np.inf)
        A.assemble()
        ksp = new_ksp(A, "tacit_cg", pc)
        x = A.createVecRight()
        try:
            ksp.solve(right(A), x)
        except PETSc.Error:
            continue  # of the set-up of a preconditioner
        assert ksp.getConvergedReason() < 0, pc


def a_preconditioner_that_is_not_finite():
    for kind in ("tacit_cg", "tacit_gmres", "tacit_bicgstab", "tacit_minres"):
        A = laplacian()
        ksp = new_ksp(A, kind)
        python_pc(ksp, Counting(lambda x: x * np.nan))
        x = A.createVecRight()
        ksp.solve(right(A), x)
        assert ksp.getConvergedReason() < 0, kind


def set_up_once_and_applied_as_often_as_needed():
    A = laplacian()
    context = Counting()
    ksp = new_ksp(A)
    python_pc(ksp, context)
    for _ in range(3):
        solved(ksp, A, right(A))
    assert context.set_ups == 1, context.set_ups
    applies = []
    for kind in ("cg", "tacit_cg"):
        context = Counting()
        ksp = new_ksp(A, kind)
        ksp.setNormType(PETSc.KSP.NormType.UNPRECONDITIONED)
        python_pc(ksp, context)
        solved(ksp, A, right(A))
        applies.append((ksp.getIterationNumber(), context.applies))
    assert applies[1][0] == applies[0][0], applies
    assert applies[1][1] <= applies[0][1], applies


def right_hand_sides_of_any_size():
    for value in (1e-300, 1e-160, 1e-30, 1e30, 1e150, 1e300):
        A = laplacian()
        ksp = new_ksp(A)
        ksp.setTolerances(rtol=1e-8, atol=0)
        x = A.createVecRight()
        ksp.solve(right(A, value), x)
        assert ksp.getConvergedReason() > 0, (value, ksp.getConvergedReason())
        x.scale(1 / value)
        assert (right(A) - A * x).norm() <= 1e-7 * right(A).norm(), value


def the_same_ksp_for_another_size():
    ksp = None
    for n in (300, 120, 500):
        A = laplacian(n)
        if ksp is None:
            ksp = new_ksp(A, "tacit_gmres", "tacit_amg")
        else:
            ksp.reset()
            ksp.setOperators(A)
        solved(ksp, A, right(A))


def other_matrices_and_numbers():
    A, B = laplacian(), laplacian(scale=3)
    for pc in ("jacobi", "tacit_ilu0", "tacit_amg", "bjacobi"):
        ksp = new_ksp(A, "tacit_cg", pc)
        for _ in range(2):
            for M in (A, B):
                ksp.setOperators(M)
                solved(ksp, M, right(M))
            A.scale(2)
            ksp.setOperators(A)
            solved(ksp, A, right(A))


def another_pc_object():
    """KSPSetPC() with one that has its own matrix, before and after the operators."""
    A = laplacian()
    pc = PETSc.PC().create(COMM)
    pc.setOperators(A)
    pc.setType("tacit_amg")
    ksp = PETSc.KSP().create(COMM)
    ksp.setType("tacit_cg")
    ksp.setPC(pc)
    ksp.setOperators(A)
    ksp.setTolerances(rtol=1e-8)
    solved(ksp, A, right(A))
    y = A.createVecLeft()
    pc.apply(right(A), y)  # by the program itself
    assert np.isfinite(y.norm())


def prefixes():
    options = PETSc.Options()
    options["flow_ksp_type"] = "tacit_ca_gmres"
    options["flow_ksp_tacit_step"] = "3"
    options["flow_pc_type"] = "tacit_amg"
    options["flow_pc_tacit_sweeps"] = "2"
    A = laplacian()
    ksp = PETSc.KSP().create(COMM)
    ksp.setOptionsPrefix("flow_")
    ksp.setOperators(A)
    ksp.setFromOptions()
    ksp.setTolerances(rtol=1e-8)
    assert ksp.getType() == "tacit_ca_gmres"
    assert ksp.getPC().getType() == "tacit_amg"
    solved(ksp, A, right(A))
    options["flow_pc_tacit_sweeps"] = "0"  # it is read, then
    try:
        ksp.setFromOptions()
    except PETSc.Error:
        return
    raise AssertionError("an option with a prefix was not read")


def nothing_of_the_caller_changes():
    for kind in ("tacit_cg", "tacit_gmres", "tacit_auto", "tacit_block_cg"):
        A = laplacian()
        b = right(A)
        before = [part.copy() for part in (*A.getDiagonalBlock().getValuesCSR(), b.getArray())]
        solved(new_ksp(A, kind, "tacit_amg"), A, b)
        after = [*A.getDiagonalBlock().getValuesCSR(), b.getArray()]
        assert all(np.array_equal(x, y) for x, y in zip(before, after, strict=True)), kind


def inner_solves_of_a_fieldsplit():
    """Ranks end inner solves together, whatever they need."""
    n = 200
    A, B = laplacian(n), laplacian(n, 2)
    both = PETSc.Mat().createNest([[A, None], [None, B]], comm=COMM)
    both.assemble()
    rows = both.getNestISs()[0]
    ksp = PETSc.KSP().create(COMM)
    ksp.setOperators(both)
    ksp.setType("tacit_fgmres")
    ksp.setTolerances(rtol=1e-8)
    pc = ksp.getPC()
    pc.setType("fieldsplit")
    pc.setFieldSplitIS(("0", rows[0]), ("1", rows[1]))
    ksp.setUp()
    for k, inner in enumerate(pc.getFieldSplitSubKSP()):
        inner.setType(("tacit_cg", "tacit_minres")[k])
        inner.getPC().setType(("tacit_amg", "jacobi")[k])
        inner.setTolerances(rtol=1e-2)
    x, b = both.createVecs()
    b.set(1)
    ksp.solve(b, x)
    assert ksp.getConvergedReason() > 0
    assert (b - both * x).norm() <= 1.001e-8 * b.norm()


def solves_within_solves_of_one_matrix():
    """All of them borrow vectors of the same Mat at the same time."""
    A = laplacian()
    for kind in ("tacit_fgmres", "tacit_cg"):
        outer = ksp = new_ksp(A, kind, "ksp")
        for pc in ("ksp", "bjacobi"):
            ksp = ksp.getPC().getKSP()
            ksp.setType("tacit_cg")
            ksp.setTolerances(rtol=1e-3)
            ksp.getPC().setType(pc)
        for _ in range(2):
            solved(outer, A, right(A))


def what_is_known_of_a_matrix_follows_its_numbers():
    """Its largest entry, the signs of its diagonal, and whether all is finite are kept for the next solve."""
    A = laplacian()
    ksp = new_ksp(A, "tacit_cg", "bjacobi")
    for scale in (1.0, -1.0, 1.0, 1e200, -1e-200):
        A.scale(scale)
        ksp.setOperators(A)
        solved(ksp, A, right(A))
    ksp.getPC().setReusePreconditioner(True)
    A.setValue(A.getOwnershipRange()[0], A.getOwnershipRange()[0], np.nan)
    A.assemble()
    ksp.setOperators(A)
    x = A.createVecRight()
    ksp.solve(right(A), x)
    assert ksp.getConvergedReason() == NAN_OR_INF, ksp.getConvergedReason()


def a_preconditioner_that_is_kept():
    """PETSc does not set up a PC that is reused: it stays that of the numbers it was made of, whoever has new ones."""
    for kind in ("cg", "tacit_cg"):
        for pc in ("tacit_amg", "tacit_polynomial"):
            A = laplacian()
            b = right(A)
            ksp = new_ksp(A, kind, pc)
            solved(ksp, A, b)
            before, kept, after = (b.duplicate() for _ in range(3))
            ksp.getPC().apply(b, before)
            ksp.getPC().setReusePreconditioner(True)
            A.scale(4.0)
            ksp.setOperators(A)
            solved(ksp, A, b)
            ksp.getPC().apply(b, kept)
            assert (kept - before).norm() == 0, (kind, pc)
            ksp.getPC().setReusePreconditioner(False)
            ksp.setOperators(A)
            solved(ksp, A, b)
            ksp.getPC().apply(b, after)
            assert (4 * after - before).norm() <= 1e-12 * before.norm(), (kind, pc)


def another_matrix_for_the_preconditioner():
    """Pmat is not Amat: P is of the one, the residual of the other."""
    A, near = laplacian(), laplacian()
    near.shift(0.3)
    b = right(A)
    ksp, alone = new_ksp(A, pc="tacit_amg"), new_ksp(near, pc="tacit_amg")
    ksp.setOperators(A, near)
    solved(ksp, A, b)
    solved(alone, near, b)
    y, z = b.duplicate(), b.duplicate()
    ksp.getPC().apply(b, y)
    alone.getPC().apply(b, z)
    assert (y - z).norm() <= 1e-12 * z.norm()


def many_solves_take_no_more_memory():
    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1])

    A = laplacian(40000)
    b, x = right(A), A.createVecRight()  # such temporaries as b - A x stay in some versions of petsc4py
    for pc in ("bjacobi", "jacobi", "tacit_ilu0"):
        ksp = new_ksp(A, "tacit_cg", pc, rtol=1e-4)
        for k in range(45):
            if k == 5:
                before = resident()
            ksp.solve(b, x)
            assert ksp.getConvergedReason() > 0
            new_ksp(A, "tacit_cg", pc).destroy()
        assert resident() - before < 1000, (pc, resident() - before)  # pages; a vector has 79


def many_solvers_at_once():
    solvers = [(A, new_ksp(A, "tacit_cg", "tacit_amg")) for A in (laplacian(100 + 10 * k) for k in range(8))]
    for _ in range(2):
        for A, ksp in solvers:
            solved(ksp, A, right(A))


def a_communicator_that_ends():
    """Tacit's communicator ends with PETSc's."""
    own = COMM.tompi4py().Dup() if hasattr(COMM, "tompi4py") else None
    if own is None:
        return
    for _ in range(3):
        comm = own.Dup()
        A = PETSc.Mat().createAIJ((50, 50), nnz=1, comm=comm)
        for i in range(*A.getOwnershipRange()):
            A[i, i] = 2 + i
        A.assemble()
        ksp = PETSc.KSP().create(comm)
        ksp.setOperators(A)
        ksp.setType("tacit_cg")
        ksp.getPC().setType("none")
        x, b = A.createVecs()
        b.set(1)
        ksp.solve(b, x)
        assert ksp.getConvergedReason() > 0
        for one in (ksp, x, b, A):
            one.destroy()
        comm.Free()
    own.Free()


def code_of(call):
    """PETSc's number of the error of a call; 0 without one."""
    try:
        call()
    except PETSc.Error as error:
        return error.ierr
    return 0


def wrong_use():
    """An error that says what is wrong, and the objects can still be used."""
    A = PETSc.Mat().createAIJ((20, 30), nnz=1)
    A.setUp()
    A.assemble()
    ksp = new_ksp(A, "tacit_cg", "none")
    x, b = A.createVecs()
    assert code_of(lambda: ksp.solve(b, x)) in (60, 62)  # sizes, arguments
    good = laplacian()
    ksp = new_ksp(good)
    x = good.createVecRight()
    assert code_of(lambda: ksp.solveTranspose(right(good), x)) == 62
    solved(ksp, good, right(good))


CASES = (
    numbers_that_are_not_finite,
    a_matrix_that_is_not_finite,
    a_preconditioner_that_is_not_finite,
    set_up_once_and_applied_as_often_as_needed,
    right_hand_sides_of_any_size,
    the_same_ksp_for_another_size,
    other_matrices_and_numbers,
    another_pc_object,
    prefixes,
    nothing_of_the_caller_changes,
    inner_solves_of_a_fieldsplit,
    solves_within_solves_of_one_matrix,
    what_is_known_of_a_matrix_follows_its_numbers,
    a_preconditioner_that_is_kept,
    another_matrix_for_the_preconditioner,
    many_solves_take_no_more_memory,
    many_solvers_at_once,
    a_communicator_that_ends,
    wrong_use,
)
wanted = PETSc.Options().getString("case", "")
for case in CASES:
    if wanted in ("", case.__name__):
        case()
        PETSc.Sys.Print(f"passed: {case.__name__}")
