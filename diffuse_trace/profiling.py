"""Profiling: what was fused, exchanged and spent, plan by plan."""

from __future__ import annotations

import atexit
import itertools
import json
import math
import resource
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from . import config, recording
from .fuse.memo import FIRST
from .fuse.memory import exchange_bytes, peak_bytes, temporary_bytes
from .fuse.plan import Plan
from .lower.communicate import Combine, Communicate
from .lower.compute import Compute
from .lower.regions import Decide, Iterate
from .lower.state import Step
from .lower.transport import Spent
from .report import Part, PlanReport, Report, Times, render
from .runtime import agree, execute
from .runtime.ranks import world
from .runtime.replay import Replay

#: Bytes of the arrays whose copy measures the bandwidth.
_COPIED = 64_000_000


@dataclass
class PlanProfile:
    """The figures of one plan on this rank."""

    name: str
    plan: Plan
    replay: Replay
    hits: int = 0
    misses: int = 0
    missed: str = ""  # why the plan was not known
    calls: int = 0
    #: What each call has spent: by segment, and by the number of the step within it, where there are regions.
    calls_of: dict[tuple[int, int], list[Spent]] = field(default_factory=dict)

    def traffic(self, step: Step) -> int:
        """Bytes that a group reads and writes in one run: each input and each result once."""
        stores = {v.id: v.store for v in self.plan.versions.all}
        temporaries = {v.id for v in self.plan.temporaries()}
        geometry = self.replay.executable.geometry
        total = 0
        for key in (*step.uses, *(k for k in step.makes if k.version not in temporaries)):
            store = stores[key.version]
            dense = math.prod(geometry.of(store).shape) * store.dtype.itemsize
            total += store.pattern.nbytes if store.pattern is not None else dense
        return total


class Profile:
    """Collects the plans that run within a ``with`` block, and prints a report at its end (on rank 0).

    Within the block each group and each exchange is an executable of its own, so that it can be timed: together they
    take a little more than the plan does without profiling.
    """

    def __init__(self, *, show: bool = True, file: str = "", trace: str = "") -> None:
        self.show, self.file, self.trace = show, file, trace
        self.plans: dict[int, PlanProfile] = {}
        self.events: list[tuple[int, int, float, float]] = []  # plan, segment, start, seconds
        self.report: Report | None = None
        self._override: Any = None
        self._began = 0.0

    def __enter__(self) -> Profile:
        recording.flush()
        self._override = config.override(profile=True)
        self._override.__enter__()
        self.begin()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            recording.flush()
        self._override.__exit__(None, None, None)
        if kind is None:
            self.end()
        else:
            execute.watchers.remove(self)

    def begin(self) -> None:
        """Take notice of all plans from here on."""
        execute.watchers.append(self)
        self._began = time.perf_counter()

    def end(self) -> None:
        """Make the report, and print and write it on rank 0.  A collective."""
        seconds = time.perf_counter() - self._began
        execute.watchers.remove(self)
        for known in self.plans.values():
            known.replay.observer = None
        self.report = Report(
            world().size,
            seconds,
            _bandwidth(),
            [int(x) for x in _everyone([float(_peak())])[:, 0]],
            [_plan_report(p) for p in self.plans.values()],
        )
        if self.trace:
            self._write_trace(self.trace)
        if world().rank or not self.plans:
            return
        if self.show:
            print(render(self.report), end="")
        if self.file:
            try:
                self.report.save(self.file)
            except OSError as error:
                print(f"the profile could not be written to {self.file}: {error.strerror}", file=sys.stderr)

    def looked_up(self, replay: Replay, name: str, missed: str) -> None:
        """A plan was asked for."""
        known = self.plans.get(id(replay))
        if known is None:
            known = self.plans[id(replay)] = PlanProfile(name, replay.executable.plan, replay)
            replay.observer = self.ran
        known.hits += not missed
        known.misses += bool(missed)
        known.missed = known.missed or missed

    def ran(self, replay: Replay, segment: int, spent: Spent, inside: list[Spent]) -> None:
        """A segment of a plan has run."""
        known = self.plans.get(id(replay))
        if known is not None:
            known.calls += segment == 0
            for step, found in enumerate([spent, *inside[1:]]):
                known.calls_of.setdefault((segment, step), []).append(found)
            if self.trace:
                number = list(self.plans).index(id(replay))
                self.events.append((number, segment, time.perf_counter() - spent.seconds, spent.seconds))

    def _write_trace(self, path: str) -> None:
        """The timeline of all ranks, as the Trace Event Format has it (Perfetto and chrome://tracing open it)."""
        mine = np.array([(p, s, t - self._began, d) for p, s, t, d in self.events], float).reshape(-1, 4)
        everyone = [mine] if world().size == 1 else [b.reshape(-1, 4) for b in _gathered(mine.reshape(-1))]
        if world().rank:
            return
        names = [(p.name, [part for part in _parts(p) if not part.depth]) for p in self.plans.values()]
        events: list[dict[str, Any]] = []
        for rank, rows in enumerate(everyone):
            events.append({"name": "thread_name", "ph": "M", "pid": 0, "tid": rank, "args": {"name": f"rank {rank}"}})
            for plan, segment, start, seconds in rows:
                name, parts = names[int(plan)]
                part = parts[int(segment)]
                event = {"name": f"{part.kind} {part.number}", "cat": part.kind, "ph": "X", "pid": 0, "tid": rank}
                times = {"ts": start * 1e6, "dur": seconds * 1e6}
                events.append({**event, **times, "args": {"plan": name, "lines": part.lines}})
        try:
            Path(path).write_text(json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}))
        except OSError as error:
            print(f"the timeline could not be written to {path}: {error.strerror}", file=sys.stderr)


