"""H-matrices on one GPU and on several of a process: products and solves against dense matrices and the host.

Skipped as test_device.py is.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_device import counts

import tacit
from tacit.app import bem
from tacit.cli.command import main

GPUS = tacit.device.count()
pytestmark = pytest.mark.skipif(GPUS == 0, reason="no GPU, or a build without CUDA")

ALL = "cuda:" + ",".join(map(str, range(GPUS)))
LAST = f"cuda:{max(0, GPUS - 1)}"
PLACES = sorted({"cuda", LAST, ALL})
N = 300


def dense(scalar: str = "float64", spread: float = 1.0) -> np.ndarray:
    """1 / |x - y| on a spiral, with a diagonal that varies by the factor `spread`: not symmetric, and bicgstab takes a
    dozen iterations.
    """
    t = np.linspace(0, 1, N)
    p = np.stack([np.cos(9 * t), np.sin(9 * t), 2 * t], axis=1)
    distance = np.linalg.norm(p[:, None] - p[None, :], axis=2)
    np.fill_diagonal(distance, 1)
    a = (1 + 0.3 * t[:, None]) / (0.05 + distance)
    np.fill_diagonal(a, N / 2 * np.where(np.arange(N) % 7 == 0, spread, 1.0))
    return a.astype(scalar)


def compressed(a: np.ndarray, **options: Any) -> tacit.HMatrix:
    t = np.linspace(0, 1, N)
    p = np.stack([np.cos(9 * t), np.sin(9 * t), 2 * t], axis=1)
    tolerance = 1e-5 if a.dtype == np.float32 else 1e-9
    made: dict[str, Any] = {"tolerance": tolerance, "leaf_size": 20, **options}
    return tacit.hmatrix(p, lambda i, j: a[np.ix_(i, j)], **made)


def right_hand_side(scalar: str = "float64") -> np.ndarray:
    return np.random.default_rng(3).standard_normal(N).astype(scalar)


@pytest.mark.parametrize("device", PLACES)
@pytest.mark.parametrize("scalar", ["float32", "float64"])
def test_products(device: str, scalar: str) -> None:
    a = dense(scalar)
    H = compressed(a)
    A = H.to(device)
    assert isinstance(A, tacit.DeviceHMatrix)
    assert A.device == ("cuda:0" if device == "cuda" else device)
    assert A.device in repr(A)
    assert (A.shape, A.dtype, A.tolerance) == (H.shape, H.dtype, H.tolerance)
    x = np.random.default_rng(1).standard_normal((N, 3)).astype(scalar)
    unit = np.finfo(scalar).eps
    for given in (x[:, 0], x):
        y = A @ given
        assert (y.shape, y.dtype) == (given.shape, given.dtype)
        np.testing.assert_allclose(y, H @ given, atol=100 * unit * abs(y).max())
        np.testing.assert_allclose(y, a @ given, atol=10 * H.tolerance * np.linalg.norm(a))
    np.testing.assert_allclose(A @ (x[:, 0] + 1j * x[:, 1]), A @ x[:, 0] + 1j * (A @ x[:, 1]))
    assert np.array_equal(A.diagonal(), H.diagonal())
    count = 1 if device == "cuda" else len(device.split(","))
    assert len(A.bytes) == len(A.row_ranges) == count
    assert sum(A.bytes) == pytest.approx(H.report["bytes"])
    assert A.report == H.report


@pytest.mark.parametrize("device", PLACES)
@pytest.mark.parametrize("method", ["auto", "bicgstab", "pipelined-bicgstab"])
@pytest.mark.parametrize("precond", [None, "jacobi", tacit.precond.Jacobi()])
def test_solves_as_the_host_does(device: str, method: str, precond: Any) -> None:
    a = dense(spread=30)
    H, b = compressed(a), right_hand_side()
    named = "bicgstab" if method == "auto" else method
    options: dict[str, Any] = {"precond": precond, "rtol": 1e-8, "fallbacks": False}
    expected = tacit.solve(H, b, method=named, **options)
    A = H.to(device)
    for found in (
        tacit.solve(A, b, method=method, **options),
        tacit.solve(H, b, method=method, device=device, **options),
    ):
        assert found.converged
        assert (found.method, found.precond, found.device) == (named, expected.precond, A.device)
        assert abs(found.iterations - expected.iterations) <= 2
        assert np.linalg.norm(b - a @ found.x) <= 1.1e-8 * np.linalg.norm(b)
        assert found.traffic is not None
        assert found.traffic["reads"] >= 2 * found.iterations
        assert found.traffic["waits"] > 0
        assert found.counts["reductions"] == 0
    # A good guess needs no iteration; nor does a column of zeros.
    again = tacit.solve(A, b, found.x, method=method, precond=precond, rtol=1e-7)
    assert again.iterations == 0
    many = tacit.solve(A, np.stack([b, 0 * b], axis=1), method=method, **options)
    assert [c.converged for c in many.columns] == [True, True]
    np.testing.assert_allclose(many.x[:, 0], found.x, rtol=1e-5, atol=1e-7)
    assert not many.x[:, 1].any()


def test_jacobi_shows() -> None:
    """Otherwise the test above tells nothing of it; the same object serves several solves."""
    a = dense(spread=1e3)
    A, b = compressed(a).to(ALL), right_hand_side()
    plain = tacit.solve(A, b, fallbacks=False)
    P = tacit.precond.make(A, "jacobi")
    np.testing.assert_allclose(P @ b, b / np.diag(a), rtol=1e-14)
    for _ in range(2):
        scaled = tacit.solve(A, b, precond=P, fallbacks=False)
        assert scaled.converged
        assert scaled.iterations < plain.iterations
    with pytest.raises(tacit.UsageError, match="made for another matrix"):
        tacit.solve(compressed(a).to(ALL), b, precond=P)


def test_paths_and_overlaps_have_the_same_bits() -> None:
    H, b = compressed(dense()), right_hand_side()
    pipelined = "pipelined-bicgstab"
    for method, work in (("bicgstab", "redundant"), (pipelined, "redundant"), (pipelined, "shared")):
        results = []
        for path in ("host", "copy", "peer"):
            A = H.to(ALL, path=path, work=work, overlap="copy")
            assert (A.path, A.deal, A.work, A.overlap) == (path, "rows", work, "copy")
            results.append(tacit.solve(A, b, method=method))
            if method == pipelined:
                A.overlap = "gather"
                results.append(tacit.solve(A, b, method=method))
        assert all(r.converged for r in results)
        for r in results[1:]:
            assert np.array_equal(r.x, results[0].x), (method, work)
            assert np.array_equal(r.history, results[0].history)
        # By "host" the GPUs exchange nothing among themselves.
        assert results[0].traffic["between"] == 0
        if GPUS > 1:
            assert results[-1].traffic["between"] > 0
    other = H.to(ALL, deal="round_robin")
    assert other.deal == "round_robin"
    np.testing.assert_allclose(other @ b, H @ b, atol=1e-10 * N)


def test_copies_are_those_of_the_documentation() -> None:
    """A product: the own rows to the host, y to the first GPU and from there to the others, and what is added."""
    A = compressed(dense()).to(ALL)
    b = right_hand_side()
    A @ b
    before, of_runtime = A.traffic, counts()
    A @ b
    now = counts()
    told = {name: value - before[name] for name, value in A.traffic.items()}
    adding = sum(end > begin for begin, end in A.row_ranges[1:])
    assert told["to_host"] == 1 + 1  # and y at the end
    assert told["to_devices"] == 1 + 1  # and x at first
    assert told["between"] == adding + 2 * (GPUS - 1)
    assert told["bytes_to_host"] == 2 * 8 * N
    assert told["reads"] == 0
    for name in ("bytes_to_host", "bytes_to_devices"):  # what the stand-in has counted
        theirs = name.replace("devices", "device")
        assert told[name] == getattr(now, theirs) - getattr(of_runtime, theirs)


def test_moves() -> None:
    H = compressed(dense())
    A = H.to("cuda")
    assert H.to("host") is H
    assert A.to("host") is H
    assert A.to("cuda") is A
    assert A.to(A.device) is A
    moved = A.to(ALL, path="copy")
    assert moved.device == ALL
    assert moved.path == "copy"
    assert A.to(A.device, work="shared").work == "shared"


def test_callbacks_see_iterates() -> None:
    a, b = dense(), right_hand_side()
    A = compressed(a).to(ALL)
    seen: list[tuple[int, np.ndarray]] = []
    result = tacit.solve(A, b, callback=lambda s: seen.append((s.iteration, s.x)))
    assert result.converged
    assert seen[-1][0] == result.iterations
    assert np.linalg.norm(b - a @ seen[-1][1]) <= 1e-7 * np.linalg.norm(b)
    assert tacit.solve(A, b, callback=lambda s: s.iteration == 2).reason == "stopped"


@pytest.mark.parametrize("device", sorted({"cuda", ALL}))
def test_ranks_of_threads(device: str) -> None:
    """x and b whole, or each rank's own part; GPUs of their own, or shared ones."""
    a, b = dense(), right_hand_side()
    expected = tacit.solve(compressed(a), b, method="bicgstab", precond="jacobi")

    def rank(comm: Any) -> Any:
        A = compressed(a, comm=comm).to(device)
        begin, end = A.own_range
        whole = tacit.solve(A, b, precond="jacobi")
        parts = []
        own = tacit.solve(A, b[begin:end], precond="jacobi", callback=lambda s: parts.append(s.x))
        assert np.array_equal(own.x, whole.x[begin:end])
        assert parts[-1].shape == own.x.shape
        np.testing.assert_allclose(A @ b, a @ b, atol=1e-6)
        np.testing.assert_allclose(A @ b[begin:end], (a @ b)[begin:end], atol=1e-6)
        assert np.array_equal(A.diagonal(), np.diag(a))
        pipelined = [
            tacit.solve(A.to(A.device, overlap=o), b, method="pipelined-bicgstab").x for o in ("copy", "gather")
        ]
        assert np.array_equal(*pipelined)
        return A.device, whole

    results = tacit.comm.run_threads(2, rank)
    assert np.array_equal(results[0][1].x, results[1][1].x)
    for r, (place, found) in enumerate(results):
        assert place == (f"cuda:{r % GPUS}" if device == "cuda" else device)
        assert found.converged
        assert abs(found.iterations - expected.iterations) <= 2
        assert np.linalg.norm(b - a @ found.x) <= 1.1e-8 * np.linalg.norm(b)


