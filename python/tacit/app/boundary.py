"""Boundary operators of Laplace's and Helmholtz' equations by Galerkin's method, and Laplace's equation by the direct
formulation. See :mod:`tacit.bem`.
"""

from __future__ import annotations

import math
import time
from typing import Any, NamedTuple, Unpack

import numpy as np

from .. import _core, krylov, op
from .. import comm as _comm
from .._alike import Whole, alike
from .._described import HMATRIX, HmatrixOptions, SolveOptions
from .._options import agree, fill
from .._support import (
    Array,
    agreed,
    as_array,
    choose,
    chosen_scalar,
    core,
    default_threads,
    real_number,
    thread_count,
    using_threads,
)
from .elements import KINDS, Elements, tested_function, welded
from .meshes import Mesh
from .points import points_of, reals, shared_out

_MOST_RADIANS = 1e6  # beyond, phases have few digits
_SHARES = ("single", "double", "adjoint", "hypersingular", "identity")


def error_of(A: op.HMatrix | op.DeviceHMatrix) -> float:
    """The error of an H-matrix, measured or estimated; at least 1e-12, or 1e-6 in single precision. Local."""
    errors = (A.report[name] for name in ("estimated_error", "measured_error", "measured_error_ones"))
    return float(max(*errors, 1e-12 if A.dtype in (np.float64, np.complex128) else 1e-6))


class BoundaryOperator:
    """A sum of boundary operators on a mesh. Made by :func:`tacit.bem.boundary_operator`.

    Attributes
    ----------
    A : tacit.HMatrix
        D^-1 M D^-1, M_ij the integral of phi_i times the operator of phi_j, D the roots of the integrals of the basis
        functions; row k belongs to function ``order[k]``.
    mesh : Mesh
        With linear elements vertices at one point are one, and those of no triangle are left out.
    elements : tacit.app.elements.Elements
    wavenumber : float
        0 for Laplace's equation.
    order, root : numpy.ndarray
    seconds : float
        Time of the assembly, on the slowest rank.
    """

    def __init__(self, mesh: Mesh, kind: str, form: tuple[complex, ...], wavenumber: float, made: Any, on: Any) -> None:
        self.mesh, self.elements, self.wavenumber, self.comm = mesh, Elements(kind, mesh), wavenumber, on
        self.threads: int = made["threads"]
        begin = time.perf_counter()
        with using_threads(self.threads):
            handle, self.order, self.root = core("bem_boundary", made["scalar"])(
                on, mesh.vertices, mesh.triangles, kind, form, wavenumber, made["quadrature"], made["hmatrix"]
            )
        o = made["hmatrix"]
        self.A = op.HMatrix(handle, on, made["scalar"], o.tolerance, o.symmetry)
        self.seconds: float = on.all_max_real(time.perf_counter() - begin)

    def __repr__(self) -> str:
        what = "Laplace" if self.wavenumber == 0 else f"Helmholtz, k = {self.wavenumber:g}"
        return f"<BoundaryOperator of {len(self.elements)} {self.elements.kind} elements, {what}>"

    def __matmul__(self, values: Any) -> Array:
        """The integrals of each basis function times the operator applied to a function with these values.
        Collective.
        """
        u = np.asarray(as_array(values, "values"))
        if u.shape != (len(self.elements),):
            raise ValueError(f"values have shape {u.shape}; one for each of {len(self.elements)} {self.elements.what}")
        if u.dtype.kind == "c" and self.A.dtype.kind != "c":
            return np.asarray((self @ u.real) + 1j * (self @ u.imag))
        with using_threads(self.threads):
            found = np.asarray(self.A @ (u * self.root)[self.order].astype(self.A.dtype))
        return np.asarray(self._by_function(found) * self.root)

    def _by_function(self, x: Array) -> Array:
        made = np.empty(len(self.elements), dtype=x.dtype)
        made[self.order] = x
        return made

    @property
    def default_rtol(self) -> float:
        """The error of the matrix, below which a residual makes nothing more accurate."""
        return error_of(self.A)

    def solve(
        self,
        tested: Any,
        *,
        method: Any = "gmres",
        precond: Any = "jacobi",
        average: float | None = None,
        raise_on_failure: bool = False,
        **options: Unpack[SolveOptions],
    ) -> tuple[Array, krylov.Result]:
        """The function whose integrals after the operator are `tested` (one for each basis function), by its values,
        and how the solve ended. `average`: for an operator that maps constants to 0, the mean of the solution; the
        part of `tested` that no function has is then left out. Collective.
        """

        def look() -> Array:
            given = np.asarray(as_array(tested, "tested"))
            if given.shape != (len(self.elements),):
                needed = f"one for each of {len(self.elements)} {self.elements.what}"
                raise ValueError(f"tested has shape {given.shape}; {needed} is needed")
            if given.dtype.kind == "c" and self.A.dtype.kind != "c":
                raise TypeError(f"tested is of {given.dtype}, and the operator real; real numbers are needed")
            return given

        given = agreed(self.comm, look)
        b = (given / self.root)[self.order].astype(self.A.dtype)
        matrix: Any = self.A
        if average is not None:
            unit = self.root[self.order] / np.linalg.norm(self.root)
            size = float(np.abs(self.A.diagonal()).mean())
            matrix = matrix + op.low_rank(size * unit, unit, comm=self.comm)
            b = b + size * average * np.linalg.norm(self.root) * unit
            precond = "none"
        options.setdefault("rtol", self.default_rtol)
        how: dict[str, Any] = {"method": method, "precond": precond, "threads": self.threads, "comm": self.comm}
        how["raise_on_failure"] = raise_on_failure
        result = krylov.solve(matrix, b, **how, **options)
        return self._by_function(np.asarray(result.x)) / self.root, result


