"""Test problems on cells: a synthetic Helmholtz problem, projections of flows with two densities, gravity of clustered
matter, diffusion. They are made from formulas and are the same on every machine.

Each is a :class:`Problem`: an operator of :mod:`tacit.multigrid`, a right-hand side and, where it is known, the
solution.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._support import Array
from . import multigrid as mg

__all__ = ["Problem", "diffusion", "gravity", "helmholtz", "projection", "spectral_solution"]


@dataclass
class Problem:
    """A system A u = f, with this rank's parts of vectors."""

    A: mg.FiniteVolume
    f: Array
    exact: Array | None = None  #: the solution of the differential equation or of A u = f, if known
    is_discrete: bool = False  #: whether `exact` solves A u = f up to rounding
    about: dict[str, Any] = field(default_factory=dict)


def _wave(t: Array) -> Array:
    return np.asarray(np.abs(4 * (t - np.floor(t)) - 2) - 1)


def _bubble(*c: Array) -> Array:
    r = np.sqrt(sum((x - 0.5) ** 2 for x in c))
    return 5.5 + 4.5 * np.tanh(10 * (r - 0.25))


def spectral_solution(A: mg.FiniteVolume, f: Array, a: float, b: float) -> Array:
    """The solution of the discrete problem a u - b lap u = f on a whole periodic domain, by Fourier transform with the
    symbol of the discrete operator (if a = 0, u has mean 0). Every rank transforms the whole grid. Collective.
    """
    grid = A.to_grid(f)
    symbol: Any = np.full(grid.shape, a)
    for axis, (n, length) in enumerate(zip(grid.shape, A.cells.lengths, strict=True)):
        one = (2 - 2 * np.cos(2 * np.pi * np.arange(n) / n)) * (n / length) ** 2
        shape = [1] * grid.ndim
        shape[axis] = n
        symbol = symbol + b * one.reshape(shape)
    transformed = np.fft.fftn(grid)
    if a == 0:
        symbol[(0,) * grid.ndim] = 1
        transformed[(0,) * grid.ndim] = 0
    return A.from_grid(np.fft.ifftn(transformed / symbol).real)


def helmholtz(
    n: int,
    *,
    axes: int = 3,
    coefficient: str = "constant",
    boundary: str = "periodic",
    rhs: str = "triangle",
    a: float | None = None,
    b: float | None = None,
    boxes: int | None = None,
    stencil: str = "7-point",
    dtype: str = "float64",
    comm: Any = None,
) -> Problem:
    """a u - b div(beta grad u) = f on the unit cube. Default: a = b = 0.9 if periodic, else a = 0 and b = 1.

    coefficient: "constant" (beta = 1, not stored), "stored" (beta = 1, stored for every cell), "bubble" (beta = 5.5 +
    4.5 tanh(10 (r - 1/4)), r the distance from the centre). rhs: "triangle" (a product of triangle waves with the
    period of the domain; Williams et al. 2014) or "manufactured" (u is a product of sines, the solution of the
    differential equation).
    """
    a = (0.9 if boundary == "periodic" else 0.0) if a is None else a
    b = (0.9 if boundary == "periodic" else 1.0) if b is None else b
    cells = mg.cells((n,) * axes, boundary, boxes=boxes, comm=comm)
    beta: Any = {"constant": None, "stored": lambda *c: np.ones_like(c[0]), "bubble": _bubble}[coefficient]
    A = mg.finite_volume(cells, a, b, beta=beta, stencil=stencil, dtype=dtype)
    at = cells.centres()
    if rhs == "triangle":
        f = np.prod([_wave(c + 0.25) for c in at], axis=0)
        exact = None
        if stencil == "7-point" and coefficient != "bubble" and boundary == "periodic" and cells.count <= 128**3:
            exact = spectral_solution(A, f, a, b)
        return Problem(A, A.sample(f), exact, exact is not None)
    w = (2 if boundary == "periodic" else 1) * np.pi

    def waves(*c: Array) -> tuple[list[Array], list[Array]]:
        if boundary == "neumann":
            return [np.cos(w * x) for x in c], [-np.sin(w * x) for x in c]
        return [np.sin(w * x) for x in c], [np.cos(w * x) for x in c]

    def solution(*c: Array) -> Array:
        return np.asarray(np.prod(waves(*c)[0], axis=0))

    def right(*c: Array) -> Array:
        S, C = waves(*c)
        u = np.prod(S, axis=0)
        if coefficient != "bubble":
            return np.asarray((a + b * axes * w * w) * u)
        r = np.maximum(np.sqrt(sum((x - 0.5) ** 2 for x in c)), 1e-300)
        slope = 45 / np.cosh(10 * (r - 0.25)) ** 2 / r
        flow = sum((c[d] - 0.5) * np.prod([C[e] if e == d else S[e] for e in range(axes)], axis=0) for d in range(axes))
        f = a * u - b * (slope * w * flow - axes * w * w * _bubble(*c) * u)
        return np.asarray(f)

    return Problem(A, A.sample(right), A.sample(solution))