def test_refused() -> None:
    H, b = compressed(dense()), right_hand_side()
    A = H.to("cuda")
    for use in (lambda **o: tacit.solve(A, b, **o), lambda **o: tacit.solve(H, b, device="cuda", **o)):
        with pytest.raises(ValueError, match=r"method is 'gmres'; .* bicgstab and pipelined-bicgstab"):
            use(method="gmres")
        for precond in ("hlu", {"name": "block-jacobi"}, tacit.precond.Hlu()):
            with pytest.raises(ValueError, match="works in host memory; an H-matrix on GPUs has none, jacobi"):
                use(precond=precond)
        with pytest.raises(ValueError, match="precond is in host memory"):
            use(precond=tacit.precond.make(H, "jacobi"))
        with pytest.raises(ValueError, match="nullspace works in host memory"):
            use(nullspace="constant")
        with pytest.raises(ValueError, match="named"):
            use(precond=lambda x: x)
    with pytest.raises(ValueError, match="takes NumPy arrays"):
        tacit.solve(A, tacit.device_array(b))
    with pytest.raises(ValueError, match="takes NumPy arrays"):
        A @ tacit.device_array(b)
    with pytest.raises(ValueError, match="block-jacobi"):
        tacit.precond.make(A, "block-jacobi")
    for compose in (lambda: A.T, lambda: A.H, lambda: A @ A, lambda: A + A, lambda: A.shifted(1.0), lambda: H @ A):
        with pytest.raises(ValueError, match=r"A.to\('host'\)|in the memory of"):
            compose()
    with pytest.raises(tacit.UsageError, match="no adjoint product"):
        b @ A
    with pytest.raises(ValueError, match="unknown path 'direct'"):
        H.to("cuda", path="direct")
    with pytest.raises(ValueError, match="unknown work"):
        A.work = "none"
    with pytest.raises(AttributeError):
        A.path = "host"  # type: ignore[misc]
    with pytest.raises(ValueError, match="path is of an H-matrix on GPUs; the device is 'host'"):
        H.to("host", path="peer")
    with pytest.raises(TypeError, match="paths"):
        H.to("cuda", paths="peer")
    with pytest.raises(ValueError, match="both; make it with symmetry='none'"):
        compressed((dense() + dense().T) / 2, symmetry="symmetric").to("cuda")
    with pytest.raises(ValueError, match="complex128"):
        compressed(dense().astype(complex)).to("cuda")


