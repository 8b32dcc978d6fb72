"""Applications with device="cuda": the results of the host. Skipped as test_device.py is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from test_device import counts

import tacit
from tacit.app import bem, inference, tomography
from tacit.app import multigrid as mg
from tacit.cli.command import main

pytestmark = pytest.mark.skipif(tacit.device.count() == 0, reason="no GPU, or a build without CUDA")

LAST = f"cuda:{max(0, tacit.device.count() - 1)}"
BEYOND = f"cuda:{tacit.device.count()}"


def images(count: int, neurons: int, seed: int = 0) -> np.ndarray:
    """Thin ones, whose outputs vanish, and fuller ones."""
    rng = np.random.default_rng(seed)
    return rng.random((count, neurons)) < rng.uniform(0.01, 0.15, (count, 1))


@pytest.mark.parametrize("device", ["cuda", LAST])
@pytest.mark.parametrize("weight_bytes", [0, 60_000])
def test_networks_have_the_categories_of_the_host(device: str, weight_bytes: float) -> None:
    """Streamed and kept, packed and in numbers, with a panel and a group that divide nothing."""
    made = {"neurons": 128, "layers": 9, "radices": (2, 2, 2), "weight": 0.11, "weight_bytes": weight_bytes}
    host, net = inference.radixnet(**made), inference.radixnet(**made, device=device)
    assert host.device == "host"
    assert net.device == ("cuda:0" if device == "cuda" else device)
    assert net.streams == (weight_bytes > 0)
    assert net.device in repr(net)
    given = images(150, 128)
    options = {"bias": -0.2, "keep_outputs": True, "report_layers": True}
    expected = host.infer(given, **options)
    assert 0 < len(expected.categories) < 150
    for more in ({}, {"panel": 48, "group": 2}):
        for packed in (False, True):
            taken = np.packbits(given, axis=1) if packed else given.astype(np.float32)
            found = net.infer(taken, packed=packed, **options, **more)
            assert np.array_equal(found.categories, expected.categories)
            assert np.array_equal(found.outputs, expected.outputs)
            assert np.array_equal(found.alive, expected.alive)
            np.testing.assert_allclose(found.sums, expected.sums, rtol=1e-6)
            assert found.edges == expected.edges >= found.edges_worked
    assert net.infer(given, bias=-0.2, callback=lambda layers, alive: True).layers_done < 9


def test_a_kept_network_copies_images_and_flags_only() -> None:
    net = inference.radixnet(1024, 6, device="cuda")
    given = np.packbits(images(64, 1024), axis=1)
    net.infer(given, packed=True)
    before = counts()
    net.infer(given, packed=True)
    after = counts()
    assert after.bytes_to_device - before.bytes_to_device == given.nbytes
    assert after.bytes_to_host - before.bytes_to_host == 64 * 4  # a flag for each image
    assert after.launches - before.launches == 1 + 6  # the images as columns, and a layer each
    assert after.waits - before.waits <= 2 + 1


@pytest.mark.parametrize("method", ["cgls", "sirt"])
@pytest.mark.parametrize("scalar", ["float32", "float64"])
def test_reconstructions_are_those_of_the_host(method: str, scalar: str) -> None:
    angles = np.linspace(0, np.pi, 30, endpoint=False)
    made: dict[str, Any] = {"image": (28, 32), "centre": 15.8, "columns": 3, "dtype": scalar}
    host = tomography.projector(angles, 32, format="list", **made)
    P = tomography.projector(angles, 32, device=LAST, **made)
    assert (host.device, P.device, P.nnz) == ("host", LAST, host.nnz)
    assert "staged" in P.storage
    assert LAST in repr(P)
    x = np.random.default_rng(3).random((3, 28, 32)).astype(scalar)
    b = host.project(x)
    unit = 50 * np.finfo(scalar).eps
    np.testing.assert_allclose(P.project(x), b, rtol=unit, atol=unit * b.max())
    np.testing.assert_allclose(P.backproject(b), host.backproject(b), rtol=unit, atol=unit * 30 * b.max())
    options: dict[str, Any] = {"method": method, "iterations": 5, "start": 0.5 * np.ones_like(x), "batch": 2}
    expected = tomography.reconstruct(b, projector=host, **options)
    found = tomography.reconstruct(b, projector=P, **options)
    assert found.slice_iterations == expected.slice_iterations
    assert found.end == expected.end
    np.testing.assert_allclose(found.images, expected.images, atol=1e3 * unit)
    # What is claimed is true, recomputed with the host's matrix.
    true = np.linalg.norm((b - host.project(found.images)).reshape(3, -1), axis=1)
    np.testing.assert_allclose(found.final_residual, true, atol=unit * np.linalg.norm(b))


def test_an_iteration_of_cgls_copies_numbers_by_slice_only() -> None:
    """Per iteration: step lengths, shares of the first gradient and factors go there; three sums come back."""
    angles = np.linspace(0, np.pi, 30, endpoint=False)
    P = tomography.projector(angles, 32, columns=4, device="cuda")
    b = P.project(np.random.default_rng(0).random((4, 32, 32)))

    def asked(iterations: int) -> Any:
        before = counts()
        tomography.reconstruct(b, projector=P, iterations=iterations)
        after = counts()
        return np.array([getattr(after, name) - getattr(before, name) for name in told])

    told = ("bytes_to_device", "bytes_to_host", "waits", "launches")
    asked(2)
    to_device, to_host, waits, launches = asked(6) - asked(5)
    assert to_device == 3 * 4 * 4  # float32
    assert to_host == 4 * 4 * 8  # |q|^2, |r|^2, |s|^2 and s along the first gradient, in double
    assert launches == 2 + 3 + 4 * 2  # two products, three updates, two launches for each sum, one of which updates r
    assert waits == 3 + 4  # each of these copies


def test_reconstruction_on_ranks_of_threads() -> None:
    angles = np.linspace(0, np.pi, 20, endpoint=False)
    x = np.random.default_rng(1).random((2, 24, 24))
    host = tomography.projector(angles, 24, format="list", columns=2, dtype="float64")
    b = host.project(x)
    expected = tomography.reconstruct(b, projector=host, iterations=4)

    def rank(comm: Any) -> tuple[str, np.ndarray]:
        P = tomography.projector(angles, 24, columns=2, dtype="float64", device="cuda", comm=comm, groups=[3])
        return P.device, tomography.reconstruct(b, projector=P, iterations=4).images

    for r, (device, found) in enumerate(tacit.comm.run_threads(3, rank)):
        assert device == f"cuda:{r % tacit.device.count()}"
        np.testing.assert_allclose(found, expected.images, atol=1e-9)


@pytest.mark.parametrize("cycle", ["V", "W", "F"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_multigrid_solves_as_the_host_does(cycle: str, dtype: str) -> None:
    A = mg.finite_volume(mg.cells((24, 20), "dirichlet"), beta=lambda x, y: 1 + x + y * y, dtype=dtype)
    f = A.sample(lambda x, y: np.sin(5 * x) - y)
    rtol = 1e-5 if dtype == "float32" else 1e-10
    options: dict[str, Any] = {"cycle": cycle, "rtol": rtol}
    expected = mg.solve(A, f, **options)
    for x0 in (None, np.ones_like(f)):
        found = mg.solve(A, f, device=LAST, bottom_cells=40, x0=x0, **options)
        assert found.converged
        assert found.cycles <= expected.cycles + 2
        assert np.abs(f - A @ found.x).max() <= 2 * rtol * np.abs(f).max()
        np.testing.assert_allclose(found.x, expected.x, atol=100 * rtol * np.abs(expected.x).max())


def test_assembly_has_the_hosts_entries() -> None:
    mesh = bem.sphere(4)
    expected = bem.assemble(mesh, tolerance=1e-6).solve(1.0).charge
    for device in ("cuda", LAST):
        system = bem.assemble(mesh, tolerance=1e-6, device=device)
        np.testing.assert_allclose(system.solve(1.0).charge, expected, rtol=1e-5)


@pytest.mark.parametrize(
    "use",
    [
        lambda device: inference.radixnet(64, 2, radices=(2, 2), device=device),
        lambda device: tomography.projector([0.0, 1.0], 8, device=device),
        lambda device: mg.solve(A := mg.finite_volume(mg.cells((8, 8), "dirichlet")), A.sample(np.add), device=device),
        lambda device: bem.assemble(bem.sphere(2), device=device),
    ],
)
def test_devices_have_one_meaning(use: Callable[[Any], Any]) -> None:
    with pytest.raises(ValueError, match="this process sees"):
        use(BEYOND)
    with pytest.raises(ValueError, match="unknown device 'gpu'"):
        use("gpu")
    with pytest.raises(TypeError, match="device is 1"):
        use(1)


def test_what_a_device_does_not_store_is_refused() -> None:
    def on_ranks(comm: Any) -> None:
        A = mg.finite_volume(mg.cells((16, 16), "dirichlet", comm=comm))
        mg.solve(A, A.sample(np.add), device="cuda", cycle="K")

    for options in ({"format": "computed"}, {"values": "bfloat16"}, {"tune": True}, {"order": "clustered"}):
        with pytest.raises(tacit.UsageError, match="a matrix on a device is staged"):
            tomography.projector([0.0, 1.0], 8, device="cuda", **options)
    with pytest.raises(tacit.UsageError, match="float32 or float16"):
        inference.radixnet(64, 2, radices=(2, 2), device="cuda", values="bfloat16")
    with pytest.raises(tacit.UsageError, match="the cycles V, W, F and U; this one is K"):
        tacit.comm.run_threads(2, on_ranks)


def test_commands(tmp_path: Path, python: Callable[..., Any]) -> None:
    """The same from the shell, each beside --device host."""
    angles = np.linspace(0, np.pi, 20, endpoint=False).astype(np.float32)
    P = tomography.projector(angles, 24)
    P.project(np.random.default_rng(1).random((2, 24, 24))).tofile(tmp_path / "scan.raw")
    angles.tofile(tmp_path / "theta.raw")
    np.save(tmp_path / "images.npy", images(90, 1024))
    scan = f"--sinogram {tmp_path}/scan.raw --theta {tmp_path}/theta.raw --shape 20,24 --iterations 4"

    def said(words: str, device: str, ranks: int = 0) -> dict[str, Any]:
        out = tmp_path / f"{device}.json"
        arguments = [*words.split(), "--device", device, "--json", str(out)]
        if ranks:
            arguments += ["--ranks", str(ranks)]
            python(f"import sys; from tacit.cli.command import main; sys.exit(main({arguments!r}))")
        else:
            assert main(arguments) == 0
        found: dict[str, Any] = json.loads(out.read_text())
        return found

    for words, name in (
        (f"infer {tmp_path}/images.npy --layers 3", "categories"),
        (f"reconstruct {scan} --format list", "iterations"),
        ("multigrid --n 12 --boundary dirichlet", "reason"),
        ("bem sphere:2", "conductors"),
    ):
        host, there = said(words, "host"), said(words, LAST)
        assert there[name] == host[name], words
        if "device" in there:
            assert (host["device"], there["device"]) == ("host", LAST)
    expected, on_ranks = said(f"reconstruct {scan}", "host"), said(f"reconstruct {scan}", "cuda", 2)
    np.testing.assert_allclose(on_ranks["residual"], expected["residual"], rtol=1e-4)
    cells = "multigrid --n 16 --boundary dirichlet --boxes 4 --bottom-cells 30 --bottom-reduction 1e-12"
    alone, shared = said(cells, LAST), said(cells, "cuda", 2)
    assert shared["ranks"] == 2
    assert shared["counts"]["messages"] > 0
    np.testing.assert_allclose(shared["history"], alone["history"], atol=1e-12)


@pytest.mark.parametrize("scalar", ["float32", "float64"])
def test_tiled_matrices_stay_on_the_gpu(scalar: str) -> None:
    """Products, compositions and solves, with vectors of the host and of the GPU."""
    a = sp.random_array((90, 70), density=0.2, rng=np.random.default_rng(1), dtype=scalar).tocsr()
    A = tacit.tiled(a, device=LAST, columns=8)
    assert (A.device, A.nnz, A.shape) == (LAST, a.nnz, (90, 70))
    assert "staged" in A.storage
    unit = 50 * np.finfo(scalar).eps
    x = np.random.default_rng(2).random((70, 5)).astype(scalar)
    np.testing.assert_allclose(A @ x, a @ x, rtol=unit)
    there = A @ tacit.device_array(x, LAST)
    np.testing.assert_allclose(there.to_numpy(), a @ x, rtol=unit)
    np.testing.assert_allclose(A.H @ (a @ x), a.T @ (a @ x), rtol=10 * unit)
    b = a.T @ (a @ x[:, 0]) + x[:, 0]
    normal = A.H @ A + tacit.csr(sp.eye_array(70, dtype=scalar), device=LAST)
    result = tacit.solve(normal, b, method="cg", rtol=1e-5)
    assert result.converged
    assert result.device == LAST
    np.testing.assert_allclose(result.x, x[:, 0], rtol=1e-2, atol=1e-3)
    with pytest.raises(tacit.UsageError, match="a matrix on a device is staged"):
        tacit.tiled(a, device="cuda", format="bitmap")
    with pytest.raises(ValueError, match="this process sees"):
        tacit.tiled(a, device=BEYOND)


def test_the_operator_of_a_projector_is_there_too() -> None:
    P = tomography.projector(np.linspace(0, np.pi, 20, endpoint=False), 16, columns=1, dtype="float64", device="cuda")
    host = tomography.projector(np.linspace(0, np.pi, 20, endpoint=False), 16, format="list", dtype="float64")
    b = np.random.default_rng(0).random(P.operator.shape[0])
    x = tacit.solve(P.operator.H @ P.operator, P.operator.H @ b, method="cg", max_iterations=5).x
    y = tacit.solve(host.operator.H @ host.operator, host.operator.H @ b, method="cg", max_iterations=5).x
    np.testing.assert_allclose(x, y, atol=1e-9)
