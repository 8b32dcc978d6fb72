"""Tiled products and the sparse network compared with SciPy and MKL, in alternating runs.

    python bench/compare_spmm.py [--peer-python PYTHON] [--size 256] [--angles 360] [--columns 1,16,32] [--rounds 5]
                                 [--threads N] [--cpu] [--network DATA] [--json FILE]

--peer-python: a Python with sparse_dot_mkl and mkl; without it, only SciPy. --cpu: CPU seconds on one thread each,
which are comparable on a busy machine; otherwise wall time on --threads threads. --network: the folder with
radixnet_1024.py and mnist_train.npz. Prints the best of the rounds and the ratio to the peer. Products are timed as a
user writes them (A @ X, A.H @ Y); "kernel" is only the part below the handling of arrays. Finally the gain of many
columns at once for composed operators.
"""

import functools
import glob
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np
import scipy.sparse as sp

import harness
import tacit
from tacit import inference, tomography

HERE = pathlib.Path(__file__).parent


class Peer:
    def __init__(self, python, which, matrix, clock, threads):
        environment = os.environ | {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
        prefix = pathlib.Path(python).absolute().parent.parent
        for library in glob.glob(str(prefix / "lib" / "libmkl_rt.so*")):
            environment["MKL_RT"] = library
        environment.pop("PYTHONPATH", None)
        self.process = subprocess.Popen(
            [python, str(HERE / "peers/mkl_spmm.py"), str(matrix), which, clock],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip
        if self.process.stdout.readline().strip() != "ready":
            raise SystemExit(f"the peer {which} did not start")

    def answer(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return [float(word) for word in self.process.stdout.readline().split()]

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def timed(now, f):
    begin = now()
    f()
    return now() - begin


def many_columns(A, k, rounds, now):
    """Seconds of A, A^H, A^T, A^H A, sums and a stencil times the k columns of an array, at once and one by one."""
    a = sp.random_array((200_000, 200_000), density=5e-5, rng=np.random.default_rng(0), format="csr")
    C, S = tacit.csr(a + 3 * sp.eye_array(200_000)), tacit.poisson((64, 64, 64))
    operators = {"tiled A": A, "tiled A.H": A.H, "tiled A.T": A.T, "tiled A.H @ A": A.H @ A}
    operators |= {"csr A": C, "csr A.T": C.T, "csr A.H @ A": C.H @ C, "csr 2 A - A.T": 2 * C - C.T}
    operators |= {"stencil": S, "stencil shifted": S.shifted(1.0)}
    found = {}
    for name, operator in operators.items():
        x = np.random.default_rng(0).random((operator.shape[1], k)).astype(operator.dtype)
        ways = {"at once": lambda A=operator, x=x: A @ x}
        ways["one by one"] = lambda A=operator, x=x: [A @ x[:, c] for c in range(k)]
        times = harness.turns(rounds, {way: functools.partial(timed, now, f) for way, f in ways.items()})
        found[name] = best = [min(seconds) for seconds in times.values()]
        print(
            f"{name:16s} k {k}: {best[0] * 1e3:8.2f} ms at once, {best[1] / best[0]:5.2f} times that one by one",
            flush=True,
        )
    return found


def products(o, ours, peers, rival, nnz, now):
    """Gflop/s of A and A^T times k columns, of ours and of the peers."""
    found, some = [], next(iter(ours.values()))
    for k in map(int, o.columns.split(",")):
        for way in ("A", "T"):
            rng = np.random.default_rng(0)
            x = rng.random((some.shape[1 if way == "A" else 0], k), np.float32)
            runs = {name: lambda peer=peer, answer=f"{way} {k}": peer.answer(answer)[0] for name, peer in peers.items()}
            for name, operator in ours.items():
                product = operator if way == "A" else operator.H
                runs[name] = functools.partial(timed, now, functools.partial(product.__matmul__, x))
            runs["list kernel"] = functools.partial(some._handle.time_product, x, way == "T", o.cpu)
            best = {name: min(seconds) for name, seconds in harness.turns(o.rounds, runs).items()}
            rates = {name: 2e-9 * nnz * k / s for name, s in best.items()}
            line = ", ".join(
                f"{n if isinstance(n, str) else ' '.join(n)} {r:.1f} ({r / rates[rival]:.2f})" for n, r in rates.items()
            )
            print(f"k {k:3d} {'A  ' if way == 'A' else 'A^T'}: {line}", flush=True)
            found.append(
                {"columns": k, "way": way} | {n if isinstance(n, str) else " ".join(n): r for n, r in rates.items()}
            )
    return found


def network(o, folder, python, rival, clock, threads, now):
    """Seconds of the challenge's network of 1024 neurons, by the rival and by Tacit."""
    sys.path.insert(0, o.network)
    import radixnet_1024 as official

    classes = official.row_classes()
    bits = np.packbits(official.images(), axis=1)
    np.save(pathlib.Path(folder) / "bits.npy", bits)
    for layer in range(120):
        sp.save_npz(
            pathlib.Path(folder) / f"l{layer}.npz", sp.csr_array(inference.radixnet_layer(layer, classes=classes).T)
        )
    net = inference.radixnet(classes=classes)
    peer = Peer(python, rival, "-", clock, threads)
    best = {rival: 1e9, "tacit": 1e9}
    for _ in range(2):
        seconds, categories = peer.answer(f"network {folder}")
        best[rival] = min(best[rival], seconds)
        for _ in range(2):
            begin = now()
            r = net.infer(bits, packed=True)
            best["tacit"] = min(best["tacit"], now() - begin)
    peer.end()
    print(
        f"network 1024 x 120: {rival} {best[rival]:.3f} s, tacit {best['tacit']:.3f} s ({best[rival] / best['tacit']:.2f}),"
        f" {r.edges / best['tacit'] / 1e9:.0f} G edges/s, {int(categories)} and {len(r.categories)} categories"
    )
    return {"network": best}


def main():
    words = harness.parser(__doc__, rounds=5, threads=len(os.sched_getaffinity(0)))
    words.add_argument("--peer-python")
    words.add_argument("--size", type=int, default=256)
    words.add_argument("--angles", type=int, default=360)
    words.add_argument("--columns", default="1,16,32")
    words.add_argument("--cpu", action="store_true")
    words.add_argument("--network")
    o = words.parse_args()
    clock, threads = ("cpu", 1) if o.cpu else ("wall", o.threads)
    now = time.thread_time if o.cpu else time.perf_counter
    tacit._core.set_threads(threads)
    angles = (np.arange(o.angles) * np.pi / o.angles).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "a.npz"
        ours = {
            (values, layout): tomography.projector(angles, o.size, values=values, format=layout).operator
            for values in ("full", "float16")
            for layout in ("list", "bitmap")
        }
        some = next(iter(ours.values()))
        ours["computed"] = tomography.projector(angles, o.size, format="computed").operator
        a = some.to_scipy()
        a.sort_indices()
        sp.save_npz(file, a, compressed=False)
        nnz = a.nnz
        del a
        python = o.peer_python or sys.executable
        peers = {"scipy": Peer(python, "scipy", file, clock, threads)}
        if o.peer_python:
            peers["mkl"] = Peer(python, "mkl", file, clock, threads)
        rival = "mkl" if "mkl" in peers else "scipy"
        print(f"{nnz:,} entries, {threads} threads, {clock}; Gflop/s (ratio to {rival})")
        found = products(o, ours, peers, rival, nnz, now)
        for peer in peers.values():
            peer.end()
        found.append({"many columns": many_columns(some, max(map(int, o.columns.split(","))), o.rounds, now)})
        if o.network:
            file.unlink()
            found.append(network(o, folder, python, rival, clock, threads, now))
    harness.write(o.json, "spmm/1", rows=found)


if __name__ == "__main__":
    main()