# --- the figures ---------------------------------------------------------------------------------


def _plan_report(p: PlanProfile) -> PlanReport:
    plan = p.plan
    parts = _parts(p)
    spent = list(_spent(p))
    seconds, waited = (_everyone([getattr(s, name) for s in spent]) for name in ("seconds", "waited"))
    for part, s, mine, waits in zip(parts, spent, seconds.T, waited.T, strict=True):
        part.times = s.times
        part.seconds = Times(float(np.median(mine)), float(mine.min()), float(mine.max()))
        part.waited = float(np.median(waits))
    for n, part in enumerate(parts):
        if part.kind in ("loop", "branch"):
            end = next((m for m, other in enumerate(parts) if m > n and other.depth <= part.depth), len(parts))
            part.bytes = round(sum(g.bytes * g.times for g in parts[n + 1 : end] if g.kind == "group"))
    # That the profile is on is no reason that tells a user anything.
    missed = "" if p.missed in ("", "new", FIRST) or p.missed.startswith("the setting profile:") else p.missed
    return PlanReport(
        p.name,
        len(plan.program.tasks),
        len(plan.groups()),
        len(plan.temporaries()),
        temporary_bytes(plan),
        len(plan.exchanges()),
        sum(exchange_bytes(plan)),
        len(plan.reductions()),
        peak_bytes(plan),
        p.calls,
        p.hits,
        p.misses,
        missed,
        p.replay.plan_seconds,
        p.replay.compile_seconds,
        parts,
    )


def _walk(step: Step, depth: int = 0) -> Iterator[tuple[Step, int]]:
    """A step and those within it, with how many regions they are in; in the order of `all_steps`."""
    yield step, depth
    if isinstance(step, Iterate | Decide):
        for inner in (*step.one, *step.other):
            yield from _walk(inner, depth + 1)


def _spent(p: PlanProfile) -> Iterator[Spent]:
    """What each part has spent in a call, in the middle."""
    for n, segment in enumerate(p.replay.executable.segments):
        for step in range(sum(1 for s in segment.steps for _ in _walk(s))):
            calls = p.calls_of.get((n, step), [Spent()])
            names = ("times", "seconds", "waited")
            yield Spent(*(statistics.median(getattr(c, name) for c in calls) for name in names))


def _parts(p: PlanProfile) -> list[Part]:
    """A part for each segment and each step within its regions, without times."""
    numbers: dict[str, int] = {}
    temporaries = {v.id: v for v in p.plan.temporaries()}
    parts = []
    for segment in p.replay.executable.segments:
        for step, depth in itertools.chain.from_iterable(map(_walk, segment.steps)):
            kind = _kind(step)
            numbers[kind] = numbers.get(kind, 0) + 1
            part = Part(kind, numbers[kind], _lines(p.plan, step), depth=depth)
            if isinstance(step, Compute):
                part.bytes = p.traffic(step)
                made = [k.version for k in step.makes]
                part.tasks = len(step.tasks)
                gone = {p.plan.versions.writes[t] for t in step.tasks} & set(temporaries)
                part.temporaries = len(gone)
                part.temporary_bytes = sum(temporaries[v].store.nbytes for v in gone)
                part.kernels = len({v for v in made if v not in temporaries})
            elif isinstance(step, Communicate):
                part.messages, part.bytes = step.messages, step.received
            parts.append(part)
    return parts


def _kind(step: Step) -> str:
    names = {Communicate: "exchange", Combine: "allreduce", Iterate: "loop", Decide: "branch"}
    return next((name for kind, name in names.items() if isinstance(step, kind)), "group")


def _lines(plan: Plan, step: Step) -> list[str]:
    if isinstance(step, Compute):
        lines = [plan.program.tasks[t].line for t in step.tasks]
    elif isinstance(step, Iterate | Decide):
        lines = [step.region.line]
    else:
        lines = [step.line] if isinstance(step, Communicate | Combine) else []
    return [line for line in dict.fromkeys(lines) if line]


def _gathered(block: np.ndarray) -> list[np.ndarray]:
    return [block] if world().size == 1 else agree.allgather_blocks(world(), block)


def _everyone(values: list[float]) -> np.ndarray:
    """Values of all ranks: a row for each."""
    return np.stack(_gathered(np.array(values, float)))


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _bandwidth() -> float:
    """Bytes a second of a copy, on all ranks at once."""
    source, target = np.ones(_COPIED // 8), np.ones(_COPIED // 8)
    times = []
    for _ in range(5):
        _gathered(np.zeros(1))
        start = time.perf_counter()
        np.copyto(target, source)
        times.append(time.perf_counter() - start)
    return float(np.median(_everyone([2 * _COPIED / statistics.median(times)])))


def profile(*, show: bool = True, file: str = "", trace: str = "") -> Profile:
    """Profile what runs within the block: ``with diffuse.profile(): ...`` prints a report when it ends.

    Args:
        show: whether to print.  ``report`` of the object holds the figures afterwards.
        file: where to write the report as JSON, for ``diffuse report``.
        trace: where to write a timeline with a track for each rank, which Perfetto opens.
    """
    return Profile(show=show, file=file, trace=trace)


def profile_everything() -> None:
    """Profile from here to the end of the program, as ``DIFFUSE_PROFILE=1`` and ``diffuse run --profile`` ask."""
    world()  # so that this report comes before the ranks part, at the end
    whole = Profile(file=config.get("report"), trace=config.get("trace"))
    whole.begin()

    def finish() -> None:
        if whole in execute.watchers:
            recording.flush()
            whole.end()

    atexit.register(finish)
