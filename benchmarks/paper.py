"""The paper's seven applications: fused, by the paper's rules, unfused, on NumPy and SciPy, and by hand in JAX.

    diffuse run -n 2 benchmarks/paper.py [--small] [--json] [--plot FILE] [--petsc COMMAND] [--cupynumeric COMMAND]

The programs are those in `examples/`, and the sources are the same for all packages.  NumPy and SciPy run in one
process on rank 0 while the others wait, with the threads that a rank has.  All are run in turn, and the medians of
their times a step compared; what the first steps take, with their compilation, stands behind (less where an earlier run
has kept code: `DIFFUSE_CACHE`).  Beside them three by hand in JAX (`peer_jax.py`), in one process with as many threads
as there are cores.  ``--small`` takes about a tenth of the elements, which are in the caches then.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from apps import APPS, Step, small
from common import copying, geometric_mean, given, medians, outside, report, save_bars, slowest, together
from running import Package, package

import diffuse_trace as diffuse
from diffuse_trace import config, recording


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
    "black_scholes": 200_000 if small else 2_000_000,
    "channel_flow": 160 if small else 512,
    "shallow_water": 400 if small else 1600,
}


#: The size that `peer_petsc.py` is run at, and how it calls its methods.
KRYLOV = {"cg": 316 if small else 1000, "bicgstab": 316 if small else 1000}
DENSE = ("black_scholes", "jacobi", "channel_flow", "shallow_water")
petsc, cupynumeric = given("--petsc"), given("--cupynumeric")


def peers(name: str, steps: int) -> dict[str, list[str]]:
    """The commands that print the seconds of a step of other programs, which get all cores."""
    commands = {}
    if name in BY_HAND:
        script = str(Path(__file__).with_name("peer_jax.py"))
        commands["jax"] = [sys.executable, script, name, str(BY_HAND[name]), str(steps)]
    if name in KRYLOV and petsc:
        commands["petsc"] = [*petsc, str(KRYLOV[name]), "60", name]
    if name in DENSE and cupynumeric:
        commands["cupynumeric"] = [*cupynumeric, name, *["--small"] * small]
    return commands


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
    for peer, command in peers(name, steps).items():
        times[name][peer] = statistics.median(outside(command) for _ in range(3))
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
        *(
            (f"{peer} / fused, {name}", times[name][peer] / times[name]["fused"], ">=", 1.0)
            for name, (_, steps) in APPS.items()
            for peer in peers(name, steps)
        ),
    ],
    times=times,
    cold=cold,
)
if "--plot" in sys.argv and first:
    by_peer = {
        peer: {name: t[peer] / t["fused"] for name, t in times.items() if peer in t}
        for peer in dict.fromkeys(peer for t in times.values() for peer in t if peer != "fused")
    }
    save_bars(sys.argv[sys.argv.index("--plot") + 1], by_peer, "time relative to the fused program")
