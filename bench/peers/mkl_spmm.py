"""Products of SciPy or MKL (sparse_dot_mkl), one at a time, at the request of another program: a peer for
compare_spmm.py.

    MKL_RT=.../libmkl_rt.so.3 python mkl_spmm.py MATRIX.npz scipy|mkl wall|cpu

MATRIX.npz is a csr matrix of scipy.sparse.save_npz. Reads lines "A K" or "T K" (the transpose, stored) and answers with
the seconds of one product with K columns of float32; "network FOLDER" runs the challenge's network of layer files
l0.npz, .. with pruning and answers with its seconds and number of categories.
"""

import pathlib
import sys
import time

import numpy as np
import scipy.sparse as sp

now = time.perf_counter if sys.argv[3] == "wall" else time.thread_time
if sys.argv[2] == "mkl":
    from sparse_dot_mkl import dot_product_mkl as product
else:

    def product(a, x):
        return a @ x


def read(path):
    a = sp.csr_matrix(sp.load_npz(path))
    return sp.csr_matrix((a.data.astype(np.float32), a.indices.astype(np.int32), a.indptr.astype(np.int32)), a.shape)


matrices, vectors = {}, {}
if sys.argv[1] != "-":
    a = read(sys.argv[1])
    t = a.T.tocsr()
    t.sort_indices()
    matrices = {"A": a, "T": sp.csr_matrix((t.data, t.indices.astype(np.int32), t.indptr.astype(np.int32)), t.shape)}


def network(folder):
    folder = pathlib.Path(folder)
    layers = [read(folder / f"l{k}.npz") for k in range(len(list(folder.glob("l*.npz"))))]
    x = np.ascontiguousarray(np.unpackbits(np.load(folder / "bits.npy"), axis=1).T.astype(np.float32))
    begin, y, alive = now(), x, np.arange(x.shape[1])
    for w in layers:
        y = product(w, y)
        y += np.float32(-0.3)
        np.clip(y, 0, 32, out=y)
        keep = y.any(0)
        if not keep.all():
            y, alive = np.ascontiguousarray(y[:, keep]), alive[keep]
    return now() - begin, len(alive)


print("ready", flush=True)
for line in sys.stdin:
    word, argument = line.split()
    if word == "network":
        print(*network(argument), flush=True)
        continue
    k = int(argument)
    m = matrices[word]
    if (word, k) not in vectors:
        vectors[word, k] = np.random.default_rng(0).random((m.shape[1], k) if k > 1 else m.shape[1], np.float32)
        product(m, vectors[word, k])
    begin = now()
    product(m, vectors[word, k])
    print(now() - begin, flush=True)
