"""
A first solve, and what a preconditioner changes
================================================

Five-point differences on 150 x 150 points: 22,500 unknowns. The lines are the residuals of the recurrence; the circles
at their ends are b - A x, which Tacit computes anew before it says "converged".
"""

import matplotlib.pyplot as plt
import numpy as np

import tacit

A = tacit.poisson((150, 150), assembled=True)
b = np.ones(A.shape[0])

# %%
# Without a method ``tacit.solve`` tries some, from cheap to strong, and says what it did:

print(tacit.solve(A, b))

# %%
# The same method with four preconditioners:

fig, ax = plt.subplots(figsize=(7, 4))
for precond in (None, "jacobi", "ic0", "amg"):
    result = tacit.solve(A, b, method="cg", precond=precond)
    (line,) = ax.semilogy(result.history, label=f"{precond}: {result.iterations} iterations")
    ax.semilogy(result.iterations, result.residual_norm, "o", color=line.get_color())
ax.set(xlabel="iteration", ylabel="|r| / |b|", title="cg")
ax.legend()
plt.show()
