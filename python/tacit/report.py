"""Output of a run: the JSON document of a solve, the report made from it, and files that are replaced in one step."""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import platform
import re
import resource
import shlex
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit import launch
from tacit._names import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.segment import Segment
    from rich.text import Text

SCHEMA = "tacit.solve/1"


def version() -> str:
    """The version of Tacit, without loading its compiled part."""
    from importlib import metadata  # which loads the parsers of mail

    try:
        return metadata.version("tacit-solvers")
    except metadata.PackageNotFoundError:
        from tacit import _core

        return str(_core.version())


def program() -> str:
    """What a reader types for this command line: `./run` where that started it, `tacit` where PATH has it, else its
    file. Printed commands begin with it, so that they run as they stand.
    """
    if given := os.environ.get("TACIT_COMMAND"):
        return shlex.quote(given)
    own = Path(sys.executable).parent / "tacit"
    if (found := shutil.which("tacit")) and os.path.realpath(found) == os.path.realpath(own):
        return "tacit"
    return shlex.quote(str(own)) if own.exists() else f"{shlex.quote(sys.executable)} -m tacit"


def processor() -> str:
    """The processor's name, or its architecture where the system does not tell."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def machine() -> dict[str, Any]:
    """The machine of a run: processor, cores, operating system, Python version."""
    system = f"{platform.system()} {platform.release()}"
    return {"processor": processor(), "cores": launch.cores(), "system": system, "python": platform.python_version()}


# --- files and JSON ---------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _naming(path: str | os.PathLike[str], *others: Path) -> Iterator[None]:
    """Adds `path` to errors of the operating system that name no file, or one of `others`: for a full disk Python does
    not say which file it was writing.
    """
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename not in (None, *map(os.fspath, others)):
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None


#: Temporary files and folders that exist at present, for `drop_temporaries`.
_temporaries: set[Path] = set()


def drop_temporaries() -> None:
    """Removes all temporary files of this process; for a process that is about to end without unwinding."""
    for path in list(_temporaries):
        with contextlib.suppress(OSError):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def reserve(path: str | os.PathLike[str], size: int, named: str | os.PathLike[str] | None = None) -> None:
    """Takes `size` bytes of the disk for a file, so that writing it later cannot fail for want of space. OSError with
    the size, of the name `named`, where there are not as many.
    """
    with open(path, "r+b") as file:
        try:
            if size > 0:
                os.posix_fallocate(file.fileno(), 0, size)
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.EOPNOTSUPP, errno.ENODEV, errno.ENOSYS):
                return  # this file system cannot
            raise OSError(
                error.errno, f"{os.strerror(error.errno or 0)} ({size:,} bytes are needed)", os.fspath(named or path)
            ) from None


class Replacement:
    """A temporary file at `path`, with the suffix of the destination: keep() moves it to the destination, drop()
    removes it.

    It is in the same folder, so that the destination is replaced in one step or left unchanged. If the destination is a
    symbolic link, the file behind the link is replaced. A device or pipe is written to by keep().
    """

    def __init__(self, destination: str | os.PathLike[str]) -> None:
        given = self._given = Path(destination)
        self._into = Path(os.path.realpath(given))
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        try:
            there = given.stat().st_mode
        except FileNotFoundError:
            pass  # or a link to a file that does not exist yet
        else:
            if stat.S_ISDIR(there):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(given))
            if not stat.S_ISREG(there):
                self._into, self._folder = given, tempfile.TemporaryDirectory(prefix="tacit-")
        beside = self._into.parent if self._folder is None else Path(self._folder.name)
        self.path = beside / f".tacit-{os.urandom(8).hex()}{given.suffix}"
        self._temporary = self.path if self._folder is None else beside
        _temporaries.add(self._temporary)
        try:
            # With the permissions of any new file; an existing file or link of this name is never opened.
            os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666))
        except OSError as error:
            _temporaries.discard(self._temporary)
            raise OSError(error.errno, error.strerror, os.fspath(given)) from None

    @contextlib.contextmanager
    def naming(self) -> Iterator[None]:
        """A context in which errors of writing name the destination, also those of HDF5, which have no number."""
        try:
            with _naming(self._given, self.path):
                yield
        except OSError as error:
            if error.errno is not None:
                raise
            raise OSError(f"{self._given}: {error}") from None

    def keep(self) -> None:
        with _naming(self._given, self.path, self._into):
            self._keep()

    def _keep(self) -> None:
        if self._folder is not None:
            with open(self.path, "rb") as source, open(self._into, "wb") as target:
                shutil.copyfileobj(source, target)
            self.drop()
            return
        with open(self.path, "rb") as written:
            try:
                # Without fsync a crash soon after could leave an empty file under the final name.
                os.fsync(written.fileno())
            except OSError as error:
                if error.errno not in (errno.EINVAL, errno.EROFS):  # some file systems have none
                    raise
        os.replace(self.path, self._into)
        _temporaries.discard(self._temporary)

    def drop(self) -> None:
        """Removes the temporary file; does nothing after keep()."""
        self.path.unlink(missing_ok=True)
        if self._folder is not None:
            self._folder.cleanup()
        _temporaries.discard(self._temporary)


class NewFolder:
    """A temporary folder beside `destination`, which must not exist: keep() gives it that name, drop() removes it."""

    def __init__(self, destination: str | os.PathLike[str]) -> None:
        self._into = Path(destination)
        if os.path.lexists(self._into):
            raise FileExistsError(errno.EEXIST, "exists, and folders are not replaced", os.fspath(destination))
        self.path = self._into.parent / f".tacit-{os.urandom(8).hex()}{self._into.suffix}"
        _temporaries.add(self.path)

    @contextlib.contextmanager
    def naming(self) -> Iterator[None]:
        """A context in which errors of writing name the destination."""
        with _naming(self._into, self.path):
            yield

    def keep(self) -> None:
        with _naming(self._into, self.path):
            os.rename(self.path, self._into)
        _temporaries.discard(self.path)

    def drop(self) -> None:
        """Removes the temporary folder; does nothing after keep()."""
        shutil.rmtree(self.path, ignore_errors=True)
        _temporaries.discard(self.path)


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """The path of a Replacement that is kept if all goes well, and dropped otherwise."""
    made = Replacement(path)
    try:
        with _naming(path, made.path):
            yield made.path
        made.keep()
    finally:
        made.drop()


def plain(value: Any) -> Any:
    """`value` in the types of JSON. Numbers that are not finite become null."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):  # of NumPy
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, int):
        return int(value)
    if isinstance(value, complex):
        return [plain(value.real), plain(value.imag)]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return str(value)


