"""Dense matrices in hierarchical form."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Unpack

import numpy as np
import numpy.typing as npt

from .. import _core
from .. import comm as _comm
from .. import device as _device
from .._alike import Whole, alike
from .._described import (
    BATCH_CUTS,
    DEVICE_PRODUCT,
    HMATRIX,
    POINT_KERNEL,
    TASK_ORDERS,
    DeviceProductOptions,
    HmatrixOptions,
)
from .._options import agree, compared_form, fill, take_numbers
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
from .kernels import KernelOptions


class Options(HmatrixOptions, KernelOptions, total=False):
    """The ``**options`` of :func:`hmatrix`."""


class HMatrix(Operator):
    """A dense matrix in hierarchical form. See :func:`tacit.hmatrix`."""

    __slots__ = ("_again", "symmetry", "tolerance")
    _inverse: ClassVar[Callable[[Any, float | None], HMatrix]]  # set by algebra.py, which needs this module

    def __init__(
        self,
        handle: Any,
        comm: _core.Communicator,
        dtype: npt.DTypeLike,
        tolerance: float,
        symmetry: str = "none",
        again: Callable[[], Any] | None = None,
    ) -> None:
        super().__init__(handle, comm, dtype)
        self.tolerance = tolerance  #: the relative error that was requested
        self.symmetry = symmetry  #: "none", "symmetric" or "hermitian", as requested at construction
        self._again = again  # gives what makes it on other ranks; None where its entries are no longer known

    def _on_ranks(self) -> Any:
        """What makes this matrix on simulated ranks, from the same points and entries. Local."""
        if self._again is None:
            raise ValueError(
                "this H-matrix was loaded, copied or unpickled, and is simulated only where its entries are known: make"
                " it by tacit.hmatrix or tacit.bem.assemble"
            )
        return self._again()

    nested = FromHandle[bool](bool, "nested")  #: whether far blocks share nested bases, as requested

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
            stored by one triangle) or ``nested`` bases, and for an option with "host".
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
                refuse_on_gpus(self.dtype, self.symmetry, self.nested)
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

    def compressed(self, tolerance: float) -> HMatrix:
        """A copy whose blocks of low rank are truncated to `tolerance`, relative to their norms: :meth:`coarse` of any
        rank. Sums, products and shifts of H-matrices have the same method. Collective.

        Examples
        --------
        >>> import numpy as np, tacit
        >>> A = tacit.hmatrix(np.linspace(0, 1, 500), "matern32", length=0.1, tolerance=1e-8)
        >>> B = A.compressed(1e-3)
        >>> B.report["bytes"] < A.report["bytes"], B.report["estimated_error"] < 2e-3
        (True, True)
        """
        return self.coarse(None, tolerance)

    def inverse(self, tolerance: float | None = None) -> HMatrix:
        """A^-1 as an H-matrix in the blocks of A, truncated at each step to `tolerance` (default: that of A), relative
        to the norms of blocks. One rank.

        The factors of :func:`tacit.precond.factorise` take a third of the time, and solve on any number of ranks; the
        inverse is for what needs its blocks: sums and products with it, its diagonal.

        Returns
        -------
        HMatrix
            Without symmetry. ``report["estimated_error"]`` is that of the last truncation; the error of A^-1 is that of
            A times the condition number. Cost: O(n log^2 n) times the square of ranks. Collective.

        Raises
        ------
        ValueError
            On several ranks; with two sets of points.
        tacit.InputError
            For a matrix that is singular to rounding.

        Examples
        --------
        >>> import numpy as np, tacit
        >>> x = np.linspace(0, 1, 300)
        >>> A = tacit.hmatrix(x, "matern32", length=0.1, nugget=0.1, tolerance=1e-8)
        >>> bool(np.allclose(A.inverse() @ (A @ x), x, atol=1e-4))
        True
        """
        return type(self)._inverse(self, tolerance)

    def _state(self) -> tuple[Any, ...]:
        return self._scalar, self.tolerance, self.symmetry, {n: np.array(a) for n, a in self._handle.parts.items()}

    @classmethod
    def _made_from(cls, comm: _core.Communicator, *state: Any) -> HMatrix:
        scalar, tolerance, symmetry, parts = state
        return cls(core("restored_hmatrix", scalar)(comm, parts), comm, scalar, tolerance, symmetry)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the matrix to one file, which has each rank's part. Collective.

        Parameters
        ----------
        path : path-like
            On a file system that every rank writes. A file that is there is replaced at the end; until then the new one
            is ``path.part``. It is as long as the matrix (``report["bytes"]``) and tables of some per cent.

        Raises
        ------
        OSError
            On every rank.

        Examples
        --------
        >>> import os, tempfile, numpy as np, tacit
        >>> x = np.linspace(0, 1, 500)
        >>> A = tacit.hmatrix(x, "matern32", length=0.1, nugget=1e-2)
        >>> path = os.path.join(tempfile.mkdtemp(), "a.hmatrix")
        >>> A.save(path)
        >>> B = tacit.HMatrix.load(path)
        >>> bool((A @ x == B @ x).all()), B.report["measured_error"] == A.report["measured_error"]
        (True, True)
        """
        from . import saved  # with what reads files: 10 ms, which a solve does not need

        scalar = self._scalar
        saved.write(path, self.comm, saved.Saved(scalar, self.tolerance, self.symmetry, dict(self._handle.parts)))

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, comm: Any = None, check: bool = True) -> HMatrix:
        """The matrix of a file that :meth:`save` wrote: the same bits, and the same report. Collective.

        Numbers stay in the file, which is mapped into memory, until a product reads them; do not change the file while
        the matrix is in use.

        Parameters
        ----------
        path : path-like
            On a file system that every rank reads.
        comm : communicator, optional
            With as many ranks as the matrix was saved on.
        check : bool
            Compare checksums, which reads the file once. Load files from sources you trust: a file that was changed on
            purpose can have the right ones.

        Raises
        ------
        FileNotFoundError
            On every rank.
        tacit.InputError
            On every rank, for a file that is damaged, or of another number of ranks, version or machine.
        """
        from . import saved

        on = _comm.resolve(comm)
        scalar, tolerance, symmetry, parts = saved.read(path, on, check)
        return cls._made_from(on, scalar, tolerance, symmetry, parts)

    @property
    def report(self) -> dict[str, Any]:
        """Size and accuracy of the matrix, over all ranks. Local.

        ``bytes`` of stored numbers (of which ``bytes_float64``, ``bytes_float32``, ``bytes_int16``; ``index_bytes`` are
        in addition), ``dense_fraction``: bytes relative to the full matrix; ``dense_blocks``, ``low_rank_blocks``,
        ``ranks`` (how many low-rank blocks have rank 0, 1, ...; with ``nested`` how many clusters), ``mean_rank``,
        ``max_rank``; ``entries_evaluated``,
        relative to the number of entries; ``norm`` (Frobenius); the relative errors ``estimated_error`` and
        ``measured_error`` (the larger of that on sampled rows, with a random vector, and that of entries at random
        places; ``measured_error_ones``: on sampled rows, with ones; with ``nested`` those of all entries of sampled
        columns, or of all up to 2^22 entries, and of their sums); ``error_bound``, an upper estimate of the error with
        ``confidence`` (1 where all entries were compared; 0 where no block was: the larger of the other two);
        ``seconds`` of the construction; ``least_bytes`` and ``most_bytes`` of a rank; ``warnings``.
        """
        return dict(self._handle.report)

    @property
    def storage(self) -> str:
        report = self.report
        kinds = [k for k in ("float64", "float32", "int16") if report[f"bytes_{k}"] > 0]
        return f"hierarchical ({', '.join(kinds) or 'empty'})"


