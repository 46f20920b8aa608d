"""The channel flow, whose step repeats its pressure iteration.

    diffuse run -n 2 benchmarks/bench_channel.py [SIZE]

What more repeats cost to compile, and a step's time beside what its bytes take.
"""

from __future__ import annotations

import os

os.environ["DIFFUSE_CACHE"] = "0"

import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

import channel_flow
from common import copying, medians, report, slowest, together

import diffuse_trace as diffuse
import diffuse_trace.numpy as np
from diffuse_trace import recording

SIZE = int(sys.argv[1]) if len(sys.argv) > 1 else 2048
FEW, MANY = 5, 50
WORD = 8
#: Words a cell that a step must move: velocities in, source out; the fields in, velocities out; and each
#: iteration of the pressure reads it and the source, and writes it.
REST, AN_ITERATION = 3 + 5, 3


def stepping(size: int, iterations: int):
    """A step that nothing has been compiled for: plans are kept for each size."""
    fields, h = channel_flow.fields(np, size), 2 / (size - 1)
    advance = diffuse.jit(lambda u, v, p, dt, h: channel_flow.step(u, v, p, dt, h, iterations))

    def run() -> None:
        advance(*fields, 0.1 * h * h / 0.4, h)
        recording.flush()

    return run


def first(size: int, iterations: int) -> float:
    """Seconds of the first call."""
    run = stepping(size, iterations)
    together()
    start = time.perf_counter()
    run()
    return slowest(time.perf_counter() - start)


first(130, FEW)  # what only the first program pays for
few, many = [], []
for size in range(140, 200, 10):
    few.append(first(size, FEW))
    many.append(first(size + 4, MANY))

rows = SIZE // diffuse.ranks()
seconds = medians({"step": stepping(SIZE, MANY), "copy": copying((rows, SIZE + 2))}, 7)
bandwidth = 2 * WORD * SIZE * (SIZE + 2) / seconds["copy"]
model = WORD * SIZE * (SIZE + 2) * (REST + MANY * AN_ITERATION) / bandwidth
report(
    f"channel flow, {diffuse.ranks()} ranks",
    [
        (f"first call with {FEW} pressure iterations", f"{statistics.median(few):.2f} s"),
        (f"first call with {MANY}", f"{statistics.median(many):.2f} s"),
        (f"a step, {SIZE} x {SIZE}", f"{seconds['step'] * 1e3:.1f} ms"),
        ("its bytes at the speed of a stream copy", f"{model * 1e3:.1f} ms, {bandwidth / 1e9:.1f} GB/s"),
    ],
    [
        (f"first call with {MANY} / with {FEW}", statistics.median(many) / statistics.median(few), "<=", 1.5),
        ("step / its bytes", seconds["step"] / model, "<=", 1.3),
    ],
)
