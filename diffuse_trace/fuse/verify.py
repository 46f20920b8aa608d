"""Checks of a plan: that it computes what its program says."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import ProgramError
from ..ir import Access
from .communication import Halo, Local, Move
from .constraints import RENAMED, Placed
from .plan import Exchange, Group, Plan, Reduction


def every_task_once(plan: Plan) -> None:
    """Each task of the program is in one group."""
    planned = sorted(t for g in plan.groups() for t in g.tasks)
    if planned != list(range(len(plan.program.tasks))):
        raise ProgramError(f"the groups hold the tasks {planned}")


def versions_are_made_before_they_are_used(plan: Plan) -> None:
    """Reads, and partial writes, come after what they see; results of reductions after their allreduce."""
    ready = set(plan.versions.entry.values())
    waiting: set[int] = set()
    for step in plan.steps:
        if isinstance(step, Reduction):
            for item in step.items:
                if item.version not in waiting:
                    raise ProgramError(f"an allreduce of version {item.version}, which is not partial")
                waiting.discard(item.version)
                ready.add(item.version)
        elif isinstance(step, Exchange):
            for t in step.transfers:
                if t.version not in ready:
                    raise ProgramError(f"version {t.version} is sent before it is made")
        else:
            for task in step.tasks:
                placed = plan.placed[task]
                previous = plan.versions.all[placed.write].previous
                for v in (*placed.reads, previous):
                    if v is not None and v >= 0 and v not in ready:
                        raise ProgramError(
                            f"{placed.task.op} uses version {v} before it is complete ({placed.task.line})"
                        )
                (waiting if placed.combined else ready).add(placed.write)
    if waiting:
        raise ProgramError(f"versions {sorted(waiting)} are never combined")


def needs_are_met(plan: Plan) -> None:
    """What lies on other ranks has been exchanged before it is read."""
    halos: dict[int, set[tuple[int, ...]]] = {}
    moves: set[object] = set()
    for step in plan.steps:
        if isinstance(step, Exchange):
            for t in step.transfers:
                if t.view is None:
                    halos.setdefault(t.version, set()).update(t.shifts)
                else:
                    moves.add((t.version, t.view, t.partition))
        elif isinstance(step, Group):
            for task in step.tasks:
                placed = plan.placed[task]
                for access, version, need in zip(placed.task.inputs, placed.reads, placed.needs, strict=True):
                    met = isinstance(need, Local)
                    if isinstance(need, Halo):
                        met = need.shifts in halos.get(version, set())
                    if isinstance(need, Move) and isinstance(access, Access):
                        met = (version, access.view, placed.partition) in moves
                    if not met:
                        raise ProgramError(
                            f"{placed.task.op} reads version {version} without {need} ({placed.task.line})"
                        )


def temporaries_stay_inside(plan: Plan) -> None:
    """A temporary is made and used in one group, and does not live on."""
    final = {v for s, v in plan.versions.final.items() if s in plan.program.live}
    for group in plan.groups():
        for version in group.temporaries:
            if version in final or plan.versions.all[version].producer not in group.tasks:
                raise ProgramError(f"version {version} is no temporary of its group")
            for placed in plan.placed:
                previous = plan.versions.all[placed.write].previous
                if placed.index not in group.tasks and version in (*placed.reads, previous):
                    raise ProgramError(f"temporary {version} is used outside its group")


def constraints_hold(plan: Plan) -> None:
    """Any two tasks of a group may be fused."""
    for group in plan.groups():
        tasks: list[Placed] = [plan.placed[t] for t in group.tasks]
        for n, second in enumerate(tasks):
            for first in tasks[:n]:
                for constraint in RENAMED:
                    reason = constraint(first, second)
                    if reason:
                        raise ProgramError(f"{constraint.__name__}: {reason}")


CHECKS: tuple[Callable[[Plan], None], ...] = (
    every_task_once,
    versions_are_made_before_they_are_used,
    needs_are_met,
    temporaries_stay_inside,
    constraints_hold,
)


def verify_plan(plan: Plan) -> None:
    """Run all checks.  Raises `ProgramError` that names the check."""
    for check in CHECKS:
        try:
            check(plan)
        except ProgramError as error:
            raise ProgramError(f"{check.__name__}: {error}") from None
