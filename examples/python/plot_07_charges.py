"""
Charges on two spheres
======================

Boundary elements: the charge density on two spheres, one at 5 V and one grounded. The matrix of all interactions is
dense; an H-matrix keeps a part of it.
"""

import matplotlib.pyplot as plt
import numpy as np
from mpl_toolkits.mplot3d.art3d import Poly3DCollection

from tacit import bem

mesh = bem.sphere_pair(5, distance=3)
system = bem.assemble(mesh, tolerance=1e-4)
charges = system.solve([5.0, 0.0])
print(f"{len(mesh.triangles)} triangles; charges over 4 pi eps0: {np.round(charges.charge, 3)}")
print(system.capacitance().matrix)

# %%
# The grounded sphere is charged on the side of the other one:

fig = plt.figure(figsize=(8, 4.5))
ax = fig.add_subplot(projection="3d")
density = charges.density / np.abs(charges.density).max()
corners = mesh.vertices[mesh.triangles]
ax.add_collection3d(Poly3DCollection(corners, facecolors=plt.get_cmap("RdBu_r")(0.5 + 0.5 * density)))
low, high = mesh.vertices.min(axis=0), mesh.vertices.max(axis=0)
ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), zlim=(low[2], high[2]))
ax.set_aspect("equal")
ax.set_axis_off()
plt.show()
