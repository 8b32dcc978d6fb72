"""Runs what a page shows: its Python blocks and its blocks of commands, in the order of the page, in one folder.

The tests run every page in this way (tests/python/test_guide.py), and the site shows what was printed and drawn
(docs/site/prepare.py). A comment before a block marks exceptions:

<!-- not run: why -->       a block that is not run
<!-- file: name.py -->      a file that the reader saves

Commands are run by a shell that stops at the first failure. As in a reader's terminal `./run` is there, and `tacit` and
`python` only after the line `. .venv/bin/activate`. Where the last line of a Python block is a value that notebooks
show, the page has it too.

docs/site/blocks.py PAGE FOLDER      runs a page; FOLDER gets its pictures, and shown.json
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent.parent
LONG = 300  # seconds; longer than any block takes, also on a busy machine
ACTIVATION = ". .venv/bin/activate"
MARK = r"(?:<!-- (?P<kind>not run|file): (?P<what>[^>]*?) -->\n)?"
BLOCK = re.compile(MARK + r"```(?P<language>\w*)\n(?P<text>.*?)```", re.S)
SHELL = ("", "sh")
# Pages of the guide without blocks, or with such as tests/python/test_install.py runs.
NOT_RUN = ("cpp", "comparison", "plug-in")
# What a launcher sets for its processes, and what lets Open MPI run as root with more ranks than cores.
LAUNCHED = ("OMPI_", "PMI_", "PMIX_", "TACIT_", "SLURM_")
ALLOW = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}


class Block(NamedTuple):
    line: int  # the first one of its text
    kind: str  # "", "not run", "file"
    what: str
    language: str
    text: str
    start: int  # where it begins in the page's text, with its comment
    end: int


class Shown(NamedTuple):
    """What a block that was run has left."""

    block: Block
    text: str
    html: str  # of the value in its last line
    pictures: list[Path]


def blocks(text: str) -> list[Block]:
    found = []
    for m in BLOCK.finditer(text):
        line = text.count("\n", 0, m.start("text")) + 1
        found.append(Block(line, m["kind"] or "", m["what"] or "", m["language"], m["text"], m.start(), m.end()))
    return found


def own_files(folder: Path) -> None:
    """Makes the files that the pages assume the reader has."""
    import h5py
    import numpy as np
    import scipy.sparse as sp
    from scipy.io import mmwrite

    line = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(30, 30))
    mmwrite(folder / "matrix.mtx", sp.csr_array(sp.kron(line, sp.eye_array(30)) + sp.kron(sp.eye_array(30), line)))
    np.savez(folder / "images.npz", np.random.default_rng(0).random((60, 1024)) < 0.3)
    with h5py.File(folder / "scan.h5", "w") as scan:
        angles = np.linspace(0, np.pi, 40, endpoint=False)
        aside = np.arange(32) - 15.5 - 4 * np.cos(angles)[:, None]  # a disc beside the axis
        scan["exchange/data"] = 100 * np.exp(-0.1 * np.sqrt(np.maximum(81 - aside**2, 0)))[:, None]
        scan["exchange/data_white"], scan["exchange/data_dark"] = np.full((1, 1, 32), 100.0), np.zeros((1, 1, 32))
        scan["exchange/theta"] = np.rad2deg(angles)


def mpiexec() -> str | None:
    """The mpiexec of the MPI that Tacit was built with, if there is one."""
    from tacit import launch

    try:
        return str(launch.find_mpiexec().path)
    except launch.LaunchError:
        return None


def program(path: Path, *lines: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(("#!/bin/sh", *lines)) + "\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def own_programs(folder: Path) -> None:
    """./run, the environment that the activation line names, and a batch system of one machine."""
    tacit = f'exec "{sys.executable}" -m tacit "$@"'
    program(folder / "run", '[ "${1-}" != build ] || exit 0', tacit)
    inside = folder / ".venv/bin"
    program(inside / "tacit", tacit)
    program(inside / "python", f'exec "{sys.executable}" "$@"')
    if launcher := mpiexec():
        if os.path.realpath(shutil.which("mpiexec") or "") != os.path.realpath(launcher):
            program(inside / "mpiexec", f'exec "{launcher}" "$@"')
        program(folder / ".cluster/srun", f'exec "{launcher}" -n "${{SLURM_NTASKS:-2}}" "$@"')
    program(folder / ".cluster/module", "exit 0")
    for name in ("tacit", "python"):
        program(folder / ".before" / name, f'echo "{name}: not found; the page lacks: {ACTIVATION}" >&2', "exit 127")
    (inside / "activate").write_text(f'PATH="{inside}:$PATH"\n')


def environment(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHED)}
    path = os.pathsep.join((str(folder / ".before"), str(folder / ".cluster"), os.environ["PATH"]))
    module = os.environ.get("PYTHONPATH", str(ROOT / "python"))
    threads = os.environ.get("OMP_NUM_THREADS", "1")
    return kept | ALLOW | {"PATH": path, "PYTHONPATH": module, "OMP_NUM_THREADS": threads, "COLUMNS": "110"}


def needs_ranks(line: str) -> bool:
    return bool(re.match(r"mpiexec|srun|sh job", line) or re.search(r"--ranks|mpirun -n|--preset", line))


def run_commands(block: Block, folder: Path, activated: bool) -> str:
    """Runs a block in a shell; AssertionError with its output where a command fails."""
    lines = block.text.splitlines()
    if mpiexec() is None:
        lines = [line for line in lines if not needs_ranks(line)]
    script = "\n".join(["set -e", *([ACTIVATION] if activated else []), *lines, ""])
    done = subprocess.run(
        ["sh", "-c", script], cwd=folder, env=environment(folder), text=True, errors="replace",
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LONG, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, f"line {block.line}: exit code {done.returncode}\n{block.text}\n{done.stdout[-4000:]}"
    return done.stdout


def run_python(block: Block, page: Path, names: dict[str, Any]) -> tuple[str, str]:
    """What a block prints, and the HTML of the value in its last line, if it has one."""
    said, value = io.StringIO(), None
    code = ast.parse("\n" * (block.line - 1) + block.text, str(page))  # a failure names the page's line
    last = code.body.pop() if code.body and isinstance(code.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(said):
        exec(compile(code, str(page), "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), str(page), "eval"), names)
    return said.getvalue(), value._repr_html_() if hasattr(value, "_repr_html_") else ""


def pictures_of(folder: Path) -> dict[Path, int]:
    return {file: file.stat().st_mtime_ns for file in folder.glob("*.png")}


def run_page(page: Path, folder: Path) -> Iterator[Shown]:
    """Runs the blocks of a page in this folder, which is the current one, and yields what each has left."""
    names: dict[str, Any] = {"__name__": "__main__"}
    activated = False
    for block in blocks(page.read_text()):
        before = pictures_of(folder)
        if block.kind == "file":
            (folder / block.what).write_text(block.text)
        elif block.kind == "not run":
            continue
        elif block.language == "python":
            yield Shown(block, *run_python(block, page, names), new_pictures(folder, before))
        elif block.language in SHELL:
            text = run_commands(block, folder, activated)
            activated |= ACTIVATION in block.text
            yield Shown(block, text, "", new_pictures(folder, before))


def new_pictures(folder: Path, before: dict[Path, int]) -> list[Path]:
    return sorted(file for file, made in pictures_of(folder).items() if before.get(file) != made)


def cleaned(text: str, folder: Path) -> str:
    """Without the places of this machine."""
    return text.replace(f"{folder}/", "").replace(str(ROOT), "/home/me/tacit")


def main(page: Path, out: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    page, out = page.resolve(), out.resolve()  # the folder changes below
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    shown = []
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        folder = Path(name)
        own_files(folder)
        own_programs(folder)
        for number, one in enumerate(run_page(page, folder)):
            names = []
            for picture in one.pictures:
                names.append(f"{page.stem}-{number}-{picture.name}")
                shutil.copy(picture, out / names[-1])
            shown.append(
                {"line": one.block.line, "text": cleaned(one.text, folder), "html": one.html, "pictures": names}
            )
    (out / "shown.json").write_text(json.dumps(shown, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
