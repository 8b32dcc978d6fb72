"""The errors that H-matrices of random kernels report, beside their true errors: smooth kernels, cut-off radii, jumps,
kernels of compact support, and single entries that are wrong.

    python bench/hmatrix_errors.py [--points 500] [--kernels 200] [--json FILE]
"""

import warnings
from collections import Counter
from collections.abc import Callable

import numpy as np

import harness
import tacit

KINDS = ("exp(-r)", "1 / r", "cut off", "jump", "compact", "1 / r cut off", "0.1 % wrong", "3 wrong")


def random_kernel(kind: int, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Points and the whole matrix."""
    d = int(rng.integers(1, 4))
    p = rng.random((n, d))
    r = np.linalg.norm(p[:, None] - p[None], axis=2)
    radius, size, width = rng.uniform(0.1, 0.9) * np.sqrt(d), 10.0 ** rng.uniform(-3, 0), rng.uniform(0.05, 1)
    kernels: list[Callable[[], np.ndarray]] = [
        lambda: np.exp(-r / width),
        lambda: 1 / (r + 0.1 * width),
        lambda: np.exp(-r / width) * (r < radius),
        lambda: np.exp(-r / width) + size * (r < radius),
        lambda: np.maximum(0, 1 - r / (0.3 * width)) ** 4 * (1 + 4 * r / (0.3 * width)),
        lambda: 1 / (r + 0.01) * (r < 0.3 * width),
        lambda: np.exp(-r / width),
        lambda: np.exp(-r / width),
    ]
    a = kernels[kind]()
    if kind >= 6:
        at = rng.integers(0, n, (2, max(1, n * n // 1000) if kind == 6 else 3))
        a[at[0], at[1]] += size if kind == 6 else 1.0
    return p, a


def main() -> None:
    words = harness.parser(__doc__)
    words.add_argument("--points", type=int, default=500)
    words.add_argument("--kernels", type=int, default=200)
    o = words.parse_args()
    n, count = o.points, o.kernels
    warnings.simplefilter("ignore", RuntimeWarning)
    rng = np.random.default_rng(5)
    seen: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
    for k in range(count):
        p, a = random_kernel(k % len(KINDS), n, rng)
        tolerance = 10.0 ** -int(rng.integers(3, 8))
        A = tacit.hmatrix(p, lambda i, j, a=a: a[np.ix_(i, j)], tolerance=tolerance, leaf_size=32)
        true = np.linalg.norm(A @ np.eye(n) - a) / np.linalg.norm(a)
        report = A.report
        reported = max(report["measured_error"], report["estimated_error"])
        seen[KINDS[k % len(KINDS)]].update(
            matrices=1,
            warned=int(bool(report["warnings"])),
            above=int(true > tolerance),
            under=int(3 * reported < true and not report["warnings"]),
        )
    print(f"{n} points. under: the reported error is below a third of the true one, without a warning")
    print(f"{'kernel':15} {'matrices':>9} {'above tolerance':>16} {'warned':>7} {'under':>6}")
    for kind, s in seen.items():
        print(f"{kind:15} {s['matrices']:9} {s['above']:16} {s['warned']:7} {s['under']:6}")
    rows = [{"kernel": kind} | dict(s) for kind, s in seen.items()]
    harness.write(o.json, "hmatrix_errors/1", points=n, rows=rows)


if __name__ == "__main__":
    main()
