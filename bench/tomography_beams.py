"""Fan and cone beams: time for an entry of a product, errors of reconstructions of ellipsoids, the guide's picture.

    python bench/tomography_beams.py [--sizes 64 128] [--peer-python PYTHON_WITH_ASTRA] [--picture FILE] [--json FILE]

Times are processor seconds of one thread, the least of some products, divided by entries and columns. ASTRA has no
cone beam on processors: a fan is compared. Errors are relative to the means of the ellipsoids over voxels, from their
exact line integrals.
"""

import json
import pathlib
import subprocess
import sys
import time

import numpy as np

import harness
from tacit import tomography
from tacit._support import using_threads

sys.path.insert(0, str(harness.ROOT / "tests/python"))
from scans_of_ellipsoids import integrals, turn, volume_of

from tacit.plot import plotting

PEER = """
import astra, json, numpy as np, sys, time
n, views = map(int, sys.argv[1:])
angles = np.linspace(0, 2 * np.pi, views, endpoint=False) + 0.01
made = astra.create_proj_geom("fanflat", 1.5, n, angles, 4.0 * n, 2.0 * n)
number = astra.create_projector("line_fanflat", made, astra.create_vol_geom(n, n))
A, entries = astra.OpTomo(number), astra.matrix.get(astra.projector.matrix(number)).nnz
x, y, least = np.ones((n, n), np.float32), np.ones((views, n), np.float32), [np.inf, np.inf]
for _ in range(5):
    for i, product in enumerate((lambda: A.FP(x), lambda: A.BP(y))):
        begin = time.thread_time()
        product()
        least[i] = min(least[i], time.thread_time() - begin)
print(json.dumps([1e9 * t / entries for t in least]))
"""


def nanoseconds(P, columns, rounds=5):
    """The least processor time of a product with A and with A^T, for an entry and a column."""
    rng = np.random.default_rng(0)
    x, y = (rng.random((columns, *shape), np.float32) for shape in (P.image_shape, P.sinogram_shape))
    least = [np.inf, np.inf]
    with using_threads(1):
        for _ in range(rounds):
            for i, product in enumerate((lambda: P.project(x), lambda: P.backproject(y))):
                begin = time.thread_time()
                product()
                least[i] = min(least[i], time.thread_time() - begin)
    return [1e9 * t / P.nnz / columns for t in least]


def cone(n, views, **options):
    how = {"source": 4 * n, "detector": 2 * n, "pitch": 1.5, "volume": n, "voxel": 1}
    return tomography.cone_projector(turn(views) + 0.01, (n, n), **how | options)


def fan(n, views):
    return tomography.fan_projector(turn(views) + 0.01, n, source=4 * n, detector=2 * n, bin=1.5, image=n, pixel=1)


def errors(n, picture):
    """Relative errors of reconstructions of n^3 voxels, and the picture of their central slices."""
    P = cone(n, 3 * n // 2, source=2 * n, detector=n)
    b, truth = integrals(P, n / 2), volume_of(n)
    how = {"projector": P, "iterations": 15}
    made = {"phantom": truth, "cgls": tomography.reconstruct(b, **how).images}
    made |= {"fbp (FDK)": tomography.fbp(b, projector=P).images}
    found = {name: float(np.linalg.norm(v - truth) / np.linalg.norm(truth)) for name, v in made.items()}
    if picture:
        draw(made, truth, found, picture)
    return found


def draw(made, truth, found, path):
    from tomography_pictures import shrink

    n = len(truth)
    cuts = {"z": lambda v: v[n // 2], "y": lambda v: v[::-1, n // 2]}
    panels = [(name, v, (-0.1, 1.6)) for name, v in made.items()]
    panels += [(f"error of {name}", v - truth, (-0.4, 0.4)) for name, v in made.items() if v is not truth]
    with plotting.drawing(path, 1.75 * len(panels), 3.9) as page:
        axes = page.subplots(2, len(panels))
        for i, (axis, cut) in enumerate(cuts.items()):
            for j, (name, v, (low, high)) in enumerate(panels):
                axes[i, j].set_axis_off()
                axes[i, j].imshow(cut(v), cmap="gray", vmin=low, vmax=high)
                of = f", {found[name]:.3f}" if found.get(name) else ""
                axes[i, j].set_title(f"{name}{of}" if i == 0 else f"across {axis}", fontsize=8)
    shrink(path)


def main():
    words = harness.parser(__doc__)
    words.add_argument("--sizes", type=int, nargs="+", default=[64, 128])
    words.add_argument("--peer-python")
    words.add_argument("--picture", type=pathlib.Path)
    o = words.parse_args()
    rows = []
    for name, P in [(f"cone {n}^3", cone(n, 32)) for n in o.sizes] + [("fan 512^2", fan(512, 32))]:
        for columns in (1, 4, 16) if P.nnz < 2e7 else (1,):
            rows.append({"what": name, "columns": columns, "entries": P.nnz, "ns": nanoseconds(P, columns)})
            print("{what}, {columns} columns, {entries} entries: {ns[0]:.2f} / {ns[1]:.2f} ns".format(**rows[-1]))
    if o.peer_python:
        done = subprocess.run([o.peer_python, "-c", PEER, "512", "32"], capture_output=True, text=True, check=True)
        rows.append({"what": "fan 512^2, ASTRA", "columns": 1, "ns": json.loads(done.stdout)})
        print("fan 512^2, ASTRA line_fanflat: {ns[0]:.2f} / {ns[1]:.2f} ns".format(**rows[-1]))
    found = errors(max(o.sizes[0], 48), o.picture)
    print(f"relative errors: {found}")
    harness.write(o.json, "tomography_beams/1", rows=rows, errors=found)


if __name__ == "__main__":
    main()
