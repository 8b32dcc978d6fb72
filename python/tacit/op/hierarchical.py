"""Dense matrices in hierarchical form."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from .. import _core
from .. import comm as _comm
from .. import device as _device
from .._alike import Whole, alike
from .._described import BATCH_CUTS, DEVICE_PRODUCT, HMATRIX, TASK_ORDERS, DeviceProductOptions, HmatrixOptions
from .._options import agree, fill
from .._support import (
    Array,
    agreed,
    as_array,
    choose,
    chosen_scalar,
    core,
    real_number,
    scalar_name,
    to_scalar,
    whole_number,
)
from .base import FromHandle, Operator


class HMatrix(Operator):
    """A dense matrix in hierarchical form. See :func:`tacit.hmatrix`."""

    __slots__ = ("symmetry", "tolerance")
    _cure = "pickle its points and what computes its entries, and make it anew by tacit.hmatrix"

    def __init__(
        self, handle: Any, comm: _core.Communicator, dtype: npt.DTypeLike, tolerance: float, symmetry: str = "none"
    ) -> None:
        super().__init__(handle, comm, dtype)
        self.tolerance = tolerance  #: the relative error that was requested
        self.symmetry = symmetry  #: "none", "symmetric" or "hermitian", as requested at construction

    def is_hermitian(self) -> bool:
        return self.symmetry == "hermitian" or (self.symmetry == "symmetric" and self.dtype.kind != "c")

    def to(self, device: str, **options: Unpack[DeviceProductOptions]) -> HMatrix | DeviceHMatrix:
        """This matrix in the memory of GPUs: a copy, the one in host memory stays. Collective.

        Parameters
        ----------
        device : str
            "host"; "cuda", the GPU of this rank (ranks of a node take its GPUs in turn); "cuda:1", that GPU;
            "cuda:0,1", these together, which share the blocks of this rank. Ranks may name different GPUs.
        **options
            ``path`` ("peer"; "host", "copy"), ``deal`` ("rows"; "round_robin"), ``work`` ("redundant"; "shared") and
            ``overlap`` ("gather"; "copy"): docs/reference/h-matrices.md.

        Returns
        -------
        DeviceHMatrix

        Raises
        ------
        ValueError, TypeError
            Before anything is copied: for a complex matrix, one that is not square, one with ``symmetry`` (which is
            stored by one triangle), and for an option with "host".
        tacit.EnvironmentFailure
            Without a GPU, without CUDA in this build, and for too little memory there.

        Examples
        --------
        >>> import numpy as np, tacit
        >>> x = np.linspace(0, 1, 500)
        >>> A = tacit.hmatrix(x, lambda i, j: 1 / (0.01 + np.abs(x[i, None] - x[None, j])))
        >>> if tacit.device.count():
        ...     B = A.to("cuda")
        ...     assert np.allclose(B @ x, A @ x) and tacit.solve(B, x).converged
        """

        def look() -> tuple[str, Any]:
            kind = _device.kind_of(device, several=True)
            if kind == "host" and options:
                raise ValueError(f"{', '.join(options)} is of an H-matrix on GPUs; the device is 'host'")
            o = fill(core("DeviceProductOptions")(), "to", DEVICE_PRODUCT, options, ("device",))
            if kind == "cuda":
                refuse_on_gpus(self.dtype, self.symmetry)
                if self.shape[0] != self.shape[1]:
                    raise ValueError(f"an H-matrix on GPUs is square; this one has shape {self.shape}")
            return kind, o

        kind, o = agreed(self.comm, look)
        agree(self.comm, o, DEVICE_PRODUCT, device=kind)
        if kind == "host":
            return self
        gpus = _device.numbers(device, self.comm)
        return DeviceHMatrix(core("device_hmatrix", self._scalar)(self._handle, gpus, o), self, o)

    def use_batches(
        self,
        order: str = "grouped",
        cut: str = "ranges",
        count: int = 20000,
        ranges: Sequence[int] = (8, 32),
        padded: bool = False,
        queues: int = 1,
    ) -> dict[str, Any]:
        """Makes all further products (not adjoint ones) run as batches of small matrix-vector products, as in GPU
        libraries: the variants of Yamazaki et al. (2018), for comparison. Results are the same up to rounding.

        Parameters
        ----------
        order : str
            Of the tasks of a list: "none" (that of the blocks in the matrix), "rows" (ascending number of rows),
            "grouped" (numbers of rows in groups of 8, within a group ascending number of columns) or "columns" (by the
            first column).
        cut : str
            "count": a batch ends after `count` tasks; "ranges": it also ends where the number of rows passes one of
            `ranges`.
        count : int
            Tasks of a batch, at most.
        ranges : sequence of int
            The smallest number of rows in each range but the first: (8, 32) means 1 to 7, 8 to 31, and 32 or more.
        padded : bool
            Pad all tasks of a batch to its largest numbers of rows and columns.
        queues : int
            Number of threads to which the batches of a list are assigned in turn. With several, parts of y are added
            atomically, so that the order of summation, and the last bits, change.

        Returns
        -------
        dict
            The plan of this rank: ``tasks``, ``bytes``, ``padded_bytes``, and ``batches``, each with its ``list`` (0:
            dense blocks and factors V; 1: factors U), ``tasks``, ``rows`` and ``columns`` (least, most), ``numbers``,
            ``stored`` (with padding), ``thread_blocks`` (with work, started; 32 rows each) and ``seconds`` of the last
            product (see ``A.batches``). Local; needs the memory of a copy of the matrix.

        Examples
        --------
        >>> import numpy as np, tacit
        >>> x = np.linspace(0, 1, 500)
        >>> A = tacit.hmatrix(x, lambda i, j: 1 / (0.01 + np.abs(x[i, None] - x[None, j])))
        >>> y = A @ x
        >>> plan = A.use_batches(order="rows", padded=True)
        >>> bool(np.allclose(A @ x, y)), plan["padded_bytes"] >= plan["bytes"]
        (True, True)
        """
        how = choose("order", order, TASK_ORDERS), choose("cut", cut, BATCH_CUTS), whole_number(count, "count")
        rows = [whole_number(r, "ranges") for r in ranges]
        self._handle.use_batches(*how, rows, bool(padded), whole_number(queues, "queues"))
        plan = self.batches
        assert plan is not None
        return plan

    def use_own_product(self) -> None:
        """Returns to the operator's own product, without batches. Local."""
        self._handle.use_own_product()

    @property
    def batches(self) -> dict[str, Any] | None:
        """The plan of :meth:`use_batches` with the seconds of its last product; None if there is no plan. Local."""
        plan = self._handle.batches
        return None if plan is None else dict(plan)

    def coarse(self, rank: int | None = 1, tolerance: float = 1e-2) -> HMatrix:
        """A coarse copy, for preconditioning: the same blocks, with low-rank blocks truncated. Evaluates no entries.

        Parameters
        ----------
        rank : int or None
            The largest rank of a block; None: no limit.
        tolerance : float
            Relative error (Frobenius) of the truncation of a low-rank block and of its storage.

        Returns
        -------
        HMatrix
            Collective. Its error is not measured: ``measured_error`` in its report is 0.

        Examples
        --------
        >>> import numpy as np, tacit
        >>> x = np.linspace(0, 1, 1000)
        >>> A = tacit.hmatrix(x, lambda i, j: 1 / (0.01 + np.abs(x[i, None] - x[None, j])))
        >>> A.coarse().report["max_rank"]
        1
        """

        def look() -> tuple[int, float]:
            most = 0 if rank is None else whole_number(rank, "rank")
            if rank is not None and most < 1:
                raise ValueError(f"rank is {rank}; a positive number is needed")
            return most, real_number(tolerance, "tolerance")

        def tell(found: tuple[int, float]) -> dict[str, Any]:
            return {"rank": found[0], "tolerance": found[1]}

        (most, _), first = alike(self.comm, look, tell)
        kept = first["tolerance"]
        handle = core("coarse_hmatrix", self._scalar)(self._handle, most, kept)
        return HMatrix(handle, self.comm, self.dtype, kept, self.symmetry)

    @property
    def report(self) -> dict[str, Any]:
        """Size and accuracy of the matrix, over all ranks. Local.

        ``bytes`` of stored numbers (of which ``bytes_float64``, ``bytes_float32``, ``bytes_int16``; ``index_bytes`` are
        in addition), ``dense_fraction``: bytes relative to the full matrix; ``dense_blocks``, ``low_rank_blocks``,
        ``ranks`` (how many low-rank blocks have rank 0, 1, ...), ``mean_rank``, ``max_rank``; ``entries_evaluated``,
        relative to the number of entries; ``norm`` (Frobenius); the relative errors ``estimated_error`` and
        ``measured_error`` (the larger of that on sampled rows, with a random vector, and that of entries at random
        places; ``measured_error_ones``: on sampled rows, with ones); ``seconds`` of the construction; ``least_bytes``
        and ``most_bytes`` of a rank; ``warnings``.
        """
        return dict(self._handle.report)

    @property
    def storage(self) -> str:
        report = self.report
        kinds = [k for k in ("float64", "float32", "int16") if report[f"bytes_{k}"] > 0]
        return f"hierarchical ({', '.join(kinds) or 'empty'})"


