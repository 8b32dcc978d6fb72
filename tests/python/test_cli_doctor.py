"""`tacit doctor`."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from cli_support import needs_mpi, tacit

from tacit.cli import doctor


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
    monkeypatch.setattr(doctor, "_mpi", lambda: iter(()))
    findings = list(doctor.examine())
    assert any(f.state == doctor.BAD and "it burst" in f.value for f in findings)
    assert findings[-1].name == "gpu"


def test_a_lapack_that_is_wrong_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from tacit import _core

    monkeypatch.setattr(doctor, "_mpi", lambda: iter(()))
    assert all(f.state != doctor.BAD for f in doctor.examine())
    monkeypatch.setattr(_core, "lapack_works", lambda: False)
    (found,) = [f for f in doctor.examine() if f.name == "blas"]
    assert found.state == doctor.BAD
    assert found.cure
