"""`tacit doctor`."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from cli_support import needs_mpi, tacit

from tacit.cli import doctor, pinning


def test_json() -> None:
    done = tacit("doctor", "--json", "-")
    facts = json.loads(done.stdout)
    assert facts["schema"] == "tacit.doctor/1"
    assert facts["healthy"] is True
    found = {finding["name"]: finding for finding in facts["findings"]}
    for name in ("python", "tacit", "numpy", "scipy", "processor", "cores", "threads", "mpi", "gpu"):
        assert found[name]["state"] in ("ok", "note")
        assert found[name]["value"]
    assert "everything works" in done.stderr


@pytest.mark.slow
@needs_mpi[0]
@needs_mpi[1]
def test_two_ranks_are_tried() -> None:
    out = tacit("doctor").stdout
    assert "mpiexec" in out
    assert "work: " in out


@needs_mpi[0]
@needs_mpi[1]
def test_a_broken_mpiexec_has_a_cure() -> None:
    done = tacit("doctor", code=5, TACIT_MPIEXEC="/bin/false")
    assert "TACIT_MPIEXEC is /bin/false" in done.stdout
    assert "cure:" in done.stdout
    assert "1 problem found" in done.stdout


def test_a_gpu_without_cuda_has_a_cure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from tacit import _core

    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho 'Some GPU, 600.1, 81559 MiB'\n")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(_core, "cuda_built", False)
    monkeypatch.setattr(_core, "gpu_count", lambda: 0)
    (found,) = list(doctor._gpu())
    assert "Some GPU" in found.value
    assert "TACIT_CUDA=ON" in found.cure


def test_an_examination_that_fails_does_not_end_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def burst() -> None:
        raise RuntimeError("it burst")

    monkeypatch.setattr(doctor, "_threads", burst)
    monkeypatch.setattr(doctor, "_mpi", lambda *_: iter(()))
    findings = list(doctor.examine())
    assert any(f.state == doctor.BAD and "it burst" in f.value for f in findings)
    assert findings[-1].name == "gpu"


def test_a_lapack_that_is_wrong_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from tacit import _core

    monkeypatch.setattr(doctor, "_mpi", lambda *_: iter(()))
    assert all(f.state != doctor.BAD for f in doctor.examine())
    monkeypatch.setattr(_core, "lapack_works", lambda: False)
    (found,) = [f for f in doctor.examine() if f.name == "blas"]
    assert found.state == doctor.BAD
    assert found.cure


def _ranks(
    masks: Sequence[Sequence[int]], threads: int = 1, of_host: int = 8, each: int = 1, host: str = "a"
) -> list[pinning.Place]:
    """Ranks on a machine of so many processors, `each` of them hardware threads of one core."""
    return [
        pinning.Place(host, frozenset(m), frozenset(p // each * each for p in m), threads, (of_host, of_host // each))
        for m in masks
    ]


@pytest.mark.parametrize(
    ("places", "told"),
    [
        (_ranks([[0], [1], [2]]), []),
        (_ranks([[0, 1, 2, 3]] * 4), []),  # not bound, and enough for all
        (_ranks([[0, 1], [2, 3], [0, 1, 2, 3]]), []),
        (_ranks([[0], [1], [1]]), ["ranks 1-2, 2 threads together, share processor 1"]),
        (_ranks([[0, 1]], threads=4), ["4 threads of rank 0 share processors 0-1"]),
        (_ranks([[0, 1], [2, 3], [0, 1, 2, 3]], threads=2), ["ranks 0-2, 6 threads together, share processors 0-3"]),
        (_ranks([[0], [1]], each=2), ["ranks 0-1, 2 threads together, share core 0"]),
        (_ranks([[0], [1]], each=2, of_host=2), []),  # the machine has one core
        (_ranks([[0], [1]]) + _ranks([[0], [0]], host="b"), ["ranks 2-3, 2 threads together, share processor 0"]),
    ],
)  # fmt: skip
def test_processors_that_ranks_share(places: list[pinning.Place], told: list[str]) -> None:
    crowds = pinning.crowds(places)
    assert [str(crowd) for crowd in crowds] == told
    assert all(crowd.avoidable for crowd in crowds)


def test_more_threads_than_the_machine_has_are_a_note() -> None:
    (found,) = pinning.crowds(_ranks([[0, 1]] * 3, of_host=2))
    assert not found.avoidable
    assert doctor._pinning(_ranks([[0, 1]] * 3, of_host=2)).state == doctor.NOTE
    assert doctor._pinning(_ranks([[0, 1]] * 3, of_host=4)).state == doctor.BAD


def test_ranks_in_words() -> None:
    assert pinning.ranges([3, 0, 1, 9]) == "0-1,3,9"
    assert pinning.table(_ranks([[0], [2, 3], [2, 3]], threads=2)) == (
        "rank 0: processor 0, 2 threads; ranks 1-2: processors 2-3, 2 threads each"
    )
    assert "processor 5 of b" in pinning.table(_ranks([[0]]) + _ranks([[5]], host="b"))
    assert pinning.table(_ranks([[k] for k in range(20)])).endswith("; and 4 more")
    mine = pinning.read(pinning.written([0], 3))
    assert (mine.processors, mine.threads) == ({0}, 3)
    assert mine.of_host[0] == os.cpu_count()


@needs_mpi[0]
@needs_mpi[1]
def test_ranks_are_started_and_looked_at() -> None:
    out = tacit("doctor", "--ranks", "3", "--threads", "1", "--json", "-").stdout
    found = {finding["name"]: finding for finding in json.loads(out)["findings"]}
    assert found["3 ranks"]["value"].startswith("work: ")
    assert "processor" in found["pinning"]["value"]