def refuse_on_gpus(dtype: npt.DTypeLike, symmetry: str) -> None:
    """ValueError for a matrix that cannot be on GPUs. Local."""
    if np.dtype(dtype).kind == "c":
        raise ValueError(f"an H-matrix on GPUs is of float32 or float64; this one is {np.dtype(dtype)}")
    if symmetry != "none":
        raise ValueError(
            f"symmetry is {symmetry!r}: the matrix is stored by one triangle, and GPUs need both; make it with"
            " symmetry='none'"
        )


class DeviceHMatrix(Operator):
    """An H-matrix on one GPU or several of each rank. Made by :meth:`HMatrix.to`.

    ``A @ x`` (one or k columns, a product each) and ``tacit.solve(A, b)`` by "bicgstab" or "pipelined-bicgstab",
    without a preconditioner or with "jacobi". x and b are in host memory, whole or this rank's own part; the GPUs get
    the whole vectors, and every vector of a solve is there on each GPU (Yamazaki et al. 2018). The matrix in host
    memory is kept: it says which rank has which rows. No adjoint products, and no operators composed of it:
    ``A.to("host")`` has these.

    Attributes
    ----------
    path, deal : str
        As given to :meth:`HMatrix.to`.
    bytes : list of float
        Of the matrix on each GPU of this rank, which a product reads.
    row_ranges : list of (int, int)
        The rows in which the blocks of each GPU lie, from this rank's first.
    traffic : dict
        Copies since the matrix was put there, counted on this rank: ``to_devices``, ``to_host`` and ``between`` GPUs,
        the ``bytes_`` of each, ``scalars`` (sums that the host has read, in ``reads``, for each of which it waits)
        and its other ``waits`` for a GPU.
    tolerance : float
    """

    __slots__ = ("_host", "_options", "tolerance")
    _composes = False

    def __init__(self, handle: Any, host: HMatrix, options: Any) -> None:
        super().__init__(handle, host.comm, host.dtype)
        self._host = host
        self.tolerance = host.tolerance
        self._options = options

    @property
    def path(self) -> str:
        return str(self._options.path)

    @property
    def deal(self) -> str:
        return str(self._options.deal)

    bytes = FromHandle[list[float]](list, "bytes")
    row_ranges = FromHandle[list[tuple[int, int]]](list, "row_ranges")
    traffic = FromHandle[dict[str, float]](dict, "traffic")

    @property
    def work(self) -> str:
        """ "redundant" or "shared"; may be changed between solves, on all ranks alike."""
        return str(self._handle.work)

    @work.setter
    def work(self, name: str) -> None:
        self._handle.work = choose("work", name, DEVICE_PRODUCT["work"].choices)

    @property
    def overlap(self) -> str:
        """ "gather" or "copy"; may be changed between solves, on all ranks alike."""
        return str(self._handle.overlap)

    @overlap.setter
    def overlap(self, name: str) -> None:
        self._handle.overlap = choose("overlap", name, DEVICE_PRODUCT["overlap"].choices)

    @property
    def report(self) -> dict[str, Any]:
        """As of the matrix in host memory (:attr:`HMatrix.report`). Local."""
        return self._host.report

    @property
    def storage(self) -> str:
        return f"{self._host.storage} on {self.device}"

    def to(self, device: str, **options: Unpack[DeviceProductOptions]) -> HMatrix | DeviceHMatrix:
        """The matrix in host memory; or on other GPUs, or with other options, a copy. "cuda" without options is the
        matrix itself, wherever it is. Collective; see :meth:`HMatrix.to`.
        """
        kind = agreed(self.comm, lambda: _device.kind_of(device, several=True))
        stays = kind == "cuda" and not options and device in ("cuda", self.device)
        if self.comm.all_min(int(stays)):
            return self
        return self._host.to(device, **options)

    def _taken(self, x: Any, adjoint: bool) -> Any:
        raise ValueError(
            f"x is in the memory of a GPU; the {self.name} operator takes NumPy arrays and copies them to its GPUs"
        )


