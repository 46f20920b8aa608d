"""What the examples share: the array package by name, options, time loops with progress, checks and pictures."""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

import diffuse_trace as diffuse


@dataclass(frozen=True)
class Package:
    """The modules that a program runs on, by NumPy's and SciPy's names."""

    name: str
    np: Any
    sparse: Any
    linalg: Any
    jit: Callable[[Any], Any]
    ranks: int
    rank: int

    def sync(self) -> None:
        """Run what has only been recorded so far, so that a clock read next includes it."""
        if self.name == "diffuse":
            self.np.zeros(1).sum().item()


def package(name: str) -> Package:
    """The package called ``diffuse`` or ``numpy`` (with SciPy's sparse matrices)."""
    if name == "numpy":
        import scipy.sparse
        import scipy.sparse.linalg

        return Package(name, numpy, scipy.sparse, scipy.sparse.linalg, lambda f: f, 1, 0)
    import diffuse_trace.numpy as np
    import diffuse_trace.sparse as sparse
    import diffuse_trace.sparse.linalg as linalg

    return Package(name, np, sparse, linalg, diffuse.jit, diffuse.ranks(), diffuse.rank())


class Options(argparse.ArgumentParser):
    """The command line of an example: its own options beside those that all have."""

    def __init__(self, doc: str, check: str) -> None:
        super().__init__(description=doc.split("\n")[0])
        self.add_argument("--package", choices=("diffuse", "numpy"), default="diffuse", help="what the program runs on")
        self.add_argument("--check", action="store_true", help=check)
        self.add_argument("--plot", metavar="FILE", help="save a picture")

    def count(self, name: str, default: int, text: str, least: int = 1) -> None:
        """An option that takes a whole number of at least ``least``."""

        def at_least(given: str) -> int:
            value = int(given)
            if value < least:
                raise argparse.ArgumentTypeError(f"must be at least {least}, not {value}")
            return value

        self.add_argument(name, type=at_least, default=default, help=f"{text} (default {default})")

    def parse(self) -> argparse.Namespace:
        """The options.  What cannot be written at the end is refused now."""
        options = self.parse_args()
        if options.plot:
            path = Path(options.plot)
            try:
                if diffuse.rank() == 0:
                    with path.open("ab"):
                        pass
                    if not path.stat().st_size:
                        path.unlink()
            except OSError as error:
                self.error(f"--plot: {path} cannot be written: {error.strerror}")
        return options


@dataclass(frozen=True)
class Elapsed:
    """How many steps were made in how many seconds."""

    steps: int
    seconds: float

    def show(self, p: Package, points: int, what: str = "cells", steps: str = "step") -> None:
        """Print the throughput: ``points`` of ``what`` are worked on in each of the ``steps``."""
        where = f"{p.ranks} rank{'s'[: p.ranks != 1]}" if p.name == "diffuse" else "NumPy"
        rate = points * self.steps / max(self.seconds, 1e-9)
        each = self.seconds / max(self.steps, 1)
        print(
            f"{self.steps} {steps}{'s'[: self.steps != 1]} on {where} in {self.seconds:.2f} s, {each * 1e3:.3f} ms "
            f"each, {rate / 1e6:.1f} million {what} a second"
        )


def repeat(p: Package, steps: int, step: Callable[[int], Any], label: str = "steps") -> Elapsed:
    """Call ``step(k)`` for k = 0, 1, ... until ``steps`` are done or one returns True; a bar on a terminal shows it.

    Ctrl-C on one process ends it early, and the program goes on with what there is.
    """
    console = Console(stderr=True)
    shown = console.is_terminal and p.rank == 0
    done = 0
    with Progress(
        TextColumn(label), BarColumn(), TextColumn("{task.completed:.0f}/{task.total:.0f}"), TimeRemainingColumn(),
        console=console, transient=True, disable=not shown, auto_refresh=False,
    ) as bar:  # fmt: skip
        task = bar.add_task(label, total=steps)
        start = last = time.perf_counter()
        try:
            while done < steps:
                stop = step(done)
                done += 1
                if stop is True:
                    break
                if shown and time.perf_counter() - last > 0.2:
                    last = time.perf_counter()
                    bar.update(task, completed=done, refresh=True)
            p.sync()
        except KeyboardInterrupt:
            if p.ranks > 1:
                raise
            print(f"interrupted after {done} of {steps} steps", file=sys.stderr)
        return Elapsed(done, time.perf_counter() - start)


def solve(p: Package, a: Any, b: Any, rtol: float, maxiter: int, m: Any = None) -> tuple[Any, bool]:
    """The package's conjugate gradients, timed once compiled: the solution, and whether it converged."""
    given = {} if m is None else {"M": m}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        p.linalg.cg(a, b, rtol=rtol, maxiter=1, **given)  # compiles
    iterations = 0

    def count(_: Any) -> None:
        nonlocal iterations
        iterations += 1

    watched = {"callback": count} if p.name == "numpy" else {}
    start = time.perf_counter()
    x, info = p.linalg.cg(a, b, rtol=rtol, maxiter=maxiter, **given, **watched)
    seconds = time.perf_counter() - start
    if p.name != "numpy":
        iterations = p.linalg.last_result().iterations
    Elapsed(iterations, seconds).show(p, a.shape[0], "unknowns", "iteration")
    return x, info == 0


def check(what: str, error: float, limit: float) -> None:
    """Print an error and end the program, not successfully, where it is above its limit or no number."""
    print(f"check: {what}: {error:.2e} (limit {limit:.0e})")
    if not error <= limit:
        sys.exit("the check failed")


def difference(x: Any, right: Any) -> float:
    """The largest difference, relative to the largest magnitude of what is right.  Gathers ``x``."""
    x, right = numpy.asarray(x), numpy.asarray(right)
    scale = float(numpy.abs(right).max(initial=0.0)) or 1.0
    return float(numpy.abs(x - right).max(initial=0.0)) / scale


def picture(
    p: Package, path: str, draw: Callable[..., None], columns: int = 1, size: tuple[float, float] = (6, 5)
) -> None:
    """Save what ``draw(figure, *axes)`` draws, on rank 0."""
    if p.rank:
        return
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        sys.exit("--plot needs matplotlib: pip install 'diffuse-trace[plot]'")
    figure, axes = plt.subplots(1, columns, figsize=(size[0] * columns, size[1]), layout="constrained", squeeze=False)
    draw(figure, *axes[0])
    try:
        figure.savefig(path, dpi=120)
    except OSError as error:
        sys.exit(f"--plot: {path} cannot be written: {error.strerror}")
    print(f"saved {path}")
