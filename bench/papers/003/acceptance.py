"""Requirements on projectors, reconstructions and sparse networks: a line for each with the measured value and the
verdict.

    python bench/papers/003/acceptance.py --data FOLDER [--tests 1,2,..] [--small]

FOLDER holds tomography/ (ADS1, CDS1, tooth.h5, tooth_gridrec.npz, tomopy_golden.npz, cgls_reference.csv) and inference/
(radixnet_1024.py and .npz, oracle_1024.npz, mnist_train.npz). --small leaves out the projector of 720 x 512. Reference
residuals: the same iteration with the matrix of another program, in double precision. Exit code 1 if a requirement is
not met.
"""

import argparse
import csv
import pathlib
import sys

import numpy as np

import tacit
from tacit import inference, tomography

ELLIPSES = (  # Shepp-Logan phantom with higher contrast: value, half axes, centre, degrees
    (1.0, 0.69, 0.92, 0, 0, 0), (-0.8, 0.6624, 0.874, 0, -0.0184, 0), (-0.2, 0.11, 0.31, 0.22, 0, -18),
    (-0.2, 0.16, 0.41, -0.22, 0, 18), (0.1, 0.21, 0.25, 0, 0.35, 0), (0.1, 0.046, 0.046, 0, 0.1, 0),
    (0.1, 0.046, 0.046, 0, -0.1, 0), (0.1, 0.046, 0.023, -0.08, -0.605, 0), (0.1, 0.023, 0.023, 0, -0.606, 0),
    (0.1, 0.023, 0.046, 0.06, -0.605, 0),
)  # fmt: skip
failed = 0


def tell(number, what, figure, stands):
    global failed
    failed += stands is False
    word = {True: "stands", False: "DOES NOT STAND", None: "not here"}[stands]
    print(f"{number:>3} {word:14s} {what}: {figure}", flush=True)


def angles_of(count):
    return (np.arange(count) * np.pi / count).astype(np.float32)


def head(n, samples=4):
    """The phantom as an image with row 0 on top."""
    c = (np.arange(n * samples) + 0.5) / (n * samples) * 2 - 1
    x, y = np.meshgrid(c, -c)
    p = np.zeros_like(x)
    for value, a, b, x0, y0, degrees in ELLIPSES:
        t = np.deg2rad(degrees)
        u, v = (x - x0) * np.cos(t) + (y - y0) * np.sin(t), (y - y0) * np.cos(t) - (x - x0) * np.sin(t)
        p[(u / a) ** 2 + (v / b) ** 2 <= 1] += value
    return p.reshape(n, samples, n, samples).mean((1, 3))


def sinogram_of_head(n, theta, samples=4):
    """Exact line integrals, averaged over several rays in each bin."""
    r = ((np.arange(n * samples) + 0.5) / samples - n / 2) / (n / 2)
    out = np.zeros((len(theta), n * samples))
    for row, t in zip(out, theta.astype(float), strict=True):
        for value, a, b, x0, y0, degrees in ELLIPSES:
            g = t - np.deg2rad(degrees)
            width2 = (a * np.cos(g)) ** 2 + (b * np.sin(g)) ** 2
            d = r - (x0 * np.cos(t) + y0 * np.sin(t))
            row += 2 * value * a * b * np.sqrt(np.maximum(width2 - d * d, 0)) / width2
    return (out.reshape(len(theta), n, samples).mean(2) * n / 2).astype(np.float32)


def psnr(image, truth):
    return float(-10 * np.log10(np.mean((image.astype(float) - truth) ** 2)))


class Sets:
    def __init__(self, folder):
        self.folder = folder / "tomography"
        self.reference = {}
        with open(self.folder / "cgls_reference.csv") as f:
            for row in csv.DictReader(f):
                self.reference[row["set"], row["vectors"], int(row["iteration"])] = float(row["residual2"])

    def raw(self, name, angles, n):
        theta = np.fromfile(self.folder / f"{name}_theta.bin", "<f4")
        return theta, np.fromfile(self.folder / f"{name}_sinogram.bin", "<f4").reshape(angles, n)


def residuals(b, theta, dtype, iterations=24, **options):
    """Squared residuals by iteration, the last one recomputed; images."""
    P = tomography.projector(theta, b.shape[-1], dtype=dtype, **options)
    r = tomography.reconstruct(b, projector=P, iterations=iterations)
    squares = r.residual[:, 0] ** 2
    squares[-1] = r.final_residual[0] ** 2
    return squares, r.images


