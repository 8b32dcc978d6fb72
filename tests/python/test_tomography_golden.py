"""Compares with arrays of TomoPy's own tests (BSD licence): projections, and the images of its algebraic methods after
four iterations, computed here with our matrix. Skipped where the arrays are missing."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT

from tacit import tomography

SHARED = Path(os.environ.get("TACIT_TEST_SHARED", ROOT.parent / "shared")) / "data" / "tomography" / "tomopy_golden.npz"
pytestmark = pytest.mark.skipif(not SHARED.exists(), reason=f"no {SHARED}")
Array = np.ndarray


@pytest.fixture(scope="module")
def golden() -> dict[str, Array]:
    with np.load(SHARED) as z:
        return {name: z[name] for name in z.files}


def over(a: Array, b: Array) -> Array:
    return np.divide(a, b, out=np.zeros(np.broadcast(a, b).shape), where=b > 0)


def sirt(P: tomography.Projector, b: Array) -> Array:
    # TomoPy weights rays by the sums of their squared entries, our SIRT by the sums of their entries.
    A = P.operator.to_scipy()
    squares = np.empty(b.size)
    squares[P.ray_order] = np.asarray(A.multiply(A).sum(1)).ravel()
    columns = P.backproject(np.ones_like(b))
    x = np.full(P.image_shape, 1e-6)
    for _ in range(4):
        x += over(P.backproject(over(b - P.project(x), squares.reshape(b.shape))), columns)
    return x


def mlem(P: tomography.Projector, b: Array) -> Array:
    columns = P.backproject(np.ones_like(b))
    x = np.full(P.image_shape, 1e-6)
    for _ in range(4):
        x *= over(P.backproject(over(b, P.project(x))), columns)
    return x


def art(P: tomography.Projector, b: Array) -> Array:
    A = P.operator.to_scipy()
    place, x = np.argsort(P.ray_order), np.full(P.image_shape, 1e-6).reshape(-1)[P.pixel_order]
    for _ in range(4):
        for ray, wanted in enumerate(b.ravel()):
            row = slice(A.indptr[place[ray]], A.indptr[place[ray] + 1])
            pixels, lengths = A.indices[row], A.data[row]
            if len(pixels):
                x[pixels] += lengths * (wanted - lengths @ x[pixels]) / (lengths @ lengths)
    image = np.empty_like(x)
    image[P.pixel_order] = x
    return image.reshape(P.image_shape)


def test_projections(golden: dict[str, Array]) -> None:
    P = tomography.projector(golden["angle"], 48, image=32, dtype="float64")
    found = P.project(golden["obj"].astype(float)).transpose(1, 0, 2)
    np.testing.assert_allclose(found, golden["proj"], atol=2e-6 * golden["proj"].max())


@pytest.mark.parametrize(("name", "method"), [("sirt", sirt), ("mlem", mlem), ("art", art)])
def test_methods(golden: dict[str, Array], name: str, method: Callable[[tomography.Projector, Array], Array]) -> None:
    P = tomography.projector(golden["angle"], 48, dtype="float64", format="list")
    slice0 = golden["proj"][:, 0].astype(float)
    np.testing.assert_allclose(method(P, slice0), golden[name][0], atol=2e-3 * golden[name][0].max())


def test_normalise(golden: dict[str, Array]) -> None:
    found = np.exp(-tomography.normalise(golden["tomo"], golden["flat"], golden["dark"]))
    np.testing.assert_allclose(found, np.maximum(golden["normalize"], 1e-6), rtol=0.01)


def test_centre(golden: dict[str, Array]) -> None:
    s = golden["sinogram"][:, 0]
    # TomoPy finds 44.75 and 45.28 by two methods.
    assert 44.25 <= tomography.find_centre(s, np.arange(len(s)) * np.pi / len(s)) <= 45.78
