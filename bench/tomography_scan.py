"""A scan reconstructed by `tacit reconstruct`, one slice and many: seconds of building and solving, memory, beside what is wanted.

    python bench/tomography_scan.py SINOGRAM.bin THETA.bin ANGLES DETECTORS [--slices 1,32] [--iterations 24] [--options "..."]

The files are raw float32; the one slice is repeated. Wanted of CDS1 (750 x 512, 235 M entries, 24 iterations of CGLS, two
processors): build 3.5 s, 2.9 GB, one slice 1.8 s, 32 slices 14 s.
"""

import argparse
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

import numpy as np


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("sinogram")
    words.add_argument("theta")
    words.add_argument("angles", type=int)
    words.add_argument("detectors", type=int)
    words.add_argument("--slices", default="1,32")
    words.add_argument("--iterations", default="24")
    words.add_argument("--options", default="")
    o = words.parse_args()
    one = np.fromfile(o.sinogram, "<f4")
    python = pathlib.Path(__file__).parent.parent / "python"
    environment = os.environ | {"PYTHONPATH": str(python)}
    for slices in map(int, o.slices.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            many = pathlib.Path(folder) / "many.bin"
            np.tile(one, slices).tofile(many)
            command = [sys.executable, "-m", "tacit", "reconstruct", "--sinogram", str(many), "--theta", o.theta]
            command += ["--shape", f"{o.angles},{o.detectors}", "--iterations", o.iterations, "--json", "-"]
            done = subprocess.run([*command, *shlex.split(o.options)], env=environment, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stderr)
        r = json.loads(done.stdout)
        s = r["seconds"]
        print(
            f"{slices:3d} slices, {r['nonzeros']:,} entries ({r['storage']}): build {s['build']:.2f} s, solve"
            f" {s['solve']:.2f} s, {r['peak_memory_bytes'] / 1e9:.2f} GB, |b - A x|^2 {r['residual'][0] ** 2:.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
