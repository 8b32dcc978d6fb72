"""Assembles the system of charges on a mesh: :func:`tacit.bem.assemble`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from .. import _core
from .. import comm as _comm
from .. import device as _device
from .._alike import Whole
from .._described import BEM, DEVICE_PRODUCT, HMATRIX, BemOptions, DeviceProductOptions, HmatrixOptions
from .._options import agree, fill
from .._support import agreed, chosen_scalar, core, default_threads, thread_count
from .capacitance import metres_of
from .conductors import conductors_of
from .elements import Elements, welded
from .media import media_of
from .meshes import Mesh
from .mirrors import Mirrors, plane_of
from .system import System


class Options(BemOptions, HmatrixOptions, DeviceProductOptions, total=False):
    """The ``**options`` of :func:`assemble`, for type checkers."""


def assemble(
    mesh: Mesh,
    *,
    conductors: Any = "auto",
    unit: str | float = "m",
    permittivity: float | None = None,
    media: Mapping[Any, float] = {},
    dielectrics: Mapping[Any, Any] = {},
    join: Mapping[str, Sequence[Any]] = {},
    plane: tuple[str, float] | None = None,
    mirror: Sequence[tuple[str, float]] = (),
    scalar: npt.DTypeLike = np.float64,
    threads: int | None = None,
    comm: Any = None,
    device: str = "host",
    **options: Unpack[Options],
) -> System:
    """Assembles the matrix of the single-layer potential on a mesh as an H-matrix. Collective; the mesh is the same on
    every rank.

    Parameters
    ----------
    mesh : Mesh
    conductors : str or array_like of int
        "auto" (the named groups of the file, such as gmsh's physical surfaces; else components), "components" (each
        connected part of the mesh), "one" (all triangles), the name of cell data, or a number for each triangle.
    unit : str or float
        The unit of the mesh, for coulombs and farads: one of :data:`UNITS`, or the metres in it.
    permittivity : float, optional
        The relative one of the medium around everything. Default: the file's (FastCap's), else 1.
    media : dict
        That of the medium around some conductors, by name: {"core": 3.9}. Default: `permittivity`, or, for a conductor
        that lies within a closed interface, the permittivity inside that (a note of the system says so).
    dielectrics : dict
        Surfaces that are no conductors but interfaces between two media, by name: {"coat": 3.9} with this permittivity
        inside and `permittivity` outside, or {"coat": (3.9, 2.2)} with 2.2 outside. Normals point outwards. Within
        another closed interface, {"coat": 3.9} has outside what is inside that.
    join : dict
        Groups that are one conductor, as its parts in different media: {"plate": ["plate above", "plate below"]}.
    plane : (str, float), optional
        A grounded plane: ("z", 0.0). All triangles are on one side of it.
    mirror : sequence of (str, float)
        Planes of symmetry, [("x", 0.0), ("y", 0.0)], at most one plane across each axis: the mesh is the part on one
        side, and so are the charges of the result.
    scalar : dtype
        float64 or float32.
    threads : int, optional
        Of this rank.
    comm : communicator, optional
    device : str
        Where the matrix is assembled and solved with: "host"; "cuda", this rank's GPU; "cuda:1", that one; "cuda:0,1",
        these together (the first assembles): a :class:`tacit.DeviceHMatrix`, for methods "bicgstab" and
        "pipelined-bicgstab" and preconditioners "jacobi" and "none". With ``assembly="host"`` the host assembles for
        GPUs; ``assembly="cuda"`` without `device` assembles on the GPU and solves on the host.
    **options
        ``discretisation`` ("collocation": the potential at centroids; "galerkin": its mean over triangles, a symmetric
        matrix), ``elements`` ("constant" on triangles; "linear": continuous, a value at each vertex, by galerkin and
        for conductors without dielectrics), ``quadrature`` (0.05: the accuracy of entries, as a multiple of
        ``tolerance``), ``assembly`` ("host",
        "cuda", "virtual": where entries are evaluated and blocks compressed); those of :func:`tacit.hmatrix` except
        ``symmetry``, such as ``tolerance`` (1e-4); and with GPUs those of :meth:`tacit.HMatrix.to`:
        docs/reference/h-matrices.md.

    Returns
    -------
    System

    Raises
    ------
    tacit.InputError
        For triangles without area, repeated triangles (:meth:`Mesh.mended` removes both), coordinates that are not
        finite, triangles beyond the plane, and permittivities of a file that contradict its closed interfaces.
    ValueError
        For an invalid option, or options that differ between ranks.
    tacit.EnvironmentFailure
        For assembly="cuda" without a GPU or in a build without CUDA.
    """
    on = _comm.resolve(comm)

    def look() -> dict[str, Any]:
        if not isinstance(mesh, Mesh):
            raise TypeError(f"mesh is a {type(mesh).__name__}; what tacit.bem.read or Mesh() makes is needed")
        wrong = mesh.faults()
        if wrong:
            raise _core.InputError(f"the mesh has {wrong}; mended() leaves them out")
        numbers, names = conductors_of(conductors, mesh)
        where = None if plane is None else plane_of(plane, "plane")
        images = Mirrors(where, mirror)
        found, notes = media_of(mesh, numbers, names, permittivity, media, dielectrics, join, images)
        made: dict[str, Any] = {"media": found, "notes": notes, "metres": metres_of(unit)}
        thread_count(threads)
        chosen = chosen_scalar(scalar) or "float64"
        if chosen not in ("float64", "float32"):
            raise ValueError(f"scalar is {chosen}; float64 or float32 is needed")
        # With a grounded plane alone a device can assemble; other images are summed by the host.
        made |= {"plane": where, "scalar": chosen, "device": device, **_assembly(device, options)}
        linear = made["system"].elements == "linear"
        if linear and len(found.contrast):
            raise ValueError("elements is 'linear', which are of conductors; with dielectrics take 'constant'")
        made["mirrors"] = Mirrors(where, mirror, not mirror and not linear and len(found.contrast) == 0)
        made["mesh"] = made["mirrors"].placed(mesh) if made["mirrors"] else mesh
        if linear:
            made["mesh"] = welded(made["mesh"])[0]
        made["elements"] = Elements(made["system"].elements, made["mesh"])
        made["elements"].of_triangles(found.conductor, "the conductor")
        return made

    made = agreed(on, look)
    arrays = {"vertices": mesh.vertices, "triangles": mesh.triangles, **made["media"]._asdict()}
    arrays["names"] = np.frombuffer("\n".join(arrays["names"]).encode(), np.uint8)
    same = {name: Whole(array, "refused") for name, array in arrays.items()}
    kind = _device.kind_of(device, several=True)
    planes = {"plane": str(made["plane"]), "mirror": str(made["mirrors"].planes), "metres": made["metres"]}
    agree(on, made["hmatrix"], HMATRIX, scalar=made["scalar"], device=kind, **planes, **same)
    agree(on, made["system"], BEM)
    on_gpu = made["system"].assembly == "cuda"
    made["gpu"] = _device.number("cuda" if device == "host" else device, on) if on_gpu else -1
    return System(made["mesh"], made, on, default_threads(on) if threads is None else int(threads))


def _assembly(device: str, options: Any) -> dict[str, Any]:
    """The options of :func:`assemble` as objects of the compiled part, checked. Local."""
    known = {name: option for name, option in HMATRIX.items() if name != "symmetry"}
    own: dict[str, Any] = {name: value for name, value in options.items() if name in BEM}
    there: dict[str, Any] = {name: value for name, value in options.items() if name in DEVICE_PRODUCT}
    rest: dict[str, Any] = {name: value for name, value in options.items() if name not in {**own, **there}}
    kind = _device.kind_of(device, several=True)
    if kind == "host" and there:
        raise ValueError(f"{', '.join(there)} is of a matrix on GPUs; the device is 'host'")
    fill(core("DeviceProductOptions")(), "assemble", DEVICE_PRODUCT, there)
    if own.get("elements") == "linear":
        own = {"discretisation": "galerkin"} | own
    system = fill(_core.BemOptions(), "assemble", BEM, own)
    if system.elements == "linear" and system.discretisation != "galerkin":
        raise ValueError("elements is 'linear' and discretisation 'collocation'; linear elements are by 'galerkin'")
    o = fill(_core.HMatrixOptions(), "assemble", known, rest, (*BEM, *DEVICE_PRODUCT, *(assemble.__kwdefaults__ or ())))
    galerkin = system.discretisation == "galerkin"
    if galerkin:
        o.symmetry = "symmetric"
    if kind == "cuda":
        if galerkin:
            raise ValueError(
                f"device is {device!r}: GPUs need both triangles of the matrix, and galerkin stores one; take"
                " collocation, or device='host'"
            )
        if "assembly" not in own:
            system.assembly = "cuda"
    if o.nested and galerkin:
        raise ValueError("nested bases and galerkin, which stores one triangle; take collocation, or nested=False")
    if o.nested and (kind == "cuda" or system.assembly != "host"):
        raise ValueError(
            f"nested bases are made and multiplied by the host; device is {device!r} and assembly {system.assembly!r}"
        )
    if system.assembly != "host" and (galerkin or o.compression == "svd"):
        raise ValueError(
            f"assembly is {system.assembly!r}: a device makes the collocation matrix by aca or aca+, and"
            f" {'galerkin' if galerkin else 'svd'} was asked for"
        )
    if system.assembly == "cuda":
        _device.kind_of("cuda")
    return {"system": system, "hmatrix": o, "there": there}
