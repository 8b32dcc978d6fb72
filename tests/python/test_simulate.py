"""Simulated solves: the numbers of real ranks, a clock of their own, machines from files."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit import cli


def test_numbers_are_those_of_real_ranks() -> None:
    A = tacit.poisson((30, 30))
    b = np.cos(np.arange(900.0))
    options = {"method": "gmres", "precond": {"name": "ilu0"}, "rtol": 1e-9}
    made = tacit.simulate.solve(A, b, ranks=4, machine="hopper", **options)
    scipy_form = A.to_scipy()
    real = tacit.comm.run_threads(4, lambda comm: tacit.solve(scipy_form, b, comm=comm, **options))[0]
    assert np.array_equal(made.result.x, real.x)
    assert made.result.counts == real.counts
    assert made.result.iterations == real.iterations
    assert np.array_equal(made.result.history, real.history)


MODES = ["ideal", "in_wait", "poll"]


@pytest.mark.parametrize("method", ["cg", "bicgstab", "ca-cg", "block-cg"])
def test_columns_are_those_of_real_ranks(method: str) -> None:
    A = tacit.poisson((20, 18))
    B = np.random.default_rng(1).standard_normal((360, 3))
    options = {"method": method, "precond": "jacobi", "rtol": 1e-9}
    made = tacit.simulate.solve(A, B, ranks=3, machine="hopper", **options)
    scipy_form = A.to_scipy()
    real = tacit.comm.run_threads(3, lambda comm: tacit.solve(scipy_form, B, comm=comm, **options))[0]
    assert np.array_equal(made.result.x, real.x)
    assert made.result.counts == real.counts
    assert [c.iterations for c in made.result.columns] == [c.iterations for c in real.columns]
    assert made.result.together == 3
    alone = sum(tacit.simulate.solve(A, b, ranks=3, machine="hopper", **options).seconds for b in B.T)
    if method != "ca-cg":  # alone it needs one exchange for several iterations, in a block one for each product
        assert made.seconds < 0.8 * alone  # their reductions and halos are shared


def _kernel(i: np.ndarray, j: np.ndarray) -> np.ndarray:
    return 1 / (0.05 + np.abs(i[:, None] - j[None, :]) / 300.0)


@pytest.mark.parametrize("entries", ["matern32", _kernel])
@pytest.mark.parametrize("precond", ["none", "jacobi", "hlu"])
def test_hmatrices_are_those_of_real_ranks(entries: object, precond: str) -> None:
    x = np.linspace(0, 1, 300)
    more = {"length": 0.1, "nugget": 0.1} if isinstance(entries, str) else {}
    A = tacit.hmatrix(x, entries, **more)
    B = np.random.default_rng(2).standard_normal((300, 2))
    options = {"method": "gmres", "precond": precond, "rtol": 1e-8}
    for b in (B[:, 0], B):
        made = tacit.simulate.solve(A, b, ranks=4, machine="hopper", **options)

        def solve(comm: object, b: np.ndarray = b) -> tacit.Result:
            return tacit.solve(tacit.hmatrix(x, entries, comm=comm, **more), b, **options)

        real = tacit.comm.run_threads(4, solve)[0]
        assert np.array_equal(made.result.x, real.x)
        assert made.result.counts == real.counts
        assert made.seconds > 0
        assert "hmatrix product" in {p.name for p in made.phases} or made.phases[0].kernel


def test_hmatrices_without_entries_are_refused(tmp_path: Path) -> None:
    x = np.linspace(0, 1, 100)
    A = tacit.hmatrix(x, "gaussian", nugget=1.0)
    A.save(tmp_path / "a.hmatrix")
    with pytest.raises(ValueError, match="entries are known"):
        tacit.simulate.solve(tacit.HMatrix.load(tmp_path / "a.hmatrix"), x, ranks=2)
    with pytest.raises(ValueError, match="inner"):
        tacit.simulate.solve(A, x, ranks=2, precond="inner")
    with pytest.raises(ValueError, match="scalar"):
        tacit.simulate.solve(A, x, ranks=2, scalar="float32")
    broken = []

    def entries(i: np.ndarray, j: np.ndarray) -> np.ndarray:
        if broken:
            raise ZeroDivisionError
        return _kernel(i, j)

    B = tacit.hmatrix(x, entries)
    broken.append(1)
    with pytest.raises(ZeroDivisionError):  # through the simulated ranks
        tacit.simulate.solve(B, x, ranks=2)


def test_charges_on_simulated_ranks() -> None:
    system = tacit.bem.assemble(tacit.bem.sphere(4))
    charges, (made,) = system.simulate(1.0, ranks=6, machine="modern")
    assert charges.charge[0] == pytest.approx(system.solve(1.0).charge[0], rel=1e-4)
    assert (made.ranks, charges.seconds["solve"]) == (6, made.seconds)
    assert made.result.converged
    assert made.seconds < 0.1


@pytest.mark.parametrize("progress", MODES)
@pytest.mark.parametrize("method", ["cg", "pipelined-cg"])
def test_replay_is_the_solve_on_as_many_ranks(method: str, progress: str) -> None:
    """To the last digit: 512 ranks simulated whole, and played from what few did."""
    machine = {"base": "hopper", "noise": 0, "progress": progress, "poll_interval": 2e-6}
    options = {"method": method, "max_iterations": 6, "rtol": 1e-30, "fallbacks": False, "explain": False}
    system = tacit.simulate.boxes((2, 2, 2), (8, 8, 8))
    whole = tacit.simulate.solve(*system, ranks=512, machine=machine, **options)
    for few in ((3, 3, 3), (4, 3, 5)):
        small = tacit.simulate.boxes((2, 2, 2), few)
        made = tacit.simulate.replay(*small, ranks=(8, 8, 8), recorded=few, machine=machine, **options)
        assert made.iterations == whole.result.iterations
        assert made.seconds == whole.seconds
        assert (made.messages, made.bytes) == (whole.messages, whole.bytes)
        assert {p.name: p.times for p in made.phases} == {p.name: p.times for p in whole.phases}
        assert made.period == 0
        assert "SIMULATED by replay" in made.summary()


def test_replay_of_a_solve_that_builds_an_exchange() -> None:
    """That of ca-bicgstab's first block is played as a sum alone; what follows takes the same."""
    options = {"machine": {"base": "hopper", "noise": 0}, "method": "ca-bicgstab", "rtol": 1e-30, "fallbacks": False,
               "explain": False}  # fmt: skip
    system, small = (tacit.simulate.boxes((9, 9), grid) for grid in ((5, 4), (3, 3)))
    whole = [tacit.simulate.solve(*system, ranks=20, max_iterations=k, **options).seconds for k in (6, 14)]
    made = [tacit.simulate.replay(*small, ranks=(5, 4), recorded=(3, 3), max_iterations=k, **options) for k in (6, 14)]
    assert made[1].seconds - made[0].seconds == pytest.approx(whole[1] - whole[0], rel=0.02)
    assert made[0].seconds < whole[0]
    assert made[0].set_ups == made[1].set_ups > 0
    assert "without the set-up of" in made[0].summary()


