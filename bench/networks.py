"""Sparse networks of the Graph Challenge by Tacit and by MKL, in alternating runs, with SciPy's categories.

    python bench/networks.py --digits FILE.npz --mkl LIBRARY [--official FOLDER] [--neurons 1024 4096] [--layers 120]
                             [--images 60000] [--check 60000] [--batches 512 60000] [--ranks 1 2] [--threads 1] [--rounds 3]
                             [--json FILE]

Networks: RadiX-Nets with permuted neurons, or with --official (a folder with radixnet_1024.npz) the challenge's own of
1024 neurons. Images: the handwritten digits of FILE.npz (X: images of 28 x 28 bytes), sampled bilinearly on a square of
as many pixels as neurons; a pixel is set from 11092/64 on, columns first.

mkl: mkl_sparse_s_mm (libmkl_rt.so by ctypes) with hints and optimisation before, so many images at once (--batches), the
best of these counts; bias and clipping by NumPy in slices that stay in a cache; images without outputs are dropped
after a layer. "products" is the part in MKL alone. Its network, like Tacit's, is ready before the clock starts; "infer" is from packed bits to
categories for both.
tacit: the time of Network.infer. On one thread, times are the processor's, which other programs disturb less; on more
they are wall times. With --ranks, wall times of `tacit infer` on so many ranks with --threads threads each,
from its own report; the network is read from .npz files, the images from a file of bits.
scipy: categories of the first --check images by SciPy in double precision, compared with all others.
"""

from __future__ import annotations

import ctypes
import json
import os
import pathlib
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

import harness
from tacit import _core, inference

now: Callable[[], float] = time.perf_counter
CHUNK = 1 << 18  # bytes of outputs that NumPy clips at a time


