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

mesh = bem.sphere_pair(7, radius=1, distance=2.5)
system = bem.assemble(mesh, tolerance=1e-4)
charges = system.solve([5.0, 0.0])
print(f"{len(mesh.triangles)} triangles; charges over 4 pi eps0: {np.round(charges.charge, 3)}")
print(system.capacitance().matrix)

# %%
# Both are charged most where they face each other, the grounded one with the other sign. Colours are relative to each:

corners = mesh.vertices[mesh.triangles]
upper = corners.mean(axis=1)[:, 2] > corners[..., 2].mean()
fig = plt.figure(figsize=(8, 4))
for place, part, title in ((1, ~upper, "5 V"), (2, upper, "grounded")):
    ax = fig.add_subplot(1, 2, place, projection="3d", title=title)
    shown, density = corners[part], charges.density[part]
    scaled = (density - density.min()) / np.ptp(density)
    ax.add_collection3d(Poly3DCollection(shown, facecolors=plt.get_cmap("plasma")(scaled)))
    low, high = shown.min(axis=(0, 1)), shown.max(axis=(0, 1))
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), zlim=(low[2], high[2]))
    ax.set_aspect("equal")
    ax.set_axis_off()
    print(f"{title}: from {density.min():.3f} to {density.max():.3f}")
plt.show()