def boundary_operator(
    mesh: Mesh,
    *,
    single: complex = 0.0,
    double: float = 0.0,
    adjoint: float = 0.0,
    hypersingular: complex = 0.0,
    identity: float = 0.0,
    elements: str = "linear",
    wavenumber: float = 0.0,
    quadrature: float = 0.05,
    scalar: Any = None,
    threads: int | None = None,
    comm: Any = None,
    **options: Unpack[HmatrixOptions],
) -> BoundaryOperator:
    """The Galerkin matrix of a sum of boundary operators on a mesh, as an H-matrix. With r the distance of x and y,
    G(x, y) = exp(i k r) / (4 pi r), and normals n by the right-hand rule:

        V q = int G q dy,  K u = int dG/dn_y u dy,  K' q = int dG/dn_x q dy,  W u = -d/dn_x int dG/dn_y u dy.

    Collective; the mesh is the same on every rank.

    Parameters
    ----------
    mesh : Mesh
    single, double, adjoint, hypersingular, identity : number
        What V, K, K', W and the identity are multiplied by; `double`, `adjoint` and `identity` are real.
    elements : str
        "linear" (continuous, a value at each vertex) or "constant" (on triangles, without W).
    wavenumber : float
        k >= 0; 0: Laplace's equation.
    quadrature : float
        Relative accuracy of entries, as a multiple of ``tolerance``.
    scalar : dtype, optional
        Default: float64, or complex128 with a wave number.
    threads : int, optional
        Of this rank.
    comm : communicator, optional
    **options
        Those of :func:`tacit.hmatrix`, such as ``tolerance`` (1e-4).

    Returns
    -------
    BoundaryOperator

    Raises
    ------
    tacit.InputError
        For triangles without area, and repeated ones.
    ValueError
        For an invalid option, or options that differ between ranks.

    Notes
    -----
    W by Maue's formula, int int G (curl u . curl v - k^2 n . n u v): A.-W. Maue, Z. Phys. 126, 601 (1949). Quadrature:
    docs/theory/bem.md.

    Examples
    --------
    >>> import numpy as np, tacit
    >>> mesh = tacit.bem.sphere(6)
    >>> K = tacit.bem.boundary_operator(mesh, double=1.0)
    >>> z = K.mesh.vertices[:, 2]
    >>> float(np.round(z @ (K @ z) / (z @ K.elements.tested(z)), 2))  # -1 / (2 (2 l + 1)) for harmonics of degree l
    -0.17
    """
    on = _comm.resolve(comm)
    shares = (single, double, adjoint, hypersingular, identity)
    return _assembled(mesh, shares, elements, wavenumber, quadrature, scalar, threads, on, dict(options))