def heads(sets, o):
    for n, angles, at_least, at in ((256, 360, 34.0, range(14, 27, 2)), (512, 720, 36.5, (24,))):
        if n == 512 and o.small:
            continue
        theta = angles_of(angles)
        b, truth = sinogram_of_head(n, theta), head(n)
        for dtype, name, room in (("float64", "double", 1.01), ("float32", "single", 1.05)):
            P = tomography.projector(theta, n, dtype=dtype)
            best, squared = -1e9, np.nan
            for iterations in at:
                r = tomography.reconstruct(b, projector=P, iterations=iterations)
                best = max(best, psnr(r.images, truth))
                if iterations == 24:
                    squared = r.final_residual[0] ** 2
            ratio = squared / sets.reference[f"SL{n}", name, 24]
            tell(1, f"SL{n}, {dtype}, squared residual after 24 iterations over the reference's, at most {room}",
                 f"{squared:.5g}, {ratio:.4f}", ratio <= room)  # fmt: skip
            if dtype == "float64":
                tell(1, f"SL{n}, PSNR, {'best of some iterations' if n == 256 else 'after 24'}, at least {at_least} dB",
                     f"{best:.2f} dB", best >= at_least)  # fmt: skip


def scan(sets, o):
    theta, b = sets.raw("CDS1", 750, 512)
    for dtype, most in (("float64", 20.1), ("float32", 21.1)):
        squares, _ = residuals(b, theta, dtype)
        tell(2, f"CDS1, {dtype}, squared residual after 24 iterations, at most {most}", f"{squares[-1]:.3f}",
             squares[-1] <= most)  # fmt: skip


def tooth(sets, o):
    from tacit.app import scans

    s = scans.DataExchange(str(sets.folder / "tooth.h5"))
    r = tomography.reconstruct(s.read(0, 1), s.angles, centre=296, iterations=10)
    s.close()
    found = np.corrcoef(r.images[0].ravel(), np.load(sets.folder / "tooth_gridrec.npz")["slice0"].ravel())[0, 1]
    tell(3, "tooth, 10 iterations, correlation with gridrec, at least 0.995", f"{found:.4f}", found >= 0.995)


def entries(sets, o):
    P = tomography.projector(angles_of(360), 256)
    off = P.nnz / 28201167 - 1
    tell(4, "entries of SL256, within 1e-4 of 28,201,167", f"{P.nnz:,}, {off:+.1e}", abs(off) <= 1e-4)
    tell(4, "A x against another program's line matrix", "that program is not run here", None)


def adjoint(sets, o):
    rng = np.random.default_rng(0)
    for dtype, most in (("float32", 1e-6), ("float64", 1e-12)):
        P = tomography.projector(angles_of(180), 128, dtype=dtype)
        x, y = rng.random((4, 128, 128)), rng.random((4, 180, 128))
        left = np.vdot(P.project(x).astype(float), y.astype(dtype).astype(float))
        right = np.vdot(x.astype(dtype).astype(float), P.backproject(y).astype(float))
        tell(5, f"<A x, y> = <x, A^T y>, {dtype}, to {most:g}", f"{abs(left / right - 1):.1e}",
             abs(left / right - 1) <= most)  # fmt: skip


def halves(sets, o):
    theta = angles_of(360)
    data = {"SL256": (theta, sinogram_of_head(256, theta)), "ADS1": sets.raw("ADS1", 360, 256)}
    for name, (t, b) in data.items():
        full = {k: residuals(b, t, "float32", k)[0][-1] for k in range(8, 25, 4)}
        for option in ({"values": "float16"}, {"vectors": "float16"}, {"values": "float16", "vectors": "float16"},
                       {"vectors": "bfloat16"}):  # fmt: skip
            # Residuals are computed with the unrounded matrix, like the images' errors.
            P = tomography.projector(t, 256)
            worst, text = 0.0, []
            for k in range(8, 25, 4):
                _, image = residuals(b, t, "float32", k, **option)
                own = float(((b - P.project(image)).astype(float) ** 2).sum()) / full[k]
                worst, text = max(worst, own), [*text, f"{own:.3f}"]
            what = ", ".join(f"{v} {k}" for k, v in option.items())
            tell(6, f"{name}, {what}: squared residuals over floats' at 8, 12, .., 24, at most 1.06", " ".join(text),
                 worst <= 1.06)  # fmt: skip
    P = tomography.projector(theta, 64, vectors="float16", values="float16", columns=16)
    rng = np.random.default_rng(0)
    x = rng.random((16, 64, 64)).astype(np.float32)
    alone = P.project(x[3])
    x[2], x[4], x[5] = x[2] * 1e30, -x[4] * 1e30, np.where(x[5] > 0.5, -3e4, 3e-4)
    y = P.project(x)
    apart = float(np.abs(y[3] - alone).max() / np.abs(alone).max())
    tell(6, "columns of 1e30, -1e30 and of -3e4 beside ordinary ones: finite, neighbours the same",
         f"{apart:.1e}", bool(np.isfinite(y).all()) and apart < 1e-5)  # fmt: skip


def network(sets, o):
    folder = o.data / "inference"
    sys.path.insert(0, str(folder))
    import radixnet_1024 as official

    oracle = np.load(folder / "oracle_1024.npz")
    net = inference.radixnet(classes=official.row_classes())
    r = net.infer(np.packbits(official.images(), axis=1), packed=True, report_layers=True)
    same = np.array_equal(r.categories, oracle["categories"])
    tell(7, "1024 x 120: categories of the oracle", f"{len(r.categories)}, {'the same' if same else 'others'}", same)


