"""How far `tacit.tomography.find_centre` is from the true axis, by angles and photon noise; docs/notes/tomography.md.

Phantoms are ellipses at random places, with exact projections averaged over bins; the axis is at random. Prints, for
each case, the largest error of the axes that were accepted in silence, and how many came with a warning or not at all.
"""

from __future__ import annotations

import pathlib
import sys
import warnings

import numpy as np

import harness

sys.path.insert(0, str(harness.ROOT / "python"))
from tacit import tomography

STEP = np.pi * (5**0.5 - 1) / 2  # golden angle


def phantom(rng, n):
    """Ellipses (x, y, radii, direction, value): one body with holes and dense parts, or a few separate bodies."""
    reach = n * rng.uniform(0.25, 0.38)
    body = rng.random() < 0.6
    parts = [(0.0, 0.0, reach, reach * rng.uniform(0.6, 1), rng.uniform(0, np.pi), 1.0)] if body else []
    for _ in range(rng.integers(2, 7)):
        r, direction = reach * (0.55 if body else 0.8) * np.sqrt(rng.random()), rng.uniform(0, 2 * np.pi)
        radii = reach * rng.uniform(0.04, 0.25, 2)
        value = rng.uniform(-0.8, 1.5) if body else rng.uniform(0.3, 1.5)
        parts.append((r * np.cos(direction), r * np.sin(direction), *radii, rng.uniform(0, np.pi), value))
    return parts


def sinogram(parts, t, n, centre, counts, rng, peak=1.5, scale=1.0):
    u = (np.arange(4 * n) + 0.5) / 4 - centre
    p = np.zeros((len(t), 4 * n))
    for part in parts:
        x, y, a, b = (scale * v for v in part[:4])
        half = np.hypot(a * np.cos(t - part[4]), b * np.sin(t - part[4]))[:, None]
        along = u - (x * np.cos(t) + y * np.sin(t))[:, None]
        p += 2 * part[5] * a * b / half**2 * np.sqrt(np.maximum(half**2 - along**2, 0))
    p = p.reshape(len(t), n, 4).mean(2)
    p *= peak / p.max()
    return p if counts is None else -np.log(np.maximum(rng.poisson(counts * np.exp(-p)), 0.5) / counts)


def orders(count):
    half = np.arange(count) * np.pi / count
    even = {f"{d} degrees": half * d / 180 for d in (90, 120, 150, 180, 200, 270, 300, 360)}
    golden = np.arange(count) * STEP
    return even | {"180, shuffled": half, "golden angle": golden % np.pi, "golden, whole turn": golden % (2 * np.pi)}


def measure(name, t, n, counts, rounds, half=False):
    """(largest error of axes without warning, how many were warned of, how many refused, largest error / uncertainty)."""
    errors, ratios, warned, refused = [0.0], [0.0], 0, 0
    for seed in range(rounds):
        rng = np.random.default_rng(seed)
        centre = n * rng.uniform(0.1, 0.2) if half else n / 2 + n * rng.uniform(-0.1, 0.1)
        angles = rng.permutation(t) if "shuffled" in name else t
        s = sinogram(phantom(rng, n), angles, n, centre, counts, rng, scale=1.6 if half else 1.0)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                found = tomography.find_centre(s, angles)
            except ValueError:
                refused += 1
                continue
        if caught:
            warned += 1
        else:
            errors.append(abs(found - centre))
        ratios.append(abs(found - centre) / found.uncertainty)
    return max(errors), warned, refused, max(ratios)


def real(folder):
    """Axes found in measured scans, with what others found."""
    rows = []
    for name, (angles, bins), other in (
        ("ADS1", (360, 256), 128),
        ("ADS2", (750, 512), 256),
        ("CDS1", (750, 512), 256),
    ):
        if (folder / f"{name}_sinogram.bin").exists():
            s = np.fromfile(folder / f"{name}_sinogram.bin", "<f4").reshape(angles, bins)
            rows.append((name, tomography.find_centre(s, np.fromfile(folder / f"{name}_theta.bin", "<f4")), other))
    if (folder / "tooth.h5").exists():
        from tacit.app import scans

        scan = scans.DataExchange(str(folder / "tooth.h5"))
        rows += [
            (f"tooth, slice {i}", tomography.find_centre(scan.read(i, i + 1)[0], scan.angles), 296) for i in (0, 1)
        ]
    return rows


def main():
    a = harness.parser(__doc__, rounds=10)
    a.add_argument("--bins", type=int, nargs="+", default=[128, 512])
    a.add_argument("--orders", nargs="+", help="parts of the names of cases")
    a.add_argument("--data", type=pathlib.Path, default=harness.ROOT.parent / "shared" / "data" / "tomography")
    o = a.parse_args()
    levels = (None, 1000, 300, 100)
    print(f"largest error in bins (warned, refused of {o.rounds}); columns: counts of the beam, none: no noise")
    for n in o.bins:
        cases = [(name, t, False) for name, t in orders(180 if n <= 128 else 360).items()]
        cases.append(("half acquisition", orders(360)["360 degrees"], True))
        for name, t, half in cases:
            if o.orders and not any(part in name for part in o.orders):
                continue
            cells = []
            for counts in levels:
                error, warned, refused, _ = measure(name, t, n, counts, o.rounds, half)
                cells.append("-" if warned + refused == o.rounds else f"{error:.3f}")
                cells[-1] += f" ({warned}, {refused})" if warned + refused else ""
            print(f"| {n} | {name} | " + " | ".join(cells) + " |", flush=True)
    for name, found, other in real(o.data):
        print(f"| {name} | {found:.2f} +- {found.uncertainty:.2g} | {other} |")


if __name__ == "__main__":
    main()
