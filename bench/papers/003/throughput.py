"""Throughput by register tile and by network: figures 2 and 4 of the proposal on hierarchical sparse operations, on this processor.

    python bench/papers/003/throughput.py [--size 256] [--angles 360] [--tiles 8,16,32,48,64,96,128] [--network DATA] [--out FOLDER]

(4a) G edges a second (entries times columns) of A with as many columns at once as the register tile holds, list and bitmap,
float32 and float16 values; SciPy beside. (2a) the best of them. (2b) latency of RadiX-Nets of 120 layers through the
fused product and through SciPy's product and a separate activation, 2048 images of random bits (the official images for 1024
neurons with --network). (Paper: P100, V100, A100: tiled ELL 4.69, 1.81, 2.79 times cuSPARSE; fused inference 3.39 times and more;
the best factor depends on the size, a drop above 29 columns.)
"""

import argparse
import pathlib
import time

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from tacit import inference, tomography


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--size", type=int, default=256)
    words.add_argument("--angles", type=int, default=360)
    words.add_argument("--tiles", default="8,16,32,48,64,96,128")
    words.add_argument("--neurons", default="1024,4096")
    words.add_argument("--repeat", type=int, default=3)
    words.add_argument("--out", default=".")
    o = words.parse_args()
    angles = (np.arange(o.angles) * np.pi / o.angles).astype(np.float32)
    tiles = [int(t) for t in o.tiles.split(",")]
    rng = np.random.default_rng(0)
    curves = {}
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.4))
    for values, layout in (("full", "list"), ("full", "bitmap"), ("float16", "list"), ("float16", "bitmap")):
        name, rates = f"{layout}, {'float32' if values == 'full' else values}", []
        A = tomography.projector(angles, o.size, values=values, format=layout).operator
        for k in tiles:
            x = rng.random((A.shape[1], k), np.float32)
            seconds = min(A._handle.time_product(x, False, False) for _ in range(o.repeat))
            rates.append(A.nnz * k / seconds / 1e9)
        curves[name] = rates
        left.plot(tiles, rates, "o-", label=name)
        print(f"{name}: " + ", ".join(f"{k}: {r:.1f}" for k, r in zip(tiles, rates, strict=True)) + " G edges/s")
    a = A.to_scipy()
    rates = []
    for k in tiles:
        x = rng.random((a.shape[1], k), np.float32)
        best = 1e9
        for _ in range(2):
            begin = time.perf_counter()
            a @ x
            best = min(best, time.perf_counter() - begin)
        rates.append(a.nnz * k / best / 1e9)
    left.plot(tiles, rates, "s--", color="#718096", label="SciPy (one thread)")
    best, at = max((max(r), n) for n, r in curves.items())
    print(f"figure 2a: {at} {best:.1f}, SciPy {max(rates):.1f} G edges/s: {best / max(rates):.2f} times")
    left.set_xlabel("columns at once"), left.set_ylabel("G edges/s"), left.legend(), left.set_ylim(0)

    times = {"fused": [], "SciPy, two passes": []}
    sizes = [int(n) for n in o.neurons.split(",")]
    for neurons in sizes:
        net = inference.radixnet(neurons, 120)
        layers = [inference.radixnet_layer(k, neurons).T.tocsr() for k in range(6)]
        images = rng.random((2048, neurons)) < 0.12
        bits = np.packbits(images, axis=1)
        bias = inference.BIAS[neurons]
        fused = min(net.infer(bits, packed=True, bias=bias).seconds for _ in range(o.repeat))
        begin = time.perf_counter()
        y = np.ascontiguousarray(images.T.astype(np.float32))
        for layer in range(120):
            y = layers[layer % 6] @ y
            np.clip(y + np.float32(bias), 0, 32, out=y)
            alive = y.any(0)
            if not alive.all():
                y = np.ascontiguousarray(y[:, alive])
        plain = time.perf_counter() - begin
        times["fused"].append(fused)
        times["SciPy, two passes"].append(plain)
        print(
            f"figure 2b: {neurons} neurons: {fused * 1e3:.1f} ms fused, {plain * 1e3:.1f} ms in two passes with SciPy: {plain / fused:.1f} times"
        )
    place = np.arange(len(sizes))
    for i, (name, seconds) in enumerate(times.items()):
        right.bar(place + 0.4 * i - 0.2, np.array(seconds) * 1e3, 0.38, label=name)
    (
        right.set_yscale("log"),
        right.set_ylabel("ms"),
        right.set_xticks(place, [str(n) for n in sizes]),
        right.set_xlabel("neurons a layer"),
    )
    right.legend()
    figure.tight_layout()
    path = pathlib.Path(o.out) / "throughput.png"
    figure.savefig(path, dpi=110)
    print(f"drawn in {path}")


if __name__ == "__main__":
    main()