def golden(sets, o):
    z = np.load(sets.folder / "tomopy_golden.npz")
    found = np.exp(-tomography.normalise(z["tomo"], z["flat"], z["dark"]))
    wanted = np.maximum(z["normalize"], 1e-6)
    off = float(np.abs(found / wanted - 1).max())
    tell(8, "normalize, to 1 %", f"{off:.1e}", off <= 0.01)
    s = z["sinogram"][:, 0]
    centre = tomography.find_centre(s, np.arange(len(s)) * np.pi / len(s))
    tell(8, "rotation axis, theirs 44.75 and 45.28", f"{centre:.2f}", 44.25 <= centre <= 45.78)


def tiling(sets, o):
    A = tomography.projector(angles_of(360), 256, format="list").operator
    for rows, wanted in (
        (8, 2.32),
        (16, 3.42),
        (32, 4.49),
        (64, 6.68),
        (128, 8.82),
        (256, 13.1),
        (512, 17.3),
        (1024, 25.6),
    ):
        found = A.reuse(rows)
        tell(9, f"reuse in blocks of {rows} rows, {wanted}", f"{found:.2f}", abs(found / wanted - 1) < 0.005)
    for kilobytes, k, stages, ell in ((48, 16, (16.4, 18.6), (1.35, 1.30)), (96, 16, (8.5, 9.4), (1.24, 1.21)),
                                      (163, 20, (6.4, 7.3), (1.20, 1.17)), (227, 32, (7.2, 8.2), (1.22, 1.19))):  # fmt: skip
        s = [A.staging(1024, kilobytes * 1024 // 4 // k, way) for way in (False, True)]
        got = [(round(v["stages"], 1), round(v["warp_padding"], 2)) for v in s]
        near = all(abs(g[0] - w) < 0.11 and abs(g[1] - e) < 0.011 for g, w, e in zip(got, stages, ell, strict=True))
        tell(9, f"{kilobytes} KB, {k} columns: stages {stages}, ELL {ell}", f"{got}", near)


def together(sets, o):
    theta = angles_of(180)
    P = tomography.projector(theta, 128, dtype="float64")
    b = np.stack([sinogram_of_head(128, theta) * (1 + k) for k in range(3)]).astype(float)
    b += np.random.default_rng(0).normal(0, 0.1, b.shape)
    r = tomography.reconstruct(b, projector=P, iterations=8)
    off = max(
        float(np.abs(tomography.reconstruct(s, projector=P, iterations=8).images - x).max() / np.abs(x).max())
        for s, x in zip(b, r.images, strict=True)
    )
    tell(10, "three slices together and alone, double, 8 iterations, images to 1e-8", f"{off:.1e}", off <= 1e-8)


def sizes(sets, o):
    rng = np.random.default_rng(0)
    worst, count = 0.0, 0
    few = np.deg2rad([0, 45, 90, 135])
    for t, n, options in ((angles_of(7), 13, {}), (few[:1], 1, {"image": 1}), (few, 5, {"image": (9, 14)}),
                          (angles_of(3), 2, {"image": 30}), (few, 12, {"centre": -3.0}), (angles_of(11), 12, {"centre": 14.0}),
                          (angles_of(23), 31, {"image": (17, 40), "centre": 12.25, "vectors": "float16"})):  # fmt: skip
        exact = options.get("vectors") is None
        P = tomography.projector(t, n, dtype="float64" if exact else "float32", **options)
        x, y = rng.random((3, *P.image_shape)), rng.random((3, *P.sinogram_shape))
        left, right = np.vdot(P.project(x).astype(float), y), np.vdot(x, P.backproject(y).astype(float))
        worst = max(worst, abs(left - right) / max(abs(left), 1e-300) * (1 if exact else 1e-9))
        r = tomography.reconstruct(P.project(x), projector=P, iterations=3, batch=2)  # the last batch is shorter
        count += bool(np.isfinite(r.images).all())
    tell(11, "7 odd geometries, adjoint to 1e-12, reconstructions finite, last batch short", f"{worst:.1e}, {count}",
         worst <= 1e-12 and count == 7)  # fmt: skip


TESTS = {
    1: heads,
    2: scan,
    3: tooth,
    4: entries,
    5: adjoint,
    6: halves,
    7: network,
    8: golden,
    9: tiling,
    10: together,
    11: sizes,
}


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--data", type=pathlib.Path, required=True)
    words.add_argument("--tests", default=",".join(map(str, TESTS)))
    words.add_argument("--small", action="store_true")
    o = words.parse_args()
    sets = Sets(o.data)
    print(f"tacit {tacit.__version__}, {tacit._core.threads()} threads")
    for number in map(int, o.tests.split(",")):
        TESTS[number](sets, o)
    raise SystemExit(failed > 0)


if __name__ == "__main__":
    main()