def dump(document: Any) -> str:
    """`document` as JSON text. A file name that is not UTF-8 reads back as the string that Python has for it."""
    text = json.dumps(plain(document), indent=2, allow_nan=False, ensure_ascii=False).replace("\r", "") + "\n"
    return re.sub("[\ud800-\udfff]", lambda lone: f"\\u{ord(lone[0]):04x}", text)


def write_json(document: Any, target: str) -> None:
    """Writes to a file, or to standard output when `target` is "-"."""
    text = dump(document)
    if target == "-":
        with _naming("standard output"):
            if sys.stdout is None or getattr(sys.stdout, "closed_at_start", False):
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            sys.stdout.write(text)
            sys.stdout.flush()
    else:
        with replacing(target) as temporary:
            temporary.write_text(text, encoding="utf-8")


def header(schema: str, words: list[str]) -> dict[str, Any]:
    """The first keys of every document; `words` are the words of the command line."""
    return {"schema": schema, "version": version(), "command": ["tacit", *words], "machine": machine()}


# --- the document of a solve ------------------------------------------------------------------------------------------

_OF_RESULT = (
    "method", "choice", "converged", "reason", "detail", "advice", "warnings", "iterations", "restarts", "norm",
    "residual_norm", "recurrence_residual_norm", "history", "unknowns", "nonzeros", "ranks", "threads", "device",
    "scalar", "levels",
)  # fmt: skip
COUNTS = ("reductions", "operator_applies", "preconditioner_applies", "exchanges", "messages", "bytes")


def document(result: Any, *, words: list[str], read_seconds: float, **more: Any) -> dict[str, Any]:
    """What `--json` writes about a tacit.Result. `more`: further keys (file, rtol, atol, ...)."""
    facts: dict[str, Any] = {
        **header(SCHEMA, words),
        **{name: getattr(result, name) for name in _OF_RESULT},
        "precond": result.precond or "none",
        "seconds": {"read": read_seconds, **result.seconds},
        "counts": {name: result.counts[name] for name in COUNTS},
    }
    if hasattr(result, "columns"):
        facts |= {name: result.facts()[name] for name in ("columns", "together", "alone")}
    return plain(facts | more)  # type: ignore[no-any-return]


