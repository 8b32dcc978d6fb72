"""Effects of 16-bit storage and of reorthogonalised gradients on CGLS: squared residuals with the unrounded matrix, in
one run.

    python bench/papers/003/precision.py --data FOLDER [--sets SL256,ADS1] [--kept 0,1,5]

FOLDER holds tomography/. SLn is the Shepp-Logan phantom with n bins. For every storage format and number of kept gradients, to which later ones are orthogonalised:
|b - A x|^2 after 8, 12, 16, 20 and 24 iterations, then the ratios to float with the same number of kept gradients, and
to double with all gradients kept, which represents exact arithmetic.
"""

import argparse
import pathlib

import acceptance
import numpy as np

from tacit import tomography

STORAGES = (
    {},
    {"values": "float16"},
    {"values": "bfloat16"},
    {"vectors": "float16"},
    {"vectors": "bfloat16"},
    {"values": "float16", "vectors": "float16"},
)


def squares(b, theta, judge, kept, iterations, **options):
    P = tomography.projector(theta, b.shape[-1], **options)
    found = []
    for k in iterations:
        image = tomography.reconstruct(b, projector=P, iterations=k, reorthogonalise=kept).images
        found.append(float(((b - judge.project(image.astype(judge.dtype))).astype(float) ** 2).sum()))
    return np.array(found)


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--data", type=pathlib.Path, required=True)
    words.add_argument("--sets", default="SL256,ADS1")
    words.add_argument("--kept", default="0,1,5")
    o = words.parse_args()
    sets = acceptance.Sets(o.data)
    iterations = range(8, 25, 4)
    for name in o.sets.split(","):
        if name.startswith("SL"):
            n = int(name.removeprefix("SL"))
            theta = acceptance.angles_of(360 * n // 256)
            b = acceptance.sinogram_of_head(n, theta)
        else:
            theta, b = sets.raw(name, 360, 256)
        judge = tomography.projector(theta, b.shape[-1], dtype="float64", format="list")
        exact = squares(b, theta, judge, 24, iterations, dtype="float64")
        print(f"{name}, iterations {', '.join(map(str, iterations))}")
        print(f"  double, all gradients kept: {' '.join(f'{v:.5g}' for v in exact)}", flush=True)
        for kept in map(int, o.kept.split(",")):
            floats = None
            for options in STORAGES:
                found = squares(b, theta, judge, kept, iterations, **options)
                floats = found if floats is None else floats
                what = ", ".join(f"{value} {key}" for key, value in options.items()) or "floats"
                print(
                    f"  {kept} kept, {what}: {' '.join(f'{v:.5g}' for v in found)}; over floats"
                    f" {' '.join(f'{v:.3f}' for v in found / floats)}; over exact {' '.join(f'{v:.3f}' for v in found / exact)}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
