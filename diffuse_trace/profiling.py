"""Profiling: what was fused, exchanged and spent, plan by plan."""

from __future__ import annotations

import atexit
import json
import math
import resource
import statistics
import sys
import time
from array import array
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
from .lower.executable import Segment
from .lower.regions import Decide, Iterate
from .report import Part, PlanReport, Report, Times, render
from .runtime import agree, execute
from .runtime.ranks import world
from .runtime.replay import Replay

#: Bytes of the arrays whose copy measures the bandwidth.
_COPIED = 64_000_000


@dataclass
class PlanProfile:
    """The figures of one plan on this rank; times are of all its calls but the first, which compiles."""

    name: str
    plan: Plan
    replay: Replay
    hits: int = 0
    misses: int = 0
    missed: str = ""  # why the plan was not known
    calls: int = 0
    times: dict[int, array[float]] = field(default_factory=dict)  # segment -> seconds of each call

    def traffic(self, segment: int) -> int:
        """Bytes that a segment's groups read and write in one call: each input and each result once."""
        stores = {v.id: v.store for v in self.plan.versions.all}
        temporaries = {v.id for v in self.plan.temporaries()}
        geometry = self.replay.executable.geometry
        total = 0
        for step in self.replay.executable.segments[segment].steps:
            if isinstance(step, Compute):
                for key in (*step.uses, *(k for k in step.makes if k.version not in temporaries)):
                    store = stores[key.version]
                    shape = geometry.of(store).shape
                    dense = math.prod(shape) * store.dtype.itemsize
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

    def ran(self, replay: Replay, segment: int, seconds: float) -> None:
        """A segment of a plan has run."""
        known = self.plans.get(id(replay))
        if known is not None:
            known.calls += segment == 0
            known.times.setdefault(segment, array("d")).append(seconds)
            if self.trace:
                number = list(self.plans).index(id(replay))
                self.events.append((number, segment, time.perf_counter() - seconds, seconds))

    def _write_trace(self, path: str) -> None:
        """The timeline of all ranks, as the Trace Event Format has it (Perfetto and chrome://tracing open it)."""
        mine = np.array([(p, s, t - self._began, d) for p, s, t, d in self.events], float).reshape(-1, 4)
        everyone = [mine] if world().size == 1 else [b.reshape(-1, 4) for b in _gathered(mine.reshape(-1))]
        if world().rank:
            return
        names = [(p.name, _parts(p)) for p in self.plans.values()]
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
    medians = [statistics.median(p.times[n]) if p.times.get(n) else 0.0 for n in range(len(parts))]
    for part, column in zip(parts, _everyone(medians).T, strict=True):
        part.seconds = Times(float(np.median(column)), float(column.min()), float(column.max()))
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
        p.replay.calls,
        p.hits,
        p.misses,
        missed,
        p.replay.plan_seconds,
        p.replay.first_seconds,
        parts,
    )


def _parts(p: PlanProfile) -> list[Part]:
    """A part for each segment, without times."""
    numbers: dict[str, int] = {}
    temporaries = {v.id: v for v in p.plan.temporaries()}
    parts = []
    for n, segment in enumerate(p.replay.executable.segments):
        kind = _kind(segment)
        numbers[kind] = numbers.get(kind, 0) + 1
        part = Part(kind, numbers[kind], _lines(p.plan, segment), Times(), p.traffic(n))
        for step in segment.steps:
            if isinstance(step, Compute):
                made = [k.version for k in step.makes]
                part.tasks += len(step.tasks)
                gone = {p.plan.versions.writes[t] for t in step.tasks} & set(temporaries)
                part.temporaries += len(gone)
                part.temporary_bytes += sum(temporaries[v].store.nbytes for v in gone)
                part.kernels += len({v for v in made if v not in temporaries})
            elif isinstance(step, Communicate):
                part.messages += step.messages
                part.bytes += step.received
        parts.append(part)
    return parts


def _kind(segment: Segment) -> str:
    names = {Communicate: "exchange", Combine: "allreduce", Iterate: "loop", Decide: "branch"}
    return next((name for s in segment.steps for kind, name in names.items() if isinstance(s, kind)), "group")


def _lines(plan: Plan, segment: Segment) -> list[str]:
    found: dict[str, None] = {}
    for step in segment.steps:
        if isinstance(step, Compute):
            found.update((plan.program.tasks[t].line, None) for t in step.tasks)
        elif isinstance(step, Iterate | Decide):
            found[step.region.line] = None
        elif isinstance(step, Communicate | Combine):
            found[step.line] = None
    return [line for line in found if line]


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
