"""The pictures of docs/guide/tomography.md: images of simulated scans before and after each repair, and by each method.

    python bench/tomography_pictures.py [--into docs/images] [--json FILE]

The phantom, its scans and their defects are those of bench/tomography_repairs.py, with 128 bins and 180 projections.
Above each picture: its correlation with the phantom, within the pixels that all projections see.
"""

import importlib.util
import pathlib
import tempfile

import numpy as np

import harness
from tacit.app.phase import Paganin
from tacit.plot import plotting
from tomography_repairs import AS_GIVEN, phantoms, reconstructed

N, T = 128, phantoms.half_turn(180)
PAGANIN = Paganin(1.0, 20.0, 20.0, 200.0)


def scan(folder, scale=1.0, rows=1, edges=False, change=None, **how):
    """A file of counts; `edges`: enhanced as behind free space; `change(data, white)`: what else is wrong."""
    p = np.repeat(phantoms.sinogram(T, N, N / 2, scale)[:, None], rows, axis=1)
    if edges:
        k = 2 * np.pi * np.fft.rfftfreq(2 * N)
        wide = np.pad(np.exp(-p), [(0, 0), (0, 0), (N // 2, N // 2)], mode="edge")
        wide = np.fft.irfft(np.fft.rfft(wide) * (1 + (PAGANIN.width * k) ** 2), 2 * N)
        p = -np.log(np.maximum(wide[..., N // 2 : N // 2 + N], 1e-3))
    data, white, dark = phantoms.counts(p, **how)
    if change is not None:
        change(data, white)
    return phantoms.write_exchange(folder / "s.h5", data, white, dark, T)


def grid(panels, columns, path):
    """Panels (title, image) in rows, all with the grey levels of the phantom."""
    high = 1.1 * phantoms.image(N).max()
    rows = -(-len(panels) // columns)
    with plotting.drawing(path, 1.75 * columns, 1.95 * rows) as made:
        axes = made.subplots(rows, columns, squeeze=False).reshape(-1)
        for ax in axes:
            ax.set_axis_off()
        for ax, (title, image) in zip(axes, panels, strict=False):
            ax.imshow(image, cmap="gray", vmin=-0.1 * high, vmax=high, interpolation="hanning")
            ax.set_title(title, fontsize=8)
    shrink(path)


def shrink(path):
    from PIL import Image

    with Image.open(path) as made:
        small = made.convert("L").quantize(64)
    small.save(path, optimize=True)


def main():
    words = harness.parser(__doc__)
    words.add_argument("--into", type=pathlib.Path, default=harness.ROOT / "docs/images")
    o = words.parse_args()
    into, rows = o.into, []
    true = phantoms.image(N)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)

        def panel(what, path, *more, truth=true):
            found, _ = reconstructed(path, folder, *more)
            correlation = float(phantoms.correlation(found, truth)) if found.any() else None
            rows.append({"picture": what, "options": list(more), "correlation": correlation})
            like = "no image" if correlation is None else f"{correlation:.3f}"
            return f"{what}\n{like}", found

        def dead(data, white):
            data[:, :, 70:72] = white[:, :, 70:72] = 100

        panels = []
        phase = ",".join(f"{getattr(PAGANIN, name):g}" for name in ("pixel", "distance", "energy", "ratio"))
        for what, how, after in (
            ("zingers", {"beam": 1e5, "zingers": 1e-3}, ()),
            ("dead bins", {"beam": 1e5, "change": dead}, ()),
            ("rings", {"beam": 1e5, "rings": 0.05, "share": 0.1}, ()),
            ("no phase", {"beam": 1e5, "rows": 41, "edges": True}, ("--phase", phase)),
            ("cut off", {"beam": 1e5, "scale": 1.4}, ()),
        ):
            path = scan(folder, **how)
            truth = phantoms.image(N, how.get("scale", 1.0))
            one = ("--slices", "20", "--iterations", "12") if "rows" in how else ()
            raw = AS_GIVEN if what != "dead bins" else ("--dead", "none", *AS_GIVEN[:2], *AS_GIVEN[4:])
            panels.append(panel(what, path, *raw, *one, truth=truth))
            panels.append(panel("repaired", path, *after, *one, truth=truth))
        order = [*range(0, len(panels), 2), *range(1, len(panels), 2)]
        grid([panels[i] for i in order], len(panels) // 2, into / "tomography-repairs.png")

        path = scan(folder, beam=300)
        panels = [("phantom\n", true), panel("cgls, 30 iterations", path, "--noise", "none")]
        panels += [panel(f"{m}" + " (default)" * (m == "cgls"), path, "--method", m) for m in ("cgls", "sirt", "sart")]
        panels += [panel(m, path, "--method", m) for m in ("osem", "mlem", "fbp", "tikhonov", "tv")]
        grid(panels, 5, into / "tomography-methods.png")

        path = scan(folder, beam=3000)
        windows = ("ramp", "shepp-logan", "cosine", "hamming", "hann")
        grid([panel(w, path, "--method", "fbp", "--filter", w) for w in windows], 5, into / "tomography-filters.png")

        if importlib.util.find_spec("algotom"):
            path = scan(folder, beam=1e5, rings=0.05)
            rings = ("none", "offset", "sorting", "filtering", "wavelet", "all")
            grid([panel(r, path, "--rings", r) for r in rings], 6, into / "tomography-rings.png")
    harness.write(o.json, "tomography_pictures/1", rows=rows)


if __name__ == "__main__":
    main()
