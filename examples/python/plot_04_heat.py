"""
Time steps: one matrix, many solves
===================================

Heat spreads in a plate, by implicit Euler steps: (I + dt L) u_new = u. The operator and its preconditioner are made
once; the solution of a step is the first guess of the next one.
"""

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp

import tacit

n, dt = 80, 2e-4
line = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n)) * (n + 1) ** 2
laplace = sp.kron(line, sp.eye_array(n)) + sp.kron(sp.eye_array(n), line)
A = tacit.csr(sp.csr_array(sp.eye_array(n * n) + dt * laplace))
M = tacit.precond.make(A, "ic0")

y, x = np.mgrid[0 : 1 : n * 1j, 0 : 1 : n * 1j]
u = ((np.hypot(x - 0.3, y - 0.4) < 0.15) + 2.0 * (np.hypot(x - 0.7, y - 0.7) < 0.08)).ravel()
shown, iterations = [u], []
for step in range(60):
    result = tacit.solve(A, u, x0=u, method="cg", precond=M)
    assert result.converged
    u = result.x
    iterations.append(result.iterations)
    if step in (5, 20, 59):
        shown.append(u)
print(f"{np.mean(iterations):.1f} iterations a step")

fig, axes = plt.subplots(1, 4, figsize=(10, 2.8), layout="constrained")
for ax, values, step in zip(axes, shown, (0, 6, 21, 60), strict=True):
    image = ax.imshow(values.reshape(n, n), origin="lower", cmap="inferno", vmin=0, vmax=1)
    ax.set(title=f"step {step}", xticks=[], yticks=[])
fig.colorbar(image, ax=axes, shrink=0.8)
plt.show()
