"""
Problems that grow: why multigrid
=================================

The iterations of most preconditioners grow with the size of a diffusion problem. Those of algebraic multigrid
hardly do.
"""

import matplotlib.pyplot as plt
import numpy as np

import tacit

sizes = (25, 50, 100, 200, 300)
iterations = {precond: [] for precond in ("jacobi", "ic0", "amg")}
for n in sizes:
    A = tacit.poisson((n, n), assembled=True)
    for precond, counts in iterations.items():
        counts.append(tacit.solve(A, np.ones(n * n), method="cg", precond=precond).iterations)
    print(f"{n * n:6} unknowns:", {precond: counts[-1] for precond, counts in iterations.items()})

fig, ax = plt.subplots(figsize=(7, 4))
for precond, counts in iterations.items():
    ax.loglog(np.square(sizes), counts, "o-", label=precond)
ax.set(xlabel="unknowns", ylabel="iterations of cg to 1e-8")
ax.legend()
plt.show()

# %%
# The levels that multigrid has made of the largest one:

print(tacit.precond.amg(A))
