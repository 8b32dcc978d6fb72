"""
Forms of scikit-fem
===================

A form that scikit-fem has integrated over the elements of one rank is added as it stands; nothing is summed twice. Here
a plate of two materials with a load, in quadratic elements, on two ranks.
"""

import matplotlib.pyplot as plt
import numpy as np
import skfem
from skfem.helpers import dot, grad

import tacit

mesh = skfem.MeshTri.init_circle(5)
basis = skfem.Basis(mesh, skfem.ElementTriP2())
fixed = basis.get_dofs().all()


@skfem.BilinearForm
def conduct(u, v, w):
    return (1 + 19 * (np.abs(w.x[0] - w.x[1]) < 0.25)) * dot(grad(u), grad(v))


@skfem.LinearForm
def load(v, w):
    return 10 * np.exp(-20 * ((w.x[0] + 0.4) ** 2 + (w.x[1] - 0.2) ** 2)) * v


# %%
# Each rank integrates over its own elements. ``coo_data`` has one contribution for each element and pair of unknowns.


def solve(comm):
    count = mesh.t.shape[1]
    own = basis.with_elements(np.arange(count * comm.rank // comm.size, count * (comm.rank + 1) // comm.size))
    K = tacit.Assembler(basis.N, comm=comm)
    a, f = conduct.coo_data(own), load.coo_data(own)
    K.add(*a.indices, a.data)
    K.add_rhs(f.indices[0], f.data)
    K.fix(fixed)
    A, b = K.finish()
    result = tacit.solve(A, b)
    if comm.rank == 0:
        print(f"{A.shape[0]} unknowns on {comm.size} ranks: {result.iterations} iterations of {result.method}")
    return tacit.layout.gather(result.x, K.comm)


u = tacit.comm.run_threads(2, solve)[0]

# %%
# The same by scikit-fem alone, which sums and eliminates by SciPy's matrices on one rank:

expected = skfem.solve(*skfem.condense(conduct.assemble(basis), load.assemble(basis), D=fixed))
print(f"difference {np.abs(u - expected).max() / np.abs(expected).max():.1e}")

fig, ax = plt.subplots(figsize=(5, 4.2))
image = ax.tripcolor(*mesh.p, mesh.t.T, u[basis.nodal_dofs[0]], shading="gouraud", cmap="viridis")
ax.tricontour(*mesh.p, mesh.t.T, u[basis.nodal_dofs[0]], 12, colors="w", linewidths=0.5)
fig.colorbar(image, ax=ax)
ax.set_aspect("equal")
ax.axis("off")
plt.show()
