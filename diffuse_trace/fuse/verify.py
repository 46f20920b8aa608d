"""Checks of a plan: that it computes what its program says, on every rank.

They trust the program and where the plan puts stores and tasks, and derive all else anew: what a read needs from other
ranks is compared with what has been sent, not with what the planner noted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

from ..errors import ProgramError
from ..ir import Access, Split
from .communication import Gather, Halo, Local, Move, Need, crosses, need, product_need, shifts_of
from .constraints import PAPER, RENAMED, Placed
from .plan import Choose, Exchange, Group, Plan, Reduction, Repeat, Step


def _where(placed: Placed) -> str:
    return f" ({placed.task.line})" if placed.task.line else ""


def every_task_once(plan: Plan) -> None:
    """Each task of the program is in one group, and in each group tasks are in program order."""
    planned = sorted(t for g in plan.groups() for t in g.tasks)
    if planned != list(range(len(plan.program.tasks))):
        raise ProgramError(f"the groups hold the tasks {planned}")
    for group in plan.groups():
        if list(group.tasks) != sorted(group.tasks):
            raise ProgramError(f"a group runs its tasks in the order {list(group.tasks)}")


def every_element_has_an_owner(plan: Plan) -> None:
    """Stores and index spaces lie wholly within the blocks of their partitions."""
    for id, store in plan.program.stores().items():
        if not plan.alignment.stores[id].complete(store.shape):
            raise ProgramError(f"elements of %{id} {store.shape} have no owner: {plan.alignment.stores[id]}")
    for placed in plan.placed:
        if not placed.partition.complete(placed.task.shape):
            raise ProgramError(f"points of {placed.task.op} have no owner: {placed.partition}{_where(placed)}")


def writes_stay_at_home(plan: Plan) -> None:
    """A task is launched where its output lies: writes never move data."""
    for placed in plan.placed:
        output = placed.task.output
        home = plan.alignment.stores[output.store.id]
        if placed.task.reduces:
            stays = placed.partition.reduced(output.view) == home
        else:
            stays = placed.partition.replicated or placed.partition == home.pull(output.view)
        if not stays:
            raise ProgramError(
                f"{placed.task.op} over {placed.partition} writes %{output.store.id}, which lies elsewhere"
            )


def versions_are_made_before_they_are_used(plan: Plan) -> None:
    """Reads, partial writes and exchanges come after what they see; results of reductions after their allreduce."""

    def visit(steps: Iterable[Step], ready: set[int]) -> None:
        waiting: set[int] = set()
        for step in steps:
            if isinstance(step, Reduction):
                for item in step.items:
                    if item.version not in waiting:
                        raise ProgramError(f"an allreduce of version {item.version}, which is not partial")
                    waiting.discard(item.version)
                    ready.add(item.version)
            elif isinstance(step, Exchange):
                have(ready, "an exchange", [t.version for t in step.transfers])
            elif isinstance(step, Group):
                for task in step.tasks:
                    placed = plan.placed[task]
                    used = [v for v in (*placed.reads, placed.previous) if v is not None and v >= 0]
                    have(ready, placed.task.op, used, _where(placed))
                    (waiting if placed.combined else ready).add(placed.write)
            elif isinstance(step, Repeat):
                handed = plan.versions.handed[step.region]
                have(ready, "a loop", handed.first)
                ready.update(handed.made)
                inner = set(ready)
                visit(step.condition, inner)
                have(inner, "a loop", [handed.predicate])
                visit(step.body, inner)
                have(inner, "a loop", handed.second)
            else:
                handed = plan.versions.handed[step.region]
                have(ready, "a branch", [handed.predicate])
                arms = set(ready), set(ready)
                visit(step.first, arms[0])
                have(arms[0], "a branch", handed.first)
                visit(step.second, arms[1])
                have(arms[1], "a branch", handed.second)
                ready.update(handed.made)
        if waiting:
            raise ProgramError(f"versions {sorted(waiting)} are never combined")

    def have(ready: set[int], what: str, versions: Iterable[int], where: str = "") -> None:
        for v in versions:
            if v not in ready:
                raise ProgramError(f"{what} uses version {v} before it is complete{where}")

    visit(plan.steps, set(plan.versions.entry.values()))


def handed_versions_lie_alike(plan: Plan) -> None:
    """What a region hands on as one another is partitioned alike."""
    for region in plan.program.regions:
        for value in region.values():
            homes = {plan.alignment.stores[s.id] for s in value.stores()}
            if len(homes) != 1:
                raise ProgramError(f"stores {[s.id for s in value.stores()]} stand for each other and lie apart")


_Shifts = dict[int, set[tuple[int, ...]]]


def needs_are_met(plan: Plan) -> None:
    """What lies on other ranks has been exchanged before it is read (its halo, or the view laid out anew), or is
    computed here too."""

    def visit(steps: Iterable[Step], halos: _Shifts, moves: set[object]) -> None:
        for step in steps:
            if isinstance(step, Exchange):
                for t in step.transfers:
                    if t.view is None:
                        halos[t.version] = halos.get(t.version, set()) | set(t.shifts)
                    else:
                        moves.add((t.version, t.view, t.partition or t.pattern))
            elif isinstance(step, Group):
                _check_group(plan, step, halos, moves)
            elif isinstance(step, Repeat):
                inner, moved = dict(halos), set(moves)
                visit(step.condition, inner, moved)
                visit(step.body, inner, moved)
            elif isinstance(step, Choose):
                visit(step.first, dict(halos), set(moves))
                visit(step.second, dict(halos), set(moves))

    visit(plan.steps, {}, set())


def _check_group(plan: Plan, group: Group, halos: _Shifts, moves: set[object]) -> None:
    made = {plan.placed[t].write for t in group.tasks}
    reach: _Shifts = {}  # of temporaries: how far beyond the own block others of the group read them
    for placed in (plan.placed[t] for t in reversed(group.tasks)):
        extents = reach.get(placed.write, set())
        if extents and placed.write not in group.temporaries:
            raise ProgramError(f"{placed.task.op} is read beyond its block, and is no temporary{_where(placed)}")
        for access, version, noted in zip(placed.task.inputs, placed.reads, placed.needs, strict=True):
            if not isinstance(access, Access):
                continue
            shifts = _wanted(plan, placed, access, version, noted, extents, moves)
            met = shifts <= halos.get(version, set()) & set(shifts_of(noted))
            if version in made and not isinstance(noted, Move | Gather):
                reach.setdefault(version, set()).update(shifts)
                met = not crosses(noted)
            if not met:
                raise ProgramError(f"{placed.task.op} reads %{access.store.id} without {noted}{_where(placed)}")


def _wanted(
    plan: Plan,
    placed: Placed,
    access: Access,
    version: int,
    noted: Need,
    extents: set[tuple[int, ...]],
    moves: set[object],
) -> set[tuple[int, ...]]:
    """The shifts at which elements are read, where the task is computed ``extents`` beyond its block too."""
    wrong = ProgramError(f"{placed.task.op} reads %{access.store.id} without {noted}{_where(placed)}")
    # The lowering reads what the note says, so a view that was moved needs that note too.
    if isinstance(noted, Move):
        if (version, access.view, placed.partition) not in moves or extents:
            raise wrong
        return set()
    home = plan.alignment.stores[access.store.id]
    matrix = next((a for a in placed.task.reads() if a.store.pattern is not None), None)
    if matrix is not None and access is not matrix:
        product = product_need(access, home, matrix, placed.partition)
        moved = isinstance(product, Gather) and (version, access.view, product.pattern) not in moves
        if noted != product or moved or extents:
            raise wrong
        return set(shifts_of(product))
    if all(parts == 1 for parts in (*home.grid, *placed.partition.grid)):
        return set()
    wanted = need(access, home, placed.partition, sys.maxsize)
    if not isinstance(wanted, Local | Halo):
        raise wrong
    here = home.pull(access.view)
    if here.replicated:
        return set()
    base = wanted.shifts if isinstance(wanted, Halo) else (0,) * len(here.dims)
    shifts = {base}
    if extents:
        cut = [isinstance(d, Split) and d.parts > 1 for d in here.dims]
        shifts |= {tuple(b + x * c for b, x, c in zip(base, e, cut, strict=True)) for e in extents}
    return {s for s in shifts if any(s)}


def temporaries_stay_inside(plan: Plan) -> None:
    """A temporary is made and used in one group, is no partial result and does not live on."""
    final = {v for s, v in plan.versions.final.items() if s in plan.program.live}
    sent = {t.version for e in plan.exchanges() for t in e.transfers}
    users: dict[int, set[int]] = {}
    for placed in plan.placed:
        for version in (*placed.reads, placed.previous):
            if version is not None:
                users.setdefault(version, set()).add(placed.index)
    final |= {v for h in plan.versions.handed for v in (h.predicate, *h.first, *h.second)}
    for group in plan.groups():
        for version in group.temporaries:
            producer = plan.versions.all[version].producer
            if version in final or producer not in group.tasks or plan.placed[producer].combined:
                raise ProgramError(f"version {version} is no temporary of its group")
            if version in sent or not users.get(version, set()) <= set(group.tasks):
                raise ProgramError(f"temporary {version} is used outside its group")


def constraints_hold(plan: Plan) -> None:
    """Any two tasks of a group may be fused, by the rules of the plan's mode."""
    constraints = PAPER if plan.mode == "paper" else RENAMED
    for group in plan.groups():
        if plan.mode == "0" and len(group.tasks) > 1:
            raise ProgramError(f"fusion is off, and {len(group.tasks)} tasks are in one group")
        tasks: list[Placed] = [plan.placed[t] for t in group.tasks]
        for n, second in enumerate(tasks):
            for first in tasks[:n]:
                for constraint in constraints:
                    reason = constraint(first, second)
                    if reason:
                        raise ProgramError(f"{constraint.__name__}: {reason}{_where(second)}")


CHECKS: tuple[Callable[[Plan], None], ...] = (
    every_task_once,
    every_element_has_an_owner,
    writes_stay_at_home,
    versions_are_made_before_they_are_used,
    handed_versions_lie_alike,
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


__all__ = ["CHECKS", "verify_plan"]
