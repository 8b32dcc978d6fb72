"""Numbers that change in memory: a solve never claims to have converged with them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import SCALARS, Run, as_scalar, laplacian

import tacit

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for numbers in /proc/self/mem")

N = 20


def matrix(scalar: str = "float64") -> sp.csr_array:
    """Positive definite; no two numbers on its diagonal are alike."""
    scale = sp.diags_array(1 + 0.2 * np.random.default_rng(0).random(N * N))
    return sp.csr_array(as_scalar(sp.csr_array(scale @ (laplacian(N, N) + sp.eye_array(N * N)) @ scale), scalar))


def places(pattern: bytes, *mine: np.ndarray) -> list[int]:
    """Addresses of these bytes in the memory of this process that can be written, but for those in `mine`."""
    own = [(a.__array_interface__["data"][0], a.__array_interface__["data"][0] + a.nbytes) for a in mine]
    found = []
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
        for line in maps:
            span, mode = line.split()[:2]
            begin, end = (int(x, 16) for x in span.split("-"))
            if "rw" not in mode or "[v" in line or end - begin > 1 << 28:
                continue
            memory.seek(begin)
            try:
                data = memory.read(end - begin)
            except OSError:
                continue
            at = data.find(pattern)
            while at >= 0:
                address = begin + at
                if address % 4 == 0 and not any(low <= address < high for low, high in own):
                    found.append(address)
                at = data.find(pattern, at + 1)
    del data
    return found


class Bit:
    """A bit of a number in memory, and the number's bytes: it is changed, and changed back, only while these are what
    is there, since the place may have been given to something else.
    """

    def __init__(self, address: int, number: bytes, bit: int) -> None:
        self.address, self.number = address, number
        changed = bytearray(number)
        changed[bit // 8] ^= 1 << bit % 8
        self.changed = bytes(changed)

    def _replace(self, there: bytes, by: bytes) -> None:
        with open("/proc/self/mem", "rb+", 0) as memory, suppress(OSError):
            memory.seek(self.address)
            if memory.read(len(there)) == there:
                memory.seek(self.address)
                memory.write(by)

    def __enter__(self) -> None:
        self._replace(self.number, self.changed)

    def __exit__(self, *_: object) -> None:
        self._replace(self.changed, self.number)

    def in_third_step(self) -> Callable[[Any], None]:
        """A callback of a solve."""
        calls = 0

        def call(_: Any) -> None:
            nonlocal calls
            calls += 1
            if calls == 3:
                self.__enter__()

        return call


def bits(S: sp.csr_array, *which: int, row: int = 50, number: bytes = b"") -> list[Bit]:
    """These bits of the number on a row of the diagonal of S, wherever it stands in memory, except in S."""
    number = number or S[row, row].real.tobytes()
    return [Bit(address, number, bit) for address in places(number, S.data) for bit in which]


@pytest.mark.slow
@pytest.mark.parametrize("scalar", SCALARS)
@pytest.mark.parametrize("format", ["csr", "sell", "bsr"])
def test_a_changed_number_of_a_csr_matrix_is_named(format: str, scalar: str) -> None:
    S = matrix(scalar)
    if format == "bsr":
        S = sp.csr_array(sp.kron(S, np.array([[2.0, 1.0], [1.0, 3.0]])).astype(scalar))
    A, b = tacit.csr(S, format=format), np.ones(S.shape[0], scalar)
    options: dict[str, Any] = {"method": "cg", "precond": "none", "rtol": 1e-4}
    assert tacit.solve(A, b, **options).converged
    width = S.data.real.dtype.itemsize * 8
    reasons = []
    for bit in bits(S, 2, width - 10, row=51):
        r = tacit.solve(A, b, callback=bit.in_third_step(), **options)
        reasons.append(r.reason)
        assert np.all(np.isfinite(r.x))
        if r.reason == "damaged":
            assert np.isnan(r.residual_norm)
            assert r.info == -4
            assert "rank 0" in r.detail
            assert "memory" in r.advice
        bit.__exit__()
        assert tacit.solve(A, b, **options).converged  # as soon as the number is what it was
    # The other copies are of the diagonal alone, which preconditioners take.
    assert reasons.count("damaged") >= 2, reasons


@pytest.mark.slow
def test_a_failure_is_damage_too() -> None:
    S = matrix()
    A, b = tacit.csr(S), np.ones(N * N)
    limits: list[dict[str, Any]] = [{"max_iterations": 5}, {"rtol": 0.0}, {"restart": 5, "max_iterations": 12}]
    for more, method in zip(limits, ("cg", "cg", "gmres"), strict=True):
        plain = tacit.solve(A, b, method=method, precond="none", **more)
        assert plain.reason in ("max_iterations", "stagnated"), plain.summary()
        reasons = set()
        for bit in bits(S, 60):
            with bit:
                reasons.add(tacit.solve(A, b, method=method, precond="none", **more).reason)
        assert "damaged" in reasons
        assert "converged" not in reasons


def test_a_changed_place_is_named() -> None:
    S = matrix()
    A, b = tacit.csr(S, format="csr"), np.ones(N * N)
    assert "16-bit" in A.storage
    offsets = (S.indices - np.repeat(np.arange(N * N), np.diff(S.indptr))).astype(np.int16)
    reasons = set()
    for bit in bits(S, 1, number=offsets[1000:1040].tobytes()):  # 2 columns to the right or left
        with bit:
            reasons.add(tacit.solve(A, b, method="cg", precond="none").reason)
    assert "damaged" in reasons
    assert tacit.solve(A, b, method="cg", precond="none").converged


MAKERS: dict[str, Callable[[sp.csr_array], Any]] = {
    "sum": lambda S: tacit.csr(S) + tacit.csr(sp.csr_array(sp.eye_array(N * N))),
    "product": lambda S: tacit.csr(S) @ tacit.csr(S),
    "adjoint": lambda S: tacit.csr(S).H,
    "transpose": lambda S: tacit.csr(S).T,
    "shifted": lambda S: tacit.csr(S).shifted(1.0),
    "multiple": lambda S: 2 * tacit.csr(S),
    "tiled": lambda S: tacit.tiled(S),
    "tiled float32 values": lambda S: tacit.tiled(S, values="float32"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", MAKERS)
def test_operators_made_of_matrices_see_it(kind: str) -> None:
    S = matrix()
    A, b = MAKERS[kind](S), np.ones(N * N)
    assert tacit.solve(A, b, method="cg", precond="none").converged  # what is made at the first product is there
    number = S[50, 50]
    pattern = np.float32(number).tobytes() if "float32" in kind else np.float64(number).tobytes()
    reasons = []
    for bit in bits(S, 21 if "float32" in kind else 50, number=pattern):
        with bit:
            reasons.append(tacit.solve(A, b, method="cg", precond="none").reason)
    assert "damaged" in reasons


def test_hmatrices_see_it() -> None:
    points = np.random.default_rng(0).random((300, 3))

    def entries(i: np.ndarray, j: np.ndarray) -> np.ndarray:
        distance = np.linalg.norm(points[i][:, None] - points[j][None], axis=2)
        return 1 / (0.1 + distance) + (distance == 0) * (40 + points[i][:, :1])

    A = tacit.hmatrix(points, entries, tolerance=1e-12)
    number = entries(np.array([17]), np.array([17]))[0, 0].tobytes()
    options: dict[str, Any] = {"method": "gmres", "precond": "none", "rtol": 1e-6}
    assert tacit.solve(A, np.ones(300), **options).converged
    reasons = set()
    for address in places(number, points):
        with Bit(address, number, 50):
            reasons.add(tacit.solve(A, np.ones(300), **options).reason)
    assert "damaged" in reasons


def test_cells_see_it() -> None:
    from tacit.app import multigrid as mg

    for stencil in ("7-point", "fourth-order"):
        A = mg.finite_volume(mg.cells((16, 16)), a=1.0, b=0.01, alpha=lambda x, y: 1 + x * y + y / 7, stencil=stencil)
        f = np.ones(256)
        M = mg.multigrid(A)
        assert tacit.solve(A, f, method="gmres", precond="none").converged
        assert M.solve(f).converged
        number = np.ascontiguousarray(tacit.Csr(A._handle.assemble(), A.comm, A.dtype).to_scipy().diagonal())[
            77
        ].tobytes()
        if stencil == "fourth-order":  # alpha of a cell times its volume, as it is stored
            at = A.sample(lambda x, y: 1 + x * y + y / 7)
            number = at[77].tobytes()
        reasons = set()
        for address in places(number):
            with Bit(address, number, 50):
                reasons.add(tacit.solve(A, f, method="gmres", precond="none").reason)
                reasons.add("cycles: " + M.solve(f).reason)
        assert {"damaged", "cycles: damaged"} <= reasons, (stencil, reasons)


def test_a_changed_right_hand_side_is_named() -> None:
    S, rng = matrix(), np.random.default_rng(5)
    A, b = tacit.csr(S), rng.random(N * N)
    number = b[77].tobytes()
    changed: list[Bit] = []
    calls = 0

    def callback(_: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            changed.extend(Bit(at, number, 50) for at in places(number, b, np.frombuffer(number, np.uint8)))
            for bit in changed:
                bit.__enter__()

    r = tacit.solve(A, b, method="cg", precond="none", callback=callback)
    for bit in changed:
        bit.__exit__()
    assert changed
    assert r.reason == "damaged"


def test_auto_and_columns_end_at_once() -> None:
    S = matrix()
    A = tacit.csr(S)
    b = np.ones(N * N)
    results = []
    for bit in bits(S, 50):
        with bit:
            results.append((tacit.solve(A, b), tacit.solve(A, np.outer(b, [1.0, 2.0]), method="cg", precond="none")))
    assert any(r.reason == "damaged" and many.reason == "damaged" for r, many in results)
    for r, _ in results:
        if r.reason == "damaged":
            assert np.isnan(r.residual_norm)
            assert "then" not in r.choice


def test_update_values_makes_it_whole() -> None:
    S = matrix()
    A, b = tacit.csr(S), np.ones(N * N)
    for bit in bits(S, 50):
        bit.__enter__()
    assert tacit.solve(A, b, method="cg", precond="none").reason == "damaged"
    A.update_values(S.data)
    assert tacit.solve(A, b, method="cg", precond="none").converged
    A.update_values(2 * S.data)
    assert tacit.solve(A, b, method="cg", precond="none").converged


def test_all_ranks_name_the_rank(python: Run) -> None:
    done = python(
        """
        import os, sys; sys.path.insert(0, os.environ["TESTS"])
        import numpy as np, tacit, test_damage as d
        comm = tacit.comm.world()
        S = d.matrix()
        A, b = tacit.csr(S), np.ones(d.N * d.N)
        assert tacit.solve(A, b, method="cg", precond="none").converged
        row = 50 + 200 * comm.rank
        found = d.bits(S, 50, row=row) if comm.rank == 1 else []
        many = int(comm.all_max_real(float(len(found))))
        assert many > 0
        reasons = []
        for k in range(many):
            if k < len(found): found[k].__enter__()
            r = tacit.solve(A, b, method="cg", precond="none")
            g = tacit.solve(A, b, method="gmres", precond="none", restart=5, max_iterations=12)
            if k < len(found): found[k].__exit__()
            reasons.append((r.reason, g.reason))
            if r.reason == "damaged": assert "rank 1 " in r.detail, r.detail
        assert ("damaged", "damaged") in reasons, reasons
        assert tacit.solve(A, b, method="cg", precond="none").converged
        """,
        ranks=2,
        TESTS=str(Path(__file__).parent),
    )
    assert done.returncode == 0
