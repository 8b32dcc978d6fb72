"""Options of applications, options that take a method object, and their comparison between ranks."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest
import scipy.sparse as sp
from cli_support import poisson
from cli_support import refused as command_refuses
from conftest import laplacian

import tacit
from tacit import _described, inference, multigrid, tomography
from tacit.methods import CaBicgstab, Cg, Gmres
from tacit.precond import BlockJacobi, Hlu, Inner, Jacobi, Polynomial

ANGLES = np.arange(12) * np.pi / 12


def system(n: int = 12) -> tuple[Any, Any]:
    return laplacian(n, n), np.ones(n * n)


def problem(n: int = 16, comm: Any = None) -> tuple[Any, Any]:
    cells = multigrid.cells((n, n), "dirichlet", comm=comm)
    A = multigrid.finite_volume(cells, a=0.0, b=1.0)
    return A, A.sample(lambda x, y: x + y * y)


def kernel(n: int = 200, comm: Any = None) -> Any:
    x = np.linspace(0, 1, n)
    return tacit.hmatrix(x, lambda i, j: 1 / (0.01 + np.abs(x[i, None] - x[None, j])), comm=comm, tolerance=1e-9)


def refused(call: Callable[[], Any]) -> str:
    with pytest.raises((ValueError, TypeError)) as found:
        call()
    return f"{found.type.__name__}: {found.value}"


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda A, b: tacit.solve(A, b, precond=Cg()), r"precond is Cg\(\), a method .* place is method="),
        (lambda A, b: tacit.solve(A, b, method=Jacobi()), r"method is Jacobi\(\), a preconditioner; .* precond="),
        (
            lambda A, b: tacit.solve(A, b, remote_threads=2),
            "remote_threads 2 goes with schedule split; schedule is auto",
        ),
        (lambda A, b: tacit.solve(A, b, schedule="split", job_rows=9), "job_rows 9 goes with schedule jobs"),
        (lambda A, b: tacit.solve(A, b, atol=None), "atol is None; a number"),
        (lambda A, b: tacit.precond.inner(tacit.csr(A), method=Gmres(restart=0)), "restart is 0; it takes at least 1"),
        (lambda A, b: tacit.precond.inner(tacit.csr(A), metod="cg"), "did you mean 'method'"),
        (lambda A, b: tacit.precond.inner(tacit.csr(A), method="auto"), "unknown method 'auto'"),
        (lambda A, b: tacit.solve(A, b, precond=Inner(precond=Cg())), r"precond is Cg\(\)"),
        (lambda A, b: tacit.solve(A, b, precond=BlockJacobi(size=9)), "block-jacobi' has no option 'size'"),
        (lambda A, b: tacit.tiled(A, order="hilbert"), "order is hilbert; tiled takes natural, clustered"),
        (lambda A, b: tacit.tiled(A, cluster_rows=9), "cluster_rows 9 goes with order clustered.*order is not given"),
        (lambda A, b: tacit.tiled(A, tile=5), "tile is 5; it takes a multiple of 8 up to 128"),
        (lambda A, b: tacit.tiled(A, groups="3"), "groups is '3'; a sequence of whole numbers"),
        (lambda A, b: tacit.tiled(A, groups=[0]), "groups is 0; it takes at least 1 rank"),
        (lambda A, b: tacit.tiled(A, colums=2), "tiled has no option 'colums'; did you mean 'columns'"),
        (lambda A, b: tacit.simulate.machine({"seed": 1.5}), "seed is 1.5; a whole number"),
        (lambda A, b: tacit.simulate.machine({"levels": [dict(ranks=0, latency=0, overhead=0, gap=0)]}), "ranks is 0"),
    ],
)
def test_what_does_not_fit_is_named(call: Callable[[Any, Any], Any], told: str) -> None:
    with pytest.raises((ValueError, TypeError), match=told):
        call(*system())


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"atol": None}, "atol is None; a number"),
        ({"max_cycles": -1}, "max_cycles is -1; it takes at least 0 cycles"),
        ({"norm": "1"}, "unknown norm '1'"),
        ({"cylce": "V"}, "did you mean 'cycle'"),
        (
            {"bottom": CaBicgstab(step=2), "step": 3},
            r"step is given twice: in bottom=CaBicgstab\(step=2\) and as step=3",
        ),
        ({"bottom": Gmres(restart=0)}, "restart is 0; it takes at least 1 vector"),
        ({"bottom": Jacobi()}, r"bottom is Jacobi\(\), a preconditioner"),
        ({"bottom": "cg", "step": 3}, "step 3 is an option of ca-cg"),
    ],
)
def test_multigrid_names_what_does_not_fit(options: dict[str, Any], told: str) -> None:
    with pytest.raises((ValueError, TypeError), match=told):
        multigrid.solve(*problem(), **options)


def test_reconstructions_name_what_does_not_fit() -> None:
    b = np.ones((12, 16))
    for options, told in (
        ({"relaxation": 0.5}, "relaxation 0.5 is an option of sirt; cgls has none"),
        ({"method": "sirt", "reorthogonalise": 0}, "reorthogonalise 0 is an option of cgls; sirt has none"),
        ({"method": "sirt", "relaxation": 2.0}, "relaxation is 2; it takes a number in"),
        ({"iteratons": 3}, "did you mean 'iterations'"),
        ({"discrepancy": None}, "discrepancy is None"),
        ({"format": "lists"}, "unknown format 'lists'; did you mean 'list'"),
        ({"cluster_rows": 9}, "no option 'cluster_rows'"),
    ):
        assert told in refused(lambda options=options: tomography.reconstruct(b, ANGLES, **options))
    P = tomography.projector(ANGLES, 16)
    r = tomography.reconstruct(b, projector=P, reorthogonalise=True, iterations=3)
    assert np.array_equal(r.images, tomography.reconstruct(b, ANGLES, reorthogonalise=1, iterations=3).images)


def test_networks_name_what_does_not_fit() -> None:
    net = inference.radixnet(64, 2, radices=(2, 2))
    images = np.ones((3, 64))
    for call, told in (
        (lambda: net.infer(images, bias=0.5), "bias is 0.5; it takes a number <= 0"),
        (lambda: net.infer(images, bias=-0.5, panel=5), "panel is 5; it takes a multiple of 16"),
        (lambda: net.infer(images, bias=-0.5, ceilng=5), "did you mean 'ceiling'"),
        (lambda: inference.radixnet(64, 2, radices=(2, 2), values="float46"), "did you mean 'float16'"),
        (
            lambda: inference.radixnet(64, 2, radices=(2, 2), weight_bytes=-1),
            "weight_bytes is -1; it takes a number >= 0",
        ),
    ):
        assert told in refused(call)


def test_a_method_with_options_is_taken_where_a_method_is_named() -> None:
    a, b = system()
    A = tacit.csr(a)
    for method in (Gmres(restart=2), "cg", Cg()):
        P = tacit.precond.inner(A, method=method, iterations=4)
        assert tacit.solve(A, b, method="gmres", precond=P).converged
    said = tacit.solve(A, b, precond=Inner(method=Gmres(restart=2), iterations=4))
    assert said.converged
    assert said.method == "fgmres"
    assert said.precond.startswith("inner gmres (4 iterations")
    # A restart of 2 is another method than one of 30.
    other = tacit.solve(A, b, precond={"name": "inner", "method": "gmres", "iterations": 4})
    assert other.counts["operator_applies"] != said.counts["operator_applies"]
    H = kernel()
    x = np.cos(np.arange(200.0))
    for precond in (Hlu(tolerance=1e-3), BlockJacobi(size=50), Inner(method=Gmres(restart=3), precond=Jacobi())):
        assert tacit.solve(H, H @ x, precond=precond, rtol=1e-6).converged, precond
    F, f = problem(32)
    r = multigrid.solve(F, f, bottom=CaBicgstab(step=2, basis="chebyshev"), levels=2)
    assert r.converged
    assert r.bottom == "ca-bicgstab"
    flat = multigrid.solve(F, f, bottom="ca-bicgstab", step=2, basis="chebyshev", levels=2)
    assert np.array_equal(r.x, flat.x)
    assert multigrid.solve(F, f, bottom=Gmres(restart=7, orthogonalisation="mgs"), levels=2).bottom == "gmres"


def test_a_preconditioner_that_varies_says_where_it_does_not_fit() -> None:
    a, b = laplacian(30, 30), np.ones(900)
    P = Inner(method="cg", iterations=6)
    flexible = tacit.solve(a, b, method="gmres", precond=P)
    assert flexible.converged
    assert not flexible.warnings
    for options in ({"method": "gmres", "side": "right"}, {"method": "gmres", "side": "left"}, {"method": "ca-gmres"}):
        r = tacit.solve(a, b, precond=P, max_iterations=200, **options)
        (said,) = (text for text in r.warnings if "changes from call to call" in text)
        assert options.get("side", options["method"]) in said
        assert "side flexible" in said
    for method in ("bicgstab", "cg", "idr"):
        assert not any("from call to call" in text for text in tacit.solve(a, b, method=method, precond=P).warnings)
    (said,) = tacit.solve(a, b, method="minres", precond=P, max_iterations=5).warnings
    assert "changes from call to call, and the recurrence of minres takes it for a linear map" in said
    # What is renumbered varies as well.
    made = tacit.precond.inner(tacit.csr(a), method="cg", iterations=6)
    r = tacit.solve(a, b, precond=made, ordering="rcm")
    assert (r.method, r.converged, r.warnings) == ("fgmres", True, [])


def test_ranks_have_to_give_the_same() -> None:
    a, b = system(8)

    def rank(comm: Any) -> list[str]:
        odd = comm.rank == 1
        A, H = tacit.csr(a, comm=comm), kernel(comm=comm)
        F, f = problem(comm=comm)
        y = np.ones((12, 16))
        P = tomography.projector(ANGLES, 16, comm=comm)
        return [
            refused(call)
            for call in (
                lambda: tacit.solve(A, b, precond=Polynomial(degree=3 if odd else 2)),
                lambda: tacit.solve(A, b, precond=Polynomial(lambda_max=3.0 if odd else 2.0)),
                lambda: tacit.solve(A, b, precond=Inner(method=Gmres(restart=3 if odd else 2))),
                lambda: tacit.solve(A, b, precond=Inner(precond=Polynomial(degree=3 if odd else 2))),
                lambda: tacit.precond.make(A, "polynomial", degree=3 if odd else 2),
                lambda: tacit.precond.make(H, "hlu", tolerance=0.1 if odd else 0.2),
                lambda: tacit.precond.inner(A, method=Gmres(restart=3 if odd else 2)),
                lambda: multigrid.solve(F, f, bottom=CaBicgstab(step=3 if odd else 2)),
                lambda: multigrid.solve(F, f, max_cycles=3 if odd else 2),
                lambda: tacit.tiled(A, columns=3 if odd else 2),
                lambda: tacit.bem.assemble(tacit.bem.sphere(2), quadrature=0.1 if odd else 0.2, comm=comm),
                lambda: tomography.projector(ANGLES, 16, minibatch=3 if odd else 2, comm=comm),
                lambda: tomography.projector(ANGLES, 16, centre=3 if odd else 2, comm=comm),
                lambda: tomography.reconstruct(y, projector=P, iterations=3 if odd else 2),
                lambda: tomography.reconstruct(y, projector=P, batch=3 if odd else 2),
            )
        ]

    first, *others = tacit.comm.run_threads(3, rank)
    assert others == [first, first]
    for text in first:
        assert "all ranks must give the same" in text
    assert "precond's method's restart is 2 on rank 0 and 3 on rank 1" in first[2]
    assert "bottom's step is 2 on rank 0 and 3" in first[7] or "step is 2 on rank 0 and 3" in first[7]


def test_ranks_use_the_digits_of_one() -> None:
    """Numbers that differ between ranks by rounding are accepted, and all ranks then use the same one."""
    a, b = system(8)

    def rank(comm: Any) -> tuple[Any, Any]:
        near = 1 + 4e-16 * comm.rank
        A = tacit.csr(a, comm=comm)
        given = Polynomial(lambda_max=2 * near, lambda_min=0.1 * near)
        x = tacit.solve(A, b, method="cg", precond=given, rtol=1e-10).x
        named = dict(name="inner", rtol=0.1 * near, precond=Polynomial(lambda_max=2 * near, lambda_min=0.1 * near))
        assert tacit.solve(A, b, precond=named).converged
        return x, tacit.solve(A, b, method="cg", precond=dict(name="polynomial", **given.given()), rtol=1e-10).x

    one = tacit.solve(a, b, method="cg", precond=Polynomial(lambda_max=2.0, lambda_min=0.1), rtol=1e-10).x
    for of_object, of_dict in tacit.comm.run_threads(3, rank):
        assert np.array_equal(of_object, of_dict)
        assert np.allclose(of_object, one, atol=1e-9)


def test_types_have_the_options_of_the_tables() -> None:
    """The types for a checker have the names and choices of the compiled part."""
    for made, table, taker in (
        (_described.SolveOptions, _described.SOLVE, ""),
        (_described.MultigridOptions, _described.MULTIGRID, ""),
        (_described.MultigridSolveOptions, _described.MULTIGRID_SOLVE, ""),
        (_described.HmatrixOptions, _described.HMATRIX, ""),
        (_described.BemOptions, _described.BEM, ""),
        (_described.ReconstructOptions, _described.RECONSTRUCT, ""),
        (_described.TiledOptions, _described.TILED, "tiled"),
        (_described.ProjectorOptions, _described.TILED, "projector"),
        (_described.NetworkOptions, _described.INFERENCE, "network"),
        (_described.InferOptions, _described.INFERENCE, "infer"),
    ):
        hints = get_type_hints(made)
        assert set(hints) == {name for name, option in table.items() if not taker or taker in option.takers}
    assert "computed" not in get_args(get_type_hints(_described.TiledOptions)["format"])
    assert "computed" in get_args(get_type_hints(_described.ProjectorOptions)["format"])
    assert [field.name for field in dataclasses.fields(Gmres)] == ["restart", "side", "orthogonalisation"]  # type: ignore


def test_command_line_says_what_does_not_fit(tmp_path: Path) -> None:
    file = poisson(tmp_path / "a.mtx", 4)
    sp.save_npz(tmp_path / "b.npz", sp.csr_array(np.eye(3)))
    for words, told in (
        (["solve", file, "--precond", "polynomial:degree=3,degree=4"], "degree is given twice"),
        (["solve", file, "--precond", "polynomial:degree=-3"], "polynomial's degree: expected at least 0"),
        (["solve", file, "--remote-threads", "2"], "goes with schedule split"),
        (["bem", "sphere:2", "--precond", "hlu:rank=1,rank=2"], "rank is given twice"),
        (["bem", "sphere:2", "--precond", "inner:method=cgg"], 'did you mean "cg"'),
        (["bem", "sphere:2", "--admissibility", "weak", "--eta", "2"], "eta 2 goes with admissibility"),
        (["reconstruct", "s.h5", "--groups", "3,0"], "expected at least 1 rank each"),
        (["reconstruct", "s.h5", "--tile", "5"], "expected a multiple of 8 up to 128"),
        (["reconstruct", "s.h5", "--relaxation", "0.5"], "relaxation 0.5 is an option of sirt"),
        (["infer", "i.npy", "--panel", "5"], "expected a multiple of 16"),
        (["multigrid", "--max-cycles", "-1"], "expected at least 0 cycles"),
    ):
        assert told in command_refuses(*words, cwd=tmp_path)
