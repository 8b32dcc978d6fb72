"""A Gaussian process of many points, as in docs/guide/gaussian-processes.md: seconds, memory, how good the prediction is,
and a picture of mean and standard deviation.

    python bench/gaussian_process.py [--points 5000] [--dimensions 2] [--tolerance 1e-11] [--dense 2000]
                                     [--plot docs/images/gaussian-process.png] [--json FILE]

Heights of a formula at random points, with noise of 0.05; none in a strip. They depend on three coordinates at most. Matern
5/2; length (of more than three dimensions: of each coordinate) and nugget are chosen by the likelihood of 800 points, the
variance by that of all. Predicted are the points of a grid (of 3 dimensions: of the plane in
their middle). Seconds by the clock, of all processors ("cpu"), and the most memory that a step takes beyond what was there.
The same with SciPy's dense Cholesky factors for the first `--dense` points gives the differences of mean, deviation
and log likelihood; 0 leaves that out.
"""

import time

import numpy as np
import scipy.linalg as la
import scipy.optimize
from scipy.spatial.distance import cdist

import harness
import tacit

NOISE, CHOSEN_BY, BATCH = 0.05, 800, 500


def terrain(p):
    x, y = p[:, 0], p[:, 1] + (p[:, 2] - 0.5 if p.shape[1] > 2 else 0)
    bump = 0.6 * np.exp(-30 * ((x - 0.6) ** 2 + (y - 0.5) ** 2))
    return np.sin(7 * x + 2 * y) * np.cos(5 * y) + bump + 0.3 * np.sin(15 * x * y)


def measured(n, dimensions):
    rng = np.random.default_rng(0)
    p = rng.random((2 * n + 100, dimensions))
    p = p[np.abs(p[:, 0] + 0.3 * p[:, 1] - 0.5) > 0.06][:n]
    return p, terrain(p) + NOISE * rng.standard_normal(n)


def grid(dimensions, side):
    x = np.linspace(0, 1, side)
    plane = np.stack(np.meshgrid(x, x), axis=-1).reshape(-1, 2)
    return np.c_[plane, np.full((side**2, dimensions - 2), 0.5)]


class Process:
    """The process with a length and a nugget relative to the variance at points: factors of its covariance matrix over the
    variance, weights of values, the best variance unless one is given, and the log likelihood."""

    def __init__(self, points, values, length, relative, tolerance, variance=None):
        self.points, self.options = points, {"length": length, "tolerance": tolerance}
        self.A = tacit.hmatrix(points, "matern52", nugget=relative, symmetry="hermitian", **self.options)
        self.F = tacit.precond.factorise(self.A)
        self.solved = tacit.solve(self.A, values, precond=self.F, rtol=1e-8)
        square, n = float(values @ self.solved.x), len(values)
        self.variance = square / n if variance is None else variance
        self.likelihood = likelihood(square / self.variance, self.F.slogdet()[1] + n * np.log(self.variance), n)

    def predict(self, new):
        mean, squares = np.empty(len(new)), np.empty(len(new))
        for at in range(0, len(new), BATCH):
            part = slice(at, min(at + BATCH, len(new)))
            K = tacit.hmatrix(self.points, "matern52", sources=new[part], **self.options)
            k = K @ np.eye(K.shape[1])
            mean[part] = self.solved.x @ k
            squares[part] = 1 - (k * (self.F @ k)).sum(0)
        return mean, np.sqrt(self.variance * np.maximum(squares, 0))


def likelihood(square, log_determinant, n):
    return -0.5 * (square + log_determinant + n * np.log(2 * np.pi))


def chosen(points, values, tolerance):
    """Length and nugget relative to the variance, the best for some of the points; of more than three dimensions a
    length for each coordinate, which is long where nothing depends on it."""
    points, values = points[:CHOSEN_BY], values[:CHOSEN_BY]
    lengths = points.shape[1] if points.shape[1] > 3 else 1

    def cost(logarithms):
        length, relative = np.exp(logarithms[:-1]), np.exp(logarithms[-1])
        return -Process(points, values, length if lengths > 1 else length[0], relative, tolerance).likelihood

    found = scipy.optimize.minimize(
        cost,
        np.log([0.3] * lengths + [1e-2]),
        method="L-BFGS-B",
        bounds=np.log([(0.05, 20)] * lengths + [(1e-6, 1)]),
        options={"eps": 1e-3, "ftol": 1e-8},  # differences well above the errors of the likelihood
    )
    length = np.exp(found.x[:-1])
    return (length if lengths > 1 else length[0], np.exp(found.x[-1])), found.nfev


def beside_dense(points, values, length, variance, nugget, tolerance, new):
    """Differences from dense Cholesky factors, at few points."""

    def kernel(x, y):
        a = 5**0.5 * cdist(x / length, y / length)
        return variance * (1 + a + a**2 / 3) * np.exp(-a)

    made = Process(points, values, length, nugget / variance, tolerance, variance)
    mean, deviation = made.predict(new)
    L = la.cho_factor(kernel(points, points) + nugget * np.eye(len(points)), lower=True)
    k, weights = kernel(points, new), la.cho_solve(L, values)
    exact = likelihood(values @ weights, 2 * np.log(np.diag(L[0])).sum(), len(points))
    spread = np.sqrt(np.maximum(variance - (k * la.cho_solve(L, k)).sum(0), 0))
    return {
        "points": len(points),
        "mean": float(np.abs(mean - k.T @ weights).max()),
        "deviation": float(np.abs(deviation - spread).max()),
        "log_likelihood": made.likelihood,
        "dense_log_likelihood": float(exact),
    }


