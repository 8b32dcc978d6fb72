"""Residuals of GMRES(60) and its pipelined and s-step variants, as in Fig. 9 of the paper on pipelined CA-GMRES.

    python bench/papers/001/convergence.py [--n 512] [--restart 60] [--iterations 600] [--ranks 4] [--out FOLDER]

2D five-point Laplacian on n x n points, b = 1, without fallbacks. Left panel: no preconditioner; right panel: a sparse
approximate inverse of each rank's own block. Draws convergence.png, writes convergence.json, and prints for each method
the recomputed residual and the distance of its history from that of gmres with two rounds of Gram-Schmidt. (Paper: 12
processes; equal convergence per iteration, stability lost earlier with a deep pipeline than with a long step, both fine
at 10.)
Source: Yamazaki, Hoemmen, Luszczek, Dongarra 2017, doi 10.1109/IPDPSW.2017.65.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import matplotlib
import numpy as np
import scipy.sparse as sp

matplotlib.use("Agg")
import matplotlib.pyplot as plt

METHODS = {
    "gmres, twice orthogonalised": ["--method", "gmres", "--orthogonalisation", "cgs2"],
    "gmres": ["--method", "gmres"],
    "pipelined-gmres, l = 2": ["--method", "pipelined-gmres", "--depth", "2"],
    "pipelined-gmres, l = 5": ["--method", "pipelined-gmres", "--depth", "5"],
    "pipelined-gmres, l = 10": ["--method", "pipelined-gmres", "--depth", "10"],
    "ca-gmres, s = 5": ["--method", "ca-gmres", "--step", "5"],
    "ca-gmres, s = 10": ["--method", "ca-gmres", "--step", "10"],
    "ca-gmres, s = 10, monomial": ["--method", "ca-gmres", "--step", "10", "--basis", "monomial"],
    "pipelined-ca-gmres, (2, 5)": ["--method", "pipelined-ca-gmres", "--depth", "2", "--block", "5"],
    "pipelined-ca-gmres, (2, 5), tau": [
        "--method",
        "pipelined-ca-gmres",
        "--depth",
        "2",
        "--block",
        "5",
        "--tau",
        "8e-3",
    ],
}


def laplacian(n):
    line = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n))
    return sp.csr_array(sp.kronsum(line, line))


def solve(matrix, words, options, precond):
    command = [
        sys.executable, "-m", "tacit", "solve", matrix, *words, "--precond", precond, "--restart", options.restart, "--rtol", "1e-14",
        "--max-iterations", options.iterations, "--ranks", options.ranks, "--threads", 1, "--no-fallbacks", "--json", "-",
    ]  # fmt: skip
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if done.returncode not in (0, 3):
        raise SystemExit(f"{' '.join(map(str, command))} failed with {done.returncode}:\n{done.stderr}")
    return json.loads(done.stdout)


def run(k, name, words, matrix, options, precond, axes, below, reference):
    """Solves with method k, prints and draws; returns its history and its row."""
    one = solve(matrix, words, options, precond)
    history = np.array(one["history"], dtype=float)
    reference = history if reference is None else reference
    common = min(len(history), len(reference))
    difference = np.abs(history[:common] / reference[:common] - 1)
    apart = float(np.max(difference))
    print(
        f"{name:34} {one['iterations']:5} iterations  {one['residual_norm']:.6e}  history apart by {apart:.1e}"
        f"  {one['counts']['reductions']:5} sums  {one['reason']}",
        flush=True,
    )
    row = {
        "precond": precond,
        "name": name,
        "iterations": one["iterations"],
        "reason": one["reason"],
        "residual": one["residual_norm"],
        "apart": apart,
        "reductions": one["counts"]["reductions"],
        "history": history[:: max(1, len(history) // 200)].tolist(),
    }
    every = max(1, len(history) // 12)  # shifted markers, because the curves coincide
    look = {
        "lw": 1,
        "color": f"C{k}",
        "marker": "osD^v<>Phx"[k],
        "ms": 4,
        "markevery": (k * every // len(METHODS), every),
    }
    axes.semilogy(history, label=name, **look)
    if k:
        below.semilogy(np.maximum(difference, 1e-16), **look)
    return history, row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=512)
    parser.add_argument("--restart", type=int, default=60)
    parser.add_argument("--iterations", type=int, default=600)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/papers/001"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    results = []
    figure, panels = plt.subplots(2, 2, figsize=(11, 7.5), sharex=True, sharey="row", constrained_layout=True)
    with tempfile.TemporaryDirectory() as folder:
        matrix = pathlib.Path(folder) / "laplacian.npz"
        sp.save_npz(matrix, laplacian(options.n))
        for (axes, below), precond in zip(panels.T, ("none", "spai"), strict=True):
            reference = None
            print(f"\n{options.n}^2, GMRES({options.restart}), precond {precond}, {options.ranks} ranks")
            for k, (name, words) in enumerate(METHODS.items()):
                history, row = run(k, name, words, matrix, options, precond, axes, below, reference)
                reference = history if reference is None else reference
                results.append(row)
            axes.set_title(
                "no preconditioner" if precond == "none" else "sparse approximate inverse of each rank's block"
            )
            below.set_xlabel("iteration")
            axes.grid(alpha=0.3)
            below.grid(alpha=0.3)
    panels[0][0].set_ylabel("||r|| / ||b||")
    panels[1][0].set_ylabel("relative distance from the first")
    panels[0][0].legend(fontsize=7.5, loc="lower left")
    figure.suptitle(f"GMRES({options.restart}), five-point Laplacian {options.n} x {options.n}, {options.ranks} ranks")
    figure.savefig(options.out / "convergence.png", dpi=130)
    whole = {
        "schema": "tacit.bench.papers.001.convergence/1",
        "n": options.n,
        "restart": options.restart,
        "ranks": options.ranks,
        "rows": results,
    }
    (options.out / "convergence.json").write_text(json.dumps(whole, indent=1) + "\n")
    print(f"\n{options.out / 'convergence.png'}")


if __name__ == "__main__":
    main()
