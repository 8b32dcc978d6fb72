"""Filtered back-projection of a stack of slices beside scikit-image, algotom and the ASTRA toolbox on the processor.

    python bench/filtered_back_projection.py [--peers PYTHON] [--slices 64] [--peer-slices 8] [--shape 180,640]
                                             [--rounds 2] [--json FILE]

--peers: an interpreter that has scikit-image, algotom, astra-toolbox or some of them. Each program reads the same
sinograms, of discs, and takes all threads that it takes by itself. Prints seconds and processor seconds a slice, set-up
included, and the error against the discs inside the circle that all projections see; the ratio is ours over the best
peer's, by processor seconds.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

DISCS = [(0.0, 0.0, 0.40, 1.0), (0.125, 0.06, 0.1, 0.5), (-0.19, 0.05, 0.06, -0.5), (0.02, -0.23, 0.05, 1.0)]
PEERS = ("scikit-image", "algotom", "astra")


def discs(angles: int, bins: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Angles, the sinogram and the image; rays have the mean over the width of a bin."""
    turn = np.arange(angles) * np.pi / angles
    fine = (np.arange(8 * bins) + 0.5) / 8 - bins / 2
    sinogram = np.zeros((angles, 8 * bins))
    y, x = np.mgrid[:bins, :bins] + 0.5 - bins / 2
    image = np.zeros((bins, bins))
    for cx, cy, r, value in DISCS:
        cx, cy, r = cx * bins, cy * bins, r * bins
        middle = cx * np.cos(turn) + cy * np.sin(turn)
        sinogram += 2 * value * np.sqrt(np.maximum(r * r - (fine - middle[:, None]) ** 2, 0))
        image += value * ((x - cx) ** 2 + (-y - cy) ** 2 < r * r)
    return turn, sinogram.reshape(angles, bins, 8).mean(2).astype(np.float32), image


def scikit_image(turn: np.ndarray) -> Callable[[np.ndarray], Any]:
    from skimage.transform import iradon

    return lambda s: iradon(s.T, theta=np.rad2deg(turn), circle=True, filter_name="ramp")


def algotom(turn: np.ndarray) -> Callable[[np.ndarray], Any]:
    from algotom.rec import reconstruction

    return lambda s: reconstruction.fbp_reconstruction(
        s, s.shape[1] / 2 - 0.5, angles=turn, apply_log=False, gpu=False, ratio=None, filter_name=None
    )


def astra_toolbox(turn: np.ndarray) -> Callable[[np.ndarray], Any]:
    import astra

    def run(s: np.ndarray) -> Any:
        rays = astra.create_proj_geom("parallel", 1.0, s.shape[1], turn)
        pixels = astra.create_vol_geom(s.shape[1], s.shape[1])
        projector = astra.create_projector("linear", rays, pixels)
        data, made = astra.data2d.create("-sino", rays, s), astra.data2d.create("-vol", pixels)
        about = astra.astra_dict("FBP")
        about |= {"ProjectorId": projector, "ProjectionDataId": data, "ReconstructionDataId": made}
        algorithm = astra.algorithm.create(about)
        astra.algorithm.run(algorithm)
        image = astra.data2d.get(made)
        astra.algorithm.delete(algorithm), astra.data2d.delete([data, made]), astra.projector.delete(projector)
        return image

    return run


def run(name: str, shape: tuple[int, int], slices: int, rounds: int) -> dict[str, Any]:
    turn, sinogram, image = discs(*shape)
    stack = np.repeat(sinogram[None], slices, 0)
    if name == "tacit":
        from tacit import tomography

        def work() -> Any:
            return tomography.fbp(stack, turn, filter="ramp", batch=64).images
    else:
        peer = {"scikit-image": scikit_image, "algotom": algotom, "astra": astra_toolbox}[name](turn)

        def work() -> Any:
            return [peer(s) for s in stack]

    seconds, processor = [], []
    for _ in range(rounds):
        begin, used = time.perf_counter(), time.process_time()
        made = np.asarray(work()[0])
        seconds.append((time.perf_counter() - begin) / slices)
        processor.append((time.process_time() - used) / slices)
    y, x = np.mgrid[: shape[1], : shape[1]] + 0.5 - shape[1] / 2
    inside = x * x + y * y < (0.45 * shape[1]) ** 2
    # Programs differ in the direction of rows.
    error = min(
        float(np.sqrt(np.mean((i - image)[inside] ** 2) / np.mean(image[inside] ** 2))) for i in (made, made[::-1])
    )
    return {"seconds_a_slice": min(seconds), "processor_s_a_slice": min(processor), "error": error}


def main() -> None:
    if "--one" in sys.argv:  # with another interpreter, which has none of ours
        name, angles, bins, slices, rounds = sys.argv[sys.argv.index("--one") + 1 :]
        print(json.dumps(run(name, (int(angles), int(bins)), int(slices), int(rounds))))
        return
    import harness

    words = harness.parser(__doc__, rounds=2)
    words.add_argument("--peers", default="")
    words.add_argument("--slices", type=int, default=64)
    words.add_argument("--peer-slices", type=int, default=8)
    words.add_argument("--shape", default="180,640")
    o = words.parse_args()
    rows = []
    for name in ("tacit", *(PEERS if o.peers else ())):
        slices = o.slices if name == "tacit" else o.peer_slices
        command = [sys.executable if name == "tacit" else o.peers, __file__, "--one", name, *o.shape.split(",")]
        row = harness.facts([*command, slices, o.rounds], threads=None)
        rows.append({"program": name, "slices": slices} | row)
        print(
            f"{name:12s} {slices:4d} slices: {1e3 * row['seconds_a_slice']:8.1f} ms, processor"
            f" {1e3 * row['processor_s_a_slice']:8.1f} ms a slice, error {row['error']:.3f}",
            flush=True,
        )
    if len(rows) > 1:
        ratio = rows[0]["processor_s_a_slice"] / min(r["processor_s_a_slice"] for r in rows[1:])
        print(f"ours over the best peer's: {ratio:.2f}")
    harness.write(o.json, "filtered_back_projection/1", shape=o.shape, rounds=o.rounds, rows=rows)


if __name__ == "__main__":
    main()
