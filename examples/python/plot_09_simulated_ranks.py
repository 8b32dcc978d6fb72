"""
Hundreds of ranks on one: the simulator
=======================================

The library's own code on simulated ranks: results and counts are those of real ranks, the times come from a model of a
machine. With few rows on a rank the latency of reductions decides, and methods that hide them or save them are faster.
"""

import matplotlib.pyplot as plt
import numpy as np

import tacit

A = tacit.poisson((128, 128), assembled=True)
b = np.ones(A.shape[0])
ranks = (1, 4, 16, 64, 256)
machine = {"base": "modern", "noise": 0}

fig, ax = plt.subplots(figsize=(7, 4))
for method in ("cg", "pipelined-cg", "ca-cg"):
    times = []
    for count in ranks:
        made = tacit.simulate.solve(A, b, ranks=count, machine=machine, method=method, max_iterations=100)
        times.append(1e6 * made.seconds / made.result.iterations)
    ax.loglog(ranks, times, "o-", label=method)
    print(f"{method:13}", " ".join(f"{time:8.1f}" for time in times), "us an iteration")
ax.set(xlabel="ranks (simulated)", ylabel="microseconds an iteration (simulated)")
ax.legend()
plt.show()