def test_replay_of_more_iterations() -> None:
    """Iterations that are repeated take what further ones of a longer solve take."""
    machine = {"base": "hopper", "noise": 0}
    small = tacit.simulate.boxes((3, 3), (5, 5))
    options = {"method": "gmres", "restart": 5, "rtol": 1e-30, "fallbacks": False, "explain": False}
    grids = {"ranks": (5, 5), "recorded": (5, 5), "machine": machine}
    long = tacit.simulate.replay(*small, max_iterations=60, **grids, **options)
    made = tacit.simulate.replay(*small, max_iterations=30, iterations=60, **grids, **options)
    assert (made.iterations, long.period) == (60, 0)
    assert made.period % 5 == 0
    assert made.seconds == pytest.approx(long.seconds, rel=1e-9)
    fewer = tacit.simulate.replay(*small, max_iterations=60, iterations=30, **grids, **options)
    assert fewer.iterations == 30
    assert fewer.seconds < 0.6 * long.seconds
    shares: list[float] = []
    many = tacit.simulate.replay(*small, ranks=(40, 50), recorded=(5, 5), machine=machine, progress=shares.append,
                                 method="cg", max_iterations=10, fallbacks=False, explain=False)  # fmt: skip
    assert many.ranks == 2000
    assert shares == sorted(shares)
    assert shares[-1] > 0.9


