"""The systems of bench/amg.py: finite differences and elements, meshes without structure, graphs, and files."""

import itertools
import math
import pathlib
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp


class Problem(NamedTuple):
    """a: SciPy's csr; unknowns of a node; the nodes of an elastic body by rows, or None."""

    a: Any
    symmetric: bool = True
    block: int = 1
    coordinates: Any = None


def grid_laplacian(*shape):
    lines = [sp.diags([-1.0, 2.0, -1.0], [-1, 0, 1], (n, n)) for n in shape]
    total = sp.csr_matrix((math.prod(shape),) * 2)
    for axis, line in enumerate(lines):
        before, after = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
        total = total + sp.kron(sp.kron(sp.identity(before), line), sp.identity(after))
    return total.tocsr()


def log_normal(n, sigma=1.0):
    """-div(k grad u), 7 points, harmonic means of k = exp(sigma z) on faces, u = 0 outside."""
    k = np.exp(sigma * np.random.default_rng(1).standard_normal((n, n, n)))
    number = np.arange(n**3).reshape(n, n, n)
    rows, columns, values, diagonal = [], [], [], np.zeros((n, n, n))
    for axis in range(3):
        low = tuple(slice(None, -1) if a == axis else slice(None) for a in range(3))
        high = tuple(slice(1, None) if a == axis else slice(None) for a in range(3))
        face = 2 / (1 / k[low] + 1 / k[high])
        rows += [number[low].ravel(), number[high].ravel()]
        columns += [number[high].ravel(), number[low].ravel()]
        values += [-face.ravel(), -face.ravel()]
        diagonal[low] += face
        diagonal[high] += face
        for end in (0, -1):
            border = tuple(end if a == axis else slice(None) for a in range(3))
            diagonal[border] += 2 * k[border]
    rows, columns = np.concatenate([*rows, number.ravel()]), np.concatenate([*columns, number.ravel()])
    return sp.csr_matrix((np.concatenate([*values, diagonal.ravel()]), (rows, columns)))


# ---- finite elements ----


def assembled(elements, values, size):
    """Sum of the element matrices, values (m x m, or one for each element), over the unknowns that each row names."""
    m = elements.shape[1]
    values = np.broadcast_to(values, (len(elements), m, m))
    rows, columns = np.repeat(elements, m, 1).ravel(), np.tile(elements, (1, m)).ravel()
    return sp.csr_matrix((values.ravel(), (rows, columns)), (size, size))


def multilinear(shape, element, unknowns):
    """One element matrix on all unit cells of a box, and its nodes (the first axis runs fastest). The nodes at x = 0
    are left out."""
    d = len(shape)
    strides = np.cumprod([1, *(n + 1 for n in shape[:-1])])
    cells = np.array(np.unravel_index(np.arange(math.prod(shape)), shape, order="F")).T
    nodes = (cells @ strides)[:, None] + corners(d) @ strides
    elements = (unknowns * nodes[:, :, None] + np.arange(unknowns)).reshape(len(cells), -1)
    count = math.prod(n + 1 for n in shape)
    whole = assembled(elements, element, unknowns * count)
    x = np.array(np.unravel_index(np.arange(count), [n + 1 for n in shape], order="F")).T.astype(float)
    free = x[:, 0] > 0
    kept = np.flatnonzero(np.repeat(free, unknowns))
    return whole[kept][:, kept].tocsr(), x[free]


def corners(d):
    return np.array(list(itertools.product((0, 1), repeat=d)))


def gradients(d):
    """Weights and gradients (2^d x d) of the multilinear shapes of the unit cube at Gauss points."""
    for point in itertools.product((0.5 - 0.5 / math.sqrt(3), 0.5 + 0.5 / math.sqrt(3)), repeat=d):
        g = np.ones((2**d, d))
        for k, j in itertools.product(range(d), repeat=2):
            g[:, k] *= 2 * corners(d)[:, j] - 1 if j == k else np.where(corners(d)[:, j], point[j], 1 - point[j])
        yield 0.5**d, g


def rotated(n, epsilon=1e-3, degrees=30):
    c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    turn = np.array([[c, -s], [s, c]])
    k = turn @ np.diag([1, epsilon]) @ turn.T
    return Problem(multilinear((n, n), sum(w * g @ k @ g.T for w, g in gradients(2)), 1)[0])


def elasticity(*shape, poisson=0.3):
    """Plane strain, or an elastic body, with E = 1, held at x = 0."""
    d = len(shape)
    first, second = poisson / ((1 + poisson) * (1 - 2 * poisson)), 0.5 / (1 + poisson)  # Lame's numbers
    element = 0
    for w, g in gradients(d):
        both = first * np.einsum("ai,bj->aibj", g, g) + second * np.einsum("aj,bi->aibj", g, g)
        both += second * np.einsum("ak,bk,ij->aibj", g, g, np.eye(d))
        element = element + w * both.reshape(d * 2**d, d * 2**d)
    a, x = multilinear(shape, element, d)
    return Problem(a, True, d, x)


def rigid_body_modes(x):
    """Translations and rotations of nodes, as tacit.precond.rigid_body_modes has them."""
    d = x.shape[1]
    y = (x - (x.min(0) + x.max(0)) / 2) / np.ptp(x, 0).max()
    modes = [np.tile(e, (len(x), 1)) for e in np.eye(d)]
    for a, b in ((1, 2), (2, 0), (0, 1)):
        if max(a, b) < d:
            turn = np.zeros_like(y)
            turn[:, a], turn[:, b] = -y[:, b], y[:, a]
            modes.append(turn)
    return np.stack([m.ravel() for m in modes], 1)


