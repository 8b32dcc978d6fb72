"""Counts the matrices whose values are exact in fewer bits, which Tacit then stores (docs/theory/wavefronts.md).

    python bench/exact_values.py FOLDER [--json FILE]

FOLDER holds NAME.mtx or NAME.npz files. Prints how many matrices with real values there are, how many are exact as
float32 and as bfloat16 as a whole, and which more are so in some of their parts of 8,192 rows.
"""

import itertools
import pathlib

import numpy as np

import harness
import real_systems

PART = 8192
BITS = {"float32": 24, "bfloat16": 8}


def exact(values, bits):
    """Whether all values have at most so many bits of mantissa, and are 0 or have the exponent of a normal float32."""
    if not np.isfinite(values).all():
        return False
    fraction, exponent = np.frexp(values)
    whole = np.ldexp(fraction, bits)
    return bool(np.all((values == 0) | ((exponent > -126) & (exponent <= 128) & (whole == np.rint(whole)))))


def in_parts(a, bits):
    ends = [*range(0, a.shape[0], PART), a.shape[0]]
    return [exact(a.data[a.indptr[i] : a.indptr[j]], bits) for i, j in itertools.pairwise(ends)]


def main():
    parser = harness.parser(__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    options = parser.parse_args()
    folder = options.folder
    whole = dict.fromkeys(BITS, 0)
    some = {name: [] for name in BITS}
    count = 0
    for path in sorted(p for p in folder.iterdir() if p.suffix in (".mtx", ".npz")):
        a = real_systems.read(path)
        if a.dtype.kind == "c" or not a.nnz:
            continue
        count += 1
        for name, bits in BITS.items():
            parts = in_parts(a, bits)
            whole[name] += all(parts)
            if any(parts) and not all(parts):
                some[name].append(path.stem)
    for name in BITS:
        names = ", ".join(some[name])
        print(
            f"{name:8}  {whole[name]} of {count} matrices, {len(some[name])} more in parts" + (names and f": {names}")
        )
    rows = [{"storage": name, "matrices": count, "whole": whole[name], "in_parts": len(some[name])} for name in BITS]
    harness.write(options.json, "exact_values", rows=rows)


if __name__ == "__main__":
    main()