def test_names_of_several_gpus() -> None:
    H = compressed(dense())
    with pytest.raises(ValueError, match="this process sees"):
        H.to(f"cuda:0,{GPUS}")
    with pytest.raises(ValueError, match="each GPU is named once"):
        H.to("cuda:0,0")
    for wrong in ("cuda:", "cuda:0,", "cuda:0;1", "host:0,1", "cuda:-1"):
        with pytest.raises(ValueError, match="unknown device"):
            H.to(wrong)
    with pytest.raises(ValueError, match="several GPUs together are for H-matrices"):
        tacit.csr(np.eye(3), device="cuda:0,1")
    with pytest.raises(ValueError, match="several GPUs together are for H-matrices"):
        tacit.solve(np.eye(3), np.ones(3), device="cuda:0,1")


@pytest.mark.parametrize("device", PLACES)
def test_boundary_elements_are_solved_there(device: str) -> None:
    mesh = bem.sphere_pair(4, radius=1.0, distance=3.0)
    host = bem.assemble(mesh, tolerance=1e-6)
    expected = host.solve([1.0, -1.0])
    assert (expected.device, expected.traffic) == ("host", None)
    system = bem.assemble(mesh, tolerance=1e-6, device=device)
    assert isinstance(system.A, tacit.DeviceHMatrix)
    for method in ("bicgstab", "pipelined-bicgstab"):
        charges = system.solve([1.0, -1.0], method=method)
        assert charges.converged
        assert charges.device == system.A.device
        assert abs(charges.iterations - expected.iterations) <= 2
        assert charges.traffic["waits"] > 0
        np.testing.assert_allclose(charges.charge, expected.charge, rtol=1e-5)
    # What is claimed is true for the host's matrix: b - A x there.
    phi = host._right_side(np.where(mesh.component == 0, 1.0, -1.0))
    x = (charges.density * host.weight)[host.order]
    assert np.linalg.norm(phi - host.A @ x) <= 1e-5 * np.linalg.norm(phi)
    floating = system.solve(1.0, floating=[1])
    np.testing.assert_allclose(floating.potential, host.solve(1.0, floating=[1]).potential, rtol=1e-5)
    np.testing.assert_allclose(system.capacitance().matrix, host.capacitance().matrix, rtol=1e-4)
    assert system.product_seconds(1) > 0


