"""How much slower than the best choice is what `tacit advise` names: by the seconds of whole simulated solves.

    python bench/advise.py [--ranks 16 64 256] [--json FILE]

Matrices of 5-point and 9-point differences, with a wind, and of a log-normal coefficient, on every machine by name. Advice
extrapolates from short solves here (whole=0), as it does on thousands of ranks; "regret" is its choice's seconds over
the least of all candidates', by whole solves. Simulated, all of it.
"""

import numpy as np
import scipy.sparse as sp

import harness
import tacit


def systems():
    yield "5-point 64^2", tacit.poisson((64, 64))
    n = 64
    line = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n))
    wind = sp.diags_array([-0.4, 0.4], offsets=[-1, 1], shape=(n, n))
    one = sp.eye_array(n)
    yield "wind 64^2", sp.csr_array(sp.kron(one, line + wind) + sp.kron(line, one))
    mass = sp.diags_array([1.0, 4.0, 1.0], offsets=[-1, 0, 1], shape=(n, n)) / 6
    yield "9-point 64^2", sp.csr_array(sp.kron(line, mass) + sp.kron(mass, line))
    rng = np.random.default_rng(0)
    scale = sp.diags_array(np.exp(rng.standard_normal(n * n)))
    five = sp.kron(one, line) + sp.kron(line, one)
    yield "coefficient 64^2", sp.csr_array(scale @ five @ scale)


def main():
    parser = harness.parser(__doc__, build=False)
    parser.add_argument("--ranks", type=int, nargs="+", default=[16, 64, 256])
    parser.add_argument("--machines", nargs="+", default=tacit.simulate.machines())
    a = parser.parse_args()
    found = []
    print(f"{'system':18} {'machine':9} {'ranks':>5}  regret  advised; best by whole solves")
    for name, A in systems():
        for machine in a.machines:
            for ranks in a.ranks:
                how = {"ranks": ranks, "machine": machine, "turns": False, "max_iterations": 2000}
                advised = tacit.advise(A, whole=0, **how).best
                whole = tacit.advise(A, whole=10**9, **how)
                if advised is None or whole.best is None:
                    print(f"{name:18} {machine:9} {ranks:5}  none converges")
                    continue
                taken = next(c for c in whole.candidates if c.name == advised.name)
                regret = taken.seconds / whole.best.seconds
                found.append({"system": name, "machine": machine, "ranks": ranks, "regret": regret})
                found[-1] |= {"advised": advised.name, "best": whole.best.name}
                print(f"{name:18} {machine:9} {ranks:5}  {regret:6.3f}  {advised.name}; {whole.best.name}", flush=True)
    worst = max(row["regret"] for row in found)
    print(f"regret: worst {worst:.3f}, mean {np.mean([row['regret'] for row in found]):.3f}, of {len(found)}")
    harness.write(a.json, "advise/1", worst=worst, rows=found)


if __name__ == "__main__":
    main()