def step(work):
    """What `work` returns, with seconds, processor seconds and megabytes."""
    wall, cpu = time.perf_counter(), time.process_time()
    result, memory = harness.growth(work)
    return result, {"seconds": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "mb": memory * 1.048576}


def draw(path, points, values, mean, deviation):
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    side = round(len(mean) ** 0.5)
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained", sharey=True)
    shared = {"vmin": values.min(), "vmax": values.max(), "cmap": "viridis"}
    near = (np.abs(points[:, 2:3] - 0.5) < 0.05).all(axis=1)  # the plane, in the third dimension
    dots = axes[0].scatter(points[near, 0], points[near, 1], c=values[near], s=3, linewidths=0, **shared)
    figure.colorbar(dots, ax=axes[0], label="height", shrink=0.82)
    shape = {"origin": "lower", "extent": (0, 1, 0, 1), "interpolation": "bilinear"}
    heights = axes[1].imshow(mean.reshape(side, side), **shape, **shared)
    figure.colorbar(heights, ax=axes[1], label="height", shrink=0.82)
    drawn = axes[2].imshow(deviation.reshape(side, side), cmap="magma", **shape)
    figure.colorbar(drawn, ax=axes[2], label="height", shrink=0.82)
    shown = f"{len(points):,} measurements" if near.all() else f"{near.sum():,} of {len(points):,} measurements"
    for ax, title in zip(axes, (shown, "mean", "standard deviation"), strict=True):
        ax.set(title=title, xlabel="x", aspect="equal", xlim=(0, 1), ylim=(0, 1))
    axes[0].set_ylabel("y")
    figure.savefig(path, dpi=100)


def main():
    parser = harness.parser(__doc__)
    parser.add_argument("--points", type=int, default=5000)
    parser.add_argument("--dimensions", type=int, default=2)
    parser.add_argument("--tolerance", type=float, default=1e-11)
    parser.add_argument("--dense", type=int, default=2000)
    parser.add_argument("--side", type=int, default=60, help="points of a side of the grid")
    parser.add_argument("--plot")
    o = parser.parse_args()
    points, values = measured(o.points, o.dimensions)
    new = grid(o.dimensions, o.side)

    ((length, relative), calls), choice = step(lambda: chosen(points, values, o.tolerance))
    made, factors = step(lambda: Process(points, values, length, relative, o.tolerance))
    variance, nugget = made.variance, made.variance * relative
    (mean, deviation), prediction = step(lambda: made.predict(new))
    error = mean - terrain(new)
    rng = np.random.default_rng(1)
    seen = terrain(new) + NOISE * rng.standard_normal(len(new))
    found = {
        "points": o.points,
        "dimensions": o.dimensions,
        "tolerance": o.tolerance,
        "length": np.atleast_1d(length).tolist(),
        "variance": float(variance),
        "noise": float(nugget**0.5),
        "steps": {"choice": choice | {"likelihoods": calls}, "factors": factors, "prediction": prediction},
        "matrix_mb": made.A.report["bytes"] / 1e6,
        "factors_mb": made.F.report["bytes"] / 1e6,
        "mean_rank": made.F.report["mean_rank"],
        "residual": float(made.solved.residual_norm / np.linalg.norm(values)),
        "iterations": int(made.solved.iterations),
        "log_likelihood": made.likelihood,
        "log_determinant_error": made.F.logdet_error(),
        "error": float(np.sqrt(np.mean(error**2))),
        "within": float(np.mean(np.abs(error) < 1.96 * deviation)),
        "measurements_within": float(np.mean(np.abs(seen - mean) < 1.96 * np.sqrt(deviation**2 + nugget))),
    }
    report(found, len(new))
    if o.dense:
        few = slice(0, o.dense)
        found["dense"] = beside_dense(points[few], values[few], length, variance, nugget, o.tolerance, new[::7])
        d = found["dense"]
        print(
            f"beside dense factors of {d['points']} points: mean {d['mean']:.1e}, standard deviation {d['deviation']:.1e},"
        )
        print(f"  log likelihood {d['log_likelihood']:.6f}, dense {d['dense_log_likelihood']:.6f}")
    if o.plot:
        draw(o.plot, points, values, mean, deviation)
    harness.write(o.json, "gaussian_process/1", **found)


def report(found, count):
    print(f"{found['points']} points, {found['dimensions']} dimensions, tolerance {found['tolerance']:.0e}")
    lengths = ", ".join(f"{length:.3g}" for length in found["length"])
    print(f"length {lengths}; variance {found['variance']:.3f}, noise {found['noise']:.4f} (true: {NOISE})")
    for name, s in found["steps"].items():
        print(f"  {name:10} {s['seconds']:7.2f} s, cpu {s['cpu']:7.2f} s, {s['mb']:6.0f} MB more")
    print(
        f"matrix {found['matrix_mb']:.0f} MB, factors {found['factors_mb']:.0f} MB, mean rank {found['mean_rank']:.0f}"
    )
    print(f"residual {found['residual']:.1e} after {found['iterations']} iterations")
    print(
        f"log likelihood {found['log_likelihood']:.4f}, log determinant to {found['log_determinant_error']:.1e} by estimate"
    )
    print(f"error of the mean at {count} new points {found['error']:.4f} (root mean square)")
    print(f"within 95 % intervals: heights {found['within']:.1%}, new measurements {found['measurements_within']:.1%}")


if __name__ == "__main__":
    main()
