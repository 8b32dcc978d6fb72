"""Assembling linear elements on triangles: tacit.Assembler and SciPy's coo matrices.

    OMP_NUM_THREADS=1 python bench/assembling.py [--nodes 600] [--rounds 5] [--json FILE]

Processor time, the least of all rounds, in which the candidates alternate. SciPy makes rows and columns of
the contributions and sums them; for a solve its matrix is then stored by tacit.csr.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

import harness
import tacit


def triangles(n: int) -> tuple[Any, Any]:
    """Those of a square with n x n nodes, and element matrices."""
    a = (np.arange(n - 1)[:, None] * n + np.arange(n - 1)).reshape(-1)
    cells = np.concatenate([np.column_stack([a, a + n, a + 1]), np.column_stack([a + n + 1, a + 1, a + n])])
    element = np.array([[2.0, -1, -1], [-1, 1, 0], [-1, 0, 1]]) / 2
    return cells, (1 + np.arange(len(cells)) % 7)[:, None, None] * element


def processor_time(f: Callable[[], Any]) -> float:
    begin = time.process_time()
    f()
    return time.process_time() - begin


def main() -> None:
    options = harness.parser(__doc__, rounds=5)
    options.add_argument("--nodes", type=int, default=600, help="along each side")
    arguments = options.parse_args()
    n = arguments.nodes
    cells, elements = triangles(n)

    def scipy() -> Any:
        i, j = np.repeat(cells, 3, axis=1).reshape(-1), np.tile(cells, 3).reshape(-1)
        return tacit.csr(sp.coo_array((elements.reshape(-1), (i, j)), shape=(n * n, n * n)).tocsr())

    def first() -> Any:
        K = tacit.Assembler(n * n)
        K.add_elements(cells, elements)
        return K, K.finish()[0]

    K, A = first()
    assert abs(A.to_scipy() - scipy().to_scipy()).max() < 1e-12

    def later() -> None:
        K.add_elements(cells, elements)
        K.finish()

    ways = {"scipy, then tacit.csr": scipy, "Assembler, first": first, "Assembler, new values": later}
    found = harness.turns(arguments.rounds, {name: lambda way=way: processor_time(way) for name, way in ways.items()})
    least = {name: min(seconds) for name, seconds in found.items()}
    print(f"{elements.size:,} contributions to {A.nnz:,} entries")
    for name, seconds in least.items():
        print(f"{name:24} {seconds:.3f} s, {1e9 * seconds / elements.size:.0f} ns a contribution")
    harness.write(arguments.json, "assembling", nodes=n, contributions=elements.size, seconds=least)


if __name__ == "__main__":
    main()