def test_replay_says_what_it_cannot_play() -> None:
    A, b = tacit.simulate.boxes((2, 2), (3, 3))
    given = {"ranks": (6, 6), "recorded": (3, 3), "method": "cg"}
    for wrong, text in [
        ({"ranks": (6, 6, 6)}, "as many dimensions"),
        ({"ranks": (6, 0)}, "at least 1"),
        ({"iterations": 0}, "iterations"),
        ({"iterations": 50, "max_iterations": 2}, "no two successive"),
        ({"recorded": (1, 1), "ranks": (2, 2)}, "at least 2"),
        ({"recorded": (2, 2)}, "have to be recorded"),
        ({"method": "nothing"}, "method"),
    ]:
        with pytest.raises(ValueError, match=text):
            tacit.simulate.replay(A, b, **{**given, **wrong})
    K = tacit.hmatrix(np.linspace(0, 1, 90), "gaussian", nugget=1.0)
    with pytest.raises(ValueError, match="go over"):
        tacit.simulate.replay(K, np.ones(90), ranks=12, recorded=3, method="cg")

    def stop(share: float) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        tacit.simulate.replay(A, b, progress=stop, **given)


def test_a_replay_can_be_interrupted() -> None:
    A, b = tacit.simulate.boxes((2, 2), (3, 3))
    many = {"ranks": (64, 64), "recorded": (3, 3), "method": "cg", "max_iterations": 8, "iterations": 20000}

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGVTALRM, interrupt)
    begin = time.process_time()
    signal.setitimer(signal.ITIMER_VIRTUAL, 1.0)
    try:
        with pytest.raises(KeyboardInterrupt):  # of some minutes
            tacit.simulate.replay(A, b, rtol=1e-30, fallbacks=False, explain=False, **many)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    assert time.process_time() - begin < 10


def test_boxes_are_the_laplacian() -> None:
    """Renumbered by boxes, it is the matrix of the whole grid."""
    A, _ = tacit.simulate.boxes((2, 3), (3, 2), shift=0.5)
    lines = tacit.poisson((6, 6)).to_scipy().toarray()
    order = np.array(
        [(by * 3 + y) * 6 + bx * 2 + x for by in range(2) for bx in range(3) for y in range(3) for x in range(2)]
    )
    assert np.array_equal(A.to_scipy().toarray(), lines[np.ix_(order, order)] + 0.5 * np.eye(36))
    ring, _ = tacit.simulate.boxes((3,), (2,), periodic=True, shift=1.0)
    assert np.array_equal(ring.to_scipy().sum(axis=1), np.ones(6))
    for wrong in ({"cells": (2,), "ranks": (2, 2)}, {"cells": (2,), "ranks": (2,), "periodic": True}):
        with pytest.raises(ValueError, match=r"needed|dimensions"):
            tacit.simulate.boxes(**wrong)


def test_same_parameters_same_clock_and_phases_add_up() -> None:
    A, b = tacit.poisson((24, 24)), np.ones(576)
    made = [tacit.simulate.solve(A, b, ranks=16, machine="hopper", method="cg") for _ in range(2)]
    assert made[0].seconds == made[1].seconds > 0
    assert sum(p.seconds for p in made[0].phases) == pytest.approx(made[0].seconds, rel=0.05)
    assert {"sum", "halo", "product", "sweep"} <= {p.name for p in made[0].phases}
    assert "SIMULATED: 16 ranks, L 1.5 us" in made[0].summary()
    other = tacit.simulate.solve(A, b, ranks=16, machine={"base": "hopper", "seed": 2}, method="cg")
    assert other.seconds != made[0].seconds
    assert np.array_equal(other.result.x, made[0].result.x)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["gmres", "ca-gmres", "cg"])
