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
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from .. import comm as _comm
from .. import device as _device
from .._core import InputError
from .._described import INFERENCE, InferOptions, NetworkOptions
from .._files import existing, load_arrays, read_numbers
from .._options import fill
from .._outcome import Outcome
from .._support import Array, as_array, core, thread_count, using_threads
from ..op.base import FromHandle

__all__ = ["BIAS", "Inference", "Network", "network", "radixnet", "read_images", "read_network"]

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
        callback: Callable[[int, int], Any] | None = None,
        threads: int | None = None,
        **options: Unpack[InferOptions],
    ) -> Inference:
        """Runs all images through all layers.

        Parameters
        ----------
        images : array_like, (k, inputs)
            Numbers or booleans; with `packed`, bits as numpy.packbits(.., axis=1) packs them into bytes.
        packed : bool
        callback : callable, optional
            ``callback(layers_done, images_alive)`` after each group of layers; returning True ends the inference.
        threads : int, optional
        **options
            ``bias`` (added to every sum, not above 0; default: the challenge's for this number of neurons), ``ceiling``
            (32), ``panel`` and ``group`` (which affect speed only), ``report_layers``, ``keep_outputs``: see
            docs/reference/inference.md.

        Returns
        -------
        Inference
        """
        given = as_array(images, "images")
        if given.ndim != 2:
            raise ValueError(f"images has shape {given.shape}; (images, {self.inputs}) is needed")
        if packed:
            if given.dtype != np.uint8:
                raise TypeError(f"packed images are bytes (uint8); these are {given.dtype}")
            bits, dense = np.ascontiguousarray(given), np.zeros((0, 0), np.float32)
        else:
            if given.shape[1] != self.inputs:
                raise ValueError(f"images has shape {given.shape}; (images, {self.inputs}) is needed")
            if given.dtype == np.bool_:
                bits, dense = np.packbits(given, axis=1), np.zeros((0, 0), np.float32)
            else:
                bits, dense = np.zeros((0, 0), np.uint8), np.ascontiguousarray(given, np.float32)
        o = _filled("infer", options, ("packed", "callback", "threads"))
        if options.get("bias") is None:
            if self.inputs not in BIAS:
                raise ValueError(f"the challenge has no bias for {self.inputs} neurons; give one")
            o.bias = BIAS[self.inputs]
        thread_count(threads)
        interrupted = False

        def after(layers: int, alive: int) -> bool:
            nonlocal interrupted
            try:
                return bool(callback(layers, alive)) if callback is not None else False
            except KeyboardInterrupt:
                interrupted = True
                return True

        # Ctrl-C is noticed in the callback only, so there always is one on the main thread.
        progress = after if callback is not None or threading.current_thread() is threading.main_thread() else None
        with using_threads(threads) if threads else contextlib.nullcontext():
            r = self._handle.infer(bits, dense, o, progress)
        n = len(r["categories"])
        return Inference(
            categories=r["categories"],
            edges=r["edges"],
            edges_worked=r["edges_worked"],
            seconds={"solve": r["seconds"], "weights": r["weight_seconds"]},
            layers=self.layers,
            layers_done=r["layers_done"],
            alive=r["alive"],
            sums=r["sums"],
            outputs=r["outputs"].reshape(n, len(r["outputs"]) // n if n else 0) if o.keep_outputs else None,
            interrupted=interrupted,
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
    import scipy.sparse as sp

    numbers, width, weight = _radix_numbers(neurons, radices, weight)
    made = core("radixnet_layer")(int(layer), numbers, width, weight, _class_table(classes))
    inputs, start, index, value = made
    return sp.csr_array((value, index, start), shape=(neurons, inputs)).T.tocsr()


def network(layers: Sequence[Any], *, device: str = "host", **options: Unpack[NetworkOptions]) -> Network:
    """A network from its weights: sparse matrices W of inputs x outputs, one for each layer; `device` and options as
    for :func:`radixnet`.

    `layers` may be any sequence. With `weight_bytes` its items are accessed again in every inference, from another
    thread, so that the sequence can read them from files.
    """
    import scipy.sparse as sp

    o = _filled("network", options, ("device",))
    gpu = _device.place(device, _comm.self_())

    def source(layer: int) -> tuple[int, Array, Array, Array]:
        w = layers[layer]
        t = sp.csr_array(w).T.tocsr()
        t.sort_indices()
        t.sum_duplicates()
        return t.shape[1], t.indptr.astype(np.int64), t.indices.astype(np.int32), t.data.astype(np.float32)

    return Network(core("network")(len(layers), source, o, gpu))


class _Files(Sequence[Any]):
    """The challenge's weight files n{neurons}-l1.tsv, ..: lines of input, output, weight, from 1."""

    def __init__(self, folder: str | os.PathLike[str], neurons: int, layers: int) -> None:
        self.neurons, self.layers = neurons, layers
        self.paths = [Path(folder) / f"n{neurons}-l{k + 1}.tsv" for k in range(layers)]
        for path in self.paths:
            existing(path)

    def __len__(self) -> int:
        return self.layers

    def __getitem__(self, k: Any) -> Any:
        import scipy.sparse as sp

        row, column, value = _triples(self.paths[k], "input, output, weight")
        if row.min() < 1 or column.min() < 1 or row.max() > self.neurons or column.max() > self.neurons:
            raise InputError(f"{self.paths[k]}: neurons from 1 to {self.neurons} are needed")
        return sp.coo_array((value, (row - 1, column - 1)), shape=(self.neurons, self.neurons)).tocsr()


# Images that a file may number: so many, and so many for each of its lines. An image takes memory and time whether or
# not it has pixels, and one line can give it any number.
_IMAGES, _IMAGES_PER_LINE = 1 << 16, 64


def _triples(path: Path, what: str) -> tuple[Array, Array, Array]:
    """The lines of three numbers in a file, at least one; `what` describes them in errors."""
    table = read_numbers(path, f"lines of {what}")
    if table.size == 0:
        raise InputError(f"{path}: no entries ({path.stat().st_size} bytes); lines of {what}, from 1, are expected")
    if table.shape[1] != 3:
        raise InputError(f"{path}: lines of {what} are expected, found {table.shape[1]} numbers")
    whole = table[:, :2]
    wrong = ~(np.isfinite(table).all(1) & ((whole == np.floor(whole)) & (whole < 2**31)).all(1))
    if wrong.any():
        k = int(np.argmax(wrong))
        raise InputError(f"{path}: entry {k + 1} is {table[k].tolist()}; two whole numbers and a value are needed")
    return table[:, 0].astype(np.int64), table[:, 1].astype(np.int64), table[:, 2].astype(np.float32)


def read_network(
    folder: str | os.PathLike[str],
    neurons: int,
    layers: int,
    *,
    device: str = "host",
    **options: Unpack[NetworkOptions],
) -> Network:
    """A network from the challenge's files n{neurons}-l1.tsv to -l{layers}.tsv in a folder; `device` and options as for
    :func:`radixnet`.
    """
    return network(_Files(folder, neurons, layers), device=device, **options)


def read_images(path: str | os.PathLike[str], neurons: int) -> tuple[Array, bool]:
    """Images of a file, and whether they are packed bits: .tsv (lines of image, neuron, value, from 1, with tabs or
    blanks between them; values of the same pixel are added), .npy of numbers or booleans, .npz with "bits"
    (numpy.packbits over neurons) or one array. InputError for a .tsv file that numbers more than 2^16 + 64 lines
    images."""
    file = Path(existing(path))
    if file.suffix in (".npy", ".npz"):
        found, packed = load_arrays(file), False
        if isinstance(found, dict):
            packed = "bits" in found
            if not packed and len(found) != 1:
                raise InputError(f'{file}: arrays {", ".join(found) or "of no name"}; "bits" or a single one is needed')
            found = found["bits"] if packed else next(iter(found.values()))
        wanted = (neurons + 7) // 8 if packed else neurons
        if found.ndim != 2 or found.shape[1] != wanted:
            raise InputError(f"{file}: an array of shape {found.shape} where (images, {wanted}) is needed")
        if len(found) == 0:
            raise InputError(f"{file}: an array of shape {found.shape}: no images; at least one is needed")
        if found.dtype.kind not in "biuf" or (packed and found.dtype != np.uint8):
            raise InputError(f"{file}: an array of {found.dtype} where {'bytes' if packed else 'numbers'} are needed")
        return found, packed
    row, column, value = _triples(file, "image, neuron, value")
    if row.min() < 1 or column.min() < 1 or column.max() > neurons:
        raise InputError(f"{file}: images from 1 and neurons from 1 to {neurons} are needed")
    count, most = int(row.max()), _IMAGES + _IMAGES_PER_LINE * len(row)
    if count > most:
        raise InputError(
            f"{file}: image {count} in a file of {len(row)} lines; at most 2^16 + 64 lines = {most} images are read"
        )
    pixel, place = np.unique((row - 1) * neurons + (column - 1), return_inverse=True)
    if len(pixel) < len(row):  # values of one pixel add up, as the entries of a sparse matrix do
        value = np.bincount(place.ravel(), weights=value).astype(np.float32)
        row, column = pixel // neurons + 1, pixel % neurons + 1
    if np.isin(value, (0, 1)).all():  # a bit for each neuron instead of four bytes
        at, bit = column - 1, value.astype(np.uint8)
        bits = np.zeros((count, (neurons + 7) // 8), np.uint8)
        np.bitwise_or.at(bits, (row - 1, at // 8), bit << (7 - at % 8).astype(np.uint8))
        return bits, True
    images = np.zeros((count, neurons), np.float32)
    images[row - 1, column - 1] = value
    return images, False
