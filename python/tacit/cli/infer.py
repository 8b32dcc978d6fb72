"""`tacit infer`: sparse network inference by the rules of the Graph Challenge."""

from __future__ import annotations

import argparse
import time
from typing import Any

from tacit import report
from tacit._described import INFERENCE
from tacit.cli.arguments import INTERRUPTED, NOT_CONVERGED, OK, Arguments, WrongUse, destination, given, whole

TEXT = "sparse network inference by the rules of the Graph Challenge"
_LEFT_OUT = ("report_layers", "keep_outputs")


def add(a: Arguments) -> None:
    a("images IMAGES", "lines of image, neuron, value from 1 (.tsv; repeated ones add), arrays (.npy), bits (.npz)")
    a("--weights FOLDER", "n1024-l1.tsv, .. of the Graph Challenge [a RadiX-Net, generated]")
    a("--classes FILE.npz", 'of a generated net: "row_class", the class of every neuron in each block')
    a("--neurons N", "of a generated net 16 times a power of two", whole(1), 1024)
    a("--layers N", "", whole(1), 120)
    a.options(INFERENCE, [name for name in INFERENCE if name not in _LEFT_OUT], takers=False)
    a.where(ranks=False)
    a.device("host; cuda: weights and outputs on the first GPU; cuda:N: on that GPU")
    a("--truth FILE", "categories to compare with, one a line, from 1; exit code 3 where they differ")
    a("--output FILE", "write the categories: .tsv, .txt from 1; .npy from 0", destination((".tsv", ".txt", ".npy")))
    a.json()


def _truth(path: str) -> Any:
    """The categories of a file, from 0, ascending."""
    import numpy as np

    from tacit._core import InputError
    from tacit._files import read_numbers

    found = read_numbers(path, "categories, one a line from 1", np.int64)
    if found.size == 0 or found.shape[1] != 1:
        raise InputError(
            f"{path}: numbers in {len(found)} lines of {found.shape[1]}; categories, one a line, are needed"
        )
    if found.min() < 1:
        raise InputError(f"{path}: category {found.min()}; they are counted from 1")
    return np.unique(found) - 1


def _classes(path: str) -> Any:
    """The class of every neuron in each block."""
    from tacit._core import InputError
    from tacit._files import load_arrays

    found = load_arrays(path)
    if not isinstance(found, dict) or "row_class" not in found:
        raise InputError(f'{path}: no array "row_class"')
    classes = found["row_class"]
    if classes.size == 0 or classes.ndim != 2 or classes.dtype.kind not in "iu":
        raise InputError(
            f'{path}: "row_class" has shape {classes.shape} and type {classes.dtype};'
            " the class of every neuron in each block, whole numbers (blocks, neurons), is needed"
        )
    return classes


def run(arguments: argparse.Namespace) -> int:
    if arguments.weights and arguments.classes:
        raise WrongUse("--classes is of a generated net; --weights FOLDER brings its own")
    import numpy as np

    from tacit.app import inference

    out = report.console(stderr=arguments.json == "-")
    begin = time.perf_counter()
    images, packed = inference.read_images(arguments.images, arguments.neurons)
    truth = _truth(arguments.truth) if arguments.truth else None
    options: Any = given(arguments, INFERENCE)
    making: Any = {name: options.pop(name) for name in [*options] if "network" in INFERENCE[name].takers}
    making["device"] = arguments.device
    if arguments.weights:
        net = inference.read_network(arguments.weights, arguments.neurons, arguments.layers, **making)
    else:
        classes = _classes(arguments.classes) if arguments.classes else None
        net = inference.radixnet(arguments.neurons, arguments.layers, classes=classes, **making)
    read = time.perf_counter() - begin
    r = net.infer(images, packed=packed, threads=arguments.threads, **options)
    facts: dict[str, Any] = report.header("tacit.infer/1", arguments.words) | {
        "layers": r.layers_done,
        "neurons": arguments.neurons,
        "images": len(images),
        "device": net.device,
        "edges": r.edges,
        "edges_worked": r.edges_worked,
        "edges_per_second": r.edges_per_second,
        "seconds": {"read": read, "infer": r.seconds["solve"], "weights": r.seconds["weights"]},
        "peak_memory_bytes": report.peak_memory(),
        "reason": "interrupted" if r.interrupted else "done",
        "categories": [int(c) + 1 for c in r.categories],
        "output": None if r.interrupted else arguments.output,
    }
    equal = True
    if truth is not None:
        common, equal = int(np.isin(r.categories, truth).sum()), bool(np.array_equal(r.categories, truth))
        facts["truth"] = {"given": len(truth), "common": common, "equal": equal}
    if arguments.output and not r.interrupted:  # after an interrupt the remaining inputs are not categories
        with report.replacing(arguments.output) as temporary:
            if arguments.output.endswith(".npy"):
                np.save(temporary, r.categories)
            else:
                np.savetxt(temporary, r.categories + 1, fmt="%d")
    place = "" if net.device == "host" else f"{net.device}: "
    if arguments.json:
        report.write_json(facts, arguments.json)
    out.print(
        f"{len(images):,} images through {r.layers_done} layers of {arguments.neurons:,} neurons:"
        f" {len(r.categories):,} categories"
    )
    out.print(
        f"{place}read {read:.2f} s, infer {r.seconds['solve']:.3f} s: {r.edges_per_second / 1e9:.1f} G edges/s"
        f" ({r.edges_worked / max(r.edges, 1):.1%}"
        " of them multiplied, the rest belong to images without outputs)"
    )
    if truth is not None:
        out.print(f"truth: {common} of {len(truth)} in common, {'equal' if equal else 'not equal'}")
    return INTERRUPTED if r.interrupted else OK if equal else NOT_CONVERGED
