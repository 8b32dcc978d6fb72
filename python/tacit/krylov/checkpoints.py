"""Checkpoints: the iterate of a solve in a file, from which the next run goes on, on any number of ranks."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import _core, layout
from .._files import load_arrays
from .._support import Array, agreed, as_array, whole_number
from .callbacks import CallbackState, Observer

__all__ = ["Checkpoint"]

_VERSION = 1
_NAMES = {"version", "x", "iterations", "residual_norm", "b_norm"}
_SAME_NORM = 1e-6  # relative difference of |b|, by ranks and types, that is still the same b


class Checkpoint:
    """Keeps the iterate of a long solve in a file: ``tacit.solve(A, b, checkpoint=Checkpoint("run.npz", every=100))``.

    Where the file exists, the solve starts from its x instead of x0. Methods begin anew there: the search space before
    is not kept, so that a resumed solve takes some more iterations than one that was not ended; it has the same goal,
    ``rtol`` relative to b. The number of ranks and the method may change.

    Parameters
    ----------
    path : str or path
        Written by the first rank, first beside it as ``path + ".part"``, so that a run that is killed leaves the last
        whole one. A NumPy archive: ``x`` (n,) or (n, k), ``iterations`` of all runs, ``residual_norm`` relative to b,
        ``b_norm`` (the largest element of b, and the norm relative to it), ``version``. If it cannot be written, a
        warning says so once and the solve goes on.
    every : int
        Iterations between two writings; x is also written when the solve ends (not where a callback raises an
        exception). Each costs the iterate (a few vectors read and written) and on several ranks a gather of x. An
        iterate whose residual is not below the last one's of this run is not written: of several attempts the best
        stays.

    Attributes
    ----------
    resumed : int
        Iterations before this run; 0 where the file did not exist.
    resumed_residual : float
        ||b - A x|| / ||b|| there, as the run before had it.

    Raises
    ------
    tacit.InputError
        By the solve, for a file that is no checkpoint, or is one of another size, type, or right-hand side.

    Examples
    --------
    >>> import numpy as np, tempfile, os, tacit
    >>> A, b = tacit.poisson((40, 40)), np.ones(1600)
    >>> path = os.path.join(tempfile.mkdtemp(), "run.npz")
    >>> first = tacit.solve(A, b, method="cg", max_iterations=40, checkpoint=path)
    >>> keep = tacit.Checkpoint(path)
    >>> second = tacit.solve(A, b, method="cg", checkpoint=keep)
    >>> first.converged, second.converged, keep.resumed
    (False, True, 40)
    """

    def __init__(self, path: str | os.PathLike[str], every: int = 100) -> None:
        given = os.fspath(path)
        if not isinstance(given, str) or not given:
            raise ValueError(f"the path of a checkpoint is {path!r}; the name of a file, as text, is needed")
        self.path = given
        self.every = whole_number(every, "every")
        if self.every < 1:
            raise ValueError(f"every is {every}; a checkpoint after each 1 or more iterations is needed")
        self.resumed, self.resumed_residual = 0, 1.0
        self._failed = False

    def begin(self, b: Any, n: int, on: _core.Communicator) -> Array | None:
        """The x of the file as an initial guess, whole or this rank's own part as b is, or None. Collective."""
        self._agree(on)
        self.resumed, self.resumed_residual, self._failed = 0, 1.0, False
        own = agreed(on, lambda: as_array(b, "b"))
        # |b| as a largest element and the rest, so that neither overflows.
        most = float(np.abs(own).max(initial=0))
        mine = np.array([len(own), most, float(np.linalg.norm(own / most)) if 0 < most < np.inf else most])
        rows, mosts, norms = np.array([np.frombuffer(part) for part in on.all_gather(mine.tobytes())]).T
        self._on, self._n, self._whole = on, n, on.size == 1 or int(rows.sum()) != n
        if self._whole:
            self._b_norm = mine[1:]
        else:
            scale = mosts.max()
            self._b_norm = np.array([scale, np.linalg.norm(norms * mosts / scale) if 0 < scale < np.inf else scale])
        saved = agreed(on, lambda: self._read(own))
        first = 0 if self._whole else int(rows[: on.rank].sum())
        many = own.shape[1:]
        self._best = np.full(many, np.inf)
        self._x: Array | None = None
        if saved is None:
            return None
        self.resumed, self.resumed_residual = int(saved["iterations"]), float(saved["residual_norm"])
        return np.ascontiguousarray(saved["x"][first : first + len(own)])

    def _agree(self, on: _core.Communicator) -> None:
        """ValueError on every rank unless all keep as often, in one file that all see or none. Collective."""
        if on.size == 1:
            return
        mine = f"{self.every} {int(os.path.exists(self.path))} {self.path}"
        texts = [part.decode() for part in on.all_gather(mine.encode())]
        for rank, text in enumerate(texts):
            every, there, path = text.split(" ", 2)
            first = texts[0].split(" ", 2)
            if (every, path) != (first[0], first[2]):
                raise ValueError(
                    f"checkpoint is {first[2]} every {first[0]} on rank 0 and {path} every {every} on rank {rank}; all"
                    " ranks must give the same"
                )
            if there != first[1]:
                raise ValueError(
                    f"the checkpoint {path} is there for rank {0 if first[1] == '1' else rank} and not for rank"
                    f" {rank if first[1] == '1' else 0}; a folder that all ranks see is needed"
                )

    def _read(self, b: Array) -> dict[str, Array] | None:
        """What is in the file, if there is one: of this system, else InputError. Local."""
        if not os.path.exists(self.path):
            return None
        cure = "; another path, or none, starts anew"
        found = load_arrays(self.path)
        if not isinstance(found, dict) or set(found) != _NAMES:
            raise _core.InputError(
                f"{self.path}: expected a checkpoint of a solve, with {', '.join(sorted(_NAMES))}{cure}"
            )
        if str(found["version"]) != str(_VERSION):
            raise _core.InputError(
                f"{self.path}: a checkpoint of version {found['version']}; {_VERSION} is known{cure}"
            )
        x, shape = found["x"], (self._n, *b.shape[1:])
        shapes = {"version": (), "iterations": (), "residual_norm": (), "b_norm": (2,), "x": x.shape}
        if any(found[key].shape != of or found[key].dtype.kind not in "iufc" for key, of in shapes.items()):
            raise _core.InputError(f"{self.path}: expected numbers of a checkpoint, found other arrays{cure}")
        if x.shape != shape or not np.isfinite(x).all():
            raise _core.InputError(f"{self.path}: x has shape {x.shape} where finite numbers {shape} are needed{cure}")
        if not np.allclose(found["b_norm"], self._b_norm, rtol=_SAME_NORM, atol=0):
            norms = [
                f"{np.longdouble(most) * np.longdouble(rest):.6g}" for most, rest in (found["b_norm"], self._b_norm)
            ]
            raise _core.InputError(
                f"{self.path}: a checkpoint of a right-hand side of norm {norms[0]}, and this one has {norms[1]}{cure}"
            )
        return found

    def observer(self, callback: Callable[[CallbackState], Any] | None) -> Callable[[CallbackState], Any]:
        """The callback of the solve, which keeps what it sees, and then calls this one."""

        def keep(state: CallbackState) -> Any:
            at = (state.column,) if self._best.ndim else ()
            if state.iteration % self.every == 0 and state.residual_norm < self._best[at]:
                self._best[at] = state.residual_norm
                x = state.x.reshape(-1)
                if self._x is None:
                    self._x = np.zeros((len(x), *self._best.shape), x.dtype)
                self._x[(slice(None), *at)] = x
                self._write(self._x, state.iteration, float(self._best.max()))
            return None if callback is None else callback(state)

        return Observer(keep) if callback is None or isinstance(callback, Observer) else keep

    def end(self, result: Any) -> None:
        """Keeps the x with which the solve ended, if it is no worse than that of the file. Collective."""
        columns = getattr(result, "columns", None)
        residual = max(c.residual_norm for c in columns) if columns else float(result.residual_norm)
        if residual <= float(self._best.max()):
            x = np.asarray(result.x)
            self._write(x.reshape(len(x), *self._best.shape), int(result.iterations), residual)
        self._on.barrier()  # the file is there for all ranks

    def _write(self, x: Array, iterations: int, residual: float) -> None:
        """Collective where x is a rank's own part."""
        whole = x if self._whole else layout.gather(x, self._on)
        if self._on.rank > 0 or not np.isfinite(whole).all():
            return
        beside = self.path + ".part"
        try:
            with open(beside, "wb") as file:
                np.savez(
                    file,
                    version=_VERSION,
                    x=whole,
                    iterations=self.resumed + iterations,
                    residual_norm=residual,
                    b_norm=self._b_norm,
                )
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, self.path)
        except OSError as error:
            if not self._failed:
                warnings.warn(f"the checkpoint {self.path} was not written: {error}; the solve goes on", stacklevel=2)
            self._failed = True
