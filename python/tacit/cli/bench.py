"""`tacit bench`: a matrix of the user's own, solved by Tacit and by other libraries that are installed here."""

from __future__ import annotations

import argparse
from typing import Any

from tacit import report
from tacit._names import printable
from tacit._progress import Line
from tacit.cli import arguments as cli

TEXT = "solve A x = b by Tacit and by other libraries, and compare their times"
_KNOWN = ("scipy", "petsc", "pyamg")


def _libraries(text: str) -> list[str]:
    check = cli.one_of("library", _KNOWN)
    return list(dict.fromkeys(check(word.strip()) for word in text.split(",")))


def add(a: cli.Arguments) -> None:
    a("file FILE", "the matrix, as for tacit solve")
    a("--vs NAME,NAME", f"with what to compare, of {', '.join(_KNOWN)}; those that are not installed are named",
      _libraries, ",".join(_KNOWN), known=_KNOWN)  # fmt: skip
    a("--rhs FILE|ones|random:SEED", "b", cli.right_hand_side, "random:0", also=["--b"], known=("ones", "random:0"))
    a("--rtol X", "the goal of all: |b - A x| <= rtol |b|, recomputed", cli.real(0, strictly=True), 1e-8)
    a("--rounds N", "how often each method runs; rounds go through all methods in turn", cli.whole(1), 5)
    a("--limit SECONDS", "that one run may take", cli.real(0, strictly=True), 60.0)
    a.where(ranks=False)
    a.json()


def run(arguments: argparse.Namespace) -> int:
    from tacit.app import comparison

    cli.check_files(arguments, ("file", "rhs"), ("json",))
    out = report.console(stderr=arguments.json == "-")
    with Line(out) as line:
        line.now(f"reading {arguments.file}")
        A, b = _system(arguments)
        absent = comparison.missing(arguments.vs)
        present = [name for name in arguments.vs if name not in absent]
        line.now("comparing")
        how = {name: getattr(arguments, name) for name in ("rtol", "rounds", "limit", "threads")}
        rows = comparison.compare(A, b, present, show=lambda text, share: line.update(share, text), **how)
    facts = report.header("tacit.bench/1", arguments.words) | {
        "file": arguments.file,
        "rhs": arguments.rhs,
        "unknowns": A.shape[0],
        "nonzeros": int(A.nnz),
        "scalar": A.dtype.name,
        "versions": comparison.versions(present),
        "missing": absent,
        **how,
        "rows": [row.facts() for row in rows],
    }
    if arguments.json:
        report.write_json(facts, arguments.json)
    _show(report.plain(facts), out)
    return cli.OK if rows[0].converged else cli.NOT_CONVERGED


def _system(arguments: argparse.Namespace) -> tuple[Any, Any]:
    """A as SciPy has it, and b. InputError where they do not fit."""
    import numpy as np
    from scipy.sparse import coo_matrix

    from tacit import comm, files, io, op
    from tacit._core import InputError

    rows, columns, share = io.read_share(arguments.file, io.default_scalar(io.header(arguments.file).scalar))
    if rows != columns or rows == 0:
        raise InputError(f"{arguments.file}: expected a square matrix with rows, found {rows} x {columns}")
    A = coo_matrix((share.value, (share.row, share.column)), shape=(rows, columns)).tocsr()
    A.sum_duplicates()
    A.sort_indices()
    if max(A.nnz, rows) < 2**31:  # other libraries take no other indices
        A.indptr, A.indices = (index.astype(np.int32, copy=False) for index in (A.indptr, A.indices))
    b = files.right_hand_side(arguments.rhs, op.csr(A, comm=comm.self_()), comm.self_())
    if b.ndim == 2:
        raise cli.WrongUse(f"--rhs {arguments.rhs} has {b.shape[1]} vectors; the comparison is of one")
    return A, b.astype(A.dtype) if A.dtype.kind == "c" else b


def _show(facts: dict[str, Any], out: Any) -> None:
    out.print(printable(facts["file"]), style="bold")
    system = f"{report.plural(facts['unknowns'], 'unknown')}, {report.plural(facts['nonzeros'], 'nonzero')}"
    out.print(f"{system}, {facts['scalar']}; |b - A x| <= {facts['rtol']:.0e} |b|, recomputed for all alike")
    head = ("library", "method", "set-up", "total", "iterations", "residual", "ended")
    table = [head]
    for row in facts["rows"]:
        times = [report.seconds(v) if v is not None else "-" for v in row["median"].values()]
        steps = "-" if row["iterations"] is None else report.count(row["iterations"])
        residual = "-" if row["residual"] is None else f"{row['residual']:.1e}"
        table.append((row["library"], row["method"], *times, steps, residual, row["ended"]))
    widths = [max(len(line[k]) for line in table) for k in range(len(head))]
    best = min((r["median"]["total"] for r in facts["rows"] if r["converged"]), default=None)
    for i, line in enumerate(table):
        padded = zip(range(len(head)), line, widths, strict=True)
        cells = [word.ljust(width) if k in (0, 1, 6) else word.rjust(width) for k, word, width in padded]
        fastest = i > 0 and best is not None and facts["rows"][i - 1]["converged"]
        fastest = fastest and facts["rows"][i - 1]["median"]["total"] == best
        out.print("  ".join(cells).rstrip(), style="dim" if i == 0 else "bold green" if fastest else None)
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    out.print(f"medians of {report.plural(facts['rounds'], 'round')}, set-up included in total; {versions}")
    out.print(f"processor: {facts['machine']['processor']}, {report.plural(facts['machine']['cores'], 'core')}")
    for name, why in facts["missing"].items():
        out.print(f"left out: {name} cannot be imported here ({why})", style="yellow")