def test_boundary_elements_say_where() -> None:
    mesh = bem.sphere(3)
    here = bem.assemble(mesh, assembly="cuda")  # on the GPU, solved on the host
    assert isinstance(here.A, tacit.HMatrix)
    assert here.solve(1.0, precond="hlu").converged
    there = bem.assemble(mesh, assembly="host", device="cuda", compression="svd", path="copy", work="shared")
    assert (there.A.path, there.A.work) == ("copy", "shared")
    assert there.solve(1.0).converged
    with pytest.raises(ValueError, match="assembly='cuda' in place of device"):
        there.solve(1.0, precond="hlu")
    # Before anything is assembled.
    with pytest.raises(ValueError, match="assembly='cuda' in place of device"):
        bem.solve(None, device="cuda", method="cg")
    with pytest.raises(ValueError, match="galerkin stores one; take collocation"):
        bem.assemble(mesh, device="cuda", discretisation="galerkin")
    with pytest.raises(ValueError, match="path is of a matrix on GPUs"):
        bem.assemble(mesh, path="peer")


def test_command(tmp_path: Path, capsys: Any, python: Callable[..., Any]) -> None:
    out = tmp_path / "out.json"

    def said(words: str) -> dict[str, Any]:
        assert main(["bem", "sphere:4", "--json", str(out), *words.split()]) == 0
        found: dict[str, Any] = json.loads(out.read_text())
        return found

    host, there = said(""), said(f"--device {ALL} --method pipelined-bicgstab --overlap copy --path host --work shared")
    assert host["device"] == "host"
    assert "traffic_per_iteration" not in host
    assert (there["device"], there["path"], there["work"], there["overlap"]) == (ALL, "host", "shared", "copy")
    assert there["deal"] == "rows"
    assert [len(one["bytes"]) for one in there["device_bytes"]] == [GPUS]
    assert sum(there["device_bytes"][0]["bytes"]) == pytest.approx(there["matrix_bytes"])
    assert there["traffic_per_iteration"]["between"] == 0
    assert there["traffic_per_iteration"]["waits"] > 2
    np.testing.assert_allclose(there["charge"], host["charge"], rtol=1e-3)
    shown = capsys.readouterr().out
    assert f"{ALL} (" in shown
    assert "waits an iteration" in shown
    for words, text in (
        ("--device cuda --precond hlu", "--assembly cuda without --device"),
        ("--device cuda --method gmres", "bicgstab and pipelined-bicgstab"),
        ("--path peer", "--path is for --device cuda"),
        ("--device cuda:0,0", "each GPU is named once"),
        ("--device cuda:x", "cuda:N,N"),
    ):
        try:
            code = main(["bem", "sphere:4", *words.split()])
        except SystemExit as end:
            code = end.code
        assert code == 2, words
        assert text in capsys.readouterr().err, words
    arguments = ["bem", "sphere:4", "--device", "cuda", "--ranks", "2", "--json", str(out)]
    python(f"import sys; from tacit.cli.command import main; sys.exit(main({arguments!r}))")
    on_ranks = json.loads(out.read_text())
    assert [one["device"] for one in on_ranks["device_bytes"]] == [f"cuda:{r % GPUS}" for r in range(2)]
    np.testing.assert_allclose(on_ranks["charge"], host["charge"], rtol=1e-3)