class _Uniform:
    """SplitMix64: uniform numbers in [0, 1), the same everywhere (Steele, Lea, Flood 2014, doi
    10.1145/2660193.2660195)."""

    def __init__(self, seed: int) -> None:
        self.state = seed

    def __call__(self) -> float:
        mask = (1 << 64) - 1
        self.state = (self.state + 0x9E3779B97F4A7C15) & mask
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        return float((z ^ (z >> 31)) >> 11) * 2.0**-53


class _Flame:
    """A flow with two densities: light gas above a wavy interface, heavy gas with light bubbles below it."""

    def __init__(self, jump: float, axes: int) -> None:
        u = _Uniform(2)
        self.jump, self.axes = jump, axes
        self.waves = [(m, int(4 * u()) - 1, 0.05 / m, 2 * np.pi * u()) for m in range(1, 7)]
        self.bubbles = [(u(), u(), 0.05 + 0.3 * u(), 0.03 + 0.04 * u()) for _ in range(8)]
        self.gusts = [
            ([int(4 * u()) for _ in range(3)], [2 * u() - 1 for _ in range(3)], 2 * np.pi * u()) for _ in range(4)
        ]

    def places(self, *c: Array) -> tuple[Array, Array, Array]:
        return (c[0], c[1], c[2]) if self.axes == 3 else (c[0], np.zeros_like(c[0]), c[1])

    def sheet(self, x: Array, y: Array, t: float) -> Array:
        height = np.full_like(x, 0.45 + 0.02 * t)
        for m, q, size, phase in self.waves:
            height += size * np.cos(2 * np.pi * (m * x + (q * y if self.axes == 3 else 0)) + phase + 0.3 * m * t)
        return height

    def density(self, t: float, *c: Array) -> Array:
        x, y, z = self.places(*c)
        heavy = 0.5 * (1 + np.tanh((self.sheet(x, y, t) - z) / 0.01))
        for bx, by, bz, radius in self.bubbles:
            dx, dy = x - bx, y - by
            dx, dy = dx - np.round(dx), dy - np.round(dy)
            away = np.sqrt(dx**2 + (z - bz) ** 2 + (dy**2 if self.axes == 3 else 0))
            heavy = heavy * 0.5 * (1 + np.tanh((away - radius) / 0.01))
        return 1 + (self.jump - 1) * heavy

    def velocity(self, t: float, axis: int, *c: Array) -> Array:
        x, y, z = self.places(*c)
        u = np.full_like(x, 1.0 if axis == 2 else 0.0)
        quiet = 1 - np.exp(-((z / 0.1) ** 2))
        for k, e, phase in self.gusts:
            angle = 2 * np.pi * (k[0] * x + (k[1] * y if self.axes == 3 else 0) + k[2] * z) + phase + 0.7 * t
            u += quiet * e[axis] * np.sin(angle)
        return u

    def source(self, t: float, *c: Array) -> Array:
        x, y, z = self.places(*c)
        return 2 * np.exp(-(((z - self.sheet(x, y, t)) / 0.05) ** 2))


def in_ell(*c: Any) -> Any:
    """An L-shaped part of the unit square or cube, along the first and the last axis."""
    x, z = c[0], c[-1]
    return ((x > 1 / 8) & (x < 7 / 8) & (z > 1 / 8) & (z < 1 / 2)) | (
        (x > 1 / 8) & (x < 1 / 2) & (z >= 1 / 2) & (z < 7 / 8)
    )


