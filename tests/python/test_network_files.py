"""Files of networks and images in every format, ranks that share images, and `tacit infer` with both."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from cli_support import needs_applications, needs_mpi, tacit
from test_inference import plain

import tacit as library
from tacit import comm, inference
from tacit.app import network_files
from tacit.cli import infer

pytestmark = needs_applications
N = 64
FORMATS = ["npz", "tsv", "tsv.gz", "mat"]


def some_layers(count: int = 3, seed: int = 1) -> list[Any]:
    rng = np.random.default_rng(seed)
    made = [sp.random_array((N, N), density=0.2, rng=rng, format="csr") for _ in range(count)]
    return [sp.csr_array((np.round(8 * w.data + 1) / 8, w.indices, w.indptr), shape=w.shape) for w in made]


def some_images(count: int = 50) -> np.ndarray:
    return np.random.default_rng(2).random((count, N)) < 0.3


def same(a: Any, b: Any) -> bool:
    return bool(abs(sp.csr_array(a) - sp.csr_array(b)).max() == 0)


@pytest.mark.parametrize("kind", FORMATS)
def test_layers_survive_a_file(kind: str, tmp_path: Path) -> None:
    layers = some_layers()
    layers[1].data[:] = np.float32(1) / 3  # which takes more digits than the challenge's
    layers[1] = sp.csr_array((N, N)) if kind != "tsv" and kind != "tsv.gz" else layers[1]
    paths = inference.write_network(tmp_path / "new", layers, format=kind)
    assert [path.name for path in paths] == [f"n64-l{k}.{kind}" for k in (1, 2, 3)]
    read = inference.read_layers(tmp_path / "new", N, 3)
    assert len(read) == 3
    for a, b in zip(read, layers, strict=True):
        assert same(a, b.astype(np.float32))
    images = some_images()
    for weight_bytes in (0, 1):
        net = inference.read_network(tmp_path / "new", N, 3, weight_bytes=weight_bytes)
        r = net.infer(images, bias=-0.25)
        np.testing.assert_array_equal(r.categories, inference.network(layers).infer(images, bias=-0.25).categories)


def test_layers_of_other_programs(tmp_path: Path) -> None:
    """MATLAB's version 7.3, in which a matrix without entries has neither data nor ir, and one may have room for more
    entries than it has; logical matrices; csr and 64-bit indices; two matrices of which one has the shape."""
    h5py = pytest.importorskip("h5py")
    layers = some_layers(5)
    layers[1] = sp.csr_array((N, N))
    for k, w in enumerate(layers[:3]):
        c = sp.csc_array(w)
        with h5py.File(tmp_path / f"n64-l{k + 1}.mat", "w", userblock_size=512) as file:
            group = file.create_group("layersj")
            group.attrs["MATLAB_sparse"] = np.uint64(N)
            group["jc"] = c.indptr.astype(np.uint64)
            if c.nnz:
                group["data"] = np.append(c.data, [5.0, 7.0])
                group["ir"] = np.append(c.indices, [0, 1]).astype(np.uint64)
            file["biasj"] = np.full((N, 1), -0.3)
    scipy.io.savemat(tmp_path / "n64-l4.mat", {"b": np.ones((1, N)), "W": sp.csc_matrix(layers[3] != 0)})
    scipy.io.savemat(tmp_path / "n64-l5.mat", {"W": layers[4].toarray()}, do_compression=True)
    layers[3] = (layers[3] != 0).astype(float)
    for a, b in zip(inference.read_layers(tmp_path, N, 5), layers, strict=True):
        assert same(a, b)
    w = sp.csr_array(layers[0])
    long = sp.csr_array((w.data, w.indices.astype(np.int64), w.indptr.astype(np.int64)), shape=w.shape)
    sp.save_npz(tmp_path / "n64-l1.npz", long)
    assert same(inference.read_layers(tmp_path, N, 1)[0], w)  # .npz comes before .mat
    assert inference.read_layers(tmp_path, N, 1)[-1].shape == (N, N)
    with pytest.raises(IndexError, match="layer 1 of 1"):
        inference.read_layers(tmp_path, N, 1)[1]


def test_layers_without_entries_and_of_one_neuron() -> None:
    empty, narrow = sp.csr_array((N, N)), sp.csr_array(np.ones((N, 1)))
    images = some_images(7)
    assert len(inference.network([empty]).infer(images, bias=-0.1).categories) == 0
    r = inference.network([narrow]).infer(images, bias=-0.5, keep_outputs=True)
    np.testing.assert_array_equal(r.outputs[:, 0], np.minimum(images.sum(1) - 0.5, 32)[r.categories])
    one = inference.network(some_layers()).infer(images[:1], bias=-0.25, keep_outputs=True)
    np.testing.assert_array_equal(
        one.outputs, inference.network(some_layers()).infer(images, bias=-0.25, keep_outputs=True).outputs[:1]
    )


def test_duplicate_entries_are_added_without_changing_what_was_given() -> None:
    w = sp.csc_array((np.array([0.5, 0.5]), np.array([3, 3]), np.array([0, 2, *[2] * 63])), shape=(N, N))
    image = np.zeros((1, N))
    image[0, 3] = 2
    assert inference.network([w]).infer(image, bias=-0.5, keep_outputs=True).outputs[0, 0] == 1.5
    assert w.nnz == 2


@pytest.mark.parametrize("name", ["i.tsv", "i.tsv.gz", "i.npz", "i.mat"])
def test_images_survive_a_file(name: str, tmp_path: Path) -> None:
    images = some_images()
    images[-1, 5] = True  # text has no images without pixels at the end
    for given, packed in ((images, False), (np.packbits(images, axis=1), True), (images * np.float32(0.75), False)):
        inference.write_images(tmp_path / name, given, neurons=N, packed=packed)
        read, bits = inference.read_images(tmp_path / name, N)
        found = np.unpackbits(read, axis=1, count=N) if bits else read
        np.testing.assert_array_equal(found, np.unpackbits(given, axis=1, count=N) if packed else given)
        assert bits == (given.dtype != np.float32)
        whole = network_files.read_images(tmp_path / name, N)
        for part in range(3):
            some = network_files.read_images(tmp_path / name, N, part, 3)
            assert some.total == whole.total == 50
            np.testing.assert_array_equal(some.images, whole.images[network_files.dealt(50, part, 3)])


def test_images_of_arrays_by_parts(tmp_path: Path) -> None:
    images = some_images()
    sp.save_npz(tmp_path / "s.npz", sp.csr_array(images.astype(float)))
    np.save(tmp_path / "f.npy", np.asfortranarray(images.astype(np.float64)))
    np.save(tmp_path / "b.npy", images)
    for name in ("s.npz", "f.npy", "b.npy"):
        for parts in (1, 3):
            some = network_files.read_images(tmp_path / name, N, parts - 1, parts)
            found = np.unpackbits(some.images, axis=1, count=N) if some.packed else some.images
            np.testing.assert_array_equal(found, images[network_files.dealt(50, parts - 1, parts)])
    content = bytearray((tmp_path / "b.npy").read_bytes())
    content[-1] = 7
    (tmp_path / "b.npy").write_bytes(content)
    for parts in (1, 2):
        with pytest.raises(library.InputError, match="7 for a truth value"):
            network_files.read_images(tmp_path / "b.npy", N, parts - 1, parts)
    (tmp_path / "b.npy").write_bytes(content[:-5])
    with pytest.raises(library.InputError, match="ends after 3195 of 3200 bytes"):
        network_files.read_images(tmp_path / "b.npy", N, 0, 2)
    np.save(tmp_path / "o.npy", sp.csr_array(images), allow_pickle=True)
    with pytest.raises(library.InputError, match="pickled objects"):
        inference.read_images(tmp_path / "o.npy", N)


def test_images_of_a_pipe() -> None:
    behind, front = os.pipe()
    os.write(front, b"1 1 1\n3 64 1\n")
    os.close(front)
    try:
        images, packed = inference.read_images(f"/dev/fd/{behind}", N)
        assert packed
        np.testing.assert_array_equal(np.argwhere(np.unpackbits(images, axis=1)), [[0, 0], [2, 63]])
    finally:
        os.close(behind)


def archived(path: Path, **changes: Any) -> Path:
    w = sp.csc_array(some_layers(1)[0])
    arrays = {"format": b"csc", "shape": w.shape, "indptr": w.indptr, "indices": w.indices, "data": w.data} | changes
    np.savez(path, **{name: value for name, value in arrays.items() if value is not None})
    return path


def test_layers_that_cannot_be_right(tmp_path: Path) -> None:
    w = sp.csc_array(some_layers(1)[0])
    backwards, beyond = w.indptr.copy(), w.indices.copy()
    backwards[5], beyond[7] = backwards[7] + 1, N
    for changes, match in (
        ({"shape": (N, N + 1)}, r"shape \(64, 65\) where \(64, 64\)"),
        ({"format": b"coo"}, "csr or csc"),
        ({"indices": None}, "no array 'indices'"),
        ({"indptr": backwards}, "ascend from 0"),
        ({"indptr": w.indptr[:-1]}, "64 numbers; 65"),
        ({"indptr": w.indptr + 1}, "ascend from 0"),
        ({"indices": beyond}, "indices from 0 to 64; 0 to 63"),
        ({"indices": w.indices[:-1]}, "indices and"),
        ({"data": w.data.astype(complex)}, "complex128"),
        ({"data": w.data[:, None]}, "one dimension"),
    ):
        archived(tmp_path / "n64-l1.npz", **changes)
        with pytest.raises(library.InputError, match=rf"n64-l1.npz: .*{match}"):
            inference.read_network(tmp_path, N, 1)
    archived(tmp_path / "n64-l1.npz", data=np.full(w.nnz, 1e300))
    with pytest.raises(library.InputError, match="layer 0 has a weight of inf"):
        inference.read_network(tmp_path, N, 1)
    archived(tmp_path / "n64-l1.npz")
    with pytest.raises(FileNotFoundError, match=r"n64-l2.npz: no such file"):
        inference.read_network(tmp_path, N, 2)
    with pytest.raises(FileNotFoundError, match=r"n32-l1.tsv: no such file, and none that ends in .npz, .tsv"):
        inference.read_network(tmp_path, 32, 1)
    for content, match in (
        ({"a": w, "b": w}, "its matrices: a 64 x 64, b 64 x 64"),
        ({"a": np.ones((3, 4))}, "one matrix of 64 x 64; its matrices: a 3 x 4"),
        ({"a": "text"}, "its matrices: none"),
    ):
        (tmp_path / "m").mkdir(exist_ok=True)
        scipy.io.savemat(tmp_path / "m/n64-l1.mat", content)
        with pytest.raises(library.InputError, match=match):
            inference.read_network(tmp_path / "m", N, 1)
    (tmp_path / "m/n64-l1.mat").write_bytes(b"\0" * 200)
    with pytest.raises(library.InputError, match="expected a MATLAB file"):
        inference.read_network(tmp_path / "m", N, 1)
    (tmp_path / "t").mkdir()
    (tmp_path / "t/n64-l1.tsv.gz").write_bytes(gzip.compress(b"1\t2\t0.5\n1\t65\t0.5\n"))
    with pytest.raises(library.InputError, match="neuron 65; neurons from 1 to 64"):
        inference.read_network(tmp_path / "t", N, 1)


def test_what_cannot_be_written(tmp_path: Path) -> None:
    for call, match in (
        (lambda: inference.write_network(tmp_path, some_layers(), format="npy"), "unknown format 'npy'"),
        (lambda: inference.write_network(tmp_path, []), "0 layers"),
        (lambda: inference.write_network(tmp_path, [sp.eye_array(4), sp.eye_array(5)]), "layer 1 has 5 inputs"),
        (lambda: inference.write_images(tmp_path / "i.npz", np.zeros((3, 8), np.uint8), packed=True), "need neurons="),
        (lambda: inference.write_images(tmp_path / "i.npz", np.zeros((3, 8)), neurons=9), r"\(images, 9\) is needed"),
    ):
        with pytest.raises(ValueError, match=match):
            call()
    assert not [path for path in tmp_path.iterdir() if "l2" in path.name]


def test_permuted_classes() -> None:
    classes = inference.permuted_classes(1024, 120, seed=3)
    assert classes.shape == (20, 1024)
    np.testing.assert_array_equal(classes[0], np.arange(1024) % 64)
    for block in classes:
        np.testing.assert_array_equal(np.bincount(block), 16)
    assert not np.array_equal(classes[1], classes[2])
    assert not np.array_equal(classes[1], inference.permuted_classes(1024, 120, seed=4)[1])
    w = inference.radixnet_layers(1024, 120, classes=classes)[6]
    assert set(np.diff(w.indptr)) == set(np.diff(w.tocsc().indptr)) == {32}


# --- ranks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("count", [50, 2, 0])
def test_ranks_share_images(ranks: int, count: int) -> None:
    layers, images = some_layers(), some_images(count)
    images[::5] = False
    options: dict[str, Any] = {"bias": -0.25, "report_layers": True, "keep_outputs": True}
    whole = inference.network(layers).infer(images, **options)
    if count == 50:
        expected = plain(layers, images.astype(float), -0.25)
        np.testing.assert_array_equal(whole.categories, np.flatnonzero(expected.any(1)))

    def work(c: Any) -> Any:
        return inference.network(layers).infer(images[inference.share(len(images), c)], comm=c, **options)

    for r in comm.run_threads(ranks, work):
        np.testing.assert_array_equal(r.categories, whole.categories)
        np.testing.assert_array_equal(r.outputs, whole.outputs)
        np.testing.assert_array_equal(r.alive, whole.alive)
        np.testing.assert_allclose(r.sums, whole.sums)
        assert (r.edges, r.layers_done) == (whole.edges, 3)
        assert r.edges_worked <= r.edges


def test_images_are_dealt_in_turns() -> None:
    for total in (0, 1, 16, 50, 97, 1000):
        for parts in (1, 2, 3, 7):
            all_parts = [network_files.dealt(total, part, parts) for part in range(parts)]
            np.testing.assert_array_equal(np.sort(np.concatenate(all_parts)), np.arange(total))
            assert max(map(len, all_parts)) - min(map(len, all_parts)) <= 16
            for numbers in all_parts:  # neither by parity nor by halves
                assert abs((numbers % 2).sum() * 2 - len(numbers)) <= 1


def test_what_ranks_do_not_agree_on() -> None:
    layers, images = some_layers(), some_images().astype(float)

    def shares(c: Any) -> Any:
        return inference.network(layers).infer(images[: 10 + 20 * c.rank], comm=c, bias=-0.25)

    with pytest.raises(ValueError, match=r"has 10 of 40 images; 24 are needed: images\[inference.share"):
        comm.run_threads(2, shares)

    def callbacks(c: Any) -> Any:
        callback = None if c.rank else lambda layers, alive: False
        return inference.network(layers).infer(
            images[inference.share(len(images), c)], comm=c, bias=-0.25, callback=callback
        )

    with pytest.raises(ValueError, match="a callback is given on 1 of 2 ranks"):
        comm.run_threads(2, callbacks)
    bad = images.copy()
    bad[3, 4] = np.nan

    def numbers(c: Any) -> Any:
        return inference.network(layers).infer(bad[inference.share(len(bad), c)], comm=c, bias=-0.25)

    with pytest.raises(library.InputError, match="neuron 4"):
        comm.run_threads(2, numbers)


def test_callback_of_ranks() -> None:
    layers, images, seen = some_layers(4), some_images(), []

    def work(c: Any) -> Any:
        def callback(done: int, alive: int) -> bool:
            seen.append((done, alive))
            return c.rank == 1 and done == 2

        net = inference.network(layers)
        return net.infer(images[inference.share(len(images), c)], comm=c, bias=-0.25, group=1, callback=callback)

    assert [r.layers_done for r in comm.run_threads(2, work)] == [2, 2]
    alive = inference.network(layers).infer(images, bias=-0.25, report_layers=True).alive
    assert sorted(seen) == sorted(2 * [(1, alive[0]), (2, alive[1])])


# --- the command ------------------------------------------------------------------------------------------------------


def test_formats_are_those_of_the_library() -> None:
    assert tuple(f".{name}" for name in infer.FORMATS) == network_files.KINDS


NET = ["--neurons", "64", "--layers", "3", "--bias", "-0.25"]


@pytest.fixture
def challenge(tmp_path: Path) -> Path:
    layers, images = some_layers(), some_images()
    inference.write_network(tmp_path, layers, format="tsv")
    inference.write_images(tmp_path / "i.tsv", images)
    np.save(tmp_path / "i.npy", images)
    expected = np.flatnonzero(plain(layers, images.astype(float), -0.25).any(1)) + 1
    np.savetxt(tmp_path / "t.tsv", expected, fmt="%d")
    np.savetxt(tmp_path / "f.tsv", [*expected[1:], 1000], fmt="%d")
    return tmp_path


SLOW = [*needs_mpi, pytest.mark.slow]


@pytest.mark.parametrize("ranks", [1, pytest.param(2, marks=SLOW), pytest.param(3, marks=SLOW)])
def test_truth_on_ranks(ranks: int, challenge: Path) -> None:
    words = ["--weights", ".", *NET, "--ranks", ranks, "--threads", 1]
    done = tacit("infer", "i.tsv", *words, "--truth", "t.tsv", "--json", "r.json", "--output", "c.tsv", cwd=challenge)
    assert "truth: PASSED" in done.stdout
    facts = json.loads((challenge / "r.json").read_text())
    edges = 50 * sum(w.nnz for w in some_layers())
    assert (facts["ranks"], facts["images"], facts["edges"]) == (ranks, 50, edges)
    assert f"score {facts['edges_per_second'] / 1e9:.1f} G edges/s" in done.stdout
    assert facts["edges_per_second"] == pytest.approx(edges / facts["seconds"]["infer"])
    assert (challenge / "c.tsv").read_text() == (challenge / "t.tsv").read_text()
    done = tacit("infer", "i.npy", *words, "--truth", "f.tsv", cwd=challenge, code=3)
    given = len((challenge / "f.tsv").read_text().splitlines())
    assert f"truth: FAILED, {given - 1} of its {given} categories found, and 1 others" in done.stdout
    done = tacit("infer", "i.tsv", *words, "--layers", "4", cwd=challenge, code=4)
    assert "n64-l4.tsv: no such file" in done.stderr
    assert len(done.stderr.strip().splitlines()) <= 2


def test_command_writes_networks_and_images(challenge: Path) -> None:
    words = ["--neurons", "1024", "--layers", "7", "--permute", "5", "--write-weights", "w", "--write-format", "mat"]
    np.save(challenge / "big.npy", np.random.default_rng(0).random((20, 1024)) < 0.3)
    first = tacit("infer", "big.npy", *words, "--write-images", "o.mat", "--output", "a.tsv", cwd=challenge)
    assert "20 images through 7 layers" in first.stdout
    tacit("infer", "o.mat", "--weights", "w", "--layers", "7", "--truth", "a.tsv", cwd=challenge)
    layers = inference.radixnet_layers(1024, 7, classes=inference.permuted_classes(1024, 7, seed=5))
    assert same(inference.read_layers(challenge / "w", 1024, 7)[6], layers[6])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--weights", ".", "--permute", "1"], "--permute is of a generated net"),
        (["--weights", ".", "--classes", "c.npz"], "--classes is of a generated net"),
        (["--permute", "1", "--classes", "c.npz"], "--classes and --permute are given"),
        (["--write-format", "mat"], "--write-format is of --write-weights"),
        (["--write-weights", "w", "--write-format", "hdf5"], 'unknown format "hdf5"'),
        (["--permute", "x"], "expected a whole number from 0"),
    ],
)
def test_wrong_words(words: list[str], said: str, challenge: Path) -> None:
    assert said in tacit("infer", "i.tsv", *words, code=2, cwd=challenge).stderr


def test_nothing_is_lost_in_writing_or_by_complex_numbers(tmp_path: Path) -> None:
    images = np.eye(4, 6, dtype=np.float32)
    images[3] = 0
    for name in ("a.tsv", "a.tsv.gz"):
        with pytest.raises(ValueError, match="number of images"):
            inference.write_images(tmp_path / name, images)
    for name in ("a.npz", "a.mat"):
        inference.write_images(tmp_path / name, images)
        found, packed = inference.read_images(tmp_path / name, 6)
        np.testing.assert_array_equal(np.unpackbits(found, axis=1, count=6) if packed else found, images)
    for bad in (np.nan, 1e300):
        with pytest.raises(ValueError, match="not finite"):
            inference.write_images(tmp_path / "b.mat", np.full((2, 6), bad))
    with pytest.raises(TypeError, match="weights are complex128"):
        inference.network([sp.eye_array(4) * 1j])
    net = inference.network([sp.csr_array(np.full((4, 3), -1.0))])
    with pytest.raises(TypeError, match="images are complex128"):
        net.infer(np.ones((2, 4)) * 1j)
    r = net.infer(np.ones((2, 4)), bias=0.0, keep_outputs=True)
    assert r.outputs is not None
    assert r.outputs.shape == (0, 3)
