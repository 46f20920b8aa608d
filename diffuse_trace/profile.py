"""Profiling: what was fused, exchanged and spent, plan by plan, as a table."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import numpy as np

from . import config, recording
from .fuse.memory import exchange_bytes, temporary_bytes
from .fuse.plan import Plan
from .lower.steps import Compute
from .runtime import agree, execute
from .runtime.ranks import world
from .runtime.replay import Replay


@dataclass
class PlanProfile:
    """The figures of one plan on this rank; times in seconds over all its calls but the first, which compiles."""

    name: str
    plan: Plan
    replay: Replay
    hits: int = 0
    misses: int = 0
    calls: int = 0
    seconds: dict[int, float] = field(default_factory=dict)  # segment -> time

    @property
    def compute(self) -> float:
        """Seconds in groups."""
        return sum(s for n, s in self.seconds.items() if not self.replay.executable.segments[n].communicates)

    @property
    def communication(self) -> float:
        """Seconds in exchanges and allreduces, waiting included."""
        return sum(s for n, s in self.seconds.items() if self.replay.executable.segments[n].communicates)

    @property
    def traffic(self) -> int:
        """Bytes that the groups read and write in one call: each input and each result once."""
        executable = self.replay.executable
        shapes = {v.id: (v.store.dtype.itemsize, executable.geometry.of(v.store).shape) for v in self.plan.versions.all}
        total = 0
        for segment in executable.segments:
            for step in segment.steps:
                if isinstance(step, Compute):
                    results = [k for k in step.makes if k.version not in _temporaries(self.plan)]
                    total += sum(math.prod(shapes[k.version][1]) * shapes[k.version][0] for k in (*step.uses, *results))
        return total


def _temporaries(plan: Plan) -> set[int]:
    return {v for g in plan.groups() for v in g.temporaries}


class Profile:
    """Collects the plans that run within a ``with`` block, and prints a table at its end (on rank 0).

    Within the block each group and each exchange is an executable of its own, so that it can be timed: the sum is a
    little more than the plan takes without profiling.
    """

    def __init__(self, *, show: bool = True) -> None:
        self.show = show
        self.plans: dict[int, PlanProfile] = {}
        self._override: Any = None

    def __enter__(self) -> Profile:
        recording.flush()
        self._override = config.override(profile=True)
        self._override.__enter__()
        execute.watchers.append(self)
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            recording.flush()
        execute.watchers.remove(self)
        self._override.__exit__(None, None, None)
        if kind is None:
            self.report()

    def looked_up(self, replay: Replay, name: str, hit: bool) -> None:
        """A plan was asked for."""
        known = self.plans.get(id(replay))
        if known is None:
            known = self.plans[id(replay)] = PlanProfile(name, replay.executable.plan, replay)
            replay.observer = self.ran
        known.hits += hit
        known.misses += not hit

    def ran(self, replay: Replay, segment: int, seconds: float) -> None:
        """A segment of a plan has run."""
        known = self.plans[id(replay)]
        known.calls += segment == 0
        known.seconds[segment] = known.seconds.get(segment, 0.0) + seconds

    def report(self) -> None:
        """Print the table on rank 0.  A collective: the imbalance compares all ranks."""
        rows = [self._row(p) for p in self.plans.values()]
        if world().rank or not self.show:
            return
        from rich.console import Console
        from rich.table import Table

        table = Table(title=f"diffuse profile, {world().size} rank{'s'[: world().size > 1]}", title_justify="left")
        for column in COLUMNS:
            table.add_column(column, justify="left" if column == "plan" else "right", no_wrap=column != "plan")
        for row in rows:
            table.add_row(*row)
        console = Console()
        if not console.is_terminal:
            console = Console(width=200)
        console.print(table)

    def _row(self, p: PlanProfile) -> list[str]:
        calls = max(p.calls, 1)
        busy = p.compute / calls
        slowest, mean = _across_ranks(busy)
        return [
            p.name,
            str(len(p.plan.program.tasks)),
            str(len(p.plan.groups())),
            f"{len(p.plan.temporaries())} ({_bytes(temporary_bytes(p.plan))})",
            f"{len(p.plan.exchanges())} ({_bytes(sum(exchange_bytes(p.plan)))})",
            str(len(p.plan.reductions())),
            str(p.replay.calls),
            f"{p.hits}/{p.misses}",
            f"{p.replay.first_seconds * 1e3:.0f}",
            f"{busy * 1e6:.0f}",
            f"{p.communication / calls * 1e6:.0f}",
            f"{p.traffic / busy / 1e9:.1f}" if busy else "-",
            f"{slowest / mean:.2f}" if mean else "-",
        ]


COLUMNS = (
    "plan",
    "tasks",
    "groups",
    "temporaries (saved)",
    "exchanges (a rank)",
    "allreduces",
    "calls",
    "hits/misses",
    "compile ms",
    "compute us",
    "communicate us",
    "GB/s a rank",
    "imbalance",
)


def _across_ranks(value: float) -> tuple[float, float]:
    if world().size == 1:
        return value, value
    values = np.concatenate(agree.allgather_blocks(world(), np.array([value])))
    return float(values.max()), float(values.mean())


def _bytes(n: float) -> str:
    for unit in ("B", "kB", "MB"):
        if n < 1000:
            return f"{n:.0f} {unit}"
        n /= 1000
    return f"{n:.1f} GB"


def profile(*, show: bool = True) -> Profile:
    """Profile what runs within the block: ``with diffuse.profile(): ...`` prints a table when it ends.

    With ``show=False`` nothing is printed; ``plans`` of the object holds the figures.
    """
    return Profile(show=show)
