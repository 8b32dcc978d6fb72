"""Throughput by register tile and by network: figures 2 and 4 of the proposal on hierarchical sparse operations, on
this processor.

    python bench/papers/003/throughput.py [--size 256] [--angles 360] [--tiles 8,16,32,48,64,96,128] [--panels 16,32,..]
                                          [--neurons 1024,4096] [--repeat 3] [--out FOLDER]

(4a-c) 1e9 edges per second (entries times columns) of A with as many columns as the register tile holds, list and
bitmap, float32 and float16 values; SciPy for comparison; with rays and pixels in natural order, tiled and as Tacit's
csr operator. (4d-f) 1e9 edges per second of RadiX-Nets with 120 layers by the number of images that are processed
together. (2a) The best of 4a over SciPy's product, with the paper's ratios to cuSPARSE. (2b) Latency of the networks
with the fused product and with SciPy's product and a separate activation, for 2048 images of random bits. (Paper: P100,
V100, A100: tiled ELL 4.69, 1.81, 2.79 times cuSPARSE; fused inference 3.39 times and up to two orders of magnitude; the
best factor depends on the size, with a sharp drop above 29 columns.)
"""

import argparse
import os
import pathlib
import tempfile
import time

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import tacit
from tacit import inference, tomography

PAPER = {"P100": 4.69, "V100": 1.81, "A100": 2.79}  # tiled ELL over cuSPARSE


def product_rates(apply, nnz, columns, tiles, repeat):
    """1e9 edges per second; `apply` multiplies an array of columns."""
    rates = []
    for k in tiles:
        x = np.random.default_rng(0).random((columns, k), np.float32)
        best = 1e9
        for _ in range(repeat):
            begin = time.perf_counter()
            apply(x)
            best = min(best, time.perf_counter() - begin)
        rates.append(nnz * k / best / 1e9)
    return rates


def projector_rates(o, tiles, left, ratios):
    """Rates of a projector in several formats, drawn in two panels."""
    angles = (np.arange(o.angles) * np.pi / o.angles).astype(np.float32)
    curves = {}

    def show(name, at, rates, style="o-"):
        curves[name] = rates
        left.plot(tiles, rates, style, label=name)
        print(
            f"{name}: " + ", ".join(f"{k}: {r:.1f}" for k, r in zip(at, rates, strict=True)) + " G edges/s", flush=True
        )

    for values, layout in (("full", "list"), ("full", "bitmap"), ("float16", "list"), ("float16", "bitmap")):
        A = tomography.projector(angles, o.size, values=values, format=layout).operator
        found = product_rates(A.__matmul__, A.nnz, A.shape[1], tiles, o.repeat)
        show(f"{layout}, {'float32' if values == 'full' else values}", tiles, found)
    a = A.to_scipy()
    plain = product_rates(a.__matmul__, a.nnz, a.shape[1], tiles, 2)
    show("SciPy (one thread)", tiles, plain, "s--")
    best, at = max((max(r), n) for n, r in curves.items())
    print(f"figure 2a: {at} {best:.1f}, SciPy {max(plain):.1f} G edges/s: {best / max(plain):.2f} times")
    # Rays and pixels in natural order: the tuner may choose the plain format.
    natural = tomography.projector(angles, o.size, order="natural", columns=32, tune=True).operator
    found = product_rates(natural.__matmul__, natural.nnz, a.shape[1], tiles, o.repeat)
    show(f"natural order, tuned ({natural.storage.split(',')[0]})", tiles, found, "^-")
    a = natural.to_scipy()
    own = tacit.csr(a)
    csr = product_rates(own.__matmul__, a.nnz, a.shape[1], tiles, o.repeat)
    show("natural order, csr", tiles, csr, "^--")
    print(
        "natural order, tuned over csr: "
        + ", ".join(f"{k}: {f / c:.2f}" for k, f, c in zip(tiles, found, csr, strict=True))
    )
    left.set_title("figure 4a-c: one projector, this processor")
    left.set_xlabel("columns at once"), left.set_ylabel("G edges/s"), left.legend(fontsize=7), left.set_ylim(0)
    ratios.bar([*PAPER, "this processor"], [*PAPER.values(), best / max(plain)], color=["#a0aec0"] * 3 + ["#2b6cb0"])
    ratios.set_title("figure 2a: over cuSPARSE (paper), over SciPy (ours)"), ratios.set_ylabel("times")


