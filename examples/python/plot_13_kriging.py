"""
Kriging of a terrain
====================

Heights measured at scattered places become a map and its standard deviation: ordinary kriging, which is
Gaussian-process regression with an unknown mean. The terrain is a real one, the Jacksboro fault in Tennessee, of the
elevation model that Matplotlib brings. 3,000 of its 138,632 cells are the measurements, none in a circle of 5 km; the
others tell how good the map is.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib import cbook
from matplotlib.colors import LightSource
from scipy.interpolate import LinearNDInterpolator
from scipy.optimize import minimize_scalar

import tacit

model = cbook.get_sample_data("jacksboro_fault_dem.npz")
terrain = model["elevation"][::-1].astype(float)  # m, from south to north
cell = 111.2 * float(model["dy"]) * np.array([np.cos(np.radians(36.6)), 1.0])  # km, along x and y
row, column = np.indices(terrain.shape)
places = np.c_[column.ravel(), row.ravel()] * cell
order = np.random.default_rng(0).permutation(len(places))
measured = order[np.hypot(*(places[order] - (23.0, 20.0)).T) > 2.5][:3000]
points, heights = places[measured], terrain.ravel()[measured]

# %%
# The heights are samples of mean + process. Its covariance is variance * k(r / length), k of the Matérn family with
# ν = 1, which suits rough terrain; heights are rounded to metres, which is noise of the variance 1/12. For a length the
# best mean and variance are known, and the logarithm of the likelihood tells how good the length is.

ROUNDING = 1 / 12 / heights.var()  # relative to the variance


class Kriging:
    """The process with a length at points: factors of its covariance matrix, and what the heights are worth."""

    def __init__(self, points, heights, length):
        self.points, self.kernel = points, {"nu": 1.0, "length": length, "tolerance": 1e-9}
        A = tacit.hmatrix(points, "matern", nugget=ROUNDING, symmetry="hermitian", **self.kernel)
        self.factors = tacit.precond.factorise(A)
        ones = np.ones(len(points))
        solved = tacit.solve(A, np.c_[heights, ones], precond=self.factors, rtol=1e-8).x
        self.ones = solved[:, 1]
        self.mean = solved[:, 0].sum() / self.ones.sum()
        self.weights = solved[:, 0] - self.mean * self.ones
        self.variance = (heights - self.mean) @ self.weights / len(heights)
        self.cost = len(heights) * np.log(self.variance) + self.factors.slogdet()[1]  # -2 log likelihood

    def __call__(self, new, batch=1000):
        """Heights and standard deviations at new points."""
        mean, squares = np.empty(len(new)), np.empty(len(new))
        for at in range(0, len(new), batch):
            part = slice(at, min(at + batch, len(new)))
            K = tacit.hmatrix(self.points, "matern", sources=new[part], **self.kernel)
            k = K @ np.eye(K.shape[1])
            left = 1 - self.ones @ k  # of the mean
            mean[part] = self.mean + self.weights @ k
            squares[part] = 1 - (k * (self.factors @ k)).sum(0) + left**2 / self.ones.sum()
        return mean, np.sqrt(self.variance * np.maximum(squares, 0))


def cost(logarithm):
    return Kriging(points[:800], heights[:800], np.exp(logarithm)).cost


length = np.exp(minimize_scalar(cost, bounds=np.log([0.3, 10]), options={"xatol": 0.05}).x)
kriging = Kriging(points, heights, length)
print(f"length {length:.2f} km, mean {kriging.mean:.0f} m, standard deviation {kriging.variance**0.5:.0f} m")

# %%
# Ten-fold cross-validation: a tenth of the measurements is left out and predicted from the others, beside linear
# interpolation in triangles.

errors, scores = [], []
for fold in range(10):
    left_out = np.arange(len(points)) % 10 == fold
    kept, new = points[~left_out], points[left_out]
    mean, deviation = Kriging(kept, heights[~left_out], length)(new)
    linear = LinearNDInterpolator(kept, heights[~left_out])(new)
    inside = ~np.isnan(linear)  # of the hull of the points
    errors.append(np.c_[mean, linear][inside] - heights[left_out][inside, None])
    scores.append((np.abs(mean - heights[left_out]) < 1.96 * deviation).mean())
kriged, linear = np.sqrt((np.concatenate(errors) ** 2).mean(axis=0))
print(f"cross-validation: kriging {kriged:.1f} m, linear {linear:.1f} m (root mean square)")
print(f"{np.mean(scores):.1%} of the heights left out are within 1.96 standard deviations")

# %%
# The map, at every fourth cell in both directions, beside the terrain:

shown = np.s_[::4, ::4]
shape = terrain[shown].shape
new = places.reshape(*terrain.shape, 2)[shown].reshape(-1, 2)
mean, deviation = (values.reshape(shape) for values in kriging(new))
error = mean - terrain[shown]
print(f"{mean.size} cells: error {np.sqrt((error**2).mean()):.1f} m, deviation {np.sqrt((deviation**2).mean()):.1f} m")

light = LightSource(azdeg=315, altdeg=45)
step = 1000 * 4 * cell
extent = (0, terrain.shape[1] * cell[0], 0, terrain.shape[0] * cell[1])
figure, axes = plt.subplots(1, 3, figsize=(12, 4), layout="constrained", sharey=True)
for ax, values, title in ((axes[0], terrain[shown], "the terrain"), (axes[1], mean, "kriging of 3,000 heights")):
    shaded = light.shade(
        values, plt.get_cmap("gist_earth"), vert_exag=3, dx=step[0], dy=-step[1], vmin=150, vmax=1150, blend_mode="soft"
    )
    ax.imshow(shaded, origin="lower", extent=extent)
    ax.set(title=title, xlabel="km")
drawn = axes[2].imshow(deviation, origin="lower", extent=extent, cmap="magma", vmin=0)
axes[2].plot(*points.T, ".", color="white", markersize=0.5)
axes[2].set(title="standard deviation, m", xlabel="km")
figure.colorbar(drawn, ax=axes[2], shrink=0.8)
axes[0].set_ylabel("km")
plt.show()