def test_looking_for_the_cause_of_a_failure_takes_no_simulated_time(method: str) -> None:
    """An iteration costs the same whether the solve converges or not: then its end is explained by further products."""
    n = 100 if method == "cg" else 40
    A, b = tacit.poisson((n, n)), np.ones(n * n)
    options = {"ranks": 16, "machine": "tsubame", "method": method, "rtol": 1e-10, "fallbacks": False}
    if method != "cg":
        options["restart"] = 10
    few, more, most = (tacit.simulate.solve(A, b, max_iterations=k, **options) for k in (120, 140, 160))
    whole = tacit.simulate.solve(A, b, **options)
    assert whole.result.converged
    assert whole.result.iterations > 180
    for made in (few, more, most):
        assert not made.result.converged
        assert made.result.seconds["explain"] > 0.05 * made.seconds  # or there was nothing to leave out
    each = (most.seconds - few.seconds) / 40
    assert more.seconds - few.seconds == pytest.approx(20 * each, rel=0.05)
    assert whole.seconds - few.seconds == pytest.approx(each * (whole.result.iterations - 120), rel=0.08)
    # The residual that is recomputed to confirm the end, and at each restart, belongs to the solve.
    products = {p.name: p.times for p in few.phases}["halo"]
    assert products == few.result.counts["exchanges"] > 120


def test_trace_is_in_simulated_time(tmp_path: Path) -> None:
    made = tacit.simulate.solve(
        tacit.poisson((16, 16)), np.ones(256), ranks=4, method="pipelined-cg", rtol=1e-6, trace=True
    )
    events = made.result.trace
    assert events
    assert {e.rank for e in events} == {0, 1, 2, 3}
    assert min(e.begin for e in events) >= 0
    assert max(e.end for e in events) <= made.seconds * (1 + 1e-12)
    made.result.save_trace(tmp_path / "t.json")
    assert json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    # A traced solve that fails leaves nothing on, and nothing behind.
    with pytest.raises(ValueError, match="restart"):
        tacit.simulate.solve(tacit.poisson((16, 16)), np.ones(256), ranks=2, method="gmres", restart=0, trace=True)
    tacit.solve(tacit.poisson((16, 16)), np.ones(256))
    assert not any(tacit._core.take_events(rank, 0.0) for rank in range(4))


def test_every_parameter_of_a_machine_counts() -> None:
    """A time that grows with each of them alone, and never with a faster machine."""
    level = {"ranks": 2, "latency": 5e-7, "overhead": 1e-7, "gap": 1e-11}
    base = {"latency": 1e-6, "overhead": 2e-7, "gap": 1e-9, "noise": 1e-7, "bandwidth": 1e10, "flop_rate": 2e9,
            "kernel": 1e-7, "cache": 2e4, "cache_bandwidth": 3e10, "levels": [level], "delivery": "eager",
            "progress": "poll", "poll_interval": 5e-8}  # fmt: skip
    A, b = tacit.poisson((24, 24)), np.ones(576)

    def seconds(**other: object) -> float:
        return tacit.simulate.solve(A, b, ranks=8, machine=base | other, method="pipelined-cg", rtol=1e-6).seconds

    plain = seconds()
    for name in ("latency", "overhead", "gap", "noise", "kernel", "poll_interval"):
        assert seconds(**{name: 100 * base[name]}) > plain, name
    for name in ("flop_rate", "bandwidth", "cache_bandwidth"):
        slow = {"flop_rate": 1e13} | {name: base[name] / 10}
        quick = {"flop_rate": 1e13} | {name: base[name]}
        more = {"cache": 1e3} if name == "bandwidth" else {}
        assert seconds(**slow | more) > seconds(**quick | more), name
    assert seconds(cache=1e3, flop_rate=1e13) > seconds(flop_rate=1e13)
    for name in ("latency", "overhead", "gap"):
        assert seconds(levels=[level | {name: 20 * level[name]}]) > plain, name
    assert seconds(progress="ideal") < plain < seconds(progress="in_wait")


