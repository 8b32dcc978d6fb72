"""
A slice from a scan
===================

Line integrals of a phantom in 60 directions, with noise, and the images that CGLS and SIRT make of them. CGLS is fast
and begins to fit the noise after some iterations.
"""

import matplotlib.pyplot as plt
import numpy as np

import tacit

n, angles = 128, np.linspace(0, np.pi, 60, endpoint=False)
y, x = np.mgrid[-1 : 1 : n * 1j, -1 : 1 : n * 1j]
phantom = 1.0 * (x**2 + y**2 < 0.8) - 0.5 * ((x - 0.3) ** 2 + y**2 < 0.05) + ((x + 0.3) ** 2 + (y - 0.2) ** 2 < 0.03)
P = tacit.tomography.projector(angles, detectors=n)
rng = np.random.default_rng(0)
clean = P.project((phantom / n).astype(np.float32))
data = clean + 0.02 * rng.standard_normal(clean.shape).astype(np.float32)

images = {
    "phantom": phantom,
    "CGLS, 8 iterations": tacit.tomography.reconstruct(data, angles, iterations=8).images,
    "CGLS, 40 iterations": tacit.tomography.reconstruct(data, angles, iterations=40).images,
    "SIRT, 60 iterations": tacit.tomography.reconstruct(data, angles, method="sirt", iterations=60).images,
}
fig, axes = plt.subplots(1, 4, figsize=(11, 3.1))
for ax, (title, image) in zip(axes, images.items(), strict=True):
    scale = 1 if title == "phantom" else n
    error = np.linalg.norm(scale * image - phantom) / np.linalg.norm(phantom)
    ax.imshow(scale * image, cmap="gray", vmin=0, vmax=2)
    ax.set(title=title if title == "phantom" else f"{title}\nerror {error:.2f}", xticks=[], yticks=[])
plt.show()
