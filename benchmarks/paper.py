"""The paper's seven applications: fused, by the paper's rules, unfused, on NumPy and SciPy, and by hand in JAX.

    diffuse run -n 2 benchmarks/paper.py [--small] [--json] [--plot FILE]

The programs are those in `examples/`, and the sources are the same for all packages.  NumPy and SciPy run in one
process on rank 0 while the others wait, with the threads that a rank has.  All are run in turn, and the medians of
their times a step compared; what the first steps take, with their compilation, stands behind (less where an earlier run
has kept code: `DIFFUSE_CACHE`).  Beside them three by hand in JAX (`peer_jax.py`), in one process with as many threads
as there are cores.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

import bicgstab
import black_scholes
import cg
import channel_flow
import jacobi
import multigrid
import poisson
import shallow_water
from common import copying, geometric_mean, medians, outside, report, save_bars, slowest, together
from running import Package, package

import diffuse_trace as diffuse
from diffuse_trace import config, recording

small = "--small" in sys.argv
Step = Callable[[], Any]


def options_pricing(p: Package) -> Step:
    given = black_scholes.inputs(p.np, 40_000 if small else 2_000_000)
    price = p.jit(lambda *a: black_scholes.prices(p.np, *a))
    return lambda: price(*given, 0.02, 0.3)


def dense_jacobi(p: Package) -> Step:
    a, diagonal, b = jacobi.system(p.np, 400 if small else 3000)
    advance = p.jit(lambda *s: jacobi.iterate(p.np, *s))
    state = [p.np.zeros(b.shape[0])]

    def step() -> None:
        state[0] = advance(a, diagonal, b, state[0])[0]

    return step


def krylov(module: Any) -> Callable[[Package], Step]:
    def make(p: Package) -> Step:
        size = 250 if small else 1000
        a = poisson.laplacian(p.sparse, size, 2)
        b = p.np.random.default_rng(3).random(size * size)
        advance = p.jit(lambda *s: module.iterate(p.np, a, *s))
        begin = cg.start if module is cg else bicgstab.start
        state = [begin(p.np, a, b)]

        def step() -> None:
            state[0] = advance(*state[0])

        return step

    return make


def geometric_multigrid(p: Package) -> Step:
    size = 255 if small else 1023
    levels = multigrid.hierarchy(p.sparse, size, 6)
    b = p.np.random.default_rng(4).random(size * size)
    advance = p.jit(lambda x: multigrid.cycle(p.np, levels, b, x, 2, 8))
    state = [p.np.zeros(size * size)]

    def step() -> None:
        state[0] = advance(state[0])

    return step


def channel(p: Package) -> Step:
    size = 160 if small else 512
    fields, h = channel_flow.fields(p.np, size), 2 / (size - 1)
    advance = p.jit(lambda u, v, q, dt, h: channel_flow.step(u, v, q, dt, h, 50))
    return lambda: advance(*fields, 0.1 * h * h / 0.4, h)


def shallow(p: Package) -> Step:
    depth, bed, dx, dy = shallow_water.dam(400 if small else 1600)
    fields = [p.np.asarray(f.copy()) for f in (depth, 0 * depth, 0 * depth)]
    ground, t = p.np.asarray(bed), p.np.asarray(0.0)
    advance = p.jit(lambda h, hu, hv, g, t: shallow_water.step(p.np, h, hu, hv, g, t, 1e9, dx, dy, 0.4))
    return lambda: advance(*fields, ground, t)


APPS: dict[str, tuple[Callable[[Package], Step], int]] = {
    "black_scholes": (options_pricing, 3),
    "jacobi": (dense_jacobi, 10),
    "cg": (krylov(cg), 20),
    "bicgstab": (krylov(bicgstab), 20),
    "multigrid": (geometric_multigrid, 5),
    "channel_flow": (channel, 5),
    "shallow_water": (shallow, 5),
}


def ours(make: Callable[[Package], Step], steps: int, fuse: str) -> Step:
    with config.override(fuse=fuse):
        step = make(package("diffuse"))
        recording.flush()

    def run() -> None:
        with config.override(fuse=fuse):
            for _ in range(steps):
                step()
            recording.flush()

    return run


def on_rank_0(step: Step | None, steps: int) -> Step:
    def run() -> None:
        if step is not None:
            for _ in range(steps):
                step()

    return run


#: Sizes of the programs that `peer_jax.py` has by hand.
BY_HAND = {
    "black_scholes": 40_000 if small else 2_000_000,
    "channel_flow": 160 if small else 512,
    "shallow_water": 400 if small else 1600,
}


def by_hand(name: str, steps: int) -> float:
    """Seconds a step of a program by hand in JAX, in one process with all cores."""
    script = Path(__file__).with_name("peer_jax.py")
    return outside([sys.executable, str(script), name, str(BY_HAND[name]), str(steps)])


times: dict[str, dict[str, float]] = {}
cold: dict[str, float] = {}  # seconds of the first steps, which are recorded, planned and compiled
first = diffuse.rank() == 0
for name, (make, steps) in APPS.items():
    subjects = {"fused": ours(make, steps, "1"), "paper": ours(make, steps, "paper"), "unfused": ours(make, steps, "0")}
    subjects["numpy"] = on_rank_0(make(package("numpy")) if first else None, steps)
    together()
    start = time.perf_counter()
    subjects["fused"]()
    cold[name] = slowest(time.perf_counter() - start)
    for _ in range(8):  # the memo is warm, and calls that can be batched are
        subjects["fused"]()
    times[name] = {k: t / steps for k, t in medians(subjects, 5).items()}
    if name in BY_HAND:
        times[name]["jax"] = statistics.median(by_hand(name, steps) for _ in range(3))
    if first and "--json" not in sys.argv:
        shown = ", ".join(f"{k} {t * 1e3:.3g} ms" for k, t in times[name].items())
        print(f"{name}: {shown}", file=sys.stderr, flush=True)

rows = 8_000_000 // diffuse.ranks()
stream = medians({"copy": copying((rows,))}, 7)["copy"]
ratios = {p: {n: t[p] / t["fused"] for n, t in times.items()} for p in ("unfused", "paper", "numpy")}
report(
    f"the seven{', small' * small}, {diffuse.ranks()} ranks; the time of a step, and of others relative to it",
    [("stream copy", f"{16 * rows * diffuse.ranks() / stream / 1e9:.1f} GB/s")]
    + [
        (
            n,
            f"{t['fused'] * 1e3:9.3f} ms"
            + "".join(f"  {p} {t[p] / t['fused']:5.2f}x" for p in t if p != "fused")
            + f"  first {cold[n]:.1f} s",
        )
        for n, t in times.items()
    ],
    [
        ("unfused / fused, geometric mean", geometric_mean(ratios["unfused"].values()), ">=", 3),
        ("unfused / fused, least", min(ratios["unfused"].values()), ">=", 1),
        ("numpy / fused, geometric mean", geometric_mean(ratios["numpy"].values()), ">=", 1 if small else 6),
        ("numpy / fused, least", min(ratios["numpy"].values()), ">=", 1 if small else 1.5),
        *((f"jax / fused, {n}", times[n]["jax"] / times[n]["fused"], ">=", 1.0) for n in BY_HAND),
    ],
    times=times,
    cold=cold,
)
if "--plot" in sys.argv and first:
    save_bars(sys.argv[sys.argv.index("--plot") + 1], ratios, "time over fused")
