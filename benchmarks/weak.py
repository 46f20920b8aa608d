"""Weak scaling: as many cells on each rank at every number of ranks, one thread each.

    python benchmarks/weak.py [RANKS ...]

Without numbers it takes 1, 2, 4 and so on up to the cores.  The numbers of ranks are run in turn.  A rank alone has
the whole memory bus: what a copy loses at so many ranks stands beside, and the efficiency is that of the programs.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Callable

ROUNDS = 3


def stencil(ranks: int) -> tuple[Callable[[], object], int, int]:
    """The step, its cells and how many are timed at once."""
    import diffuse_trace as diffuse
    import diffuse_trace.numpy as np

    u = np.random.default_rng(0).random((2000 * ranks, 2000))

    @diffuse.jit
    def step(u):
        middle = u[1:-1, 1:-1]
        u[1:-1, 1:-1] = middle + 0.1 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * middle)

    return lambda: step(u), u.size, 20


def conjugate_gradients(ranks: int) -> tuple[Callable[[], object], int, int]:
    from apps import cg, poisson
    from running import package

    p = package("diffuse")
    grid = round(700 * math.sqrt(ranks))
    a, b = poisson.laplacian(p.sparse, grid, 2), p.np.ones(grid * grid)
    advance = p.jit(lambda *s: cg.iterate(p.np, a, *s))
    state = [cg.start(p.np, a, b)]

    def step() -> None:
        state[0] = advance(*state[0])

    return step, grid * grid, 40


def shallow_water(ranks: int) -> tuple[Callable[[], object], int, int]:
    from apps import shallow_water as program
    from running import package

    p = package("diffuse")
    depth, bed, dx, dy = program.dam(round(1600 * math.sqrt(ranks)))
    fields = [p.np.asarray(f.copy()) for f in (depth, 0 * depth, 0 * depth)]
    ground, t = p.np.asarray(bed), p.np.asarray(0.0)
    step = p.jit(lambda h, hu, hv, g, t: program.step(p.np, h, hu, hv, g, t, 1e9, dx, dy, 0.4))
    return lambda: step(*fields, ground, t), depth.size, 5


PROGRAMS = {"stencil": stencil, "cg": conjugate_gradients, "shallow_water": shallow_water}


def measure() -> None:
    """What each of the ranks runs: prints nanoseconds a cell and step of a rank, by program, and of a copy."""
    from common import copying, medians

    import diffuse_trace as diffuse
    from diffuse_trace import recording

    ranks, found = diffuse.ranks(), {}
    for name, make in PROGRAMS.items():
        step, cells, steps = make(ranks)

        def run(step=step, steps=steps) -> None:
            for _ in range(steps):
                step()
            recording.flush()

        for _ in range(6):
            run()  # calls that can be batched are
        found[name] = medians({name: run}, 5)[name] / steps / cells * ranks * 1e9
    size = 8_000_000
    found["copy"] = medians({"copy": copying((size,))}, 7)["copy"] / size * 1e9
    if diffuse.rank() == 0:
        print(json.dumps(found))


def main() -> None:
    cores = os.cpu_count() or 1
    numbers = [int(n) for n in sys.argv[1:]] or [2**k for k in range(cores.bit_length())]
    times: dict[int, list[dict[str, float]]] = {n: [] for n in numbers}
    for _ in range(ROUNDS):
        for ranks in numbers:
            command = [sys.executable, "-m", "diffuse_trace", "run", "-n", str(ranks), "--threads", "1"]
            done = subprocess.run([*command, __file__, "--measure"], capture_output=True, text=True)
            if done.returncode:
                sys.exit(done.stderr)
            times[ranks].append(json.loads(done.stdout.splitlines()[-1]))
    print(f"weak scaling; nanoseconds a cell and step of a rank, and the efficiency against {numbers[0]} rank(s)")
    for name in (*PROGRAMS, "copy"):
        medians = [statistics.median(t[name] for t in times[n]) for n in numbers]
        shown = "".join(f"   {n}: {t:6.2f} ns {medians[0] / t:5.0%}" for n, t in zip(numbers, medians, strict=True))
        print(f"  {name:16s}{shown}")


if __name__ == "__main__":
    measure() if "--measure" in sys.argv else main()