def two_passes(images, layers, bias):
    """Seconds of 120 layers with SciPy: a product, then the activation."""
    begin = time.perf_counter()
    y = np.ascontiguousarray(images.T.astype(np.float32))
    for layer in range(120):
        y = layers[layer % len(layers)] @ y
        np.clip(y + np.float32(bias), 0, 32, out=y)
        alive = y.any(0)
        if not alive.all():
            y = np.ascontiguousarray(y[:, alive])
    return time.perf_counter() - begin


def network_times(o, neurons, panels, networks, rng):
    """Seconds of a network, (fused, with SciPy); draws the rates over the number of images at once."""
    net = inference.radixnet(neurons, 120)
    block = int(np.log2(neurons / inference.CLASS))  # the period of the layers
    layers = [inference.radixnet_layer(k, neurons).T.tocsr() for k in range(block)]
    images = rng.random((2048, neurons)) < 0.12
    bits = np.packbits(images, axis=1)
    bias = inference.BIAS[neurons]
    rates = []
    for panel in panels:
        r = min(
            (net.infer(bits, packed=True, bias=bias, panel=panel) for _ in range(o.repeat)),
            key=lambda r: r.seconds["solve"],
        )
        rates.append(r.edges / r.seconds["solve"] / 1e9)
    networks.plot(panels, rates, "o-", label=f"{neurons} neurons")
    print(
        f"figure 4d-f: {neurons} neurons: "
        + ", ".join(f"{k}: {r:.1f}" for k, r in zip(panels, rates, strict=True))
        + " G edges/s"
    )
    fused = min(net.infer(bits, packed=True, bias=bias).seconds["solve"] for _ in range(o.repeat))
    plain = two_passes(images, layers, bias)
    print(
        f"figure 2b: {neurons} neurons: {fused * 1e3:.1f} ms fused, {plain * 1e3:.1f} ms in two passes with SciPy: {plain / fused:.1f} times"
    )
    return fused, plain


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--size", type=int, default=256)
    words.add_argument("--angles", type=int, default=360)
    words.add_argument("--tiles", default="8,16,32,48,64,96,128")
    words.add_argument("--panels", default="16,32,64,128,256,512")
    words.add_argument("--neurons", default="1024,4096")
    words.add_argument("--repeat", type=int, default=3)
    words.add_argument("--out", default=".")
    o = words.parse_args()
    tiles, panels = ([int(t) for t in text.split(",")] for text in (o.tiles, o.panels))
    figure, axes = plt.subplots(2, 2, figsize=(13, 9))
    (left, right), (ratios, networks) = axes
    with tempfile.TemporaryDirectory() as cache:  # what is tuned for this script is nothing for later programs
        os.environ["XDG_CACHE_HOME"] = cache
        projector_rates(o, tiles, left, ratios)
    sizes = [int(n) for n in o.neurons.split(",")]
    rng = np.random.default_rng(0)
    times = [network_times(o, neurons, panels, networks, rng) for neurons in sizes]
    place = np.arange(len(sizes))
    for i, (name, seconds) in enumerate(zip(("fused", "SciPy, two passes"), zip(*times, strict=True), strict=True)):
        right.bar(place + 0.4 * i - 0.2, np.array(seconds) * 1e3, 0.38, label=name)
    (
        right.set_yscale("log"),
        right.set_ylabel("ms"),
        right.set_xticks(place, [str(n) for n in sizes]),
        right.set_xlabel("neurons a layer"),
    )
    right.set_ylim(min(map(min, times)) * 300)
    right.set_title("figure 2b: 120 layers, 2048 images"), right.legend()
    networks.set_title("figure 4d-f: edges counted by the challenge's rule"), networks.set_xscale("log", base=2)
    networks.set_xlabel("images at once"), networks.set_ylabel("G edges/s"), networks.legend(), networks.set_ylim(0)
    figure.tight_layout()
    path = pathlib.Path(o.out) / "throughput.png"
    figure.savefig(path, dpi=110)
    print(f"drawn in {path}")


if __name__ == "__main__":
    main()
