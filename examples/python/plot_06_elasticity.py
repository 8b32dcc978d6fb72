"""
A sagging frame: elasticity with multigrid
==========================================

Springs along and across the squares of a grid that is held on the left and pulled down by its weight. There are two
unknowns in each node. Multigrid that knows the nodes' coordinates knows how a rigid body moves, and needs fewer
iterations.
"""

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp

import tacit

n, m = 80, 16
nodes = np.array([(i, j) for i in range(n) for j in range(m)], float)
rows, values = [], []
for i in range(n):
    for j in range(m):
        for di, dj in ((1, 0), (0, 1), (1, 1), (1, -1)):
            if i + di < n and 0 <= j + dj < m:
                p, q = i * m + j, (i + di) * m + j + dj
                along = (nodes[q] - nodes[p]) / np.linalg.norm(nodes[q] - nodes[p])
                rows.append([2 * p, 2 * p + 1, 2 * q, 2 * q + 1])
                values.append(np.r_[along, -along])
G = sp.csr_array((np.ravel(values), np.ravel(rows), 4 * np.arange(len(rows) + 1)), shape=(len(rows), 2 * n * m))
K = (G.T @ G).tocsr()[2 * m :, 2 * m :]  # without the nodes at the wall
weight = np.tile([0.0, -4e-6], (n - 1) * m)

for name, precond in {
    "ic0": "ic0",
    "amg, two unknowns a node": tacit.precond.Amg(block=2),
    "amg, coordinates": {"name": "amg", "coordinates": nodes[m:]},
}.items():
    result = tacit.solve(K, weight, method="cg", precond=precond)
    assert result.converged
    print(f"{name:26} {result.reason}, {result.iterations} iterations")

# %%
# The frame, and how it hangs, drawn so that its end sinks by its height:

moved = nodes.copy()
moved[m:] += result.x.reshape(-1, 2) * m / abs(result.x).max()
stretch = np.hypot(*(moved - nodes).T)
fig, ax = plt.subplots(figsize=(8, 3.4))
ax.scatter(*nodes.T, s=2, color="0.8")
ax.scatter(*moved.T, s=4, c=stretch, cmap="viridis")
ax.set_aspect("equal")
ax.axis("off")
plt.show()
