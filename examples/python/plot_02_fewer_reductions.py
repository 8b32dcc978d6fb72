"""
Convection: the same residual with fewer reductions
===================================================

A wind along x makes the matrix unsymmetric. On many ranks each reduction costs a latency, so methods that need few of
them are faster there; on one core they are not, except for ca-gmres, which also reads its basis less often.
"""

import matplotlib.pyplot as plt
import numpy as np

import tacit

A = tacit.poisson((120, 120), velocity=(40.0, 10.0), boundary="dirichlet", assembled=True)
b = np.ones(A.shape[0])
methods = ("gmres", "ca-gmres", "pipelined-gmres", "bicgstab", "ca-bicgstab", "idr")

results = {method: tacit.solve(A, b, method=method, precond="ilu0", fallbacks=False) for method in methods}
for method, result in results.items():
    print(f"{method:16} {result.reason}: {result.iterations:4} iterations, {result.counts['reductions']:4} reductions")

# %%
# In a pipelined method the reductions are as many, but hidden behind the products.

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 4), sharey=True)
for method, result in results.items():
    left.semilogy(result.history, label=method)
    reductions = np.linspace(0, result.counts["reductions"], len(result.history))
    right.semilogy(reductions, result.history, label=method)
left.set(xlabel="iteration", ylabel="|r| / |b|")
right.set(xlabel="reductions")
right.legend(fontsize=8)
plt.show()