def _assembled(
    mesh: Any, shares: Any, elements: str, wavenumber: Any, quadrature: Any, scalar: Any, threads: Any, on: Any,
    options: dict[str, Any],
) -> BoundaryOperator:  # fmt: skip
    def look() -> dict[str, Any]:
        if not isinstance(mesh, Mesh):
            raise TypeError(f"mesh is a {type(mesh).__name__}; what tacit.bem.read or Mesh() makes is needed")
        if wrong := mesh.faults():
            raise _core.InputError(f"the mesh has {wrong}; mended() leaves them out")
        choose("elements", elements, KINDS)
        k, accuracy = real_number(wavenumber, "wavenumber"), real_number(quadrature, "quadrature")
        if not 0 <= k < math.inf:
            raise ValueError(f"wavenumber is {wavenumber!r}; a number from 0 is needed")
        size = float(np.ptp(mesh.vertices, axis=0).max())
        if k * size > _MOST_RADIANS:
            raise ValueError(
                f"wavenumber is {wavenumber!r}: {k * size:.3g} radians across the mesh; up to {_MOST_RADIANS:g} are"
                " possible"
            )
        if not accuracy > 0:
            raise ValueError(f"quadrature is {quadrature!r}; a number above 0 is needed")
        form = tuple(complex(share) for share in shares)
        for name, share in zip(_SHARES, form, strict=True):
            if not (math.isfinite(share.real) and math.isfinite(share.imag)):
                raise ValueError(f"{name} is {share}; a finite number is needed")
            if share.imag and (k == 0 or name in ("double", "adjoint", "identity")):
                raise ValueError(f"{name} is {share}; a real number is needed" + (" without a wave number" * (k == 0)))
        if form[3] and elements == "constant":
            raise ValueError("hypersingular is of continuous functions; take elements='linear'")
        thread_count(threads)
        chosen = chosen_scalar(scalar) or ("float64" if k == 0 else "complex128")
        if chosen.startswith("complex") != (k > 0):
            raise ValueError(f"scalar is {chosen}; {'a complex one is' if k > 0 else 'float64 or float32 are'} needed")
        known = {name: option for name, option in HMATRIX.items() if name != "symmetry"}
        beside = (*_SHARES, "elements", "wavenumber", "quadrature", "scalar", "threads", "comm")
        o = fill(_core.HMatrixOptions(), "boundary_operator", known, options, beside)
        if not form[1] and not form[2]:
            o.symmetry = "symmetric"
        made = welded(mesh)[0] if elements == "linear" else mesh
        return {"mesh": made, "form": form, "wavenumber": k, "quadrature": accuracy, "scalar": chosen, "hmatrix": o}

    made = agreed(on, look)
    arrays = {"vertices": Whole(mesh.vertices, "refused"), "triangles": Whole(mesh.triangles, "refused")}
    same = {name: made[name] for name in ("wavenumber", "quadrature", "scalar")} | {"shares": str(made["form"])}
    agree(on, made["hmatrix"], HMATRIX, elements=elements, **same, **arrays)
    made["threads"] = default_threads(on) if threads is None else int(threads)
    return BoundaryOperator(made["mesh"], elements, made["form"], made["wavenumber"], made, on)


def layers_at(of: Any, single: Any, double: Any, points: Any, *, far: bool = False) -> Array:
    """The potential of both layers at points, or their far field in directions: on all ranks, each of which takes a
    part of the points. `of` has a mesh, elements, a wave number, a communicator and threads. Collective.
    """
    kind = np.dtype(np.complex128 if of.wavenumber else np.float64)
    none = np.zeros(0, dtype=kind)
    densities = [none if d is None else np.ascontiguousarray(d, dtype=kind) for d in (single, double)]
    p, _ = alike(of.comm, lambda: points_of(points), lambda p: {"points": Whole(p)})
    name = core("bem_layers_far" if far else "bem_layers_at", kind.name)
    geometry = of.mesh.vertices, of.mesh.triangles, of.elements.kind, float(of.wavenumber)
    return shared_out(of.comm, of.threads, p, lambda own: name(*geometry, *densities, own))


class Harmonic(NamedTuple):
    """A solution of Laplace's equation on one side of a surface."""

    values: Array  #: on the surface, by vertex or triangle
    slope: Array  #: the derivative along the normal, likewise
    side: str
    result: krylov.Result
    operator: BoundaryOperator

    def at(self, points: Any) -> Array:
        """The solution at points (n, 3) on its side of the surface. Collective; points times triangles operations."""
        sign = 1.0 if self.side == "inside" else -1.0
        return layers_at(self.operator, sign * self.slope, -sign * self.values, points)


