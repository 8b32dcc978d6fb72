"""What repairs and padding do to simulated scans: correlation of images with the truth, before and after.

    python bench/tomography_repairs.py [--bins 256] [--json FILE]

A phantom of ellipses (tests/python/scans_of_phantoms.py), exact projections, counts with photon noise, 10 white and
dark frames; pixels that all projections see. "as given": no repairs, no padding, one pixel for each bin; "12", "30": so
many iterations of CGLS whatever the noise; "default": what `tacit reconstruct` does, which ends at the noise; other
methods; then 12 iterations with rings of algotom, where it is installed (--rings none leaves these out).
"""

import contextlib
import importlib.util
import io
import json
import pathlib
import sys
import tempfile

import harness

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests/python"))
import numpy as np
import scans_of_phantoms as phantoms

WHATEVER = ["--noise", "none", "--iterations"]
AS_GIVEN = ["--zingers", "none", "--dead", "none", "--rings", "none", "--pad", "none"]


def reconstructed(path, folder, *words):
    from tacit import cli

    out, facts = folder / "o.npy", folder / "o.json"
    command = ["reconstruct", path, "--output", out, "--json", facts, "--threads", "2", *words]
    with contextlib.redirect_stdout(io.StringIO()):
        if cli.main([str(word) for word in command]) not in (0, 3):
            raise SystemExit(f"{command} failed")
    return np.load(out)[0], json.loads(facts.read_text())


def cases(n):
    """(what, angles, axis, scale, body, counts) of each scan."""
    half, turn = phantoms.half_turn(360), 2 * phantoms.half_turn(360)
    scale = n / 128
    spoilt = {"rings": 0.05, "zingers": 2e-4}
    yield "no defects, 1e6 counts", half, n / 2, scale, phantoms.BODY, {"beam": 1e6}
    yield (
        "rings in 5 % of bins, zingers, 1e6 counts",
        half,
        n / 2,
        scale,
        phantoms.BODY,
        spoilt | {"beam": 1e6, "share": 0.05},
    )
    yield "rings in all bins, zingers, 1e6 counts", half, n / 2, scale, phantoms.BODY, spoilt | {"beam": 1e6}
    yield "the same, 1e4 counts", half, n / 2, scale, phantoms.BODY, spoilt | {"beam": 1e4}
    yield "the same, 100 counts", half, n / 2, scale, phantoms.BODY, spoilt | {"beam": 100}
    yield "a tube about the axis, no defects", half, n / 2, scale, phantoms.TUBE, {"beam": 1e6}
    yield (
        "the tube, rings in 5 % of bins, zingers",
        half,
        n / 2,
        scale,
        phantoms.TUBE,
        spoilt | {"beam": 1e6, "share": 0.05},
    )
    yield (
        "360 degrees, rings in 5 % of bins, zingers, 1e4",
        turn,
        n / 2 - 4.7,
        scale,
        phantoms.BODY,
        spoilt | {"beam": 1e4, "share": 0.05},
    )
    yield "sample of 1.2 detectors", half, n / 2, 1.4 * scale, phantoms.BODY, {"beam": 1e5}
    yield "sample of 1.7 detectors", half, n / 2, 2.0 * scale, phantoms.BODY, {"beam": 1e5}
    yield "half acquisition", turn, n * 0.19, 1.75 * scale, phantoms.BODY, {"beam": 1e5}


def main():
    words = harness.parser(__doc__)
    words.add_argument("--bins", type=int, default=256)
    words.add_argument("--rings", choices=("all", "none"), default="all")
    o = words.parse_args()
    ways = {
        "as given": [*WHATEVER, "12", *AS_GIVEN],
        "12": [*WHATEVER, "12"],
        "30": [*WHATEVER, "30"],
        "default": [],
        **{name: ["--method", name] for name in ("fbp", "sart", "mlem", "tikhonov", "tv")},
    }
    if o.rings == "all" and importlib.util.find_spec("algotom"):
        ways |= {name: [*WHATEVER, "12", "--rings", name] for name in ("sorting", "filtering", "wavelet", "all")}
    print(f"{'':45s}" + "".join(f"{way:>11s}" for way in ways), "  axis off by")
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for what, t, axis, scale, body, how in cases(o.bins):
            p = phantoms.sinogram(t, o.bins, axis, scale, body)[:, None]
            path = phantoms.write_exchange(folder / "s.h5", *phantoms.counts(p, **how), t)
            row, off = {}, "refused"
            with contextlib.suppress(SystemExit), contextlib.redirect_stderr(io.StringIO()):
                _, facts = reconstructed(path, folder, "--centre", "auto", "--iterations", "1")
                off = f"{facts['centre'] - axis:+.2f} +- {facts['centre_uncertainty']:.2f}"
            for way, more in ways.items():
                found, _ = reconstructed(path, folder, "--centre", axis, *more)
                row[way] = phantoms.correlation(found, phantoms.image(len(found), scale, body))
            rows.append({"scan": what, "axis": off, **row})
            print(f"{what:45s}" + "".join(f"{value:11.4f}" for value in row.values()), f"  {off}", flush=True)
    harness.write(o.json, "tomography_repairs/1", bins=o.bins, rows=rows)


if __name__ == "__main__":
    main()