def triangles(n):
    """-div(k grad u), linear elements on the Delaunay triangles of about n random points in the unit square outside a
    disc, k = 10^-3 .. 10^3 in each of 8 x 8 squares, u = 0 on the edge of the square."""
    from scipy.spatial import Delaunay

    random = np.random.default_rng(3)
    side = np.linspace(0, 1, int(math.sqrt(n)) + 1)[:-1]
    ring = np.linspace(0, 2 * math.pi, int(0.5 * math.pi * math.sqrt(n)), endpoint=False)
    zero, one = np.zeros_like(side), np.ones_like(side)
    edge = [np.c_[side, zero], np.c_[one, side], np.c_[1 - side, one], np.c_[zero, 1 - side]]
    centre, radius = np.array([0.45, 0.55]), 0.25
    inside = random.random((n, 2))
    inside = inside[np.linalg.norm(inside - centre, axis=1) > radius]
    x = np.concatenate([*edge, centre + radius * np.c_[np.cos(ring), np.sin(ring)], inside])
    x = x[
        np.lexsort((x[:, 0], np.floor(x[:, 1] * math.sqrt(n) / 8)))
    ]  # neighbours are near in memory, as meshes have it
    t = Delaunay(x).simplices
    middle = x[t].mean(1)
    t, middle = (part[np.linalg.norm(middle - centre, axis=1) > radius] for part in (t, middle))
    sides = x[t[:, [2, 0, 1]]] - x[t[:, [1, 2, 0]]]  # opposite to each corner
    area = 0.5 * np.abs(sides[:, 0, 0] * sides[:, 1, 1] - sides[:, 0, 1] * sides[:, 1, 0])
    t, middle, sides, area = (part[area > 1e-14] for part in (t, middle, sides, area))
    k = 10 ** random.uniform(-3, 3, (8, 8))[tuple(np.minimum((8 * middle).astype(int), 7).T)]
    values = (k / (4 * area))[:, None, None] * np.einsum("tid,tjd->tij", sides, sides)
    used = np.zeros(len(x), bool)
    used[t] = True
    kept = np.flatnonzero(used & (x.min(1) > 0) & (x.max(1) < 1))
    return Problem(assembled(t, values, len(x))[kept][:, kept].tocsr())


def convection(n, strength=50.0):
    """-Laplace u + v . grad u on the unit square, v = strength (1, 1/2), central differences."""
    h = 1 / (n + 1)
    step = sp.diags([-0.5, 0.5], [-1, 1], (n, n)) * (strength * h)
    one = sp.identity(n)
    return Problem((grid_laplacian(n, n) + sp.kron(one, step) + 0.5 * sp.kron(step, one)).tocsr(), symmetric=False)


# ---- graphs ----


def graph_laplacian(pairs, n, shift):
    a = sp.csr_matrix((np.ones(len(pairs)), pairs.T), (n, n))
    a = a + a.T
    a.data[:] = 1
    return (sp.diags(np.asarray(a.sum(1)).ravel() + shift) - a).tocsr()


def geometric_graph(n):
    """The Laplacian of points in the unit square that are nearer than 1.5 mean distances, plus 1e-6."""
    from scipy.spatial import cKDTree

    points = np.random.default_rng(2).random((n, 2))
    return graph_laplacian(cKDTree(points).query_pairs(1.5 / math.sqrt(n), output_type="ndarray"), n, 1e-6)


def power_law(n, degree=10, exponent=2.2):
    """The Laplacian of a random graph whose degrees fall as k^-exponent, about `degree` in the mean, plus 1e-3. Chung,
    Lu (2002), doi 10.1073/pnas.252631999."""
    weight = (np.arange(n) + 10.0) ** (-1 / (exponent - 1))
    pairs = np.random.default_rng(4).choice(n, (n * degree // 2, 2), p=weight / weight.sum())
    pairs = np.unique(np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1), axis=0)
    return graph_laplacian(pairs, n, 1e-3)


SYSTEMS = {  # the problem for a scale
    "5-point": lambda s: Problem(grid_laplacian(*[int(1024 * s)] * 2)),
    "7-point": lambda s: Problem(grid_laplacian(*[int(100 * s)] * 3)),
    "log-normal": lambda s: Problem(log_normal(int(100 * s))),
    "rotated": lambda s: rotated(int(500 * s)),
    "elasticity": lambda s: elasticity(*[int(300 * s)] * 2),
    "beam": lambda s: elasticity(int(96 * s), int(24 * s), int(24 * s)),
    "triangles": lambda s: triangles(int(300000 * s * s)),
    "convection": lambda s: convection(int(500 * s)),
    "graph": lambda s: Problem(geometric_graph(int(250000 * s * s))),
    "power-law": lambda s: Problem(power_law(int(100000 * s * s))),
}


ELASTIC = ("elasticity", "beam")


def read(path):
    """The problem of a .npz file, SciPy's."""
    a = sp.load_npz(path).tocsr().astype(float)
    difference = abs(a - a.T).sum()
    return Problem(a, bool(difference <= 1e-12 * abs(a).sum()))


def problem(name, scale):
    made = read(name) if pathlib.Path(name).suffix == ".npz" else SYSTEMS[name](scale)
    made.a.sort_indices()
    made.a.indices, made.a.indptr = made.a.indices.astype("int32"), made.a.indptr.astype("int32")
    return made