def projection(
    n: int,
    *,
    axes: int = 3,
    jump: float = 10.0,
    ell: bool = False,
    time: float = 0.0,
    comm: Any = None,
    cells: mg.Cells | None = None,
) -> Problem:
    """The projection of a velocity U* to a given divergence S: D (1/rho) G phi = D U* - S, negated so that the operator
    is positive definite. The density rho jumps by the factor `jump`.

    Periodic except along the last axis: inflow at the lower end (U given, Neumann), outflow at the upper (phi = 0).
    1/rho on a face is 2 / (rho_1 + rho_2). `ell`: on an L-shaped set of boxes of n/8 cells, as on a level of an
    adaptive mesh, with phi = 0.1 cos 2 pi x cos 2 pi y cos 2 pi z on the faces to missing boxes.
    """
    flame = _Flame(jump, axes)
    ends: list[Any] = ["periodic"] * (axes - 1) + [("neumann", "dirichlet")]
    if cells is None:
        inside: Callable[..., bool] | None = in_ell if ell else None
        cells = mg.cells((n,) * axes, ends, boxes=max(1, n // 8) if ell else None, inside=inside, comm=comm)
    at = cells.centres()
    h = 1.0 / n

    def beta(*face: Array) -> Array:
        total = np.zeros_like(face[0])
        for d in range(axes):
            normal = np.abs(face[d] * n - np.round(face[d] * n)) < 0.25
            for side in (-1, 1):
                beside = face[d] + side * h / 2
                # Beyond an end that is not periodic, the density of the nearest cell inside.
                beside = np.clip(beside, h / 2, 1 - h / 2) if d == axes - 1 else beside % 1.0
                c = [beside if k == d else v for k, v in enumerate(face)]
                total += np.where(normal, flame.density(time, *c), 0)
        return 2 / total

    A = mg.finite_volume(cells, 0.0, 1.0, beta=beta)
    f = -flame.source(time, *at)
    kinds = [0, 1, 2] if axes == 3 else [0, 2]
    for d in range(axes):
        for side in (-1, 1):
            face = [c + side * h / 2 if k == d else c for k, c in enumerate(at)]
            f = f + side * flame.velocity(time, kinds[d], *face) / h

    def given(*c: float) -> float:
        if not ell:
            return 0.0
        x, y, z = (c[0], c[1], c[2]) if axes == 3 else (c[0], 0.0, c[1])
        return float(0.1 * np.cos(2 * np.pi * x) * np.cos(2 * np.pi * y) * np.cos(2 * np.pi * z))

    about = {"divergence": f, "jump": jump, "time": time}
    return Problem(A, A.boundary_terms(given) - f, about=about)


def _gravity_modes() -> list[tuple[list[int], float, float]]:
    u = _Uniform(3)
    modes: list[tuple[list[int], float, float]] = []
    while len(modes) < 48:
        k = [int(17 * u()) - 8 for _ in range(3)]
        phase, size = 2 * np.pi * u(), u()
        k2 = sum(v * v for v in k)
        if 0 < k2 <= 64:
            modes.append((k, phase, (0.5 + size) * k2**-0.25))
    return modes


def _sum_of_modes(n: int, weight: Callable[[list[int], int], complex]) -> Array:
    x = (np.arange(n) + 0.5) / n
    total = np.zeros((n, n, n))
    for k, phase, size in _gravity_modes():
        e = [np.exp(2j * np.pi * v * x) for v in k]
        wave = np.multiply.outer(np.multiply.outer(e[0], e[1]), e[2])
        total += (weight(k, sum(v * v for v in k)) * size * np.exp(1j * phase) * wave).real
    return total


def _clustered(n: int, growth: float) -> Array:
    """The density of particles displaced from a grid by a sum of waves (cloud in cell: as large as a cell)."""
    centre = (np.arange(n) + 0.5) / n
    low, part = [], []
    for d in range(3):
        shift = _sum_of_modes(n, lambda k, k2, d=d: -1j * k[d] / k2 / (2 * np.pi))  # type: ignore[misc]
        at = ((np.meshgrid(centre, centre, centre, indexing="ij")[d] + growth * shift) * n - 0.5).ravel()
        low.append(np.floor(at).astype(np.int64))
        part.append(at - low[-1])
    rho = np.zeros((n, n, n))
    for corner in range(8):
        up = [corner >> d & 1 for d in range(3)]
        weight = np.prod([part[d] if up[d] else 1 - part[d] for d in range(3)], axis=0)
        np.add.at(rho, tuple((low[d] + up[d]) % n for d in range(3)), weight)
    return rho


def gravity(
    n: int, *, growth: float = 0.1, sigma: float | None = None, boxes: int | None = None, comm: Any = None
) -> Problem:
    """The potential of clustered matter: lap phi = rho / mean(rho) - 1, periodic, negated; the exact discrete solution
    is found by Fourier transform.

    rho is the density of particles displaced by `growth` times a sum of waves, or with `sigma` a log-normal field.
    Every rank computes the whole field.
    """
    cells = mg.cells((n, n, n), "periodic", boxes=boxes, comm=comm)
    A = mg.finite_volume(cells)
    if sigma is None:
        rho = _clustered(n, growth)
    else:
        g = _sum_of_modes(n, lambda k, k2: 1.0)
        rho = np.exp(sigma * g / np.sqrt((g * g).mean()))
    f = -A.from_grid(rho / rho.mean() - 1)
    return Problem(A, f, spectral_solution(A, f, 0.0, 1.0), True, {"density": rho / rho.mean()})


def diffusion(n: int, *, axes: int = 3, boxes: int | None = None, comm: Any = None) -> Problem:
    """u - h^2 div(beta grad u) = f with the bubble's beta: an implicit step of diffusion, which is well conditioned."""
    cells = mg.cells((n,) * axes, "periodic", boxes=boxes, comm=comm)
    A = mg.finite_volume(cells, 1.0, 1.0 / n**2, beta=_bubble)
    return Problem(A, A.sample(lambda *c: np.prod([_wave(x + 0.25) for x in c], axis=0)))