def _places(value: Any, what: str) -> Array:
    """Points of 1 to 3 coordinates as rows of three."""
    points = as_array(value, what)
    if points.ndim == 1:
        points = points[:, None]
    if points.ndim != 2 or not 1 <= points.shape[1] <= 3 or not len(points):
        raise ValueError(f"{what} has shape {points.shape}; (n, d) with d = 1, 2 or 3 is needed")
    if points.dtype.kind == "c":
        raise TypeError(f"{what} is complex; coordinates are real")
    whole = np.zeros((len(points), 3))
    whole[:, : points.shape[1]] = points
    return whole


def _extents(value: Any, what: str, points: Array) -> Array:
    """Boxes (n, 2, d) as rows of six; none as an empty array."""
    if value is None:
        return np.zeros((0, 6))
    boxes = as_array(value, what)
    if boxes.ndim != 3 or boxes.shape[:2] != (len(points), 2) or not 1 <= boxes.shape[2] <= 3:
        raise ValueError(f"{what} has shape {boxes.shape}; ({len(points)}, 2, d), low and high corners, is needed")
    whole = np.zeros((len(points), 2, 3))
    whole[:, :, : boxes.shape[2]] = boxes
    return whole.reshape(-1, 6)


def hmatrix(
    points: Any,
    entries: Callable[[Array, Array], Any],
    *,
    sources: Any = None,
    boxes: Any = None,
    source_boxes: Any = None,
    dtype: npt.DTypeLike | None = None,
    comm: Any = None,
    **options: Unpack[HmatrixOptions],
) -> HMatrix:
    """Compresses a dense matrix, given by a function of its entries, to an H-matrix of O(n log n) numbers: blocks that
    couple distant groups of points are approximated by products of low rank. docs/theory/hmatrix.md has the algorithm.

    Parameters
    ----------
    points : array_like, (m, d)
        The target point of each row, d = 1, 2 or 3. The same on every rank.
    entries : callable
        ``entries(i, j)``, arrays of row and of column numbers in any order, gives the array A[i][:, j] of shape
        ``(len(i), len(j))``. The entries have to vary smoothly where points are far from each other. Many blocks are
        compressed together, so that a call is for up to 2^20 entries.
    sources : array_like, (n, d), optional
        The source point of each column; default: `points`.
    boxes, source_boxes : array_like, (m, 2, d) and (n, 2, d), optional
        Low and high corners of boxes around the elements of rows and columns, where elements are larger than points.
    dtype : dtype, optional
        Default: that of the array that `entries` returns.
    comm : communicator, optional
        Rows are compressed on its ranks, in parts of equal bytes; vectors are spread in equal blocks.
    **options
        ``tolerance`` (1e-4), ``measure``, ``storage``, ``compression``, ``admissibility``, ``eta``, ``leaf_size``,
        ``bisection``, ``recompress``, ``verify``, ``max_rank``, ``cut_rank``, ``symmetry``, ``sampled_rows``: see
        docs/reference/h-matrices.md.

    Returns
    -------
    HMatrix
        Collective. An exception that `entries` raises on one rank is raised on all.

    Raises
    ------
    tacit.InputError
        For an entry that is not finite, with its row and column.
    ValueError, TypeError
        For an invalid option; when options, dtype or points are not the same on all ranks; when the matrix does not
        have the requested symmetry.

    Warns
    -----
    RuntimeWarning
        On rank 0, when the error measured on sampled rows and entries stays above three tolerances after blocks were
        compressed again with more checks, which takes longer; or when far blocks that are zero where they were sampled,
        or have no low rank, are too large to be compared with all entries. ``report["warnings"]`` has the text on all
        ranks.

    Examples
    --------
    >>> import numpy as np, tacit
    >>> x = np.linspace(0, 1, 1000)
    >>> A = tacit.hmatrix(x, lambda i, j: np.exp(-np.abs(x[i, None] - x[None, j])), tolerance=1e-6)
    >>> A.report["measured_error"] < 1e-6
    True
    >>> A.report["dense_fraction"] < 0.1
    True
    """
    on = _comm.resolve(comm)

    def look() -> tuple[list[Array], str, Any]:
        if not callable(entries):
            raise TypeError("entries is a function of row and column numbers")
        rows = _places(points, "points")
        columns = np.zeros((0, 3)) if sources is None else _places(sources, "sources")
        if sources is None and source_boxes is not None:
            raise ValueError("source_boxes without sources; boxes are those of both")
        places = [rows, _extents(boxes, "boxes", rows), columns, _extents(source_boxes, "source_boxes", columns)]
        scalar = chosen_scalar(dtype) or scalar_name(
            as_array(entries(np.zeros(1, np.int64), np.zeros(1, np.int64)), "the result of entries").dtype,
            "the result of entries",
        )
        beside = ("sources", "boxes", "source_boxes", "dtype", "comm")
        o = fill(core("HMatrixOptions")(), "hmatrix", HMATRIX, options, beside)
        if o.symmetry != "none" and sources is not None:
            raise ValueError(f"symmetry={o.symmetry!r} with sources; rows and columns must be the same points")
        return places, scalar, o

    places, scalar, o = agreed(on, look)
    # The trees, and with them all messages, follow from these options; real numbers are those of rank 0.
    names = ("points", "boxes", "sources", "source_boxes")
    arrays = {name: Whole(place, "first") for name, place in zip(names, places, strict=True)}
    first = agree(on, o, HMATRIX, dtype=scalar, **arrays)
    places = [first[name] for name in names]

    kind = np.dtype(scalar)

    def block_of(i: Array, j: Array) -> Array:
        block = as_array(entries(i, j), "the result of entries")
        if block.shape != (len(i), len(j)):
            raise ValueError(f"entries gave an array of shape {block.shape} where {(len(i), len(j))} is needed")
        return block if block.dtype == kind else to_scalar(block, scalar, "the result of entries")

    A = HMatrix(core("hmatrix", scalar)(on, *places, block_of, o), on, scalar, o.tolerance, o.symmetry)
    if on.rank == 0:
        for text in A.report["warnings"]:
            warnings.warn(text, RuntimeWarning, stacklevel=2)
    return A