# --- words and numbers ------------------------------------------------------------------------------------------------


def count(value: float | None) -> str:
    return "?" if value is None else f"{value:,.0f}"


def plural(number: int, word: str) -> str:
    if number != 1:
        word = f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"
    return f"{count(number)} {word}"


def residual(value: float | None) -> str:
    return "not finite" if value is None or not math.isfinite(value) else f"{value:.2e}"


def size(amount: float) -> str:
    """Bytes in a unit that leaves few digits."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.3g} {unit}" if unit != "bytes" else f"{amount:.0f} bytes"
        amount /= 1000
    return f"{amount:.3g} TB"


def seconds(value: float) -> str:
    if value < 0.9995:
        return f"{value * 1e3:.3g} ms"
    return f"{value:.3g} s" if value < 100 else f"{value:.0f} s"


def levels_table(levels: Mapping[str, Any]) -> str:
    """The levels of algebraic multigrid as lines of text, from the report of the preconditioner."""
    head = ("level", "unknowns", "entries", "a row", "ranks", "set-up", "cycles", "of it")
    whole = sum(level["seconds"] for level in levels["levels"])
    rows: list[tuple[str, ...]] = [head]
    for i, level in enumerate(levels["levels"]):
        share = f"{100 * level['seconds'] / whole:.0f} %" if whole > 0 else ""
        a_row = f"{level['entries'] / max(1, level['rows']):.1f}"
        counts = (count(level["rows"]), count(level["entries"]), a_row, str(level["ranks"]))
        times = (seconds(level["setup_seconds"]), seconds(level["seconds"]) if whole > 0 else "")
        rows.append((str(i), *counts, *times, share))
    widths = [max(len(row[k]) for row in rows) for k in range(len(head))]
    lines = ["  ".join(word.rjust(width) for word, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.append(
        f"complexity {levels['operator_complexity']:.2f} (entries), {levels['grid_complexity']:.2f} (unknowns);"
        f" {plural(levels['cycles'], 'cycle')}"
    )
    kept, matrices = levels.get("update_bytes", 0), levels.get("matrix_bytes", 0)  # a GPU keeps nothing for updates
    if kept > 0.1 * matrices:
        lines.append(f"kept for updates: {kept / 2**20:.3g} MiB, {100 * kept / matrices:.0f} % of the matrices")
    return "\n".join(lines + ([levels["note"]] if levels["note"] else []))


def console(stderr: bool = False, quiet: bool = False) -> Console:
    """The console of this process. Under mpiexec the terminal is the launcher's, which passes its width on."""
    from rich.console import Console
    from rich.segment import Segment

    class Output(Console):
        def on_broken_pipe(self) -> None:
            raise  # a closed pipe (| head) is no failure: cli.guarded() ends quietly, where rich would exit with code 1

        def render(self, renderable: Any, options: Any = None) -> Iterator[Segment]:
            for part in super().render(renderable, options):  # names of files may have control characters
                yield part if part.control else Segment(printable(part.text, lines=True), part.style)

    style: dict[str, Any] = {"highlight": False, "markup": False, "soft_wrap": True, "quiet": quiet}
    width = os.environ.get(launch.TERMINAL)
    if width and not stderr:
        return Output(force_terminal=True, width=int(width), **style)
    if launch.launched() is not None and launch.RANKS in os.environ:
        return Output(force_terminal=False, stderr=stderr, width=100, **style)
    stream = sys.stderr if stderr else sys.stdout
    terminal = stream is not None and stream.isatty()  # a process without standard output has None
    wide = None if terminal or "COLUMNS" in os.environ else 100
    # FORCE_COLOR (notebooks and some CI set it) means colours, not lines that are drawn again.
    if os.environ.get("FORCE_COLOR") and not terminal:
        style["color_system"] = "standard"
    return Output(stderr=stderr, width=wide, force_terminal=terminal, **style)


def print_facts(rows: Iterable[tuple[str, str | Text]], out: Console) -> None:
    """Prints rows of a name and a value."""
    from rich.text import Text

    for name, value in rows:
        out.print(Text.assemble((f"{name:<15}", "dim"), value))