def digits(path: pathlib.Path, neurons: int, count: int) -> np.ndarray:
    """Packed bits of so many images."""
    side = round(neurons**0.5)
    given = np.load(path)["X"][:count].astype(np.float32)
    weights = np.zeros((side, 28), np.float32)
    for i in range(side):
        j, rest = divmod(28 * i, side)
        weights[i, j] += side - rest
        weights[i, min(j + 1, 27)] += rest
    bits = np.empty((len(given), neurons // 8), np.uint8)
    for first in range(0, len(given), 1000):
        samples = weights @ given[first : first + 1000] @ weights.T
        whole = 64 * samples >= 11092 * side * side
        bits[first : first + 1000] = np.packbits(whole.transpose(0, 2, 1).reshape(len(samples), -1), axis=1)
    return bits


class Mkl:
    """W^T Y by mkl_sparse_s_mm for each layer; Y has an image in each column."""

    ROWS, GENERAL, PLAIN = 101, 20, 10

    class Description(ctypes.Structure):
        _fields_ = (("kind", ctypes.c_int), ("mode", ctypes.c_int), ("diagonal", ctypes.c_int))

    def __init__(self, path: str, threads: int, layers: Any, columns: int) -> None:
        os.environ["MKL_THREADING_LAYER"] = "GNU" if threads > 1 else "SEQUENTIAL"
        self.library = ctypes.CDLL(path)
        self.library.MKL_Set_Num_Threads(threads)
        self.about = self.Description(self.GENERAL, 0, 0)
        self.layers, self.kept = [], []
        for layer in range(len(layers)):
            rows = layers.rows(layer)
            start, index, data = rows.start.astype(np.int32), rows.column, rows.value
            handle = ctypes.c_void_p()
            where = [ctypes.c_void_p(part.ctypes.data) for part in (start, start[1:], index, data)]
            self.call("mkl_sparse_s_create_csr", ctypes.byref(handle), 0, len(start) - 1, rows.inputs, *where)
            self.call("mkl_sparse_set_mm_hint", handle, self.PLAIN, self.about, self.ROWS, columns, 1000)
            self.call("mkl_sparse_optimize", handle)
            self.layers.append((handle, len(start) - 1))
            self.kept.append((start, index, data))

    def call(self, name: str, *given: Any) -> None:
        if status := getattr(self.library, name)(*given):
            raise SystemExit(f"{name} returned {status}")

    def infer(self, bits: np.ndarray, neurons: int, bias: float, batch: int) -> dict[str, Any]:
        begin, found, products = now(), [], 0.0
        for first in range(0, len(bits), batch):
            alive, seconds = self.pass_through(bits[first : first + batch], neurons, bias)
            found.append(first + alive)
            products += seconds
        return {"seconds": now() - begin, "products": products, "categories": np.concatenate(found)}

    def pass_through(self, bits: np.ndarray, neurons: int, bias: float) -> tuple[np.ndarray, float]:
        """The images alive at the end, and the seconds of products."""
        products = 0.0
        y = np.empty((neurons, len(bits)), np.float32)
        for first in range(0, len(bits), 512):
            y[:, first : first + 512] = np.unpackbits(bits[first : first + 512], axis=1).T
        alive, one, zero = np.arange(len(bits)), ctypes.c_float(1), ctypes.c_float(0)
        room = np.empty(y.size, np.float32)
        for handle, rows in self.layers:
            k = y.shape[1]
            if k == 0:
                break
            z = room[: rows * k].reshape(rows, k)
            start = now()
            self.call("mkl_sparse_s_mm", self.PLAIN, one, handle, self.about, self.ROWS, ctypes.c_void_p(y.ctypes.data),
                      k, k, zero, ctypes.c_void_p(z.ctypes.data), k)  # fmt: skip
            products += now() - start
            some = np.zeros(k, bool)
            step = max(1, CHUNK // (4 * k))
            for row in range(0, rows, step):
                part = z[row : row + step]
                part += np.float32(bias)
                np.clip(part, 0, 32, out=part)
                some |= part.any(0)
            room = y.reshape(-1)
            y = z
            if some.sum() * 8 <= k * 7:  # dropping images costs a copy
                y, alive = np.ascontiguousarray(z[:, some]), alive[some]
                room = np.empty(y.size, np.float32)
        return alive[y.any(0)] if y.size else alive[:0], products


def scipy_categories(layers: Any, bits: np.ndarray, neurons: int, bias: float) -> np.ndarray:
    """By the definition, in double precision, with images dropped as they die."""
    y = np.unpackbits(bits, axis=1, count=neurons).T.astype(float)
    alive = np.arange(len(bits))
    for layer in range(len(layers)):
        rows = layers.rows(layer)
        w = sp.csr_array((rows.value.astype(float), rows.column, rows.start), shape=(neurons, rows.inputs))
        z = w @ y
        z[abs(z) < 1e-9] = 0  # sums that cancel exactly; weights and outputs are multiples of 1/16 and 0.05
        y = np.where(z != 0, np.clip(z + bias, 0, 32), 0)
        keep = y.any(0)
        y, alive = np.ascontiguousarray(y[:, keep]), alive[keep]
    return alive


def on_ranks(folder: pathlib.Path, neurons: int, layers: int, ranks: int, threads: int) -> dict[str, Any]:
    words = ["infer", folder / "images.npz", "--weights", folder, "--neurons", neurons, "--layers", layers]
    command = [sys.executable, "-m", "tacit", *words, "--ranks", ranks, "--threads", threads, "--json", "-"]
    return dict(harness.facts(command, threads=threads))


def measure(o: Any, neurons: int) -> dict[str, Any]:
    bias = inference.BIAS[neurons]
    classes = inference.permuted_classes(neurons, o.layers)
    if o.official and neurons == 1024:
        classes = np.load(o.official / "radixnet_1024.npz")["row_class"]
    layers = inference.radixnet_layers(neurons, o.layers, classes=classes)
    bits = digits(o.digits, neurons, o.images)
    row: dict[str, Any] = {"neurons": neurons, "layers": o.layers, "images": len(bits), "threads": o.threads}
    net = inference.radixnet(neurons, o.layers, classes=classes)
    found: dict[str, Any] = {}

    def tacit() -> float:
        begin = now()
        found["tacit"] = net.infer(bits, packed=True)
        return now() - begin

    work: dict[str, Callable[[], Any]] = {"tacit": tacit}
    if o.mkl:
        mkl = Mkl(o.mkl, o.threads, layers, o.batches[0])
        for batch in o.batches:

            def peer(batch: int = batch) -> float:
                made = mkl.infer(bits, neurons, bias, batch)
                found["mkl"] = min(made, found.get("mkl", made), key=lambda one: one["seconds"])
                return float(made["seconds"])

            work[f"mkl {batch}"] = peer
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        if o.ranks:
            inference.write_network(folder, layers)
            inference.write_images(folder / "images.npz", bits, neurons=neurons, packed=True)
        for ranks in o.ranks:

            def shared(ranks: int = ranks) -> float:
                found[f"ranks {ranks}"] = on_ranks(folder, neurons, o.layers, ranks, o.threads)
                return float(found[f"ranks {ranks}"]["seconds"]["infer"])

            work[f"ranks {ranks}"] = shared
        seconds = harness.turns(o.rounds, work)
    best = {name: min(times) for name, times in seconds.items()}
    mine = found["tacit"].categories
    row |= {f"{name}_s": round(s, 4) for name, s in best.items()}
    row |= {"edges": found["tacit"].edges, "edges_worked": found["tacit"].edges_worked, "categories": len(mine)}
    row |= {"score_gedges": round(found["tacit"].edges / best["tacit"] / 1e9, 1), "peak_mib": round(harness.peak())}
    if o.mkl:
        row |= {"mkl_products_s": round(found["mkl"]["products"], 4)}
        row |= {"ratio": round(found["mkl"]["seconds"] / best["tacit"], 2)}
        row["mkl_equal"] = bool(np.array_equal(found["mkl"]["categories"], mine))
    for ranks in o.ranks:
        row[f"ranks_{ranks}_equal"] = found[f"ranks {ranks}"]["categories"] == (mine + 1).tolist()
    expected = scipy_categories(layers, bits[: o.check], neurons, bias)
    row |= {"checked": min(o.check, len(bits)), "scipy_equal": bool(np.array_equal(expected, mine[mine < o.check]))}
    print(json.dumps(row), flush=True)
    return row


def main() -> None:
    words = harness.parser(__doc__, rounds=3, threads=1)
    words.add_argument("--digits", type=pathlib.Path, required=True)
    words.add_argument("--official", type=pathlib.Path)
    words.add_argument("--mkl")
    words.add_argument("--neurons", type=int, nargs="+", default=[1024, 4096])
    words.add_argument("--layers", type=int, default=120)
    words.add_argument("--images", type=int, default=60000)
    words.add_argument("--check", type=int, default=60000)
    words.add_argument("--batches", type=int, nargs="+", default=[512, 60000])
    words.add_argument("--ranks", type=int, nargs="*", default=[])
    o = words.parse_args()
    if o.threads == 1:
        global now
        now = time.process_time
    _core.set_threads(o.threads)
    rows = [measure(o, neurons) for neurons in o.neurons]
    harness.write(o.json, "networks/1", rows=rows)


if __name__ == "__main__":
    main()
