"""Which triangles belong to which conductor, what conductors are named, and values that are given by those names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._names import nearest
from .._support import Array, as_array, whole_number
from .meshes import Mesh


def conductors_of(conductors: Any, mesh: Mesh) -> tuple[Array, list[str]]:
    """The conductor of each triangle, from 0, and their names; -1 for triangles that are no conductor's: those with a
    negative label in named cell data. `conductors` as in :func:`tacit.bem.assemble`.
    """
    labels, known = _labels(conductors, mesh)
    if labels.shape != (len(mesh),) or labels.dtype.kind not in "iu":
        raise ValueError(
            f"conductors have shape {labels.shape} of {labels.dtype}; a whole number for each of {len(mesh)} triangles"
            " is needed"
        )
    values = np.unique(labels)
    if known:
        values = values[values >= 0]
    names = [known.get(int(value), str(value)) for value in values]
    found = np.searchsorted(values, labels).astype(np.int32)
    if known:
        found[labels < 0] = -1
    return found, names


def _labels(conductors: Any, mesh: Mesh) -> tuple[Array, dict[int, str]]:
    """A number for each triangle, and the names of some of the numbers."""
    if not isinstance(conductors, str):
        return as_array(conductors, "conductors"), {}
    if conductors == "auto":
        conductors = next(iter(mesh.names), "components")
    if conductors == "components":
        return mesh.component, _of_components(mesh)
    if conductors == "one":
        return np.zeros(len(mesh), dtype=np.int32), {}
    if conductors not in mesh.cell_data:
        known = ["auto", "components", "one", *mesh.cell_data]
        raise ValueError(f"conductors is {conductors!r}; known are {', '.join(known)}, or an array")
    return np.asarray(mesh.cell_data[conductors]), mesh.names.get(conductors, {})


def _of_components(mesh: Mesh) -> dict[int, str]:
    """The names of the components that are a named group, the whole of it and nothing else."""
    if not mesh.names:
        return {}
    data, names = next(iter(mesh.names.items()))
    pairs = np.unique(np.column_stack([mesh.component, mesh.cell_data[data]]), axis=0)
    parts, groups = (np.unique(column, return_counts=True) for column in pairs.T)
    alone = [dict(zip(*(array.tolist() for array in found), strict=True)) for found in (parts, groups)]
    return {
        int(part): names[int(group)]
        for part, group in pairs
        if alone[0][part] == alone[1][group] == 1 and int(group) in names
    }


def place_of(name: Any, names: Sequence[str], what: str) -> int:
    """The conductor of this name or, where no name is meant, of this number from 0."""
    if isinstance(name, str):
        if name in names:
            return names.index(name)
        if not name.isdigit():
            like = nearest(name, names)
            hint = f"; did you mean {like!r}?" if like else ""
            shown = ", ".join(names[:8]) + (", .." if len(names) > 8 else "")
            raise ValueError(f"{what} {name!r} is the name of no conductor{hint} ({shown})")
        name = int(name)
    place = whole_number(name, what)
    if not 0 <= place < len(names):
        raise ValueError(f"{what} is {place}; conductors are 0 to {len(names) - 1}")
    return place


def by_name(values: Mapping[Any, Any], names: Sequence[str], what: str) -> Array:
    """One number for each conductor, from those given by name; 0 for the others."""
    made = np.zeros(len(names))
    for place, _, value in placed(values, names, f"{what} of"):
        made[place] = float(value)
    return made


def placed(values: Mapping[Any, Any], names: Sequence[str], what: str) -> list[tuple[int, Any, Any]]:
    """The conductor, name and value of each; ValueError for a conductor that is there twice, as by name and number."""
    found: dict[int, tuple[int, Any, Any]] = {}
    for name, value in values.items():
        place = place_of(name, names, what)
        if place in found:
            raise ValueError(f"{what} {found[place][1]!r} and {name!r}, which are the same conductor; give one")
        found[place] = place, name, value
    return list(found.values())
