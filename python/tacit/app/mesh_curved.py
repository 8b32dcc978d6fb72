"""Curved cells as flat faces through all of their nodes."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np

from .._core import InputError
from .._support import Array

# Of a quadrangle with nodes in the middle of its edges (4 to 7, that between corners 0 and 1 first) and at the centre.
_OF_QUADRANGLES: dict[int, list[tuple[int, ...]]] = {
    6: [(0, 4, 5, 3), (4, 1, 2, 5)],  # straight on two sides
    8: [(0, 4, 7), (1, 5, 4), (2, 6, 5), (3, 7, 6), (4, 5, 6), (4, 6, 7)],
    9: [(0, 4, 8, 7), (4, 1, 5, 8), (8, 5, 2, 6), (7, 8, 6, 3)],
}
_AROUND_CENTRE: list[tuple[int, ...]] = [(0, 3, 6), (3, 1, 6), (1, 4, 6), (4, 2, 6), (2, 5, 6), (5, 0, 6)]


@functools.cache
def faces_of_triangle(order: int) -> list[tuple[int, ...]]:
    """The order^2 triangles through the nodes of one of this order, in the numbering of gmsh and VTK: corners, nodes on
    the edges, then those inside as of a triangle whose order is 3 less.
    """
    number: dict[tuple[int, int], int] = {}

    def place(size: int, i: int, j: int) -> None:
        if size < 0:
            return
        if size == 0:
            number[i, j] = len(number)
            return
        for corner in ((i, j), (i + size, j), (i, j + size)):
            number[corner] = len(number)
        for edge in range(3):
            for k in range(1, size):
                at = [(i + k, j), (i + size - k, j + k), (i, j + size - k)][edge]
                number[at] = len(number)
        place(size - 3, i + 1, j + 1)

    place(order, 0, 0)
    made: list[tuple[int, ...]] = []
    for j in range(order):
        for i in range(order - j):
            made.append((number[i, j], number[i + 1, j], number[i, j + 1]))
            if i + j < order - 1:
                made.append((number[i + 1, j], number[i + 1, j + 1], number[i, j + 1]))
    return made


def pieces(corners: int, nodes: int, path: Path) -> Array:
    """The flat faces, all of one number of corners, by numbers of nodes of the cell; InputError where a cell with so
    many nodes is not divided.
    """
    found: list[tuple[int, ...]] | None = _OF_QUADRANGLES.get(nodes) if corners == 4 else None
    if corners == 3:
        order = round((np.sqrt(8 * nodes + 1) - 3) / 2)
        found = _AROUND_CENTRE if nodes == 7 else None
        if order >= 2 and (order + 1) * (order + 2) == 2 * nodes:
            found = faces_of_triangle(order)
    if found is None:
        raise InputError(
            f"{path}: curved cells of {corners} corners and {nodes} nodes, which are not divided here: write cells"
            " of the second order (gmsh: Mesh.ElementOrder = 2) or flat ones (1)"
        )
    return np.array(found)


def note(cells: int, faces: int) -> str:
    return f"{cells} curved cells are divided into {faces} flat faces through their nodes"