@pytest.mark.slow
def test_machines(tmp_path: Path) -> None:
    assert set(tacit.simulate.machines()) >= {"hopper", "fitted", "modern", "tsubame"}
    level = {"ranks": 4, "latency": 1e-7, "overhead": 1e-8, "gap": 0.0}
    path = tmp_path / "m.json"
    path.write_text(json.dumps({"base": "modern", "noise": 0.0, "levels": [level], "progress": "in_wait"}))
    found = tacit.simulate.machine(path)
    assert (found["latency"], found["noise"], found["progress"], found["levels"]) == (1e-6, 0.0, "in_wait", [level])
    A, b = tacit.poisson((8, 8)), np.ones(64)
    for wrong, error in [
        ("modem", ValueError),
        ({"latencies": 1}, ValueError),
        ({"latency": "1"}, TypeError),
        ({"latency": -1.0}, ValueError),
        ({"progress": "idle"}, ValueError),
        ({"levels": [{"ranks": 4}]}, ValueError),
        ({"latency": True}, TypeError),
        ({"levels": 3}, TypeError),
        ({"bandwidth": 1e9, "cache": 1e6}, ValueError),  # or all kernels were free
        ({"bandwidth": 1e-320}, ValueError),
        ({1: 2}, ValueError),
        ([1], TypeError),
        (None, TypeError),
    ]:
        with pytest.raises(error):
            tacit.simulate.solve(A, b, ranks=2, machine=wrong)
    assert tacit.simulate.solve([[2j, 0], [0, 1]], [1, 1], ranks=2).result.scalar == "complex128"
    assert tacit.simulate.solve(A, b[:, None], ranks=2).result.x.shape == (64, 1)  # as of a solve
    with pytest.raises(ValueError, match="on simulated ranks"):
        tacit.simulate.solve(A, b, ranks=2, precond=A)
    with pytest.raises(TypeError, match="path"):
        tacit.simulate.solve(A, b, ranks=2, path="shared")
    for ranks in (0, 2**21):
        with pytest.raises(ValueError, match="ranks"):
            tacit.simulate.solve(A, b, ranks=ranks)
    # Polls without end are an end.
    far = tacit.simulate.solve(A, b, ranks=2, machine={"base": "modern", "progress": "poll", "poll_interval": 1e-300})
    assert far.result.converged
    twice = '{"latency": 1e-6, "latency": 2e-6}'
    for text in ("{", "[]", '{"latency": "1"}', '{"base": "modem"}', twice, f'{{"levels": [{twice}]}}'):
        path.write_text(text)
        with pytest.raises(tacit.InputError, match=str(path)):
            tacit.simulate.machine(path)


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    matrix, told = tmp_path / "A.mtx", tmp_path / "told.json"
    tacit.write(matrix, tacit.poisson((20, 20)).to_scipy())
    words = ["solve", str(matrix), "--method", "ca-cg", "--simulate", "64", "--machine", "fitted", "--json", str(told)]
    assert cli.main(words) == 0
    assert "SIMULATED: 64 ranks" in capsys.readouterr().out
    facts = json.loads(told.read_text())
    assert (facts["schema"], facts["ranks"], facts["machine"]["overhead"]) == ("tacit.simulate/1", 64, 0.85e-6)
    assert (facts["converged"], facts["command"]) == (True, ["tacit", *words])
    assert facts["machine"]["progress"] == "poll"
    assert facts["seconds_ideal"] == facts["seconds"]  # nothing is done while its sums are under way
    assert cli.main([*words[:3], "pipelined-cg", *words[4:]]) == 0
    assert "if messages advanced by themselves" in capsys.readouterr().out
    facts = json.loads(told.read_text())
    assert 0 < facts["seconds_ideal"] < facts["seconds"]
    real = {"ranks": 2, "threads": 2, "levels": "2,2", "monitor": None, "plot": tmp_path / "p.png", "path": "shared"}
    real |= {"partition": "graph", "ordering": "rcm", "device": "cuda", "engine": "thread", "schedule": "jobs"}
    for name, value in (real | {"remote-threads": 2, "job-rows": 64}).items():
        assert cli.main([*words, f"--{name}", *([] if value is None else [str(value)])]) == 2, name
    told.write_text('{"latency": "1"}')
    assert cli.main(["solve", str(matrix), "--simulate", "2", "--machine", str(told)]) == 4
    assert cli.main(["solve", str(matrix), "--machine", "modern"]) == 2


