"""
A grid with jumping coefficients: geometric multigrid
=====================================================

Finite volumes for -div(beta grad u) = f, with beta = 100 in some inclusions. Cycles alone stagnate
there, one cycle as the preconditioner of cg does not.
"""

import matplotlib.pyplot as plt
import numpy as np

import tacit
from tacit import multigrid as mg


def beta(x, y):
    return np.where((np.sin(5 * np.pi * x) * np.sin(5 * np.pi * y)) > 0.3, 100.0, 1.0)


cells = mg.cells((128, 128), ["dirichlet", "dirichlet"])
A = mg.finite_volume(cells, a=0.0, b=1.0, beta=beta)
f = A.sample(lambda x, y: np.ones_like(x))

alone = mg.solve(A, f, rtol=1e-8)
print(f"cycles alone: {alone.reason} after {alone.cycles}")
M = mg.multigrid(A, symmetric=True)
result = tacit.solve(A, f, method="cg", precond=M, rtol=1e-8)
assert result.converged
print(f"cg with a cycle: {result.reason} after {result.iterations} iterations")

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
image = left.imshow(A.to_grid(result.x).T, origin="lower", cmap="viridis")
left.set(title="u", xticks=[], yticks=[])
fig.colorbar(image, ax=left)
right.semilogy(alone.history, "o-", label="multigrid cycles")
right.semilogy(result.history, "o-", label="cg, preconditioned by a cycle")
right.set(xlabel="cycle, iteration", ylabel="|r| / |f|")
right.legend()
plt.show()
