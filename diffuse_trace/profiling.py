"""Profiling: what was fused, exchanged and spent, plan by plan, as tables."""

from __future__ import annotations

import atexit
import math
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import numpy as np

from . import config, recording
from .fuse.explain import size
from .fuse.memo import FIRST
from .fuse.memory import exchange_bytes, temporary_bytes
from .fuse.plan import Plan
from .lower.compute import Compute
from .runtime import agree, execute
from .runtime.ranks import world
from .runtime.replay import Replay


@dataclass
class PlanProfile:
    """The figures of one plan on this rank; seconds are over all its calls but the first, which compiles."""

    name: str
    plan: Plan
    replay: Replay
    hits: int = 0
    misses: int = 0
    missed: str = ""  # why the plan was not known
    calls: int = 0
    seconds: dict[int, float] = field(default_factory=dict)  # segment -> time

    def traffic(self, segment: int) -> int:
        """Bytes that a segment's groups read and write in one call: each input and each result once."""
        executable = self.replay.executable
        stores = {v.id: v.store for v in self.plan.versions.all}
        temporaries = {v for g in self.plan.groups() for v in g.temporaries}
        total = 0
        for step in executable.segments[segment].steps:
            if isinstance(step, Compute):
                for key in (*step.uses, *(k for k in step.makes if k.version not in temporaries)):
                    store = stores[key.version]
                    total += math.prod(executable.geometry.of(store).shape) * store.dtype.itemsize
        return total


class Profile:
    """Collects the plans that run within a ``with`` block, and prints tables at its end (on rank 0).

    Within the block each group and each exchange is an executable of its own, so that it can be timed: together they
    take a little more than the plan does without profiling.
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

    def looked_up(self, replay: Replay, name: str, missed: str) -> None:
        """A plan was asked for."""
        known = self.plans.get(id(replay))
        if known is None:
            known = self.plans[id(replay)] = PlanProfile(name, replay.executable.plan, replay)
            replay.observer = self.ran
        known.hits += not missed
        known.misses += bool(missed)
        known.missed = known.missed or missed

    def ran(self, replay: Replay, segment: int, seconds: float) -> None:
        """A segment of a plan has run."""
        known = self.plans.get(id(replay))
        if known is not None:
            known.calls += segment == 0
            known.seconds[segment] = known.seconds.get(segment, 0.0) + seconds

    def report(self) -> None:
        """Print the tables on rank 0.  A collective: the imbalance compares all ranks."""
        plans = list(self.plans.values())
        spent = [row for n, p in enumerate(plans, 1) for row in _spent(n, p)]
        if world().rank or not self.show or not plans:
            return
        from rich.box import SIMPLE_HEAD
        from rich.console import Console
        from rich.table import Table

        console = Console()
        if not console.is_terminal:
            console = Console(width=110)
        ranks = world().size
        fused = Table(title=f"fused, on {ranks} rank{'s'[: ranks > 1]}", title_justify="left", box=SIMPLE_HEAD)
        for n, column in enumerate(FUSED):
            fused.add_column(column, justify="left" if n == 1 else "right", no_wrap=n != 1)
        for number, p in enumerate(plans, 1):
            fused.add_row(*_fused(number, p))
        console.print(fused)
        times = Table(title="spent, a call", title_justify="left", box=SIMPLE_HEAD)
        for n, column in enumerate(SPENT):
            times.add_column(column, justify="left" if n == 1 else "right", no_wrap=n != 1)
        for row in spent:
            times.add_row(*row)
        console.print(times)
        for number, p in enumerate(plans, 1):
            if p.missed not in ("", "new", FIRST):
                console.print(f"plan {number} was new: {p.missed}", soft_wrap=True, highlight=False)


FUSED = ("", "plan", "tasks", "groups", "temporaries", "saved", "exchanges", "a rank", "allreduces")
SPENT = ("", "part", "calls", "hits/misses", "compile ms", "us", "GB/s", "imbalance")


def _fused(number: int, p: PlanProfile) -> list[str]:
    plan = p.plan
    counts = len(plan.program.tasks), len(plan.groups()), len(plan.temporaries())
    return [
        str(number),
        p.name,
        *map(str, counts),
        size(temporary_bytes(plan)),
        str(len(plan.exchanges())),
        size(sum(exchange_bytes(plan))),
        str(len(plan.reductions())),
    ]


def _spent(number: int, p: PlanProfile) -> list[list[str]]:
    """A row for the plan, and one for each group, exchange and allreduce."""
    segments = p.replay.executable.segments
    calls = max(p.calls, 1)
    names: dict[str, int] = {}
    parts = []
    for n, segment in enumerate(segments):
        seconds = p.seconds.get(n, 0.0) / calls
        kind = segment.name if segment.communicates else "group"
        names[kind] = names.get(kind, 0) + 1
        parts.append(["", f"  {kind} {names[kind]}", "", "", "", *_speed(seconds, p.traffic(n))])
    total = sum(p.seconds.values()) / calls
    head = [
        str(number),
        p.name,
        str(p.replay.calls),
        f"{p.hits}/{p.misses}",
        f"{p.replay.first_seconds * 1e3:.0f}",
        *_speed(total, sum(p.traffic(n) for n in range(len(segments)))),
    ]
    return [head, *parts] if len(parts) > 1 else [head]


def _speed(seconds: float, traffic: int) -> list[str]:
    """Microseconds, GB/s of a rank, and the time of the slowest rank relative to the mean."""
    slowest, mean = _across_ranks(seconds)
    return [
        f"{seconds * 1e6:.0f}" if seconds else "-",
        f"{traffic / seconds / 1e9:.1f}" if seconds and traffic else "-",
        f"{slowest / mean:.2f}" if mean else "-",
    ]


def _across_ranks(value: float) -> tuple[float, float]:
    if world().size == 1:
        return value, value
    values = np.concatenate(agree.allgather_blocks(world(), np.array([value])))
    return float(values.max()), float(values.mean())


def profile(*, show: bool = True) -> Profile:
    """Profile what runs within the block: ``with diffuse.profile(): ...`` prints tables when it ends.

    With ``show=False`` nothing is printed; ``plans`` of the object holds the figures.
    """
    return Profile(show=show)


def profile_everything() -> None:
    """Profile from here to the end of the program, as ``DIFFUSE_PROFILE=1`` and ``diffuse run --profile`` ask."""
    world()  # so that this report comes before the ranks part, at the end
    whole = Profile()
    execute.watchers.append(whole)

    def finish() -> None:
        if whole in execute.watchers:
            recording.flush()
            execute.watchers.remove(whole)
            whole.report()

    atexit.register(finish)