def test_measured_machines_can_be_simulated() -> None:
    """Rates and times of this process alone, which has no messages, and of two ranks that are threads."""
    alone = tacit.simulate.measure(tacit.comm.self_())
    assert set(alone) == set(tacit.simulate.machine("modern"))
    assert 1e8 < alone["bandwidth"] < 1e13
    assert 1e7 < alone["flop_rate"] < 1e13
    assert alone["cache"] == 0 or alone["cache_bandwidth"] > alone["bandwidth"]
    assert (alone["latency"], alone["overhead"], alone["gap"], alone["eager_limit"]) == (0, 0, 0, 0)
    found = tacit.comm.run_threads(2, tacit.simulate.measure)
    assert found[0] == found[1]  # the same on all ranks
    assert found[0]["overhead"] > 0
    made = tacit.simulate.solve(tacit.poisson((8, 8)), np.ones(64), ranks=2, machine=found[0], method="cg")
    assert made.seconds > 0


@pytest.mark.parametrize("name", tacit.simulate.machines())
def test_known_machines_solve(name: str) -> None:
    """On more ranks than a node has; the parameters of the network count where messages are large."""
    A, b = tacit.poisson((16, 16)), np.ones(256)
    made = tacit.simulate.solve(A, b, ranks=12, machine=name, method="cg")
    assert made.result.converged
    assert made.seconds == tacit.simulate.solve(A, b, ranks=12, machine=name, method="cg").seconds
    slower = {"base": name, "latency": 1e-4, "levels": []}
    assert tacit.simulate.solve(A, b, ranks=12, machine=slower, method="cg").seconds > made.seconds


@pytest.mark.parametrize("name", ["hopper", "summit", "frontier"])
def test_factors_of_an_hmatrix_do_not_depend_on_the_machine(name: str) -> None:
    """Their parts are mail of many sizes, which is announced where the machine has an eager limit."""
    K = tacit.hmatrix(np.linspace(0, 1, 300), "matern32", length=0.05, nugget=0.1)
    options = {"ranks": 33, "method": "gmres", "precond": "hlu", "rtol": 1e-9}
    made = tacit.simulate.solve(K, np.ones(300), machine=name, **options)
    plain = tacit.simulate.solve(K, np.ones(300), machine={}, **options)
    assert made.result.converged
    assert np.array_equal(made.result.x, plain.result.x)


def test_grid_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = tmp_path / "told.json"
    words = ["simulate", "--cells", "3x3", "--grid", "12x12", "--method", "cg", "--machine", "fitted"]
    assert cli.main([*words, "--replay", "4x4", "--iterations", "40", "--json", str(told)]) == 0
    assert "SIMULATED by replay, without numbers: 144 ranks (12 x 12)" in capsys.readouterr().out
    facts = json.loads(told.read_text())
    assert (facts["simulated"], facts["ranks"], facts["iterations"], facts["replay"]) == (True, 144, 40, [4, 4])
    assert facts["set_ups"] == 0
    assert cli.main([*words, "--json", str(told)]) == 0
    assert json.loads(told.read_text())["converged"] is True
    for wrong in (["--iterations", "4"], ["--replay", "4"], ["--periodic"], ["--grid", "0x2"], ["--cells", "axb"]):
        assert cli.main([*words, *wrong]) == 2, wrong


def test_bem_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = tmp_path / "told.json"
    assert cli.main(["bem", "sphere:3", "--simulate", "8", "--machine", "hopper", "--json", str(told)]) == 0
    assert "SIMULATED: 8 ranks" in capsys.readouterr().out
    facts = json.loads(told.read_text())
    assert facts["simulated"][0]["ranks"] == 8
    assert facts["seconds"]["solve"] == facts["simulated"][0]["seconds"]
    assert facts["charge"][0] == pytest.approx(1, rel=0.1)
    for wrong in (["--capacitance"], ["--ranks", "2"], ["--settle", "0.1"]):
        assert cli.main(["bem", "sphere:3", "--simulate", "8", *wrong]) == 2, wrong
    assert cli.main(["bem", "sphere:3", "--machine", "modern"]) == 2
