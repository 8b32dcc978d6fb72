"""Arguments that differ between ranks: the same ValueError on every rank, which names the argument and both values,
before any work; ranks are threads here, and processes in the last test.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import Run, laplacian, unsymmetric
from scipy.sparse.linalg import aslinearoperator

import tacit
from tacit import multigrid

Comm = Any
CROSS = np.array([[0, -1, 0], [-1, 4, -1], [0, -1, 0]], float)


def raised(call: Callable[[], Any]) -> str:
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "nothing was raised"


def told(call: Callable[[Comm], Any], ranks: int = 3) -> str:
    """What all ranks raise, which is the same; the communicator works afterwards."""

    def rank(comm: Comm) -> str:
        text = raised(lambda: call(comm))
        assert comm.all_sum(1) == ranks
        return text

    first, *others = tacit.comm.run_threads(ranks, rank)
    assert others == [first] * (ranks - 1)
    return first


def odd(comm: Comm, value: Any, other: Any) -> Any:
    """`other` on rank 1."""
    return other if comm.rank == 1 else value


@pytest.mark.parametrize("other", [441, 401, 399, 4000, 30])
def test_matrices_of_another_size(other: int) -> None:
    def n(c: Comm) -> int:
        return int(odd(c, 400, other))

    for call in (
        lambda c: tacit.solve(laplacian(n(c)), np.ones(n(c)), method="cg", comm=c),
        lambda c: tacit.solve(laplacian(n(c)), np.ones(n(c)), comm=c),
        lambda c: tacit.csr(laplacian(n(c)), comm=c),
        lambda c: tacit.csr(laplacian(n(c)), scalar="float64", comm=c),
        lambda c: tacit.csr((a := laplacian(n(c)).tocsr(), (a.data, a.indices, a.indptr))[1], a.shape, comm=c),
        lambda c: tacit.tiled(laplacian(n(c)), comm=c),
        lambda c: tacit.solve(aslinearoperator(laplacian(n(c))), np.ones(n(c)), method="cg", comm=c),
        lambda c: tacit.function((n(c), n(c)), lambda x: x, comm=c),
    ):
        text = told(call)
        assert text.startswith("ValueError: ")
        assert "400" in text
        assert f"{other}" in text
        assert "on rank 1; all ranks must give the same" in text


def test_matrices_that_do_not_fit_on_one_rank() -> None:
    a = laplacian(40)
    for precond in (41, 39):
        text = told(lambda c, k=precond: tacit.solve(a, np.ones(40), precond=laplacian(odd(c, 40, k)), comm=c))
        assert text.startswith("ValueError: precond is a matrix of 40 x 40 on rank 0 and")
    wide = sp.csr_array((40, 50))
    assert "A is a matrix of 40 x 40 on rank 0 and a matrix of 40 x 50 on rank 1" in told(
        lambda c: tacit.solve(odd(c, a, wide), np.ones(40), comm=c)
    )
    dense = np.ones((40, 40, 2))
    assert "shape" in told(lambda c: tacit.solve(odd(c, a, dense), np.ones(40), comm=c))
    operator_or_matrix = told(lambda c: tacit.solve(odd(c, tacit.csr(a, comm=c), a), np.ones(40), comm=c))
    assert operator_or_matrix.startswith("ValueError: A is Csr of 40 x 40")


def test_values_of_whole_arrays() -> None:
    """One element on one rank."""
    a, b = unsymmetric(50), np.linspace(1, 2, 50)

    def other(array: Any, at: Any, value: float = 7.0) -> Any:
        changed = array.copy()
        changed[at] = value
        return changed

    moved = a.tolil()
    moved[3, 44] = 5.0
    A = {}

    def on(c: Comm) -> Any:
        return A.setdefault(c, tacit.csr(a, comm=c))

    columns = np.ones((50, 3))
    for call, text in (
        (lambda c: tacit.solve(a, odd(c, b, other(b, 9)), comm=c), "b[9] is 1.1"),
        (lambda c: tacit.solve(on(c), odd(c, b, other(b, 49, np.nan)), comm=c), "b[49] is 2.0 on rank 0 and nan on"),
        (lambda c: tacit.solve(on(c), odd(c, b, -b), comm=c), "b[0] is 1.0 on rank 0 and -1.0 on rank 1"),
        (lambda c: tacit.solve(on(c), odd(c, columns, other(columns, (4, 2)))), "b[4, 2] is 1.0 on rank 0 and 7.0"),
        (lambda c: tacit.solve(on(c), b, odd(c, b, b[::-1]), comm=c), "x0[0] is 1.0 on rank 0 and 2.0 on rank 1"),
        (lambda c: tacit.solve(odd(c, a, 2 * a), b, comm=c), "A[0, 0] is"),
        (lambda c: tacit.csr(odd(c, a, moved), comm=c), "the number of entries of A above row 4 is"),
        (lambda c: on(c) @ odd(c, b, other(b, 0, 0.0)), "x[0] is 1.0 on rank 0 and 0.0 on rank 1"),
        (lambda c: on(c).update_values(odd(c, a.data, 2 * a.data)), "values[0] is"),
        (lambda c: on(c).update_values(odd(c, a, 2 * a)), "values[0, 0] is"),
        (lambda c: tacit.solve(a, b, precond=odd(c, a, 3 * a), comm=c), "precond[0, 0] is"),
    ):
        found = told(call)
        assert found.startswith("ValueError: " + text), found
        assert found.endswith("; all ranks must give the same")


def test_what_is_the_same_matrix() -> None:
    """The order of entries in a row, duplicates, stored zeros, the width of indices, and rounding do not count."""
    a, b = unsymmetric(60), np.linspace(-1, 1, 60)
    expected = tacit.solve(a, b, rtol=1e-12).x

    def rank(comm: Comm) -> Any:
        mine = a.tocsr().copy()
        rhs = b.copy()
        if comm.rank == 1:
            rows = [slice(mine.indptr[i], mine.indptr[i + 1]) for i in range(60)]
            order = np.concatenate([np.arange(60 * 60)[row][::-1] for row in rows])
            mine = sp.csr_array((mine.data[order], mine.indices[order].astype(np.int64), mine.indptr), shape=(60, 60))
            rhs = np.asfortranarray(rhs.reshape(-1, 1))[:, 0] * (1 + 3e-16)
        if comm.rank == 2:
            twice = sp.coo_array(mine)
            mine = sp.coo_array(
                (np.tile(twice.data / 2, 2), (np.tile(twice.coords[0], 2), np.tile(twice.coords[1], 2))), shape=(60, 60)
            )
            mine.data[3] *= 1 + 4e-16
        return tacit.solve(mine, rhs, rtol=1e-12, comm=comm).x

    for x in tacit.comm.run_threads(3, rank):
        assert np.allclose(x, expected, rtol=0, atol=1e-10)


def test_own_rows_may_differ() -> None:
    a, b = unsymmetric(50), np.linspace(1, 2, 50)

    def rank(comm: Comm) -> Any:
        A = tacit.csr(a, comm=comm)
        low, high = A.own_range
        return tacit.solve(A, b[low:high], b[low:high] / 3, rtol=1e-12).x, A @ b[low:high]

    parts = tacit.comm.run_threads(3, rank)
    assert np.allclose(np.concatenate([p[0] for p in parts]), tacit.solve(a, b, rtol=1e-12).x, rtol=0, atol=1e-10)
    assert np.allclose(np.concatenate([p[1] for p in parts]), a @ b)


class Mat:
    """A matrix 2 I as petsc4py gives one."""

    def __init__(self, rows: list[int], rank: int) -> None:
        self._rows, self._begin, self._n = rows[rank], sum(rows[:rank]), sum(rows)

    def getSizes(self) -> Any:
        return (self._rows, self._n), (self._rows, self._n)

    def getValuesCSR(self) -> Any:
        column = self._begin + np.arange(self._rows)
        return np.arange(self._rows + 1), column, np.full(self._rows, 2.0)


def test_rows_that_are_not_spread_alike_are_named_with_their_rank() -> None:
    def rows(c: Comm, counts: list[int]) -> Any:
        (own, n), _ = Mat(counts, c.rank).getSizes()
        start, column, value = Mat(counts, c.rank).getValuesCSR()
        return tacit.csr((value, column, start), (own, n), own_rows=True, comm=c)

    def A(c: Comm) -> Any:
        return rows(c, [3, 3, 3])

    def B(c: Comm) -> Any:
        return rows(c, [3, 2, 4])

    one, other = "9 elements each, of which rank 1 has 3 and 2", "9 elements each, of which rank 1 has 2 and 3"
    for call, text in (
        (lambda c: A(c) + B(c), one),
        (lambda c: A(c) @ B(c), one),
        (lambda c: A(c) + tacit.low_rank(np.ones(B(c).own_range[1] - B(c).own_range[0]), own_rows=True, comm=c), one),
        (lambda c: tacit.solve(A(c), np.ones(9), precond=B(c), method="gmres"), other),
        (lambda c: tacit.lstsq(A(c), np.ones(9), precond=B(c)), other),
        (
            lambda c: tacit.solve(A(c), np.ones(9), precond=Mat([3, 2, 4], c.rank)),
            "rank 1 end at 5 in precond, and at 6",
        ),
        (lambda c: A(c) + rows(c, [3, 2, 3]), "9 and 8 elements"),
        (lambda c: tacit.solve(A(c), np.ones(odd(c, 3, 9))), r"b has 9 elements on rank 1 \(whole\) and 3 on rank 0"),
        (lambda c: A(c) @ np.ones(odd(c, 3, 4)), r"rank 1: x has 4 elements; 9 \(whole\) or 3"),
        (
            lambda c: rows(c, [3, 3, 2]) + tacit.Assembler(odd(c, 3, 2**33), own_rows=True, comm=c),
            "rank 1: this rank has",
        ),
    ):
        assert re.search(text, told(call)), told(call)


def test_null_spaces_and_columns() -> None:
    a = laplacian(30)
    for call, text in (
        (lambda c: tacit.solve(a, np.ones((30, odd(c, 2, 3))), comm=c), "b is 2 columns on rank 0 and 3 columns"),
        (
            lambda c: tacit.solve(a, np.ones(30), nullspace=np.ones((30, odd(c, 1, 2))), comm=c),
            "nullspace is 1 vectors",
        ),
        (
            lambda c: tacit.solve(a, np.ones(30), nullspace=odd(c, "constant", np.ones(30)), comm=c),
            "nullspace is const",
        ),
        (
            lambda c: tacit.solve(a, np.ones(30), nullspace=odd(c, np.ones(30), np.arange(30.0)), comm=c),
            "nullspace[0, 0]",
        ),
        (lambda c: tacit.solve(a, np.ones(30), nullspace=np.ones(odd(c, 30, 31)), comm=c), "rank 1: nullspace has 31"),
        (lambda c: tacit.solve(a, np.ones(odd(c, 30, 31)), comm=c), "rank 1: b has 31 elements"),
    ):
        found = told(call)
        assert found.startswith("ValueError: " + text), found


def test_functions_and_what_is_composed() -> None:
    def product(x: Any) -> Any:
        return 2 * x

    for call, text in (
        (lambda c: tacit.function((9, 9), product, rmatvec=odd(c, None, product), comm=c), "rmatvec is None on rank 0"),
        (lambda c: tacit.function((9, 9), product, dtype=odd(c, "float64", "complex128"), comm=c), "dtype is float64"),
        (lambda c: tacit.function((9, 9), product, local=bool(c.rank), comm=c), "local is False on rank 0 and True"),
        (lambda c: tacit.function((9, 9), product, offsets=odd(c, [0, 3, 6, 9], [0, 4, 6, 9]), comm=c), "offsets is"),
        (lambda c: tacit.solve(odd(c, 2.0, 3.0) * tacit.csr(laplacian(9), comm=c), np.ones(9)), "A is multiple of 2.0"),
        (lambda c: (odd(c, 2.0, 3.0) * tacit.csr(laplacian(9), comm=c)) @ np.ones(9), "A is multiple of 2.0"),
        (lambda c: tacit.csr(laplacian(9), comm=c).shifted(odd(c, 1.0, 2.0)) @ np.ones(9), "A is shift of"),
    ):
        found = told(call)
        assert found.startswith("ValueError: " + text), found


@pytest.mark.parametrize(
    "grids", [((12, 12), (20, 12)), ((12, 12), (12, 40)), ((60, 60), (12, 12)), ((40, 40), (40, 41))]
)
def test_grids(grids: Any) -> None:
    for make in (
        lambda c: tacit.stencil(odd(c, *grids), CROSS, comm=c),
        lambda c: tacit.poisson(odd(c, *grids), comm=c),
        lambda c: tacit.poisson(odd(c, *grids), assembled=True, comm=c),
        lambda c: multigrid.cells(odd(c, *grids), comm=c),
    ):
        assert told(make) == (
            f"ValueError: shape is {grids[0]} on rank 0 and {grids[1]} on rank 1; all ranks must give the same"
        )


def test_boundaries_and_coefficients() -> None:
    def cells(c: Comm, **options: Any) -> Any:
        return multigrid.cells((8, 8), comm=c, **options)

    for call, text in (
        (lambda c: tacit.stencil((9, 9), CROSS * odd(c, 1, 2), comm=c), "weights["),
        (lambda c: tacit.stencil((9, 9), CROSS, boundary=odd(c, "neumann", "periodic"), comm=c), "boundary is neumann"),
        (
            lambda c: tacit.stencil((9, 9), CROSS, scalar=odd(c, None, "complex64"), comm=c),
            "scalar is float64 on rank 0",
        ),
        (lambda c: tacit.poisson((9, 9), spacing=odd(c, 1.0, 0.5), comm=c), "spacing[0] is 1.0 on rank 0 and 0.5"),
        (lambda c: tacit.poisson((9, 9), shift=odd(c, 0.0, 0.5), comm=c), "shift[0] is 0.0 on rank 0 and 0.5"),
        (lambda c: tacit.poisson((9, 9), velocity=odd(c, None, 0.5), comm=c), "velocity is 0 numbers on rank 0 and 2"),
        (lambda c: cells(c, boundary=odd(c, "periodic", "dirichlet")), "boundary is [('periodic', 'periodic')"),
        (lambda c: cells(c, lengths=(1.0, odd(c, 1.0, 2.0))), "lengths[1] is 1.0 on rank 0 and 2.0"),
        (lambda c: cells(c, boxes=odd(c, None, 4)), "boxes is None on rank 0 and [4, 4, 1]"),
        (lambda c: multigrid.finite_volume(cells(c), a=odd(c, 1.0, 2.0)), "a is 1.0 on rank 0 and 2.0"),
        (lambda c: multigrid.finite_volume(cells(c), 1.0, odd(c, 1.0, 2.0)), "b beta is 1.0 on rank 0 and 2.0"),
        (lambda c: multigrid.finite_volume(cells(c), 1.0, alpha=odd(c, 1.0, lambda x, y: x)), "alpha is 1.0 on rank 0"),
        (lambda c: multigrid.finite_volume(cells(c), 1.0, dtype=odd(c, "float64", "float32")), "dtype is float64"),
        (
            lambda c: multigrid.solve(multigrid.finite_volume(cells(c), 1.0), np.full(64, odd(c, 1.0, 2.0))),
            "f[0] is 1.0",
        ),
    ):
        found = told(call)
        assert found.startswith("ValueError: " + text), found
    near = told(lambda c: tacit.poisson((9, 9), spacing=odd(c, 0.1, 0.1 * (1 + 4e-16)), comm=c) @ np.ones(81))
    assert near == "nothing was raised"


def test_applications_and_preconditioners() -> None:
    from tacit import bem, tomography

    x = np.linspace(0, 1, 60)
    sphere, angles = bem.sphere(2), np.linspace(0, 3, 8)

    def kernel(i: Any, j: Any) -> Any:
        return 1 / (0.1 + abs(x[i, None] - x[None, j]))

    for call, text in (
        (lambda c: tacit.hmatrix(x * odd(c, 1, 2), kernel, comm=c), "points[1, 0] is"),
        (lambda c: tacit.hmatrix(x, kernel, comm=c).coarse(odd(c, 1, 2)), "rank is 1 on rank 0 and 2 on rank 1"),
        (lambda c: bem.assemble(sphere, comm=c).solve(odd(c, 1.0, 2.0)), "potential[0] is 1.0 on rank 0 and 2.0"),
        (lambda c: bem.assemble(bem.sphere(odd(c, 2, 3)), comm=c), "vertices is an array of shape"),
        (lambda c: tomography.projector(angles * odd(c, 1, 2), 16, comm=c), "angles[1] is"),
        (lambda c: tomography.projector(angles, odd(c, 16, 20), comm=c), "the geometry's rows is 16 on rank 0 and 20"),
        (
            lambda c: tomography.projector(angles, 16, comm=c).project(np.ones((16, 16)) * odd(c, 1, 2)),
            "images[0, 0, 0]",
        ),
        (
            lambda c: tomography.reconstruct(np.ones((8, odd(c, 16, 18))), angles, comm=c),
            "sinograms is an array of shape",
        ),
        (lambda c: tomography.reconstruct(np.ones((8, 16)) * odd(c, 1, 2), angles, comm=c), "sinograms[0, 0] is 1.0"),
        (
            lambda c: tacit.precond.amg(tacit.poisson((9, 9), assembled=True, comm=c), np.ones(81) * odd(c, 1, 2)),
            "near_null[0, 0] is 1.0 on rank 0 and 2.0",
        ),
        (lambda c: tacit.precond.rigid_body_modes(np.eye(3)[:, : odd(c, 3, 2)], comm=c), "coordinates is 3 columns"),
    ):
        found = told(call)
        assert found.startswith("ValueError: " + text), found


def test_checksums() -> None:
    """They depend on every bit and its place; changes that cancel in a plain sum do not."""
    from tacit._alike import checksum

    rng = np.random.default_rng(0)
    values = rng.standard_normal(67)
    found = {checksum(values)}
    for i in range(len(values)):
        for bit in (0, 31, 52, 63):
            changed = values.copy()
            changed.view(np.uint64)[i] ^= np.uint64(1 << bit)
            found.add(checksum(changed))
    assert len(found) == 1 + 4 * len(values)
    pairs = [(i, j) for i in range(40) for j in range(i)]
    for i, j in pairs:
        swapped, signs = values.copy(), values.copy()
        swapped[[i, j]] = values[[j, i]]
        signs[[i, j]] *= -1
        found |= {checksum(swapped), checksum(signs)}
    assert len(found) == 1 + 4 * len(values) + 2 * len(pairs)
    lengths = {checksum(np.zeros(n, np.uint8)) for n in range(300)}
    assert len(lengths) == 300
    assert checksum(values[::2]) == checksum(values[::2].copy())
    table = rng.standard_normal((5, 3))
    assert checksum(np.asfortranarray(table)) == checksum(np.asfortranarray(table))
    assert all(-(2**63) <= one < 2**63 for one in found)


def test_only_real_numbers_may_differ_by_rounding() -> None:
    from tacit._alike import refuse_differences

    refuse_differences([{"damp": 1.0}, {"damp": 1 + 1e-14}])
    refuse_differences([{"rows": 10**15}, {"rows": 10**15}])
    with pytest.raises(ValueError, match="rows is 1000000000000000 on rank 0 and 1000000000000001 on rank 1"):
        refuse_differences([{"rows": 10**15}, {"rows": 10**15 + 1}])


def test_equal_arguments_take_one_reduction() -> None:
    """The digest travels in the agreement that ends a collective call: nothing is gathered."""

    def rank(comm: Comm) -> None:
        found = []
        kind = type(comm)

        class Counting:
            size, rank = comm.size, comm.rank

            def least(self, f: Any) -> Any:
                found.append("least")
                return kind.least(comm, f)

        from tacit._alike import Entries, Whole, alike

        a = laplacian(20)
        told = {"x": 1.5, "v": Whole(np.ones(1000)), "A": Entries((20, 20), a.indptr, a.indices, a.data)}
        _, first = alike(Counting(), lambda: None, lambda _: told)  # type: ignore[arg-type]
        assert first["x"] == 1.5
        assert found == ["least"]

    tacit.comm.run_threads(2, rank)


def test_a_rank_that_has_returned_ends_the_others() -> None:
    def rank(comm: Comm) -> str:
        A = tacit.csr(laplacian(50), comm=comm)
        if comm.rank == 1:
            return "has returned"
        first = raised(lambda: tacit.solve(A, np.ones(50)))
        assert "rank 1 has ended" in raised(lambda: A @ np.ones(50))  # again
        return first

    ended = tacit.comm.run_threads(3, rank)
    assert ended[1] == "has returned"
    for text in ended[::2]:
        assert text.startswith("EnvironmentFailure: ")
        assert "rank 1 has ended" in text


def test_between_processes(python: Run) -> None:
    python(
        """
        import numpy as np, scipy.sparse as sp, tacit
        w = tacit.comm.world()

        def laplacian(n):
            return sp.diags_array([-1.0, 2.5, -1.0], offsets=[-1, 0, 1], shape=(n, n)).tocsr()

        def refused(call):
            try:
                call()
            except ValueError as error:
                return "on rank 0 and" in str(error)

        n = 400 + 41 * (w.rank == 1)
        assert refused(lambda: tacit.solve(laplacian(n), np.ones(n), method="cg"))
        assert refused(lambda: tacit.solve(laplacian(400), np.ones(400) + (w.rank == 2)))
        assert refused(lambda: tacit.poisson((12, 12 + 8 * (w.rank == 1))))
        assert tacit.solve(laplacian(400), np.ones(400)).converged
        A = tacit.csr(laplacian(400))
        if w.rank != 1:  # which ends
            try:
                tacit.solve(A, np.ones(400))
            except RuntimeError as error:
                assert "rank 1 has ended" in str(error), error
            else:
                raise AssertionError("solved without rank 1")
        """,
        ranks=3,
    )