def laplace(
    mesh: Mesh,
    *,
    dirichlet: Any = None,
    neumann: Any = None,
    side: str = "outside",
    elements: str = "linear",
    method: Any = "gmres",
    precond: Any = "jacobi",
    rtol: float | None = None,
    threads: int | None = None,
    comm: Any = None,
    **options: Unpack[HmatrixOptions],
) -> Harmonic:
    """Solves Laplace's equation on one side of a closed surface by the direct formulation: with u the solution and q
    its derivative along the normal, which points outwards,

        V q = (1/2 + K) u  inside,   V q = (K - 1/2) u  outside, where u vanishes far away.

    Two matrices are assembled. Collective; the mesh is the same on every rank.

    Parameters
    ----------
    mesh : Mesh
        Closed, with normals outwards.
    dirichlet, neumann : array_like or callable
        One of them: u, or q, on the surface, as values at the vertices (constant elements: of triangles) or as a
        function of points (n, 3) (for `neumann` of points and normals). Inside, q has the integral 0, and u the mean 0.
    side : str
        "outside" or "inside".
    elements : str
        "linear" or "constant".
    method, precond, rtol
        As for :func:`tacit.solve`; the default of ``rtol`` is the error of the matrix.
    threads : int, optional
        Of this rank.
    comm : communicator, optional
    **options
        Those of :func:`tacit.hmatrix`.

    Returns
    -------
    Harmonic

    Examples
    --------
    >>> import numpy as np, tacit
    >>> found = tacit.bem.laplace(tacit.bem.sphere(6), dirichlet=lambda p: p[:, 2])
    >>> bool(abs(found.at([0, 0, 2.0])[0] - 0.25) < 0.01)  # z / r^3
    True
    """
    on = _comm.resolve(comm)

    def look() -> tuple[Mesh, Elements, Array]:
        choose("side", side, ("outside", "inside"))
        choose("elements", elements, KINDS)
        if (dirichlet is None) == (neumann is None):
            raise ValueError("one of dirichlet and neumann is needed, and not both")
        closed(mesh, "the direct formulation")
        made = welded(mesh) if elements == "linear" else (mesh, np.arange(len(mesh)))
        functions = Elements(elements, made[0])
        given = dirichlet if neumann is None else neumann
        if not callable(given):
            values = reals(given, "boundary values")
            own = len(mesh.vertices) if elements == "linear" else len(mesh)
            if values.shape != (own,):
                raise ValueError(f"boundary values have shape {values.shape}; {own} finite numbers are needed")
            numbers = np.empty(len(functions))
            numbers[made[1][made[1] >= 0]] = values[made[1] >= 0]
            return made[0], functions, numbers

        def called(*where: Array) -> Array:
            values = reals(given(*where), "boundary values")
            if values.shape != (len(where[0]),):
                raise ValueError(f"boundary values have shape {values.shape}; {len(where[0])} numbers are needed")
            return values

        if neumann is None:
            return made[0], functions, called(functions.places)
        tested = tested_function(made[0], functions, called)
        return made[0], functions, np.asarray(tested / functions.integrals)  # the mean around each place

    used, functions, given = agreed(on, look)
    half = 0.5 if side == "inside" else -0.5
    how: dict[str, Any] = {"elements": elements, "threads": threads, "comm": comm, **options}
    V = boundary_operator(used, single=1.0, **how)
    K = boundary_operator(used, double=1.0, identity=half, **how)
    solving: dict[str, Any] = {"method": method, "precond": precond} | ({} if rtol is None else {"rtol": rtol})
    if neumann is None:
        q, result = V.solve(K @ given, **solving)
        return Harmonic(given, q, side, result, V)
    if side == "inside":
        given = given - float(functions.integrals @ given) / float(functions.integrals.sum())
    u, result = K.solve(V @ given, average=0.0 if side == "inside" else None, **solving)
    return Harmonic(u, given, side, result, K)


def closed(mesh: Any, what: str) -> None:
    """ValueError unless the surface is closed, with normals outwards. Local."""
    if not isinstance(mesh, Mesh):
        raise TypeError(f"mesh is a {type(mesh).__name__}; what tacit.bem.read or Mesh() makes is needed")
    s = mesh.surface
    if not s["closed"]:
        edges = s["border_edges"] + s["crowded_edges"]
        raise ValueError(f"{what} is of closed surfaces; {edges} edges of the mesh do not belong to two triangles")
    cure = "; mended(), --mend turns them"
    if not s["oriented"]:
        raise ValueError(f"{what} needs normals outwards; neighbours at {s['flipped_edges']} edges differ{cure}")
    p = mesh.vertices[mesh.triangles]
    volumes = np.bincount(mesh.component, np.einsum("md,md->m", p[:, 0], np.cross(p[:, 1], p[:, 2])) / 6)
    if (volumes <= 0).any():
        part = int(np.argmin(volumes))
        raise ValueError(f"{what} needs normals outwards; those of component {part} point inwards{cure}")
