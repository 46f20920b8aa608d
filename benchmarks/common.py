"""What the benchmarks share: interleaved medians, the bandwidth limit, tables."""

from __future__ import annotations

import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy

import diffuse_trace as diffuse
from diffuse_trace.runtime import agree
from diffuse_trace.runtime.ranks import world


def together() -> None:
    """Wait until all ranks are here."""
    agree.allgather_blocks(world(), numpy.zeros(1))


def slowest(seconds: float) -> float:
    """The time of the slowest rank."""
    return max(float(block[0]) for block in agree.allgather_blocks(world(), numpy.array([seconds])))


def medians(subjects: dict[str, Callable[[], None]], repeats: int) -> dict[str, float]:
    """Median seconds of each subject, all run in turn ``repeats`` times, so that noise meets them alike."""
    for run in subjects.values():
        run()
    times: dict[str, list[float]] = {name: [] for name in subjects}
    for _ in range(repeats):
        for name, run in subjects.items():
            together()
            start = time.perf_counter()
            run()
            times[name].append(slowest(time.perf_counter() - start))
    return {name: statistics.median(t) for name, t in times.items()}


def given(option: str) -> list[str]:
    """The words of the command that follows an option of this script, none where it is not there."""
    return sys.argv[sys.argv.index(option) + 1].split() if option in sys.argv else []


_outside = itertools.count(1)


def outside(command: Sequence[str]) -> float:
    """The last line that a command prints and that is a number; others may say things too.

    Rank 0 runs it, outside this job, and the others sleep, so that it has all cores.
    """
    done = Path(os.environ.get("DIFFUSE_RUN_DIR", "."), f"outside-{next(_outside)}")
    printed = 0.0
    if diffuse.rank():
        while not done.exists():
            time.sleep(0.02)
    else:
        ours = ("OMPI_", "PMIX_", "PRTE_", "PMI_", "OPAL_", "MPI", "DIFFUSE_", "LD_LIBRARY", "PYTHON", "XLA_", "PJRT_",
                "NPROC")  # fmt: skip
        clean = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        own = os.sched_getaffinity(0)  # which a child inherits
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
        run = subprocess.run(command, env=clean, capture_output=True, text=True)
        os.sched_setaffinity(0, own)
        if diffuse.ranks() > 1:
            done.touch()
        if run.returncode:
            sys.exit(run.stderr or run.stdout)
        numbers = [line for line in run.stdout.splitlines() if re.fullmatch(r"[\d.e+-]+", line)]
        if not numbers:
            sys.exit(f"no number from {' '.join(command)}:\n{run.stdout}{run.stderr}")
        printed = float(numbers[-1])
    return slowest(printed)


def copying(shape: tuple[int, ...]) -> Callable[[], None]:
    """STREAM's copy of this rank's share: from one warm array to another."""
    source, target = numpy.ones(shape), numpy.ones(shape)
    return lambda: numpy.copyto(target, source)


def scaling(shape: tuple[int, ...]) -> Callable[[], None]:
    """STREAM's scale, with ordinary stores: `copying` goes through memcpy, which may write past the caches.

    A compiler emits the ordinary ones, for which some processors read each line before they write it.
    """
    source, target = numpy.ones(shape), numpy.ones(shape)

    def run() -> None:
        numpy.multiply(source, 3.0, out=target)

    return run


def report(
    title: str, rows: list[tuple[str, str]], targets: list[tuple[str, float, str, float]], **facts: object
) -> None:
    """Print rows and targets (name, value, comparison, limit) on rank 0; with ``--json`` one line of JSON."""
    if diffuse.rank():
        return
    if "--json" in sys.argv:
        print(json.dumps({"title": title, **facts, **{name: value for name, value, *_ in targets}}))
        return
    print(title)
    for name, value in rows:
        print(f"  {name:48s} {value}")
    for name, value, comparison, limit in targets:
        met = value >= limit if comparison == ">=" else value <= limit
        print(f"  {name:48s} {value:8.2f}   target {comparison} {limit:g}: {'met' if met else 'MISSED'}")


def geometric_mean(values: Iterable[float]) -> float:
    """The geometric mean."""
    return statistics.geometric_mean(values)


def save_bars(path: str, ratios: dict[str, dict[str, float]], label: str) -> None:
    """A picture: a group of bars for each subject, a bar for each peer that it has."""
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(name for values in ratios.values() for name in values))
    figure, ax = plt.subplots(figsize=(9, 4), layout="constrained")
    width = 0.8 / max(sum(name in values for values in ratios.values()) for name in names)
    taken = dict.fromkeys(names, 0)
    for peer, values in ratios.items():
        places = []
        for name in values:
            places.append(names.index(name) + (taken[name] + 0.5) * width)
            taken[name] += 1
        bars = ax.bar(places, list(values.values()), 0.9 * width, label=peer)
        ax.bar_label(bars, [f"{v:.1f}" if v < 10 else f"{v:.0f}" for v in values.values()], fontsize=7)
    ax.set_xticks([n + taken[name] * width / 2 for n, name in enumerate(names)], [n.replace("_", " ") for n in names])
    ax.axhline(1, color="black", linewidth=0.8)
    ax.set(ylabel=label, yscale="log")
    ax.yaxis.set_major_formatter("{x:g}")
    figure.legend(loc="outside upper center", ncols=len(ratios), frameon=False)
    figure.savefig(path, dpi=110)
