"""Reports of profiled runs: their form on disk, as text on a terminal, and the difference of two.

A report is plain data (`Report`), written as JSON by ``diffuse run --profile=FILE.json``; seconds, bytes and counts are
those of one call, and of one rank, unless a name says otherwise.
"""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

FORMAT = "diffuse_trace report 2"


@dataclass
class Times:
    """Seconds of a call: the medians of the ranks' calls, of which the middle one, the least and the largest."""

    median: float = 0.0
    least: float = 0.0
    most: float = 0.0

    @property
    def imbalance(self) -> float:
        """The slowest rank relative to the middle one; of an exchange the difference is waiting."""
        return self.most / self.median if self.median else 0.0


@dataclass
class Part:
    """A group, an exchange, an allreduce, a loop or a branch of a plan; ``seconds`` are of all its runs in a call.

    What is within a loop or a branch follows it, with a larger ``depth``; its time is part of the loop's.
    """

    kind: str
    number: int
    lines: list[str]
    seconds: Times = field(default_factory=Times)
    bytes: int = 0  # in a run: each input and each result of a group once, or received from other ranks
    tasks: int = 0
    kernels: int = 0
    temporaries: int = 0
    temporary_bytes: int = 0  # of all ranks, never materialised
    messages: int = 0  # sent by a rank, at most
    depth: int = 0
    times: float = 1  # it runs in a call
    waited: float = 0.0  # of the seconds, for other ranks; on the middle rank


@dataclass
class PlanReport:
    """A plan: what was fused, and what it spent."""

    name: str
    tasks: int
    groups: int
    temporaries: int
    temporary_bytes: int  # of all ranks
    exchanges: int
    exchange_bytes: int
    allreduces: int
    peak_bytes: int  # predicted
    calls: int
    hits: int
    misses: int
    missed: str
    plan_seconds: float
    compile_seconds: float
    parts: list[Part] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """A call's time, on the middle rank."""
        return sum(p.seconds.median for p in self.parts if not p.depth)

    @property
    def total(self) -> float:
        """The time of all calls."""
        return self.seconds * self.calls


@dataclass
class Report:
    """What a profiled run did.  Raises `ValueError` where a file holds no report."""

    ranks: int
    seconds: float  # from the first to the last profiled call, everything included
    stream: float  # bytes a second of a copy on each rank, all at once
    peak_bytes: list[int]  # resident, of each rank
    plans: list[PlanReport] = field(default_factory=list)

    def save(self, path: str | Path) -> None:
        """Write it as JSON."""
        Path(path).write_text(json.dumps({"format": FORMAT, **asdict(self)}, indent=1) + "\n")

    @staticmethod
    def load(path: str | Path) -> Report:
        """Read what `save` wrote."""
        try:
            given = json.loads(Path(path).read_text())
        except json.JSONDecodeError as error:
            raise ValueError(f"{path} is no report: {error}") from None
        if not isinstance(given, dict) or given.get("format") != FORMAT:
            raise ValueError(f"{path} is no report: its format is not {FORMAT!r}")
        try:
            plans = [_plan(p) for p in given.pop("plans")]
            del given["format"]
            return Report(**given, plans=plans)
        except (KeyError, TypeError) as error:
            raise ValueError(f"{path} is no report of this version: {error}") from None


def _plan(given: dict[str, Any]) -> PlanReport:
    parts = [Part(**{**p, "seconds": Times(**p["seconds"])}) for p in given.pop("parts")]
    return PlanReport(**given, parts=parts)


# --- as text -------------------------------------------------------------------------------------


def columns() -> int:
    """The width of the terminal, at least 80."""
    return max(80, shutil.get_terminal_size((80, 24)).columns)


def size(count: float) -> str:
    """Bytes in words."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.3g} GB"


def duration(seconds: float) -> str:
    """Seconds in words."""
    for limit, factor, unit in ((1e-3, 1e6, "us"), (1.0, 1e3, "ms"), (float("inf"), 1.0, "s")):
        if seconds < limit:
            return f"{seconds * factor:.3g} {unit}"
    raise ValueError(f"no time: {seconds}")


def brief(lines: list[str], width: int = 22) -> str:
    """Source lines in few letters: the file, and the lines from first to last.

    >>> brief(["flow.py:8", "flow.py:12", "flow.py:9"])
    'flow.py:8-12'
    """
    places: dict[str, list[int]] = {}
    for line in lines:
        name, _, number = line.rpartition(":")
        places.setdefault(name, []).append(int(number) if number.isdigit() else 0)
    words = []
    for name, numbers in places.items():
        first, last = min(numbers), max(numbers)
        words.append(f"{name}:{first}" + (f"-{last}" if last > first else ""))
    text = ", ".join(words)
    return text if len(text) <= width else "..." + text[3 - width :]


def _count(number: int, word: str) -> str:
    ending = ("es" if word.endswith("s") else "s") if number != 1 else ""
    return f"{number} {word}{ending}"


def render(report: Report, width: int | None = None) -> str:
    """A report as text, as wide as the terminal unless told, at least 80 columns."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    console = Console(width=width or columns(), record=True, file=io.StringIO(), highlight=False)
    console.print(_heading(report), soft_wrap=True)
    whole = sum(p.total for p in report.plans) or 1.0
    for number, plan in enumerate(report.plans, 1):
        console.print(
            f"\n[bold]plan {number}: {plan.name}[/bold]  {plan.total / whole:.0%} of the time", soft_wrap=True
        )
        for line in _facts(plan):
            console.print("  " + line)
        table = Table(box=SIMPLE_HEAD, padding=0)
        for n, column in enumerate(("part", "source", "runs", "time", "ranks", "waits", "moved", "GB/s", "stream")):
            table.add_column(column, justify="left" if n < 2 else "right", no_wrap=True)
        for part in plan.parts:
            table.add_row(*_row(part, report.stream))
        console.print(table)
    return "".join(line.rstrip() + "\n" for line in console.export_text().splitlines())


