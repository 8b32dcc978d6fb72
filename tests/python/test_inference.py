"""Sparse networks: against SciPy, the challenge's files, and the exact answer for the official weights."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import ROOT
from test_tomography import run

import tacit
from tacit import inference

SHARED = Path(os.environ.get("TACIT_TEST_SHARED", ROOT.parent / "shared")) / "data" / "inference"


def plain(layers: list[Any], y: np.ndarray, bias: float) -> np.ndarray:
    for w in layers:
        z = y @ w
        y = np.clip(np.where(z != 0, z + bias, 0), 0, 32)
    return y


def test_against_scipy() -> None:
    rng = np.random.default_rng(3)
    sizes = [50, 80, 60, 70]
    layers = [
        sp.csr_array(np.round(8 * a.toarray()) / 8)
        for a in (sp.random_array((m, n), density=0.15, rng=rng) for m, n in itertools.pairwise(sizes))
    ]
    images = (rng.random((300, 50)) < 0.2).astype(float)
    images[::7] = 0
    expected = plain(layers, images, -0.25)
    net = inference.network(layers)
    r = net.infer(images, bias=-0.25, keep_outputs=True, report_layers=True)
    np.testing.assert_array_equal(r.categories, np.flatnonzero(expected.any(1)))
    np.testing.assert_allclose(r.outputs, expected[r.categories], rtol=1e-6)
    assert r.sums[-1] == pytest.approx(expected.sum())
    assert r.alive[-1] == len(r.categories)
    same = inference.network(layers, weight_bytes=1).infer(images.astype(bool), bias=-0.25)
    np.testing.assert_array_equal(same.categories, r.categories)
    assert 0 < r.edges_worked < r.edges == sum(w.nnz for w in layers) * 300


@pytest.mark.parametrize("neurons", [1024, 4096, 16384])
def test_networks_of_the_challenge(neurons: int) -> None:
    """32 connections of 1/16 into and out of every neuron at every size, and equally many paths between any two neurons
    over a block of layers."""
    block = int(np.log2(neurons / 16))
    some = np.arange(neurons) if neurons == 1024 else np.random.default_rng(0).choice(neurons, 40, replace=False)
    paths = np.zeros((len(some), neurons))
    paths[np.arange(len(some)), some] = 1
    for k in range(block):
        w = inference.radixnet_layer(k, neurons)
        assert w.shape == (neurons, neurons)
        assert set(w.data) == {1 / 16}
        for way in (w.tocsr(), w.tocsc()):
            assert set(np.diff(way.indptr)) == {32}
        paths = paths @ (16 * w)
    np.testing.assert_array_equal(paths, 32.0**block / neurons)
    # The next block is the first one again.
    assert abs(inference.radixnet_layer(block, neurons) - inference.radixnet_layer(0, neurons)).max() == 0
    r = inference.radixnet(neurons, 2).infer(np.random.default_rng(1).random((16, neurons)) < 0.5)
    assert r.edges == 16 * 2 * 32 * neurons


def test_classes_of_many_neurons() -> None:
    """A net of 4096 neurons and more has classes beyond 255."""
    neurons = 16 * 512
    order = np.random.default_rng(2).permutation(neurons)
    plain, moved = (
        inference.radixnet_layer(3, neurons, classes=c).tocsr() for c in (None, order[None] % (neurons // 16))
    )
    assert abs(moved - plain[order]).max() == 0
    for classes, match in ((order[None] % 512 + 1, "class 512 of 512"), (order[None] % 512 - 1, "class -1 of 512")):
        with pytest.raises(ValueError, match=match):
            inference.radixnet(neurons, 1, classes=classes)
    with pytest.raises(TypeError, match="whole numbers"):
        inference.radixnet(neurons, 1, classes=order[None] * 0.5)


def test_refuses_what_does_not_fit() -> None:
    net = inference.radixnet(64, 3, radices=(2, 2, 2))
    with pytest.raises(ValueError, match=r"1000 neurons.*radices"):
        inference.radixnet(1000, 3)
    for call in (
        lambda: net.infer(np.zeros((3, 63))),
        lambda: net.infer(np.zeros((3, 64))),  # no bias is known for 64 neurons
        lambda: net.infer(np.zeros((3, 64)), bias=0.1),
        lambda: net.infer(np.zeros(64), bias=-0.1),
        lambda: inference.radixnet(60, 3),
        lambda: inference.network([sp.eye_array(4), sp.eye_array(5)]),
    ):
        with pytest.raises(ValueError):  # noqa: PT011
            call()


def test_what_is_no_number_is_refused() -> None:
    net = inference.radixnet(64, 3, radices=(2, 2, 2))
    for bad in (np.nan, np.inf):
        images = np.ones((20, 64))
        images[7, 5] = bad
        with pytest.raises(tacit.InputError, match=r"input 7 .* neuron 5"):
            net.infer(images, bias=-0.1)
        weights = sp.csr_array(np.eye(4))
        weights.data[2] = bad
        for weight_bytes in (0, 1):
            with pytest.raises(tacit.InputError, match=r"layer 1 .* neuron 2 to 2"):
                inference.network([sp.eye_array(4), weights], weight_bytes=weight_bytes).infer(images[:1, :4], bias=-1)


def test_files_that_cannot_be_right(tmp_path: Path) -> None:
    def file(name: str, text: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    for path in (
        file("fraction.tsv", "1\t1\t1\n1.5\t2\t1\n"),
        file("nan.tsv", "1\tnan\t1\n"),
        file("value.tsv", "1\t1\tnan\n"),
        file("huge.tsv", "1e300\t1\t1\n"),
        file("far.tsv", "1\t65\t1\n"),
        file("zero.tsv", "0\t1\t1\n"),
        file("two.tsv", "1\t1\n"),
        file("words.tsv", "a\tb\tc\n"),
        file("empty.tsv", ""),
        file("blank.tsv", "\n# nothing\n\n"),
        file("empty.npy", b""),
        file("junk.npz", b"PK\x03\x04 no zip"),
        file("junk.npy", b"\x93NUMPY no array"),
    ):
        with pytest.raises(tacit.InputError):
            inference.read_images(path, 64)
    with pytest.raises(tacit.InputError, match=r"empty.tsv: no entries.*image, neuron, value"):
        inference.read_images(tmp_path / "empty.tsv", 64)
    file("n64-l1.tsv", "")
    with pytest.raises(tacit.InputError, match=r"n64-l1.tsv: no entries.*input, output, weight"):
        inference.read_network(tmp_path, 64, 1)
    np.savez(tmp_path / "floats.npz", bits=np.zeros((2, 8)))
    np.save(tmp_path / "words.npy", np.array([["a"] * 64]))
    for name in ("floats.npz", "words.npy"):
        with pytest.raises(tacit.InputError):
            inference.read_images(tmp_path / name, 64)
    images, packed = inference.read_images(file("good.tsv", "2\t1\t1\n2\t10\t1\n3\t64\t0\n"), 64)
    assert packed
    expected = np.zeros((3, 64))
    expected[1, [0, 9]] = 1
    np.testing.assert_array_equal(np.unpackbits(images, axis=1), expected)
    # Values of one pixel add up, also where they are 1; blanks separate numbers as tabs do.
    images, packed = inference.read_images(file("twice.tsv", "2\t3\t0.5\n1 1 1\n2  3 0.25\n1\t1 1\n"), 64)
    assert not packed
    assert (images[1, 2], images[0, 0], np.count_nonzero(images)) == (0.75, 2, 2)
    # An image takes memory and time whether or not it has pixels: a file of two lines numbers at most 2^16 + 128.
    assert len(inference.read_images(file("edge.tsv", f"1 1 1\n{(1 << 16) + 128} 1 1\n"), 64)[0]) == (1 << 16) + 128
    with pytest.raises(tacit.InputError, match=r"image 20000000 in a file of 2 lines; at most 2\^16 \+ 64 lines"):
        inference.read_images(file("beyond.tsv", "1 1 1\n20000000 1 1\n"), 64)
    images, packed = inference.read_images(file("numbers.tsv", "2\t3\t0.5\n"), 64)
    assert not packed
    assert images[1, 2] == 0.5


def test_command_line(tmp_path: Path) -> None:
    layers = [inference.radixnet_layer(k, 64, radices=(2, 2)) for k in range(4)]
    for k, w in enumerate(layers):
        c = w.tocoo()
        np.savetxt(
            tmp_path / f"n64-l{k + 1}.tsv",
            np.stack([c.row + 1, c.col + 1, c.data], 1),
            fmt=["%d", "%d", "%e"],
            delimiter="\t",
        )
    images = np.random.default_rng(0).random((90, 64)) < 0.3
    row, column = np.nonzero(images)
    np.savetxt(tmp_path / "images.tsv", np.stack([row + 1, column + 1, np.ones(len(row))], 1), fmt="%d", delimiter="\t")
    expected = np.flatnonzero(plain(layers, images.astype(float), -0.2).any(1)) + 1
    np.savetxt(tmp_path / "truth.tsv", expected, fmt="%d")
    done = run(
        *(
            "infer",
            str(tmp_path / "images.tsv"),
            "--weights",
            str(tmp_path),
            "--neurons",
            "64",
            "--layers",
            "4",
            "--bias",
            "-0.2",
        ),
        *(
            "--truth",
            str(tmp_path / "truth.tsv"),
            "--json",
            str(tmp_path / "r.json"),
            "--output",
            str(tmp_path / "c.tsv"),
        ),
    )
    assert done.returncode == 0, done.stderr
    facts = json.loads((tmp_path / "r.json").read_text())
    assert facts["categories"] == expected.tolist()
    assert facts["truth"]["equal"]
    assert facts["edges_per_second"] > 0
    assert facts["layers"] == 4
    assert facts["neurons"] == 64
    assert {"read", "infer"} <= set(facts["seconds"])
    np.testing.assert_array_equal(np.loadtxt(tmp_path / "c.tsv"), expected)
    np.savetxt(tmp_path / "false.tsv", expected[1:], fmt="%d")
    words = ["--weights", str(tmp_path), "--neurons", "64", "--layers", "4", "--bias", "-0.2"]
    done = run("infer", str(tmp_path / "images.tsv"), *words, "--truth", str(tmp_path / "false.tsv"))
    assert done.returncode == 3
    part = len(expected) - 1
    assert f"truth: FAILED, {part} of its {part} categories found, and 1 others" in done.stdout
    (tmp_path / "nothing.tsv").touch()
    for words, code in (
        (["infer", str(tmp_path / "none.tsv")], 4),
        (
            [
                "infer",
                str(tmp_path / "images.tsv"),
                "--weights",
                str(tmp_path),
                "--neurons",
                "64",
                "--layers",
                "5",
                "--bias",
                "-1",
            ],
            4,
        ),
        (["infer", str(tmp_path / "truth.tsv"), "--neurons", "64"], 4),
        (["infer", str(tmp_path / "nothing.tsv")], 4),
        (["infer", str(tmp_path / "images.tsv"), "--neurons", "1000"], 2),
        (["infer", str(tmp_path / "images.tsv"), "--weights", str(tmp_path), "--classes", str(tmp_path / "c.npz")], 2),
    ):
        done = run(*words)
        assert done.returncode == code, (words, done.stderr)
        assert len(done.stderr.strip().splitlines()) <= 2, done.stderr


@pytest.mark.parametrize("neurons", [4096, 16384])
def test_command_line_counts_edges_of_the_challenge(tmp_path: Path, neurons: int) -> None:
    images = np.random.default_rng(0).random((32, neurons)) < 0.3
    np.save(tmp_path / "images.npy", images)
    done = run("infer", str(tmp_path / "images.npy"), "--neurons", str(neurons), "--layers", "3", "--json", "-")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["edges"] == 32 * 3 * 32 * neurons


@pytest.mark.slow
@pytest.mark.skipif(not (SHARED / "radixnet_1024.npz").exists(), reason="the data are not here")
def test_official_network() -> None:
    sys.path.insert(0, str(SHARED))
    try:
        import radixnet_1024 as official  # type: ignore[import-not-found]
    finally:
        sys.path.pop(0)
    classes = official.row_classes()
    digest = hashlib.sha256()
    for layer in range(120):
        j, i = np.nonzero(inference.radixnet_layer(layer, classes=classes).T.toarray())
        digest.update("".join(f"{a + 1}\t{b + 1}\t6.250000e-02\n" for a, b in zip(i, j, strict=True)).encode())
    assert digest.hexdigest() == official.OFFICIAL
    oracle = np.load(SHARED / "oracle_1024.npz")
    r = tacit.inference.radixnet(classes=classes).infer(official.images(), report_layers=True)
    np.testing.assert_array_equal(r.categories, oracle["categories"])
    np.testing.assert_allclose(r.sums, oracle["sums"], rtol=1e-5)
    np.testing.assert_array_equal(r.alive[:12], oracle["alive_exact"])
    # Two images come to stand on the fixed point 2 y - 0.3 = y of every neuron, from where a rounding error doubles in
    # each layer: doubles leave it after layer 55, floats after 24; exact arithmetic never does.
    layers = np.flatnonzero(r.alive != oracle["alive"])
    np.testing.assert_array_equal(layers, [2, 3, *range(24, 55)])  # after 3 and 4 doubles do not cancel
    np.testing.assert_array_equal(r.alive[24:55], oracle["alive"][24:55] - 2)
    early = tacit.inference.radixnet(layers=14, classes=classes).infer(official.images(), keep_outputs=True)
    still = np.setdiff1d(
        early.categories, tacit.inference.radixnet(layers=25, classes=classes).infer(official.images()).categories
    )
    there = [k for k in still if np.abs(early.outputs[early.categories == k] - 0.3).max() < 2e-3]  # type: ignore[index]
    assert there == [21473, 48776]
    assert np.isin(r.categories, official.truth()).sum() >= 1750