def show(facts: dict[str, Any], out: Console) -> None:
    """The one-page report of a solve, from its document."""
    from rich.text import Text

    good, file, precond = facts["converged"], facts.get("file", ""), facts["precond"]
    verdict = "converged" if good else f"NOT CONVERGED: {facts['reason'].replace('_', ' ')}"
    equations = f"{plural(facts['equations'], 'equation')}, " if facts.get("equations") is not None else ""
    system = (
        f"{equations}{plural(facts['unknowns'], 'unknown')}, {plural(facts['nonzeros'], 'nonzero')}, {facts['scalar']}"
    )
    method = facts["method"] + ("" if precond in ("none", facts["method"]) else f", preconditioned by {precond}")
    place = f"{plural(facts['ranks'], 'rank')} x {plural(facts['threads'], 'thread')}, {facts['device']}"
    rows: list[tuple[str, str | Text]] = [("system", system), ("method", method)]
    if facts["choice"]:
        rows.append(("", Text(facts["choice"])))
    rows += [("ran on", place), ("verdict", Text(verdict, style="bold green" if good else "bold red"))]
    if facts["detail"]:
        rows.append(("", Text(facts["detail"])))
    rows += [(name, Text(text)) for name, text in _columns(facts)]
    if facts["advice"]:
        rows.append(("advice", Text(facts["advice"], style="yellow")))
    rows += _cost(facts)
    if facts.get("levels"):
        table = levels_table(facts["levels"]).splitlines()
        rows += [("levels" if i == 0 else "", Text(line)) for i, line in enumerate(table)]
    rows += [("warning", Text(text, style="yellow")) for text in facts["warnings"]]
    rows += [("wrote", Text(f"{printable(path)} ({what})")) for what, path in facts.get("written", {}).items()]
    if file:
        out.print(Text(printable(file), style="bold"))
    print_facts(rows, out)


def _columns(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Rows of several right-hand sides: how they were solved, and those that have not converged."""
    columns = facts.get("columns") or []
    if not columns:
        return
    together = facts["together"]
    how = f"up to {together} together" if together > 1 else f"one after another: {facts['alone']}"
    done, steps = sum(c["converged"] for c in columns), [c["iterations"] for c in columns]
    yield "columns", f"{done} of {len(columns)} converged, {how}; {count(min(steps))} to {count(max(steps))} iterations"
    failed = [(i, c) for i, c in enumerate(columns) if not c["converged"]]
    for i, c in failed[:8]:
        words = c["reason"].replace("_", " ")
        yield "", f"column {i}: {words} at {residual(c['residual_norm'])} after {count(c['iterations'])} iterations"
    if len(failed) > 8:
        yield "", f"and {plural(len(failed) - 8, 'column')} more"


def _cost(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Rows of the residual and of what it took."""
    counts, times = facts["counts"], facts["seconds"]
    wanted = f", asked for {facts['rtol']:.1e}" if facts.get("rtol") is not None and "met" not in facts else ""
    norm = " in the largest element" if facts["norm"] == "max" else ""
    yield "residual", f"{residual(facts['residual_norm'])} = |b - A x| / |b|{norm}, recomputed{wanted}"
    yield "", f"{residual(facts['recurrence_residual_norm'])} by the recurrence"
    if "gradient_norm" in facts:
        yield "gradient", f"{residual(facts['gradient_norm'])} = |A^H (b - A x)| / (|A| |b - A x|), recomputed"
    if facts.get("projected_norm"):
        yield "taken out of b", f"{residual(facts['projected_norm'])}, orthogonal to the range of A"
    restarts = f", {plural(facts['restarts'], 'restart')}" if facts["restarts"] else ""
    yield "iterations", count(facts["iterations"]) + restarts
    applies = count(counts["preconditioner_applies"])
    with_precond = "" if facts["precond"] == "none" else f", {applies} with the preconditioner"
    yield "work", f"{plural(counts['operator_applies'], 'product')} with A{with_precond}"
    messages = f"{plural(counts['messages'], 'message')}, {size(counts['bytes'])}"
    exchanges = f"{plural(counts['reductions'], 'reduction')}; {plural(counts['exchanges'], 'exchange')}"
    yield "communication", f"{exchanges}: {messages}"
    phases = (("read", "reading"), ("setup", "setting up"), ("solve", "solving"))
    yield "time", ", ".join(f"{seconds(times[name])} {doing}" for name, doing in phases)


def peak_memory() -> int:
    """The largest amount of memory that this process has used, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
