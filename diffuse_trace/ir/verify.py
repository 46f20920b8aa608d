"""Checks of a program: what every pass may rely on.

Views inside their stores, tasks over one domain and the like are checked where those objects are made.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ..errors import ProgramError
from .partition import Pinned, Split
from .program import Program
from .region import Block, Branch, Loop, Region
from .store import Store
from .task import REDUCTIONS, IndexTask, Operand, Privilege


def _where(task: IndexTask) -> str:
    return f" ({task.line})" if task.line else ""


def stores_are_declared_once(program: Program) -> None:
    """A store has one shape and dtype wherever it is named, and is an input once at most."""
    declared = dict(program.stores())
    ids = [store.id for store, _ in program.inputs]
    if len(set(ids)) != len(ids):
        raise ProgramError(f"the inputs {sorted(ids)} name a store twice")
    for store, _ in program.inputs:
        if declared.setdefault(store.id, store) != store:
            raise ProgramError(f"input %{store.id} is declared as {store} and as {declared[store.id]}")


def regions_nest(program: Program) -> None:
    """Regions lie one in the other or apart."""
    program.block()


def reads_have_data(program: Program) -> None:
    """A task or a region reads only what is an input or has been written, at least in part, before."""

    def walk(block: Block, known: set[int]) -> None:
        for item in block.items:
            if isinstance(item, int):
                task = program.tasks[item]
                for access in task.reads():
                    if access.store.id not in known:
                        raise ProgramError(
                            f"{task.op} reads %{access.store.id}, which nothing has written{_where(task)}"
                        )
                known.add(task.output.store.id)
                continue
            number, first, second = item
            region = program.regions[number]
            if isinstance(region, Loop):
                have(region, known, [c.initial for c in region.carried])
                known |= {c.inside.id for c in region.carried}
                inner = set(known)
                walk(first, inner)
                have(region, inner, [region.predicate])
                walk(second, inner)
                have(region, inner, [c.result for c in region.carried])
            else:
                assert isinstance(region, Branch)
                have(region, known, [region.predicate])
                arms = set(known), set(known)
                walk(first, arms[0])
                walk(second, arms[1])
                have(region, arms[0], [c.first for c in region.chosen])
                have(region, arms[1], [c.second for c in region.chosen])
                known |= {c.final.id for c in region.chosen}

    def have(region: Region, known: set[int], stores: list[Store]) -> None:
        for store in stores:
            if store.id not in known:
                where = f" ({region.line})" if region.line else ""
                raise ProgramError(
                    f"a {type(region).__name__.lower()} needs %{store.id}, which nothing has made{where}"
                )

    walk(program.block(), {store.id for store, _ in program.inputs})


def loops_carry_what_they_change(program: Program) -> None:
    """A store from outside that a region writes is among what it hands on, in each region that it lies in."""

    def walk(block: Block, outside: set[int]) -> set[int]:
        written: set[int] = set()
        for item in block.items:
            if isinstance(item, int):
                written.add(program.tasks[item].output.store.id)
                continue
            number, first, second = item
            region = program.regions[number]
            inner = walk(first, outside | written) | walk(second, outside | written)
            handed = {value.stores()[1 if isinstance(region, Loop) else 2].id for value in region.values()}
            lost = sorted((inner & (outside | written)) - handed)
            if lost:
                raise ProgramError(f"stores {lost} are written in a region that does not hand them on")
            written |= handed
        return written

    walk(program.block(), {store.id for store, _ in program.inputs})


def operands_exist(program: Program) -> None:
    """Scalars are among the program's operands."""
    for task in program.tasks:
        for i in task.inputs:
            if isinstance(i, Operand) and not 0 <= i.index < len(program.operands):
                raise ProgramError(f"{task.op} uses operand {i.index} of {len(program.operands)}{_where(task)}")


def inputs_only_read(program: Program) -> None:
    """The accesses of a task's inputs have the privilege READ; what is changed is its output."""
    for task in program.tasks:
        for access in task.reads():
            if access.privilege is not Privilege.READ:
                raise ProgramError(f"{task.op} reads %{access.store.id} with {access.privilege.value}{_where(task)}")


def updates_read_what_they_keep(program: Program) -> None:
    """A task that reads and writes has its store's old elements, seen through the same view, among its inputs."""
    for task in program.tasks:
        out = task.output
        if out.privilege is Privilege.READ_WRITE and not any(
            a.store == out.store and a.view == out.view for a in task.reads()
        ):
            raise ProgramError(f"{task.op} updates %{out.store.id} without reading it{_where(task)}")


def live_stores_exist(program: Program) -> None:
    """What lives on is an input or is written."""
    known = {store.id for store, _ in program.inputs} | {t.output.store.id for t in program.tasks}
    known |= {value.stores()[1 if isinstance(r, Loop) else 2].id for r in program.regions for value in r.values()}
    lost = sorted(program.live - known)
    if lost:
        raise ProgramError(f"stores {lost} are live, but nothing writes them")


def partitions_fit(program: Program) -> None:
    """Partitions cut axes that their stores have, all over the same number of ranks."""
    ranks = None
    for store, partition in program.inputs:
        for d in partition.dims:
            if isinstance(d, Split) and not 0 <= d.axis < len(store.shape):
                raise ProgramError(f"%{store.id} of {len(store.shape)} axes is cut along axis {d.axis}")
            if isinstance(d, Pinned) and not 0 <= d.index < d.extent:
                raise ProgramError(f"%{store.id} is pinned to index {d.index} of {d.extent}")
        if not partition.complete(store.shape):
            raise ProgramError(f"elements of %{store.id} {store.shape} have no owner: {partition}")
        if partition.dims:
            count = math.prod(partition.grid)
            if ranks not in (None, count):
                raise ProgramError(f"%{store.id} lies over {count} ranks, another input over {ranks}")
            ranks = count


def reductions_are_whole(program: Program) -> None:
    """A task that reduces replaces all elements of its output."""
    for task in program.tasks:
        out = task.output
        if task.reduces and any(
            a.source is None or (a.offset, a.step) != (0, 1) or out.view.shape[a.source] != n
            for a, n in zip(out.view.axes, out.store.shape, strict=True)
        ):
            raise ProgramError(f"{task.op} reduces into a part of %{out.store.id}{_where(task)}")
        if task.reduces and out.reduction not in REDUCTIONS:
            raise ProgramError(f"{task.op} reduces with {out.reduction!r}{_where(task)}")


def reductions_make_their_stores(program: Program) -> None:
    """A reduction's store is new: where its result lies follows from the task, so it can have no place before."""
    known = {store.id for store, _ in program.inputs}
    for task in program.tasks:
        id = task.output.store.id
        if task.reduces and id in known:
            raise ProgramError(f"{task.op} reduces into %{id}, which has data already{_where(task)}")
        known.add(id)


CHECKS: tuple[Callable[[Program], None], ...] = (
    stores_are_declared_once,
    regions_nest,
    reads_have_data,
    loops_carry_what_they_change,
    operands_exist,
    inputs_only_read,
    updates_read_what_they_keep,
    live_stores_exist,
    partitions_fit,
    reductions_are_whole,
    reductions_make_their_stores,
)


def verify(program: Program) -> None:
    """Run all checks.  Raises `ProgramError` that names the check."""
    for check in CHECKS:
        try:
            check(program)
        except ProgramError as error:
            raise ProgramError(f"{check.__name__}: {error}") from None


__all__ = ["CHECKS", "verify"]