def _heading(report: Report) -> str:
    ranks = _count(report.ranks, "rank")
    peaks = size(max(report.peak_bytes)) if report.peak_bytes else "-"
    return (
        f"profile of {duration(report.seconds)} on {ranks}; a copy runs at {report.stream / 1e9:.1f} GB/s a rank\n"
        f"peak memory {peaks} on the rank with most, the interpreter's included\n"
        "groups and exchanges ran one by one, which takes a little longer than unprofiled"
    )


def _facts(plan: PlanReport) -> Iterator[str]:
    kernels = sum(p.kernels for p in plan.parts)
    yield (
        f"{_count(plan.tasks, 'task')} in {_count(plan.groups, 'group')}, {_count(kernels, 'kernel')}; "
        f"{plan.temporaries} temporaries never made ({size(plan.temporary_bytes)})"
    )
    yield (
        f"{_count(plan.exchanges, 'exchange')} ({size(plan.exchange_bytes)} a rank), "
        f"{_count(plan.allreduces, 'allreduce')}; predicted peak {size(plan.peak_bytes)} a rank"
    )
    yield (
        f"{_count(plan.calls, 'call')} of {duration(plan.seconds)}; planned in "
        f"{duration(plan.plan_seconds)}, compiled in {duration(plan.compile_seconds)}; "
        f"{_count(plan.hits, 'hit')}, {_count(plan.misses, 'miss')}"
    )
    if plan.missed:
        yield f"the plan was new: {plan.missed}"


def _row(part: Part, stream: float) -> list[str]:
    t, moved = part.seconds, part.bytes * part.times
    speed = moved / t.median if t.median and part.kind not in ("exchange", "allreduce") else 0.0
    return [
        f"{' ' * part.depth}{part.kind} {part.number}",
        brief(part.lines, 20),
        f"{part.times:.3g}" if part.times < 1000 else f"{part.times:.0f}",
        duration(t.median) if t.median else "-",
        _spread(t) if t.most > t.least else "-",
        f"{part.waited / t.median:.0%}" if part.waited and t.median else "-",
        size(moved) if moved else "-",
        f"{speed / 1e9:.1f}" if speed else "-",
        f"{speed / stream:.0%}" if speed and stream else "-",
    ]


def _spread(t: Times) -> str:
    """The least and the largest time, in the unit that the middle one is shown in."""
    factor = next((f for limit, f in ((1e-3, 1e6), (1.0, 1e3)) if t.median < limit), 1.0)
    return "-".join(f"{x * factor:.{2 if x * factor < 100 else 3}g}" for x in (t.least, t.most))


def compare(new: Report, old: Report, width: int | None = None) -> str:
    """What differs between two runs, plan by plan: times and counts, old and new."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    console = Console(width=width or columns(), record=True, file=io.StringIO(), highlight=False)
    console.print(f"{new.ranks} ranks against {old.ranks}; a call's time, new / old")
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for n, column in enumerate(("plan", "old", "new", "ratio", "groups", "exchanges", "temporaries")):
        table.add_column(column, justify="left" if n == 0 else "right", no_wrap=n > 0)
    left = list(old.plans)
    for plan in new.plans:
        match = next((p for p in left if p.name == plan.name and p.tasks == plan.tasks), None)
        match = match or next((p for p in left if p.name == plan.name), None)
        if match is None:
            table.add_row(plan.name, "-", duration(plan.seconds), "-", str(plan.groups), str(plan.exchanges), "")
            continue
        left.remove(match)
        ratio = f"{plan.seconds / match.seconds:.2f}" if match.seconds else "-"
        changes = (f"{a}" if a == b else f"{a} -> {b}" for a, b in (
            (match.groups, plan.groups), (match.exchanges, plan.exchanges), (match.temporaries, plan.temporaries),
        ))  # fmt: skip
        table.add_row(plan.name, duration(match.seconds), duration(plan.seconds), ratio, *changes)
    for plan in left:
        table.add_row(plan.name, duration(plan.seconds), "-", "-", str(plan.groups), str(plan.exchanges), "")
    console.print(table)
    return "".join(line.rstrip() + "\n" for line in console.export_text().splitlines())