def refuse_on_gpus(dtype: npt.DTypeLike, symmetry: str, nested: bool) -> None:
    """ValueError for a matrix that cannot be on GPUs. Local."""
    if np.dtype(dtype).kind == "c":
        raise ValueError(f"an H-matrix on GPUs is of float32 or float64; this one is {np.dtype(dtype)}")
    if symmetry != "none":
        raise ValueError(
            f"symmetry is {symmetry!r}: the matrix is stored by one triangle, and GPUs need both; make it with"
            " symmetry='none'"
        )
    if nested:
        raise ValueError(
            "an H-matrix on GPUs has blocks of low rank, and this one nested bases; make it without nested=True"
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


def _extents(value: Any, what: str, points: Array) -> Array:
    """Boxes (n, 2, d); none as an empty array."""
    count, d = points.shape
    if value is None:
        return np.zeros((0, 2, d))
    boxes = as_array(value, what)
    if boxes.shape != (count, 2, d):
        raise ValueError(f"{what} has shape {boxes.shape}; ({count}, 2, {d}), low and high corners, is needed")
    return np.ascontiguousarray(boxes, np.float64)


def _geometry(points: Any, boxes: Any, sources: Any, source_boxes: Any) -> list[Array]:
    """Points and boxes of rows, then of columns, which are empty without sources."""
    from .kernels import places_of

    rows = places_of(points, "points")
    columns = np.zeros((0, rows.shape[1])) if sources is None else places_of(sources, "sources")
    if columns.shape[1] != rows.shape[1]:
        raise ValueError(f"sources has shape {columns.shape}, and points {rows.shape}; they need as many coordinates")
    if sources is None and source_boxes is not None:
        raise ValueError("source_boxes without sources; boxes are those of both")
    return [rows, _extents(boxes, "boxes", rows), columns, _extents(source_boxes, "source_boxes", columns)]


def hmatrix(
    points: Any,
    entries: Any,
    *,
    sources: Any = None,
    boxes: Any = None,
    source_boxes: Any = None,
    pairwise: bool = False,
    dtype: npt.DTypeLike | None = None,
    comm: Any = None,
    **options: Unpack[Options],
) -> HMatrix:
    """Compresses a dense matrix, given by a function of its entries, to an H-matrix of O(n log n) numbers: blocks that
    couple distant groups of points are approximated by products of low rank. docs/theory/hmatrix.md has the algorithm.

    Parameters
    ----------
    points : array_like, (m, d)
        The target point of each row, in any number d of dimensions. The same on every rank.
    entries : str, callable or compiled function
        The name of a kernel k(r), r = |x - y| / `length`: "laplace", "helmholtz", "yukawa", "gaussian", "matern12",
        "matern32", "matern52", "matern", "inverse_multiquadric" or "thin_plate". Of three numbers for each point, at
        points of three coordinates: "stokeslet", "kelvin" or "rpy"; the matrix is 3 m x 3 n, and the components of
        point p have the numbers 3 p to 3 p + 2. Formulas: docs/guide/kernels.md.

        A function: ``entries(i, j)``, arrays of row and of column numbers in any order, gives the array A[i][:, j] of
        shape ``(len(i), len(j))``; with `pairwise` the vector of A[i[k], j[k]]. Many blocks are compressed together, so
        that a call is for up to 2^20 entries.

        A compiled function of points, as a :class:`scipy.LowLevelCallable`, a capsule of Cython, a ctypes function or a
        ``numba.cfunc``: ``void f(long m, const double *x, long n, const double *y, double *out, void *data)``, where
        `out` is (m, n) for the points x (m, d) and y (n, d) (for complex matrices two numbers each), or
        ``double f(int count, double *xy, void *data)`` for one pair, `xy` its 2 d coordinates. It is called from
        several threads at once.

        The entries have to vary smoothly where points are far from each other.
    sources : array_like, (n, d), optional
        The source point of each column; default: `points`.
    boxes, source_boxes : array_like, (m, 2, d) and (n, 2, d), optional
        Low and high corners of boxes around the elements of rows and columns, where elements are larger than points.
    length : float or (d,) array_like, optional
        Of a named kernel: the length scale, or one for each coordinate. Default: 1.
    variance, nugget : float, optional
        Of a named kernel: its factor (1), and what is added on the diagonal (0). A compiled function takes `nugget`.
    kappa, nu : float, optional
        The wave number or decay of "helmholtz" and "yukawa" (1), and the smoothness of "matern" (1.5), 0.05 to 30.
    epsilon, poisson, radius : float, optional
        The regularisation length of "stokeslet" and "kelvin" (0: their entries of a point with itself are 0), Poisson's
        ratio of "kelvin" (0.3), and the radius of the spheres of "rpy" (1).
    derivative : int, "length" or ("length", int), optional
        A derivative of the kernel with one number for each point, in place of its values: with respect to this
        coordinate of the targets, d/dx_a (a column of forces is minus its product with charges); to the length scale;
        to that of one coordinate. Not of "matern" with `nu` below 1.05 other than 0.5. The derivative of `nugget` is 0.
    pairwise : bool, optional
        Whether a Python function is called for pairs of row and column, up to 2^20 at a time, instead of rows with
        columns: fewer and larger calls.
    dtype : dtype, optional
        Default: float64 (complex128 for "helmholtz"); for a Python function that of the array that it returns.
    comm : communicator, optional
        Rows are compressed on its ranks, in parts of equal bytes; vectors are spread in equal blocks.
    **options
        ``tolerance`` (1e-4), ``measure``, ``storage``, ``compression``, ``admissibility``, ``eta``, ``leaf_size``,
        ``bisection``, ``recompress``, ``verify``, ``max_rank``, ``cut_rank``, ``symmetry``, ``nested``,
        ``sampled_rows``: see docs/reference/h-matrices.md.

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
    >>> N = tacit.hmatrix(x, lambda i, j: np.exp(-np.abs(x[i, None] - x[None, j])), tolerance=1e-6, nested=True)
    >>> N.report["bytes"] < A.report["bytes"] and N.report["measured_error"] < 1e-6
    True
    >>> B = tacit.hmatrix(x, "matern12", length=0.5, nugget=1e-3, tolerance=1e-6)
    >>> bool(np.allclose(B @ x, np.exp(-2 * np.abs(x[:, None] - x)) @ x + 1e-3 * x, rtol=1e-4))
    True
    """
    from . import kernels

    on = _comm.resolve(comm)
    of_kernel: dict[str, Any] = {name: value for name, value in options.items() if name in kernels.OPTIONS}
    of_matrix: dict[str, Any] = {name: value for name, value in options.items() if name not in kernels.OPTIONS}

    def look() -> tuple[list[Array], str, Any, kernels.Source]:
        places = _geometry(points, boxes, sources, source_boxes)
        source = kernels.source_of(entries, of_kernel, places[0].shape[1], "hmatrix", sources is None)
        if sources is not None and of_matrix.get("symmetry", "none") != "none":
            raise ValueError(
                f"symmetry={of_matrix['symmetry']!r} with sources; rows and columns must be the same points"
            )
        if pairwise and source.scalar is not None:
            raise ValueError(f"pairwise is of a Python function; entries is {source.text}")
        if source.length is not None:
            places = kernels.scaled(places, source.length)
        places = [kernels.repeated(place, source) for place in places]
        scalar = chosen_scalar(dtype) or source.scalar or _scalar_of(entries)
        beside = ("sources", "boxes", "source_boxes", *kernels.OPTIONS, "pairwise", "dtype", "comm")
        return places, scalar, fill(core("HMatrixOptions")(), "hmatrix", HMATRIX, of_matrix, beside), source

    places, scalar, o, source = agreed(on, look)
    # The trees, and with them all messages, follow from these options; real numbers are those of rank 0.
    names = ("points", "boxes", "sources", "source_boxes")
    arrays = {name: Whole(place, "first") for name, place in zip(names, places, strict=True)}
    kernel = compared_form(source.entries, POINT_KERNEL) if isinstance(entries, str) else {}
    first = agree(on, o, HMATRIX, dtype=scalar, entries=source.text, pairwise=pairwise, **kernel, **arrays)
    if kernel:
        take_numbers(source.entries, POINT_KERNEL, first)
    places = [first[name] for name in names]
    of_blocks = source.entries if source.scalar is not None else _checked(entries, scalar, pairwise)

    handle = core("hmatrix", scalar)(on, *places, of_blocks, pairwise, o)
    again = _again(scalar, places, (of_blocks, pairwise, o), sources is None)
    A = HMatrix(handle, on, scalar, o.tolerance, o.symmetry, again)
    if on.rank == 0:
        for text in A.report["warnings"]:
            warnings.warn(text, RuntimeWarning, stacklevel=2)
    return A


def _again(scalar: str, places: list[Array], made_by: tuple[Any, ...], square: bool) -> Callable[[], Any]:
    """What makes an H-matrix on simulated ranks."""

    def again() -> Any:
        if not square:
            raise ValueError("a simulated solve needs a square matrix of one set of points; this one has sources")
        return core("hmatrix_on_ranks", scalar)(*places[:2], *made_by)

    return again


def _scalar_of(entries: Callable[[Array, Array], Any]) -> str:
    """The scalar of what the function returns."""
    what, zero = "the result of entries", np.zeros(1, np.int64)
    return scalar_name(as_array(entries(zero, zero), what).dtype, what)


def _checked(entries: Callable[[Array, Array], Any], scalar: str, pairwise: bool) -> Callable[[Array, Array], Array]:
    """`entries` with a result of the shape and scalar that are needed, or an error."""
    kind, what = np.dtype(scalar), "the result of entries"

    def called(i: Array, j: Array) -> Array:
        block = as_array(entries(i, j), what)
        shape = i.shape if pairwise else (len(i), len(j))
        if block.shape != shape:
            raise ValueError(f"entries gave an array of shape {block.shape} where {shape} is needed")
        return block if block.dtype == kind else to_scalar(block, scalar, what)

    return called
