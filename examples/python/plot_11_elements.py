"""
Finite elements on two ranks
============================

Heat in a plate with a hole, whose conductivity depends on the temperature. Each rank computes the element matrices of
its part of the triangles and adds them wherever they belong; :class:`tacit.Assembler` sends what other ranks own. From
the second step on the matrix takes its new values in place, and ranks send nothing but these.
"""

import matplotlib.pyplot as plt
import numpy as np

import tacit

rings, spokes = 25, 80
r, angle = np.meshgrid(np.linspace(0.3, 1, rings), 2 * np.pi / spokes * np.arange(spokes), indexing="ij")
at = np.column_stack([(r * np.cos(angle)).ravel(), (r * np.sin(angle)).ravel()])
corner = np.arange((rings - 1) * spokes)
beside = corner // spokes * spokes + (corner + 1) % spokes
cells = np.stack([[corner, corner + spokes, beside], [beside, corner + spokes, beside + spokes]])
cells = cells.transpose(2, 0, 1).reshape(-1, 3)  # the two triangles of a quadrangle follow each other

# %%
# The element matrices of all triangles at once: (grad phi_p, grad phi_q) times the area, from the edges that lie
# opposite to the nodes.


def stiffness(cells):
    p = at[cells]
    edge = p[:, [2, 0, 1]] - p[:, [1, 2, 0]]
    area = 0.5 * (edge[:, 1, 0] * edge[:, 2, 1] - edge[:, 1, 1] * edge[:, 2, 0])
    return np.einsum("epk,eqk->epq", edge, edge) / (4 * area[:, None, None])


# %%
# What each rank does. :meth:`~tacit.Assembler.values_at` brings the temperatures of nodes that other ranks own.


def temperature(comm):
    own = cells[len(cells) * comm.rank // comm.size : len(cells) * (comm.rank + 1) // comm.size]
    elements = stiffness(own)
    K = tacit.Assembler(len(at), comm=comm)
    K.fix(np.flatnonzero(r == 0.3), 1.0)
    K.fix(np.flatnonzero(r == 1.0), 0.3 * np.maximum(0, np.sin(angle[-1])))
    u = np.zeros(K.own_range[1] - K.own_range[0])
    for step in range(20):
        mean = K.values_at(u, own).mean(axis=1)
        K.add_elements(own, (1 + 8 * mean**2)[:, None, None] * elements)
        A, b = K.finish()
        result = tacit.solve(A, b, x0=u)
        change = K.comm.all_max_real(float(np.abs(result.x - u).max(initial=0)))
        u = result.x
        if comm.rank == 0:
            print(f"step {step}: {result.iterations} iterations of {result.method}, change {change:.1e}")
        if change < 1e-6:
            break
    return tacit.layout.gather(u, K.comm)


# %%
# Under ``mpiexec -n 2 python plot_11_elements.py`` with mpi4py's communicator, else on two threads:

if tacit.comm.launched():
    from mpi4py import MPI

    ranks, rank = MPI.COMM_WORLD.size, MPI.COMM_WORLD.rank
    u = temperature(MPI.COMM_WORLD)
else:
    ranks, rank = 2, 0
    u = tacit.comm.run_threads(ranks, temperature)[0]

if rank == 0:
    fig, (left, right) = plt.subplots(1, 2, figsize=(9, 4.2))
    left.tripcolor(*at.T, cells, np.arange(len(cells)) * ranks // len(cells), cmap="Set2", edgecolors="w", lw=0.1)
    left.set_title("who computes the triangles")
    image = right.tripcolor(*at.T, cells, u, shading="gouraud", cmap="inferno")
    right.tricontour(*at.T, cells, u, 9, colors="w", linewidths=0.5)
    fig.colorbar(image, ax=right, label="temperature")
    for ax in (left, right):
        ax.set_aspect("equal")
        ax.axis("off")
    plt.show()
