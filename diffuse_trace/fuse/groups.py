"""Groups: which tasks run as one, and in which phase between two points of communication."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ..ir import Access
from .communication import crosses
from .constraints import PAPER, RENAMED, Placed
from .versions import Versions

Constraint = Callable[[Placed, Placed], str | None]


@dataclass
class Draft:
    """A group while it grows: its tasks in program order, its phase and why it does not hold the next task.

    The rest is an index of the tasks, so that a task is compared with the few that can refuse it instead of with all:
    ``lead`` fixes the launch domain, ``writers`` are found by the version they write, ``crossing`` are those that read
    a store (by id) across pieces.
    """

    phase: int
    tasks: list[Placed] = field(default_factory=list)
    ended: str = ""
    lead: Placed | None = None
    writers: dict[int, Placed] = field(default_factory=dict)
    crossing: dict[int, Placed] = field(default_factory=dict)

    def add(self, task: Placed) -> None:
        """Take a task in."""
        self.tasks.append(task)
        self.writers[task.write] = task
        if self.lead is None and not task.partition.replicated:
            self.lead = task
        for access, need in zip(task.task.inputs, task.needs, strict=True):
            if isinstance(access, Access) and crosses(need):
                self.crossing.setdefault(access.store.id, task)

    def refuses(self, task: Placed, constraints: Sequence[Constraint]) -> str:
        """Why the group cannot hold a task that comes after all of its own; empty where it can."""
        sources = (self.writers.get(v) for v in (*task.reads, task.previous) if v is not None)
        for first in (self.lead, *sources, self.crossing.get(task.task.output.store.id)):
            if first is not None:
                for constraint in constraints:
                    if reason := constraint(first, task):
                        return reason
        return ""


def _draft(phase: int, task: Placed, ended: str = "") -> Draft:
    draft = Draft(phase, ended=ended)
    draft.add(task)
    return draft


def form_groups(tasks: Sequence[Placed], versions: Versions, mode: str, live: frozenset[int]) -> list[Draft]:
    """Partition the tasks into groups, in an order that respects every dependence.

    ``mode`` is ``"1"`` (the whole window: independent tasks move so that groups grow and communication
    coalesces), ``"paper"`` (the greedy prefix with all four of the paper's constraints) or ``"0"`` (one task a group).
    """
    if mode == "0":
        return [_draft(i, t, "fusion is off") for i, t in enumerate(tasks)]
    if mode == "paper":
        return _greedy_prefixes(tasks)
    return _by_phase(tasks, versions, live)


def _greedy_prefixes(tasks: Sequence[Placed]) -> list[Draft]:
    groups: list[Draft] = []
    for task in tasks:
        if groups:
            groups[-1].ended = groups[-1].refuses(task, PAPER)
        if not groups or groups[-1].ended:
            groups.append(_draft(len(groups), task))
        else:
            groups[-1].add(task)
    return groups


def _producers(tasks: Sequence[Placed]) -> dict[int, int]:
    """For each version that the tasks make, the place of the task that makes it; all others are there before."""
    return {task.write: n for n, task in enumerate(tasks)}


def phases(tasks: Sequence[Placed], versions: Versions) -> list[int]:
    """The earliest phase of each task: one more than that of a task whose result it needs from other ranks."""
    result: list[int] = []
    producers = _producers(tasks)
    for task in tasks:
        phase = 0
        wanted = [(v, crosses(n)) for v, n in zip(task.reads, task.needs, strict=True) if v >= 0]
        if task.previous is not None:
            wanted.append((task.previous, False))
        for version, remote in wanted:
            producer = producers.get(version)
            if producer is not None:
                # An allreduce and the exchanges that need its result stand at the same point, in this order.
                phase = max(phase, result[producer] + (bool(tasks[producer].combined) or remote))
        result.append(phase)
    return result


def sink(tasks: Sequence[Placed], versions: Versions, early: Sequence[int], live: frozenset[int]) -> list[int]:
    """Phases with temporaries moved to where they are used, so that they need not be kept in between.

    A task is moved if only later phases use its result, and if what it reads is kept anyway or moves along.
    """
    result = list(early)
    producers = _producers(tasks)
    users: dict[int, list[tuple[int, bool]]] = {}  # version -> (task, whether it needs it from other ranks)
    for n, task in enumerate(tasks):
        for version, need in zip(task.reads, task.needs, strict=True):
            if version >= 0:
                users.setdefault(version, []).append((n, crosses(need)))
        if task.previous is not None:
            users.setdefault(task.previous, []).append((n, False))

    def kept(version: int, phase: int, but: int) -> bool:
        """Whether a version is in memory in a phase, wherever task ``but`` is placed, or costs nothing to keep."""
        producer = producers.get(version)
        if producer is None or version in live or tasks[producer].combined or not versions.all[version].store.shape:
            return True
        if any(remote or (n != but and result[n] > result[producer]) for n, remote in users[version]):
            return True
        return all(result[n] >= phase for n, _ in users[version])

    for n in range(len(tasks) - 1, -1, -1):
        task = tasks[n]
        used = users.get(task.write, [])
        if task.combined or task.write in live or not used or any(remote for _, remote in used):
            continue
        phase = min(result[user] for user, _ in used)
        before = result[n]
        result[n] = phase
        sources = [*task.reads, task.previous]
        if not all(kept(v, phase, n) for v in sources if v is not None and v >= 0):
            result[n] = before
    return result


def _by_phase(tasks: Sequence[Placed], versions: Versions, live: frozenset[int]) -> list[Draft]:
    groups: list[Draft] = []
    home: dict[int, int] = {}  # version -> position of the group that makes it
    placed = sink(tasks, versions, phases(tasks, versions), live)
    for task, phase in zip(tasks, placed, strict=True):
        sources = [*task.reads, task.previous]
        first = max((home[v] for v in sources if v is not None and v in home), default=0)
        chosen = -1
        for g in range(first, len(groups)):
            if groups[g].phase != phase:
                continue
            reason = groups[g].refuses(task, RENAMED)
            if not reason:
                chosen = g
                break
            groups[g].ended = groups[g].ended or reason
        if chosen < 0:
            # Keep the groups ordered by phase; positions behind the new one move.
            chosen = next((g for g in range(len(groups)) if groups[g].phase > phase), len(groups))
            groups.insert(chosen, Draft(phase))
            home = {v: g + (g >= chosen) for v, g in home.items()}
        groups[chosen].add(task)
        home[task.write] = chosen
    for earlier, later in zip(groups, groups[1:], strict=False):
        if not earlier.ended:
            reasons = (earlier.refuses(task, RENAMED) for task in later.tasks)
            earlier.ended = next(filter(None, reasons), "the next tasks wait for communication")
    return groups
