"""Krylov solvers on the 2-D Poisson problem: the library's, a user's Python loop, unfused; and PETSc beside them.

    diffuse run -n 2 benchmarks/bench_krylov.py [--petsc COMMAND]

PETSc is run between our own rounds, where a command is given that starts it on as many ranks, as in

    --petsc "env PETSC_DIR=/usr/lib/petscdir/petsc3.18/x86_64-linux-gnu-real PATH=/usr/bin:/bin OMP_NUM_THREADS=1 \\
        mpirun -n 2 python3 benchmarks/peer_petsc.py"

(Debian: `apt-get install python3-petsc4py python3-scipy`).  No solver is preconditioned.
"""

from __future__ import annotations

import statistics
import sys
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

import cg
from common import copying, given, medians, outside, report, slowest, together
from poisson import laplacian

import diffuse_trace as diffuse
import diffuse_trace.numpy as np
import diffuse_trace.sparse as sparse
from diffuse_trace import config, recording
from diffuse_trace.sparse import linalg

warnings.simplefilter("ignore")
GRIDS = {64: 2000, 256: 500, 1000: 60, 2000: 20}
petsc = given("--petsc")
ROUNDS = 3


def library(method: str, a, b, iterations: int) -> float:
    """Seconds an iteration."""
    together()
    start = time.perf_counter()
    getattr(linalg, method)(a, b, rtol=0, atol=0, maxiter=iterations)
    return slowest(time.perf_counter() - start) / linalg.last_result().iterations


def users(a, b, iterations: int):
    """The loop of `examples/cg.py`."""
    advance = diffuse.jit(lambda *s: cg.iterate(np, a, *s))
    state = [cg.start(np, a, b)]

    def run() -> None:
        for _ in range(iterations):
            state[0] = advance(*state[0])
        recording.flush()

    return run


rows, targets = [], []
for method in ("cg", "bicgstab"):
    for grid, iterations in GRIDS.items():
        a, b = laplacian(sparse, grid, 2), np.ones(grid * grid)
        library(method, a, b, iterations)
        mine, theirs = [], []
        for _ in range(ROUNDS):
            mine.append(library(method, a, b, iterations))
            if petsc:
                theirs.append(outside([*petsc, str(grid), str(iterations), method]))
        ours, other = statistics.median(mine), statistics.median(theirs) if petsc else 0.0
        beside = f", PETSc {other * 1e6:9.1f} us" if petsc else ""
        rows.append((f"{method}, grid {grid}", f"{ours * 1e6:9.1f} us an iteration{beside}"))
        if petsc:
            targets.append((f"PETSc / ours, {method}, grid {grid}", other / ours, ">=", 2 if grid <= 256 else 1.3))

a, b = laplacian(sparse, 1000, 2), np.ones(1_000_000)
loop = users(a, b, 200)
loop()  # long enough for its calls to be batched
subjects = {"user's loop": loop, "library": lambda: linalg.cg(a, b, rtol=0, atol=0, maxiter=200)}


def unfused() -> None:
    with config.override(fuse="0"):
        linalg.cg(a, b, rtol=0, atol=0, maxiter=200)


subjects["unfused"] = unfused
times = {name: t / 200 for name, t in medians(subjects, 5).items()}
n = 4_000_000 // diffuse.ranks()
stream = 16 * n / medians({"copy": copying((n,))}, 7)["copy"]
moved = 97 * 1_000_000 / diffuse.ranks()  # bytes an iteration must move: 12 vectors and a byte of the matrix a row
rows += [(f"{name}, cg, grid 1000", f"{t * 1e6:9.1f} us an iteration") for name, t in times.items()]
targets += [
    ("user's loop / library, grid 1000", times["user's loop"] / times["library"], "<=", 1.15),
    ("unfused / fused, grid 1000", times["unfused"] / times["library"], ">=", 1.3),
    ("bandwidth of an iteration / stream copy", moved / times["library"] / stream, ">=", 0.85),
]
report(f"Krylov solvers on {diffuse.ranks()} ranks", rows, targets)
