"""Sparse deep networks by the rules of the Graph Challenge: Y := min(max(Y W + bias, 0), 32), layer after layer.

>>> import numpy as np, tacit
>>> net = tacit.inference.radixnet(neurons=64, layers=4, radices=(2, 2, 2), weight=0.5)
>>> images = np.random.default_rng(0).random((100, 64)) < 0.3
>>> len(net.infer(images, bias=-0.3).categories) <= 100
True
"""

from __future__ import annotations

import contextlib
import os
import pickle
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from .. import comm as _comm
from .. import device as _device
from .._described import INFERENCE, InferOptions, NetworkOptions
from .._options import fill
from .._outcome import Outcome
from .._support import Array, as_array, choose, core, thread_count, using_threads
from ..op.base import FromHandle
from . import network_files as files

__all__ = [
    "BIAS", "Inference", "Network", "network", "permuted_classes", "radixnet", "radixnet_layers", "read_images",
    "read_layers", "read_network", "share", "write_images", "write_network",
]  # fmt: skip

#: The challenge's bias, by the number of neurons in a layer.
BIAS = {1024: -0.3, 4096: -0.35, 16384: -0.4, 65536: -0.45}
#: Neurons in a class of the challenge's networks, at every size. A neuron's 32 inputs are two classes.
CLASS = 16


@dataclass
class Inference(Outcome):
    """The result of an inference: the attributes of all results of Tacit, and:"""

    categories: npt.NDArray[np.int64]  #: numbers, from 0, of the inputs that have an output other than zero
    edges: float  #: number of weights times number of inputs, as the challenge counts
    edges_worked: float  #: of these, the ones that were computed: inputs without outputs are dropped
    seconds: dict[str, float]  #: "solve", and "weights": the part of it that waited for weights
    layers: int  #: of the network
    layers_done: int
    alive: npt.NDArray[np.int64]  #: inputs left after each layer, with report_layers
    sums: npt.NDArray[np.float64]  #: sum of all outputs of each layer, with report_layers
    outputs: Array | None = None  #: (categories, neurons), with keep_outputs
    interrupted: bool = False
    residual_norm: float = field(default=float("nan"), init=False, repr=False)
    history: list[float] = field(default_factory=list, init=False, repr=False)
    warnings: list[str] = field(default_factory=list, init=False, repr=False)

    @property
    def edges_per_second(self) -> float:
        return self.edges / self.seconds["solve"] if self.seconds["solve"] > 0 else float("inf")

    @property
    def iterations(self) -> int:
        """The number of layers done."""
        return self.layers_done

    @property
    def converged(self) -> bool:  # type: ignore[override]
        return self.layers_done == self.layers

    @property
    def reason(self) -> str:  # type: ignore[override]
        return "converged" if self.converged else "stopped"

    @property
    def counts(self) -> dict[str, int]:  # type: ignore[override]
        return {"edges": int(self.edges), "edges_worked": int(self.edges_worked)}


def _filled(who: str, options: Any, beside: tuple[str, ...] = ()) -> Any:
    """The options of "network" or "infer" as an object of the compiled part."""
    table = {name: option for name, option in INFERENCE.items() if who in option.takers}
    return fill(core("InferenceOptions")(), who, table, options, beside)


