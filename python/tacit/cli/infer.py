"""`tacit infer`: sparse network inference by the rules of the Graph Challenge."""

from __future__ import annotations

import argparse
import time
from typing import Any

from tacit import report
from tacit._described import INFERENCE
from tacit.cli.arguments import INTERRUPTED, NOT_CONVERGED, OK, Arguments, WrongUse, destination, given, one_of, whole
from tacit.cli.ranks import on_ranks

TEXT = "sparse network inference by the rules of the Graph Challenge"
_LEFT_OUT = ("report_layers", "keep_outputs")
FORMATS = ("npz", "tsv", "tsv.gz", "mat")  # app/network_files.py, which a test compares
IMAGES = (".tsv", ".gz", ".npz", ".mat")


def add(a: Arguments) -> None:
    a("images IMAGES", "lines of image, neuron, value from 1 (.tsv; repeated ones add), .npy, .npz, .mat")
    a.section("network")
    a("--weights FOLDER", "n1024-l1, .. of the Graph Challenge: .npz, .tsv, .tsv.gz, .mat [a RadiX-Net, generated]")
    a("--neurons N", "of a generated net 16 times a power of two", whole(1), 1024)
    a("--layers N", "", whole(1), 120)
    a(
        "--permute SEED",
        "of a generated net: neurons permuted at random between blocks, as the challenge does",
        whole(0),
    )
    a("--classes FILE.npz", 'instead: "row_class", the class of every neuron in each block')
    a.options(INFERENCE, [name for name in INFERENCE if name not in _LEFT_OUT], takers=False)
    a.section("where and how it runs")
    a.where()
    a.device("host; cuda: weights and outputs on the first GPU; cuda:N: on that GPU")
    a.section("what it leaves")
    a("--truth FILE", "categories to compare with, one a line, from 1; exit code 3 where they differ")
    a("--output FILE", "write the categories: .tsv, .txt from 1; .npy from 0", destination((".tsv", ".txt", ".npy")))
    a("--write-weights FOLDER", "write the layers as well, as --weights takes them")
    a("--write-format NAME", f"of these: {', '.join(FORMATS)} [npz]", one_of("format", FORMATS), known=FORMATS)
    a("--write-images FILE", "write the images as well: .tsv, .tsv.gz, .npz (bits), .mat", destination(IMAGES))
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
    if arguments.weights:
        for name in ("classes", "permute"):
            if getattr(arguments, name) is not None:
                raise WrongUse(f"--{name} is of a generated net; --weights FOLDER brings its own")
    if arguments.classes and arguments.permute is not None:
        raise WrongUse("--classes and --permute are given; they say the same of a generated net")
    if arguments.write_format and not arguments.write_weights:
        raise WrongUse("--write-format is of --write-weights FOLDER, which is not given")
    return on_ranks(arguments, _here)


def _layers(a: argparse.Namespace) -> Any:
    """The layers as a sequence that makes or reads each where it is accessed."""
    from tacit.app import inference

    if a.weights:
        return inference.read_layers(a.weights, a.neurons, a.layers)
    classes = _classes(a.classes) if a.classes else None
    if a.permute is not None:
        classes = inference.permuted_classes(a.neurons, a.layers, seed=a.permute)
    return inference.radixnet_layers(a.neurons, a.layers, classes=classes)


def _here(a: argparse.Namespace, world: Any, out: Any) -> int:
    """The inference, on every rank of `world`. Only the first prints and writes."""
    import numpy as np

    from tacit.app import inference

    begin = time.perf_counter()
    images, packed = inference.read_images(a.images, a.neurons, comm=world)
    truth = _truth(a.truth) if a.truth else None
    options: Any = given(a, INFERENCE)
    making: Any = {name: options.pop(name) for name in [*options] if "network" in INFERENCE[name].takers}
    layers = _layers(a)
    net = inference.network(layers, device=a.device, **making)
    read = world.all_max_real(time.perf_counter() - begin)
    r = net.infer(images, packed=packed, comm=world, threads=a.threads, **options)
    total, peak = world.all_sum(len(images)), sum(int(part) for part in world.all_gather(b"%d" % report.peak_memory()))
    facts: dict[str, Any] = report.header("tacit.infer/1", a.words) | {
        "layers": r.layers_done,
        "neurons": a.neurons,
        "images": total,
        "ranks": world.size,
        "device": net.device,
        "edges": r.edges,
        "edges_worked": r.edges_worked,
        "edges_per_second": r.edges_per_second,
        "seconds": {"read": read, "infer": r.seconds["solve"], "weights": r.seconds["weights"]},
        "peak_memory_bytes": peak,
        "reason": "interrupted" if r.interrupted else "done",
        "categories": [int(c) + 1 for c in r.categories],
        "output": None if r.interrupted else a.output,
    }
    if truth is not None:
        common, equal = int(np.isin(r.categories, truth).sum()), bool(np.array_equal(r.categories, truth))
        facts["truth"] = {"given": len(truth), "common": common, "equal": equal}
    if world.rank == 0:
        _leave(a, r.categories, facts, layers, packed)
        _show(facts, out)
    if r.interrupted:
        return INTERRUPTED
    return OK if truth is None or facts["truth"]["equal"] else NOT_CONVERGED


def _leave(a: argparse.Namespace, categories: Any, facts: dict[str, Any], layers: Any, packed: bool) -> None:
    """Writes the files that were asked for."""
    import numpy as np

    from tacit.app import inference

    if facts["output"]:  # after an interrupt the remaining inputs are not categories
        with report.replacing(a.output) as temporary:
            if a.output.endswith(".npy"):
                np.save(temporary, categories)
            else:
                np.savetxt(temporary, categories + 1, fmt="%d")
    if a.write_weights:
        inference.write_network(a.write_weights, layers, format=a.write_format or "npz")
    if a.write_images:
        images, packed = inference.read_images(a.images, a.neurons)
        inference.write_images(a.write_images, images, neurons=a.neurons, packed=packed)
    if a.json:
        report.write_json(facts, a.json)


def _show(facts: dict[str, Any], out: Any) -> None:
    seconds, edges = facts["seconds"], facts["edges"]
    place = "" if facts["device"] == "host" else f"{facts['device']}: "
    place += "" if facts["ranks"] == 1 else f"{facts['ranks']} ranks: "
    out.print(
        f"{facts['images']:,} images through {facts['layers']} layers of {facts['neurons']:,} neurons:"
        f" {len(facts['categories']):,} categories"
    )
    out.print(
        f"{place}read {seconds['read']:.2f} s, infer {seconds['infer']:.3f} s;"
        f" {facts['peak_memory_bytes'] / 1e9:.2f} GB"
    )
    out.print(
        f"score {facts['edges_per_second'] / 1e9:.1f} G edges/s: {edges / 1e9:,.1f} G edges (images x weights) in that"
        f" time ({facts['edges_worked'] / max(edges, 1):.1%} of them multiplied, the rest belong to images without"
        " outputs)"
    )
    if "truth" in facts:
        truth, found = facts["truth"], len(facts["categories"])
        if facts["reason"] == "interrupted":
            out.print("truth: not compared, as the inference was interrupted")
        elif truth["equal"]:
            out.print(f"truth: PASSED, all {truth['given']:,} categories")
        else:
            out.print(
                f"truth: FAILED, {truth['common']:,} of its {truth['given']:,} categories found, and"
                f" {found - truth['common']:,} others"
            )
