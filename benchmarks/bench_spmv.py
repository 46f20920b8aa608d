"""One sparse product, as a decorated function, on one core against SciPy's CSR.

    diffuse run -n 1 --threads 1 benchmarks/bench_spmv.py

Poisson problems, linear and quadratic finite elements on an unstructured mesh of a disc (scikit-fem), a power-law graph
and random rows.  Also what it takes to build a matrix from 10 million triples, and to multiply two.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy
import scipy.sparse

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

import fem
from common import medians, report
from poisson import laplacian

import diffuse_trace as diffuse
import diffuse_trace.numpy as np
import diffuse_trace.sparse as sparse
from diffuse_trace import recording

rng = numpy.random.default_rng(0)


def graph():
    """A power-law graph: a million rows, 16 elements each on average, the longest above 10 000."""
    lengths = numpy.minimum(4 + (rng.pareto(1.3, 1_000_000) * 4).astype(int), 20_000)
    rows = numpy.repeat(numpy.arange(1_000_000), lengths)
    columns = rng.integers(0, 1_000_000, len(rows))
    return scipy.sparse.csr_array((rng.random(len(rows)), (rows, columns)), shape=(1_000_000, 1_000_000))


def uneven():
    """Rows of 1 to 50 elements anywhere."""
    rows = numpy.repeat(numpy.arange(400_000), rng.integers(1, 51, 400_000))
    return scipy.sparse.csr_array((rng.random(len(rows)), (rows, rng.integers(0, 400_000, len(rows)))))


CASES = {
    "Poisson, 2-D": (lambda: laplacian(scipy.sparse, 1000, 2), 1.25),
    "Poisson, 3-D": (lambda: laplacian(scipy.sparse, 100, 3), 1.25),
    "P1 elements": (lambda: scipy.sparse.csr_array(fem.disc(8, "P1")[0]), 1.25),
    "P2 elements": (lambda: scipy.sparse.csr_array(fem.disc(7, "P2")[0]), 1.25),
    "power-law graph": (graph, 0.95),
    "random rows": (uneven, 0.95),
}
rows, targets = [], []
for name, (make, limit) in CASES.items():
    host = make()
    x = rng.random(host.shape[1])
    ours, vector = sparse.csr_array(host), np.asarray(x)

    def scipys(host=host, x=x):
        host @ x

    kept = []
    step = diffuse.jit(lambda x, ours=ours: ours @ x)

    def product(step=step, vector=vector, kept=kept):
        kept[:] = [step(vector)]
        recording.flush()

    def plain(ours=ours, vector=vector, kept=kept):
        kept[:] = [ours @ vector]
        recording.flush()

    t = medians({"ours": product, "plain": plain, "scipy": scipys}, 25)
    assert numpy.allclose(numpy.asarray(kept[0]), host @ x), name
    each = ", ".join(f"{what} {t[key] * 1e3:.2f}" for key, what in (("plain", "undecorated"), ("scipy", "SciPy")))
    rows.append((f"{name}, {host.nnz} elements", f"{t['ours'] * 1e3:8.2f} ms, {each}"))
    targets.append((f"SciPy / ours, {name}", t["scipy"] / t["ours"], ">=", limit))

n = 10_000_000
triples = rng.random(n), (rng.integers(0, 1_000_000, n), rng.integers(0, 1_000_000, n))
square = laplacian(scipy.sparse, 700, 2)
mine = sparse.csr_array(square)
t = medians(
    {
        "build": lambda: sparse.coo_array(triples, shape=(1_000_000, 1_000_000)).tocsr(),
        "scipy's build": lambda: scipy.sparse.coo_array(triples, shape=(1_000_000, 1_000_000)).tocsr(),
        "A @ B": lambda: mine @ mine,
        "scipy's A @ B": lambda: square @ square,
    },
    3,
)
rows += [(name, f"{seconds * 1e3:8.1f} ms") for name, seconds in t.items()]
targets += [
    ("building from 10 M triples / SciPy", t["build"] / t["scipy's build"], "<=", 3),
    ("A @ B / SciPy", t["A @ B"] / t["scipy's A @ B"], "<=", 1.5),
]
report("sparse products, one core", rows, targets)
