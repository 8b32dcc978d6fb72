"""`tacit infer`: sparse network inference by the rules of the Graph Challenge."""

from __future__ import annotations

import argparse
import time
from typing import Any

from tacit import report
from tacit.cli.arguments import INTERRUPTED, OK, WrongUse, add_json, choice, destination, real, whole


def add(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "images", metavar="IMAGES", help="lines of image, neuron, value from 1 (.tsv), arrays (.npy), bits (.npz)"
    )
    p.add_argument(
        "--weights", metavar="FOLDER", help="n1024-l1.tsv, .. of the Graph Challenge [a RadiX-Net, generated]"
    )
    p.add_argument(
        "--classes", metavar="FILE.npz", help='of a generated net: "row_class", the class of every neuron in each block'
    )
    p.add_argument(
        "--neurons", default=1024, type=whole(1), metavar="N", help="of a generated net 16 times a power of two [1024]"
    )
    p.add_argument("--layers", default=120, type=whole(1), metavar="N", help="[120]")
    p.add_argument("--bias", type=float, metavar="B", help="not above 0 [the challenge's for this number of neurons]")
    p.add_argument("--ceiling", default=32.0, type=real(0, True), metavar="C", help="[32]")
    choice(p, "--values", "values", ("full", "float16", "bfloat16"), "of the stored weights: ")
    p.add_argument(
        "--weight-bytes",
        default=0.0,
        type=real(0),
        metavar="B",
        help="memory for weights; more are streamed [all kept]",
    )
    p.add_argument("--panel", default=0, type=whole(0), metavar="K", help="images worked on together, a multiple of 16")
    p.add_argument("--threads", type=whole(1), metavar="N", help="threads")
    p.add_argument("--truth", metavar="FILE", help="categories to compare with: one a line, from 1")
    p.add_argument(
        "--output",
        type=destination((".tsv", ".txt", ".npy")),
        metavar="FILE",
        help="write the categories: .tsv, .txt from 1; .npy from 0",
    )
    add_json(p)


def run(arguments: argparse.Namespace) -> int:
    if arguments.weights and arguments.classes:
        raise WrongUse("--classes is of a generated net; --weights FOLDER brings its own")
    import numpy as np

    from tacit._core import InputError
    from tacit._support import load_arrays
    from tacit.app import inference

    out = report.console(stderr=arguments.json == "-")
    begin = time.perf_counter()
    images, packed = inference.read_images(arguments.images, arguments.neurons)
    truth = None
    if arguments.truth:
        try:
            truth = np.unique(np.loadtxt(arguments.truth, dtype=np.int64, ndmin=1)) - 1
        except ValueError as error:
            raise InputError(f"{arguments.truth}: {error}") from None
    if arguments.weights:
        net = inference.read_network(
            arguments.weights,
            arguments.neurons,
            arguments.layers,
            values=arguments.values,
            weight_bytes=arguments.weight_bytes,
        )
    else:
        classes = None
        if arguments.classes:
            found = load_arrays(arguments.classes)
            if not isinstance(found, dict) or "row_class" not in found:
                raise InputError(f'{arguments.classes}: no array "row_class"')
            classes = found["row_class"]
            if classes.size == 0:
                raise InputError(
                    f'{arguments.classes}: "row_class" has shape {classes.shape};'
                    " the class of every neuron in each block is needed"
                )
        net = inference.radixnet(
            arguments.neurons,
            arguments.layers,
            classes=classes,
            values=arguments.values,
            weight_bytes=arguments.weight_bytes,
        )
    read = time.perf_counter() - begin
    r = net.infer(
        images,
        bias=arguments.bias,
        ceiling=arguments.ceiling,
        packed=packed,
        panel=arguments.panel,
        threads=arguments.threads,
    )
    facts: dict[str, Any] = {
        "schema": "tacit.infer/1",
        "command": ["tacit", *arguments.words],
        "version": report.version(),
        "machine": report.machine(),
        "layers": r.layers_done,
        "neurons": arguments.neurons,
        "images": len(images),
        "edges": r.edges,
        "edges_worked": r.edges_worked,
        "edges_per_second": r.edges_per_second,
        "seconds": {"read": read, "infer": r.seconds["solve"], "weights": r.seconds["weights"]},
        "peak_memory_bytes": report.peak_memory(),
        "reason": "interrupted" if r.interrupted else "done",
        "categories": [int(c) + 1 for c in r.categories],
        "output": None if r.interrupted else arguments.output,
    }
    if truth is not None:
        facts["truth"] = {
            "given": len(truth),
            "common": int(np.isin(r.categories, truth).sum()),
            "equal": bool(np.array_equal(r.categories, truth)),
        }
    if arguments.output and not r.interrupted:  # what is alive halfway is no category
        with report.replacing(arguments.output) as temporary:
            if arguments.output.endswith(".npy"):
                np.save(temporary, r.categories)
            else:
                np.savetxt(temporary, r.categories + 1, fmt="%d")
    if arguments.json:
        report.write_json(facts, arguments.json)
    out.print(
        f"{len(images):,} images through {r.layers_done} layers of {arguments.neurons:,} neurons:"
        f" {len(r.categories):,} categories",
        soft_wrap=True,
    )
    out.print(
        f"read {read:.2f} s, infer {r.seconds['solve']:.3f} s: {r.edges_per_second / 1e9:.1f} G edges/s"
        f" ({r.edges_worked / max(r.edges, 1):.1%}"
        " of them multiplied, the rest belong to images without outputs)",
        soft_wrap=True,
    )
    if truth is not None:
        out.print(
            f"truth: {facts['truth']['common']} of {len(truth)} in common,"
            f" {'equal' if facts['truth']['equal'] else 'not equal'}"
        )
    return INTERRUPTED if r.interrupted else OK
