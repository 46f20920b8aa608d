"""Peak memory of a time loop, against the arrays the user holds plus one spare for each shape.

diffuse run -n 1 benchmarks/bench_memory.py 4000
diffuse run -n 2 benchmarks/bench_memory.py 4000
"""

from __future__ import annotations

import sys

import numpy
from common import report, slowest

import diffuse_trace as diffuse
import diffuse_trace.numpy as np
from diffuse_trace import recording

n = next((int(a) for a in sys.argv[1:] if a.isdigit()), 4000)


@diffuse.jit
def step(u, rate):
    change = rate * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1])
    u[1:-1, 1:-1] += change
    return np.abs(change).max()


def resident(field: str) -> int:
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(field))


small = np.ones((64, 64))
float(step(small, 0.2))  # JAX, MPI and the compiler are in memory
base = resident("VmRSS")
u = np.ones((n, n))
v = np.ones((n, n))
recording.flush()
for _ in range(50):
    step(u, 0.2)
    step(v, 0.1)
numpy.asarray(u[0, 0])
peak = resident("VmHWM") - base
share = 8 * n * n / diffuse.ranks()
report(
    f"peak memory of a loop over two arrays of {n} x {n} float64, {diffuse.ranks()} ranks",
    [("of a rank", f"{slowest(peak) / 1e6:.0f} MB"), ("its share of one array", f"{share / 1e6:.0f} MB")],
    [("peak / (two arrays + one spare)", slowest(peak) / (3 * share), "<=", 1.1)],
)