class Network:
    """A feed-forward network of sparse layers; made by :func:`radixnet`, :func:`network` and :func:`read_network`."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    layers = FromHandle(int, "layers")
    inputs = FromHandle(int, "inputs")
    outputs = FromHandle(int, "outputs")

    @property
    def device(self) -> str:
        """ "host", or the GPU that holds the weights: "cuda:0" or the like."""
        return _device.of(self._handle)

    streams = FromHandle(bool, "streams")  #: whether weights exceed `weight_bytes`: made or read in every inference

    def __repr__(self) -> str:
        return (
            f"<tacit network of {self.layers} layers, {self.inputs} inputs{', streamed' if self.streams else ''}"
            f"{_device.on(self.device)}>"
        )

    def infer(
        self,
        images: Any,
        *,
        packed: bool = False,
        comm: Any = None,
        callback: Callable[[int, int], Any] | None = None,
        threads: int | None = None,
        **options: Unpack[InferOptions],
    ) -> Inference:
        """Runs all images through all layers. Collective over `comm`.

        Parameters
        ----------
        images : array_like, (k, inputs)
            Numbers or booleans; with `packed`, bits as numpy.packbits(.., axis=1) packs them into bytes.
        packed : bool
        comm : communicator, optional
            Ranks that share the images: this rank's are ``images[share(len(images), comm)]`` of all. Each has the
            network, and every rank the result for all images. Default: this process alone.
        callback : callable, optional
            ``callback(layers_done, images_alive)`` after each group of layers; returning True ends the inference. On
            several ranks it is given on all of them, gets the images alive on all, and True of any ends it.
        threads : int, optional
        **options
            ``bias`` (added to every sum, not above 0; default: the challenge's for this number of neurons), ``ceiling``
            (32), ``panel`` and ``group`` (which affect speed only), ``report_layers``, ``keep_outputs``: see
            docs/reference/inference.md.

        Returns
        -------
        Inference
        """
        bits, dense = self._inputs(images, packed)
        o = _filled("infer", options, ("packed", "comm", "callback", "threads"))
        if options.get("bias") is None:
            if self.inputs not in BIAS:
                raise ValueError(f"the challenge has no bias for {self.inputs} neurons; give one")
            o.bias = BIAS[self.inputs]
        thread_count(threads)
        ranks = None if comm is None else _comm.resolve(comm)
        if ranks is None or ranks.size == 1:
            return self._infer(bits, dense, o, callback, threads)[0]
        return ranks.collective(lambda: self._on_ranks(ranks, bits, dense, o, callback, threads))

    def _inputs(self, images: Any, packed: bool) -> tuple[Array, Array]:
        """Bits and numbers of the images, one of them empty."""
        given = as_array(images, "images")
        wanted = (self.inputs + 7) // 8 if packed else self.inputs
        if given.ndim != 2:
            raise ValueError(f"images has shape {given.shape}; (images, {wanted}) is needed")
        no_bits, no_numbers = np.zeros((0, 0), np.uint8), np.zeros((0, 0), np.float32)
        if packed:
            if given.dtype != np.uint8:
                raise TypeError(f"packed images are bytes (uint8); these are {given.dtype}")
            return np.ascontiguousarray(given), no_numbers
        if given.shape[1] != self.inputs:
            raise ValueError(f"images has shape {given.shape}; (images, {self.inputs}) is needed")
        files.refuse_complex("images", given.dtype)
        if given.dtype == np.bool_:
            return np.packbits(given, axis=1), no_numbers
        return no_bits, np.ascontiguousarray(given, np.float32)

    def _infer(self, bits: Array, dense: Array, o: Any, callback: Any, threads: int | None) -> tuple[Inference, bool]:
        """The inference of this process, and whether the callback ended it."""
        interrupted = ended = False

        def after(layers: int, alive: int) -> bool:
            nonlocal interrupted, ended
            try:
                ended = bool(callback(layers, alive)) if callback is not None else False
            except KeyboardInterrupt:
                interrupted = ended = True
            return ended

        # Ctrl-C is noticed in the callback only, so there always is one on the main thread.
        progress = after if callback is not None or threading.current_thread() is threading.main_thread() else None
        with using_threads(threads) if threads else contextlib.nullcontext():
            r = self._handle.infer(bits, dense, o, progress)
        n = len(r["categories"])
        made = Inference(
            categories=r["categories"],
            edges=r["edges"],
            edges_worked=r["edges_worked"],
            seconds={"solve": r["seconds"], "weights": r["weight_seconds"]},
            layers=self.layers,
            layers_done=r["layers_done"],
            alive=r["alive"],
            sums=r["sums"],
            outputs=r["outputs"].reshape(n, -1 if n else self.outputs) if o.keep_outputs else None,
            interrupted=interrupted,
        )
        return made, ended

    def _on_ranks(self, comm: Any, bits: Array, dense: Array, o: Any, callback: Any, threads: int | None) -> Inference:
        """The inference of all ranks' images. Nothing is sent until each has finished its own, without a callback."""
        count = max(len(bits), len(dense))
        total = comm.all_sum(count)
        mine = len(share(total, comm))
        if any(len(part) for part in comm.all_gather(b"" if count == mine else b"wrong")):
            raise ValueError(
                f"rank {comm.rank} of {comm.size} has {count} of {total} images; {mine} are needed:"
                " images[inference.share(len(images), comm)]"
            )

        def agreed(layers: int, alive: int) -> bool:
            wants = callback is not None and bool(callback(layers, comm.all_sum(alive)))
            return bool(comm.all_max(int(wants)))

        given = comm.all_sum(int(callback is not None))
        if given not in (0, comm.size):
            raise ValueError(f"a callback is given on {given} of {comm.size} ranks; all or none are needed")
        begin = time.perf_counter()
        own, _ = self._infer(bits, dense, o, agreed if given else None, threads)
        return _joined(comm, own, total, begin)


def share(count: int, comm: Any) -> npt.NDArray[np.int64]:
    """The numbers of this rank's images among so many, as :meth:`Network.infer` takes them: dealt in turns, 16
    neighbours at a time, so that neither sorted nor alternating images make ranks differ.
    """
    return files.dealt(count, comm.rank, comm.size)


def _joined(comm: Any, own: Inference, total: int, begin: float) -> Inference:
    """The result of all ranks' images, on every rank."""
    parts = [pickle.loads(part) for part in comm.all_gather(pickle.dumps(own))]
    number = [files.dealt(total, rank, comm.size)[part.categories] for rank, part in enumerate(parts)]
    order = np.argsort(np.concatenate(number), kind="stable")
    kept = [part.outputs for part in parts if part.outputs is not None and len(part.outputs)]
    outputs = own.outputs if not kept else np.concatenate(kept)[order]
    seconds = {"solve": time.perf_counter() - begin, "weights": max(part.seconds["weights"] for part in parts)}
    return Inference(
        categories=np.concatenate(number)[order],
        edges=sum(part.edges for part in parts),
        edges_worked=sum(part.edges_worked for part in parts),
        seconds=seconds,
        layers=own.layers,
        layers_done=min(part.layers_done for part in parts),
        alive=np.sum([part.alive for part in parts], axis=0),
        sums=np.sum([part.sums for part in parts], axis=0),
        outputs=outputs,
        interrupted=any(part.interrupted for part in parts),
    )


def radixnet(
    neurons: int = 1024,
    layers: int = 120,
    *,
    radices: Sequence[int] | None = None,
    weight: float | None = None,
    classes: Any = None,
    device: str = "host",
    **options: Unpack[NetworkOptions],
) -> Network:
    """A RadiX-Net (Robinett and Kepner 2019, arXiv 1905.00416), the topology of the challenge's networks.

    Parameters
    ----------
    neurons, layers : int
        `neurons` is a multiple of the product of the radices.
    radices : sequence of int, optional
        One for each layer of a block: in layer l a neuron has radices[l] * neurons / product weights. Default: those of
        the challenge, log2(neurons / 16) layers of radix 2, so that every neuron has 32 weights; `neurons` must then
        be 16 times a power of two (in the challenge 1024, 4096, 16384, 65536).
    weight : float, optional
        Of every connection; default: 2 over the number of weights of a neuron, 1/16 in the challenge.
    classes : array_like of int, (blocks, neurons), optional
        The class of every input neuron in each block of layers (the official networks permute neurons between blocks);
        default: the neuron's number modulo the product, in every block.
    device : str
        "host"; "cuda": weights, and outputs between layers, in the memory of the first GPU of this process; "cuda:1":
        of that one. Weights as "full", "float32" or "float16" there; the results are those of the host.
    **options
        ``values`` ("full", "float32", "float16", "bfloat16": how weights are stored), ``weight_bytes`` (memory for
        weights; if they need more they are made again in every inference; 0: no limit): docs/reference/inference.md.
    """
    numbers, width, weight = _radix_numbers(neurons, radices, weight)
    o = _filled("network", options, ("radices", "weight", "classes", "device"))
    gpu = _device.place(device, _comm.self_())
    return Network(core("radixnet")(int(layers), numbers, width, weight, _class_table(classes), o, gpu))


def _radix_numbers(neurons: int, radices: Sequence[int] | None, weight: float | None) -> tuple[list[int], int, float]:
    """The radices, the number of neurons in a class, the weight of a connection."""
    if radices is None:
        steps = (neurons // CLASS).bit_length() - 1
        if steps < 1 or neurons != CLASS << steps:
            raise ValueError(
                f"{neurons} neurons are not {CLASS} times a power of two, as the challenge's 1024, 4096, 16384 and"
                " 65536 are; other networks need radices or weights of their own"
            )
        numbers = [2] * steps
    else:
        numbers = [int(r) for r in radices]
    product = int(np.prod(numbers))
    if len(numbers) == 0 or min(numbers) < 1 or neurons < 1 or neurons % product:
        raise ValueError(f"{neurons} neurons are no multiple of {product}, the product of the radices {tuple(numbers)}")
    width = neurons // product
    return numbers, width, 2.0 / (max(numbers) * width) if weight is None else float(weight)


def _class_table(classes: Any) -> npt.NDArray[np.int32]:
    if classes is None:
        return np.zeros((0, 0), np.int32)
    given = as_array(classes, "classes")
    if given.dtype.kind not in "iu":
        raise TypeError(f"classes are {given.dtype}; whole numbers are needed")
    if given.size == 0:
        raise ValueError(f"classes have shape {given.shape}; the class of every neuron in each block is needed")
    # A number that int32 cannot hold is not a class; the compiled part names the first invalid one.
    return np.ascontiguousarray(np.clip(given, -1, 2**31 - 1), np.int32)


def radixnet_layer(
    layer: int,
    neurons: int = 1024,
    *,
    radices: Sequence[int] | None = None,
    weight: float | None = None,
    classes: Any = None,
) -> Any:
    """Layer `layer` (from 0) of :func:`radixnet` as a SciPy matrix of inputs x outputs."""
    return radixnet_layers(neurons, layer + 1, radices=radices, weight=weight, classes=classes)[layer]


class _RadixLayers(files.Layers):
    """The layers of a RadiX-Net, made where they are accessed."""

    def __init__(self, neurons: int, layers: int, *numbers: Any) -> None:
        super().__init__(layers)
        self.neurons, self._numbers = neurons, numbers

    def rows(self, layer: int) -> files.Rows:
        return files.Rows(*core("radixnet_layer")(layer, *self._numbers))


def radixnet_layers(
    neurons: int = 1024,
    layers: int = 120,
    *,
    radices: Sequence[int] | None = None,
    weight: float | None = None,
    classes: Any = None,
) -> _RadixLayers:
    """The layers of :func:`radixnet` as a sequence of SciPy matrices of inputs x outputs, each made where it is
    accessed: for :func:`write_network`, and for other programs.
    """
    numbers, width, weight = _radix_numbers(neurons, radices, weight)
    return _RadixLayers(int(neurons), int(layers), numbers, width, weight, _class_table(classes))


def permuted_classes(
    neurons: int = 1024, layers: int = 120, *, seed: int = 0, radices: Sequence[int] | None = None
) -> npt.NDArray[np.int32]:
    """``classes`` of :func:`radixnet`: the neurons permuted at random before every block of layers but the first.

    The challenge's networks are made so. The seeds of theirs are not published, so that the categories of a network of
    this function are not the published ones.
    """
    numbers, width, _ = _radix_numbers(neurons, radices, None)
    plain = np.arange(neurons, dtype=np.int32) % (neurons // width)
    rng = np.random.default_rng(seed)
    blocks = -(-int(layers) // len(numbers))
    return np.stack([plain, *(rng.permutation(plain) for _ in range(blocks - 1))])


def network(layers: Sequence[Any], *, device: str = "host", **options: Unpack[NetworkOptions]) -> Network:
    """A network from its weights: sparse matrices W of inputs x outputs, one for each layer; `device` and options as
    for :func:`radixnet`.

    `layers` may be any sequence. With `weight_bytes` its items are accessed again in every inference, from another
    thread, so that the sequence can read them from files.
    """
    o = _filled("network", options, ("device",))
    gpu = _device.place(device, _comm.self_())

    def source(layer: int) -> tuple[Any, ...]:
        return layers.rows(layer) if isinstance(layers, files.Layers) else files.rows_of(layers[layer])

    return Network(core("network")(len(layers), source, o, gpu))


def read_layers(folder: str | os.PathLike[str], neurons: int, layers: int) -> files.LayerFiles:
    """The layers n{neurons}-l1 to -l{layers} of a folder as a sequence of SciPy matrices of inputs x outputs, each read
    where it is accessed.

    All files are of one kind, the first that is there for layer 1: ``.npz`` (csr or csc of scipy.sparse.save_npz),
    ``.tsv`` or ``.tsv.gz`` (the challenge's lines of input, output, weight, from 1), ``.mat`` (the only matrix of
    neurons x neurons of a MATLAB file, up to version 7.3).

    Raises
    ------
    FileNotFoundError
        If the file of a layer is missing.
    InputError
        Where a layer is accessed whose file is damaged, or has another shape.
    """
    return files.LayerFiles(folder, neurons, layers)


def read_network(
    folder: str | os.PathLike[str],
    neurons: int,
    layers: int,
    *,
    device: str = "host",
    **options: Unpack[NetworkOptions],
) -> Network:
    """A network of the files of :func:`read_layers`; `device` and options as for :func:`radixnet`."""
    return network(read_layers(folder, neurons, layers), device=device, **options)


def write_network(folder: str | os.PathLike[str], layers: Sequence[Any], *, format: str = "npz") -> list[Path]:
    """Writes the files that :func:`read_layers` reads, and returns their paths.

    Parameters
    ----------
    folder : path-like
        Made if it is not there.
    layers : sequence of sparse matrices
        Of neurons x neurons, such as :func:`radixnet_layers`.
    format : str
        "npz", the fastest to read; "tsv", the challenge's text, or "tsv.gz"; "mat".
    """
    choose("format", format, [kind[1:] for kind in files.KINDS])
    if len(layers) == 0:
        raise ValueError("a network of 0 layers; at least one is needed")
    Path(folder).mkdir(parents=True, exist_ok=True)
    neurons = layers.neurons if hasattr(layers, "neurons") else layers[0].shape[0]
    return list(files.write_layers(folder, neurons, layers, f".{format}"))


def read_images(path: str | os.PathLike[str], neurons: int, *, comm: Any = None) -> tuple[Array, bool]:
    """Images of a file, and whether they are packed bits.

    ``.tsv`` or ``.tsv.gz``: lines of image, neuron, value, from 1, with tabs or blanks between them (values of the same
    pixel are added); ``.npy`` of numbers or booleans; ``.npz`` with "bits" (numpy.packbits over neurons), with one
    array, or with the matrix of scipy.sparse.save_npz; ``.mat`` with one matrix of images x neurons. With `comm` the
    images of this rank (:func:`share`). InputError for a file that is anything
    else, and for text that numbers more than 2^16 + 64 lines images.
    """
    rank, size = (0, 1) if comm is None else (comm.rank, comm.size)
    found = files.read_images(path, neurons, rank, size)
    return found.images, found.packed


def write_images(
    path: str | os.PathLike[str], images: Any, *, neurons: int | None = None, packed: bool = False
) -> None:
    """Writes images as :func:`read_images` reads them, by the end of the name: .tsv, .tsv.gz, .mat, or else .npz.

    `images` as for :meth:`Network.infer`; packed ones need the number of neurons.
    """
    given = as_array(images, "images")
    if neurons is None:
        if packed or given.ndim != 2:
            raise ValueError("packed images need neurons=, the number of bits of an image")
        neurons = given.shape[1]
    files.write_images(path, given, neurons, packed)
