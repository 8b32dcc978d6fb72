"""
Eigenvalues with SciPy, solves by Tacit
=======================================

The lowest vibrations of an L-shaped membrane. SciPy's ``eigsh`` looks for eigenvalues near zero, for which it needs the
inverse of A in each step; cg with algebraic multigrid gives it.
"""

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, eigsh

import tacit

n = 90
line = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n)) * ((n + 1) / 2) ** 2
square = sp.csr_array(sp.kron(line, sp.eye_array(n)) + sp.kron(sp.eye_array(n), line))
y, x = np.divmod(np.arange(n * n), n)
inside = np.flatnonzero((x < n // 2) | (y >= n // 2))
S = square[inside][:, inside]

A = tacit.csr(S)
M = tacit.precond.amg(A)


def inverse(b):
    return tacit.solve(A, b, method="cg", precond=M, rtol=1e-10).x


values, vectors = eigsh(S, k=4, sigma=0, OPinv=LinearOperator(S.shape, matvec=inverse, dtype=float))
print(np.round(values, 3))

fig, axes = plt.subplots(1, 4, figsize=(10, 2.7))
for ax, value, vector in zip(axes, values, vectors.T, strict=True):
    picture = np.full(n * n, np.nan)
    picture[inside] = vector * np.sign(vector[np.argmax(abs(vector))])
    ax.imshow(picture.reshape(n, n), origin="lower", cmap="RdBu_r", vmin=-abs(vector).max(), vmax=abs(vector).max())
    ax.set_title(f"{value:.2f}")
    ax.axis("off")
plt.show()
